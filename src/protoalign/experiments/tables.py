"""Results as tables in Markdown, each beside the paper's figures. Means over seeds, ± the standard error over seeds."""

from typing import Any

import numpy as np

from protoalign.envs.hunter import CATEGORY_NAMES
from protoalign.experiments import paper

Runs = dict[str, list[dict[str, Any]]]  # by world, one per seed


def table(title: str, columns: list[str], rows: list[list[str]], note: str = "") -> str:
    lines = [f"### {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, *(["", note] if note else []), ""])


def over_seeds(values: list[float], digits: int = 3) -> str:
    mean = np.mean(values)
    if len(values) < 2:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"


def budget(runs: Runs) -> str:
    first = next(iter(runs.values()))[0]["result"]
    seeds = ", ".join(str(len(group)) for group in runs.values())
    return (
        f"Preset {first['preset']}; seeds per world: {seeds}; {first['task_steps'] / 1e6:.1f} M steps of the task policy and "
        f"{first['explore_steps'] / 1e6:.1f} M of pi_exp (the paper: 25 M and 10 M)."
    )


def returns(runs: Runs) -> str:
    rows = []
    for world, group in runs.items():
        results = [run["result"] for run in group]
        row = [world]
        for key in ("source_return", "target_return_before", "target_return"):
            row.append(over_seeds([r[key] for r in results]))
        right = sum(r["mapping_correct"] for r in results)
        steps = np.mean([r["target_steps"] for r in results])
        (source, _), (target, spread) = paper.SOURCE[world], paper.TARGET[world]
        rows.append([*row, f"{right} of {len(results)}", f"{steps:.0f}", f"{source:.2f}", f"{target:.2f} (sd {spread:.2f})"])
    columns = [
        "world",
        "source",
        "target, before",
        "target",
        "mappings right",
        "target steps",
        "paper, source",
        "paper, target",
    ]
    note = (
        f"{budget(runs)} 4 episodes of exploration, drawn target look, pixels; 2,048 evaluation episodes per figure and seed."
    )
    return table("Returns at home and in the target", columns, rows, note)


def ratios(runs: Runs) -> str:
    by_world = {world: np.array([run["result"]["ratio"] for run in group]) for world, group in runs.items()}
    rows = [[world, over_seeds(list(values)), "", f"{values.min():.3f}"] for world, values in by_world.items()]
    every = np.concatenate(list(by_world.values()))
    low, high = bootstrap(list(by_world.values()))
    middle = interquartile_mean(every)
    rows.append(["all", f"{every.mean():.3f}", f"{middle:.3f} [{low:.3f}, {high:.3f}]", f"{every.min():.3f}"])
    own = [paper.TARGET[world][0] / paper.SOURCE[world][0] for world in runs]
    note = f"The paper: {paper.RATIO:.2f} ({', '.join(f'{x:.2f}' for x in own)} by its table of returns). {budget(runs)}"
    columns = ["world", "target / source", "interquartile mean [95 % bootstrap]", "lowest seed"]
    return table("Performance ratio, 4 episodes", columns, rows, note)


def interquartile_mean(values: np.ndarray) -> float:
    ordered = np.sort(values)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap(groups: list[np.ndarray], draws: int = 4000) -> tuple[float, float]:
    """95 % interval of the interquartile mean, seeds drawn anew within each world."""
    rng = np.random.default_rng(0)
    means = [interquartile_mean(np.concatenate([rng.choice(g, len(g)) for g in groups])) for _ in range(draws)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _after(run: dict[str, Any], k: int, policy: str = "pi_exp") -> dict[str, Any]:
    return run["imagined"]["policies"][policy]["after"][str(k)]


def _ratio(run: dict[str, Any], k: int, policy: str = "pi_exp") -> float:
    return _after(run, k, policy)["return"][0] / run["imagined"]["source_return"][0]


def episodes(runs: Runs) -> str:
    columns = ["episodes", *runs, "aggregate ratio", "paper, returns", "paper, ratio"]
    rows = []
    for k, (theirs, ratio) in paper.EPISODES.items():
        cells = [over_seeds([_after(run, k)["return"][0] for run in group]) for group in runs.values()]
        ours = np.mean([_ratio(run, k) for group in runs.values() for run in group])
        rows.append([str(k), *cells, f"{ours:.3f}", ", ".join(f"{x:.2f}" for x in theirs), f"{ratio:.2f}"])
    measured = next(iter(runs.values()))[0]["imagined"]
    size = measured["episodes"]
    note = f"Target return; {measured['games']:,} games per figure and seed, the same ones at home. {budget(runs)}"
    first = table("Number of exploration episodes", columns, rows, note)
    rows = []
    for k in paper.EPISODES:
        for label, key in (
            ("one to one, Bayes", "correct"),
            ("type by type, Bayes", "correct_type_by_type"),
            ("one to one, averaged", "correct_averaged"),
            ("type by type, averaged (the paper's way)", "correct_averaged_type_by_type"),
        ):
            rows.append([str(k), label, *(over_seeds([_after(run, k)[key] for run in group], 4) for group in runs.values())])
    note = (
        f"Everything hidden, floor included; {size:,} imagined episodes per seed. The paper, one episode: 0.86 on Z1C1, "
        "above 0.8 on the others."
    )
    return first + "\n" + table("Everything right", ["episodes", "decoding", *runs], rows, note)


def policies(runs: Runs, world: str = "hunter-z1c1") -> str:
    group = runs[world]
    rows = []
    for name in group[0]["imagined"]["policies"]:
        theirs = paper.POLICIES.get(name)
        interactions = [run["imagined"]["policies"][name]["informative_interactions"][0] for run in group]
        rows.append(
            [
                name,
                over_seeds([_after(run, 1, name)["correct"] for run in group]),
                over_seeds([_ratio(run, 1, name) for run in group]),
                over_seeds(interactions),
                " / ".join(f"{x:.2f}" for x in theirs) if theirs else "",
            ]
        )
    note = (
        "An informative interaction is a step with a reward: something was shot, walked into, or walked into the agent. "
        f"pi_task alone takes types for prototypes at random; on beliefs, it sees what q_theta believes. {budget(runs)}"
    )
    columns = ["explorer", "correct mapping", "adaptation ratio", "informative interactions", "paper"]
    return table(f"Who explores: {world}, one episode", columns, rows, note)


def curves(runs: Runs) -> str:
    rows = []
    for world, group in runs.items():
        points = [run["curves"]["explore"] for run in group]
        for i in (0, len(points[0]) // 4, len(points[0]) // 2, len(points[0]) - 1):
            rows.append(
                [
                    world,
                    f"{points[0][i]['steps'] / 1e6:.2f} M",
                    over_seeds([p[i]["one_episode_correct"] for p in points]),
                    over_seeds([p[i]["information"] for p in points]),
                ]
            )
    columns = ["world", "steps of pi_exp", "everything right after one episode", "information gained in one episode, nats"]
    note = (
        "1,024 imagined episodes per point, everything hidden. Knowing nothing of five types costs 5 log 5 = 8.05 nats. "
        "Jumps are refreshments of q_theta."
    )
    return table("Alignment and exploration return while pi_exp learns", columns, rows, note)


def calibration(runs: Runs) -> str:
    rows = []
    for world, group in runs.items():
        for what in group[0]["imagined"]["calibration"]:
            bins: dict[str, list[float]] = {}
            for run in group:
                for said, right, number in run["imagined"]["calibration"][what]["bins"]:
                    for label, low, high in (("0.85 to 0.95", 0.85, 0.95), ("0.98 to 0.99", 0.98, 0.99)):
                        if low <= said < high:
                            pooled = bins.setdefault(label, [0.0, 0.0, 0.0])
                            pooled[0] += said * number
                            pooled[1] += right * number
                            pooled[2] += number
            gap = over_seeds([run["imagined"]["calibration"][what]["expected_calibration_error"] for run in group], 4)
            cells = [f"{a / n:.3f} / {b / n:.3f} ({n:,.0f})" for a, b, n in bins.values()]
            rows.append([world, what, gap, *(cells + [""] * (2 - len(cells)))])
    columns = ["world", "of", "mean gap", "says 0.85 to 0.95: said / right (cases)", "says 0.98 to 0.99: said / right (cases)"]
    return table(
        "Calibration of q_theta on pi_exp's episodes", columns, rows, "At every step of the episodes unless it says otherwise."
    )


def stopping(runs: Runs) -> str:
    rows = []
    for world, group in runs.items():
        for level in group[0]["imagined"]["stopping"]:
            found = [run["imagined"]["stopping"][level] for run in group]
            steps, correct = [f["steps"][0] for f in found], [f["correct"] for f in found]
            rows.append([world, level, over_seeds(correct, 4), over_seeds(steps, 1), str(max(f["most_steps"] for f in found))])
    note = f"At most four episodes. The paper uses about {paper.STEPS_IN_TARGET} steps."
    return table("Stopping when sure", ["world", "sure", "everything right", "target steps", "most"], rows, note)


def reconstruction(data: dict[str, Any]) -> str:
    rows = []
    for row in data["rows"]:
        source, target = (", ".join(f"{row[look][name]:.3f}" for name in CATEGORY_NAMES) for look in ("source", "target"))
        rows.append([str(row["seed"]), source, target, f"{row['threshold']:.3f}", f"{row['random_least']:.2f}"])
        rows[-1] += [f"{row['misses']} of {row['tiles_new']}", f"{row['false_alarms']} of 5"]
    note = (
        f"Kinds in the order {', '.join(CATEGORY_NAMES)}. The paper: {', '.join(map(str, paper.RECONSTRUCTION['source']))} at "
        f"home, {', '.join(map(str, paper.RECONSTRUCTION['target']))} in the target."
    )
    columns = ["seed", "source", "drawn target", "threshold", "least, 51 new sets", "misses", "false alarms"]
    first = table("Reconstruction errors", columns, rows, note)
    levels = [entry["noise"] for entry in data["rows"][0]["under_noise"]]
    noisy = []
    for i, level in enumerate(levels):
        alarms, misses = (np.mean([row["under_noise"][i][key] for row in data["rows"]]) for key in ("false_alarms", "misses"))
        noisy.append([f"{level:.2f}", f"{alarms:.3f}", f"{misses:.4f}"])
    return first + "\n" + table("Novelty under pixel noise", ["noise", "old tiles called new", "new tiles missed"], noisy)


def frozen(data: dict[str, Any]) -> str:
    keys = (
        "halfway",
        "one_episode_correct",
        "one_episode_correct_type_by_type",
        "two_episodes_correct",
        "four_episodes_correct",
    )
    rows = [[row["q_theta"], *(f"{row[key]:.4f}" for key in keys)] for row in data["rows"]]
    columns = ["q_theta", "one episode, halfway", "one episode", "... type by type", "two episodes", "four episodes"]
    steps = data["rows"][0]["steps"] / 1e6
    return table(
        f"q_theta refreshed or frozen: {data['world']}, everything right, {steps:.1f} M steps of pi_exp, seed 0", columns, rows
    )


def random_looks(data: dict[str, Any]) -> str:
    rows = data["rows"]
    right, steps = sum(row["right"] for row in rows), np.mean([row["steps"] for row in rows])
    wrong = ", ".join(row["look"] for row in rows if not row["right"]) or "none"
    cells = [[data["world"], f"{right} of {len(rows)}", wrong, f"{steps:.0f}", f"{min(row['sureness'] for row in rows):.4f}"]]
    columns = ["world", "fully right", "wrong", "target steps, mean", "least sure"]
    return table("Random looks and the drawn one, 4 episodes, pixels, seed 0", columns, cells)


def noise(data: dict[str, Any]) -> str:
    keys = ("kind", "level", "categories", "five_found", "looks_found", "mapping_right", "tiles_right")
    rows = [[str(row[key]) for key in keys] for row in data["rows"]]
    columns = ["kind", "sigma", "categories by", "five looks found", "looks found, mean", "mapping right", "tiles read right"]
    return table(f"Noise in the target: {data['world']}, {data['rows'][0]['looks']} looks each, 4 episodes", columns, rows)


def subsets(data: dict[str, Any]) -> str:
    rows = []
    for size in range(6):
        group = [row for row in data["rows"] if len(row["changed"]) == size]
        right, novel = (sum(row[key] for row in group) for key in ("right", "novelty_right"))
        wrong = "; ".join(",".join(row["changed"]) for row in group if not row["right"]) or "none"
        rows.append([str(size), str(len(group)), str(novel), str(right), wrong])
    columns = ["kinds that look new", "targets", "novelty right", "mapping right", "wrong"]
    return table(f"Targets that changed in part: {data['world']}, 4 episodes", columns, rows)


def mixed(data: dict[str, Any]) -> str:
    rows = []
    for row in data["rows"]:
        found = ", ".join(f"{look.split(': ')[1]} as {kind}" for look, kind in row["mapping"].items())
        rows.append(
            [
                row["look"],
                found,
                f"{row['ratio'][0]:.2f} ± {row['ratio'][1]:.2f}",
                f"{row['before']:.2f}",
                "; ".join(row["says"]),
            ]
        )
    columns = ["target", "looks found, taken as", "ratio", "ratio before", "what it says"]
    return table("Kinds that share a look, and kinds with two", columns, rows)


def variants(data: dict[str, Any]) -> str:
    rows = []
    for env in dict.fromkeys(row["env"] for row in data["rows"]):
        group = [row for row in data["rows"] if row["env"] == env]
        right = [row for row in group if row["mapping_correct"]]
        rows.append(
            [
                env,
                f"{len(right)} of {len(group)}",
                ", ".join(f"{row['sureness']:.2f}{'' if row['mapping_correct'] else ' (wrong)'}" for row in group),
                over_seeds([row["source_return"] for row in group]),
                ", ".join(f"{row['ratio']:.3f}" for row in right) or "none",
            ]
        )
    columns = ["moved to", "mappings right", "how sure, by seed", "same policy, home look", "ratio where right"]
    note = "Trained in hunter-z1c1, moved to another variant and the drawn look; 4 episodes, one transfer per seed."
    return table("To another variant", columns, rows, note)
