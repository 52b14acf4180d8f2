"""Imagined worlds on the host (eqs. 5 and 8): games whose pictures are hidden behind slots, watched by q_theta.

Every picture of the source is a tile type of its own in a target, so every picture has a slot; what a slot has to be told to
be is its prototype. `ImaginedGames` are played like any other games of a hosted world. What is shown of them is what q_theta
believes: each tile as its likeliest prototype, surely, doubtfully or not at all; besides, which prototypes have been found in
the episode. The reward is the information that a step gives, in nats. One compiled program does all of this in a step.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined, hide, imagine, of_kinds
from protoalign.alignment.inference import InferenceModel, Step
from protoalign.arrays import select
from protoalign.errors import UserError
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.history import Episodes, cut
from protoalign.rl.host_rollout import HostVector
from protoalign.rl.rollout import Record
from protoalign.worlds.base import Observation
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.tile_dictionary import TileDictionary

SURE, LIKELY = 0.9, 0.4  # probabilities from which on a tile is shown as a prototype, or as one in doubt
MOST = 127  # prototypes that can be shown so


class Watching(NamedTuple):
    """B episodes under q_theta's eyes."""

    imagined: Imagined
    hidden: Array  # [B, S, F], q_theta's
    met: Array  # [B, S] bool, slots that were in sight when an action was chosen


def show(belief: Array, met: Array, slots: Array, numbers: Array) -> Observation:
    """What an explorer sees, given beliefs [B, S, K], slots that were met [B, S], grids of slots [B, H, W] and numbers [B, M].

    A tile that surely is prototype k shows k, one in doubt K + k, an unknown one 2 K. To the numbers come K: how sure it is
    that a slot was met which is k.
    """
    kinds, chance, best = belief.shape[-1], belief.max(-1), belief.argmax(-1)
    code = jnp.where(chance >= SURE, best, jnp.where(chance >= LIKELY, kinds + best, 2 * kinds))
    tiles = jnp.take_along_axis(code, slots.reshape(len(slots), -1).astype(jnp.int32), 1).reshape(slots.shape)
    found = (belief**2 * met[..., None]).max(1)
    return Observation(tiles.astype(jnp.uint8), jnp.concatenate([jnp.asarray(numbers, jnp.float32), found], 1))


class ImaginedGames(HostVector):
    """B games of a hosted world with pictures hidden: all of them with probability `hide_all`, else a random subset. Episodes
    end after `longest` steps. What happens is kept, for `episodes`."""

    def __init__(
        self,
        world: GymWorld,
        number: int,
        vocabulary: Vocabulary,
        model: InferenceModel,
        longest: int,
        hide_all: float = 1.0,
    ):
        super().__init__(world, number, TileDictionary(world.tile, vocabulary.pictures, endless=True))
        self.model, self.longest, self.hide_all = model, longest, jnp.float32(hide_all)
        self.kind_of = tuple(int(c) for c in vocabulary.prototype_of)
        self._id = np.arange(256, dtype=np.uint8)
        self._id[len(self.kind_of) :] = vocabulary.counts.argmax()  # a picture that the task policy never met is like most
        self.rows: list[tuple[Any, ...]] = []

    def begin(self, seed: int) -> None:
        super().begin(seed)
        self.key, self.time, self.rows = jax.random.key(seed), 0, []
        self.watching, self._shown = _begin(self.model, self.kind_of, self._own(), self.key, self.hide_all)

    def _own(self) -> Observation:
        """What is to be seen, in ids of pictures."""
        return Observation(self._id[self.tiles], self.numbers.copy())

    def seen(self) -> Observation:
        return self._shown

    def step(self, action: np.ndarray) -> tuple[np.ndarray, ...]:
        """Information, terminated, truncated and reset [B]."""
        before, told = self._own(), self.returns
        reward, terminated, truncated, reset = super().step(action)
        truncated = truncated | (~terminated & ~reset & (self.lengths >= self.longest))
        self.over = terminated | truncated
        self.rows.append((before, np.asarray(action, np.uint8), reward, terminated, truncated, reset))
        self.time += 1
        happened = (before, self._own(), np.asarray(action), reward, reset)
        self.watching, self._shown, told_now = _watch(
            self.model, self.kind_of, self.watching, happened, jax.random.fold_in(self.key, self.time), self.hide_all
        )
        gained = np.asarray(told_now)
        self.returns = np.where(reset, 0, told + gained)
        return gained, terminated, truncated, reset

    def episodes(self) -> Episodes:
        """All that was played since games began, in ids of pictures, with the world's own rewards."""
        last = self._own(), *(np.zeros_like(x) for x in self.rows[-1][1:-1]), np.ones(self.number, bool)
        return cut(Record(*jax.tree.map(lambda *x: np.stack(x), *self.rows, last)), self.longest)


