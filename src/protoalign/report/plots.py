"""Plots, as the bytes of SVG files. Their text and lines are dark on a light page and light on a dark one."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from protoalign.report.pictures import BAD, GOOD, colour, enlarged, glyph, signed
from protoalign.report.result import Bin
from protoalign.report.story import Finding, Trace
from protoalign.settings import Engine

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
ENGINES: dict[Engine, str] = {"bayes": AFTER, "opa": "#1593a5"}
SURE = 0.99
MOST_TYPES = 24  # strips
MOST_BARS = 12  # with a number below
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
        figure, axis = _axis((5.2, 2.7))
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
        return _svg(figure)


def beliefs(found: Finding, trace: Trace, episode: int = 0) -> bytes:
    """What each tile type was believed to be before every step of an episode, and after all; below, how sure the whole
    mapping was, actions and rewards."""
    steps = np.flatnonzero(trace.episode == episode)
    types, count = found.types[:MOST_TYPES], len(steps)
    over_time = np.where(trace.met[steps, :, None], trace.belief[steps], np.nan)  # a type is nothing before it is met
    with matplotlib.rc_context(SETTINGS):
        figure = Figure((9.6, 0.62 * (len(types) + 1) + 0.86))
        top, bottom = 0.3 / figure.get_figheight(), 0.56 / figure.get_figheight()
        ratios = {"width_ratios": (0.045, 0.82, 0.09, 0.045), "wspace": 0.04, "hspace": 0.16}
        box = {"left": 0.01, "right": 0.99, "top": 1 - top, "bottom": bottom}
        axes: Any = figure.subplots(len(types) + 1, 4, squeeze=False, gridspec_kw=ratios | box)
        for i, (tile, strip, final, verdict) in enumerate(axes[:-1]):
            _tile(tile, types[i])
            _tile(verdict, found.source[found.verdict[i]])
            _strip(strip, over_time[:, i])
            _strip(final, found.belief[i][None])
        for axis, said in ((axes[-1, 0], "sure"), (axes[-1, 3], f"{found.sureness:.2f}")):
            axis.text(0.5, 0.5, said, ha="center", va="center", transform=axis.transAxes)
            axis.set_axis_off()
        _sure(axes[-1, 1], trace.sureness[steps])
        _sure(axes[-1, 2], np.array([found.sureness]))
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


def sureness(trace: Trace, final: float) -> bytes:
    """How sure the whole mapping was before every step of all episodes, and after the last."""
    values = np.append(trace.sureness, final)
    with matplotlib.rc_context(SETTINGS):
        figure, axis = _axis((9.6, 2.2))
        axis.axhline(SURE, color=INK, lw=0.9, ls=(0, (4, 3)))
        axis.plot(np.arange(len(values)), values, color=AFTER, lw=1.8, drawstyle="steps-post")
        axis.plot(len(values) - 1, final, "o", color=AFTER, ms=5, clip_on=False)
        starts = np.flatnonzero(np.diff(trace.episode, prepend=-1))
        for number, start in enumerate(starts.tolist()):
            axis.axvline(start, color=LINE, lw=1)
            if len(starts) <= 12:
                axis.text(start, 1.06, f" episode {number + 1}", fontsize=9)
        axis.set(xlim=(0, len(values) - 1), ylim=(0, 1.03), xlabel="steps in the target", ylabel="sureness")
        axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        return _svg(figure)


def episodes(played: Mapping[Engine, Sequence[float]], source: tuple[float, float]) -> bytes:
    """Returns of episodes 1, 2, ... by engine, as bars beside each other; the source's mean as a line, its 95 % interval."""
    with matplotlib.rc_context(SETTINGS):
        figure, axis = _axis((5.4, 3.0))
        wide = 0.8 / len(played)
        for i, (engine, earned) in enumerate(played.items()):
            places = np.arange(1, len(earned) + 1) + (i - (len(played) - 1) / 2) * wide
            axis.bar(places, earned, 0.9 * wide, color=ENGINES[engine], label=engine)
        mean, half = source[0], 1.96 * source[1]
        axis.axhspan(mean - half, mean + half, color=SOURCE, alpha=0.3, lw=0)
        axis.axhline(mean, color=SOURCE, lw=1.8, label="source, mean")
        axis.axhline(0, color=INK, lw=0.9)
        most = max(len(earned) for earned in played.values())
        axis.set(xlim=(0.4, most + 0.6), xlabel="episode in the target", ylabel="return")
        axis.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        figure.legend(loc="outside upper center", ncols=len(played) + 1, frameon=False)
        return _svg(figure)


def ratios(measured: Sequence[tuple[float, float]]) -> bytes:
    """Returns of games 1, 2, ... of many worlds divided by the source's, (mean, standard error), with 95 % intervals."""
    with matplotlib.rc_context(SETTINGS):
        figure, axis = _axis((5.4, 3.0))
        means, errors = np.array(measured, float).T
        places = np.arange(1, len(means) + 1)
        axis.bar(places, means, 0.5, color=AFTER)
        axis.errorbar(places, means, 1.96 * errors, fmt="none", ecolor=INK, elinewidth=1.4, capsize=4)
        axis.axhline(1, color=SOURCE, lw=1.8)
        axis.axhline(0, color=INK, lw=0.9)
        axis.set(xlim=(0.4, len(means) + 0.6), xlabel="game in an imagined world", ylabel="return ÷ source’s")
        said = [f"{place}: {mean:.2f}".replace("-", "−") for place, mean in zip(places, means, strict=True)]
        axis.set_xticks(places[:MOST_BARS], said[:MOST_BARS])
        return _svg(figure)


def calibration(bins: Sequence[Bin]) -> bytes:
    """How often the mapping was right, against how sure it was said to be; the area of a point is how many steps it is of."""
    said, right, counts = np.array(bins, float).T
    with matplotlib.rc_context(SETTINGS):
        figure, axis = _axis((4.4, 4.0))
        axis.plot((0, 1), (0, 1), color=INK, lw=0.9, ls=(0, (4, 3)))
        axis.scatter(said, right, 16 + 320 * counts / counts.max(), color=AFTER, alpha=0.75, lw=0, clip_on=False, zorder=3)
        axis.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), xlabel="said", ylabel="share right", aspect="equal")
        axis.grid(axis="x")
        return _svg(figure)


def _axis(size: tuple[float, float]) -> tuple[Figure, Axes]:
    """A plain one."""
    figure = Figure(size, layout="constrained")
    axis = figure.add_subplot()
    axis.grid(axis="y")
    axis.tick_params(length=0)
    axis.spines["left"].set_visible(False)
    return figure, axis


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


def _sure(axis: Axes, values: np.ndarray) -> None:
    """Sureness [T] as an area, one column per step."""
    edges = np.arange(len(values) + 1)
    axis.fill_between(edges, np.append(values, values[-1]), step="post", color=SOURCE, lw=0.3)
    axis.set(xlim=(0, len(values)), ylim=(0, 1), xticks=[], yticks=[])
    axis.tick_params(length=0)
    axis.spines[["left", "top", "right"]].set_visible(False)


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
