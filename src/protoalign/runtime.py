"""Settings of JAX and of the threads under it. Call `configure` before jax is imported.

Anything the user has set in the environment stays as it is.
"""

import os
from importlib.metadata import version
from platform import python_version

from protoalign.errors import UserError
from protoalign.files import cache_folder


def configure(core: int | None = None, cache: bool = True) -> None:
    """`core`: run on this processor core only. `cache`: keep compiled programs, so that a command's second start is quick."""
    if core is not None:
        try:
            os.sched_setaffinity(0, {core})
        except (OSError, AttributeError, ValueError, OverflowError):
            raise UserError(f"--core {core}: this machine cannot run on that core alone") from None
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
    if not cache:
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    names = ("protoalign", "jax", "jaxlib", "equinox", "optax", "numpy")
    return {"python": python_version()} | {name: version(name) for name in names}
