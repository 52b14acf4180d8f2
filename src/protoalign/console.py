"""What commands print: results as tables and sentences, or as one line of JSON. Names are shown as they are."""

import json
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from protoalign.report.comparison import side_by_side
from protoalign.report.result import ENGINES, MET, TOLD, Result, is_number, summary


def show_transfer(result: dict[str, Any], as_json: bool) -> None:
    """What was found in a target, and how well it is played there."""
    if as_json:
        return print_json(result)
    figures = Result(result)
    table = _table("tile type", "is", "taken for", "probability", "right", title=_where(figures))
    for i, row in enumerate(figures.rows):
        right = {True: "yes", False: "NO", None: ""}[row.right]
        which = str(i) if row.unseen else "as in the source"
        table.add_row(*map(text, (which, row.true or "?", row.found, f"{row.probability:.4f}", right)))
    Console().print(table)
    steps, episodes = figures.count("target_steps"), figures.count("explore_episodes")
    say(summary(figures))
    say(f"sureness {figures.number('sureness'):.4f}, after {episodes:,} episodes ({steps:,} steps) in the target")
    if "engine" in figures:
        sure = figures.maybe("sure_after")
        when = "never" if sure is None else f"after {sure:,} steps"
        say(f"found by the engine {figures.engine}, {ENGINES[figures.engine]}; 0.99 sure {when}")
    earned = figures.series("explore_returns")
    if earned:
        say(f"returns meanwhile: {first([f'{value:.2f}' for value in earned], '')}")
    for doubt in figures.words("doubts"):
        say(f"Doubt: {doubt}.")
    say(f"source return {_measured(figures, 'source_return')}")
    before, after = (_measured(figures, name) for name in ("target_return_before", "target_return"))
    say(f"target return before {before}, after {after}; on games of its own {_measured(figures, 'target_return_own')}")
    ratio, own = (_measured(figures, name) for name in ("ratio", "ratio_own"))
    said = (
        " (the very same was played: 1 = identity)" if figures.number("ratio") == 1 and not figures.number("ratio_se") else ""
    )
    say(f"target / source: {ratio} on the same games{said}; {own} on games of its own")
    say(f"(standard errors over {figures.count('games'):,} games)")
    for what, share in _one_episode(figures).items():
        say(f"in training, {what} was right after one episode: {share:.3f} of the time")
    say(_seconds(figures))


def _one_episode(figures: Result) -> dict[str, float]:
    """What one episode told in imagined worlds, and how often, with the engine that found the mapping."""
    if "engine" in figures and figures.engine == "bayes":
        told = {} if figures.imagined is None else figures.imagined.correct
        return {"everything": told["one"]} if "one" in told else {}
    whole = {TOLD[0]: "everything", MET[0]: "all that was met"}
    return {what: figures.share(key) for key, what in whole.items() if key in figures}


def show_engines(result: dict[str, Any]) -> None:
    """The engines of one run side by side."""
    figures = Result(result)
    table = _table("", *figures.engines, title="Finding out by playing (bayes) and by exploring (opa)")
    for name, values in side_by_side(figures).items():
        table.add_row(text(name), *map(text, values))
    Console().print(table)


def show_task(out: Path, result: dict[str, Any], as_json: bool) -> None:
    """How well the task policy plays where it was trained."""
    if as_json:
        return print_json(result)
    from protoalign.runs import Run

    figures = Result(result, out / "result.json")
    where = "trained" if "trained_return" in figures else "source"  # after a transfer, "source" is played through pictures
    about = f"(seed {figures.text('seed')}, preset {figures.text('preset')})"
    table = _table(title=f"Task policy in {figures.text('env')} {about}", show_header=False)
    rows = {
        "return": f"{_measured(figures, f'{where}_return')} (standard error)",
        "length of an episode": f"{figures.number(f'{where}_length'):.1f}",
        "episodes measured": f"{figures.count(f'{where}_episodes'):,}",
    }
    for name, told in figures.extra().items():
        value = told.get(where)
        if isinstance(value, dict):
            best = sorted(value.items(), key=lambda pair: -pair[1])
            rows[name.replace("_", " ")] = ", ".join(f"{key} {number:.2f}" for key, number in best)
        elif value is not None:
            rows[name.replace("_", " ")] = f"{value:,g}"
    rows["steps trained"] = f"{figures.count('task_steps'):,}"
    rows["seconds, compiling included"] = f"{figures.numbers('seconds').get('task', 0):,.0f}"
    rows["return while learning"] = curve([row.get("return") for row in Run(out, create=False).metrics("task")])
    for name, value in rows.items():
        table.add_row(text(name), text(value))
    Console().print(table)
    say(f"Everything is in {out}. Next: protoalign evaluate {out}   or   protoalign play {figures.text('env')}")


