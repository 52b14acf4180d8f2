"""Into a target of a hosted world as the paper does it: pi_exp explores there, q_theta tells what is what.

Evidence of q_theta is of pairs of tile type and prototype. As each picture of the source is one tile type, a posterior over
assignments of types to pictures is sampled from it, and kept as one to prototypes. The world model of the source takes no part
in that. It says how strange what happened is if the likeliest assignment is right: q_theta is sure of something in any target.
"""

from dataclasses import replace
from typing import Any, Protocol

import equinox as eqx
import gymnasium
import jax
import numpy as np
from jax import Array

from protoalign.alignment import hypotheses
from protoalign.alignment.hosted_exploration import by_picture, combined
from protoalign.alignment.hosted_imagination import show
from protoalign.alignment.mapping import Draws, Mapping
from protoalign.alignment.sampled_transfer import tile_of
from protoalign.alignment.sampling import Sampler
from protoalign.alignment.target_evidence import TargetEvidence
from protoalign.alignment.target_judge import TargetJudge
from protoalign.alignment.transfer import Trace, check_limits, check_target, split
from protoalign.perception.tile_types import TileTypes
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.networks import ActorCritic
from protoalign.rl.rollout import act
from protoalign.rng import generator, gumbel
from protoalign.runtime import on_one_thread
from protoalign.worlds.base import Spec

KEPT = 96  # assignments, the likeliest


class Exploring(Protocol):
    """What is needed of an agent."""

    spec: Spec
    vocabulary: Vocabulary
    names: tuple[str, ...]
    model: Any  # q_theta
    explorer: Any  # pi_exp
    local: Any  # a LocalModel
    presence: np.ndarray  # [2, K]
    longest: int


class Oddity:
    """How strange a target is, by a world model of small patches, if tile types are what somebody else says."""

    def __init__(self, local: Any, rng: np.random.Generator):
        self.evidence = TargetEvidence(local.on_host(), rng, still=False)
        self.steps = 0

    def begin(self, codes: np.ndarray, types: int, numbers: np.ndarray) -> None:
        """An episode's first picture."""
        self.evidence.begin(codes.astype(np.int64), types, np.asarray(numbers, np.float32))

    def watch(
        self, before: np.ndarray, action: int, reward: float, ended: bool, after: np.ndarray, types: int, numbers: Any
    ) -> None:
        """A step from codes [H, W] to codes; numbers [M] before and after."""
        self.evidence.watch(before.astype(np.int64), action, reward, ended, after.astype(np.int64), types, numbers)
        self.steps += 1

    def of(self, prototypes: np.ndarray) -> tuple[float, float]:
        """Strangeness and what is unexplained, as `SampledJudge` has them, if types are these prototypes [T]."""
        if not self.steps:
            return 0.0, 0.0
        evidence = self.evidence
        evidence.take_new()  # all is asked anew
        sampler = Sampler(evidence, (), np.random.default_rng(0))
        sampler.pool, sampler.pairs = prototypes[None].astype(np.int64), np.zeros((len(prototypes), sampler.none + 1))
        sampler.packs = {sort: evidence.pack(sort) for sort in evidence.rows}
        strange = max(sampler.excess(sampler.packs)[0], 0.0) / self.steps
        return strange, evidence.unexplained(sampler.packs["outcome"], sampler.pool[0])


