"""The world model of small patches as the judge of a target, and an actor for it, for any number of prototypes and tile types.

The actor plays the task policy on an assignment drawn from the posterior, which changes only when it must, with two rules.
Caution: while much could be lost by what the draw would do, another draw's way is taken that is safe under most of them,
and tile types that may be dangerous are shown to the policy as if they were; a board that is seen again and again ends this by
and by, so that play does not stall. Curiosity: while several assignments stay open and
nothing new has been learned for a while, the action is taken that is expected to tell most between them, if it is safe.
What is dangerous, what is the agent and what is ground the model knows from outcomes and next tiles; nothing is named.

What the judge says allows for assignments that were not found. The pool's own shares do not: in a world with 17 kinds, where
they said 0.998 (456 steps above 0.99, in 30 targets), the best assignment was right in 0.954 of the steps. So UNFOUND is kept
back of every probability that leaves the judge, and it never says 0.99. This is an allowance, not a calibration.

It serves hosted worlds, in which no q_theta can be trained.
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
UNFOUND = 0.03  # of what is said is kept back: the right assignment may not be in the pool
TOLD = 0.2  # difference of probabilities of an outcome that is worth remembering
WORTH_AVOIDING = 0.5  # danger of a prototype
MAYBE = 0.1  # probability that a tile type is such a one, above which it is taken for it
SHARPNESS = 4.0  # the posterior to this power is what is drawn from
SELDOM = 5  # steps after which it is asked again how strange a target is
FORESEEN = 8  # draws that are asked what they foresee
DANGER = 0.05  # probability of a great loss that is not worth it
MOST_MAYBE, MOST_DANGER = 0.6, 0.6  # the same where a board was seen again and again: what is likely lost is never tried
CERTAIN = 0.9  # danger that is not worth it even where everything is known
STUCK = 6  # times that a board is seen in an episode before the policy has lost its way
ASTRAY = 0.25  # how often anything is done then
OPEN = 0.02  # share of the pool that is not on the best assignment, above which there is something to be cautious or curious of
SETTLED = 0.02  # change of that share in a step in which nothing was learned
PATIENCE = 6  # such steps before curiosity
TELLING = 0.1  # nats that an action has to be expected to tell


class SampledJudge:
    """One target, watched by a world model. Pictures are codes of `TileTypes` [H, W], with how many types have been met so far
    and numbers [1, M]."""

    def __init__(self, model: LocalModel, hideable: tuple[int, ...], rng: np.random.Generator):
        self.model, self.hideable = model.on_host(), hideable
        self.evidence = TargetEvidence(self.model, rng)
        self.sampler = Sampler(self.evidence, hideable, rng)
        self.steps = 0
        self._strange = 0, 0.0  # from which step on it is computed again, and what it was

    def begin(self, seen: np.ndarray, types: int, numbers: np.ndarray, first: bool = True) -> None:
        """An episode's `first` picture, or another one from which to go on."""
        self.codes, self.numbers = seen.astype(np.int64), numbers[0].astype(np.float32)
        self.evidence.begin(self.codes, types, self.numbers, first)
        self._update()

    def watch(self, action: int, reward: float, seen: np.ndarray, types: int, numbers: np.ndarray, ended: bool = False) -> None:
        """A step and the picture after it; `ended`: by itself, not cut off."""
        self.steps += 1
        after, later = seen.astype(np.int64), numbers[0].astype(np.float32)
        self.evidence.watch(self.codes, action, reward, ended, after, types, (self.numbers, later), self._open(action))
        self.codes, self.numbers = after, later
        self._update()

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
        """All that is known, of all episodes; probabilities sum to 1 - UNFOUND."""
        back = np.zeros(self.sampler.none + 1, np.int64)
        back[self._columns] = np.arange(len(self.hideable) + 1)
        pool, logs = self.sampler.pool, self.sampler.logs + np.log(1 - UNFOUND)
        instead = back[self.sampler.likeliest()] if pool.shape[1] else np.zeros(0)
        return Draws(back[pool].astype(np.int32), logs.astype(np.float32), instead.astype(np.int32))

    def belief(self) -> np.ndarray:
        """Probabilities [T, K + 1] of what each type is, the last of none of these; UNFOUND of each row is dealt out evenly."""
        return (1 - UNFOUND) * self.sampler.belief()[:, self._columns] + UNFOUND / (len(self.hideable) + 1)

    @property
    def sureness(self) -> float:
        """How probable it is that all types that were met are what the best assignment says."""
        return (1 - UNFOUND) * float(np.exp(self.sampler.logs.max()))

    @property
    def strangeness(self) -> float:
        """How many nats a step, more than is to be expected, what happened surprises the best assignment."""
        if not self.sampler.pool.shape[1] or not self.steps:
            return 0.0
        if self.steps >= self._strange[0]:
            excess = max(self.sampler.excess(self.sampler.packs)[0], 0.0)
            self._strange = self.steps + SELDOM, excess / self.steps
        return self._strange[1]

    def _open(self, action: int) -> bool:
        """Whether it is open, by the likeliest assignments, what an action here will lead to."""
        order = np.argsort(-self.sampler.logs, kind="stable")[:FORESEEN]
        chance = foresight.foresee(self.model, self.sampler.pool[order], self.codes, self.numbers, action)
        return bool(np.ptp(chance[:, 0], axis=0).max() > TOLD)

    @property
    def _columns(self) -> list[int]:
        return [*self.hideable, self.sampler.none]

    def _update(self) -> None:
        here = self.codes[self.codes < self.sampler.none]
        self.sampler.known[here] |= np.isin(here, self.hideable)
        self.sampler.update()


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
        self.held, self.before = b"", dict[bytes, float]()  # the assignment played on; what was believed when it was drawn
        self.best, self.quiet = 0.0, 0  # the share of the best assignment, and for how many steps it has stayed so
        self.tested: set[bytes] = set()  # boards with actions that curiosity has taken there
        self.begin()

    def begin(self) -> None:
        """An episode begins."""
        self.visits: dict[bytes, int] = {}  # of boards, in this episode

    def __call__(self, judge: SampledJudge) -> int:
        """The action to take where the judge is."""
        sampler, codes, numbers = judge.sampler, judge.codes, judge.numbers
        logs = sampler.logs
        self._hold(sampler.pool, softmax(SHARPNESS * logs))
        mark = codes.tobytes() + numbers.tobytes()
        self.visits[mark] = self.visits.get(mark, 0) + 1
        mine = np.frombuffer(self.held, np.int64)
        again = 2.0 ** (self.visits[mark] - 1)  # caution that leads nowhere gives way
        if self.cautious:
            mine = self._avoiding(judge, mine, min(MAYBE * again, MOST_MAYBE))
        order = np.argsort(-logs, kind="stable")[:FORESEEN]
        draws, weights = sampler.pool[order], np.exp(logs[order])
        chance = self._plays(judge, mine[None])[0]
        self._notice(float(weights[0]))
        unsure = 1 - weights[0] > OPEN
        stuck = self.visits[mark] > STUCK
        limit = min(DANGER * again, MOST_DANGER) if unsure or stuck else CERTAIN
        risk = np.zeros(len(chance))
        if self.cautious or (self.curious and unsure):
            risk = (weights / weights.sum()) @ foresight.danger(judge.model, draws, codes, numbers)
        if self.curious and unsure and self.quiet >= PATIENCE:
            told = foresight.told_by(judge.model, draws, weights, codes, numbers)
            told[risk > DANGER] = 0.0
            told[[a for a in range(len(told)) if mark + bytes([a]) in self.tested]] = 0.0
            if told.max() > TELLING:
                action = int(told.argmax())
                self.tested.add(mark + bytes([action]))
                return action
        if stuck:
            chance = (1 - ASTRAY) * chance + ASTRAY / len(chance)
        if self.cautious and chance @ risk > limit:
            every = self._plays(judge, draws)
            safe = np.flatnonzero(every @ risk <= limit)
            chance = every[safe[0]] if len(safe) and not stuck else chance
            allowed = risk <= max(limit, risk.min())
            chance = np.where(allowed, chance + 1e-3, 0.0)
        return int(np.argmax(np.log(chance + 1e-12) + self.rng.gumbel(size=len(chance))))

    def _avoiding(self, judge: SampledJudge, mine: np.ndarray, level: float) -> np.ndarray:
        """The assignment [T] with types that are dangerous with a probability above `level` taken for the likeliest dangerous
        prototype."""
        if self.danger is None or not (self.danger > WORTH_AVOIDING).any():
            return mine
        bad = np.flatnonzero(self.danger > WORTH_AVOIDING)
        chance = judge.sampler.belief()[:, bad]
        doubtful = (chance.sum(1) > level) & ~np.isin(mine, bad)
        return np.where(doubtful, bad[chance.argmax(1)], mine)

    def _hold(self, pool: np.ndarray, chance: np.ndarray) -> None:
        """Draw an assignment, given the last one: a draw from the pool [D, T] with probabilities [D], changed as seldom as can
        be."""
        now = {state.tobytes(): float(p) for state, p in zip(pool, chance, strict=True)}
        if not self.before or self.rng.random() * self.before[self.held] > now.get(self.held, 0.0):
            gained = np.array([max(p - self.before.get(state, 0.0), 0.0) + 1e-12 * p for state, p in now.items()])
            self.held = list(now)[self.rng.choice(len(gained), p=gained / gained.sum())]
        self.before = now

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
