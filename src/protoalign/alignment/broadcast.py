"""The paper's q_theta (appendix B.1): hidden states are written onto the grid, and the whole transition is looked at.

Tiles of a hidden slot carry its state, tiles of a known one an embedding of its prototype. Convolutions run over the grids
before and after, with action and reward at every tile; then each slot reads, by attention, the tiles that are or were of it.
"""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import Step, fix_known, gru, signs
from protoalign.rl.networks import Dense, Scene
from protoalign.settings import InferConfig

LAYERS = 3
REWARD = 8  # numbers that stand for a reward


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
    """An `InferenceModel`. Gradients flow through the states on the grid, so a slot learns to be told apart by others."""

    start: Array  # [F]
    known: Array  # [C, F]
    happened: Dense
    layers: list[Conv]
    gru_in: Dense
    gru_hidden: Dense
    read: Dense
    scene: Scene = eqx.field(static=True)
    hideable: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, scene: Scene, hideable: tuple[int, ...], config: InferConfig):
        self.scene, self.hideable = scene, hideable
        width = config.width
        # States are bounded by 1 after the first step; these are of a like size.
        self.start = jnp.asarray(0.5 * rng.standard_normal(width), jnp.float32)
        self.known = jnp.asarray(0.5 * rng.standard_normal((scene.prototypes, width)), jnp.float32)
        self.happened = Dense(rng, 3 + scene.numbers, REWARD, 1.0)
        sizes = [2 * width + scene.actions + REWARD] + LAYERS * [width]
        self.layers = [Conv(rng, *pair) for pair in pairwise(sizes)]
        self.gru_in = Dense(rng, width, 3 * width, 1.0)
        self.gru_hidden = Dense(rng, width, 3 * width, 1.0)
        self.read = Dense(rng, width, len(hideable), 0.1)

    def begin(self, batch: int, slots: int) -> Array:
        return jnp.broadcast_to(self.start, (batch, slots, len(self.start)))

    def digest(self, step: Step, slots: int) -> Step:
        return step

    def score(self, hidden: Array, imagined: Imagined) -> Array:
        return fix_known(jax.nn.log_softmax(self.read(hidden)), imagined)

    def update(self, hidden: Array, imagined: Imagined, step: Step, prior: Array | float = 0.0) -> Array:
        batch, slots, width = hidden.shape
        first = self.scene.prototypes
        known = self.known[np.array(self.hideable)][imagined.truth]
        code = jnp.where(imagined.hidden[..., None], hidden, known)  # [B, S, F]
        code = jnp.concatenate([jnp.broadcast_to(self.known, (batch, *self.known.shape)), code], 1)  # [B, C + S, F]
        every = np.arange(first + slots)
        before, after = (grid.reshape(batch, -1, 1) == every.astype(grid.dtype) for grid in (step.before, step.after))
        action = jax.nn.one_hot(step.action, self.scene.actions)
        gained = jnp.sign(step.numbers_after - step.numbers_before)
        context = jnp.concatenate([action, self.happened(jnp.concatenate([signs(step.reward), gained], 1))], 1)
        context = jnp.broadcast_to(context[:, None], (*before.shape[:2], context.shape[1]))  # the same at every tile
        # A product with one-hot tiles, not a gather: its gradient is a product too.
        x = jnp.concatenate([before.astype(jnp.float32) @ code, after.astype(jnp.float32) @ code, context], -1)
        x = x.reshape(batch, *self.scene.grid, -1)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        x = x.reshape(batch, -1, width)
        involved = (before | after)[..., first:].swapaxes(1, 2)  # [B, S, HW]
        fit = hidden @ x.swapaxes(1, 2) / width**0.5
        weight = jax.nn.softmax(jnp.where(involved, fit, -1e9))
        updated = gru(self.gru_in(weight @ x), self.gru_hidden(hidden), hidden)
        return jnp.where(involved.any(-1, keepdims=True), updated, hidden)
