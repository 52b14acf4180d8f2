"""The target, seen again: one start in both looks, and one game before and one after. Nothing is trained or explored."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from protoalign.agent import Agent, Policy
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.transfer import split
from protoalign.errors import UserError
from protoalign.report.result import Result
from protoalign.report.story import Game, Pair, Shown
from protoalign.rl.host_evaluate import Eyes, nearest
from protoalign.worlds import registry
from protoalign.worlds.base import World
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.looks import cut

FILMED = 120  # steps of a game, at most


class CannotShow(Exception):
    """Why the target cannot be seen again, in words."""


def again(result: Result, agent: Agent, mapping: Mapping) -> Shown:
    """Play in the target that a result tells of; `CannotShow` if its world or its look is not to be had here."""
    name, look, seed = result.text("env"), result.text("target"), result.count("transfer_seed")
    nuisances = {key: result.number(key) for key in ("noise", "jitter") if key in result and result.number(key)}
    try:
        options = {"tile": agent.vocabulary.tile} if name.startswith("gym:") else {}
        world = registry.make(name, **options)
        if world.spec.grid != agent.spec.grid or world.spec.actions != agent.spec.actions:
            raise UserError(f"{name} has another grid or other actions now")
        source, target = world.make("source"), world.make(look, **nuisances)
        starts = [split(env.reset(seed=seed)[0])[0] for env in (source, target)]
        tiles = (agent.vocabulary.tile, mapping.tile_types.tile)
        sizes = [tuple(n * pixels for n, pixels in zip(agent.spec.grid, tile, strict=True)) for tile in tiles]
        if any(picture.shape != (*size, 3) for picture, size in zip(starts, sizes, strict=True)):
            raise UserError(f"{name} by itself shows pictures of another size: it was trained with options of its own")
        pairs = _pairs(world, look, mapping)
    except UserError as reason:
        raise CannotShow(str(reason)) from None
    except TypeError:  # of a world that knows no noise
        raise CannotShow(f"{name} cannot be made with {', '.join(nuisances)}") from None
    blind = agent.policy(None, seed=seed)
    if isinstance(world, GymWorld) and isinstance(blind, Policy):
        see = reads(nearest(agent.vocabulary.pictures, agent.vocabulary.prototype_of), mapping.tile_types.tile)
        blind.see = lambda picture: agent.vocabulary.canonical[see(picture)]
    before, after = (watch(target, policy, seed) for policy in (blind, agent.policy(mapping, seed=seed)))
    return Shown(starts[0], starts[1], pairs, before, after)


def watch(env: gymnasium.Env, policy: Callable[[Any], int], seed: int, most: int = FILMED) -> Game:
    """One game, or its first `most` steps. The same seed is the same start."""
    observation, _ = env.reset(seed=seed)
    game, over = Game([split(observation)[0]], [], []), False
    while not over and len(game.actions) < most:
        action = int(policy(observation))
        observation, reward, terminated, truncated, _ = env.step(np.int64(action))
        game.pictures.append(split(observation)[0])
        game.actions.append(action)
        game.rewards.append(float(reward))
        over = bool(terminated or truncated)
    return game if over else Game(game.pictures, game.actions, game.rewards, whole=False)


def reads(eyes: Eyes, tile: tuple[int, int]) -> Callable[[np.ndarray], np.ndarray]:
    """Eyes for tiles as eyes for a picture [H*h, W*w, 3]: prototypes [H, W]."""

    def see(picture: np.ndarray) -> np.ndarray:
        tiles = cut(picture, tile)
        return eyes(tiles.reshape(-1, *tiles.shape[2:])).reshape(tiles.shape[:2])

    return see


def _pairs(world: World | GymWorld, look: str, mapping: Mapping) -> list[Pair]:
    """Each prototype that a tile type may be, in the source and in the target: its picture most like the vocabulary's.

    None if the world's table of pictures is not the one the vocabulary was made of.
    """
    if isinstance(world, GymWorld):
        return []
    old, new = world.pictures("source"), world.pictures(look)
    ids = np.asarray(mapping.vocabulary.prototype_of)
    if old.shape != mapping.vocabulary.pictures.shape:
        return []
    new = new.reshape(-1, *old.shape)  # [variants, ids, h, w, 3]
    pairs = []
    for k, c in enumerate(mapping.hideable):
        its = np.flatnonzero(ids == c)
        if not len(its):
            continue
        usual = mapping.vocabulary.draw(np.array([[c]])).astype(int)
        chosen = its[abs(old[its] - usual).sum((1, 2, 3)).argmin()]
        pairs.append(Pair(k, old[chosen], np.unique(new[:, chosen], axis=0)))
    return pairs
