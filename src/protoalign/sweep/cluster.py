"""The same tasks on a Ray cluster, on any node that has a core free. Paths have to lead to the same files on all nodes."""

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from protoalign.errors import UserError
from protoalign.sweep.tasks import Crash, Outcome, Task, perform

PATIENCE = 5.0  # seconds until a cluster has to answer


def on_ray(
    tasks: Iterable[Task], address: str, logs: Path, retries: int, begun: Callable[[str], None] = lambda name: None
) -> Iterator[Outcome]:
    """As `on_processes`, on the cluster at `address`: "local" starts one on this machine, "auto" finds one that runs."""
    ray = _ray(address)
    one = ray.remote(num_cpus=1, max_retries=0)(_attempt)
    left = {one.remote(task, logs / f"{task.name}.log"): (task, 1, time.monotonic()) for task in tasks}
    for task, *_ in left.values():
        begun(task.name)
    try:
        while left:
            (ready,), _ = ray.wait(list(left), num_returns=1)
            task, attempt, since = left.pop(ready)
            try:
                kind, value = ray.get(ready)
            except ray.exceptions.RayError as error:  # the worker or its node died
                kind, value = "died", str(error).strip().rpartition("\n")[2]
            if kind in ("died", "crashed") and attempt <= retries:
                left[one.remote(task, logs / f"{task.name}.log")] = (task, attempt + 1, time.monotonic())
                continue
            yield Outcome.of(task, kind, value, attempt, round(time.monotonic() - since, 3))
    finally:
        for reference in left:
            ray.cancel(reference, force=True)
        if address == "local":
            ray.shutdown()


def _ray(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise UserError("Ray is not installed: pip install 'protoalign[ray]'") from None
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), PATIENCE).close()  # Ray itself tries for minutes
        except OSError as error:
            raise UserError(f"--ray {address}: no cluster answers there ({error.strerror or error})") from None
    try:
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(f"--ray {address}: {str(error).partition(chr(10))[0]}") from None
    return ray


def _attempt(task: Task, log: Path) -> tuple[str, Any]:
    from protoalign import runtime

    runtime.configure()
    try:
        return "done", perform(task, log)
    except UserError as error:
        return "refused", str(error)
    except Crash as error:
        return "crashed", str(error)
