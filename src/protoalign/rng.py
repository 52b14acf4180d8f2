"""Randomness: one seed, named streams, flat draws.

Every consumer of random numbers has its own stream, named by a string, so adding one changes no other. Blocks are drawn
flat and reshaped: XLA compiles a draw of shape [n] several times faster than one of shape [a, b, c], because it fuses the
generator with the index arithmetic.
"""

import math
import zlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.errors import UserError


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**32:
        raise UserError(f"--seed {seed} is not a whole number from 0 to {2**32 - 1}")


def stream(seed: int, name: str) -> Array:
    """The key of a named stream."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))


def generator(seed: int, name: str) -> np.random.Generator:
    """The same idea for NumPy: initial weights and other things drawn once need no compiling."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def uniform(key: Array, shape: tuple[int, ...]) -> Array:
    """Uniform numbers in [0, 1)."""
    return jax.random.uniform(key, (math.prod(shape),)).reshape(shape)


def gumbel(key: Array, shape: tuple[int, ...]) -> Array:
    """Gumbel noise: argmax(logits + noise) is a sample from softmax(logits)."""
    return -jnp.log(-jnp.log(jnp.maximum(uniform(key, shape), jnp.finfo(jnp.float32).tiny)))
