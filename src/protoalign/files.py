"""Files that appear whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any

from protoalign.errors import UserError


def write_atomic(path: Path, data: bytes) -> None:
    """All of it or nothing."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    flush(path.parent)


def flush(path: Path) -> None:
    """Make sure that a file or a folder's list of files is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "protoalign"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not valid JSON: restore it, or start anew in another folder") from None
