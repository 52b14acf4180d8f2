"""q_theta as the judge of a target: tile types turn up one by one, episodes follow each other, evidence adds up."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import log_softmax

from protoalign.alignment import hypotheses
from protoalign.alignment.imagination import Imagined, code_type
from protoalign.alignment.inference import InferenceModel, Step
from protoalign.alignment.judges import LEAST
from protoalign.alignment.model_judge import ModelJudge, start_likelihood, step_likelihood
from protoalign.rl.networks import Believed, Scene
from protoalign.worlds.base import Observation

ENOUGH = 8  # steps that are judged before a target may be called strange
FEW = 3  # outcomes that could not be, before they count
SPARE = 4  # slots beyond one for each prototype, before the program is compiled anew for more tile types


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
            combined = hypotheses.combine(stack(scores))
            told[0, : len(combined)] = combined
        return jnp.asarray(told)

    def expected(self, types: int) -> int:
        """How many tile types there are to be, met or not: in imagined worlds every prototype that is not known has one."""
        return max(types, len(self.hideable) - int(self.known.sum()))

    def present(self, types: int) -> np.ndarray:
        """Slots [S] bool that count as being there."""
        return np.concatenate([np.arange(self.room) < self.expected(types), self.known])


class TargetJudge:
    """One target, watched by q_theta; `whole`: it was trained on whole assignments, in which every slot counts, met or not.

    `begin` and `watch` take codes of `TileTypes` [H, W], the number of tile types so far and numbers [1, M].
    """

    def __init__(self, model: InferenceModel, whole: bool, weight: float = 1.0):
        self.model, self.whole, self.weight = model, whole, weight
        self.slots = Slots(model.scene, model.hideable)
        self.scores: list[np.ndarray] = []  # of each episode, [rows, K]
        self.rows = 0  # how many of them count
        one: Any = np.zeros((1, 1), np.int32)
        start = Imagined(one, one, None, one, one == 0)
        self.unmet = weight * np.asarray(believe(model, model.begin(1, 1), start))[0, 0] if whole else None

    def begin(self, seen: np.ndarray, types: int, numbers: np.ndarray, first: bool = True) -> None:
        """An episode's first picture, or one from which to judge anew."""
        self.codes, self.numbers = self.slots.codes(seen, types), numbers
        self.hidden = self.model.begin(1, self.slots.number)
        self.raw = believe(self.model, self.hidden, self.slots.imagined())
        self.scores.append(np.zeros((0, len(self.model.hideable))))
        self._keep(types)

    def watch(self, action: int, reward: float, seen: np.ndarray, types: int, numbers: np.ndarray) -> None:
        """A step and the picture after it."""
        slots, room = self.slots, self.slots.room
        after = slots.codes(seen, types)
        if slots.room > room:  # more tile types than there were slots: the new ones start like all others
            fresh = self.model.begin(1, slots.room - room)
            self.hidden = jnp.concatenate([self.hidden[:, :room], fresh, self.hidden[:, room:]], 1)
            codes = self.codes.astype(np.int64)  # those of known prototypes come later now
            codes[codes >= slots.scene.prototypes + room] += slots.room - room
            self.codes = codes.astype(after.dtype)
        step = Step(self.codes, after, self.numbers, numbers, np.array([action]), np.array([reward], np.float32))  # type: ignore[arg-type]
        earlier = [x[: slots.expected(types)] for x in self.scores[:-1]]
        self.hidden, self.raw = _take_in(self.model, self.hidden, slots.imagined(), step, slots.prior(earlier))
        self.codes, self.numbers = after, numbers
        self._keep(types)

    def _keep(self, types: int) -> None:
        self.rows = self.slots.expected(types) if self.whole else types
        self.scores[-1] = self.weight * np.asarray(self.raw)[0, : self.rows]

    def score(self) -> np.ndarray:
        """Evidence of all episodes, [rows, K]: a row for every tile type, then for slots that were not met, if they count."""
        # What turns out to look as in the source needs no row of its own any more.
        return hypotheses.combine(stack([x[: self.rows] for x in self.scores], self.unmet))

    def believed(self, types: int) -> Believed:
        """What is seen, and what this episode alone says of it."""
        belief = np.exp(self.raw) * self.slots.present(types)[:, None]
        return Believed(*map(jnp.asarray, (self.codes, self.numbers, belief)))

    def taken_for(self, choice: np.ndarray) -> Believed:
        """What is seen if tile types are what `choice` [rows] says, each below K."""
        kinds, slots = len(self.model.hideable), self.slots
        taken = np.zeros(slots.number, np.int64)
        taken[: len(choice)] = choice
        taken[slots.room :] = np.arange(kinds)
        return Believed(*map(jnp.asarray, (self.codes, self.numbers, np.eye(kinds, dtype=np.float32)[taken][None])))


