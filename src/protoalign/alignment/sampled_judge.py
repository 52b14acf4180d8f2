"""The world model of small patches as the judge of a target, and an actor for it, for any number of prototypes and tile types.

The actor plays the task policy on an assignment drawn from the posterior, which changes only when it must, with two rules.
Caution: while much could be lost by what the draw would do, another draw's way is taken that is safe under most of them,
and tile types that may be dangerous are shown to the policy as if they were; a board that is seen again and again ends this by
and by, so that play does not stall. Curiosity: while several assignments stay open and
nothing new has been learned for a while, the action is taken that is expected to tell most between them, if it is safe.
What is dangerous, what is the agent and what is ground the model knows from outcomes and next tiles; nothing is named.

What the judge says allows for assignments that were not found. The pool's own shares do not: in DoorKey, when they came to 0.99
for the first time, after some eight steps, the best assignment was right in 36 of 40 targets, and in all of them in the end. So
1 / (2 + steps) of every probability is kept back. It is an allowance, not a calibration.

It serves hosted worlds.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from protoalign.alignment import foresight
from protoalign.alignment.local_model import LocalModel, categories
from protoalign.alignment.mapping import Draws
from protoalign.alignment.sampling import Sampler
from protoalign.alignment.target_evidence import TargetEvidence

Plays = Callable[[np.ndarray, np.ndarray], np.ndarray]  # grids [D, H, W] of prototypes and numbers [D, M]: probabilities [D, A]
TOLD = 0.2  # difference of probabilities of an outcome that is worth remembering
WORTH_AVOIDING = 0.5  # danger of a prototype
SHARPNESS = 4.0  # the posterior to this power is what is drawn from
SELDOM = 5  # steps after which it is asked again how strange a target is
FORESEEN = 8  # draws that are asked what they foresee
DARED = 0.1  # probability of a great loss, or that a tile type is dangerous, that is not worth it
BOLDER = 2**0.5  # how much more is dared each time that a board is seen again
WASTED = 2  # times that a board was seen, which an episode is worth that led nowhere
MOST_DARED = 0.6  # what is likely lost is never tried
CERTAIN = 0.5  # danger that is not worth it even where everything is known
STUCK = 3  # times more than in the source that a board is seen in an episode before the policy has lost its way
ASTRAY = 0.05  # probability that is added to every action then; what was tried there counts for less
OPEN = 0.02  # share of the pool that is not on the best assignment, above which there is something to be cautious or curious of
SETTLED = 0.02  # change of that share in a step in which nothing was learned
PATIENCE = 6  # such steps before curiosity
TELLING = 0.1  # nats that an action has to be expected to tell


class SampledJudge:
    """One target, watched by a world model. Pictures are codes of `TileTypes` [H, W], with how many types have been met so far
    and numbers [1, M]."""

    def __init__(self, model: LocalModel, hideable: tuple[int, ...], rng: np.random.Generator, still: bool = True):
        self.model, self.hideable = model.on_host(), hideable
        self.evidence = TargetEvidence(self.model, rng, still)
        self.sampler = Sampler(self.evidence, hideable, rng)
        self.steps = 0
        self.acted = np.zeros(0, bool)  # [T], whether a type was in sight when an action was to be chosen
        self.unexplained = 0.0  # nats of surprise that no assignment explains
        self._strange = 0, 0.0  # from which step on it is computed again, and what it was

    def begin(self, seen: np.ndarray, types: int, numbers: np.ndarray, first: bool = True) -> None:
        """An episode's `first` picture, or another one from which to go on."""
        self.codes, self.numbers = seen.astype(np.int64), numbers[0].astype(np.float32)
        self.evidence.begin(self.codes, types, self.numbers, first)
        self._update(False)

    def watch(
        self,
        action: int,
        reward: float,
        seen: np.ndarray,
        types: int,
        numbers: np.ndarray,
        ended: bool = False,
        over: bool = False,
    ) -> None:
        """A step and the picture after it; `ended`: the episode, by itself; `over`: in any way."""
        self.steps += 1
        after, later = seen.astype(np.int64), numbers[0].astype(np.float32)
        self.evidence.watch(self.codes, action, reward, ended, after, types, (self.numbers, later), self._open(action))
        self.codes, self.numbers = after, later
        self._update(ended or over)

    def add(self, pairs: np.ndarray) -> None:
        """Evidence of another judge, in place of what it said before: logs [T or more, K] of pairs."""
        sampler, types = self.sampler, self.sampler.pool.shape[1]
        before, sampler.pairs = sampler.pairs, np.zeros((types, sampler.none + 1))
        sampler.pairs[:, list(self.hideable)] = pairs[:types]
        sampler.pairs[:, -1] = pairs[:types].mean(1)
        other = (before.argmax(1) != sampler.pairs.argmax(1)) | (before.any(1) != sampler.pairs.any(1))
        for t in np.flatnonzero(other):  # it prefers something else now
            sampler.move(sampler.best, int(t))

    def score(self) -> Draws:
        """All that is known, of all episodes; probabilities sum to 1 - `unfound`."""
        back = np.zeros(self.sampler.none + 1, np.int64)
        back[self._columns] = np.arange(len(self.hideable) + 1)
        pool, logs = self.sampler.pool, self.sampler.logs + np.log(1 - self.unfound)
        instead = back[self.sampler.likeliest()] if pool.shape[1] else np.zeros(0)
        return Draws(back[pool].astype(np.int32), logs.astype(np.float32), instead.astype(np.int32), self.acted.copy())

    def belief(self) -> np.ndarray:
        """Probabilities [T, K + 1] of what each type is, the last of none of these; `unfound` of a row is dealt out evenly."""
        return (1 - self.unfound) * self.sampler.belief()[:, self._columns] + self.unfound / (len(self.hideable) + 1)

    @property
    def unfound(self) -> float:
        """How probable it is that the right assignment is not in the pool."""
        return 1 / (2 + self.steps)

    def leading(self) -> tuple[np.ndarray, np.ndarray]:
        """Assignments [G, T] that differ in what matters, with logs [G] of their shares of the pool, the likeliest first."""
        pool, logs = self.sampler.pool, self.sampler.logs
        which, shares = Draws(pool, logs, pool[0], self.acted).leading()
        return pool[which], shares

    @property
    def strangeness(self) -> float:
        """How many nats a step, more than is to be expected, what happened surprises the best assignment."""
        if not self.steps:
            return 0.0
        if self.steps >= self._strange[0]:
            excess = max(self.sampler.excess(self.sampler.packs)[0], 0.0)
            self._strange = self.steps + SELDOM, excess / self.steps
        return self._strange[1]

    def _open(self, action: int) -> bool:
        """Whether it is open, by the likeliest assignments, what an action here will lead to."""
        chance = foresight.foresee(self.model, self.leading()[0][:FORESEEN], self.codes, self.numbers, action)
        return bool(np.ptp(chance[:, 0], axis=0).max() > TOLD)

    @property
    def _columns(self) -> list[int]:
        return [*self.hideable, self.sampler.none]

    def _update(self, over: bool) -> None:
        here = self.codes[self.codes < self.sampler.none]
        self.sampler.known[here] |= np.isin(here, self.hideable)
        self.sampler.update()
        self.unexplained = self.evidence.unexplained(self.sampler.packs["outcome"], self.sampler.best)
        self.acted = np.append(self.acted, np.zeros(self.sampler.pool.shape[1] - len(self.acted), bool))
        if not over:
            self.acted[np.unique(self.codes[self.codes >= self.sampler.none]) - self.sampler.none] = True


