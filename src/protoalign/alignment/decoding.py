"""From beliefs to a mapping (section 4.3): combine the evidence of several episodes, then decide what each type is.

Episodes are independent once the truth is given, so Bayes adds up their log-likelihoods. A model trained on evenly drawn
injections gives posteriors under a flat prior, which are likelihoods up to a constant, so adding log-beliefs is Bayes' rule.
The paper averages probabilities instead. A look is one prototype and a prototype has one look, so types are best decoded
together, as the one-to-one assignment of highest total; the paper takes each type's likeliest prototype by itself.
"""

from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax

Combine = Literal["bayes", "average"]
FLOOR = np.log(1e-4)  # no single episode may rule anything out for good


def combine(log_belief: np.ndarray, how: Combine = "bayes") -> np.ndarray:
    """Beliefs after K episodes [..., K, P, C] to one [..., P, C], in logs, normalised over C."""
    added, averaged = np.maximum(log_belief, FLOOR).sum(-3), np.log(np.exp(log_belief).mean(-3) + 1e-12)
    return log_softmax(added if how == "bayes" else averaged, axis=-1)


def decode(log_belief: np.ndarray, joint: bool = True) -> np.ndarray:
    """The prototype of each type [..., P], jointly one-to-one or type by type (also where types outnumber prototypes)."""
    if not joint or log_belief.shape[-2] > log_belief.shape[-1]:
        return log_belief.argmax(-1)
    flat = log_belief.reshape(-1, *log_belief.shape[-2:])
    return np.stack([linear_sum_assignment(-x)[1] for x in flat]).reshape(log_belief.shape[:-1])


def by_prototype(log_belief: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Beliefs [E, P, C] of imagined episodes, their types renamed so that type p is truly prototype p."""
    return np.take_along_axis(log_belief, np.argsort(truth, 1)[..., None], 1)


def share_right(log_belief: np.ndarray, episodes: int, how: Combine = "bayes", joint: bool = True) -> float:
    """How often all types are right after so many episodes, from many single ones [E, P, C] in `by_prototype` order."""
    groups = len(log_belief) // episodes
    grouped = log_belief[: groups * episodes].reshape(groups, episodes, *log_belief.shape[1:])
    return float((decode(combine(grouped, how), joint) == np.arange(log_belief.shape[1])).all(-1).mean())
