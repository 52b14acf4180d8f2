"""The method beside its baselines: returns, ratios, data used, and return against steps in the target."""

from typing import Any

import numpy as np

from protoalign.reproduction.experiments import paper
from protoalign.reproduction.experiments.tables import Runs, editions, over_seeds, table

Baselines = dict[str, Runs]  # by name
LEARNED = 0.2  # return in the source; below it a ratio says nothing

# Rows of the tables: a baseline, what was done in the target, how much of the fine-tuning, the name it goes by, and the
# paper's name for it.
ROWS = (
    ("ppo", "as it is", 1, "PPO", "PPO"),
    ("darla", "as it is", 1, "DARLA", "DARLA"),
    ("lusr", "as it is", 1, "LUSR", "LUSR"),
    ("unit4rl", "translated", 1, "UNIT4RL, no fine-tuning", "UNIT4RL@0M"),
    ("ltmbr", "new", 1, "LTMBR, untrained", "LTMBR@0M"),
    ("unit4rl", "fine-tuned", 0.6, "UNIT4RL", "UNIT4RL@3M"),
    ("unit4rl", "fine-tuned", 1, "UNIT4RL", "UNIT4RL@5M"),
    ("ltmbr", "model given", 0.6, "LTMBR", "LTMBR@3M"),
    ("ltmbr", "model given", 1, "LTMBR", "LTMBR@5M"),
    ("ltmbr", "no model", 1, "LTMBR's network without a model", ""),
    ("ltmbr", "random model", 1, "LTMBR with a random model", ""),
)


def adapted(run: dict[str, Any], label: str, share: float = 1) -> tuple[float, float]:
    """Steps of fine-tuning and return in the target; before the end, the return while learning."""
    row = next(row for row in run["result"]["target"] if row["label"] == label)
    if share == 1:
        return row["steps"], row["return"]
    steps = share * row["steps"]
    return steps, float(np.interp(steps, *np.array([(r["steps"], r["return"]) for r in run["curves"]["adapt"]]).T))


def seeds(baselines: Baselines) -> str:
    numbers = {len(group) for runs in baselines.values() for group in runs.values()}
    return f"{min(numbers)} to {max(numbers)} seeds" if len(numbers) > 1 else f"{numbers.pop()} seeds"


def budget(baselines: Baselines) -> str:
    """Of all baselines that are there, from their own counts."""
    parts = []
    for name, runs in baselines.items():
        result = next(iter(runs.values()))[0]["result"]
        used = ", ".join(
            f"{domain} " + " + ".join(f"{steps / 1e6:.2f} M {stage}" for stage, steps in by.items())
            for domain, by in result["steps"].items()
            if domain != "control"
        )
        parts.append(f"{name} ({result['encoder']}): {used}")
    games = result["source"]["episodes"]
    about = (
        f"Preset {result['preset']}, {seeds(baselines)}, means and standard errors over seeds, {games:,} episodes per figure"
    )
    return f"{about}; rows before the end of fine-tuning: while learning. Steps: " + "; ".join(parts) + "."


def own_target(result: dict[str, Any]) -> float:
    """The method's return in the target on games of its own, as baselines have theirs."""
    return result.get("target_return_own", result["target_return"])


def returns(opa: Runs, baselines: Baselines) -> str:
    """The paper's table of all results, target returns of every method."""
    columns = ["method", *(f"{world}: source / target" for world in opa), "paper: source / target, in this order"]
    rows = []
    for name, label, share, shown, theirs in ROWS:
        if name not in baselines:
            continue
        cells = []
        for world in opa:
            group = baselines[name].get(world, [])
            source = over_seeds([run["result"]["source"]["return"] for run in group], 2)
            target = over_seeds([adapted(run, label, share)[1] for run in group], 2)
            cells.append(f"{source} / {target}" if group else "")
        rows.append([with_steps(shown, baselines[name], label, share), *cells, _paper(theirs)])
    cells = [
        f"{over_seeds([run['result']['source_return'] for run in group], 2)} / "
        f"{over_seeds([own_target(run['result']) for run in group], 2)}"
        for group in opa.values()
    ]
    steps = np.mean([run["result"]["target_steps"] for group in opa.values() for run in group])
    own = "; ".join(f"{paper.SOURCE[w][0]:.2f} / {paper.TARGET[w][0]:.2f}" for w in opa)
    rows.append([f"**protoalign**, {steps:.0f} steps in the target", *cells, own])
    note = f"{budget(baselines)}{editions(opa)} All targets on games of their own." if baselines else ""
    return table("All methods: returns in the source and in the target", columns, rows, note)


