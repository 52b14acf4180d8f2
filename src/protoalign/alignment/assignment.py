"""One look, one prototype: beliefs over one-to-one assignments of types to prototypes.

q_theta judges every type by itself: its scores are log-probabilities. Taken together they must fit one to one. The probability
of an assignment is proportional to the exponential of its total score, summed exactly over all assignments (5 prototypes have
120), so what is known of one type tells about the others. Scores of several episodes add up.
"""

from functools import cache
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

MOST = 7  # prototypes; 5,040 assignments


@cache
def _assignments(size: int) -> tuple[np.ndarray, np.ndarray]:
    """All one-to-one assignments [N, size], and the same as marks of pairs [N, size * size]."""
    every = np.array(list(permutations(range(size))))
    return every, np.eye(size, dtype=np.float32)[every].reshape(len(every), -1)


def _square(score: Array) -> Array:
    """Types that were not met are as good as any other."""
    *batch, types, prototypes = score.shape
    return jnp.concatenate([score, jnp.zeros((*batch, prototypes - types, prototypes))], -2)


def one_to_one(types: int, prototypes: int) -> bool:
    """Whether every type can have a prototype to itself."""
    return types <= prototypes <= MOST


def log_assignments(score: ArrayLike) -> Array:
    """Log-probabilities [..., N] of all assignments, from scores [..., P, C] with P <= C."""
    score = _square(jnp.asarray(score))
    size = score.shape[-1]
    total = score.reshape(-1, size * size) @ _assignments(size)[1].T
    return jax.nn.log_softmax(total).reshape(*score.shape[:-2], -1)


def log_marginals(score: ArrayLike) -> Array:
    """What each type is, by itself: log-probabilities [..., P, C]."""
    score = jnp.asarray(score)
    *batch, types, prototypes = score.shape
    if not one_to_one(types, prototypes):
        return jax.nn.log_softmax(score)
    chance = jnp.exp(log_assignments(score)).reshape(-1, len(_assignments(prototypes)[0]))
    pairs = (chance @ _assignments(prototypes)[1]).reshape(*batch, prototypes, prototypes)
    return jnp.log(jnp.clip(pairs[..., :types, :], 1e-13, 1.0))


def log_joint(score: ArrayLike, choice: ArrayLike) -> Array:
    """The log-probability [...] of a whole choice of prototypes [..., P]."""
    score, choice = jnp.asarray(score), jnp.asarray(choice)
    types, prototypes = score.shape[-2:]
    if not one_to_one(types, prototypes):
        return jnp.take_along_axis(jax.nn.log_softmax(score), choice[..., None], -1)[..., 0].sum(-1)
    every = _assignments(prototypes)[0][:, :types]
    fits = (choice[..., None, :] == every).all(-1)
    return jax.nn.logsumexp(jnp.where(fits, log_assignments(score), -jnp.inf), axis=-1)
