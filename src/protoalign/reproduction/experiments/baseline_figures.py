"""Figures of the method beside its baselines, as PNG files."""

import textwrap
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from protoalign.reproduction.experiments.baseline_tables import Baselines, mean_curve, own_target
from protoalign.reproduction.experiments.tables import Runs
from protoalign.worlds import looks, registry

MARKS = {
    "ppo": ("#666666", "o"),
    "darla": ("#e7298a", "s"),
    "lusr": ("#a6761d", "D"),
    "unit4rl": ("#d95f02", "v"),
    "ltmbr": ("#7570b3", "^"),
}


def returns(opa: Runs, baselines: Baselines, path: Path) -> None:
    """Target return against steps used in the target (pictures for encoders included), one panel per world."""
    drawing = Figure(figsize=(11, 3.4), dpi=140, layout="constrained")
    axes = drawing.subplots(1, len(opa))
    for axis, (world, group) in zip(np.atleast_1d(axes), opa.items(), strict=True):
        steps = np.mean([run["result"]["target_steps"] for run in group])
        axis.plot(steps, np.mean([own_target(run["result"]) for run in group]), "*", color="#1b9e77", ms=13, label="protoalign")
        for name, (colour, mark) in MARKS.items():
            runs = baselines.get(name, {}).get(world)
            if not runs:
                continue
            used, mean = mean_curve(runs)
            axis.plot(used, mean, color=colour)
            axis.plot(used[0], mean[0], mark, color=colour, label=name.upper())
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
        here = registry.make(world)
        grid = np.asarray(here.observe(here.reset(jax.random.key(0), 1)).tiles)
        tables = [here.pictures(look) for look in ("target", "source")]
        tables += [np.array(run["result"]["translated"], np.uint8).reshape(tables[0].shape) for run in group]
        titles = [f"{world.removeprefix('hunter-').upper()}: target", "true"]
        for run in group:
            wrong = [f"{a} as {b}" for a, b in run["result"]["mapping"].items() if a != b]
            titles.append(f"seed {run['result']['seed']}: {', '.join(wrong) or 'all right'}")
        for axis, pictures, title in zip(row, tables, titles, strict=False):
            axis.imshow(looks.render(pictures, grid)[0])
            axis.set_title(textwrap.fill(title, 26), fontsize=7)
    for axis in axes.flat:
        axis.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path)
