"""What a page tells of one target: what was found there, how, and games before and after. Plain arrays, whatever the world."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from protoalign.errors import UserError

if TYPE_CHECKING:
    from protoalign.alignment.mapping import Mapping

MOVED = 1e-4  # a belief that differs so much from "all alike" is about something that was met


@dataclass(frozen=True)
class Game:
    """One episode, or its beginning: T actions and rewards, T + 1 pictures."""

    pictures: list[np.ndarray]  # [height, width, 3] uint8
    actions: list[int]
    rewards: list[float]
    whole: bool = True  # False: cut


@dataclass(frozen=True)
class Trace:
    """T steps of finding out; the first pictures only may have been kept."""

    episode: np.ndarray  # [T]
    action: np.ndarray  # [T]
    reward: np.ndarray  # [T]
    belief: np.ndarray  # [T, types, K], before each step
    sureness: np.ndarray  # [T], of the whole mapping, before each step
    met: np.ndarray  # [T, types] bool, which tile types had been met before each step
    where: np.ndarray  # [pictures, H, W], the tile type in each cell, -1 if it is none
    pictures: np.ndarray  # [at most T, height, width, 3] uint8


@dataclass(frozen=True)
class Finding:
    """What each tile type of a target was taken for, and how that was found."""

    names: tuple[str, ...]  # of the K prototypes that a tile type may be
    source: np.ndarray  # [K, h, w, 3] uint8, how these look in the source
    types: np.ndarray  # [types, h, w, 3] uint8, a tile of each type
    belief: np.ndarray  # [types, K], after all episodes
    verdict: np.ndarray  # [types], which of the K each is taken for
    known: np.ndarray  # [K] bool, met looking as in the source
    actions: tuple[str, ...]
    episodes: int
    steps: int
    engine: str  # that found it
    sureness: float  # of the whole mapping, after all episodes
    translated: np.ndarray | None = None  # the first picture [height, width, 3] in the source's pictures
    trace: Trace | None = None


@dataclass(frozen=True)
class Pair:
    """A prototype in the source and in the target."""

    prototype: int  # of K
    source: np.ndarray  # [h, w, 3] uint8
    target: np.ndarray  # [variants, h, w, 3] uint8


@dataclass(frozen=True)
class Shown:
    """The target, seen again: one start in both looks, every prototype in both, and a game before and one after."""

    source: np.ndarray  # [height, width, 3] uint8
    target: np.ndarray
    pairs: list[Pair]
    before: Game
    after: Game


def found(mapping: "Mapping", actions: tuple[str, ...], grid: tuple[int, int]) -> Finding:
    """The story of a mapping; a `UserError` if what was kept of its finding does not fit together."""
    hideable, (h, w) = mapping.hideable, mapping.vocabulary.tile
    source = mapping.vocabulary.draw(np.array(hideable, int)[:, None]).reshape(-1, h, w, 3)  # one below the other
    types = np.asarray(mapping.tile_types.pictures)
    verdict = np.array([hideable.index(int(c)) for c in mapping.prototypes], int)
    trace = None if mapping.trace is None else _trace(mapping, len(actions), grid)
    shown = trace is not None and len(trace.pictures) > 0
    return Finding(
        tuple(mapping.names[c] for c in hideable),
        source,
        types,
        mapping.belief,
        verdict,
        mapping.known,
        actions,
        len(mapping.returns),
        mapping.steps,
        mapping.engine,
        mapping.sureness,
        mapping.translate(trace.pictures[0]) if trace is not None and shown else None,
        trace,
    )


def _trace(mapping: "Mapping", actions: int, grid: tuple[int, int]) -> Trace:
    episode, action, reward, belief, sureness, pictures = (np.asarray(x) for x in mapping.trace or ())
    count, kinds, (h, w) = len(mapping.tile_types), len(mapping.hideable), mapping.tile_types.tile
    good = (
        episode.ndim == 1
        and episode.shape == action.shape == reward.shape == sureness.shape
        and len(episode) > 0
        and belief.shape == (len(episode), count, kinds)
        and episode.dtype.kind in "iu"
        and action.dtype.kind in "iu"
        and reward.dtype.kind == belief.dtype.kind == sureness.dtype.kind == "f"
        and pictures.dtype == np.uint8
        and pictures.shape[1:] == (grid[0] * h, grid[1] * w, 3)
        and len(pictures) <= len(episode)
    )
    if good:
        finite = np.isfinite(reward).all() and np.isfinite(belief).all() and (belief >= 0).all()
        probable = ((sureness >= 0) & (sureness <= 1)).all()  # neither is true of what is not a number
        ordered = episode[0] == 0 and (np.diff(episode) >= 0).all()
        good = bool(finite and probable and ordered and action.min() >= 0 and action.max() < actions)
    if not good:
        raise UserError("what the mapping tells of how it was found is damaged, or of another world: find it again")
    met, where = np.zeros((len(episode), count), bool), np.full((len(pictures), *grid), -1)
    if count:
        if len(pictures):
            where = np.asarray(mapping.tile_types(pictures)).reshape(where.shape).astype(int) - len(mapping.names)
            where[(where < 0) | (where >= count)] = -1
        met[: len(pictures)] = (where.reshape(len(pictures), -1, 1) == np.arange(count)).any(1)
        met |= abs(belief - 1 / kinds).max(-1) > MOVED
        met = np.logical_or.accumulate(met, 0)
    return Trace(episode, action, reward, belief, sureness, met, where, pictures)