def with_steps(shown: str, runs: Runs, label: str, share: float) -> str:
    steps, _ = adapted(next(iter(runs.values()))[0], label, share)
    return f"{shown}, {steps / 1e6:.1f} M steps" if steps else shown


def _paper(name: str) -> str:
    if not name:
        return ""
    found = paper.BASELINES[name]
    return "; ".join(f"{'' if source is None else f'{source:.2f} / '}{target:.2f}" for source, target in found)


def ratios(opa: Runs, baselines: Baselines) -> str:
    """The paper's table of aggregate ratios."""
    rows = []
    for name, label, share, shown, theirs in ROWS:
        if name in baselines:
            pairs = [
                [(adapted(run, label, share)[1], run["result"]["source"]["return"]) for run in group]
                for group in baselines[name].values()
            ]
            named = with_steps(shown, baselines[name], label, share)
            rows.append([named, *_ratio(pairs), _number(paper.RATIOS.get(theirs))])
    pairs = [[(own_target(run["result"]), run["result"]["source_return"]) for run in group] for group in opa.values()]
    rows.append(["**protoalign**", *_ratio(pairs), f"{paper.RATIO:.2f}"])
    columns = ["method", "target / source", "± standard error", "worlds", "lowest and highest run", "runs", "paper"]
    note = (
        "Within a world, the sum of target returns over seeds by the sum of source returns, so that a run that learned next to "
        "nothing weighs next to nothing; then the mean over worlds in which the source return is at least "
        f"{LEARNED} on average. Errors by leaving out one run of a world at a time; lowest and highest of runs with at least "
        f"{LEARNED} in the source. The method is on games of its own here, as the baselines are. The paper averages ratios of "
        "worlds; its 0.84 for LTMBR does not follow from its table of returns, which gives 0.77 so."
    )
    return table("All methods: performance ratio", columns, rows, note)


def _ratio(worlds: list[list[tuple[float, float]]]) -> list[str]:
    """Of target and source returns by world and run: the mean over worlds of their ratio, its standard error by the jackknife,
    the worlds that count, the range over runs, their number."""
    means, errors, each = [], [], []
    for pairs in worlds:
        target, source = np.array(pairs).T
        learned = source >= LEARNED
        each += list(target[learned] / source[learned])
        if source.mean() >= LEARNED:
            without = (target.sum() - target) / (source.sum() - source) if len(pairs) > 1 else np.full(1, np.nan)
            means.append(target.sum() / source.sum())
            errors.append(((len(pairs) - 1) * np.var(without)) ** 0.5)
    runs = str(sum(map(len, worlds)))
    if not means:
        return ["", "", f"0 of {len(worlds)}", "", runs]
    error = np.linalg.norm(errors) / len(means)
    told = [f"{np.mean(means):.3f}", "" if np.isnan(error) else f"{error:.3f}", f"{len(means)} of {len(worlds)}"]
    return [*told, f"{min(each):.2f} to {max(each):.2f}", runs]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def data_used(opa: Runs, baselines: Baselines) -> str:
    """The paper's table of data consumption, from what the runs counted."""

    def steps(number: float) -> str:
        return f"{number / 1e6:.2f} M" if number >= 1e4 else f"{number:.0f}" if number else ""

    rows = []
    for name, runs in baselines.items():
        used = next(iter(runs.values()))[0]["result"]["steps"]
        source, target = used.get("source", {}), used.get("target", {})
        cells = [source.get("source", 0), 0, source.get("frames", 0), target.get("adapt", 0), target.get("frames", 0), 0]
        rows.append([name, *(steps(x) for x in cells)])
    every = [run for group in opa.values() for run in group]
    mean = {
        key: float(np.mean([run["result"][key] for run in every])) for key in ("task_steps", "explore_steps", "target_steps")
    }
    refreshing = np.mean(
        [
            run["config"]["explore"]["rounds"] * run["config"]["explore"]["episodes"] * run["result"]["episode_steps"]
            for run in every
        ]
    )
    ours = [mean["task_steps"], mean["explore_steps"] + refreshing, 0, 0, 0, mean["target_steps"]]
    rows.append(["**protoalign**", *(steps(x) for x in ours)])
    columns = ["method", "source: pi_task", "pi_exp", "encoder", "target: fine-tuning", "encoder", "exploration"]
    note = (
        "The paper: 25 M steps of pi_task (DARLA and LUSR 100 M), 10 M of pi_exp, 0.5 M for encoders, 0 to 5 M of fine-tuning. "
        "protoalign's pi_exp with the episodes that q_theta is refreshed on. LTMBR's two controls are not counted."
    )
    return table("Data used, in steps", columns, rows, note)


