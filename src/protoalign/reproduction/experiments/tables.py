"""Results of the method in Hunter as tables in Markdown, each beside the paper's figures.

Means over seeds, ± the standard error over seeds. What is averaged over worlds is averaged within each of them first.

Results of two editions may lie side by side. In the first one, source and target were played on different games and the source
on prototypes, not through pictures; since the second, both are played on the same games, and the target also on other ones.
"""

from typing import Any

import numpy as np

from protoalign.reproduction.experiments import imagined, paper
from protoalign.reproduction.experiments.looks import kinds
from protoalign.worlds import registry

Runs = dict[str, list[dict[str, Any]]]  # by world, one per seed


def table(title: str, columns: list[str], rows: list[list[str]], note: str = "") -> str:
    lines = [f"### {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, *(["", note] if note else []), ""])


def over_seeds(values: list[float], digits: int = 3) -> str:
    """Mean ± standard error; nothing if there are no values."""
    if not values:
        return ""
    mean = np.mean(values)
    if len(values) < 2:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"


def over_worlds(groups: list[list[float]]) -> float:
    """The mean over worlds of the means over their seeds."""
    return float(np.mean([np.mean(values) for values in groups]))


def first_edition(result: dict[str, Any]) -> bool:
    """Measured before source and target were played on the same games."""
    return "ratio_own" not in result


def own_ratio(result: dict[str, Any]) -> float:
    """Target / source on games of its own: what the first edition measured in Hunter as the ratio."""
    return result.get("ratio_own", result["ratio"])


def budget(runs: Runs) -> str:
    """What was spent, and what is of the first edition, if that is not all."""
    first = next(iter(runs.values()))[0]["result"]
    seeds = ", ".join(str(len(group)) for group in runs.values())
    text = (
        f"Preset {first['preset']}; seeds per world: {seeds}; {first['task_steps'] / 1e6:.1f} M steps of the task policy and "
        f"{first['explore_steps'] / 1e6:.1f} M of pi_exp (the paper: {paper.TASK_STEPS / 1e6:.0f} M and "
        f"{paper.EXPLORE_STEPS / 1e6:.0f} M)."
    )
    return text + editions(runs)


def editions(runs: Runs) -> str:
    """Which runs are of the first edition, as a sentence; nothing if none is."""
    old = {world: [run["result"]["seed"] for run in group if first_edition(run["result"])] for world, group in runs.items()}
    if not any(old.values()):
        return ""
    if all(len(old[world]) == len(group) for world, group in runs.items()):
        which = "all runs"
    else:
        named = [
            world if len(seeds) == len(runs[world]) else f"{world} seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
            for world, seeds in old.items()
            if seeds
        ]
        which = ", ".join(named)
    return f" Of the first edition, which played the target on games of its own only: {which}."


def returns(runs: Runs) -> str:
    rows = []
    for world, group in runs.items():
        results = [run["result"] for run in group]
        row = [world, *(over_seeds([r[key] for r in results]) for key in ("source_return", "target_return_before"))]
        row.append(over_seeds([r["target_return"] for r in results if not first_edition(r)]))
        row.append(over_seeds([r.get("target_return_own", r["target_return"]) for r in results]))
        right = sum(r["mapping_correct"] for r in results)
        steps = np.mean([r["target_steps"] for r in results])
        (source, _), (target, spread) = paper.SOURCE[world], paper.TARGET[world]
        rows.append([*row, f"{right} of {len(results)}", f"{steps:.0f}", f"{source:.2f}", f"{target:.2f} (sd {spread:.2f})"])
    columns = [
        "world", "source", "target, before", "target, same games", "target, its own games", "mappings right", "target steps",
        "paper, source", "paper, target",
    ]  # fmt: skip
    first = next(iter(runs.values()))[0]["result"]
    note = (
        f"{budget(runs)} {first['explore_episodes']} episodes of exploration, drawn target look, pixels; "
        f"{first.get('games', first['source_episodes']):,} evaluation episodes per figure and seed."
    )
    return table("Returns in the source and in the target", columns, rows, note)


IDENTITY = (
    "On the same games a right mapping replays, step by step, what was played in the source: a ratio of exactly 1 is then an "
    "identity, which says that the mapping plays as a right one does and no more. What luck does shows on games of its own."
)


def ratios(runs: Runs) -> str:
    own = {world: [own_ratio(run["result"]) for run in group] for world, group in runs.items()}
    same = {
        world: [run["result"]["ratio"] for run in group if not first_edition(run["result"])] for world, group in runs.items()
    }
    rows = [[world, over_seeds(same[world]), over_seeds(own[world]), "", f"{min(own[world]):.3f}"] for world in runs]
    low, high = bootstrap([np.array(values) for values in own.values()])
    measured = [values for values in same.values() if values]
    every = f"{over_worlds(measured):.3f}" if len(measured) == len(runs) else ""
    lowest = min(min(values) for values in own.values())
    mean = f"{over_worlds(list(own.values())):.3f}"
    rows.append(["mean of worlds", every, mean, f"{low:.3f} to {high:.3f}", f"{lowest:.3f}"])
    theirs = ", ".join(f"{paper.TARGET[world][0] / paper.SOURCE[world][0]:.2f}" for world in runs)
    note = f"{IDENTITY} The paper: {paper.RATIO:.2f} ({theirs} by its table of returns). {budget(runs)}"
    columns = [
        "world",
        "target / source, same games",
        "... on its own games",
        "95 % bootstrap, own games",
        "lowest seed, own games",
    ]
    episodes = next(iter(runs.values()))[0]["result"]["explore_episodes"]
    return table(f"Performance ratio, {episodes} episodes", columns, rows, note)


def bootstrap(groups: list[np.ndarray], draws: int = 4000) -> tuple[float, float]:
    """95 % interval of the mean over worlds of means over seeds, seeds drawn anew within each world."""
    rng = np.random.default_rng(0)
    means = np.mean([rng.choice(g, (draws, len(g))).mean(1) for g in groups], 0)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _after(run: dict[str, Any], k: int, policy: str = "pi_exp") -> dict[str, Any]:
    return run["imagined"]["policies"][policy]["after"][str(k)]


def _ratio(run: dict[str, Any], k: int, policy: str = "pi_exp") -> float:
    return _after(run, k, policy)["return"][0] / run["imagined"]["source_return"][0]


def episodes(runs: Runs) -> str:
    columns = ["episodes", *runs, "ratio, mean of worlds", "paper, returns", "paper, ratio"]
    rows = []
    for k, (theirs, ratio) in paper.EPISODES.items():
        cells = [over_seeds([_after(run, k)["return"][0] for run in group]) for group in runs.values()]
        ours = over_worlds([[_ratio(run, k) for run in group] for group in runs.values()])
        there = ", ".join(f"{theirs[paper.WORLDS.index(world)]:.2f}" for world in runs)
        rows.append([str(k), *cells, f"{ours:.3f}", there, f"{ratio:.2f}"])
    measured = next(iter(runs.values()))[0]["imagined"]
    size = measured["episodes"]
    note = f"Target return; {measured['games']:,} games per figure and seed, the same ones in the source. {budget(runs)}"
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
    correct, *_ = paper.POLICIES["pi_exp"]
    note = (
        f"Everything hidden, floor included; {size:,} imagined episodes per seed. The paper, 1 episode: {correct:.2f} on Z1C1, "
        "above 0.8 on the others."
    )
    return first + "\n" + table("Everything right", ["episodes", "decoding", *runs], rows, note)


def policies(runs: Runs) -> str:
    world, group = next(iter(runs.items()))
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
        "pi_task alone takes tile types for prototypes at random; on beliefs, it sees what q_theta believes. "
        f"{budget({world: group})}"
    )
    columns = ["explorer", "correct mapping", "adaptation ratio", "informative interactions", "paper"]
    return table(f"Who explores: {world}, 1 episode", columns, rows, note)


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
    columns = ["world", "steps of pi_exp", "everything right after 1 episode", "information gained in 1 episode, nats"]
    number = len(kinds(registry.make(next(iter(runs)))))
    note = (
        f"1,024 imagined episodes per point, everything hidden. Knowing nothing of {number} tile types costs {number} log "
        f"{number} = {number * np.log(number):.2f} nats. Jumps are refreshments of q_theta."
    )
    return table("Alignment and exploration return while pi_exp learns", columns, rows, note)


