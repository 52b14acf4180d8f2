"""Actors: who chooses actions while it is not known yet what is what.

An actor sees codes, the posterior over assignments (as in `assignments`, all episodes so far), and the belief about every slot
from this episode alone. `Thompson` and `MostLikely` play the task policy on one assignment: nothing to train, and what is
earned meanwhile counts. `Exploring` is the paper's pi_exp.
"""

from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from protoalign.alignment import assignments
from protoalign.rl.networks import ActorCritic, Believed
from protoalign.rl.rollout import act
from protoalign.rng import gumbel, uniform


class Actor(Protocol):
    """What it keeps in mind is any pytree of arrays with leading axis B."""

    def begin(self, posterior: Array, key: Array) -> Any:
        """What it has in mind before the first episode."""
        ...

    def act(self, mind: Any, seen: Believed, posterior: Array, key: Array, noise: Array) -> tuple[Array, Any]:
        """Actions [B] and what it has in mind then; `noise` [B, A] is Gumbel noise for the policy."""
        ...


class Thompson(eqx.Module):
    """The task policy on an assignment drawn from the posterior to the power of `sharpness`, normalised.

    The draw changes only when it must. A sharpness of 1 is Thompson sampling as it is known; a greater one tries less out.
    """

    task: ActorCritic
    sharpness: float = eqx.field(static=True, default=1.0)

    def begin(self, posterior: Array, key: Array) -> tuple[Array, Array]:
        posterior = jax.nn.log_softmax(self.sharpness * posterior)
        if posterior.ndim == 3:
            return jnp.argsort(uniform(key, posterior.shape[:2]), 1), posterior
        return jnp.argmax(posterior + gumbel(key, posterior.shape), 1), posterior

    def act(self, mind: Any, seen: Believed, posterior: Array, key: Array, noise: Array) -> tuple[Array, Any]:
        last, before = mind
        posterior = jax.nn.log_softmax(self.sharpness * posterior)
        if posterior.ndim == 3:
            choice = assignments.resample(posterior, last, key)
            return play_as(self.task, seen, choice, noise), (choice, posterior)
        index = assignments.couple(before, posterior, last, key)
        return play_as(self.task, seen, assignments.numbered(index, seen.belief.shape[-1]), noise), (index, posterior)


class MostLikely(eqx.Module):
    """The task policy on the most likely assignment."""

    task: ActorCritic

    def begin(self, posterior: Array, key: Array) -> tuple[()]:
        return ()

    def act(self, mind: Any, seen: Believed, posterior: Array, key: Array, noise: Array) -> tuple[Array, Any]:
        kinds = seen.belief.shape[-1]
        best = jnp.argmax(posterior, -1)  # of many prototypes, slot by slot
        return play_as(self.task, seen, best if posterior.ndim == 3 else assignments.numbered(best, kinds), noise), mind


class Exploring(eqx.Module):
    """pi_exp, on what this episode alone tells, as it was trained."""

    explorer: ActorCritic

    def begin(self, posterior: Array, key: Array) -> tuple[()]:
        return ()

    def act(self, mind: Any, seen: Believed, posterior: Array, key: Array, noise: Array) -> tuple[Array, Any]:
        return act(self.explorer, seen, noise)[1], mind


def play_as(task: ActorCritic, seen: Believed, choice: Array, noise: Array) -> Array:
    """Actions [B] of the task policy if slots were what `choice` [B, K] says."""
    return act(task, seen._replace(belief=jax.nn.one_hot(choice, seen.belief.shape[-1])), noise)[1]
