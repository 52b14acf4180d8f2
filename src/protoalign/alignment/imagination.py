"""f_{I,psi} (eq. 5): source worlds in which some prototypes are hidden behind tile types that say nothing.

At the start of an episode a subset I of the prototypes that may be hidden is drawn, and each of those that may be gets a slot,
a number that says nothing (the injection psi). What is seen are codes: below C a prototype, C + s slot s. The prototype of a
slot outside I is known; those in I must be found out. A hidden prototype may have a second tile type on some of the board, in a
slot of its own: a thing drawn in two ways.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.rng import uniform


class Imagined(NamedTuple):
    """B imagined worlds with K prototypes that may be hidden and S >= K slots."""

    slot_of: Array  # [B, K] int32, psi: the slot of each
    second: Array  # [B, K] int32, its slot where the second look shows; the same, mostly
    field: Array | None  # [B, H * W] bool, tiles that show second looks; None if there are none
    truth: Array  # [B, S] int32, which of the K each slot is
    hidden: Array  # [B, S] bool, in I


def imagine(
    key: Array,
    batch: int,
    hideable: int,
    hide_all: Array | float,
    twice: float = 0.0,
    grid: tuple[int, int] | None = None,
    which: Array | None = None,
) -> Imagined:
    """Random injections of `hideable` prototypes; I is all of them with probability `hide_all`, else each is in it or not,
    evenly. `which` [B, K] bool gives I instead.

    If `twice` is not 0, there is one slot more, and with that probability one of them, known or hidden, has a second look which
    is hidden: on every other tile of the `grid`, as on a chessboard, or on tiles drawn at random.
    """
    u = uniform(key, (batch, 2 * hideable + 1))
    slot_of = jnp.argsort(u[:, :hideable], axis=1).astype(jnp.int32)
    truth = jnp.argsort(slot_of, axis=1).astype(jnp.int32)
    hidden = (u[:, hideable:-1] < 0.5) | (u[:, -1:] < hide_all)
    if which is not None:
        hidden = jnp.take_along_axis(which, truth, 1)
    if not twice:
        return Imagined(slot_of, slot_of, None, truth, hidden)
    assert grid is not None
    rows, cols = np.divmod(np.arange(grid[0] * grid[1]), grid[1])
    more = uniform(jax.random.fold_in(key, 1), (batch, 2 + hideable + len(rows)))
    chess = (rows + cols) % 2 == (more[:, :1] < 0.25)
    field = jnp.where(more[:, :1] < 0.5, chess, more[:, 2 + hideable :] < 0.5)
    doubled = jnp.argmax(more[:, 2 : 2 + hideable], 1)  # the slot of the one with two looks
    used = more[:, 1] < twice
    second = jnp.where(used[:, None] & (slot_of == doubled[:, None]), hideable, slot_of)
    own = jnp.take_along_axis(truth, doubled[:, None], 1)
    return Imagined(
        slot_of,
        second,
        field,
        jnp.concatenate([truth, jnp.where(used[:, None], own, 0)], 1),
        jnp.concatenate([hidden, used[:, None]], 1),
    )


def of_kinds(imagined: Imagined, kind_of: tuple[int, ...]) -> Imagined:
    """Worlds imagined of pictures, of which several may be one prototype: `kind_of` tells which."""
    return imagined._replace(truth=jnp.asarray(kind_of, jnp.int32)[imagined.truth])


def hide(world: Imagined, tiles: Array, prototypes: int, hideable: tuple[int, ...]) -> Array:
    """Grids of prototypes, or of the pictures that a world was imagined of, [B, ..., H, W], to codes of the same shape."""
    flat = tiles.reshape(len(tiles), -1).astype(jnp.int32)

    def codes(slot: Array) -> Array:
        if len(hideable) == prototypes:
            table = prototypes + slot
        else:
            known = jnp.broadcast_to(jnp.arange(prototypes, dtype=jnp.int32), (len(tiles), prototypes))
            table = known.at[:, np.array(hideable)].set(prototypes + slot)
        return jnp.take_along_axis(table, flat, 1)

    shown = codes(world.slot_of)
    if world.field is not None:
        repeats = flat.shape[1] // world.field.shape[1]
        shown = jnp.where(jnp.tile(world.field, (1, repeats)), codes(world.second), shown)
    return shown.reshape(tiles.shape).astype(code_type(prototypes + world.truth.shape[1]))


def code_type(codes: int) -> type:
    """The array type of grids with so many codes, and one more for what is outside."""
    return np.uint8 if codes < 255 else np.int32
