"""A world of your own in 60 lines: walk to the fruit, not into the thorns, on a 5 x 5 board.

python examples/own_world.py             # two minutes on one core; PROTOALIGN_QUICK=1: less, and it learns little
"""

import os
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import protoalign as pa
from protoalign.worlds.env import WorldEnv

SIZE = 5
KINDS = ("ground", "walker", "fruit", "thorns")


class State(NamedTuple):
    tile: Array  # [B, 3] int32: where walker, fruit and thorns are
    time: Array  # [B]


class Orchard(eqx.Module):
    """Implements `pa.World`: a spec, pictures for every look, and four functions on batches."""

    @property
    def spec(self) -> pa.Spec:
        actions = ("up", "down", "left", "right")
        return pa.Spec("orchard", (SIZE, SIZE), actions, max_steps=20, truth=KINDS, objects=3)

    def pictures(self, look: str) -> np.ndarray:
        """A look is a seed here: random pictures of 6 x 6 pixels, [4, 6, 6, 3]."""
        seed = 0 if look == "source" else int(look)
        return np.random.default_rng(seed).integers(0, 256, (len(KINDS), 6, 6, 3), np.uint8)

    def reset(self, key: Array, batch: int) -> State:
        order = jnp.argsort(jax.random.uniform(key, (batch, SIZE * SIZE)), axis=1)
        return State(order[:, :3].astype(jnp.int32), jnp.zeros(batch, jnp.int32))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, pa.Transition]:
        row, col = jnp.divmod(state.tile[:, 0], SIZE)
        row = jnp.clip(row + jnp.array([-1, 1, 0, 0])[action], 0, SIZE - 1)
        col = jnp.clip(col + jnp.array([0, 0, -1, 1])[action], 0, SIZE - 1)
        here = row * SIZE + col
        fruit, thorns = here == state.tile[:, 1], here == state.tile[:, 2]
        over = fruit | thorns
        reward = fruit.astype(jnp.float32) - thorns
        after = State(state.tile.at[:, 0].set(here), state.time + 1)
        return after, pa.Transition(reward, over, ~over & (after.time >= 20))

    def observe(self, state: State) -> pa.Observation:
        board = jnp.zeros((len(state.time), SIZE * SIZE), jnp.uint8)
        for kind in (3, 2, 1):  # the walker covers what it has reached
            board = board.at[jnp.arange(len(board)), state.tile[:, kind - 1]].set(kind)
        return pa.Observation(board.reshape(-1, SIZE, SIZE), jnp.zeros((len(board), 0)))

    def make(self, look: str = "source", **options: Any) -> WorldEnv:
        return WorldEnv(self, look, **options)


if __name__ == "__main__":
    quick = bool(os.environ.get("PROTOALIGN_QUICK"))
    world = Orchard()
    agent = pa.train(world, seed=0, steps=32_768 if quick else 1_000_000)
    for look in ("1", "2", "3"):
        mapping = agent.align(world.make(look), episodes=4)
        found = pa.evaluate(agent.policy(mapping), world.make(look), episodes=20)
        print(f"look {look}:\n{mapping}\nreturn {found['return']:.2f} ± {found['return_se']:.2f}")
