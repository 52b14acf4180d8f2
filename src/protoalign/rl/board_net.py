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
    short_sighted: Array  # [], share of a batch, its first ones, that do not see far; not trained, 0 but in training
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
        self.heads = Heads(rng, width, scene.actions)

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
            hidden = jnp.arange(batch) < (batch if other else self.short_sighted * batch)
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
        batch, height, width = seen.board.shape
        board = seen.board.astype(jnp.int32)
        both = jax.nn.sigmoid(jnp.concatenate([self.worth, self.passage], 1))[board].transpose(3, 1, 2, 0)  # batch last: fast
        worth, passage = both[:CHANNELS], both[CHANNELS:] * jax.nn.sigmoid(self.reach)[:, None, None, None]

        def around(value: Array) -> list[Array]:
            padded = jnp.pad(value, ((0, 0), (1, 1), (1, 1), (0, 0)))
            return [padded[:, r : r + height, c : c + width] for r, c in NEXT]

        def spread(value: Array, _: None) -> tuple[Array, None]:
            north, west, east, south = around(value)
            return _larger(worth, passage * _larger(_larger(north, south), _larger(west, east))), None

        value, _ = jax.lax.scan(spread, worth, None, length=height + width)
        near = jnp.stack([value, *around(value)])  # [5, CHANNELS, H, W, B]
        here = (np.arange(height * width)[:, None] == seen.anchor).astype(jnp.float32)
        found = (near.reshape(5, CHANNELS, -1, batch) * here).sum(2)
        slope = (found[1:] + FAR) / (found[1:].max(0, keepdims=True) + FAR)
        return jnp.concatenate([found[:1], slope]).reshape(-1, batch).T


def _larger(one: Array, other: Array) -> Array:
    """As jnp.maximum, with a gradient that is cheaper: ties go to the first."""
    return jnp.where(one >= other, one, other)