def check(kinds: int, name: str) -> None:
    """Refuse a world with too many prototypes."""
    if kinds > MOST:
        raise UserError(f"{name} has {kinds} prototypes; opa explores with {MOST} at most: use the engine bayes")


def _fresh(model: InferenceModel, kind_of: tuple[int, ...], batch: int, key: Array, hide_all: Array) -> Watching:
    imagined = of_kinds(imagine(key, batch, len(kind_of), hide_all), kind_of)
    return Watching(imagined, model.begin(batch, len(kind_of)), jnp.zeros((batch, len(kind_of)), bool))


def _seen(model: InferenceModel, watching: Watching, codes: Array, numbers: Array) -> Observation:
    belief = jnp.exp(model.score(watching.hidden, watching.imagined))
    return show(belief, watching.met, codes.astype(jnp.int32) - model.scene.prototypes, numbers)


@eqx.filter_jit
def _begin(
    model: InferenceModel, kind_of: tuple[int, ...], seen: Observation, key: Array, hide_all: Array
) -> tuple[Watching, Observation]:
    watching = _fresh(model, kind_of, len(seen.tiles), key, hide_all)
    codes = hide(watching.imagined, jnp.asarray(seen.tiles), model.scene.prototypes, model.hideable)
    return watching, _seen(model, watching, codes, seen.numbers)


@eqx.filter_jit
def _watch(
    model: InferenceModel, kind_of: tuple[int, ...], watching: Watching, happened: Any, key: Array, hide_all: Array
) -> tuple[Watching, Observation, Array]:
    """After a step: who watches, what is shown, and the information [B] that it gave. Games that were reset begin anew."""
    before, after, action, reward, reset = happened
    slots = len(kind_of)

    def codes(watching: Watching, tiles: Array) -> Array:
        return hide(watching.imagined, tiles, model.scene.prototypes, model.hideable)

    seen = codes(watching, before.tiles)
    step = Step(
        seen, codes(watching, after.tiles), before.numbers, after.numbers, action.astype(jnp.int32), reward.astype(jnp.float32)
    )
    hidden = model.update(watching.hidden, watching.imagined, model.digest(step, slots))
    gained = _of_truth(model, hidden, watching.imagined) - _of_truth(model, watching.hidden, watching.imagined)
    here = seen.reshape(len(seen), 1, -1) == (model.scene.prototypes + np.arange(slots))[:, None].astype(seen.dtype)
    went_on = Watching(watching.imagined, hidden, watching.met | here.any(-1))
    watching = select(reset, _fresh(model, kind_of, len(seen), key, hide_all), went_on)
    shown = _seen(model, watching, codes(watching, after.tiles), after.numbers)
    return watching, shown, jnp.where(reset, 0, gained)


def _of_truth(model: InferenceModel, hidden: Array, imagined: Imagined) -> Array:
    """log q(I' | tau), [B]."""
    return jnp.take_along_axis(model.score(hidden, imagined), imagined.truth[..., None], -1)[..., 0].sum(-1)
