"""What the world model foresees of a step, under several assignments: what may be lost by it, and what it would tell."""

from typing import Any

import numpy as np

from protoalign.alignment.local_model import Context, about, categories, contribution, next_tile, outcomes, patch_sum, patches


def foresee(
    model: Any, assignments: np.ndarray, codes: np.ndarray, numbers: np.ndarray, action: int | None = None
) -> np.ndarray:
    """Probabilities [D, A, CLASSES] of the outcome of every action on a board of codes [H, W] with numbers [M]; or of one
    action, [D, 1, CLASSES]."""
    cells = categories(model, assignments)[:, patches(codes, -1)]  # [D, HW, 9]
    first = patch_sum(model.outcome, cells.reshape(-1, 9)).reshape(*cells.shape[:2], -1)
    besides = _every_action(model.outcome, np.zeros(model.scene.prototypes + 1, np.float32), numbers)
    besides = besides if action is None else besides[action : action + 1]
    summed = contribution(model, first[:, None] + besides[:, None]).sum(2)  # [D, A, CLASSES + 3 M]
    return np.exp(outcomes(model, summed)[0])


def danger(model: Any, assignments: np.ndarray, codes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The probability [D, A] that much is lost by an action."""
    return foresee(model, assignments, codes, numbers)[..., model.bad].sum(-1)


def dangers(model: Any, before: np.ndarray, action: np.ndarray, numbers: np.ndarray, anchor: np.ndarray) -> np.ndarray:
    """How likely it is [C] that much is lost by steps in the source if a prototype lay around the agent instead of ground.

    Boards [N, H, W] in prototypes, actions [N], numbers [N, M], and the agent's cell [N]. Ground is the commonest prototype
    around it.
    """
    kinds, (height, width) = model.scene.prototypes, before.shape[1:]
    rows, columns = np.divmod(anchor, width)
    near = (
        np.maximum(abs(np.arange(height)[:, None] - rows[:, None, None]), abs(np.arange(width) - columns[:, None, None])) == 1
    )
    ground = np.bincount(before[near], minlength=kinds).argmax()
    found = np.zeros(kinds)
    for c in range(kinds):
        cells = patches(np.where(near & (before == ground), c, before), kinds + 1)
        first = patch_sum(model.outcome, cells.reshape(-1, 9)).reshape(*cells.shape[:2], -1)
        nothing = np.zeros((len(before), kinds + 1), np.float32)
        first = first + about(model.outcome, Context(action, nothing, numbers))[:, None]
        found[c] = np.exp(outcomes(model, contribution(model, first).sum(1))[0])[:, model.bad].sum(-1).mean()
    return found


def told_by(model: Any, assignments: np.ndarray, weights: np.ndarray, codes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """How many nats [A] each action is expected to tell about which of D assignments is right, as if tiles were independent.

    Predictions are compared as codes: what a tile would look like. A category that no code has yet is a look not met yet.
    """
    kinds, table = model.scene.prototypes, categories(model, assignments)
    cells = table[:, patches(codes, -1)]
    weights = weights / weights.sum()
    actions, (number, tiles) = model.scene.actions, cells.shape[:2]
    met = np.unique(codes)
    looks = []
    for one in range(number):  # each has other prototypes on the board
        present = np.zeros(kinds + 1, np.float32)
        present[table[one][met]] = 1
        besides = _every_action(model.tile, present, numbers)  # [A, F]
        rows = np.repeat(cells[one], actions, 0)
        logs = next_tile(model, rows, np.tile(besides, (tiles, 1))).reshape(tiles, actions, -1)
        owner = (table[one][met] == np.arange(kinds + 1)[:, None]).astype(float)  # [C + 1, codes]
        owner = np.concatenate([owner, 1.0 * (owner.sum(1, keepdims=True) == 0)], 1)
        looks.append(np.exp(logs) @ (owner / owner.sum(1, keepdims=True)))
    told = _spread_of(np.stack(looks), weights)  # [HW, A]
    return told.sum(0) + _spread_of(foresee(model, assignments, codes, numbers), weights)


def _spread_of(chance: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The entropy of a mixture of distributions [D, ..., n] less their mean entropy: [...]."""
    mean = np.tensordot(weights, chance, 1)
    each = -(chance * np.log(chance + 1e-12)).sum(-1)
    return -(mean * np.log(mean + 1e-12)).sum(-1) - np.tensordot(weights, each, 1)


def _every_action(net: Any, present: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """What all but the patch adds to a first layer for each action, [A, F]."""
    actions = len(net.action)
    return about(net, Context(np.arange(actions), np.tile(present, (actions, 1)), np.tile(numbers, (actions, 1))))
