"""What commands print: results as tables and sentences, or as one line of JSON."""

import json
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

# The best mean return of a task policy in the source domain in the paper's table of all results, after 25 M steps.
PAPER_SOURCE_RETURN = {"hunter-z1c1": 1.73, "hunter-z2c2": 3.22, "hunter-z3c3": 4.40, "hunter-z4c4": 5.61}


def show_move(out: Path, result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return print_json(result)
    table = Table("look", "taken for", "probability", "right", title=f"{result['env']}, moved to the look '{result['target']}'")
    for row in result["mapping"]:
        right = "yes" if row["true"] == row["found"] else "no"
        table.add_row(
            f"of {row['true']}" + ("" if row["unseen"] else " (seen before)"), row["found"], f"{row['probability']:.4f}", right
        )
    Console().print(table)
    for doubt in result["doubts"]:
        say(f"Note: {doubt}.")
    before, after = (f"{result[name]:.3f} ± {result[f'{name}_se']:.3f}" for name in ("target_return_before", "target_return"))
    say(f"target return before {before}, after {result['explore_episodes']} episodes ({result['target_steps']} steps) {after}")
    ratio, games = f"{result['ratio']:.3f} ± {result['ratio_se']:.3f}", result.get("games", 2048)
    say(f"target / source: {ratio} (standard errors over {games:,} episodes)")
    spent = ", ".join(f"{name} {value:.0f} s" for name, value in result["seconds"].items())
    say(f"everything right after one episode: {result['one_episode_correct']:.3f} of the time. {spent}")
    say(f"Everything is in {out}.")


def show_task(out: Path, result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return print_json(result)
    from protoalign.runs import Run

    # After a move into the original Crafter, "source" is the original; our world is where the policy was trained.
    where = "world" if "world_return" in result else "source"
    paper = PAPER_SOURCE_RETURN.get(result["env"])
    table = Table(title=f"Task policy in {result['env']} (seed {result['seed']}, preset {result['preset']})", show_header=False)
    table.add_row("return", f"{result[f'{where}_return']:.3f} ± {result[f'{where}_return_se']:.3f} (standard error)")
    table.add_row("episodes measured", f"{result[f'{where}_episodes']:,}")
    if paper:
        table.add_row("the paper's, after 25 M steps", f"{paper:.2f}")
    if f"{where}_score" in result:
        table.add_row("Crafter's score, %", f"{result[f'{where}_score']:.1f}")
        rates = sorted(result[f"{where}_achievements"].items(), key=lambda pair: -pair[1])
        table.add_row("unlocked in a game, %", ", ".join(f"{name} {100 * rate:.0f}" for name, rate in rates))
    table.add_row("steps trained", f"{result['task_steps']:,}")
    table.add_row("seconds, compiling included", f"{result['seconds']['task']:.0f}")
    table.add_row("return while learning", curve([row["return"] for row in Run(out).metrics("task")]))
    Console().print(table)
    say(f"Everything is in {out}. Next: protoalign evaluate {out}   or   protoalign play {result['env']}")


def show_baseline(out: Path, result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return print_json(result)
    title = f"{result['baseline']} in {result['env']} (seed {result['seed']}, preset {result['preset']}, {result['encoder']})"
    table = Table("", "steps of fine-tuning", "return", "target / source", title=title)
    rows = [("source", None, result["source"]), *((row["label"], row["steps"], row) for row in result["target"])]
    for label, steps, row in rows:
        ratio = f"{row['ratio']:.3f}" if row.get("ratio") is not None else ""  # none if nothing was learned at home
        used = "" if steps is None else f"{steps:,}"
        table.add_row(label, used, f"{row['return']:.3f} ± {row['return_se']:.3f}", ratio)
    Console().print(table)
    if "mapping" in result:
        wrong = [f"{a} as {b}" for a, b in result["mapping"].items() if a != b]
        say(f"the target, in the source's look: {first(wrong, 'all right')}")
    if "shown" in result:
        lost = [f"{name} {share:.2f}" for name, share in result["shown"].items() if share < 0.995]
        say(f"tiles that reconstructions do not always show: {first(lost, 'none')}")
    for domain, used in result["steps"].items():
        say(f"steps, {domain}: " + ", ".join(f"{stage} {steps:,}" for stage, steps in used.items()))
    say("seconds: " + ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in result["seconds"].items()))
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


def say(text: str) -> None:
    """One line, as it is."""
    Console().print(text, highlight=False, markup=False, soft_wrap=True)


def curve(values: list[float | None], width: int = 48) -> str:
    """Numbers as a row of small bars."""
    known = [v for v in values if v is not None]
    if not known:
        return ""
    picked = [known[i * len(known) // width] for i in range(width)] if len(known) > width else known
    low, high = min(picked), max(picked)
    bars = "▁▂▃▄▅▆▇█"
    return "".join(bars[int((v - low) / (high - low or 1) * 7.99)] for v in picked) + f"  {low:.2f} to {high:.2f}"


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value))