class CautiousThompson:
    """Chooses actions for a `SampledJudge` and any policy that gives probabilities of actions in prototypes."""

    def __init__(
        self,
        plays: Plays,
        rng: np.random.Generator,
        cautious: bool = True,
        curious: bool = True,
        danger: np.ndarray | None = None,
    ):
        """`danger` [C]: how likely it is that much is lost where a prototype lies instead of ground; unknown: nowhere."""
        self.plays, self.rng, self.cautious, self.curious = plays, rng, cautious, curious
        self.danger = danger
        self.held, self.before = b"", dict[bytes, float]()  # what is played on, and what was believed when it was drawn
        self.mine = np.zeros(0, np.int64)  # the whole assignment [T]
        self.best, self.quiet = 0.0, 0  # the share of the best assignment, and for how many steps it has stayed so
        self.wasted = 0  # episodes that ran out of time while something was open
        self.tested: set[bytes] = set()  # boards with actions that curiosity has taken there
        self.begin()

    def begin(self, cut_off: bool = False) -> None:
        """An episode begins; the one before was `cut_off`."""
        self.wasted += cut_off and self.best < 1 - OPEN
        self.visits: dict[bytes, int] = {}  # of boards, in this episode
        self.tried: dict[bytes, np.ndarray] = {}  # how often each action was taken there, [A]

    def __call__(self, judge: SampledJudge) -> int:
        """The action to take where the judge is."""
        codes, numbers = judge.codes, judge.numbers
        states, logs = judge.leading()
        self._hold(states, softmax(SHARPNESS * logs), judge.acted)
        mark = codes.tobytes() + numbers.tobytes()
        self.visits[mark] = self.visits.get(mark, 0) + 1
        mine, usual = self.mine, judge.model.again
        often = max(max(self.visits.values()) - usual, 0.0)
        dared = min(DARED * BOLDER ** (often + WASTED * self.wasted), MOST_DARED)  # caution that leads nowhere gives way
        if self.cautious:
            mine = self._avoiding(judge, mine, dared)
        draws, weights = states[:FORESEEN], np.exp(logs[:FORESEEN])
        chance = self._plays(judge, mine[None])[0]
        self.tried.setdefault(mark, np.zeros(len(chance)))
        self._notice(float(weights[0]))
        unsure = 1 - weights[0] > OPEN
        stuck = self.visits[mark] > STUCK + usual
        limit = dared if unsure else CERTAIN
        risk = np.zeros(len(chance))
        if self.cautious or (self.curious and unsure):
            risk = (weights / weights.sum()) @ foresight.danger(judge.model, draws, codes, numbers)
        if self.curious and unsure and self.quiet >= PATIENCE:
            told = foresight.told_by(judge.model, draws, weights, codes, numbers)
            told[risk > DARED] = 0.0
            told[[a for a in range(len(told)) if mark + bytes([a]) in self.tested]] = 0.0
            if told.max() > TELLING:
                action = int(told.argmax())
                self.tested.add(mark + bytes([action]))
                self.tried[mark][action] += 1
                return action
        if stuck:
            chance = (chance + ASTRAY) / (1 + self.tried[mark]) ** 2
            chance /= chance.sum()
        if self.cautious and (risk > limit).any():
            if chance @ risk > limit and not stuck:
                every = self._plays(judge, draws)
                safe = np.flatnonzero(every @ risk <= limit)
                chance = every[safe[0]] if len(safe) else chance
            chance = np.where(risk <= max(limit, risk.min()), chance + 1e-3, 0.0)
        action = int(np.argmax(np.log(chance + 1e-12) + self.rng.gumbel(size=len(chance))))
        self.tried[mark][action] += 1
        return action

    def _avoiding(self, judge: SampledJudge, mine: np.ndarray, level: float) -> np.ndarray:
        """The assignment [T] with types that are dangerous with a probability above `level` taken for the likeliest dangerous
        prototype."""
        if self.danger is None or not (self.danger > WORTH_AVOIDING).any():
            return mine
        bad = np.flatnonzero(self.danger > WORTH_AVOIDING)
        chance = judge.sampler.belief()[:, bad]
        doubtful = (chance.sum(1) > level) & ~np.isin(mine, bad)
        return np.where(doubtful, bad[chance.argmax(1)], mine)

    def _hold(self, states: np.ndarray, chance: np.ndarray, acted: np.ndarray) -> None:
        """Draw an assignment, given the last one: one of states [G, T] with probabilities [G], changed as seldom as can be;
        they differ in types that were `acted` [T] on."""
        marks = [state.tobytes() for state in states[:, acted]]
        now = dict(zip(marks, chance.tolist(), strict=True))
        if not self.before or self.rng.random() * self.before[self.held] > now.get(self.held, 0.0):
            gained = np.array([max(p - self.before.get(state, 0.0), 0.0) + 1e-12 * p for state, p in now.items()])
            self.held = marks[self.rng.choice(len(gained), p=gained / gained.sum())]
        self.before, self.mine = now, states[marks.index(self.held)]

    def _notice(self, best: float) -> None:
        """Count the steps in which the share of the best assignment has hardly changed."""
        self.quiet = self.quiet + 1 if abs(best - self.best) < SETTLED else 0
        self.best = best

    def _plays(self, judge: SampledJudge, assignments: np.ndarray) -> np.ndarray:
        """What the policy does under assignments [D, T], as probabilities [D, A]; it is shown prototypes only."""
        none = assignments == judge.sampler.none
        shown = np.where(none, judge.sampler.likeliest(), assignments) if none.any() else assignments
        grids = categories(judge.model, shown)[:, judge.codes]
        return self.plays(grids, np.repeat(judge.numbers[None], len(grids), 0))
