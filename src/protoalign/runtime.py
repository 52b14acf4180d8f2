"""Settings of JAX and of the threads under it. Call `configure` before jax is imported.

Anything the user has set in the environment stays as it is.
"""

import os
from pathlib import Path


def cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "protoalign"


def configure() -> None:
    # Compiled programs are kept, so that the second start of a command is quick.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_dir() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    from importlib.metadata import version
    from platform import python_version

    names = ("protoalign", "jax", "jaxlib", "equinox", "optax", "numpy")
    return {"python": python_version()} | {name: version(name) for name in names}
