"""Judges: who watches an episode and says how well every hypothesis about the tile types fits.

A hypothesis is an assignment of all K hidden slots to the K prototypes that may be hidden. A judge's score is a log-likelihood,
so scores of several episodes, or of several judges, add up. It is of whole assignments, [B, H] as numbered in `assignments`, or
where they are too many, of pairs of slot and prototype, [B, K, K].
"""

from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from protoalign.alignment import assignments
from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import InferenceModel, Step
from protoalign.worlds.base import Observation

LEAST = -25.0  # nats: no single episode may rule an assignment out for good


def number(x: Any) -> Array:
    """A number as an array []: programs are compiled once for all numbers."""
    return jnp.asarray(x, jnp.float32)


class Judge(Protocol):
    """B episodes are watched at once; a state is any pytree of arrays with leading axis B."""

    @property
    def prototypes(self) -> int:
        """How many prototypes there are, C; codes from there on are slots."""
        ...

    def begin(self, imagined: Imagined, seen: Observation) -> Any:
        """What is known from the first pictures of B episodes, codes [B, H, W] and numbers [B, M]."""
        ...

    def watch(
        self, state: Any, imagined: Imagined, step: Step, going: Array | None = None, posterior: Array | None = None
    ) -> Any:
        """... and after a transition; what is returned of episodes that are not `going` [B] means nothing.

        `posterior` [B, H]: what everything has told so far; assignments that are as good as ruled out need not be judged.
        """
        ...

    def score(self, state: Any, imagined: Imagined) -> Array:
        """How well each assignment, or pair, fits the episode so far: [B, H] or [B, K, K], logs up to a constant."""
        ...

    def belief(self, state: Any, imagined: Imagined) -> Array:
        """What each slot may be, by the episode so far alone: probabilities [B, K, K]."""
        ...

    def posterior(self, score: Array) -> Array:
        """Log-probabilities, [B, H] or [B, K, K], from the summed scores of all episodes."""
        ...

    def unweighed(self, state: Any, imagined: Imagined) -> Any:
        """The score before weights of evidence enter: what they are fitted on."""
        ...


class QTheta(eqx.Module):
    """q_theta as a judge: every assignment is worth the sum of the scores of its pairs, times the weight of its evidence."""

    model: InferenceModel
    weight: Any = eqx.field(converter=number, default=1.0)
    doubt: Any = eqx.field(converter=number, default=0.0)  # nats: assignments within so many of the best are as good

    @property
    def prototypes(self) -> int:
        return self.model.scene.prototypes

    def begin(self, imagined: Imagined, seen: Observation) -> Array:
        return self.model.begin(*imagined.truth.shape)

    def watch(
        self, state: Array, imagined: Imagined, step: Step, going: Array | None = None, posterior: Array | None = None
    ) -> Array:
        return self.model.update(state, imagined, self.model.digest(step, state.shape[1]))

    def score(self, state: Array, imagined: Imagined) -> Array:
        return jnp.maximum(assignments.combined(self.weight * self.model.score(state, imagined)), LEAST)

    def belief(self, state: Array, imagined: Imagined) -> Array:
        return jnp.exp(self.model.score(state, imagined))

    def posterior(self, score: Array) -> Array:
        return settled(score, self.doubt)

    def unweighed(self, state: Array, imagined: Imagined) -> Array:
        return self.model.score(state, imagined)


class Both(eqx.Module):
    """Two judges, whose evidence is added up."""

    first: Judge
    second: Judge
    doubt: Any = eqx.field(converter=number, default=0.0)  # as in `QTheta`

    @property
    def prototypes(self) -> int:
        return self.first.prototypes

    def begin(self, imagined: Imagined, seen: Observation) -> Any:
        return self.first.begin(imagined, seen), self.second.begin(imagined, seen)

    def watch(
        self, state: Any, imagined: Imagined, step: Step, going: Array | None = None, posterior: Array | None = None
    ) -> Any:
        more = imagined, step, going, posterior
        return self.first.watch(state[0], *more), self.second.watch(state[1], *more)

    def score(self, state: Any, imagined: Imagined) -> Array:
        both = self.first.score(state[0], imagined) + self.second.score(state[1], imagined)
        return jnp.maximum(jax.nn.log_softmax(both), LEAST)

    def belief(self, state: Any, imagined: Imagined) -> Array:
        return assignments.marginals(jax.nn.log_softmax(self.score(state, imagined)))

    def posterior(self, score: Array) -> Array:
        return settled(score, self.doubt)

    def unweighed(self, state: Any, imagined: Imagined) -> Any:
        return self.first.unweighed(state[0], imagined), self.second.unweighed(state[1], imagined)


def settled(score: Array, doubt: Array | float) -> Array:
    """Log-probabilities from summed scores [B, H], less `doubt`; of many prototypes, [B, K, K], slot by slot."""
    return assignments.doubted(score, doubt) if score.ndim == 2 else jax.nn.log_softmax(score)
