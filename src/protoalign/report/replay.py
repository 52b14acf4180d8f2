"""What a finished run did in its target, done once more to be looked at: the exploration, and games before and after it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from protoalign import stages
from protoalign.alignment import transfer
from protoalign.envs import appearance
from protoalign.envs.gym import HunterEnv
from protoalign.envs.hunter import Hunter
from protoalign.errors import UserError
from protoalign.perception.categories import as_tiles
from protoalign.rl.networks import ActorCritic
from protoalign.rl.rollout import act
from protoalign.rng import gumbel


@dataclass(frozen=True)
class Game:
    """One episode of pi_task: T actions and rewards, T + 1 pictures."""

    pictures: list[np.ndarray]
    actions: list[int]
    rewards: list[float]


@dataclass(frozen=True)
class Thinking:
    """An exploration, and what was believed meanwhile."""

    trace: list[transfer.Moment]
    belief: np.ndarray  # [P, C], after all episodes
    verdict: np.ndarray  # [P], what each look was taken for in the end
    episodes: int
    looks: np.ndarray  # [P, 8, 8, 3], a tile of each
    names: tuple[str, ...]  # of prototypes
    source: np.ndarray  # [C, 8, 8, 3], how they look at home
    action_names: tuple[str, ...]


@dataclass(frozen=True)
class Replay:
    """Everything a page shows that result.json does not hold."""

    mapping: transfer.Mapping
    grid: np.ndarray  # [H, W], a start of the target, true categories
    target: np.ndarray  # [C, 8, 8, 3], the target's textures; [2, C, 8, 8, 3] where a kind has two looks
    before: Game
    after: Game

    @property
    def source(self) -> np.ndarray:
        """[C, 8, 8, 3], the source's textures."""
        return self.mapping.agent.textures

    @property
    def names(self) -> tuple[str, ...]:
        return self.mapping.agent.world.category_names

    @property
    def looks(self) -> np.ndarray:
        """Tiles [P, 8, 8, 3] uint8, one of each look found in the target."""
        return as_tiles(self.mapping.categories.centres)

    @property
    def thinking(self) -> Thinking:
        mapping, world = self.mapping, self.mapping.agent.world
        return Thinking(
            mapping.trace,
            mapping.belief,
            mapping.prototype,
            mapping.episodes,
            self.looks,
            self.names,
            self.source,
            world.action_names,
        )

    @property
    def truth(self) -> np.ndarray:
        """What each look truly is, [P]: the category whose texture it is most like."""
        return stages.true_prototypes(self.mapping, self.target)


def again(path: Path, result: dict[str, Any]) -> Replay:
    """The move that a run folder's result tells of. Everything follows from seeds, so it goes as it went."""
    agent = stages.load_agent(path)
    if not isinstance(agent.world, Hunter):
        raise UserError(f"there is no target of {agent.world.name} to show")
    look, seed = result["target"], result["transfer_seed"]
    env = HunterEnv(agent.world.variant_name, appearance=look, size=agent.world.size)
    mapping = transfer.align(env, agent, result["explore_episodes"], seed)
    _, info = env.reset(seed=seed)
    textures = appearance.load(look, agent.world.category_names)
    return Replay(
        mapping, info["categories"], textures, watch(env, agent, agent.before, seed), watch(env, agent, mapping, seed)
    )


def watch(env: HunterEnv, agent: transfer.Agent, see: Callable[[np.ndarray], np.ndarray], seed: int) -> Game:
    """One episode of pi_task, its eyes the function `see`. The same seed is the same start, and the same luck."""
    key = jax.random.key(seed)
    picture, _ = env.reset(seed=seed)
    game, over = Game([picture], [], []), False
    while not over:
        noise_key = jax.random.fold_in(key, len(game.actions))
        action = int(_choose(agent.task, see(game.pictures[-1][None]), noise_key, agent.world.num_actions)[0])
        picture, reward, terminated, truncated, _ = env.step(np.int64(action))
        game.pictures.append(picture)
        game.actions.append(action)
        game.rewards.append(reward)
        over = terminated or truncated
    return game


@partial(jax.jit, static_argnums=3)
def _choose(net: ActorCritic, grid: Array, key: Array, actions: int) -> Array:
    return act(net, grid, gumbel(key, (1, actions)))[1]
