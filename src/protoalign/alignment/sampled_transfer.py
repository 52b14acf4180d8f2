"""Into a target of a hosted world: any number of prototypes, a world model of small patches as the judge, and any policy."""

from dataclasses import replace
from typing import Any, Protocol

import gymnasium
import numpy as np

from protoalign.alignment.local_model import LocalModel
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.sampled_judge import CautiousThompson, Plays, SampledJudge
from protoalign.alignment.sampling import resembling
from protoalign.alignment.transfer import Trace, check_limits, check_target, split
from protoalign.perception.tile_types import TileTypes
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rng import generator
from protoalign.runtime import on_one_thread
from protoalign.worlds.base import Spec


class Knowing(Protocol):
    """What is needed of an agent."""

    spec: Spec
    vocabulary: Vocabulary
    names: tuple[str, ...]
    local: Any  # a LocalModel
    presence: np.ndarray  # [2, K]
    danger: np.ndarray  # [K], see `foresight.dangers`

    def plays(self) -> Plays:
        """The policy: grids of prototypes [D, H, W] and numbers [D, M] to probabilities of actions [D, A]."""
        ...


def tile_of(target: gymnasium.Env, vocabulary: Vocabulary) -> tuple[int, int]:
    """The size of a target's tiles: what the environment says, or as in the source."""
    return target.get_wrapper_attr("tile") if target.has_wrapper_attr("tile") else vocabulary.tile


class Finding:
    """One target that is being found out, step by step: `see` a picture, `act`, and `learn` what came of it."""

    def __init__(
        self,
        agent: Knowing,
        tile: tuple[int, int],
        seed: int = 0,
        cautious: bool = True,
        curious: bool = True,
        still: bool = True,
    ):
        """`still`: what lies where tells too; otherwise only what happens."""
        model: LocalModel = agent.local
        self.agent = agent
        self.hideable = tuple(range(agent.vocabulary.num_prototypes))
        self.types = TileTypes(agent.vocabulary, exact=tile)
        self.judge = SampledJudge(model, self.hideable, generator(seed, "judge"), still)
        self.actor = CautiousThompson(agent.plays(), generator(seed, "actor"), cautious, curious, agent.danger)
        self.known = np.zeros(len(self.hideable), bool)
        self.returns: list[float] = []
        self.steps = self.finished = 0
        self.cut_off = False  # whether the last episode was

    @on_one_thread
    def begin(self, picture: np.ndarray, numbers: np.ndarray) -> None:
        """An episode's first picture [H*h, W*w, 3], and numbers [M]."""
        self.returns.append(0.0)
        self.judge.begin(self._codes(picture), len(self.types), numbers[None])
        self.actor.begin(self.cut_off)

    @on_one_thread
    def act(self) -> int:
        """The next action."""
        return self.actor(self.judge)

    @on_one_thread
    def learn(self, action: int, reward: float, picture: np.ndarray, numbers: np.ndarray, ended: bool, over: bool) -> None:
        """What came of an action; `ended`: the episode, by itself; `over`: in any way."""
        self.judge.watch(action, reward, self._codes(picture), len(self.types), numbers[None], ended, over)
        self.returns[-1] += reward
        self.steps += 1
        self.finished += over
        self.cut_off = over and not ended

    @on_one_thread
    def mapping(self) -> Mapping:
        """What is known so far."""
        agent = self.agent
        missed = (1 - agent.presence[0]) ** len(self.returns)  # in first pictures: what is met later depends on who plays
        facts = agent.spec.name, agent.names, self.hideable, agent.vocabulary, self.types
        score = np.zeros((len(self.types), len(self.hideable)))
        figures = self.known.copy(), missed, self.steps, tuple(self.returns)
        odd = self.judge.strangeness, self.judge.unexplained
        return Mapping(*facts, score, *figures, strangeness=odd[0], unexplained=odd[1], draws=self.judge.score())

    def _codes(self, picture: np.ndarray) -> np.ndarray:
        known = len(self.types)
        codes = self.types.see(picture)
        if len(self.types) > known:
            self.judge.sampler.like = resembling(self.types.pictures)
        seen = codes[codes < len(self.known)]
        self.known[seen] = True
        return codes


def align_sampled(
    target: gymnasium.Env,
    agent: Knowing,
    episodes: int = 4,
    seed: int = 0,
    sure: float | None = None,
    cautious: bool = True,
    curious: bool = True,
    still: bool = True,
) -> Mapping:
    """Play in the target for at most so many episodes and find the mapping; with `sure`, stop after the episode in which it is
    that sure. `still` as for `Finding`."""
    check_limits(episodes, sure)
    observation, _ = target.reset(seed=seed)
    tile = tile_of(target, agent.vocabulary)
    finding, trace = Finding(agent, tile, seed, cautious, curious, still), Trace()
    for episode in range(episodes):
        if episode:
            observation, _ = target.reset()
        check_target(target, agent.spec, tile, observation, any_size=True)
        picture, numbers = split(observation)
        finding.begin(picture, numbers)
        over = False
        while not over:
            mapping = finding.mapping()
            action = finding.act()
            trace.before(episode, picture, mapping)
            observation, reward, terminated, truncated, _ = target.step(np.int64(action))
            check_target(target, agent.spec, tile, observation, any_size=True)
            picture, numbers = split(observation)
            over = bool(terminated or truncated)
            finding.learn(action, float(reward), picture, numbers, bool(terminated), over)
            trace.after(action, float(reward))
        if sure is not None and finding.mapping().sureness >= sure:
            break
    finding.types.freeze()
    return replace(finding.mapping(), trace=trace.moment(len(finding.types)))
