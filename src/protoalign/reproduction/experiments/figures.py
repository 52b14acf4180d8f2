"""Figures out of results, as PNG files."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from protoalign.reproduction.experiments import paper
from protoalign.reproduction.experiments.tables import Runs

COLOURS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a")
PANELS = (
    ("one_episode_correct", "everything right after 1 episode"),
    ("information", "exploration return, nats"),
)


def learning(runs: Runs, path: Path) -> None:
    """The paper's two figures of pi_exp's training: share of correct alignments, and exploration return."""
    figure = Figure(figsize=(9.5, 3.6), dpi=140, layout="constrained")
    for axis, (key, label) in zip(figure.subplots(1, 2), PANELS, strict=True):
        for colour, (world, group) in zip(COLOURS, runs.items(), strict=False):
            curves = [run["curves"]["explore"] for run in group]
            steps = np.array([row["steps"] for row in curves[0]]) / 1e6
            values = np.array([[row[key] for row in curve] for curve in curves])
            mean, error = values.mean(0), values.std(0, ddof=len(values) > 1) / len(values) ** 0.5
            axis.plot(steps, mean, color=colour, label=world.removeprefix("hunter-").upper())
            axis.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
        axis.set_xlabel("million steps of pi_exp")
        axis.set_title(label, loc="left", fontsize=10)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    theirs, *_ = paper.POLICIES["pi_exp"]
    said = f"the paper on Z1C1, after {paper.EXPLORE_STEPS / 1e6:.0f} M"
    figure.axes[0].axhline(theirs, color="grey", lw=1, ls="--")
    figure.axes[0].annotate(said, (0.98, theirs + 0.002), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    figure.axes[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def reliability(runs: Runs, path: Path) -> None:
    """What q_theta says against how often it is right, all seeds of a world together."""
    figure = Figure(figsize=(9.5, 3.8), dpi=140, layout="constrained")
    for axis, what in zip(figure.subplots(1, 2), ("one type", "whole mapping"), strict=True):
        axis.plot([0, 1], [0, 1], color="grey", lw=1, ls="--")
        for colour, (world, group) in zip(COLOURS, runs.items(), strict=False):
            bins = np.array([row for run in group for row in run["imagined"]["calibration"][what]["bins"]])
            said, right, number = bins.T
            slot = np.digitize(said, [0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99])
            points = [
                (
                    np.average(said[slot == i], weights=number[slot == i]),
                    np.average(right[slot == i], weights=number[slot == i]),
                )
                for i in np.unique(slot)
            ]
            axis.plot(*np.array(points).T, "o-", color=colour, ms=4, lw=1, label=world.removeprefix("hunter-").upper())
        axis.set_xlabel("says")
        axis.set_ylabel("is right")
        axis.set_title(what, loc="left", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
