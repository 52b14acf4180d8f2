"""D_his: what happened while the task policy learned, as whole episodes.

PPO records the first few environments of every segment from the first update to the last, so the history is a fair spread
over all policies and its size is known beforehand. In hosted worlds games of the last policy follow, with slips, which come on
top of that size. Recorded segments are kept as they come, in picture ids; whole episodes are cut out of them when the history
is read.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from protoalign.rl.rollout import Record
from protoalign.worlds.base import Observation


class Episodes(NamedTuple):
    """E whole episodes, padded to the longest, L steps. NumPy or JAX arrays."""

    observation: Observation  # tiles [E, L+1, H, W] and numbers [E, L+1, M]; the last ones after the last action
    action: Any  # [E, L] uint8
    reward: Any  # [E, L] float32
    length: Any  # [E] int32
    terminated: Any  # [E] bool, False: truncated, or cut off after L steps

    def some(self, rng: np.random.Generator, number: int) -> "Episodes":
        """Episodes drawn at random, with repetition."""
        chosen = rng.integers(0, len(self.length), number)
        return jax.tree.map(lambda x: x[chosen], self)


def join(parts: list[Any]) -> Any:
    """Pytrees of arrays (episodes, records) one after another."""
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def cut(record: Record, longest: int | None = None) -> Episodes:
    """Whole episodes out of one long recording [T, R, ...], each to its step `longest`, and all padded to that length; or to
    the longest of them. What had not ended is dropped."""
    time, column = np.nonzero(record.reset)  # where an episode's final observation stands
    order = np.lexsort((time, column))
    time, column = time[order], column[order]
    # An episode begins after the reset before it in its column, or at the top.
    first = np.r_[True, column[1:] != column[:-1]][: len(time)]
    start = np.where(first, 0, np.r_[0, time[:-1] + 1][: len(time)])
    whole = time - start
    length = whole if longest is None else np.minimum(whole, longest)
    most = int(length.max(initial=0)) if longest is None else longest
    steps = np.minimum(start[:, None] + np.arange(most + 1), (start + length)[:, None])  # [E, L+1], padded with the last
    inside = np.arange(most) < length[:, None]
    return Episodes(
        jax.tree.map(lambda x: x[steps, column[:, None]], record.observation),
        np.where(inside, record.action[steps[:, :-1], column[:, None]], 0),
        np.where(inside, record.reward[steps[:, :-1], column[:, None]], 0),
        length.astype(np.int32),
        record.terminated[time - 1, column] & (length == whole),
    )
