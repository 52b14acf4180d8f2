"""Run folders: a run's settings, metrics, checkpoints and result; and the same in memory.

    config.json                      settings, by stage; a folder serves one set of settings only
    metrics.jsonl                    one line per logged update
    checkpoints/STAGE-00000042.json  a manifest: what the checkpoint holds, its checksum
    checkpoints/STAGE-00000042.safetensors
    history/STAGE-00000042.npz       recorded steps up to that checkpoint (see rl.history)
    agent.json, agent.safetensors    all that was learned, stage by stage (see agent.py)
    mapping.json, mapping.safetensors  what was found in the target by bayes; mapping-opa.*, by opa
    result.json                      figures of what is finished

Every file but metrics.jsonl appears whole or not at all: it is written under another name, flushed to disk and renamed. Lines
of metrics.jsonl are appended and flushed to disk before a checkpoint. A checkpoint counts once its manifest is there. Whatever
a killed process wrote after its last checkpoint is cut off when the run goes on.
"""

import fcntl
import hashlib
import io
import json
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from protoalign.errors import UserError
from protoalign.files import flush, read_json, write_atomic, write_json
from protoalign.progress import warn
from protoalign.rl.history import join
from protoalign.rl.rollout import Record
from protoalign.worlds.base import Observation

KEPT_CHECKPOINTS = 2
FORMAT = 2  # of run folders


@dataclass(frozen=True)
class Checkpoint:
    """A restored checkpoint."""

    step: int
    tree: Any
    info: dict[str, Any]


