"""Pictures of the source that act alike: an agent drawn with four headings that do not matter is one kind, and may have any
number of pictures in a target.

Two are alike if, in situations seen with both, exchanging them changes neither what is foreseen of any tile nor the outcome.
That is asked of the world model, and only of pairs for which it has seen enough: situations in which a tile of either turned
into something else.
"""

from typing import Any, NamedTuple

import numpy as np

from protoalign.alignment.local_model import (
    MIDDLE,
    Context,
    about,
    contribution,
    next_tile,
    outcomes,
    patch_sum,
    patches,
)
from protoalign.alignment.local_training import Transitions

STEPS = 40_000  # of the source that situations are looked for in
COMMON = 10  # situations in which tiles of both have changed
COMPARED = 300  # situations in which two are compared
MOST = 0.99  # of these must be alike
NATS = 1.2  # divergence, of tiles and outcome together
ANYTHING = 0.02  # of each probability is spread over all that could be


class Situations(NamedTuple):
    """Different surroundings of one prototype, with the action: their marks, where each was seen, and those in which it
    changed."""

    mark: np.ndarray  # [S], sorted
    step: np.ndarray  # [S]
    cell: np.ndarray  # [S]
    changed: set[int]


def merged(model: Any, given: Transitions, rng: np.random.Generator) -> np.ndarray:
    """The class of every prototype [C], numbered in order of the first; `model` in NumPy."""
    kinds = model.scene.prototypes
    some = rng.permutation(len(given.action))[:STEPS]
    given = Transitions(*(x[some] for x in given))
    seen = _situations(given, kinds, rng)
    group = np.arange(kinds)
    for x in seen:
        for y in seen:
            if x < y and len(seen[x].changed & seen[y].changed) >= COMMON and _alike(model, given, seen, x, y):
                group[group == group[y]] = group[x]
    return np.unique(group, return_inverse=True)[1]


def _situations(given: Transitions, kinds: int, rng: np.random.Generator) -> dict[int, Situations]:
    cells = patches(given.before, kinds + 1)
    many = rng.integers(1, 2**62, 10)
    mark = np.repeat(given.action.astype(np.int64)[:, None] * many[9], cells.shape[1], 1)
    with np.errstate(over="ignore"):
        for k in range(9):
            if k != MIDDLE:
                mark = mark + cells[..., k].astype(np.int64) * many[k]
    after = given.after.reshape(len(cells), -1)
    found = {}
    for x in range(kinds):
        step, cell = np.nonzero(cells[..., MIDDLE] == x)
        if len(step):
            marks = mark[step, cell]
            different, first = np.unique(marks, return_index=True)
            changed = set(marks[after[step, cell] != x].tolist())
            found[x] = Situations(different, step[first], cell[first], changed)
    return found


def _alike(model: Any, given: Transitions, seen: dict[int, Situations], x: int, y: int) -> bool:
    common = np.intersect1d(seen[x].mark, seen[y].mark)[:COMPARED]
    for one, other in ((x, y), (y, x)):
        step = seen[one].step[np.searchsorted(seen[one].mark, common)]
        as_it_is, exchanged = (_foreseen(model, given, step, one, instead) for instead in (one, other))
        for logs in (as_it_is[0], exchanged[0]):  # that a tile stays what it is counts as the same
            logs[..., [one, other]] = np.logaddexp(logs[..., one], logs[..., other])[..., None] - np.log(2)
        apart = _divergence(as_it_is[0], exchanged[0]).sum(1) + _divergence(as_it_is[1], exchanged[1])
        if np.quantile(apart, MOST) > NATS:
            return False
    return True


def _foreseen(model: Any, given: Transitions, step: np.ndarray, one: int, instead: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of all next tiles [S, HW, C + 1] and of outcomes [S, CLASSES], one prototype put for another."""
    kinds = model.scene.prototypes
    before, action, numbers = given.before[step].copy(), given.action[step], given.numbers[step]
    before[before == one] = instead
    cells = patches(before, kinds + 1)
    number, tiles = cells.shape[:2]
    present = np.stack([(before == c).any((1, 2)) for c in range(kinds + 1)], 1).astype(np.float32)
    besides = np.repeat(about(model.tile, Context(action, present, numbers)), tiles, 0)
    logs = next_tile(model, cells.reshape(-1, 9), besides).reshape(number, tiles, -1)
    first = patch_sum(model.outcome, cells.reshape(-1, 9)).reshape(number, tiles, -1)
    first = first + about(model.outcome, Context(action, 0 * present, numbers))[:, None]
    return logs, outcomes(model, contribution(model, first).sum(1))[0]


def _divergence(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    p, q = ((1 - ANYTHING) * np.exp(x) + ANYTHING / x.shape[-1] for x in (one, other))
    return (p * np.log(p / q)).sum(-1)
