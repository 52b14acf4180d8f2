"""Small array functions that several parts need."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

BLOCK = 16


def first_marked(mask: Array, k: int) -> Array:
    """The first k marked tiles of each row of mask [B, N], as [B, k] int32; N where there are fewer."""
    count = running_count(mask)
    return (count[:, None, :] <= np.arange(k, dtype=np.float32)[:, None]).sum(-1, dtype=jnp.int32)


def running_count(mask: Array) -> Array:
    """How many tiles of each row of mask [B, N] are marked up to and including each, [B, N] float32, exact.

    By matrix products within and over blocks, which are faster than cumsum.
    """
    batch, n = mask.shape
    marked = jnp.pad(mask, ((0, 0), (0, -n % BLOCK))).reshape(batch, -1, BLOCK).astype(jnp.float32)
    within = marked @ np.triu(np.ones((BLOCK, BLOCK), np.float32))
    blocks = marked.shape[1]
    before = within[..., -1] @ np.triu(np.ones((blocks, blocks), np.float32), 1)
    return (within + before[..., None]).reshape(batch, -1)[:, :n]


def select(mask: Array, yes: Any, no: Any) -> Any:
    """Per batch element, one of two pytrees; mask [B]."""
    return jax.tree.map(lambda a, b: jnp.where(mask.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), yes, no)
