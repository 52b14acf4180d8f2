"""Into the target (section 4.3): play a few episodes there, and decide what is what.

The target is any Gymnasium environment that shows pictures made of tiles, reached through reset and step alone. Two engines:
`opa`, the paper's, explores with pi_exp and earns next to nothing meanwhile; `bayes` plays pi_task on an assignment drawn from
the posterior, so that the episodes count.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import equinox as eqx
import gymnasium
import jax
import numpy as np
from jax import Array
from scipy.special import log_softmax

from protoalign.alignment import assignments, hypotheses
from protoalign.alignment.calibration import Weighing
from protoalign.alignment.mapping import Mapping, Moment
from protoalign.alignment.model_judge import ModelJudge
from protoalign.alignment.target_judge import TargetJudge, TargetModel
from protoalign.errors import UserError
from protoalign.perception.tile_types import TileTypes
from protoalign.perception.tiles import Tile, check_picture
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.networks import ActorCritic, Believed, Scene
from protoalign.rl.rollout import act
from protoalign.rng import generator, gumbel
from protoalign.settings import Engine
from protoalign.worlds.base import Spec
from protoalign.worlds.probing import one_line

FRAMES = 160  # pictures kept of the first steps
FEW = 8  # tile types: with more, posteriors are looked at every SELDOM steps, and draws are steps of a chain
SELDOM = 64
SHARPNESS = 4.0  # the posterior to this power is what `bayes` draws from


class Learned(Protocol):
    """What `align` needs of an agent: all that was learned in the source."""

    spec: Spec
    scene: Scene
    vocabulary: Vocabulary
    names: tuple[str, ...]
    task: Any
    model: Any
    explorer: Any
    judge: Any  # q_theta as `bayes` uses it
    longest: int  # steps of an episode that q_theta was trained on, at most
    presence: np.ndarray  # [2, K], how often a prototype is in an episode's first picture, and in an episode at all

    def weighing(self, elsewhere: bool = False) -> Weighing:
        """How much evidence counts for `bayes`, in the source's own world or in another variant."""
        ...

    def world_judge(self, share: float = 1.0) -> ModelJudge | None:
        """The world model as a judge for `bayes`, its evidence counting `share` times as much as alone."""
        ...


def split(observation: Any) -> tuple[np.ndarray, np.ndarray]:
    """The picture [height, width, 3] and the numbers [M] of an observation: an array, or a dict of "view" and "numbers"."""
    if isinstance(observation, dict):
        if "view" not in observation:
            raise UserError(f"the target's observations have no picture called 'view', only {', '.join(map(str, observation))}")
        return np.asarray(observation["view"]), np.asarray(observation.get("numbers", ()), np.float32)
    return np.asarray(observation), np.zeros(0, np.float32)


def check_limits(episodes: int, sure: float | None) -> None:
    if episodes < 1:
        raise UserError(f"--episodes {episodes}: use at least 1")
    if sure is not None and not 0 < sure < 1:
        raise UserError(f"--sure {sure}: use a probability between 0 and 1, e.g. 0.99")


def check_environment(env: Any) -> None:
    """Refuse what is no Gymnasium environment."""
    if not isinstance(env, gymnasium.Env):
        told = one_line(repr(env))[:80]
        raise UserError(f"{told} is not a Gymnasium environment: give one, e.g. source.make('random:7') or gymnasium.make(ID)")


def check_target(target: gymnasium.Env, spec: Spec, tile: Tile, observation: Any, any_size: bool = False) -> None:
    """Refuse a target that the agent cannot play in, with the reason; boards of `any_size` may be allowed."""
    picture, numbers = split(observation)
    check_picture(picture)
    (height, width), (h, w) = spec.grid, tile
    if any_size and (picture.shape[0] % h or picture.shape[1] % w or not picture.size):
        raise UserError(
            f"the target shows pictures of {picture.shape[0]} x {picture.shape[1]} pixels, which are not made of tiles of "
            f"{h} x {w}: give the environment an attribute `tile` (height, width)"
        )
    if not any_size and picture.shape != (height * h, width * w, 3):
        raise UserError(
            f"the target shows pictures of {picture.shape[0]} x {picture.shape[1]} pixels; the source shows {height} x {width} "
            f"tiles of {h} x {w}, {height * h} x {width * w} pixels"
        )
    if len(numbers) != len(spec.numbers):
        raise UserError(f"the target gives {len(numbers)} numbers beside the picture, the source {len(spec.numbers)}")
    actions = target.action_space
    if not isinstance(actions, gymnasium.spaces.Discrete) or actions.n != len(spec.actions) or actions.start != 0:
        raise UserError(f"the target's actions are {actions}; the source has {len(spec.actions)}: they must be the same")


