"""How well finding out goes, over many imagined worlds: when it is right, when it is sure, and what it earns meanwhile."""

from itertools import pairwise
from typing import Any

import numpy as np
from jax import Array

from protoalign.alignment import imagined_games
from protoalign.alignment.actors import Actor
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.judges import Judge
from protoalign.rl.rollout import Learnable

NAMES = ("one_episode", "two_episodes", "three_episodes", "four_episodes")
EDGES = (0.0, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99, 1.0001)  # of bins of what was said
SURE = 0.99


def measure(
    world: Learnable,
    hideable: tuple[int, ...],
    judge: Judge,
    actor: Actor,
    key: Array,
    number: int,
    longest: int,
    games: int = 2,
) -> dict[str, Any]:
    """Figures over `number` imagined worlds with everything hidden that may be, `games` games in each."""
    return figures(imagined_games.play(world, hideable, judge, actor, key, number, games, longest))


def figures(played: Games) -> dict[str, Any]:
    """Figures of games in imagined worlds in which something was hidden, by game, with errors where they are not shares."""
    if not played.hidden.any(1).all():
        played = played.of(played.hidden.any(1))
    games, worlds = len(played.sure), len(played.truth)
    going, returns = played.going, played.returns
    last = np.asarray(played.episodes.length) - 1
    right = np.take_along_axis(np.asarray(played.right), last[..., None], 2)[..., 0]  # [G, E]
    # What was never met can be told by elimination if it is the only one.
    missed = ~np.logical_or.accumulate(played.met, 0) & np.asarray(played.hidden)  # [G, E, K]
    right = right & (missed.sum(-1) < 2)
    found: dict[str, Any] = {f"{NAMES[g]}_correct": round(float(right[g].mean()), 5) for g in range(games)}
    found["returns"] = [[round(float(x.mean()), 5), _error(x)] for x in returns]
    found |= stopping(played) | {"calibration": reliability(played.sure[going], played.right[going])}
    return found | {"steps": round(float(going.sum(-1).mean()), 3), "measured_worlds": worlds}


def stopping(played: Games) -> dict[str, Any]:
    """After how many steps the mapping is SURE, how often it is right then, and how often that comes to pass at all."""
    worlds = len(played.truth)
    going, sure, right = (
        np.asarray(x).transpose(0, 2, 1).reshape(-1, worlds) for x in (played.going, played.sure, played.right)
    )
    stops = going & (sure >= SURE)
    ever, when, each = stops.any(0), stops.argmax(0), np.arange(worlds)
    steps = going.cumsum(0)[when, each][ever]
    if len(steps) < 2:
        return {"sure_steps": None, "sure_right": None, "sure_share": round(float(ever.mean()), 5)}
    return {
        "sure_steps": [round(float(steps.mean()), 3), _error(steps)],
        "sure_right": round(float(right[when, each][ever].mean()), 5),
        "sure_share": round(float(ever.mean()), 5),
    }


def reliability(said: np.ndarray, right: np.ndarray) -> list[list[float]]:
    """By bins of how sure it said it was: from, to, what it said on average, how often it was right, how many steps."""
    rows = []
    for low, high in pairwise(EDGES):
        chosen = (said >= low) & (said < high)
        if chosen.any():
            mean, share = float(said[chosen].mean()), float(right[chosen].mean())
            rows.append([low, min(high, 1.0), round(mean, 4), round(share, 4), int(chosen.sum())])
    return rows


def _error(x: np.ndarray) -> float:
    return round(float(np.std(x, ddof=1) / len(x) ** 0.5), 5)