class Run:
    """One run folder, used by one process at a time."""

    def __init__(self, path: Path, create: bool = True):
        self.path = path
        if create:
            try:
                (path / "checkpoints").mkdir(parents=True, exist_ok=True)
                (path / "history").mkdir(exist_ok=True)
            except OSError as error:
                raise UserError(f"cannot use {path} as a run folder: {error.strerror}") from None
        elif not (path / "config.json").is_file():
            raise UserError(f"{path} is not a run folder: it has no config.json (make one with 'protoalign task')")
        self.config = self._read_config()
        self.mutex = threading.RLock()  # of the threads of this process
        self._stopped = False

    def _read_config(self) -> dict[str, Any]:
        path = self.path / "config.json"
        if not path.exists():
            return {"format": FORMAT}
        config = read_json(path)
        if not isinstance(config, dict):
            raise UserError(f"{path} is not the config of a run: restore it, or start anew in another folder")
        if config.get("format") != FORMAT:
            raise UserError(f"{self.path} was made by another edition of protoalign: train anew in another folder")
        return config

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Nobody else works in the folder meanwhile. A killed process holds no lock."""
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another process is working in {self.path}: wait for it, or choose another --out") from None
            self.config = self._read_config()  # another process may have set it before we got the lock
            yield

    def configure(self, section: str, settings: Any) -> None:
        """Set a section of config.json, or check that it is set so already."""
        settings = json.loads(json.dumps(settings))
        with self.mutex:
            self._configure(section, settings)

    def _configure(self, section: str, settings: Any) -> None:
        if section in self.config:
            for name, (old, new) in _differences(self.config[section], settings, section):
                raise UserError(
                    f"{self.path} was made with {name} = {old}, not {new}: choose another --out, or the old setting"
                )
            return
        self.config = self.config | {section: settings}
        write_json(self.path / "config.json", self.config)

    # -- metrics and result ----------------------------------------------------------------------------------------

    def log(self, row: dict[str, Any]) -> None:
        if self._stopped:
            raise Stopped
        with self.mutex, (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    def stop(self, stopped: bool = True) -> None:
        """Whoever trains in another thread stops at the next row that is logged; or may go on."""
        self._stopped = stopped

    @property
    def stopped(self) -> bool:
        return self._stopped

    def metrics(self, stage: str) -> list[dict[str, Any]]:
        """Logged rows of a stage."""
        lines = self._lines()
        rows = [json.loads(line) for line in lines if _whole(line)]
        return [row for row in rows if row["stage"] == stage]

    def _lines(self) -> list[str]:
        path = self.path / "metrics.jsonl"
        return path.read_text(errors="replace").splitlines(keepends=True) if path.exists() else []

    def result(self) -> dict[str, Any]:
        """Figures of what is finished."""
        path = self.path / "result.json"
        result = read_json(path) if path.exists() else {}
        if not isinstance(result, dict) or not isinstance(result.get("seconds", {}), dict):
            raise UserError(f"{path} is not the result of a run: restore it, or start anew in another folder")
        return result

    def add_result(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Add figures to the result; a table of figures is added to the one that is there."""
        with self.mutex:
            result = merged(self.result(), figures)
            write_json(self.path / "result.json", result)
        return result

    # -- history ---------------------------------------------------------------------------------------------------

    def record(self, stage: str, first: int, last: int, records: list[Record]) -> None:
        """Keep the segments recorded after update `first` up to update `last`."""
        record = join(records)
        arrays = record._asdict() | record.observation._asdict() | {"updates": np.array([first, last])}
        del arrays["observation"]
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_atomic(self.path / "history" / f"{stage}-{last:08d}.npz", buffer.getvalue())

    def recorded(self, stage: str) -> Record:
        """All that was recorded in a stage, [T, R, ...]."""
        chunks: list[Record] = []
        reached = 0
        for path in sorted((self.path / "history").glob(f"{stage}-*.npz")):
            try:
                with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                    first, last = file["updates"].tolist()
                    rest = {name: file[name] for name in Record._fields if name != "observation"}
                    chunks.append(Record(observation=Observation(file["tiles"], file["numbers"]), **rest))
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
                raise UserError(f"cannot read {path} ({error}): train the stage again in another folder") from None
            if first != reached:
                raise UserError(
                    f"the history before {path.name} is missing from {path.parent}: train the stage again in another folder"
                )
            reached = last
        if not chunks:
            raise UserError(f"no history in {self.path / 'history'}: train the {stage} stage first")
        try:
            return join(chunks)
        except (ValueError, TypeError):
            raise UserError(f"the parts of the history in {self.path} do not fit: train the stage again") from None

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def save(self, stage: str, step: int, tree: Any, info: dict[str, Any]) -> None:
        """Keep a pytree of arrays and some JSON."""
        with self.mutex:
            self._save(stage, step, tree, info)

    def _save(self, stage: str, step: int, tree: Any, info: dict[str, Any]) -> None:
        stem = self.path / "checkpoints" / f"{stage}-{step:08d}"
        metrics = self.path / "metrics.jsonl"
        if metrics.exists():
            flush(metrics)
        data = safetensors.numpy.save(_named_leaves(tree))
        write_atomic(stem.with_suffix(".safetensors"), data)
        manifest = {
            "stage": stage,
            "step": step,
            "config": self._settings(stage),
            "sha256": _digest(data),
            "info": info,
        }
        write_json(stem.with_suffix(".json"), manifest)
        older = [path for path in self._manifests(stage) if path.stem < stem.name]
        for path in older[KEPT_CHECKPOINTS - 1 :]:
            path.unlink()
            path.with_suffix(".safetensors").unlink(missing_ok=True)

    def _settings(self, stage: str) -> str:
        """A digest of all that a stage's checkpoints depend on."""
        parts = {name: self.config.get(name) for name in ("env", "world", "hide", "seed", "preset", stage)}
        return _digest(json.dumps(parts, sort_keys=True).encode())

    def restore(self, stage: str, like: Any) -> Checkpoint | None:
        """The newest good checkpoint of a stage, in the shape of `like`; None if none was ever written.

        A damaged one is passed over with a warning; if no good one is left, that is an error. The run goes on from the
        checkpoint: what was logged after it is removed, and damaged ones get the ending .bad.
        """
        with self.mutex:
            return self._restore(stage, like)

    def _restore(self, stage: str, like: Any) -> Checkpoint | None:
        reasons: list[str] = []
        bad: list[Path] = []
        for path in self._manifests(stage):
            try:
                checkpoint = self._load(path, stage, like)
            except _Damaged as damage:
                reasons.append(f"{path.stem}: {damage}")
                bad.append(path)
                continue
            for reason in reasons:
                warn(f"passed over a damaged checkpoint, {reason}; using {path.stem}")
            for other in bad:
                other.rename(other.with_suffix(".json.bad"))
            self._cut(stage, checkpoint.step)
            return checkpoint
        if reasons:
            raise UserError(f"no usable checkpoint in {self.path} ({'; '.join(reasons)}): remove the folder to start anew")
        self._cut(stage, 0)
        return None

    def _manifests(self, stage: str) -> Iterator[Path]:
        """Newest first."""
        yield from sorted((self.path / "checkpoints").glob(f"{stage}-{8 * '[0-9]'}.json"), reverse=True)

    def _load(self, path: Path, stage: str, like: Any) -> Checkpoint:
        try:
            manifest = json.loads(path.read_text())
            data = path.with_suffix(".safetensors").read_bytes()
            if manifest["sha256"] != _digest(data):
                raise _Damaged("its tensors are truncated or changed")
            if manifest["config"] != self._settings(stage):
                raise _Damaged("it belongs to a run with other settings")
            if path.stem != f"{stage}-{manifest['step']:08d}":
                raise _Damaged("its manifest names another step")
            arrays = safetensors.numpy.load(data)
            step, info = manifest["step"], manifest["info"]
            if not isinstance(info["seconds"], int | float):
                raise _Damaged("its manifest cannot be understood")
        except OSError as error:
            raise _Damaged(f"cannot read {Path(error.filename).name}") from None
        except (ValueError, KeyError, TypeError, safetensors.SafetensorError):
            raise _Damaged("its manifest or tensors cannot be understood") from None
        expected = _named_leaves(like)
        for name in expected.keys() | arrays.keys():
            if name not in expected or name not in arrays or not _alike(expected[name], arrays[name]):
                raise _Damaged(f"it does not fit this network and environment (at {name})")
        leaves = [jax.numpy.asarray(arrays[name]) for name in expected]
        return Checkpoint(step, jax.tree.unflatten(jax.tree.structure(like), leaves), info)

    def _cut(self, stage: str, step: int) -> None:
        """Forget what a killed process logged and recorded after its last checkpoint."""
        path, lines = self.path / "metrics.jsonl", self._lines()
        kept = [line for line in lines if _whole(line) and self._counts(json.loads(line), stage, step)]
        if kept != lines:
            write_atomic(path, "".join(kept).encode())
        for path in (self.path / "history").glob(f"{stage}-{8 * '[0-9]'}.npz"):
            if int(path.stem.rsplit("-", 1)[1]) > step:
                path.unlink()
        for path in (*self.path.glob("**/.*.tmp"), *(self.path / "checkpoints").glob(f"{stage}-{8 * '[0-9]'}.safetensors")):
            if path.suffix == ".tmp" or not path.with_suffix(".json").exists():
                path.unlink()

    @staticmethod
    def _counts(row: dict[str, Any], stage: str, step: int) -> bool:
        return row["stage"] != stage or row["update"] <= step