class Exploration:
    """One target that is being explored, step by step."""

    def __init__(self, agent: Exploring, tile: tuple[int, int], seed: int):
        self.agent, self.key = agent, jax.random.key(seed)
        self.types = TileTypes(agent.vocabulary, exact=tile)
        self.judge = TargetJudge(agent.model, False)
        self.oddity = Oddity(agent.local, generator(seed, "oddity"))
        # Which of equals comes first is chance, not the order in which pictures were met.
        self.order = generator(seed, "order").permutation(len(agent.vocabulary.prototype_of))
        self.met: list[set[int]] = []  # in each episode, the types in sight when an action was chosen
        self.returns: list[float] = []
        self.steps = 0

    def begin(self, picture: np.ndarray, numbers: np.ndarray) -> None:
        """An episode's first picture."""
        self.codes, self.numbers = self.types.see(picture), numbers
        self.judge.begin(self.codes, len(self.types), numbers[None])
        self.oddity.begin(self.codes, len(self.types), numbers)
        self.met.append(self._in_sight())
        self.returns.append(0.0)

    def act(self) -> int:
        """The next action."""
        first, slots = len(self.agent.names), self.judge.slots
        self.met[-1] |= self._in_sight()
        met = np.zeros((1, slots.number), bool)
        met[0, [c - first for c in self.met[-1]]] = True
        met[0, slots.room :] = slots.known
        believed = self.judge.believed(len(self.types))
        return int(_chosen(self.agent.explorer, believed, met, first, jax.random.fold_in(self.key, self.steps)))

    @on_one_thread
    def learn(self, action: int, reward: float, picture: np.ndarray, numbers: np.ndarray, ended: bool) -> None:
        """What came of an action; `ended`: the episode, by itself."""
        before, self.codes = self.codes, self.types.see(picture)
        self.judge.watch(action, reward, self.codes, len(self.types), numbers[None])
        both = tuple(np.asarray(x, np.float32) for x in (self.numbers, numbers))
        self.oddity.watch(before, action, reward, ended, self.codes, len(self.types), both)
        self.numbers = numbers
        self.returns[-1] += reward
        self.steps += 1

    def _in_sight(self) -> set[int]:
        return set(np.unique(self.codes[self.codes >= len(self.agent.names)]).tolist())

    def draws(self) -> Draws:
        """The posterior: assignments with their probabilities."""
        agent, types = self.agent, len(self.types)
        first, kinds = len(agent.names), len(agent.model.hideable)
        met = np.array([[first + t in some for t in range(types)] for some in self.met])
        scores = np.full((len(self.met), types, kinds), -np.log(kinds))
        for said, score in zip(scores, self.judge.scores, strict=True):
            said[: len(score)] = score
        if not types:
            return Draws(np.zeros((1, 0), np.int32), np.zeros(1, np.float32), np.zeros(0, np.int32), np.zeros(0, bool))
        kind_of = np.asarray(agent.vocabulary.prototype_of)[self.order]
        evidence = by_picture(combined(scores, met), kind_of)
        only = np.bincount(kind_of, minlength=kinds)[kind_of] == 1
        evidence = evidence + np.where(only & self.judge.slots.known[kind_of], np.log(hypotheses.VARIANT), 0.0)
        found, counts = np.unique(kind_of[hypotheses.sample(evidence)], axis=0, return_counts=True)
        best = np.argsort(-counts, kind="stable")[:KEPT]
        belief = np.einsum("d,dtk->tk", counts, found[..., None] == np.arange(kinds))
        logs = np.log(counts[best] / counts.sum()) + np.log(1 - 1 / (2 + self.steps))  # an allowance, as `SampledJudge` makes
        return Draws(
            found[best].astype(np.int32), logs.astype(np.float32), belief.argmax(1).astype(np.int32), np.asarray(met.any(0))
        )

    @on_one_thread
    def mapping(self) -> Mapping:
        """What is known so far."""
        agent = self.agent
        missed = (1 - agent.presence[0]) ** len(self.returns)
        facts = agent.spec.name, agent.names, tuple(agent.model.hideable), agent.vocabulary, self.types
        score = np.zeros((len(self.types), len(agent.model.hideable)))
        figures = self.judge.slots.known.copy(), missed, self.steps, tuple(self.returns)
        found = Mapping(*facts, score, *figures, engine="opa", draws=self.draws())
        found.strangeness, found.unexplained = self.oddity.of(found.prototypes)
        return found


def align_explored(
    target: gymnasium.Env, agent: Exploring, episodes: int = 4, seed: int = 0, sure: float | None = None
) -> Mapping:
    """Explore a target for at most so many episodes and find the mapping; with `sure`, stop after the episode in which it is
    that sure. Boards must be of the source's size: q_theta knows no other."""
    check_limits(episodes, sure)
    observation, _ = target.reset(seed=seed)
    tile = tile_of(target, agent.vocabulary)
    exploration, trace = Exploration(agent, tile, seed), Trace()
    for episode in range(episodes):
        if episode:
            observation, _ = target.reset()
        check_target(target, agent.spec, tile, observation)
        picture, numbers = split(observation)
        exploration.begin(picture, numbers)
        now: Mapping | None = exploration.mapping()
        for _ in range(agent.longest):
            action = exploration.act()
            trace.before(episode, picture, now)  # what is believed is asked once an episode: it takes its time
            now = None
            observation, reward, terminated, truncated, _ = target.step(np.int64(action))
            check_target(target, agent.spec, tile, observation)
            picture, numbers = split(observation)
            exploration.learn(action, float(reward), picture, numbers, bool(terminated))
            trace.after(action, float(reward))
            if terminated or truncated:
                break
        if sure is not None and exploration.mapping().sureness >= sure:
            break
    exploration.types.freeze()
    return replace(exploration.mapping(), trace=trace.moment(len(exploration.types)))


@eqx.filter_jit
def _chosen(net: ActorCritic, believed: Any, met: Any, first: int, key: Array) -> Array:
    seen = show(believed.belief, met, believed.codes.astype(np.int32) - first, believed.numbers)
    return act(net, seen, gumbel(key, (1, net.heads.policy.bias.shape[0])))[1][0]  # type: ignore[attr-defined]
