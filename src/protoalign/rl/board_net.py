"""A task network that is told nothing: not what is floor, nor which tile is the agent, nor how large the board is.

A board is seen from one tile, the anchor: the one whose prototype has the highest score. Scores come from play
(`HostVector.scores`): how often a tile changes in a step, and whether there is but one of its kind. So the anchor comes to be
the agent, wherever it is seen. In an egocentric view the anchor is the agent's fixed cell.

An MLP is given the tiles next to the anchor and those farther away, embedded; which prototypes are on the board; and, in some
channels in which each tile has a worth and a passage, what the anchor's neighbours are worth after worth has spread from cell
to cell as in value iteration, which shows the ways around obstacles. What lies farther away ties a policy to the size of its
boards. So a quarter of the games it learns from are played without, and so is every board of another size.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.rl.networks import MARKS, Dense, Heads, Scene
from protoalign.worlds.base import Observation

NEAR = 1  # radius of what is near the anchor
FEATURES = 12
CHANNELS = 6  # of worth
FAR = 1e-8  # worth that is nothing any more
NEXT = ((0, 1), (1, 0), (1, 2), (2, 1))  # where neighbours lie in a board with a border
OUTSIDE = 255  # the code of what lies outside the board


class Window(NamedTuple):
    """What is around the anchor, and the board itself."""

    near: Array  # [B, S, S] uint8
    far: Array  # [B, L, L] uint8, OUTSIDE where it is not to be seen
    board: Array  # [B, H, W] uint8
    anchor: Array  # [B] int32
    numbers: Array  # [B, M]


class BoardNet(eqx.Module):
    """Boards [B, H, W] of prototypes, of any size, and numbers [B, M] to action logits and values."""

    embedding: Array  # [256, F]
    presence: Array  # [256, F], of what is on the board
    worth: Array  # [256, CHANNELS]
    passage: Array  # [256, CHANNELS]
    reach: Array  # [CHANNELS], how much of a neighbour's worth is left
    scores: Array  # [256], not trained
    short_sighted: Array  # [], share of a batch, its last ones, that do not see far; not trained, 0 but in training
    near: Dense
    far: Dense
    hidden: Dense
    heads: Heads
    grid: tuple[int, int] = eqx.field(static=True)
    cell: tuple[int, int] | None = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, scene: Scene, width: int, hideable: tuple[int, ...] = ()):
        def normal(scale: float, *shape: int) -> Array:
            return jnp.asarray(scale * rng.standard_normal(shape), jnp.float32)

        self.embedding, self.presence = normal(0.5, 256, FEATURES), normal(0.5, 256, FEATURES)
        self.worth, self.passage = normal(0.5, 256, CHANNELS) - 2.0, normal(0.5, 256, CHANNELS) + 1.0
        self.reach = normal(0.1, CHANNELS) + 2.0
        self.scores, self.short_sighted = jnp.zeros(256), jnp.float32(0)
        self.grid = scene.grid
        self.cell = None if scene.cell is None else divmod(scene.cell, scene.grid[1])
        told = ((2 * NEAR + 1) ** 2 + 1) * FEATURES + 5 * CHANNELS + len(MARKS) * scene.numbers
        self.near = Dense(rng, told, width)
        self.far = Dense(rng, (2 * max(scene.grid) - 1) ** 2 * FEATURES, width)
        self.hidden = Dense(rng, width, width)
        heads = Heads(rng, width, scene.actions)  # whoever expects much at the start fears every end, that at the goal too
        self.heads = eqx.tree_at(lambda h: h.value.weight, heads, 0.01 * heads.value.weight)

    def encode(self, observation: Observation) -> Window:
        tiles = jnp.asarray(observation.tiles, jnp.uint8)
        batch, _, width = tiles.shape
        if self.cell is None:
            anchor = jnp.argmax(self.scores[tiles.astype(jnp.int32)].reshape(batch, -1), 1)
        else:
            anchor = jnp.full(batch, self.cell[0] * width + self.cell[1])
        rows, columns = anchor // width, anchor % width

        def around(radius: int) -> Array:
            padded = jnp.pad(tiles, ((0, 0), (radius, radius), (radius, radius)), constant_values=OUTSIDE)
            side = np.arange(2 * radius + 1)
            r, c = rows[:, None, None] + side[:, None], columns[:, None, None] + side
            return padded[jnp.arange(batch)[:, None, None], r, c]

        far = around(max(self.grid) - 1)
        if self.cell is None:  # a view is always of one size
            other = tiles.shape[1:] != self.grid
            hidden = jnp.arange(batch) >= (0 if other else (1 - self.short_sighted) * batch)
            far = jnp.where(hidden[:, None, None], jnp.uint8(OUTSIDE), far)
        return Window(around(NEAR), far, tiles, anchor, jnp.asarray(observation.numbers, jnp.float32))

    def __call__(self, seen: Window) -> tuple[Array, Array]:
        batch = len(seen.board)
        near, far = (self.embedding[x.astype(jnp.int32)].reshape(batch, -1) for x in (seen.near, seen.far))
        board = seen.board.reshape(batch, -1).astype(jnp.int32)
        present = jnp.zeros((batch, 256)).at[np.arange(batch)[:, None], board].set(1.0)
        parts = [near, present @ self.presence, self._prospect(seen)]
        parts += [jnp.minimum(seen.numbers / mark, 1) for mark in MARKS]
        x = jax.nn.relu(self.near(jnp.concatenate(parts, -1)) + self.far(far))
        return self.heads(x + jax.nn.relu(self.hidden(x)))

    def _prospect(self, seen: Window) -> Array:
        """What the anchor is worth, and its neighbours relative to the best of them: [B, 5 CHANNELS]."""
        batch, _, width = seen.board.shape
        both = jax.nn.sigmoid(jnp.concatenate([self.worth, self.passage], 1))[seen.board.astype(jnp.int32)]
        both = both.transpose(3, 1, 2, 0)  # batch last: fast
        value = spread(both[:CHANNELS], both[CHANNELS:] * jax.nn.sigmoid(self.reach)[:, None, None, None])
        flat = _bordered(value).reshape(CHANNELS, -1, batch)
        corner = seen.anchor // width * (width + 2) + seen.anchor % width  # of what is around it, in a board with a border
        places = np.array([r * (width + 2) + c for r, c in ((1, 1), *NEXT)])
        found = flat[:, corner + places[:, None], np.arange(batch)].transpose(1, 0, 2)  # [5, CHANNELS, B]
        slope = (found[1:] + FAR) / (found[1:].max(0, keepdims=True) + FAR)
        return jnp.concatenate([found[:1], slope]).reshape(-1, batch).T


@jax.custom_vjp
def spread(worth: Array, passage: Array) -> Array:
    """What cells are worth after `worth` has spread from cell to cell: a cell's own, or what is left of its best neighbour's
    after its `passage`. All are [CHANNELS, H, W, B].

    The gradient goes back along the way by which each cell's worth came in the end, which is several times cheaper than going
    back through every step. Where ways are longer than H + W, it is not exact for cells that a worth has just come to, or is
    about to.
    """
    steps = worth.shape[1] + worth.shape[2]
    return jax.lax.scan(lambda value, _: (_larger(worth, passage * _best(value)[0]), None), worth, None, length=steps)[0]


def _spread_forward(worth: Array, passage: Array) -> tuple[Array, tuple[Array, ...]]:
    value = spread(worth, passage)
    return value, (worth, passage, value)


def _spread_backward(kept: tuple[Array, ...], gradient: Array) -> tuple[Array, Array]:
    worth, passage, value = kept
    best, neighbours = _best(value)
    comes = passage * best > worth  # from a neighbour, which is the first that has the best
    weights, left = [], jnp.where(comes, passage, 0)
    for neighbour in neighbours:
        weights.append(jnp.where(neighbour == best, left, 0))
        left = jnp.where(neighbour == best, 0, left)

    def back(total: Array, _: None) -> tuple[Array, None]:
        north, west, east, south = (_bordered(weight * total) for weight in weights)
        received = north[:, 2:, 1:-1] + west[:, 1:-1, 2:] + east[:, 1:-1, :-2] + south[:, :-2, 1:-1]
        return gradient + received, None

    total = jax.lax.scan(back, gradient, None, length=worth.shape[1] + worth.shape[2])[0]
    return jnp.where(comes, 0, total), jnp.where(comes, total * best, 0)


spread.defvjp(_spread_forward, _spread_backward)


def _best(value: Array) -> tuple[Array, list[Array]]:
    """The best neighbour's value of every cell, and each neighbour's, in the order of NEXT."""
    height, width = value.shape[1:3]
    padded = _bordered(value)
    near = [padded[:, r : r + height, c : c + width] for r, c in NEXT]
    return _larger(_larger(near[0], near[3]), _larger(near[1], near[2])), near


def _bordered(value: Array) -> Array:
    return jnp.pad(value, ((0, 0), (1, 1), (1, 1), (0, 0)))


def _larger(one: Array, other: Array) -> Array:
    """As jnp.maximum, which compiles to slower code here."""
    return jnp.where(one >= other, one, other)