class Memory:
    """What a `Run` is, without a folder: nothing can be resumed, nothing is left behind."""

    path = None

    def __init__(self) -> None:
        self.config: dict[str, Any] = {"format": FORMAT}
        self.mutex = threading.RLock()
        self._stopped = False
        self._rows: list[dict[str, Any]] = []
        self._records: dict[str, list[Record]] = {}
        self._result: dict[str, Any] = {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        yield

    def configure(self, section: str, settings: Any) -> None:
        self.config[section] = json.loads(json.dumps(settings))

    def log(self, row: dict[str, Any]) -> None:
        if self._stopped:
            raise Stopped
        self._rows.append(row)

    def stop(self, stopped: bool = True) -> None:
        self._stopped = stopped

    @property
    def stopped(self) -> bool:
        return self._stopped

    def metrics(self, stage: str) -> list[dict[str, Any]]:
        return [row for row in self._rows if row["stage"] == stage]

    def result(self) -> dict[str, Any]:
        return self._result

    def add_result(self, figures: dict[str, Any]) -> dict[str, Any]:
        with self.mutex:
            self._result = merged(self._result, figures)
        return self._result

    def record(self, stage: str, first: int, last: int, records: list[Record]) -> None:
        self._records.setdefault(stage, []).extend(records)

    def recorded(self, stage: str) -> Record:
        return join(self._records[stage])

    def save(self, stage: str, step: int, tree: Any, info: dict[str, Any]) -> None:
        pass

    def restore(self, stage: str, like: Any) -> Checkpoint | None:
        return None


class Stopped(Exception):
    """Work in another thread has failed, so this one's is not needed."""


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Figures with more of them; those that are tables by name are merged too."""
    both = {key: old[key] | x for key, x in new.items() if isinstance(x, dict) and isinstance(old.get(key), dict)}
    return old | new | both


class _Damaged(Exception):
    pass


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _whole(line: str) -> bool:
    """A line of metrics, not cut off in the middle of a write."""
    try:
        return line.endswith("\n") and json.loads(line).keys() >= {"stage", "update"}
    except (ValueError, AttributeError, RecursionError):
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _named_leaves(tree: Any) -> dict[str, np.ndarray]:
    """Arrays by their path in the tree, e.g. `net.hidden.weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf, order="C") for path, leaf in leaves}


def _differences(old: Any, new: Any, name: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}")
    elif old != new:
        yield name, (old, new)
