"""D_his: what happened while the task policy learned, as whole episodes.

PPO records the first few environments of every segment from the first update to the last, so the history is a fair spread
over all policies and its size is known beforehand. Recorded segments are kept as they come; whole episodes are cut out of
them when the history is read.
"""

import io
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from protoalign.errors import UserError
from protoalign.files import write_atomic
from protoalign.rl.rollout import Record


class Episodes(NamedTuple):
    """E whole episodes, padded to the longest, L steps. NumPy or JAX arrays."""

    observation: Any  # [E, L+1, ...], the last one after the last action
    action: Any  # [E, L] uint8
    reward: Any  # [E, L] float32
    length: Any  # [E] int32
    terminated: Any  # [E] bool, False: truncated


def save(folder: Path, stage: str, first: int, last: int, records: list[Record]) -> None:
    """Keep the segments recorded after update `first` up to update `last`."""
    arrays = {"updates": np.array([first, last])} | {
        name: np.concatenate([getattr(r, name) for r in records]) for name in Record._fields
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomic(folder / f"{stage}-{last:08d}.npz", buffer.getvalue())


def load(folder: Path, stage: str) -> Episodes:
    """All whole episodes recorded in a stage."""
    chunks: list[Record] = []
    reached = 0
    for path in sorted(folder.glob(f"{stage}-*.npz")):
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                first, last = file["updates"].tolist()
                chunks.append(Record(**{name: file[name] for name in Record._fields}))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"cannot read {path} ({error}): train the stage again in another folder") from None
        if first != reached:
            raise UserError(f"the history before {path.name} is missing from {folder}: train the stage again in another folder")
        reached = last
    if not chunks:
        raise UserError(f"no history in {folder}: train the {stage} stage first")
    return cut(Record(*(np.concatenate(parts) for parts in zip(*chunks, strict=True))))


def cut(record: Record) -> Episodes:
    """Whole episodes out of one long recording [T, R, ...]. What had not ended by the end of it is dropped."""
    time, column = np.nonzero(record.reset)  # where an episode's final observation stands
    order = np.lexsort((time, column))
    time, column = time[order], column[order]
    # An episode begins after the reset before it in its column, or at the top.
    first = np.r_[True, column[1:] != column[:-1]][: len(time)]
    start = np.where(first, 0, np.r_[0, time[:-1] + 1][: len(time)])
    length = time - start
    longest = int(length.max(initial=0))
    steps = np.minimum(start[:, None] + np.arange(longest + 1), time[:, None])  # [E, L+1], padded with the last
    inside = np.arange(longest) < length[:, None]
    return Episodes(
        record.observation[steps, column[:, None]],
        np.where(inside, record.action[steps[:, :-1], column[:, None]], 0),
        np.where(inside, record.reward[steps[:, :-1], column[:, None]], 0),
        length.astype(np.int32),
        record.terminated[time - 1, column],
    )