@eqx.filter_jit
def _chosen(net: ActorCritic, seen: Believed, key: Array, actions: int) -> Array:
    return act(net, seen, gumbel(key, (1, actions)))[1]


def _act(net: ActorCritic, seen: Believed, key: Array, actions: int) -> int:
    return int(_chosen(net, seen, key, actions)[0])


def align(
    target: gymnasium.Env,
    agent: Learned,
    episodes: int = 4,
    seed: int = 0,
    sure: float | None = None,
    oracle: bool = False,
    longest: int | None = None,
    engine: Engine = "bayes",
) -> Mapping:
    """Play in the target for at most so many episodes and find the mapping.

    With `sure`, stop once the mapping is that sure; `bayes` plays that episode to its end, since it counts. No episode is
    longer than `longest` steps. Tiles are grouped into types by their looks or, with `oracle`, by the grid of labels that the
    target gives as `info["categories"]`; what the labels mean is not looked at.
    """
    check_limits(episodes, sure)
    observation, info = target.reset(seed=seed)
    check_target(target, agent.spec, agent.vocabulary.tile, observation)
    if oracle and "categories" not in info:
        raise UserError("the target gives no info['categories']: group tiles by their looks, without the oracle")
    weighing = agent.weighing(elsewhere(target, agent.spec)) if engine == "bayes" else Weighing(1.0, 0.0, 0.0)
    types, judge, actor = TileTypes(agent.vocabulary, oracle=oracle), *parts_of(agent, engine, seed, weighing.own)
    hideable, known = judge.model.hideable, judge.slots
    dynamics = agent.world_judge(weighing.other) if weighing.other else None
    model = TargetModel(dynamics) if dynamics is not None else None
    judges: list[TargetJudge | TargetModel] = [judge, model] if model else [judge]
    whole = engine == "bayes" and len(hideable) <= assignments.MOST
    doubt = weighing.doubt if whole else 0.0

    def see(observation: Any, info: dict[str, Any]) -> tuple[np.ndarray, tuple[np.ndarray, int, np.ndarray]]:
        check_target(target, agent.spec, agent.vocabulary.tile, observation)
        picture, numbers = split(observation)
        codes = types.see(picture, info.get("categories") if oracle else None)
        return picture, (codes, len(types), numbers[None].astype(np.float32))

    def mapping(finished: int) -> Mapping:
        first, ever = agent.presence
        missed = (1 - ever) ** finished * (1 - first) ** (len(returns) - finished)
        score = judge.score() if len(types) else np.zeros((0, len(hideable)))
        facts = agent.spec.name, agent.names, hideable, agent.vocabulary, types
        joint = model.score() if model else np.zeros(len(assignments.table(len(hideable)))) if whole else None
        found = Mapping(*facts, score, known.known.copy(), missed, len(actions), tuple(returns), engine, joint, doubt)
        if model and found.undoubted is not None:
            found.strangeness = model.strangeness(int(found.undoubted.argmax()))
        return found

    returns: list[float] = []
    trace = Trace()
    actions = trace.actions
    key = jax.random.key(seed)
    enough = False  # it is sure
    limit = longest or agent.spec.max_steps
    for episode in range(episodes):
        if episode:
            observation, info = target.reset()
        picture, seen = see(observation, info)
        returns.append(0.0)
        for one in judges:
            one.begin(*seen)
        now = mapping(episode)
        for time in range(limit):
            if time and time % agent.longest == 0:  # q_theta was trained on episodes no longer than this
                for one in judges:
                    one.begin(*seen, first=False)
            action = actor(judge, now, jax.random.fold_in(key, len(actions)))
            # Posteriors of many types take their time.
            trace.before(episode, picture, now if len(types) <= FEW or len(actions) % SELDOM == 0 else None)
            observation, reward, terminated, truncated, info = target.step(np.int64(action))
            picture, seen = see(observation, info)
            for one in judges:
                one.watch(action, float(reward), *seen)
            trace.after(action, float(reward))
            returns[-1] += float(reward)
            over = bool(terminated or truncated or time + 1 == limit)
            now = mapping(episode + over)
            if sure is not None and not enough and (over or len(types) <= FEW or len(actions) % SELDOM == 0):
                enough = now.sureness >= sure
            if over or (enough and engine == "opa"):  # an episode that counts is played to its end
                break
        if enough:
            break
    types.freeze()
    return replace(now, trace=trace.moment(len(types)))


