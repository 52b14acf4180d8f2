"""How far along something is: a live bar in a terminal, a line now and then elsewhere."""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0  # between lines, where there is no terminal


def warn(text: str) -> None:
    """One line about something odd that did not stop the work."""
    with beside_bars():
        Console(stderr=True).print(f"[yellow]protoalign:[/] {escape(text)}", highlight=False, soft_wrap=True, emoji=False)


def note(text: str) -> None:
    """One line about something that was found out, beside what is printed as a result."""
    with beside_bars():
        Console(stderr=True).print(f"protoalign: {text}", markup=False, highlight=False, soft_wrap=True, emoji=False)


class _Display:
    """The one place on the terminal where bars live: several may be under way in different threads."""

    def __init__(self) -> None:
        self.lock, self.bars = threading.Lock(), 0
        self.progress: Progress | None = None

    def add(self, console: Console, name: str, total: int, done: int) -> tuple[Progress, TaskID]:
        with self.lock:
            if self.progress is None:
                self.progress = Progress(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TextColumn("{task.percentage:3.0f} %  {task.fields[note]}"),
                    TimeRemainingColumn(compact=True),
                    console=console,
                    speed_estimate_period=20,
                )
                self.progress.start()
            self.bars += 1
            return self.progress, self.progress.add_task(name, total=total, completed=done, note="compiling ...")

    def remove(self) -> None:
        """A bar has ended; with the last one the display does."""
        with self.lock:
            self.bars -= 1
            if not self.bars and self.progress is not None:
                self.progress.stop()
                self.progress = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        with self.lock:
            if self.progress is None:
                yield
                return
            self.progress.stop()
            try:
                yield
            finally:
                self.progress.start()


_display = _Display()


def beside_bars() -> AbstractContextManager[None]:
    """While something is printed: bars of other threads would else be written over it."""
    return _display.paused()


_quiet = threading.local()


@contextmanager
def silent() -> Iterator[None]:
    """This thread shows no bars meanwhile."""
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = False


class Bar:
    """`with Bar("task", total) as bar: bar.advance(n, note)`; `done` is where a resumed job starts."""

    def __init__(self, name: str, total: int, done: int = 0):
        self.name, self.total, self.done, self.first = name, total, done, done
        self.console = Console(stderr=True)
        self.quiet = getattr(_quiet, "on", False)
        self.live = self.console.is_terminal and not self.quiet
        self.started = self.printed = time.monotonic()

    def __enter__(self) -> "Bar":
        if self.live:
            self.progress, self.job = _display.add(self.console, self.name, self.total, self.done)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live:
            _display.remove()

    def begin(self) -> None:
        """Preparations are over: the clock starts."""
        self.started = self.printed = time.monotonic()
        if self.live:
            self.progress.reset(self.job, completed=self.done, note="")

    def note(self, text: str) -> None:
        if self.live:
            self.progress.update(self.job, note=text)

    def advance(self, amount: int, note: str) -> None:
        self.done += amount
        now = time.monotonic()
        if self.live:
            self.progress.update(self.job, completed=self.done, note=note)
        elif not self.quiet and (now - self.printed > PLAIN_SECONDS or self.done >= self.total):
            left = (now - self.started) / (self.done - self.first) * max(0, self.total - self.done)
            line = f"{self.name} {100 * self.done / self.total:3.0f} %  {note}  {left:.0f} s left"
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)
            self.printed = now
