"""The best that a first episode in a target can be, in Hunter: a policy is trained for it that is told all but one thing.

Nothing but what happens when it shoots or touches one tells a zombie from a cow: before that, whoever has understood everything
else believes either of both with probability 1/2, afterwards it knows. That belief is exact, so a policy trained by PPO on
board and belief for the return of one episode comes as near to the best possible as PPO comes to the best policy in the source,
with which it is compared. It is told more than any agent in a target knows at the start.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.agent import Agent
from protoalign.alignment.exploration import Explorer, explorer_from
from protoalign.arrays import select
from protoalign.reproduction.experiments.imagined import mean_and_error
from protoalign.rl.evaluate import evaluate
from protoalign.rl.networks import Believed
from protoalign.rl.source_world import SourceWorld
from protoalign.rl.train import train
from protoalign.rng import generator, stream
from protoalign.runs import Memory
from protoalign.settings import TaskConfig
from protoalign.stages import source_of
from protoalign.worlds import registry
from protoalign.worlds.base import Transition
from protoalign.worlds.hunter import COL_STEP, COW, REACH, ROW_STEP, ZOMBIE

GAMES = 8192


class State(NamedTuple):
    inner: Any
    told: Array  # [B] bool, which animal is which is known


class AlmostKnown(eqx.Module):
    """Hunter with zombies and cows believed to be either until the agent has shot or walked into one."""

    world: SourceWorld
    prototypes: int = eqx.field(static=True)

    @property
    def num_actions(self) -> int:
        return self.world.num_actions

    def reset(self, key: Array, batch: int) -> State:
        return State(self.world.reset(key, batch), jnp.zeros(batch, bool))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        inner, transition = self.world.step(state.inner, action, key)
        return State(inner, state.told | touched(state.inner, action, self.world.world.spec.grid[1])), transition

    def observe(self, state: State) -> Believed:
        """Slot s is prototype s; the two animals are half and half until it is told."""
        tiles, numbers = self.world.observe(state.inner)
        certain = np.eye(self.prototypes, dtype=np.float32)
        open_ = certain.copy()
        open_[np.ix_([ZOMBIE, COW], [ZOMBIE, COW])] = 0.5
        shape = (len(tiles), *certain.shape)
        belief = select(state.told, jnp.broadcast_to(certain, shape), jnp.broadcast_to(open_, shape))
        return Believed(tiles + jnp.asarray(self.prototypes, tiles.dtype), numbers, belief)

    def record(self, state: State) -> Any:
        return self.world.record(state.inner)


def touched(state: Any, action: Array, size: int) -> Array:
    """Whether the agent's own action hits an animal, [B] bool: one it shoots, or one on the tile that it walks onto."""
    step_r, step_c = jnp.asarray(ROW_STEP)[action][:, None], jnp.asarray(COL_STEP)[action][:, None]
    off_r = state.animals // size - (state.agent // size)[:, None]
    off_c = state.animals % size - (state.agent % size)[:, None]
    along = off_r * step_r + off_c * step_c
    aligned = off_r * step_c == off_c * step_r
    reach = jnp.where(action >= 5, REACH, 1)[:, None]
    return (state.alive & (action > 0)[:, None] & aligned & (along >= 1) & (along <= reach)).any(1)


def best_first_episode(agent: Agent, seed: int = 0, steps: int = 6_000_000) -> dict[str, Any]:
    """Mean return of such a policy, of pi_task that knows all, and their ratio, with standard errors."""
    source = source_of(registry.make(agent.spec.name), agent.vocabulary)
    world = AlmostKnown(source, agent.scene.prototypes)
    task: Any = agent.task
    start = Explorer(explorer_from(task, agent.hideable, generator(seed, "best/network"), 1.0).net, None)
    config = TaskConfig(steps=steps, history=0, ppo=agent.settings.task.ppo)
    net, _, _ = train(Memory(), "best", config, world, start, seed, title=agent.spec.name)
    key = stream(seed, "best/evaluate")
    first, whole = evaluate(world, net, key, GAMES).returns, evaluate(source, task, key, GAMES).returns
    ratio = first.mean() / whole.mean()
    error = (first - ratio * whole).std(ddof=1) / GAMES**0.5 / abs(whole.mean())
    return {
        "env": agent.spec.name,
        "steps": config.updates * config.ppo.batch,
        "first_episode": mean_and_error(first),
        "source": mean_and_error(whole),
        "ratio": [round(float(ratio), 4), round(float(error), 4)],
        "games": GAMES,
        "seed": seed,
    }


def measure(path: Path) -> Iterator[dict[str, Any]]:
    """On the agent of a run folder, for two seeds of the training."""
    for seed in range(2):
        yield best_first_episode(Agent.load(path), seed)


def show(rows: list[dict[str, Any]]) -> str:
    lines = [
        "### The best that a first episode can be",
        "",
        "A policy trained by PPO for one episode in which it is told everything but which animal is which, until it has shot",
        f"or walked into one; {GAMES:,} games.",
        "",
        "| world | seed | steps trained | its return | the source's | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        first, whole, ratio = (
            f"{mean:.3f} ± {error:.3f}" for mean, error in (row["first_episode"], row["source"], row["ratio"])
        )
        lines.append(f"| {row['env']} | {row['seed']} | {row['steps']:,} | {first} | {whole} | {ratio} |")
    return "\n".join(lines) + "\n"
