"""How much to believe judges: weights of evidence under which what they say comes true as often as they say it."""

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.special import log_softmax

from protoalign.alignment import assignments
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.judges import LEAST

# What `calibrate` tries, and what mistakes cost in nats.
WEIGHTS = tuple(np.geomspace(0.25, 4.0, 9).tolist())
OTHERS = (0.0, *np.geomspace(0.05, 1.6, 11).tolist())
DOUBTS = (0.0, 0.1, 0.3, 0.5)  # more would make it say less than it knows
ROUNDS = 2
SURE, MISTAKEN = 0.99, 25.0
BINS, ENOUGH, TOLERATED, OVERSTATED = (0.7, 0.85, 0.95, 0.99), 30, 0.03, 0.15
LEADERS = 31  # assignments that are looked at beside the truth: all others are ruled out by the first step or two


class Weighing(NamedTuple):
    """How much evidence counts."""

    own: float  # q_theta's
    other: float  # the world model's, if there is one
    doubt: float  # nats: assignments within so many of the best are as good


def calibrate(played: Games) -> Weighing:
    """The weights of evidence under which the truth is most likely, over all steps of games in disguise, `told` kept.

    Everything is hidden in them: when it says 0.9 it is then right 9 times in 10. q_theta and the world model see the same, so
    together they count for less than each by itself. A game in which it was wrong when it was SURE for the first time costs
    MISTAKEN nats besides; and so does saying more than is true where it is half sure (BINS), which are few steps, that the
    likelihood alone would not mind: OVERSTATED nats a game, times by how much.
    """
    said = _said(played)
    others = OTHERS if said.other is not None else (0.0,)
    tried: dict[Weighing, float] = {}

    def worth(weights: Weighing) -> float:
        if weights not in tried:
            tried[weights] = _worth(said, weights)
        return tried[weights]

    for doubt in DOUBTS:  # for each, one weight after the other
        best = Weighing(1.0, others[len(others) // 2], doubt)
        for _ in range(ROUNDS):
            best = max((best._replace(own=w) for w in WEIGHTS), key=worth)
            best = max((best._replace(other=w) for w in others), key=worth)
    return max(tried, key=worth)


class _Said(NamedTuple):
    """What judges said of the truth (column 0) and of the LEADERS best other assignments, at N steps of all games in order."""

    own: np.ndarray  # [N, 1 + LEADERS]
    other: np.ndarray | None
    first: np.ndarray  # [games], the number of every game's first step


def _said(played: Games) -> _Said:
    told: Any = jax.tree.map(lambda x: x[0], played.told)  # of the first games, [E, L, ...]
    scores, model = told if isinstance(told, tuple) else (told, None)
    going, marks = played.going[0], assignments.marks(scores.shape[-1])
    own, other = [], []
    for game, truth in enumerate(played.truth):
        steps = np.flatnonzero(going[game])
        total = scores[game, steps].reshape(len(steps), -1) @ marks.T  # [steps, H]
        more = 0.0 if model is None else model[game, steps]
        ranked = total + np.float32(0.4) * more
        ranked[:, truth] = -np.inf  # it has a column of its own
        number = min(LEADERS, ranked.shape[1] - 1)
        leaders = np.argpartition(-ranked, number - 1, 1)[:, :number]
        which = np.concatenate([np.full((len(steps), 1), truth), leaders], 1)
        own.append(np.take_along_axis(total, which, 1))
        if model is not None:
            other.append(np.take_along_axis(more, which, 1))
    first = np.concatenate([[0], going.sum(1).cumsum()[:-1]])
    return _Said(np.concatenate(own), np.concatenate(other) if other else None, first)


def _worth(said: _Said, weights: Weighing) -> float:
    """The log-probability of the truth over all steps, less what sure mistakes cost."""
    total = np.maximum(log_softmax(weights.own * said.own, axis=1), LEAST)
    if said.other is not None:
        total = total + weights.other * said.other
    posterior = log_softmax(-np.maximum(total.max(1, keepdims=True) - total - weights.doubt, 0), axis=1)
    sure = posterior.max(1) >= np.log(SURE)
    wrong = sure & (posterior[:, 0] < posterior.max(1))
    # Of every game, the first step at which it was sure.
    number = np.arange(len(sure))
    when = np.minimum.reduceat(np.where(sure, number, len(sure)), said.first)
    mistaken = wrong[when[when < len(sure)]].sum()
    best, right = np.exp(posterior.max(1)), posterior[:, 0] >= posterior.max(1)
    over = 0.0
    for low, high in pairwise(BINS):
        there = (best >= low) & (best < high)
        if there.sum() >= ENOUGH:
            over += max(0.0, float(best[there].mean() - right[there].mean()) - TOLERATED)
    return float(posterior[:, 0].sum() - MISTAKEN * mistaken - OVERSTATED * len(said.first) * over)
