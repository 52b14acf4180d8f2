"""What finding out is worth where prototypes are too many to compare all assignments: tile type by tile type.

Everything is taken from games in imagined worlds, and said as `Mapping` says it in a target: evidence of all games so far about
the tile types that were met, all of them taken together. With it the weight of the evidence is fitted, and figures are made.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from protoalign.alignment import hypotheses
from protoalign.alignment.calibration import MISTAKEN, SURE, WEIGHTS
from protoalign.alignment.finding_out import NAMES, reliability
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.verdict import base
from protoalign.rl.networks import Scene

FEW = 12  # tile types of a world: with more, posteriors take too long to try many weights on them
MISTAKES = 12  # kinds of them that are told


class Said(NamedTuple):
    """What was said of N tile types, each after some game of some world. NumPy arrays."""

    world: np.ndarray  # [N] int
    truth: np.ndarray  # [N] int, which of the K prototypes it is
    choice: np.ndarray  # [N] int, what it is taken for
    sure: np.ndarray  # [N], the probability of that
    given: np.ndarray  # [N], the probability of the truth


def said(played: Games, games: int, weight: float = 1.0, most: int | None = None) -> Said:
    """What is said after so many `games`, with evidence of weight `weight`; of worlds with at most so many tile types."""
    rows = [row for row in _worlds(played, games, weight) if most is None or len(row[1]) <= most]
    parts: list[tuple[np.ndarray, ...]] = [(np.zeros(0, int),) * 3 + (np.zeros(0),) * 2]
    rng = np.random.default_rng(0)
    for world, truth, evidence, alone in rows:
        each = np.arange(len(truth))
        mixed = rng.permutation(each)  # of equals the first is chosen: in the order of the truth that would be right
        choice, belief = np.empty(len(truth), int), hypotheses.marginals(evidence, alone)
        choice[mixed] = hypotheses.decode(evidence[mixed], alone)
        parts.append((np.full(len(truth), world), truth, choice, belief[each, choice], belief[each, truth]))
    return Said(*map(np.concatenate, zip(*parts, strict=True)))


def _worlds(played: Games, games: int, weight: float) -> Iterator[tuple[int, np.ndarray, np.ndarray, bool]]:
    """By world: its number, the truth of its T tile types, evidence [T, K] and whether each is a prototype of its own."""
    kinds = played.hidden.shape[1]
    met = np.logical_or.reduce(played.met[:games])  # [E, K]
    score = weight * np.asarray(played.score, np.float64)[:games]
    for world, hidden in enumerate(np.asarray(played.hidden)):
        truth, known = np.flatnonzero(met[world] & hidden), met[world] & ~hidden
        if len(truth):
            evidence = hypotheses.combine(score[:, world, truth]) + np.where(known, np.log(hypotheses.VARIANT), 0.0)
            yield world, truth, evidence, len(truth) <= kinds - int(known.sum())


def calibrate(played: Games) -> float:
    """The weight of evidence under which the truth is most likely, of all tile types met, after the first and the last game.

    Being wrong while SURE costs MISTAKEN nats besides. `played` is by a judge whose evidence has weight 1.
    """
    worth = []
    for weight in WEIGHTS:
        total = 0.0
        for games in {1, len(played.score)}:
            found = said(played, games, float(weight), FEW)
            mistaken = (found.choice != found.truth) & (found.sure >= SURE)
            total += np.log(np.maximum(found.given, 1e-30)).sum() - MISTAKEN * mistaken.sum()
        worth.append(total)
    return float(WEIGHTS[int(np.argmax(worth))])


def figures(played: Games, names: tuple[str, ...], hideable: tuple[int, ...], scene: Scene) -> dict[str, Any]:
    """Shares of tile types that are right after the first and the last game; of the last, how sure that was said, and what
    prototypes are taken for. `names` of all prototypes; `arrow` and `arrow 2` are one kind, so that either is right."""
    names = tuple(names[c] for c in hideable)
    kind = np.unique([base(name) for name in names], return_inverse=True)[1]
    near = touched(played, hideable, scene)
    found: dict[str, Any] = {}
    for games in sorted({1, len(played.score)}):
        now = said(played, games)
        right = kind[now.choice] == kind[now.truth]
        found[f"{NAMES[games - 1]}_types_right"] = _share(right)
        beside = np.logical_or.reduce(near[:games])[now.world, now.truth]
        found[f"{NAMES[games - 1]}_touched_right"] = _share(right[beside])
    sure = now.sure >= SURE
    wrong = Counter(f"{names[t]} as {names[c]}" for t, c in zip(now.truth[~right], now.choice[~right], strict=True))
    return found | {
        "types_calibration": reliability(now.sure, right),
        "types_sure": [int(sure.sum()), int((sure & ~right).sum())],
        "types_by_kind": {
            names[k]: [int(right[now.truth == k].sum()), int((now.truth == k).sum())] for k in np.unique(now.truth)
        },
        "types_taken_for": dict(wrong.most_common(MISTAKES)),
    }


def _share(right: np.ndarray) -> float | None:
    """None of nothing."""
    return round(float(right.mean()), 5) if len(right) else None


def touched(played: Games, hideable: tuple[int, ...], scene: Scene) -> np.ndarray:
    """Which of the K prototypes were next to the agent of an egocentric view, or were the agent, [G, E, K]; else, were met."""
    if scene.cell is None:
        return np.asarray(played.met)
    tiles, (height, width) = np.asarray(played.episodes.observation.tiles), scene.grid  # [G, E, L + 1, H, W]
    rows, cols = np.divmod(np.arange(height * width), width)
    row, col = divmod(scene.cell, width)
    beside = tiles.reshape(*tiles.shape[:3], -1)[..., abs(rows - row) + abs(cols - col) <= 1]
    inside = np.arange(tiles.shape[2]) <= np.asarray(played.episodes.length)[..., None]
    return np.stack([((beside == c).any(-1) & inside).any(-1) for c in hideable], -1)
