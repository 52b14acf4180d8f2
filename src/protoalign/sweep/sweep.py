"""A sweep: all jobs of a grid, those that are done skipped, with a live table and one file of results."""

import fcntl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from protoalign.errors import UserError
from protoalign.files import read_json, write_json
from protoalign.sweep.cluster import on_ray
from protoalign.sweep.grid import Grid, jobs
from protoalign.sweep.job import finished, run_job
from protoalign.sweep.processes import on_processes
from protoalign.sweep.tasks import Outcome, Task

SHOWN = 20  # rows of the live table
TAIL = 400  # bytes at the end of a log that are looked at


def do_all(
    tasks: list[Task], logs: Path, workers: int = 1, ray: str | None = None, retries: int = 2, show: bool = True
) -> Iterator[Outcome]:
    """Do tasks on so many processes of this machine, or on a Ray cluster; outcomes as they come, and a live table of it."""
    if workers < 1 or retries < 0:
        raise UserError(f"--workers {workers}, --retries {retries}: use at least 1 and 0")
    with _table(len(tasks), logs, show) as (begun, ended):
        todo = on_ray(tasks, ray, logs, retries, begun) if ray else on_processes(tasks, workers, logs, retries, begun)
        for outcome in todo:
            ended(outcome)
            yield outcome


def sweep(
    grid: Grid, out: Path, workers: int = 1, ray: str | None = None, retries: int = 2, show: bool = True
) -> dict[str, Any]:
    """Do all that is missing of a grid in folders under `out`; what was found, which is then in `out`/results.json, too.

    {"runs": {NAME: what `run_job` returned, or {"error": ..., "attempts": ...}}, "seconds": of this sweep}.
    """
    started = time.monotonic()
    every = jobs(grid)
    out = out.absolute()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot use {out} for a sweep: {error.strerror}") from None
    runs: dict[str, Any] = {job.name: found for job in every if (found := finished(job, out))}
    tasks = [Task(job.name, run_job, (job, out)) for job in every if job.name not in runs]
    if show and runs:
        Console(stderr=True).print(f"{len(runs)} of {len(every)} runs are done already", highlight=False)

    def keep() -> dict[str, Any]:
        found = {job.name: runs[job.name] for job in every if job.name in runs}
        write_json(out / "results.json", {"runs": earlier | found})
        return {"runs": found, "seconds": round(time.monotonic() - started, 3)}

    with (out / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another sweep is under way in {out}: wait for it, or choose another --out") from None
        earlier = _earlier(out)
        for outcome in do_all(tasks, out / "logs", workers, ray, retries, show) if tasks else ():
            failed = {"error": outcome.error, "attempts": outcome.attempts}
            runs[outcome.name] = failed if outcome.error else outcome.value | {"attempts": outcome.attempts}
            keep()
        return keep()


def _earlier(out: Path) -> dict[str, Any]:
    """What sweeps in this folder have found before, of other grids too."""
    try:
        found = read_json(out / "results.json") if (out / "results.json").exists() else {}
    except UserError:
        found = {}
    runs = found.get("runs") if isinstance(found, dict) else None
    return runs if isinstance(runs, dict) else {}


def summary(found: dict[str, Any]) -> Table:
    """Of a sweep's results: return ratios over seeds, by world, method and look."""
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in found["runs"].values():
        for look, figures in run.get("looks", {}).items():
            for method, row in figures.items():
                rows.setdefault((run["world"], run["preset"], method, look), []).append(row)
    table = Table("world", "preset", "method", "look", "seeds", "source return", "target / source", "mapping right")
    for key, some in rows.items():
        source, ratio, right = (_values(some, name) for name in ("source_return", "ratio", "mapping_correct"))
        told = f"{int(sum(right))} of {len(right)}" if right else ""
        table.add_row(*map(escape, key), str(len(some)), _mean(source), _mean(ratio), told)
    return table


def _values(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [float(row[name]) for row in rows if isinstance(row.get(name), int | float)]


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{error}"


@contextmanager
def _table(total: int, logs: Path, show: bool) -> Iterator[tuple[Callable[[str], None], Callable[[Outcome], None]]]:
    """Functions that are told when a task begins and what became of it: a table in a terminal, lines elsewhere."""
    under_way: dict[str, float] = {}
    ended: list[Outcome] = []
    console = Console(stderr=True)
    live = show and console.is_terminal

    def draw() -> Table:
        failed = sum(outcome.error is not None for outcome in ended)
        table = Table("run", "minutes", "now", title=f"{len(ended)} of {total} runs ended, {failed} failed")
        for name, since in list(under_way.items())[:SHOWN]:
            table.add_row(escape(name), f"{(time.monotonic() - since) / 60:.1f}", escape(_last_line(logs / f"{name}.log")))
        for outcome in [outcome for outcome in ended if outcome.error][-SHOWN:]:
            table.add_row(escape(outcome.name), f"{outcome.seconds / 60:.1f}", f"[red]{escape(outcome.error or '')}")
        return table

    def begun(name: str) -> None:
        under_way[name] = time.monotonic()

    def end(outcome: Outcome) -> None:
        under_way.pop(outcome.name, None)
        ended.append(outcome)
        if show and not live:
            became = outcome.error or "done"
            line = f"{len(ended)} of {total}  {outcome.name}  {outcome.seconds:.0f} s  {became}"
            print(line, file=sys.stderr, flush=True)

    if live:
        with Live(console=console, get_renderable=draw, refresh_per_second=1):
            yield begun, end
    else:
        yield begun, end


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, 2) - TAIL, 0))
            lines = file.read().decode(errors="replace").replace("\r", "\n").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
