"""The source world as a policy sees it: grids of prototypes instead of picture ids; and what a first look round tells of it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.arrays import select
from protoalign.rl.networks import Scene
from protoalign.rng import stream, uniform
from protoalign.worlds.base import Observation, Spec, Transition, World

GAMES, STEPS = 128, 64  # of random play, to see what is floor and what is the agent


class SourceWorld(eqx.Module):
    """`world`, one gather away from its pictures: `prototype_of` [ids] tells what each picture id is."""

    world: World
    prototype_of: tuple[int, ...] = eqx.field(static=True)

    @property
    def num_actions(self) -> int:
        return len(self.world.spec.actions)

    def reset(self, key: Array, batch: int) -> Any:
        return self.world.reset(key, batch)

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Transition]:
        return self.world.step(state, action, key)

    def record(self, state: Any) -> Observation:
        """Picture ids: what a history keeps."""
        return self.world.observe(state)

    def observe(self, state: Any) -> Observation:
        tiles, numbers = self.world.observe(state)
        if self.prototype_of == tuple(range(len(self.prototype_of))):
            return Observation(tiles, numbers)
        table = np.array(self.prototype_of, np.uint8 if max(self.prototype_of) < 255 else np.int32)
        return Observation(jnp.asarray(table)[tiles.astype(jnp.int32)], numbers)


def survey(world: SourceWorld, seed: int) -> Scene:
    """What networks have to know of a world, from its spec and from random play.

    Floor is the commonest prototype. On a board the agent is the prototype of which there is one tile in every picture; of
    several the one that moves most. If there is none, places count from the corner.
    """
    spec: Spec = world.world.spec
    prototypes = max(world.prototype_of) + 1
    cell = None if spec.agent is None else spec.agent[0] * spec.grid[1] + spec.agent[1]
    counts, moves = jax.device_get(_look_round(world, stream(seed, "survey"), prototypes))
    once = np.flatnonzero((counts == 1).all((0, 1)))  # of [STEPS, GAMES, C]
    agent = (int(once[moves.sum(0)[once].argmax()]),) if cell is None and len(once) else ()
    floor = int(counts.sum((0, 1)).argmax())
    return Scene(spec.grid, prototypes, len(spec.actions), len(spec.numbers), cell, agent, floor, spec.objects)


@eqx.filter_jit
def _look_round(world: SourceWorld, key: Array, prototypes: int) -> tuple[Array, Array]:
    """Tiles of each prototype, [STEPS, GAMES, C], and how many have changed places in each step, [STEPS, C]."""
    reset_key, action_key, step_key = jax.random.split(key, 3)
    start = world.reset(reset_key, GAMES)
    actions = (uniform(action_key, (STEPS, GAMES)) * world.num_actions).astype(jnp.int32)

    def marks(state: Any) -> Array:
        tiles = world.observe(state).tiles.reshape(GAMES, -1)
        return tiles[..., None] == np.arange(prototypes).astype(tiles.dtype)

    def step(state: Any, x: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array]]:
        action, key = x
        after, (_, terminated, truncated) = world.step(state, action, key)
        after = select(terminated | truncated, start, after)
        return after, (marks(state).sum(1), (marks(state) & ~marks(after)).sum((0, 1)))

    _, found = jax.lax.scan(step, start, (actions, jax.random.split(step_key, STEPS)))
    return found