def calibration(runs: Runs) -> str:
    between = ((0.85, 0.95), (0.98, 0.99))
    rows = []
    for world, group in runs.items():
        for what in group[0]["imagined"]["calibration"]:
            every = [run["imagined"]["calibration"][what] for run in group]
            bins = np.array([row for found in every for row in found["bins"]], float).reshape(-1, 3)  # said, right, cases
            cells = []
            for low, high in between:
                said, right, cases = bins[(bins[:, 0] >= low) & (bins[:, 0] < high)].T
                number = cases.sum()
                known = f"{said @ cases / number:.3f} / {right @ cases / number:.3f} ({number:,.0f})" if number else ""
                cells.append(known)
            gap = over_seeds([found["expected_calibration_error"] for found in every], 4)
            rows.append([world, what, gap, *cells])
    columns = ["world", "of", "mean gap", *(f"says {low} to {high}: said / right (cases)" for low, high in between)]
    note = "At every step of the episodes unless it says otherwise."
    return table("Calibration of q_theta on pi_exp's episodes", columns, rows, note)


def stopping(runs: Runs) -> str:
    rows = []
    for world, group in runs.items():
        for level in group[0]["imagined"]["stopping"]:
            found = [run["imagined"]["stopping"][level] for run in group]
            steps, correct = [f["steps"][0] for f in found], [f["correct"] for f in found]
            rows.append([world, level, over_seeds(correct, 4), over_seeds(steps, 1), str(max(f["most_steps"] for f in found))])
    note = f"At most {imagined.MOST} episodes. The paper uses about {paper.STEPS_IN_TARGET} steps."
    return table("Stopping when sure", ["world", "sure", "everything right", "target steps", "most"], rows, note)