class TargetModel:
    """One target, watched by a world model: evidence about all assignments of K tile types to K prototypes.

    Where tile types outnumber prototypes it has nothing more to say.
    """

    def __init__(self, judge: ModelJudge):
        self.judge, self.tables = judge, jnp.asarray(judge.tables)
        self.episodes: list[np.ndarray] = []  # what each has told, [K!]
        self.strange: list[float] = []  # how strange every step was
        self.odd, self.rewards = np.zeros((2, len(self.tables)))  # outcomes that could not be, and those and rewards

    def begin(self, seen: np.ndarray, types: int, numbers: np.ndarray, first: bool = True) -> None:
        """An episode's `first` picture, or one from which to judge anew; arguments as for `TargetJudge`."""
        self.codes, self.numbers = seen[None], numbers
        self.episodes.append(np.zeros(len(self.tables)))
        if first and self._known(types):
            start = Observation(self.codes, numbers)
            told = start_likelihood(self.judge.model, self.judge.weights, self.tables, start)
            self.episodes[-1] = np.asarray(told, np.float64)

    def watch(self, action: int, reward: float, seen: np.ndarray, types: int, numbers: np.ndarray) -> None:
        """A step and the picture after it."""
        if self._known(types):
            step = Step(self.codes, seen[None], self.numbers, numbers, np.array([action]), np.array([reward], np.float32))  # type: ignore[arg-type]
            said, strange, odd = map(np.asarray, step_likelihood(self.judge, step))
            self.episodes[-1] = self.episodes[-1] + said.astype(np.float64)
            self.strange.append(float(strange))
            self.odd = self.odd + odd
            self.rewards = self.rewards + (odd | (reward != 0))
        self.codes, self.numbers = seen[None], numbers

    def _known(self, types: int) -> bool:
        """Whether every code is one that hypotheses are about."""
        return types <= len(self.judge.hideable)

    def strangeness(self, index: int) -> float:
        """How unlike the source the target is if the assignment with this number is right; 0 while little was seen.

        The greater of two: how strange the median step is, as `step_likelihood` has it; and four times the share of outcomes
        that could not be, among those and all rewards.
        """
        steps = float(np.median(self.strange)) if len(self.strange) >= ENOUGH else 0.0
        outcomes = 4 * self.odd[index] / self.rewards[index] if self.odd[index] >= FEW else 0.0
        return max(steps, float(outcomes))

    def score(self) -> np.ndarray:
        """Evidence of all episodes, [K!] logs."""
        return sum((np.maximum(log_softmax(x), LEAST) for x in self.episodes), np.zeros(len(self.tables)))


@eqx.filter_jit
def believe(model: InferenceModel, hidden: Array, imagined: Imagined) -> Array:
    """Its scores, compiled."""
    return model.score(hidden, imagined)


@eqx.filter_jit
def _take_in(model: InferenceModel, hidden: Array, imagined: Imagined, step: Step, prior: Array) -> tuple[Array, Array]:
    hidden = model.update(hidden, imagined, model.digest(step, hidden.shape[1]), prior)
    return hidden, model.score(hidden, imagined)


def stack(scores: list[np.ndarray], unmet: np.ndarray | None = None) -> np.ndarray:
    """Scores of episodes [T, K] as one array; those that knew fewer tile types are filled up with not knowing, or `unmet` [K],
    what the judge says of a slot that it has not met."""
    most = max(len(s) for s in scores)
    row = np.full(scores[0].shape[1], -np.log(scores[0].shape[1])) if unmet is None else unmet
    return np.stack([np.concatenate([s, np.tile(row, (most - len(s), 1))]) for s in scores])
