"""f_{I,psi} (eq. 5): source worlds in which some prototypes are hidden behind new names.

At the start of an episode a subset I of the prototypes is drawn and every prototype gets a type, a number that says nothing
(the injection psi). What is seen is types. The prototype of a type outside I is known; those in I must be found out.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from protoalign.rng import uniform


class Imagined(NamedTuple):
    """B imagined worlds with C prototypes and as many types."""

    type_of: Array  # [B, C] int32, psi: the type of each prototype
    truth: Array  # [B, C] int32, its inverse: the prototype of each type
    hidden: Array  # [B, C] bool, by type: in I


def imagine(key: Array, batch: int, prototypes: int, hide_all: float = 0.5) -> Imagined:
    """Random injections; I is everything with probability `hide_all`, else each prototype is in it or not, evenly."""
    u = uniform(key, (batch, 2 * prototypes + 1))
    type_of = jnp.argsort(u[:, :prototypes], axis=1).astype(jnp.int32)
    truth = jnp.argsort(type_of, axis=1).astype(jnp.int32)
    hidden = (u[:, prototypes:-1] < 0.5) | (u[:, -1:] < hide_all)
    return Imagined(type_of, truth, hidden)


def disguise(world: Imagined, grid: Array) -> Array:
    """Prototype grids [B, ...] to type grids of the same shape."""
    flat = grid.reshape(grid.shape[0], -1).astype(jnp.int32)
    return jnp.take_along_axis(world.type_of, flat, 1).reshape(grid.shape).astype(grid.dtype)
