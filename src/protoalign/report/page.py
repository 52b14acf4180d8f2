"""A finished run as one HTML file: what was learned, what was found in the target, and how. It needs nothing but itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from protoalign.errors import UserError
from protoalign.files import write_atomic
from protoalign.report import engines, figures, finding, target
from protoalign.report.figures import CURVES, UPDATES, Points
from protoalign.report.markup import escape
from protoalign.report.result import Result, is_number
from protoalign.report.story import Finding, Shown, found

Logged = dict[tuple[str, str], Points]  # by stage and figure


def write(path: Path) -> Path:
    """Write report.html into a finished run folder, and tell where it is. Nothing is trained, and nothing found out anew.

    A folder that is not finished, damaged or changed by hand is refused: a `UserError` says in one line what is wrong.
    """
    from protoalign.agent import Agent  # here, since they need JAX
    from protoalign.alignment.mapping import Mapping
    from protoalign.report.replay import CannotShow, again
    from protoalign.runs import Run
    from protoalign.stages import MAPPINGS

    path = Path(path)
    try:
        run = Run(path, create=False)
        result = Result(run.result(), path / "result.json")
        if "target_return" not in result:
            raise UserError(f"the run in {path} is not finished: start its 'protoalign run' command again")
        result.check()
        logged = _logged({stage: run.metrics(stage) for stage, _ in CURVES}, path / "metrics.jsonl")
        agent, mapping = Agent.load(path), Mapping.load(path / MAPPINGS[result.engine])
    except RecursionError:  # JSON of very many brackets
        raise UserError(f"a file in {path} is damaged: restore it, or start anew in another folder") from None
    agent.check(mapping)
    if mapping.engine != result.engine:
        raise UserError(f"the mapping in {path} was found by another engine than result.json says: find it again")
    story = found(mapping, agent.spec.actions, agent.spec.grid)
    shown: Shown | str
    try:
        shown = again(result, agent, mapping)
    except CannotShow as reason:
        shown = str(reason)
    out = path / "report.html"
    try:
        write_atomic(out, render(result, story, shown, logged).encode())
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from None
    return out


def render(result: Result, story: Finding, shown: Shown | str, logged: Logged) -> str:
    """The whole page; `shown` may be the reason why the target cannot be shown again."""
    parts = (
        figures.head(result),
        target.looks(story, shown),
        target.mapping(result, story),
        figures.returns(result),
        engines.meanwhile(result),
        engines.compared(result),
        finding.mind(story),
        finding.settled(story),
        finding.films(story, shown),
        engines.calibration(result),
        figures.learning(result, logged),
        figures.settings(result),
    )
    css = Path(__file__).with_name("page.css").read_text()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(figures.title(result))} – protoalign</title>
<style>
{css}</style>
</head>
<body>
<main>
{"".join(parts)}</main>
</body>
</html>
"""


def _logged(metrics: dict[str, list[dict[str, Any]]], where: Path) -> Logged:
    """What is plotted, checked; rows without a figure, or where it was not a number, are left out."""
    logged: Logged = {}
    for stage, key in CURVES:
        across = "update" if stage in UPDATES else "steps"
        rows: Sequence[dict[str, Any]] = [row for row in metrics[stage] if row.get(key) is not None]
        for row in rows:
            if not is_number(row.get(across)) or not isinstance(row[key], int | float):
                raise UserError(f"{where} has a line of stage {stage} without a number '{across}' or '{key}': remove that line")
        logged[stage, key] = [(row[across], row[key]) for row in rows if is_number(row[key])]
    return logged