def show_baseline(out: Path, result: dict[str, Any], as_json: bool) -> None:
    """How a baseline plays in the source, and in the target after each amount of fine-tuning."""
    if as_json:
        return print_json(result)
    figures = Result(result, out / "result.json")
    about = f"(seed {figures.text('seed')}, preset {figures.text('preset')}, {figures.text('encoder')})"
    title = f"{figures.text('baseline')} in {figures.text('env')} {about}"
    table = _table("", "steps of fine-tuning", "return", "target / source", title=title)
    targets: Any = result.get("target")
    if not isinstance(targets, list):
        figures.refuse("target", "list")
    for i, row in enumerate([result.get("source"), *targets]):
        part = Result(row, f"{out / 'result.json'}, in 'source' or 'target',")
        label, used = (part.text("label"), f"{part.count('steps'):,}") if i else ("source", "")
        ratio = f"{part.number('ratio'):.3f}" if "ratio" in part else ""  # none if nothing was learned in the source
        table.add_row(*map(text, (label, used, _measured(part, "return"), ratio)))
    Console().print(table)
    if "mapping" in figures:
        wrong = [f"{a} as {b}" for a, b in figures.table("mapping").items() if a != b]
        say(f"the target, in the source's look: {first(wrong, 'all right')}")
    if "shown" in figures:
        lost = [f"{name} {share:.2f}" for name, share in figures.numbers("shown").items() if share < 0.995]
        say(f"tiles that reconstructions do not always show: {first(lost, 'none')}")
    steps = Result(result.get("steps", {}), "'steps' in the result")
    for domain in steps.values:
        say(f"steps, {domain}: " + ", ".join(f"{stage} {number:,}" for stage, number in steps.numbers(domain).items()))
    say(_seconds(figures))
    say(f"Everything is in {out}.")


def first(items: list[str], nothing: str, most: int = 12) -> str:
    """A list as a sentence, the rest of a long one counted."""
    more = f" and {len(items) - most} more (result.json)" if len(items) > most else ""
    return ", ".join(items[:most]) + more or nothing


def open_page(path: Path) -> None:
    """Show a page in the browser if there is a person and a screen; say where it is in any case."""
    say(f"See {path} in a browser.")
    screen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen and sys.stdout.isatty():
        webbrowser.open(path.resolve().as_uri())


def say(line: str) -> None:
    """One line, as it is: neither markup nor emoji codes such as `:cow:` are looked for."""
    Console().print(text(line), highlight=False, soft_wrap=True)


def text(words: Any) -> Text:
    """Words to be shown as they are; control signs and broken letters as codes."""
    return Text("".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in str(words)))


def curve(values: list[Any], width: int = 48) -> str:
    """Numbers as a row of small bars; whatever is no number is left out."""
    known = [v for v in values if is_number(v)]
    if not known:
        return ""
    picked = [known[i * len(known) // width] for i in range(width)] if len(known) > width else known
    low, high = min(picked), max(picked)
    bars = "▁▂▃▄▅▆▇█"
    return "".join(bars[int((v - low) / (high - low or 1) * 7.99)] for v in picked) + f"  {low:.2f} to {high:.2f}"


def print_json(value: Any) -> None:
    """One line of JSON, valid in any language: a figure that is not a finite number is null."""
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value


def _table(*columns: str, title: str, show_header: bool = True) -> Table:
    return Table(*columns, title=text(title), show_header=show_header)


def _where(result: Result) -> str:
    nuisances = [f"{key} {result.number(key):g}" for key in ("noise", "jitter") if key in result and result.number(key)]
    return f"{result.text('env')} in the look '{result.text('target')}'" + "".join(f", {nuisance}" for nuisance in nuisances)


def _measured(result: Result, key: str) -> str:
    mean, error = result.measured(key)
    return f"{mean:.3f} ± {error:.3f}"


def _seconds(result: Result) -> str:
    return "seconds: " + ", ".join(f"{stage} {value:,.0f}" for stage, value in result.numbers("seconds").items())
