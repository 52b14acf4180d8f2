"""Into the target (section 4.3): play a few episodes there, and decide what is what.

The target is any Gymnasium environment that shows pictures made of tiles, reached through reset and step alone.
"""

from typing import Any, Protocol

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment import hypotheses
from protoalign.alignment.imagination import Imagined, code_type
from protoalign.alignment.inference import InferenceModel, Step
from protoalign.alignment.mapping import Mapping, Moment
from protoalign.errors import UserError
from protoalign.perception.tile_types import TileTypes
from protoalign.perception.tiles import check_picture
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.networks import ActorCritic, Believed, Scene
from protoalign.rl.rollout import act
from protoalign.rng import gumbel
from protoalign.worlds.base import Spec

FRAMES = 160  # pictures kept of the first steps
SPARE = 4  # slots beyond one for each prototype, before the program is compiled anew for more tile types


class Learned(Protocol):
    """What `align` needs of an agent: all that was learned in the source."""

    spec: Spec
    scene: Scene
    vocabulary: Vocabulary
    names: tuple[str, ...]
    model: Any
    explorer: Any
    presence: np.ndarray  # [2, K], how often a prototype is in an episode's first picture, and in an episode at all


def split(observation: Any) -> tuple[np.ndarray, np.ndarray]:
    """The picture [height, width, 3] and the numbers [M] of an observation: an array, or a dict of "view" and "numbers"."""
    if isinstance(observation, dict):
        if "view" not in observation:
            raise UserError(f"the target's observations have no picture called 'view', only {', '.join(map(str, observation))}")
        return np.asarray(observation["view"]), np.asarray(observation.get("numbers", ()), np.float32)
    return np.asarray(observation), np.zeros(0, np.float32)


def check_target(target: gymnasium.Env, spec: Spec, vocabulary: Vocabulary, observation: Any) -> None:
    """Refuse a target that the agent cannot play in, with the reason."""
    picture, numbers = split(observation)
    check_picture(picture)
    (height, width), (h, w) = spec.grid, vocabulary.tile
    if picture.shape != (height * h, width * w, 3):
        raise UserError(
            f"the target shows pictures of {picture.shape[0]} x {picture.shape[1]} pixels; the source shows {height} x {width} "
            f"tiles of {h} x {w}, {height * h} x {width * w} pixels"
        )
    if len(numbers) != len(spec.numbers):
        raise UserError(f"the target gives {len(numbers)} numbers beside the picture, the source {len(spec.numbers)}")
    actions = target.action_space
    if not isinstance(actions, gymnasium.spaces.Discrete) or actions.n != len(spec.actions) or actions.start != 0:
        raise UserError(f"the target's actions are {actions}; the source has {len(spec.actions)}: they must be the same")


class Slots:
    """Codes of the target as q_theta knows them: a slot for every tile type, and one for every prototype that may be hidden."""

    def __init__(self, scene: Scene, hideable: tuple[int, ...]):
        self.scene, self.hideable = scene, hideable
        self.room = len(hideable) + SPARE  # for tile types; those of known prototypes come after
        self.known = np.zeros(len(hideable), bool)  # met, looking as in the source

    @property
    def number(self) -> int:
        return self.room + len(self.hideable)

    def codes(self, seen: np.ndarray, types: int) -> np.ndarray:
        """Codes of `TileTypes` [H, W] as codes of slots, [1, H, W]."""
        while types > self.room:
            self.room *= 2
        first = self.scene.prototypes
        table = np.arange(first + types)
        table[list(self.hideable)] = first + self.room + np.arange(len(self.hideable))
        self.known |= np.isin(self.hideable, seen)
        return table[seen][None].astype(code_type(first + self.number))

    def imagined(self) -> Imagined:
        """The target as an imagined world: tile types are hidden, prototypes in their own look are not."""
        kinds = len(self.hideable)
        truth = np.concatenate([np.zeros(self.room, np.int32), np.arange(kinds, dtype=np.int32)])
        hidden = np.arange(self.number) < self.room
        unused = np.zeros((1, kinds), np.int32)
        return Imagined(unused, unused, None, truth[None], hidden[None])  # type: ignore[arg-type]

    def prior(self, scores: list[np.ndarray]) -> Array:
        """What earlier episodes have told, [1, S, K] logs, where tile types outnumber prototypes; else nothing.

        Episodes are judged by themselves. But two looks of one thing tell of each other, and no single episode may show what
        both are.
        """
        told = np.zeros((1, self.number, len(self.hideable)), np.float32)
        if scores and max(map(len, scores)) > len(self.hideable) - self.known.sum():
            combined = hypotheses.combine(_stack(scores))
            told[0, : len(combined)] = combined
        return jnp.asarray(told)

    def present(self, types: int) -> np.ndarray:
        """Slots [S] bool that count as being there: in imagined worlds every prototype has one, met or not."""
        expected = max(types, len(self.hideable) - int(self.known.sum()))
        return np.concatenate([np.arange(self.room) < expected, self.known])


@eqx.filter_jit
def _believe(model: InferenceModel, hidden: Array, imagined: Imagined) -> Array:
    return model.score(hidden, imagined)


@eqx.filter_jit
def _take_in(model: InferenceModel, hidden: Array, imagined: Imagined, step: Step, prior: Array) -> tuple[Array, Array]:
    hidden = model.update(hidden, imagined, model.digest(step, hidden.shape[1]), prior)
    return hidden, model.score(hidden, imagined)


@eqx.filter_jit
def _act(net: ActorCritic, seen: Believed, key: Array, actions: int) -> Array:
    return act(net, seen, gumbel(key, (1, actions)))[1]