class Trace:
    """What happens while finding out, written down step by step."""

    def __init__(self) -> None:
        self.episodes: list[int] = []
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.beliefs: list[np.ndarray] = []
        self.sureness: list[float] = []
        self.pictures: list[np.ndarray] = []

    def before(self, episode: int, picture: np.ndarray, mapping: Mapping | None) -> None:
        """What is seen and believed before an action; without a mapping, what was believed the last time."""
        self.episodes.append(episode)
        self.beliefs.append(self.beliefs[-1] if mapping is None else mapping.belief)
        self.sureness.append(self.sureness[-1] if mapping is None else mapping.sureness)
        if len(self.pictures) < FRAMES:
            self.pictures.append(picture)

    def after(self, action: int, reward: float) -> None:
        self.actions.append(action)
        self.rewards.append(reward)

    def moment(self, types: int) -> Moment:
        """All of it, of so many types as were met in the end."""
        return Moment(
            np.array(self.episodes, np.int32),
            np.array(self.actions, np.int32),
            np.array(self.rewards, np.float32),
            np.stack([_padded(b, types) for b in self.beliefs]).astype(np.float32),
            np.array(self.sureness, np.float32),
            np.stack(self.pictures),
        )


def elsewhere(target: gymnasium.Env, spec: Spec) -> bool:
    """Whether a target is, or may be, another variant of the source's world than the one it was learned in."""
    world = getattr(target.unwrapped, "world", None)
    there = getattr(world, "spec", None)
    return getattr(there, "name", None) != spec.name


def parts_of(
    agent: Learned, engine: Engine, seed: int, weight: float = 1.0
) -> tuple[TargetJudge, Callable[[TargetJudge, Mapping, Array], int]]:
    """The judge and the actor of an engine; an actor gives an action from the judge, the mapping so far and a key.

    `weight` is that of q_theta's evidence.
    """
    actions = len(agent.spec.actions)
    if engine == "opa":
        # pi_exp goes by what this episode has told, as in training; what all episodes tell is for the record.
        return TargetJudge(agent.model, False), lambda judge, mapping, key: _act(
            agent.explorer, judge.believed(len(mapping.tile_types)), key, actions
        )
    thompson = Thompson(generator(seed, "thompson"))
    whole = len(agent.judge.hideable) <= assignments.MOST
    return TargetJudge(agent.judge, whole, weight), lambda judge, mapping, key: _act(
        agent.task, judge.taken_for(thompson(mapping)), key, actions
    )


class Thompson:
    """Draws of a mapping's posterior to the power of SHARPNESS, one after another, which change only when they must."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.whole: tuple[np.ndarray, int] | None = None  # a posterior over numbered assignments, and what was drawn from it
        self.pairs: tuple[np.ndarray, np.ndarray] | None = None  # the same where evidence is of pairs

    def __call__(self, mapping: Mapping) -> np.ndarray:
        """What each tile type is taken for, [types or more], below K."""
        if not len(mapping.tile_types):
            return np.zeros(0, np.int64)
        if mapping.undoubted is not None:
            posterior = log_softmax(SHARPNESS * mapping.undoubted)
            before, index = self.whole if self.whole is not None else (posterior, None)
            self.whole = posterior, hypotheses.couple(before, posterior, index, self.rng)
            return assignments.table(len(mapping.hideable))[self.whole[1]]
        evidence, alone = SHARPNESS * mapping.evidence, mapping.one_to_one
        last = self.pairs if self.pairs is not None and self.pairs[0].shape == evidence.shape else None  # no type is new
        if len(evidence) > FEW:  # exact draws would take too long
            choice = hypotheses.walk(evidence, last[1] if last else hypotheses.decode(evidence, alone), self.rng, alone)
        elif last is None:
            choice = hypotheses.draw(evidence, self.rng, alone)
        else:
            choice = hypotheses.redraw(last[0], evidence, last[1], self.rng, alone)
        self.pairs = evidence, choice
        return choice


def _padded(belief: np.ndarray, types: int) -> np.ndarray:
    """Beliefs [t, K] of the types met by then as beliefs [types, K]; of those not met yet, all alike."""
    return np.concatenate([belief, np.full((types - len(belief), belief.shape[1]), 1 / belief.shape[1])])
