"""Measuring a policy over whole episodes: in compiled worlds, and through pictures in Gymnasium environments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import numpy as np
from jax import Array

from protoalign.errors import UserError
from protoalign.rl.networks import ActorCritic
from protoalign.rl.rollout import Learnable, act, play_out
from protoalign.rng import gumbel
from protoalign.worlds.base import Observation, World
from protoalign.worlds.env import WorldEnv, WorldVectorEnv

MOST = 1_000_000  # episodes
AT_ONCE = 2048  # episodes side by side

_play_out = eqx.filter_jit(play_out)


class Played(NamedTuple):
    """E whole episodes."""

    returns: np.ndarray  # [E]
    lengths: np.ndarray  # [E]
    summary: dict[str, Any]  # what else the world tells of them


def figures(played: Played) -> dict[str, Any]:
    """Mean return with its standard error, mean length, and what else there is."""
    return {
        "return": round(float(played.returns.mean()), 5),
        "return_se": round(float(played.returns.std(ddof=1) / len(played.returns) ** 0.5), 5),
        "length": round(float(played.lengths.mean()), 3),
        "episodes": len(played.returns),
        **played.summary,
    }


def check_episodes(episodes: int) -> None:
    if not 2 <= episodes <= MOST:
        raise UserError(f"--episodes {episodes}: use 2 (for a standard error) to {MOST:,}")


def evaluate(world: Learnable, net: ActorCritic, key: Array, episodes: int, greedy: bool = False) -> Played:
    """Whole episodes in a compiled world."""
    check_episodes(episodes)
    parts, summaries = [], []
    summary = getattr(getattr(world, "world", world), "summary", None)
    for part in range(-(-episodes // AT_ONCE)):
        number = min(AT_ONCE, episodes - part * AT_ONCE)
        part_key = key if episodes <= AT_ONCE else jax.random.fold_in(key, part)
        some_returns, some_lengths, state = _play_out(world, net, part_key, number, greedy)
        parts.append((np.asarray(some_returns, np.float64), np.asarray(some_lengths)))
        if summary:
            summaries.append(jax.device_get(state))
    told = summary(jax.tree.map(lambda *x: np.concatenate(x), *summaries)) if summary else {}
    returns, lengths = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Played(returns, lengths, told)


class HostGames:
    """Games of a Gymnasium environment side by side, each from a seed of its own; over ones are not stepped."""

    def __init__(self, make: Callable[[], gymnasium.Env], number: int):
        self.envs = [make() for _ in range(number)]

    def reset(self, seed: int) -> Any:
        self.over = np.zeros(len(self.envs), bool)
        found = [env.reset(seed=seed + i) for i, env in enumerate(self.envs)]
        self.seen, self.infos = [observation for observation, _ in found], [info for _, info in found]
        return self._stacked()

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        reward = np.zeros(len(self.envs))
        for i in np.flatnonzero(~self.over):
            self.seen[i], reward[i], terminated, truncated, self.infos[i] = self.envs[i].step(np.int64(actions[i]))
            self.over[i] = terminated or truncated
        return self._stacked(), reward, self.over.copy()

    def _stacked(self) -> Any:
        return jax.tree.map(lambda *x: np.stack(x), *self.seen)


class BatchGames:
    """Games of a JAX world side by side, all in one compiled step."""

    infos: tuple[()] = ()

    def __init__(self, env: WorldVectorEnv):
        self.env = env

    def reset(self, seed: int) -> Any:
        self.over = np.zeros(self.env.num_envs, bool)
        return self.env.reset(seed=seed)[0]

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        seen, reward, terminated, truncated, _ = self.env.step(actions)
        reward = np.where(self.over, 0, reward)
        self.over = self.over | terminated | truncated
        return seen, reward, self.over.copy()


def side_by_side(world: World, number: int, look: str, **options: Any) -> HostGames | BatchGames:
    """Many games of a world in a look, as quickly as it can be played."""
    if isinstance(world.make(look, **options), WorldEnv):
        return BatchGames(WorldVectorEnv(number, world, look, **options))
    return HostGames(lambda: world.make(look, **options), number)


@eqx.filter_jit
def _choose(net: ActorCritic, seen: Observation, seed: Array, time: Array, actions: int, greedy: bool) -> Array:
    key = jax.random.fold_in(jax.random.key(seed), time)
    noise = 0.0 if greedy else gumbel(key, (len(seen.tiles), actions))
    return act(net, seen, noise)[1]


def play(
    games: HostGames | BatchGames,
    net: ActorCritic,
    see: Callable[[np.ndarray], np.ndarray],
    actions: int,
    seed: int,
    greedy: bool = False,
    summary: Callable[[Any], dict[str, Any]] | None = None,
) -> Played:
    """Whole games of a policy on prototypes, its eyes the function `see` from pictures [E, ...] to grids of prototypes [E, H,
    W].

    What chance does in a game and to the policy follows from the seed, the game's number and the time: who sees the same plays
    the same.
    """
    seen = games.reset(seed)
    number = len(games.over)
    returns, lengths, time = np.zeros(number), np.zeros(number, int), 0
    while not games.over.all():
        going = ~games.over
        picture, numbers = (seen["view"], seen["numbers"]) if isinstance(seen, dict) else (seen, np.zeros((number, 0)))
        observation = Observation(see(picture), numbers.astype(np.float32))
        action = np.asarray(_choose(net, observation, np.uint32(seed % 2**32), np.uint32(time), actions, greedy))  # type: ignore[arg-type]
        seen, reward, _ = games.step(action)
        returns += reward
        lengths += going
        time += 1
    return Played(returns, lengths, summary(games.infos) if summary else {})
