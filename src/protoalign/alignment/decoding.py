"""From scores to a mapping (section 4.3): combine the evidence of several episodes, then decide what each type is.

Episodes are independent once the truth is given, so Bayes adds up their log-likelihoods. A model trained on evenly drawn
injections gives posteriors under a flat prior, which are likelihoods up to a constant, so adding scores is Bayes' rule. The
paper averages probabilities instead. A look is one prototype and a prototype has one look, so types are best decoded together,
as the one-to-one assignment of highest total; the paper takes each type's likeliest prototype by itself.
"""

from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax

from protoalign.alignment.assignment import log_joint

Combine = Literal["bayes", "average"]
FLOOR = np.log(1e-4)  # no single episode may rule anything out for good


def combine(score: np.ndarray, how: Combine = "bayes") -> np.ndarray:
    """Scores after K episodes [..., K, P, C] to one [..., P, C], log-probabilities over C all."""
    if how == "average":
        return np.log(np.exp(score).mean(-3) + 1e-12)
    return log_softmax(np.maximum(log_softmax(score, axis=-1), FLOOR).sum(-3), axis=-1)


def decode(score: np.ndarray, joint: bool = True) -> np.ndarray:
    """The prototype of each type [..., P], jointly one-to-one or type by type (also where types outnumber prototypes)."""
    if not joint or score.shape[-2] > score.shape[-1]:
        return score.argmax(-1)
    flat = score.reshape(-1, *score.shape[-2:])
    return np.stack([linear_sum_assignment(-x)[1] for x in flat]).reshape(score.shape[:-1])


def sureness(score: np.ndarray) -> float:
    """The posterior probability of the mapping that `decode` gives for scores [P, C]."""
    return float(np.exp(log_joint(score, decode(score))))


def by_prototype(score: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Scores [E, P, C] of imagined episodes, their types renamed so that type p is truly prototype p."""
    return np.take_along_axis(score, np.argsort(truth, 1)[..., None], 1)


def share_right(
    score: np.ndarray, episodes: int, how: Combine = "bayes", joint: bool = True, met: np.ndarray | None = None
) -> float:
    """How often all types are right after so many episodes, from many single ones [E, P, C] in `by_prototype` order.

    `met` [E, P]: in which a type was met at all, if some are not: all cannot be right if two were never met.
    """
    groups = len(score) // episodes
    grouped = score[: groups * episodes].reshape(groups, episodes, *score.shape[1:])
    right = (decode(combine(grouped, how), joint) == np.arange(score.shape[1])).all(-1)
    if met is not None:
        right &= (~met[: groups * episodes].reshape(groups, episodes, -1).any(1)).sum(-1) < 2
    return float(right.mean())
