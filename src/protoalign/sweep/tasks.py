"""What is done many times: calls with a name, what became of each, and what happens to a call in a worker."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from protoalign.errors import UserError


class Task(NamedTuple):
    """A call that another process makes; it can be made again if that process dies, and goes on where it was."""

    name: str  # of its log file too
    call: Callable[..., Any]  # a function of a module
    args: tuple[Any, ...]


class Outcome(NamedTuple):
    """What became of a task."""

    name: str
    value: Any  # what the call returned; None if it failed
    error: str | None  # why it failed; None if it did not
    attempts: int
    seconds: float  # of the last attempt

    @classmethod
    def of(cls, task: Task, kind: str, value: Any, attempts: int, seconds: float) -> "Outcome":
        """`kind`: done, and the value is what the call returned, or else why it failed."""
        done = kind == "done"
        return cls(task.name, value if done else None, None if done else str(value), attempts, seconds)


class Crash(Exception):
    """A call that ended in an error nobody foresaw, or whose process died: it may be worth another attempt."""


def perform(task: Task, log: Path) -> Any:
    """Make the call; all that it prints goes to the end of a log file. UserErrors pass, others become a `Crash`."""
    with _printing_to(log):
        print(f"--- {task.name}, {time.strftime('%Y-%m-%d %H:%M:%S')}, process {os.getpid()}", file=sys.stderr, flush=True)
        try:
            return task.call(*task.args)
        except UserError as error:
            print(f"protoalign: {error}", file=sys.stderr, flush=True)
            raise UserError(str(error)) from None  # it has to be pickled
        except Exception as error:
            traceback.print_exc()
            raise Crash(f"{type(error).__name__}: {error}".partition("\n")[0]) from None


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Standard output and error of this process, and of what it starts, go into a file meanwhile."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush(), sys.stderr.flush()
    with log.open("a") as file:
        kept = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