def codes(opa: Runs, baselines: Baselines) -> str:
    """What the encoders and translations made of the pictures."""
    rows = []
    for name, runs in baselines.items():
        for world, group in runs.items():
            for run in group:
                result = run["result"]
                if not result.keys() & {"shown", "mapping"}:
                    continue
                source, target, mapping = (result.get(key, {}) for key in ("shown", "shown_target", "mapping"))
                least = [f"{min(by.values()):.2f} ({min(by, key=by.__getitem__)})" if by else "" for by in (source, target)]
                wrong = ", ".join(f"{a} as {b}" for a, b in mapping.items() if a != b) or "all right" if mapping else ""
                rows.append([name, world, str(result["seed"]), *least, _number(result.get("domain_told")), wrong])
    columns = [
        "baseline",
        "world",
        "seed",
        "least shown in the source",
        "in the target",
        "domain told from the code",
        "the target in the source's look",
    ]
    note = "Shown: share of a kind's tiles, in pictures held out, recognised when painted from the policy's code."
    return table("Codes and translations", columns, rows, note)


def catching_up(opa: Runs, baselines: Baselines) -> str:
    """Steps in the target until the return while learning reaches the method's, by the mean curve over seeds."""
    rows = []
    for name, stage, shown in (
        ("unit4rl", "adapt", "UNIT4RL"),
        ("ltmbr", "adapt", "LTMBR"),
        ("ltmbr", "none", "LTMBR, no model"),
    ):
        for world, group in baselines.get(name, {}).items():
            if world not in opa:
                continue
            goal = float(np.mean([own_target(run["result"]) for run in opa[world]]))
            source = np.mean([run["result"]["source"]["return"] for run in group])
            steps, mean = mean_curve(group, stage)
            ours = np.mean([run["result"]["target_steps"] for run in opa[world]])
            rows.append(
                [shown, world, *(_reached(steps, mean, x) for x in (goal, 0.9 * source)), f"{mean[-1]:.2f}", f"{ours:.0f}"]
            )
    columns = [
        "baseline",
        "world",
        "reaches protoalign's target return after",
        "0.9 of its own source return after",
        "return at the end",
        "protoalign's steps",
    ]
    return table(
        "Steps in the target to catch up", columns, rows, "Returns while learning, pictures for encoders counted as steps."
    )


def mean_curve(group: list[dict[str, Any]], stage: str = "adapt") -> tuple[np.ndarray, np.ndarray]:
    """Steps in the target (with pictures for encoders) and returns, from before any learning there, averaged over seeds."""
    frames = group[0]["result"]["steps"].get("target", {}).get("frames", 0)
    steps = np.array([0.0, *(row["steps"] for row in group[0]["curves"][stage])])
    each = []
    for run in group:
        points = [(0, run["result"]["target"][0]["return"])] + [(r["steps"], r["return"]) for r in run["curves"][stage]]
        each.append(np.interp(steps, *np.array(points).T))
    return frames + steps, np.mean(each, 0)


def _reached(steps: np.ndarray, mean: np.ndarray, goal: float) -> str:
    there = np.flatnonzero(mean >= goal)
    return f"{goal:.2f}: {steps[there[0]] / 1e6:.2f} M" if len(there) else f"{goal:.2f}: not within {steps[-1] / 1e6:.1f} M"


def speeds(opa: Runs, baselines: Baselines) -> str:
    """How fast each stage went: steps or updates a second, in the quickest run, because others shared their core."""
    rows, total = [], 0.0
    for name, runs in baselines.items():
        every = [run for group in runs.values() for run in group]
        for stage in every[0]["result"]["seconds"]:
            settings = every[0]["config"][stage]
            number, unit = (settings["steps"], "steps") if "steps" in settings else (settings["updates"], "updates")
            seconds = [run["result"]["seconds"][stage] for run in every]
            speed, times = number / min(seconds), f"{min(seconds):.0f} to {max(seconds):.0f}"
            rows.append([name, stage, f"{number:,} {unit}", times, f"{speed:,.0f} {unit}/s"])
            total += min(seconds)
    rows.append(["all, quickest", "", "", f"{total:.0f}", ""])
    note = (
        "Shortest and longest over runs, one process per core, compiling included; most shared their core with other work. "
        "UNIT4RL's source policy is PPO's, trained once and counted twice. What limits them: policies on pixels, three passes "
        "of gradients through the spectra (two products of about 70,000 multiplications a state, ten times a step; LTMBR also "
        "computes the latents that follow); policies on codes, the game itself; codes, laying out and painting tiles, bound by "
        "memory; translation, the critics' convolutions."
    )
    return table(
        "Speed of the baselines' stages", ["baseline", "stage", "budget", "seconds", "speed of the quickest"], rows, note
    )
