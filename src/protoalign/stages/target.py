"""The last stage: into a target, with what the mapping found there is worth."""

import time
from typing import Any

import numpy as np

from protoalign.agent import Agent
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.verdict import judge as verdict
from protoalign.errors import UserError
from protoalign.rl.evaluate import figures, play, side_by_side
from protoalign.rng import check_seed
from protoalign.settings import Engine
from protoalign.worlds.base import World


def measure(
    agent: Agent, world: World, look: str, mapping: Mapping, seed: int, episodes: int | None = None, **options: Any
) -> dict[str, Any]:
    """The task policy through pictures: in the source, in the target before and after, and there on games of its own.

    The first three play the same games: where everything is taken for what it is, the very same is played. So the error of the
    ratio is that of differences, game by game.
    """
    number, actions = episodes or agent.settings.target_episodes, len(agent.spec.actions)
    told = getattr(world, "summary_of_games", None)
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
        returns[label], named = played.returns, figures(played)
        found |= {label: named.pop("return"), f"{label}_se": named.pop("return_se")}
        found |= {f"{label.replace('_return', '')}_{key}": value for key, value in named.items()}
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
    world: World,
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
    if world.spec.grid != agent.spec.grid or world.spec.actions != agent.spec.actions:
        raise UserError(f"an agent trained in {agent.spec.name} cannot play in {world.spec.name}: other grid or actions")
    world.pictures(look)  # complain about the look first
    options = {name: value for name, value in options.items() if value}
    started = time.monotonic()
    try:
        target = world.make(look, **options)
    except TypeError:
        raise UserError(f"{world.spec.name} cannot be made with {', '.join(options)}") from None
    agent.check_engine(engine)
    mapping = agent.align(target, episodes, sure, seed, oracle, engine)
    mapping.about = {"env": world.spec.name, "target": look, "transfer_seed": seed, "oracle": oracle, **options}
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
        **verdict(mapping, world, look),
        "sureness": round(mapping.sureness, 5),
        "doubts": mapping.doubts,
        "sure_after": mapping.sure_after(),
        "transfer_seconds": round(time.monotonic() - started, 3),
    }
    return mapping, found
