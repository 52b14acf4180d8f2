"""The paper's q_theta (appendix B.1): hidden states are written onto the grid, and the whole transition is looked at.

Tiles of a hidden type carry its state, tiles of a known one an embedding of its prototype. Convolutions run over the grids
before and after, with action and reward at every tile; then each type reads, by attention, the tiles that are or were of it.
"""

from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import fix_known, gru, signs
from protoalign.envs.base import TileWorld
from protoalign.rl.networks import Dense

LAYERS = 3
REWARD = 8  # numbers that stand for a reward


class Seen(NamedTuple):
    """N transitions as they are."""

    before: Array  # [N, H, W] uint8, types
    after: Array  # [N, H, W] uint8
    action: Array  # [N] int32
    reward: Array  # [N] float32


class Conv(eqx.Module):
    """3 x 3, with a border of zeros: the grid keeps its size."""

    dense: Dense  # from the nine tiles around to one

    def __init__(self, rng: np.random.Generator, n_in: int, n_out: int):
        self.dense = Dense(rng, 9 * n_in, n_out)

    def __call__(self, x: Array) -> Array:
        # Inside a loop XLA's own convolution is many times slower on CPUs than this product.
        height, width = x.shape[1:3]
        wide = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        around = [wide[:, row : row + height, col : col + width] for row in range(3) for col in range(3)]
        return self.dense(jnp.concatenate(around, -1))


class BroadcastNet(eqx.Module):
    """An `InferenceModel`. Gradients flow through the states on the grid, so a type learns to be told apart by others."""

    start: Array  # [F]
    known: Array  # [C, F]
    happened: Dense
    layers: list[Conv]
    gru_in: Dense
    gru_hidden: Dense
    read: Dense
    prototypes: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, world: TileWorld, width: int = 32):
        self.prototypes = len(world.category_names)
        self.num_actions = world.num_actions
        # States are bounded by 1 after the first step; these are of a like size.
        self.start = jnp.asarray(0.5 * rng.standard_normal(width), jnp.float32)
        self.known = jnp.asarray(0.5 * rng.standard_normal((self.prototypes, width)), jnp.float32)
        self.happened = Dense(rng, 3, REWARD, 1.0)
        sizes = [2 * width + self.num_actions + REWARD] + LAYERS * [width]
        self.layers = [Conv(rng, *pair) for pair in pairwise(sizes)]
        self.gru_in = Dense(rng, width, 3 * width, 1.0)
        self.gru_hidden = Dense(rng, width, 3 * width, 1.0)
        self.read = Dense(rng, width, self.prototypes, 0.1)

    def begin(self, batch: int, types: int | None = None) -> Array:
        return jnp.broadcast_to(self.start, (batch, types or self.prototypes, len(self.start)))

    def look(self, before: Array, after: Array, action: Array, reward: Array, types: int) -> Seen:
        return Seen(before, after, action, reward)

    def score(self, hidden: Array, imagined: Imagined) -> Array:
        return fix_known(jax.nn.log_softmax(self.read(hidden)), imagined)

    def update(self, hidden: Array, imagined: Imagined, seen: Seen) -> Array:
        batch, types, width = hidden.shape
        _, height, breadth = seen.before.shape
        code = jnp.where(imagined.hidden[..., None], hidden, self.known[imagined.truth])  # [B, P, F]
        number = np.arange(types, dtype=np.uint8)
        before, after = (grid.reshape(batch, -1, 1) == number for grid in (seen.before, seen.after))  # [B, HW, P]
        action = jax.nn.one_hot(seen.action, self.num_actions)
        context = jnp.concatenate([action, self.happened(signs(seen.reward))], 1)  # the same at every tile
        context = jnp.broadcast_to(context[:, None], (*before.shape[:2], context.shape[1]))
        # A product with one-hot tiles, not a gather: its gradient is a product too.
        x = jnp.concatenate([before.astype(jnp.float32) @ code, after.astype(jnp.float32) @ code, context], -1)
        x = x.reshape(batch, height, breadth, -1)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        x = x.reshape(batch, -1, width)
        involved = (before | after).swapaxes(1, 2)  # [B, P, HW]
        fit = hidden @ x.swapaxes(1, 2) / width**0.5
        weight = jax.nn.softmax(jnp.where(involved, fit, -1e9))
        updated = gru(self.gru_in(weight @ x), self.gru_hidden(hidden), hidden)
        return jnp.where(involved.any(-1, keepdims=True), updated, hidden)
