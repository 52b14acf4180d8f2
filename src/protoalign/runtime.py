"""Settings of JAX and of the threads under it. Call `configure` before jax is imported.

Anything the user has set in the environment stays as it is.
"""

import mmap
import os
from collections.abc import Callable
from functools import cache, wraps
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from platform import python_version
from typing import Any, ParamSpec, TypeVar

from protoalign.errors import UserError
from protoalign.files import cache_folder

FUSIONS = "xla_cpu_use_fusion_emitters"  # programs of PPO run nearly twice as fast with it; all take twice as long to compile
OURS = "PROTOALIGN_COMPILES_QUICKLY"
P = ParamSpec("P")
R = TypeVar("R")
_options: dict[str, bool] = {}  # of programs that are compiled well, where `configure` has switched something off


def configure(core: int | None = None, cache: bool = True) -> None:
    """`core`: run on this processor core only. `cache`: keep compiled programs, so that a command's second start is quick."""
    if core is not None:
        try:
            os.sched_setaffinity(0, {core})
        except (OSError, AttributeError, ValueError, OverflowError):
            raise UserError(f"--core {core}: this machine cannot run on that core alone") from None
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    if FUSIONS not in flags and known(FUSIONS):
        os.environ["XLA_FLAGS"] = f"{flags} --{FUSIONS}=false".strip()
        os.environ[OURS] = "1"
    if OURS in os.environ:  # set here, or by the process that started this one
        _options[FUSIONS] = True
    if not cache:
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"


def known(flag: str) -> bool:
    """Whether this XLA has a flag: it ends the process at one that it does not know."""
    spec = find_spec("jaxlib")
    folders = spec.submodule_search_locations if spec else None
    for path in Path(folders[0]).glob("libjax_common.*") if folders else ():
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
            return library.find(flag.encode()) >= 0
    return False


def compile_well(lowered: Any) -> Any:
    """Compile a program, `jax.stages.Lowered`, that will run for long."""
    return lowered.compile(_options or None)


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, with products of matrices in NumPy on one thread: of small ones, several threads wait for each other
    most of the time, on a busy machine four times as long.

    It is for one thread of the program at a time: the limit is the whole process's, and whoever ends first lifts it for all.
    """

    @wraps(function)
    def limited(*args: P.args, **options: P.kwargs) -> R:
        with _threads().limit(limits=1, user_api="blas"):
            return function(*args, **options)

    return limited


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    names = ("protoalign", "jax", "jaxlib", "equinox", "optax", "numpy")
    return {"python": python_version()} | {name: version(name) for name in names}
