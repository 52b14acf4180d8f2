"""Assignments of K slots to K prototypes, one to one, for compiled programs.

`hypotheses` does the same on the host for any number of tile types and prototypes. Here slot s of an imagined world is one of
the K prototypes that may be hidden, and each is one slot. Up to MOST prototypes a posterior is one row of log-probabilities of
all H = K! assignments, [..., H], numbered as in `table(K)`. Above, it is a table of scores of pairs [..., K, K], the sum of
which is the log-probability of an assignment up to a constant, and draws are made by Metropolis sampling.
"""

from functools import lru_cache
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.rng import gumbel, uniform

MOST = 6  # prototypes: 720 assignments
SWAPS = 32  # that `resample` tries


@lru_cache(maxsize=8)
def table(kinds: int) -> np.ndarray:
    """All assignments [H, K] int32: which of K prototypes each slot is."""
    if kinds > MOST:
        raise ValueError(f"{kinds} prototypes have too many assignments: at most {MOST}")
    return np.array(list(permutations(range(kinds))), np.int32)


def marks(kinds: int) -> np.ndarray:
    """The same as ones and zeros, [H, K * K] float32: a product with scores adds those of an assignment up."""
    return np.eye(kinds, dtype=np.float32)[table(kinds)].reshape(len(table(kinds)), -1)


def total(score: Array) -> Array:
    """The summed score [..., H] of every assignment, for scores [..., K, K] of slots and prototypes."""
    kinds = score.shape[-1]
    return score.reshape(*score.shape[:-2], kinds * kinds) @ marks(kinds).T


def combined(score: Array) -> Array:
    """A posterior over assignments from scores of pairs [..., K, K]: [..., H], or the scores where K is too large for that."""
    kinds = score.shape[-1]
    return jax.nn.log_softmax(total(score)) if kinds <= MOST else jax.nn.log_softmax(score)


def doubted(posterior: Array, doubt: Array | float) -> Array:
    """Log-probabilities [..., H] in which all assignments within `doubt` nats of the best count as good as it.

    Small errors of judges add up to differences that mean nothing.
    """
    behind = posterior.max(-1, keepdims=True) - posterior
    return jax.nn.log_softmax(-jax.nn.relu(behind - doubt))


def marginals(posterior: Array) -> Array:
    """Probabilities [..., K, K] of what each slot is, from log-probabilities [..., H]."""
    kinds = next(k for k in range(MOST + 1) if len(table(k)) >= posterior.shape[-1] and k)
    return (jnp.exp(posterior) @ marks(kinds)).reshape(*posterior.shape[:-1], kinds, kinds)


def index_of(truth: Array) -> Array:
    """The number [B] of the assignment `truth` [B, K]."""
    return jnp.argmax((truth[:, None] == table(truth.shape[1])).all(-1), 1)


def numbered(index: Array, kinds: int) -> Array:
    """The assignments [B, K] with these numbers [B]."""
    return jnp.asarray(table(kinds))[index]


def couple(old: Array, new: Array, index: Array, key: Array) -> Array:
    """A draw [B] from `new`, given a draw `index` [B] from `old`, both log-probabilities [B, H].

    It is an exact draw and differs from `index` as seldom as any could (a maximal coupling).
    """
    keep_key, draw_key = jax.random.split(key)
    before, after = (jnp.take_along_axis(x, index[:, None], 1)[:, 0] for x in (old, new))
    keep = jnp.log(uniform(keep_key, before.shape)) + before <= after
    more = jnp.maximum(jnp.exp(new) - jnp.exp(old), 0) + 1e-12
    drawn = jnp.argmax(jnp.log(more) + gumbel(draw_key, more.shape), 1)
    return jnp.where(keep, index, drawn).astype(index.dtype)


def resample(score: Array, choice: Array, key: Array) -> Array:
    """Metropolis sampling of assignments `choice` [B, K], for scores of pairs [B, K, K]: SWAPS times two slots may exchange
    what they have. One slot is any; the other is any, too, or holds what the first would like to have, by its own scores."""
    batch, kinds = choice.shape
    numbers = uniform(key, (SWAPS, 4, batch))
    each = jnp.arange(batch)
    score = jax.nn.log_softmax(score)
    upto = jnp.cumsum(jnp.exp(score), -1)

    def swap(choice: Array, u: Array) -> tuple[Array, None]:
        one = (u[0] * kinds).astype(jnp.int32)
        liked = jnp.minimum((upto[each, one] <= u[1, :, None]).sum(-1), kinds - 1)
        holder = jnp.argmax(choice == liked[:, None], 1)
        asked = u[3] < 0.5
        other = jnp.where(asked, holder, (one + 1 + (u[1] * (kinds - 1)).astype(jnp.int32)) % kinds)
        own, theirs = choice[each, one], choice[each, other]
        now, then = score[each, one, own], score[each, one, theirs]
        now_other, then_other = score[each, other, theirs], score[each, other, own]
        # Asked for, an exchange and its reverse are not equally likely to be tried.
        back = jnp.where(asked, jnp.logaddexp(now, now_other) - jnp.logaddexp(then, then_other), 0.0)
        swaps = jnp.log(u[2]) < then + then_other - now - now_other + back
        own, theirs = jnp.where(swaps, theirs, own), jnp.where(swaps, own, theirs)
        return choice.at[each, one].set(own).at[each, other].set(jnp.where(other == one, own, theirs)), None

    return jax.lax.scan(swap, choice, numbers)[0]
