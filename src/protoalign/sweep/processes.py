"""Tasks on this machine: a fixed number of processes, each on a core of its own, that make one call after another."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from protoalign.errors import UserError
from protoalign.sweep.tasks import Crash, Outcome, Task, perform

SPAWN = get_context("spawn")  # JAX has threads: a process that has used it cannot be forked


class Worker:
    """A process that makes calls, and the one it is busy with."""

    def __init__(self, core: int):
        self.core, self.since, self.attempt = core, 0.0, 0
        self.task: Task | None = None
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_work, args=(theirs, core), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, task: Task, attempt: int, log: Path) -> None:
        self.task, self.attempt, self.since = task, attempt, time.monotonic()
        self.pipe.send((task, log))

    def end(self) -> None:
        """The process is not there any more."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def on_processes(
    tasks: Iterable[Task], workers: int, logs: Path, retries: int, begun: Callable[[str], None] = lambda name: None
) -> Iterator[Outcome]:
    """Do all tasks, with so many processes; outcomes as they come. `begun` is told of a task when it begins.

    A call that crashes, or whose process dies, is made again, up to `retries` times.
    """
    waiting = [(task, 1) for task in reversed(list(tasks))]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [-1]
    busy: list[Worker] = []
    idle = [Worker(cores[i % len(cores)]) for i in range(min(workers, len(waiting)))]
    try:
        while waiting or busy:
            while waiting and idle:
                worker = idle.pop(0)
                task, attempt = waiting.pop()
                try:
                    worker.begin(task, attempt, logs / f"{task.name}.log")
                except OSError:  # it died while it had nothing to do
                    worker.end()
                    idle.append(Worker(worker.core))
                    waiting.append((task, attempt))
                    continue
                begun(task.name)
                busy.append(worker)
            ready = set(connection.wait([worker.pipe for worker in busy]))
            for worker in [worker for worker in busy if worker.pipe in ready]:
                busy.remove(worker)
                assert worker.task is not None
                kind, value = _answer(worker)
                if kind == "died":
                    worker.end()
                    idle.append(Worker(worker.core))
                else:
                    idle.append(worker)
                if kind in ("died", "crashed") and worker.attempt <= retries:
                    waiting.append((worker.task, worker.attempt + 1))
                    continue
                seconds = round(time.monotonic() - worker.since, 3)
                yield Outcome.of(worker.task, kind, value, worker.attempt, seconds)
    finally:
        for worker in (*busy, *idle):
            worker.end()


def _answer(worker: Worker) -> tuple[str, Any]:
    try:
        kind, value = worker.pipe.recv()
        return kind, value
    except (EOFError, OSError):
        worker.process.join()
        code = worker.process.exitcode or 0
        return "died", f"its process was ended by signal {-code}" if code < 0 else f"its process ended with exit code {code}"


def _work(pipe: Any, core: int) -> None:
    """The life of a process: calls until nobody asks any more."""
    from protoalign import runtime
    from protoalign.rl.host_workers import end_with_parent

    threading.Thread(target=end_with_parent, daemon=True).start()
    runtime.configure(core if core >= 0 else None)
    while True:
        try:
            task, log = pipe.recv()
            pipe.send(("done", perform(task, log)))
        except (EOFError, KeyboardInterrupt):
            return
        except UserError as error:
            pipe.send(("refused", str(error)))
        except Crash as error:
            pipe.send(("crashed", str(error)))
        except Exception as error:  # what cannot be sent, or a log that cannot be written
            pipe.send(("refused", f"{type(error).__name__}: {error}"))
