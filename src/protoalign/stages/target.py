"""The last stage: into a target, with what the mapping found there is worth."""

import time
from functools import partial
from typing import Any

import numpy as np

from protoalign.agent import Agent
from protoalign.alignment.hosted_verdict import judge as hosted_judge
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.verdict import judge as verdict
from protoalign.errors import UserError
from protoalign.rl.evaluate import Played, figures, play, side_by_side
from protoalign.rl.host_evaluate import nearest, play_hosted
from protoalign.rng import check_seed
from protoalign.settings import Engine
from protoalign.worlds.base import World
from protoalign.worlds.gym import GymWorld


def measure(
    agent: Agent, world: World | GymWorld, look: str, mapping: Mapping, seed: int, episodes: int | None = None, **options: Any
) -> dict[str, Any]:
    """The task policy through pictures: in the source, in the target before and after, and there on games of its own.

    The first three play the same games: where everything is taken for what it is, the very same is played. So the error of the
    ratio is that of differences, game by game.
    """
    number, actions = episodes or agent.settings.target_episodes, len(agent.spec.actions)
    told = getattr(world, "summary_of_games", None)
    if isinstance(world, GymWorld):
        return _compared(number, *_played_on_host(agent, world, look, mapping, seed, number))
    eyes: dict[str, tuple[str, dict[str, Any], Any, int]] = {
        "source_return": ("source", {}, agent.vocabulary.read, seed),
        "target_return_before": (look, options, agent.vocabulary.read, seed),
        "target_return": (look, options, mapping, seed),
        "target_return_own": (look, options, mapping, seed + 1),
    }
    found: dict[str, Any] = {}
    returns = {}
    for label, (shown, nuisance, see, games_seed) in eyes.items():
        games = side_by_side(world, number, shown, **nuisance)
        played = play(games, agent.task, see, actions, 1_000_000 + 1000 * games_seed, summary=told)
        returns[label] = played.returns
        found |= _labelled(label, played)
    return _compared(number, returns, found)


def _labelled(label: str, played: Played) -> dict[str, Any]:
    """Figures of games, called by what was played."""
    named = figures(played)
    found = {label: named.pop("return"), f"{label}_se": named.pop("return_se")}
    return found | {f"{label.replace('_return', '')}_{key}": value for key, value in named.items()}


def _played_on_host(
    agent: Agent, world: GymWorld, look: str, mapping: Mapping, seed: int, number: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The same games in a hosted world: returns, and figures."""
    blind = nearest(agent.vocabulary.pictures, agent.vocabulary.prototype_of)
    tile = mapping.tile_types.tile

    def read(tiles: np.ndarray) -> np.ndarray:
        return mapping(tiles.reshape(-1, *tiles.shape[2:]))[:, 0]

    eyes: dict[str, tuple[str, tuple[int, int], Any, int]] = {
        "source_return": ("source", world.tile, blind, seed),
        "target_return_before": (look, tile, blind, seed),
        "target_return": (look, tile, read, seed),
        "target_return_own": (look, tile, read, seed + 1),
    }
    found: dict[str, Any] = {}
    returns = {}
    for label, (shown, size, see, games_seed) in eyes.items():
        make = partial(world.make, shown)
        played = play_hosted(make, size, agent.plays(), see, number, 1_000_000 + 1000 * games_seed)
        returns[label] = played.returns
        found |= _labelled(label, played)
    return returns, found


def _compared(number: int, returns: dict[str, np.ndarray], found: dict[str, Any]) -> dict[str, Any]:
    """Figures, with ratios of returns [games]."""
    base = float(returns["source_return"].mean()) or 1e-9  # an untrained policy may score exactly nothing
    ratio = float(returns["target_return"].mean()) / base
    error = (returns["target_return"] - ratio * returns["source_return"]).std(ddof=1) / number**0.5 / abs(base)
    own = float(returns["target_return_own"].mean()) / base
    own_error = np.hypot(found["target_return_own_se"], own * found["source_return_se"]) / abs(base)
    return found | {
        "games": number,
        "ratio": round(ratio, 4),
        "ratio_se": round(float(error), 4),
        "ratio_own": round(own, 4),
        "ratio_own_se": round(float(own_error), 4),
    }


def transfer(
    agent: Agent,
    world: World | GymWorld,
    look: str,
    episodes: int = 4,
    seed: int = 0,
    sure: float | None = None,
    oracle: bool = False,
    games: int | None = None,
    engine: Engine = "bayes",
    **options: Any,
) -> tuple[Mapping, dict[str, Any]]:
    """Put an agent into a world in another look: find the mapping, judge it, and measure play before and after.

    `options` go to `world.make`, e.g. `noise`. Returns the mapping and figures for result.json.
    """
    check_seed(seed)
    hosted = isinstance(world, GymWorld)
    same_size = world.spec.grid == agent.spec.grid or (hosted and agent.local is not None)
    if not same_size or world.spec.actions != agent.spec.actions or hosted != (agent.local is not None):
        raise UserError(f"an agent trained in {agent.spec.name} cannot play in {world.spec.name}: other grid or actions")
    if not isinstance(world, GymWorld):
        world.pictures(look)  # complain about the look first
    options = {name: value for name, value in options.items() if value}
    started = time.monotonic()
    try:
        target = world.make(look, **options)
    except TypeError:
        raise UserError(f"{world.spec.name} cannot be made with {', '.join(options)}") from None
    agent.check_engine(engine)
    mapping = agent.align(target, episodes, sure, seed, oracle, engine)
    mapping.about |= {"env": world.spec.name, "target": look, "transfer_seed": seed, "oracle": oracle, **options}
    found = {
        "env": world.spec.name,
        "target": look,
        "engine": engine,
        "transfer_seed": seed,
        **{name: options.get(name, 0.0) for name in ("noise", "jitter")},
        **measure(agent, world, look, mapping, seed, games, **options),
        "explore_episodes": len(mapping.returns),
        "target_steps": mapping.steps,
        "explore_returns": [round(x, 5) for x in mapping.returns],
        **(hosted_judge(mapping, target, world, look) if isinstance(world, GymWorld) else verdict(mapping, world, look)),
        "sureness": round(mapping.sureness, 5),
        "doubts": mapping.doubts,
        "sure_after": mapping.sure_after(),
        "transfer_seconds": round(time.monotonic() - started, 3),
    }
    return mapping, found
