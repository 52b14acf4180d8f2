"""Psi_IsUnseen (eq. 3): an autoencoder that has learned the source's tiles by heart reconstructs nothing else.

The threshold is 1.05 times its worst error on a source tile, as in the published code.
"""

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

HIDDEN = (64, 64, 32, 64, 64)  # between an input and an output of h*w*3 values
HANDFUL = 16  # tiles, at most, that are learned in FEW steps; more take MANY
FEW, MANY = 3000, 10_000
MARGIN = 1.05

Weights = list[tuple[Any, Any]]  # matrix [a, b] and bias [b] of every layer, float32


class NoveltyDetector(NamedTuple):
    weights: Weights  # NumPy arrays
    threshold: float  # eta

    def errors(self, tiles: np.ndarray) -> np.ndarray:
        """Reconstruction errors [N] of tiles [N, h, w, 3] uint8, in pixel values from 0 to 1."""
        return _errors(self.weights, _vectors(tiles))

    def unseen(self, tiles: np.ndarray) -> np.ndarray:
        """Whether tiles [N, h, w, 3] are new, [N] bool."""
        return self.errors(tiles) >= self.threshold

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays, and what can be written as JSON."""
        arrays: dict[str, np.ndarray] = {}
        for i, (matrix, bias) in enumerate(self.weights):
            arrays |= {f"matrix{i}": matrix, f"bias{i}": bias}
        return arrays, {"threshold": self.threshold}

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> "NoveltyDetector":
        """What was saved."""
        layers = range(len(arrays) // 2)
        return cls([(arrays[f"matrix{i}"], arrays[f"bias{i}"]) for i in layers], float(info["threshold"]))


def steps_for(tiles: int) -> int:
    """Training steps for so many different tiles."""
    return FEW if tiles <= HANDFUL else MANY


def train(tiles: np.ndarray, rng: np.random.Generator, steps: int | None = None) -> NoveltyDetector:
    """From the different tiles [N, h, w, 3] uint8 of the source world; more tiles take more steps."""
    x = _vectors(tiles)
    widths = (x.shape[1], *HIDDEN, x.shape[1])
    weights = [
        (jnp.asarray(rng.standard_normal((a, b)) * (2 / a) ** 0.5, jnp.float32), jnp.zeros(b)) for a, b in pairwise(widths)
    ]
    trained = _fit(weights, jnp.asarray(x), steps_for(len(tiles)) if steps is None else steps)
    learned = [(np.asarray(matrix), np.asarray(bias)) for matrix, bias in trained]
    return NoveltyDetector(learned, MARGIN * float(_errors(learned, x).max()))


@partial(jax.jit, static_argnums=2)
def _fit(weights: Weights, x: Array, steps: int) -> Weights:
    optimiser = optax.adam(optax.cosine_decay_schedule(1e-3, steps, 0.01))

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        weights, state = carry
        grads = jax.grad(lambda w: ((_reconstruct(w, x, jax.nn.relu) - x) ** 2).sum(1).mean())(weights)
        change, state = optimiser.update(grads, state)
        return (optax.apply_updates(weights, change), state), None

    (weights, _), _ = jax.lax.scan(step, (weights, optimiser.init(weights)), None, length=steps)
    return weights


def _reconstruct(weights: Weights, x: Any, relu: Any) -> Any:
    for i, (matrix, bias) in enumerate(weights):
        x = x @ matrix + bias
        if i < len(weights) - 1:
            x = relu(x)
    return x


def _errors(weights: Weights, x: np.ndarray) -> np.ndarray:
    """In NumPy: a compiled function would be compiled anew for every number of tiles."""
    return np.sqrt(((_reconstruct(weights, x, lambda v: np.maximum(v, 0)) - x) ** 2).sum(1))


def _vectors(tiles: np.ndarray) -> np.ndarray:
    return np.asarray(tiles, np.float32).reshape(len(tiles), math.prod(tiles.shape[1:])) / 255
