"""A small world that is seen from the agent: to check what is done with views, numbers and prototypes that are never hidden."""

import zlib
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.rng import uniform
from protoalign.worlds.base import Observation, Spec, Transition
from protoalign.worlds.env import WorldEnv

GRASS, TREE, BERRY, FIRE, AGENT = range(5)
SIZE = 7
STEP = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])


class State(NamedTuple):
    board: Array  # [B, SIZE * SIZE]
    row: Array  # [B]
    col: Array
    berries: Array
    time: Array


class Garden(eqx.Module):
    """Round like a tyre. Trees stop the agent, berries are worth 1, fire ends it all."""

    @property
    def spec(self) -> Spec:
        actions = ("stay", "up", "down", "left", "right")
        truth = ("grass", "tree", "berry", "fire", "agent")
        return Spec("garden", (4, 5), actions, 20, agent=(1, 2), numbers=("berries",), truth=truth)

    def pictures(self, look: str) -> np.ndarray:
        return np.random.default_rng(zlib.crc32(look.encode())).integers(0, 256, (5, 8, 8, 3), np.uint8)

    def reset(self, key: Array, batch: int) -> State:
        u = uniform(key, (batch, SIZE * SIZE))
        board = (u > 0.6).astype(jnp.int32) + (u > 0.75) + (u > 0.93)
        zero = jnp.zeros(batch, jnp.int32)
        return State(board.at[:, 0].set(GRASS), zero, zero, zero, zero)

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        row, col = ((x + jnp.asarray(STEP[:, i])[action]) % SIZE for i, x in enumerate((state.row, state.col)))
        there = jnp.take_along_axis(state.board, (row * SIZE + col)[:, None], 1)[:, 0]
        row, col = (jnp.where(there == TREE, old, new) for old, new in ((state.row, row), (state.col, col)))
        ate, burnt = there == BERRY, there == FIRE
        here = jnp.arange(SIZE * SIZE) == (row * SIZE + col)[:, None]
        board = jnp.where(here & ate[:, None], GRASS, state.board)
        time = state.time + 1
        after = State(board, row, col, state.berries + ate, time)
        return after, Transition(ate - burnt.astype(jnp.float32), burnt, ~burnt & (time >= 20))

    def observe(self, state: State) -> Observation:
        (height, width), (up, left) = self.spec.grid, (1, 2)
        rows = (state.row[:, None, None] + (np.arange(height) - up)[:, None]) % SIZE
        cols = (state.col[:, None, None] + np.arange(width) - left) % SIZE
        tiles = jnp.take_along_axis(state.board, (rows * SIZE + cols).reshape(len(state.board), -1), 1)
        tiles = jnp.where(np.arange(height * width) == up * width + left, AGENT, tiles)
        numbers = state.berries[:, None].astype(jnp.float32)
        return Observation(tiles.reshape(-1, height, width).astype(jnp.uint8), numbers)

    def make(self, look: str = "source", **options: Any) -> WorldEnv:
        return WorldEnv(self, look, **options)
