"""What nobody could tell apart: kinds that may change places, alone or together, without anything that happens being less
likely."""

from typing import Any

import numpy as np

from protoalign.alignment.local_model import (
    Context,
    about,
    contribution,
    next_tile,
    outcome_class,
    outcomes,
    patch_sum,
    patches,
)
from protoalign.alignment.local_training import Transitions

NATS = 0.05  # a step: below this nobody would notice
STEPS = 400  # steps that are looked at


def cost(model: Any, given: Transitions, renamed: np.ndarray, rng: np.random.Generator) -> float:
    """How many nats a step in the source is less likely if prototypes were what `renamed` [C] says: on average over steps near
    which one of the renamed is."""
    kinds = model.scene.prototypes
    table = np.concatenate([renamed, [kinds, kinds + 1]])
    other = np.flatnonzero(renamed != np.arange(kinds))
    touched = np.isin(given.before, other).any((1, 2)) | np.isin(given.after, other).any((1, 2))
    some = rng.permutation(np.flatnonzero(touched))[:STEPS]
    if not len(some):
        return 0.0
    kept = Transitions(*(x[some] for x in given))
    return float((_likelihood(model, kept, np.arange(kinds + 2)) - _likelihood(model, kept, table)).mean())


def _likelihood(model: Any, given: Transitions, table: np.ndarray) -> np.ndarray:
    """Log-likelihoods [N] of steps, tiles and outcome, with categories renamed by a table [C + 2]."""
    kinds, number = model.scene.prototypes, len(given.action)
    before, after = table[given.before], table[given.after]
    cells = patches(before, kinds + 1)
    tiles = cells.shape[1]
    present = np.stack([(before == c).any((1, 2)) for c in range(kinds + 1)], 1).astype(np.float32)
    besides = about(model.tile, Context(given.action, present, given.numbers))
    logs = next_tile(model, cells.reshape(-1, 9), np.repeat(besides, tiles, 0))
    seen = after.reshape(-1)
    there = seen <= kinds
    found = np.where(there, np.exp(logs[np.arange(len(seen)), np.minimum(seen, kinds)]), 1.0)
    total = np.log(0.98 * found + 0.02 / kinds).reshape(number, tiles).sum(1)
    nothing = np.zeros((number, kinds + 1), np.float32)
    first = patch_sum(model.outcome, cells.reshape(-1, 9)).reshape(number, tiles, -1)
    first = first + about(model.outcome, Context(given.action, nothing, given.numbers))[:, None]
    classes = outcomes(model, contribution(model, first).sum(1))[0]
    happened = outcome_class(model, given.reward, given.ended)
    return total + np.log(0.98 * np.exp(classes[np.arange(number), happened]) + 0.02 / classes.shape[1])


def alike(model: Any, given: Transitions, true: np.ndarray, found: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether tile types that truly are prototypes `true` [T] could as well be those they were taken for, `found` [T]: all
    wrong ones at once, the rest changing places to make room."""
    renamed = np.arange(model.scene.prototypes)
    pairs = set(zip(true.tolist(), found.tolist(), strict=True))
    if len(pairs) > len({kind for kind, _ in pairs}):
        return False  # one kind was taken for two
    renamed[true] = found
    # A prototype whose place is taken goes to a place that is free.
    free = sorted(set(range(len(renamed))) - set(renamed[np.unique(true)].tolist()))
    for c in sorted(set(range(len(renamed))) - set(true.tolist())):
        if c in free:
            free.remove(c)
        elif free:
            renamed[c] = free.pop(0)
    return cost(model, given, renamed, rng) < NATS
