"""The method beside its baselines: returns, ratios, data used, and return against steps in the target."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jax
import numpy as np
from matplotlib.figure import Figure

from protoalign import envs
from protoalign.baselines.run import run as baseline
from protoalign.config import Encoder
from protoalign.envs import appearance
from protoalign.envs.hunter import CATEGORY_NAMES
from protoalign.experiments import paper
from protoalign.experiments.tables import Runs, over_seeds, table

Baselines = dict[str, Runs]  # by name
FEW = 100_000  # steps
LEARNED = 0.2  # return at home; below it a ratio says nothing
MARKS = {
    "ppo": ("#666666", "o"),
    "darla": ("#e7298a", "s"),
    "lusr": ("#a6761d", "D"),
    "unit4rl": ("#d95f02", "v"),
    "ltmbr": ("#7570b3", "^"),
}

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
    about = f"Preset fast, {seeds(baselines)}, means and standard errors over seeds, 2,048 episodes per figure and seed"
    return f"{about}; rows before the end of fine-tuning: while learning. Steps: " + "; ".join(parts) + "."


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
            home = over_seeds([run["result"]["source"]["return"] for run in group], 2) if group else ""
            away = over_seeds([adapted(run, label, share)[1] for run in group], 2) if group else ""
            cells.append(f"{home} / {away}" if group else "")
        rows.append([with_steps(shown, baselines[name], label, share), *cells, _paper(theirs)])
    cells = [
        f"{over_seeds([run['result']['source_return'] for run in group], 2)} / "
        f"{over_seeds([run['result']['target_return'] for run in group], 2)}"
        for group in opa.values()
    ]
    steps = np.mean([run["result"]["target_steps"] for group in opa.values() for run in group])
    own = "; ".join(f"{paper.SOURCE[w][0]:.2f} / {paper.TARGET[w][0]:.2f}" for w in opa)
    rows.append([f"**protoalign**, {steps:.0f} steps in the target", *cells, own])
    return table("All methods: returns at home and in the target", columns, rows, budget(baselines) if baselines else "")


def with_steps(shown: str, runs: Runs, label: str, share: float) -> str:
    steps, _ = adapted(next(iter(runs.values()))[0], label, share)
    return f"{shown}, {steps / 1e6:.1f} M steps" if steps else shown


def _paper(name: str) -> str:
    if not name:
        return ""
    found = paper.BASELINES[name]
    return "; ".join(f"{'' if home is None else f'{home:.2f} / '}{away:.2f}" for home, away in found)


def ratios(opa: Runs, baselines: Baselines) -> str:
    """The paper's table of aggregate ratios."""
    rows = []
    for name, label, share, shown, theirs in ROWS:
        if name in baselines:
            every = [run for group in baselines[name].values() for run in group]
            pairs = [(adapted(run, label, share)[1], run["result"]["source"]["return"]) for run in every]
            named = with_steps(shown, baselines[name], label, share)
            rows.append([named, *_ratio(pairs), _number(paper.RATIOS.get(theirs))])
    pairs = [(run["result"]["target_return"], run["result"]["source_return"]) for group in opa.values() for run in group]
    rows.append(["**protoalign**", *_ratio(pairs), f"{paper.RATIO:.2f}"])
    columns = ["method", "target / source", "± standard error", "lowest and highest run", "runs", "paper"]
    note = (
        "The sum of target returns over all worlds and seeds by the sum of source returns: a mean of ratios would be ruled by "
        "runs that learned next to nothing at home. Errors by leaving out one run at a time; lowest and highest of runs with "
        f"at least {LEARNED} at home. The paper averages ratios of worlds; its 0.84 for LTMBR does not follow from its table "
        "of returns, which gives 0.77 so."
    )
    return table("All methods: performance ratio", columns, rows, note)


