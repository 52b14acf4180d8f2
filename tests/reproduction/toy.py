"""A toy world whose programs compile in a moment: on a board of 5 x 5 tiles, walk into the cow, not into the zombie.

`toy-board` is seen as a whole. `toy-view` shows 3 x 3 tiles around the agent and the time; its Gymnasium environments are, as
in Crafter, not the world's own, and its tiles not square.
"""

from contextlib import contextmanager
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from protoalign.reproduction import settings as baseline_settings
from protoalign.rng import uniform
from protoalign.settings import ExploreConfig, InferConfig, JudgeConfig, ModelConfig, PPOConfig, Settings, TaskConfig
from protoalign.worlds import looks, registry
from protoalign.worlds.base import Observation, Spec, Transition
from protoalign.worlds.env import WorldEnv
from protoalign.worlds.hunter import ART, KINDS

SIDE = 5
FLOOR, ZOMBIE, AGENT, COW, WALL = range(5)
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
LONGEST = 10

PPO = PPOConfig(envs=16, segment=16, minibatch=64, epochs=1)
TINY = Settings(
    TaskConfig(width=16, steps=2048, history=1024, evaluation=16, ppo=PPO),
    InferConfig(width=8, updates=3, batch=4),
    ExploreConfig(steps=1024, rounds=1, refresh=0, measured=16, ppo=PPO),
    JudgeConfig(updates=4, period=2, games=8, batch=4, measured=8),
    ModelConfig(width=6, games=32, updates=10, batch=16),
    target_episodes=8,
)
BASELINE = baseline_settings.BaselineConfig(
    source_steps=512,
    latent_steps=512,
    target_steps=512,
    frames=2048,
    code_updates=600,
    translation_updates=100,
    ppo=PPO,
    latent_ppo=PPO,
)


class State(NamedTuple):
    agent: Array  # [B] int32, tiles
    zombie: Array
    cow: Array
    wall: Array
    time: Array


class Toy(eqx.Module):
    view: bool = eqx.field(static=True, default=False)
    tile: tuple[int, int] = eqx.field(static=True, default=(8, 8))

    @property
    def spec(self) -> Spec:
        actions = ("up", "down", "left", "right")
        if self.view:
            return Spec("toy-view", (3, 3), actions, LONGEST, agent=(1, 1), numbers=("time",), truth=KINDS)
        return Spec("toy-board", (SIDE, SIDE), actions, LONGEST, truth=KINDS, objects=4)

    def pictures(self, look: str) -> np.ndarray:
        height, width = self.tile
        return looks.pictures(look, ART, max(self.tile))[..., :height, :width, :]

    def make(self, look: str = "source", **options: Any) -> gymnasium.Env:
        env = WorldEnv(self, look, **options)
        return gymnasium.Wrapper(env) if self.view else env

    def reset(self, key: Array, batch: int) -> State:
        places = jnp.argsort(uniform(key, (batch, SIDE**2)), 1)[:, :4].astype(jnp.int32)
        return State(*places.T, jnp.zeros(batch, jnp.int32))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        down, right = jnp.asarray(MOVES)[action].T
        row, column = state.agent // SIDE + down, state.agent % SIDE + right
        ahead = jnp.clip(row, 0, SIDE - 1) * SIDE + jnp.clip(column, 0, SIDE - 1)
        agent = jnp.where(ahead == state.wall, state.agent, ahead)
        caught, bitten, time = agent == state.cow, agent == state.zombie, state.time + 1
        over = caught | bitten
        reward = caught.astype(jnp.float32) - bitten
        return state._replace(agent=agent, time=time), Transition(reward, over, ~over & (time >= LONGEST))

    def observe(self, state: State) -> Observation:
        tile = np.arange(SIDE**2)
        grid = jnp.full((len(state.agent), SIDE**2), FLOOR, jnp.uint8)
        for kind, place in ((WALL, state.wall), (ZOMBIE, state.zombie), (COW, state.cow), (AGENT, state.agent)):
            grid = jnp.where(tile == place[:, None], jnp.uint8(kind), grid)
        grid = grid.reshape(-1, SIDE, SIDE)
        if not self.view:
            return Observation(grid, jnp.zeros((len(grid), 0)))
        padded = jnp.pad(grid, ((0, 0), (1, 1), (1, 1)), constant_values=WALL).reshape(len(grid), -1)
        wide, around = SIDE + 2, np.arange(3)
        corner = state.agent // SIDE * wide + state.agent % SIDE
        seen = jnp.take_along_axis(padded, corner[:, None] + (around[:, None] * wide + around).reshape(-1), 1)
        return Observation(seen.reshape(-1, 3, 3), state.time[:, None].astype(jnp.float32))


@contextmanager
def registered() -> Any:
    """These worlds in the registry, with tiny settings of the method and of baselines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "WORLDS", list(registry.WORLDS))
        registry.register("toy-board", lambda: Toy(False, (4, 4)), "a toy", {"fast": TINY})
        registry.register("toy-view", lambda: Toy(True, (3, 5)), "a toy", {"fast": TINY})
        patch.setitem(baseline_settings.FAMILIES, "toy", baseline_settings.Family({"fast": BASELINE}))
        yield
