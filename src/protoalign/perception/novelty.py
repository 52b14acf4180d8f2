"""Psi_IsUnseen (eq. 3): an autoencoder that has learned the source's tiles by heart reconstructs nothing else.

The threshold is 1.05 times its worst error on a source tile, as in the published code.
"""

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

WIDTHS = (192, 64, 64, 32, 64, 64, 192)
STEPS = 3000
MARGIN = 1.05


class NoveltyDetector(NamedTuple):
    weights: list[tuple[Array, Array]]
    threshold: float  # eta

    def errors(self, tiles: np.ndarray) -> np.ndarray:
        """Reconstruction errors of tiles [N, 8, 8, 3] uint8, in pixel values from 0 to 1."""
        return np.asarray(_errors(self.weights, _vectors(tiles)))

    def unseen(self, tiles: np.ndarray) -> np.ndarray:
        return self.errors(tiles) >= self.threshold


def _vectors(tiles: np.ndarray) -> np.ndarray:
    return np.asarray(tiles, np.float32).reshape(len(tiles), -1) / 255


def _reconstruct(weights: list[tuple[Array, Array]], x: Array) -> Array:
    for i, (weight, bias) in enumerate(weights):
        x = x @ weight + bias
        if i < len(weights) - 1:
            x = jax.nn.relu(x)
    return x


@jax.jit
def _errors(weights: list[tuple[Array, Array]], x: Array) -> Array:
    return jnp.sqrt(((_reconstruct(weights, x) - x) ** 2).sum(1))


def train(tiles: np.ndarray, rng: np.random.Generator, steps: int = STEPS) -> NoveltyDetector:
    """From the different tiles [N, 8, 8, 3] of the source world; the more there are, the more steps it takes."""
    x = jnp.asarray(_vectors(tiles))
    weights = [
        (jnp.asarray(rng.standard_normal((a, b)) * (2 / a) ** 0.5, jnp.float32), jnp.zeros(b)) for a, b in pairwise(WIDTHS)
    ]
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-3, steps, 0.01))

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        weights, state = carry
        grads = jax.grad(lambda w: ((_reconstruct(w, x) - x) ** 2).sum(1).mean())(weights)
        change, state = optimiser.update(grads, state)
        return (optax.apply_updates(weights, change), state), None

    (weights, _), _ = jax.jit(lambda w: jax.lax.scan(step, (w, optimiser.init(w)), None, length=steps))(weights)
    return NoveltyDetector(weights, MARGIN * float(_errors(weights, x).max()))