def _ratio(pairs: list[tuple[float, float]]) -> list[str]:
    """Of target and source returns: their ratio, its standard error by the jackknife, the range over runs, their number."""
    away, home = np.array(pairs).T
    without = (away.sum() - away) / (home.sum() - home) if len(pairs) > 1 else np.full(1, np.nan)
    error = ((len(pairs) - 1) * np.var(without)) ** 0.5
    each = away[home >= LEARNED] / home[home >= LEARNED]
    between = f"{each.min():.2f} to {each.max():.2f}" if len(each) else ""
    return [f"{away.sum() / home.sum():.3f}", f"{error:.3f}", between, str(len(pairs))]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def data_used(opa: Runs, baselines: Baselines) -> str:
    """The paper's table of data consumption, from what the runs counted."""

    def steps(number: float) -> str:
        return f"{number / 1e6:.2f} M" if number >= 1e4 else f"{number:.0f}" if number else ""

    rows = []
    for name, runs in baselines.items():
        used = next(iter(runs.values()))[0]["result"]["steps"]
        home, away = used.get("source", {}), used.get("target", {})
        cells = [home.get("source", 0), 0, home.get("frames", 0), away.get("adapt", 0), away.get("frames", 0), 0]
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
                home, away, mapping = (result.get(key, {}) for key in ("shown", "shown_target", "mapping"))
                least = [f"{min(by.values()):.2f} ({min(by, key=lambda n: by[n])})" if by else "" for by in (home, away)]
                wrong = ", ".join(f"{a} as {b}" for a, b in mapping.items() if a != b) or "all right" if mapping else ""
                rows.append([name, world, str(result["seed"]), *least, _number(result.get("domain_told")), wrong])
    columns = [
        "baseline",
        "world",
        "seed",
        "least shown at home",
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
            goal = np.mean([run["result"]["target_return"] for run in opa[world]])
            home = np.mean([run["result"]["source"]["return"] for run in group])
            steps, mean = mean_curve(group, stage)
            ours = np.mean([run["result"]["target_steps"] for run in opa[world]])
            rows.append(
                [shown, world, *(_reached(steps, mean, x) for x in (goal, 0.9 * home)), f"{mean[-1]:.2f}", f"{ours:.0f}"]
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


def encoders(runs: Path, world: str) -> Iterator[dict[str, Any]]:
    """PPO on pixels with both kinds of first layers, for the same few steps."""
    for encoder in get_args(Encoder):
        out = runs / f"ppo-{encoder}-{world}-s0"
        result = baseline(name="ppo", env=world, out=out, seed=0, preset="fast", target="target", steps=FEW, encoder=encoder)
        (seconds,) = result["seconds"].values()
        yield {"encoder": encoder, "steps": result["steps"]["source"]["source"], "seconds": seconds, **result["source"]}


def encoder_table(found: dict[str, Any]) -> str:
    rows = [
        [
            row["encoder"],
            f"{row['steps']:,}",
            f"{row['return']:.3f} ± {row['return_se']:.3f}",
            f"{row['seconds']:.0f}",
            f"{row['steps'] / row['seconds']:,.0f}",
        ]
        for row in found["rows"]
    ]
    columns = ["encoder", "steps", "return at home", "seconds", "steps/s"]
    note = (
        "PPO on pixels in hunter-z1c1, seed 0: one layer of 8 x 8 pixels with stride 8, or three convolutions of 4 x 4 with "
        "stride 2, the same body behind both. Seconds include compiling (some twenty), beside other work. So few steps compare "
        "speeds, not what can be learned."
    )
    return table("Encoders of pixels", columns, rows, note)


def mean_curve(group: list[dict[str, Any]], stage: str = "adapt") -> tuple[np.ndarray, np.ndarray]:
    """Steps in the target (with pictures for encoders) and returns, from before any learning there, averaged over seeds."""
    frames = group[0]["result"]["steps"].get("target", {}).get("frames", 0)
    steps = np.array([0.0, *(row["steps"] for row in group[0]["curves"][stage])])
    each = []
    for run in group:
        points = [(0, run["result"]["target"][0]["return"])] + [(r["steps"], r["return"]) for r in run["curves"][stage]]
        each.append(np.interp(steps, *np.array(points).T))
    return frames + steps, np.mean(each, 0)


def figure(opa: Runs, baselines: Baselines, path: Path) -> None:
    """Target return against steps used in the target (pictures for encoders included), one panel per world."""
    drawing = Figure(figsize=(11, 3.4), dpi=140, layout="constrained")
    axes = drawing.subplots(1, len(opa))
    for axis, (world, group) in zip(np.atleast_1d(axes), opa.items(), strict=True):
        ours = [np.mean([run["result"][key] for run in group]) for key in ("target_steps", "target_return")]
        axis.plot(*ours, "*", color="#1b9e77", ms=13, label="protoalign")
        for name, (colour, mark) in MARKS.items():
            runs = baselines.get(name, {}).get(world)
            if not runs:
                continue
            steps, mean = mean_curve(runs)
            axis.plot(steps, mean, color=colour)
            axis.plot(steps[0], mean[0], mark, color=colour, label=name.upper())
            if runs[0]["curves"]["none"]:
                axis.plot(*mean_curve(runs, "none"), ":", color=colour, label=f"{name.upper()} without model")
        axis.set_xscale("symlog", linthresh=10)
        axis.set_xlim(-1, 3e6)
        axis.set_xticks([0, 10, 100, 1000, 10_000, 100_000, 1_000_000])
        axis.set_title(world.removeprefix("hunter-").upper(), loc="left", fontsize=10)
        axis.set_xlabel("steps in the target")
        axis.spines[["top", "right"]].set_visible(False)
    drawing.axes[0].set_ylabel("return in the target")
    drawing.axes[0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path)


def translations(baselines: Baselines, path: Path) -> None:
    """The paper's figure of UNIT4RL: a picture of the target, what it is, and what each seed's translation makes of it."""
    runs = baselines.get("unit4rl", {})
    columns = 2 + max((len(group) for group in runs.values()), default=0)
    drawing = Figure(figsize=(1.9 * columns, 2.3 * max(1, len(runs))), dpi=110, layout="constrained")
    axes = drawing.subplots(max(1, len(runs)), columns, squeeze=False)
    for row, (world, group) in zip(axes, runs.items(), strict=False):
        state = envs.make(world).reset(jax.random.key(0), 1)
        grid = np.asarray(envs.make(world).observe(state))
        looks = [appearance.load(look, CATEGORY_NAMES) for look in ("target", "source")]
        looks += [np.array(run["result"]["translated"], np.uint8).reshape(looks[0].shape) for run in group]
        titles = [f"{world.removeprefix('hunter-').upper()}: target", "true"]
        for run in group:
            wrong = [f"{a} as {b}" for a, b in run["result"]["mapping"].items() if a != b]
            titles.append(f"seed {run['result']['seed']}: {', '.join(wrong) or 'all right'}")
        for axis, look, title in zip(row, looks, titles, strict=False):
            axis.imshow(appearance.render(look, grid)[0])
            axis.set_title(textwrap.fill(title, 26), fontsize=7)
    for axis in axes.flat:
        axis.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path)
