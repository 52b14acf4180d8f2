"""Plots, as the bytes of SVG files. Their text and lines are dark on a light page and light on a dark one."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from protoalign.report.pictures import BAD, GOOD, colour, enlarged, glyph, signed
from protoalign.report.story import Finding, Trace

# Drawn in these two colours, which `_svg` replaces by whatever suits the page.
INK, LINE = "#010203", "#040506"
STYLE = """<style>
:root { --ink: #3b4454; --line: #d9dee6 }
@media (prefers-color-scheme: dark) { :root { --ink: #b9c2d0; --line: #333c49 } }
text { font-family: system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif !important }
</style>"""
SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: small, and in the reader's font
    "svg.hashsalt": "protoalign",  # the same run gives the same page
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}
NO_METADATA: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
SOURCE, BEFORE, AFTER, OWN = "#7483a0", "#b7791f", "#3a66d6", "#7393e2"
MOST_TYPES = 24  # strips
MOST_REWARDS = 24  # written below a strip


def returns(figures: Sequence[tuple[str, float, float]]) -> bytes:
    """Bars of (name, mean, standard error) with 95 % intervals."""
    with matplotlib.rc_context(SETTINGS):
        figure = Figure((5.4, 0.58 * len(figures) + 0.6), layout="constrained")
        axis = figure.add_subplot()
        names, means, errors = zip(*figures, strict=True)
        rows, half = np.arange(len(figures)), 1.96 * np.array(errors)
        axis.barh(rows, means, 0.56, color=(SOURCE, BEFORE, AFTER, OWN)[: len(figures)])
        axis.errorbar(means, rows, xerr=half, fmt="none", ecolor=INK, elinewidth=1.4, capsize=4)
        low, high = min(0, *(np.array(means) - half)), max(0, *(np.array(means) + half))
        span = high - low or 1
        for y, (mean, reach) in enumerate(zip(means, half, strict=True)):
            right = max(0, mean + reach)  # the number stands right of the bar, and of zero
            axis.text(right + 0.02 * span, y, f"{mean:.2f}".replace("-", "−"), va="center", fontsize=11, fontweight="bold")
        axis.set(yticks=rows, yticklabels=names, xlim=(low - 0.03 * span, high + 0.14 * span), ylim=(len(figures) - 0.5, -0.5))
        axis.tick_params(axis="y", length=0, labelsize=11)
        axis.set_xlabel("mean return of an episode")
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.spines["left"].set_visible(False)
        axis.axvline(0, color=INK, lw=0.9)
        axis.grid(axis="x")
        return _svg(figure)


def curve(points: Sequence[tuple[float, float]], labels: tuple[str, str], shade: str) -> bytes:
    """A learning curve of (x, y): the logged values, faint, and their running mean."""
    values = np.array(points, float).reshape(-1, 2)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure((5.2, 2.7), layout="constrained")
        axis = figure.add_subplot()
        if len(values):
            unit, name = (1e6, "million ") if values[:, 0].max() >= 1e5 else (1, "")
            few = "o" if len(values) < 20 else None
            axis.plot(values[:, 0] / unit, values[:, 1], color=shade, lw=1, alpha=0.35, marker=few, ms=4)
            axis.plot(values[:, 0] / unit, _smooth(values[:, 1]), color=shade, lw=2, solid_capstyle="round")
            axis.set(xlabel=name + labels[0], xlim=(0, None))
            axis.xaxis.set_major_locator(MaxNLocator(5))
        else:
            axis.text(0.5, 0.5, "nothing was logged", ha="center", va="center", transform=axis.transAxes)
        axis.set_ylabel(labels[1])
        axis.yaxis.set_major_locator(MaxNLocator(5))
        if labels[1].startswith("share"):
            axis.set_ylim(0, 1.03)
        axis.grid(axis="y")
        axis.tick_params(length=0)
        axis.spines["left"].set_visible(False)
        return _svg(figure)


def beliefs(found: Finding, trace: Trace, episode: int = 0) -> bytes:
    """What each tile type was believed to be before every step of an episode, and after all; actions and rewards below."""
    steps = np.flatnonzero(trace.episode == episode)
    types, count = found.types[:MOST_TYPES], len(steps)
    over_time = np.where(trace.met[steps, :, None], trace.belief[steps], np.nan)  # a type is nothing before it is met
    with matplotlib.rc_context(SETTINGS):
        figure = Figure((9.6, 0.62 * len(types) + 0.86))
        top, bottom = 0.3 / figure.get_figheight(), 0.56 / figure.get_figheight()
        ratios = {"width_ratios": (0.045, 0.82, 0.09, 0.045), "wspace": 0.04, "hspace": 0.16}
        box = {"left": 0.01, "right": 0.99, "top": 1 - top, "bottom": bottom}
        axes: Any = figure.subplots(len(types), 4, squeeze=False, gridspec_kw=ratios | box)
        for i, (tile, strip, final, verdict) in enumerate(axes):
            _tile(tile, types[i])
            _tile(verdict, found.source[found.verdict[i]])
            _strip(strip, over_time[:, i])
            _strip(final, found.belief[i][None])
        strips, every = axes[-1, 1], _every(count)
        names = [glyph(found.actions[int(trace.action[t])]) for t in steps[::every]]
        strips.set_xticks(np.arange(0, count, every) + 0.5, names, fontsize=12, color=INK, parse_math=False)
        for t, reward in _told(trace.reward[steps]):
            strips.annotate(
                signed(reward), (t + 0.5, -0.58), xycoords=("data", "axes fraction"), ha="center", va="top",
                color="white", fontsize=9, fontweight="bold", annotation_clip=False,
                bbox={"boxstyle": "round,pad=0.25", "facecolor": GOOD if reward > 0 else BAD, "edgecolor": "none"},
            )  # fmt: skip
        for axis, title in zip(axes[0], ("type", f"episode {episode + 1}, step by step", "all", "verdict"), strict=True):
            place = axis.get_position()  # the tiles' axes are lower than the others: titles are set by the figure
            figure.text((place.x0 + place.x1) / 2, 1 - 0.6 * top, title, ha="center", va="center", fontsize=10)
        return _svg(figure)


def _every(count: int) -> int:
    """How many steps lie between two actions that are written down."""
    return next((n for n in (1, 5, 10, 25, 50, 100) if count <= 45 * n), count // 45)


def _told(rewards: np.ndarray) -> list[tuple[int, float]]:
    """The rewards to be written down, with their steps, in order: the largest, none too near to another."""
    told: list[int] = []
    for t in np.argsort(-abs(rewards), kind="stable").tolist():
        if rewards[t] and all(abs(t - other) * MOST_REWARDS >= len(rewards) for other in told):
            told.append(t)
    return [(t, float(rewards[t])) for t in sorted(told)]


def _strip(axis: Axes, belief: np.ndarray) -> None:
    """Probabilities [T, K] as areas that fill the height, one column per step; none where they are not a number."""
    count, kinds = belief.shape
    heights = np.concatenate([np.zeros((count, 1)), np.cumsum(belief, 1)], 1)
    edges = np.arange(count + 1)
    last = heights[np.minimum(edges, count - 1)]  # each column reaches to the next edge
    for c in range(kinds):
        if np.nan_to_num(belief[:, c]).max(initial=0) > 0.001:
            axis.fill_between(edges, last[:, c], last[:, c + 1], step="post", color=colour(c), lw=0.3)
    axis.set(xlim=(0, count), ylim=(0, 1), xticks=[], yticks=[])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _tile(axis: Axes, tile: np.ndarray) -> None:
    axis.imshow(np.asarray(enlarged(tile, 64)), interpolation="none")  # enlarged here: readers of SVG would blur it
    axis.set_axis_off()


def _smooth(values: np.ndarray) -> np.ndarray:
    """Mean of the values around each, fewer at the ends."""
    half = len(values) // 40
    sums = np.concatenate([[0], np.cumsum(values)])
    i = np.arange(len(values))
    left, right = np.maximum(i - half, 0), np.minimum(i + half + 1, len(values))
    return (sums[right] - sums[left]) / (right - left)


def _svg(figure: Figure) -> bytes:
    data = io.BytesIO()
    FigureCanvasSVG(figure)
    figure.savefig(data, format="svg", transparent=True, metadata=NO_METADATA)
    text = data.getvalue().decode().replace(INK, "var(--ink)").replace(LINE, "var(--line)")
    return re.sub(r"(<svg[^>]*>)", lambda tag: tag[1] + STYLE, text, count=1).encode()