def align(
    target: gymnasium.Env,
    agent: Learned,
    episodes: int = 4,
    seed: int = 0,
    sure: float | None = None,
    oracle: bool = False,
    longest: int | None = None,
) -> Mapping:
    """Explore the target for at most so many episodes, each of at most `longest` steps, and find the mapping.

    With `sure`, stop once the mapping is that sure. Tiles are grouped into types by their looks or, with `oracle`, by the grid
    of labels that the target gives as `info["categories"]`; what the labels mean is not looked at.
    """
    if episodes < 1:
        raise UserError(f"--episodes {episodes}: use at least 1")
    if sure is not None and not 0 < sure < 1:
        raise UserError(f"--sure {sure}: use a probability between 0 and 1, e.g. 0.99")
    observation, info = target.reset(seed=seed)
    check_target(target, agent.spec, agent.vocabulary, observation)
    if oracle and "categories" not in info:
        raise UserError("the target gives no info['categories']: group tiles by their looks, without the oracle")
    model, hideable = agent.model, agent.model.hideable
    types, slots = TileTypes(agent.vocabulary, oracle=oracle), Slots(agent.scene, hideable)

    def see(observation: Any, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        check_target(target, agent.spec, agent.vocabulary, observation)
        picture, numbers = split(observation)
        codes = types.see(picture, info.get("categories") if oracle else None)
        return picture, codes, numbers[None].astype(np.float32)

    def mapping(scores: list[np.ndarray], finished: int) -> Mapping:
        first, ever = agent.presence
        missed = (1 - ever) ** finished * (1 - first) ** (len(scores) - finished)
        score = hypotheses.combine(_stack(scores)) if len(types) else np.zeros((0, len(hideable)))
        steps, earned = len(actions), tuple(returns)
        return Mapping(
            agent.spec.name, agent.names, hideable, agent.vocabulary, types, score, slots.known.copy(), missed, steps, earned
        )

    scores: list[np.ndarray] = []
    returns: list[float] = []
    episode_of: list[int] = []
    actions: list[int] = []
    rewards: list[float] = []
    beliefs: list[np.ndarray] = []
    pictures: list[np.ndarray] = []
    key = jax.random.key(seed)
    stop = False
    for episode in range(episodes):
        if episode:
            observation, info = target.reset()
        picture, codes, numbers = see(observation, info)
        before = slots.codes(codes, len(types))
        hidden = model.begin(1, slots.number)
        raw = _believe(model, hidden, slots.imagined())
        scores.append(np.asarray(raw)[0, : len(types)])
        returns.append(0.0)
        limit = longest or agent.spec.max_steps
        for time in range(limit):
            belief = np.exp(raw) * slots.present(len(types))[:, None]
            noise_key = jax.random.fold_in(key, len(actions))
            # It goes by what this episode has told, as in training; what all episodes tell is for the record.
            seen = Believed(*map(jnp.asarray, (before, numbers, belief)))
            action = int(_act(agent.explorer, seen, noise_key, len(agent.spec.actions))[0])
            if len(types) <= hypotheses.EXACT or len(pictures) < FRAMES:  # sampled posteriors take their time
                beliefs.append(mapping(scores, episode).belief)
            else:
                beliefs.append(beliefs[-1])
            if len(pictures) < FRAMES:
                pictures.append(picture)
            observation, reward, terminated, truncated, info = target.step(np.int64(action))
            picture, codes, numbers_after = see(observation, info)
            room = slots.room
            after = slots.codes(codes, len(types))
            if slots.room > room:  # more tile types than there were slots: the new ones start like all others
                hidden = _widen(hidden, room, slots.room, model)
                before = _renumber(before, agent.scene.prototypes, room, slots)
            step = Step(before, after, numbers, numbers_after, np.array([action]), np.array([reward], np.float32))  # type: ignore[arg-type]
            hidden, raw = _take_in(model, hidden, slots.imagined(), step, slots.prior(scores[:-1]))
            scores[-1] = np.asarray(raw)[0, : len(types)]
            episode_of.append(episode)
            actions.append(action)
            rewards.append(float(reward))
            returns[-1] += float(reward)
            before, numbers = after, numbers_after
            over = bool(terminated or truncated or time + 1 == limit)
            stop = sure is not None and mapping(scores, episode + over).sureness >= sure
            if over or stop:
                break
        if stop:
            break
    found = mapping(scores, len(scores) - (not over))
    found.trace = Moment(
        np.array(episode_of, np.int32),
        np.array(actions, np.int32),
        np.array(rewards, np.float32),
        np.stack([_padded(b, len(types)) for b in beliefs]).astype(np.float32),
        np.stack(pictures),
    )
    types.freeze()
    return found


def _widen(hidden: Array, room: int, wider: int, model: InferenceModel) -> Array:
    fresh = model.begin(1, wider - room)
    return jnp.concatenate([hidden[:, :room], fresh, hidden[:, room:]], 1)


def _renumber(codes: np.ndarray, prototypes: int, room: int, slots: Slots) -> np.ndarray:
    """Codes of slots after there is more room: those of known prototypes come later."""
    moved = codes.astype(np.int64)
    moved[moved >= prototypes + room] += slots.room - room
    return moved.astype(code_type(prototypes + slots.number))


def _stack(scores: list[np.ndarray]) -> np.ndarray:
    """Scores of episodes that knew fewer tile types are filled up with not knowing."""
    most = max(len(s) for s in scores)
    flat = -np.log(scores[0].shape[1])
    return np.stack([np.concatenate([s, np.full((most - len(s), s.shape[1]), flat)]) for s in scores])


def _padded(belief: np.ndarray, types: int) -> np.ndarray:
    """Beliefs [t, K] of the types met by then as beliefs [types, K]; of those not met yet, all alike."""
    return np.concatenate([belief, np.full((types - len(belief), belief.shape[1]), 1 / belief.shape[1])])
