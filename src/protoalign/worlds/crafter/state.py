"""Games of Crafter in progress, as arrays: a map, a player, and slots for creatures.

All arrays carry a batch axis. A map has a border of `EDGE` tiles around the world, so that no view leaves it.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.arrays import first_marked
from protoalign.worlds.crafter.names import AREA, GRASS, MOST, PATH, ZOMBIE

EDGE = 4
SIDE = AREA + 3 * EDGE  # of a map: the last chunks, of 12 x 12, reach past the world's edge
CHUNK = 12
CHUNKS = 6  # in a row
SLOTS = 128  # for creatures, arrows and plants


class Creatures(NamedTuple):
    """Slots [B, SLOTS] for creatures, arrows and plants."""

    kind: Array  # int32, a category (PLANT also for ripe ones)
    tile: Array  # int32, on the map; 0, a corner where nothing can be, if the slot is free
    health: Array  # int32
    clock: Array  # int32: a zombie's cooldown, a skeleton's reload time, an arrow's direction, a plant's age


class State(NamedTuple):
    """B games in progress."""

    ground: Array  # [B, SIDE * SIDE] uint8, materials
    row: Array  # [B] int32, the player's, on the map
    col: Array
    facing: Array  # [B] int32: left, right, up, down
    asleep: Array  # [B] bool
    items: Array  # [B, 16] int32
    clocks: Array  # [B, 4] int32: hunger and thirst in halves, fatigue, recovery in halves
    health_before: Array  # [B] int32, when the player last acted
    unlocked: Array  # [B, 22] bool
    time: Array  # [B] int32, steps taken
    visited: Array  # [B, 36] bool, chunks that ever held a creature: only those are stocked up
    space: Array  # [B, 2, 36] int32, tiles of grass and of path in each chunk
    creatures: Creatures


def prepare(material: np.ndarray, creature: np.ndarray) -> tuple[np.ndarray, Creatures]:
    """Worlds [W, 64, 64] as maps with creatures in slots."""
    number = len(material)
    ground = np.zeros((number, SIDE, SIDE), np.uint8)
    ground[:, EDGE : EDGE + AREA, EDGE : EDGE + AREA] = material
    slots = np.zeros((3, number, SLOTS), np.int32)
    for world in range(number):
        rows, cols = np.nonzero(creature[world])
        kind = creature[world][rows, cols]
        health = np.where(kind == ZOMBIE, 5, 3)
        found = np.stack([kind, (rows + EDGE) * SIDE + cols + EDGE, health])[:, :SLOTS]
        slots[:, world, : found.shape[1]] = found
    return ground.reshape(number, -1), Creatures(slots[0], slots[1], slots[2], np.zeros_like(slots[0]))


def begin(ground: Array, creatures: Creatures) -> State:
    """Games on B maps, the player in the middle of each."""
    batch = len(ground)
    zero = jnp.zeros(batch, jnp.int32)
    items = jnp.zeros((batch, 16), jnp.int32).at[:, :4].set(MOST)
    visited = (chunk_of(creatures.tile)[:, :, None] == np.arange(CHUNKS**2)).any(1)
    centre = zero + EDGE + AREA // 2
    return State(
        ground,
        centre,
        centre,
        zero + 3,
        zero > 0,
        items,
        jnp.zeros((batch, 4), jnp.int32),
        zero + MOST,
        jnp.zeros((batch, 22), bool),
        zero,
        visited,
        space_of(ground),
        creatures,
    )


def space_of(ground: Array) -> Array:
    """Tiles of grass and of path in each chunk, [B, 2, 36]."""
    chunks = ground.reshape(-1, SIDE, SIDE)[:, EDGE:, EDGE:].reshape(-1, CHUNKS, CHUNK, CHUNKS, CHUNK)
    return jnp.stack([(chunks == kind).sum((2, 4)).reshape(-1, CHUNKS**2) for kind in (GRASS, PATH)], 1)


def daylight(time: Array) -> Array:
    return 1 - abs(jnp.cos(jnp.pi * ((time / 300) % 1 + 0.3))) ** 3


def chunk_of(tile: Array) -> Array:
    """The chunk that tiles are in; -1 for tile 0."""
    return jnp.where(tile > 0, (tile // SIDE - EDGE) // CHUNK * CHUNKS + (tile % SIDE - EDGE) // CHUNK, -1)


class Births(NamedTuple):
    """What is to be added to the world, [B, R]."""

    wanted: Array  # bool
    kind: Array
    tile: Array
    health: Array
    clock: Array


def together(parts: list[Births]) -> Births:
    return Births(*(jnp.concatenate(x, 1) for x in zip(*parts, strict=True)))


def where_nobody_is(born: Births, who: Creatures) -> Births:
    """What is to be added, but not where somebody has gone meanwhile."""
    return born._replace(wanted=born.wanted & ~(who.tile[:, None] == born.tile[..., None]).any(-1))


def add(who: Creatures, born: list[Births]) -> Creatures:
    """Put what is born into free slots, as far as there are any."""
    new = together(born)
    number = new.wanted.shape[1]
    order = jnp.cumsum(new.wanted, 1) - 1
    room = first_marked(who.tile == 0, min(number, 8))  # [B, 8]
    slot = jnp.take_along_axis(room, jnp.clip(order, 0, room.shape[1] - 1), 1)
    slot = jnp.where(new.wanted & (order < room.shape[1]), slot, SLOTS)
    batch = jnp.arange(len(slot))[:, None]
    return Creatures(*(old.at[batch, slot].set(x, mode="drop") for old, x in zip(who, new[1:], strict=True)))
