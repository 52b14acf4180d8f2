"""Sections of a page about finding out, in figures: what was earned meanwhile, the engines compared, and how sure they say."""

from math import hypot

from protoalign.report import plots
from protoalign.report.comparison import side_by_side
from protoalign.report.markup import count, decimal, figure, grid, img, measured, section
from protoalign.report.result import ENGINES, Imagined, Result

MOST_EPISODES = 12  # whose returns are drawn


def meanwhile(result: Result) -> str:
    """Returns of the first episodes in the target, while finding out, beside the source's; nothing if none is told."""
    played = {name: one.series("explore_returns") for name, one in result.engines.items()}
    played = {name: earned for name, earned in played.items() if earned}
    body, source = "", result.measured("source_return")
    if played:
        first = {name: earned[:MOST_EPISODES] for name, earned in played.items()}
        told = "; ".join(f"{name} {', '.join(f'{value:.2f}' for value in earned)}" for name, earned in first.items())
        alt = f"Returns of the first episodes in the target: {told}. The source's mean: {source[0]:.2f}"
        said = "Each bar is one episode, so luck is in it; the line is the mean in the source, its width a 95 % interval."
        longest = max(map(len, played.values()))
        if longest > MOST_EPISODES:
            said += f" Of {longest} episodes the first {MOST_EPISODES} are shown."
        body += figure(img(plots.episodes(first, source), alt, "plot"), said, "In this target")
    if result.imagined is not None and result.imagined.returns:
        body += _imagined(result.imagined, source)
    if not body:
        return ""
    about = "What the first episodes in the target earned, while it was not known yet what is what."
    if "bayes" in played:
        about += " With bayes they count: the task policy plays them."
    if "opa" in played:
        about += " With opa a policy plays them that only explores: their returns are not what it is after."
    return section("What finding out costs", about, f'<div class="two">{body}</div>')


def _imagined(found: Imagined, source: tuple[float, float]) -> str:
    """Returns of bayes in many imagined worlds, as a share of the source's where that says something."""
    heading = "On average, bayes in imagined worlds"
    worlds = "many" if found.worlds is None else f"{found.worlds:,}"
    means = ", ".join(f"{decimal(mean)} ± {decimal(error)}" for mean, error in found.returns)
    said = f"The source in {worlds} new looks, imagined. Mean returns of game 1, 2, ...: {means} (standard errors)."
    if source[0] <= 0:
        return figure("", f"{said} The source's return is not above 0, so nothing is divided by it.", heading)
    ratios = [(mean / source[0], hypot(error, mean / source[0] * source[1]) / source[0]) for mean, error in found.returns]
    alt = "Return divided by the source's: " + ", ".join(f"game {i + 1} {ratio:.2f}" for i, (ratio, _) in enumerate(ratios))
    shares = ", ".join(measured(*ratio) for ratio in ratios)
    said += f" Divided by the source’s return: {shares}. The line is the source. Whiskers are 95 % intervals over worlds."
    return figure(img(plots.ratios(ratios), alt, "plot"), said, heading)


def compared(result: Result) -> str:
    """Both engines side by side, if both have run."""
    engines = result.engines
    if len(engines) < 2:
        return ""
    body = grid([f"{name}, {ENGINES[name]}" for name in engines], side_by_side(result))
    said = (
        "“Sure” is what the engine itself says of its whole mapping. The return afterwards is that of the task policy through "
        "the mapping, on games of its own, ± standard error. The rest of this page shows the mapping found by "
        f"{result.engine}."
    )
    return section("The two engines", "The same agent and the same target, found out in two ways.", figure(body, said))


def calibration(result: Result) -> str:
    """Whether bayes is as often right as it says; nothing if that was not measured."""
    found = result.imagined
    if found is None or not found.calibration:
        return ""
    bins = found.calibration
    alt = "Said and right: " + "; ".join(f"{one.said:.2f} and {one.right:.2f} ({one.steps:,} steps)" for one in bins)
    worlds = "many imagined worlds" if found.worlds is None else count(found.worlds, "imagined world")
    said = (
        f"Of all steps of games in {worlds}, each with everything redrawn. A point is the steps at which about the same was "
        "said; its area is how many. On the dashed line, it is right as often as it says; below, less often."
    )
    rows = {decimal(one.said, 4): [decimal(one.right, 4), f"{one.steps:,}"] for one in bins}
    table = figure(grid(["share right", "steps"], rows), _stopping(found), "Said, and right")
    plot = figure(img(plots.calibration(bins), alt, "plot square"), said)
    return section(
        "Is it as sure as it should be?",
        "With every step, bayes says how probable it is that its whole mapping is right.",
        f'<div class="two">{plot}{table}</div>',
    )


def _stopping(found: Imagined) -> str:
    """When it is sure in imagined worlds, and how often it is right."""
    said = ""
    if found.sure_steps is not None:
        said += f"It is 0.99 sure after {measured(*found.sure_steps)} steps on average"
        said += f", in {100 * found.sure_share:.1f} % of worlds" if found.sure_share is not None else ""
        said += f"; right then in {100 * found.sure_right:.1f} % of these." if found.sure_right is not None else "."
    return f"{said} {right_after(found)}".strip()


def right_after(found: Imagined) -> str:
    """How often everything is right after so many games."""
    if not found.correct:
        return ""
    shares = ", ".join(f"{100 * share:.1f} %" for share in found.correct.values())
    return f"After {', '.join(found.correct)} games, everything is right in {shares} of imagined worlds."
