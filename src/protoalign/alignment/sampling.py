"""The posterior over assignments where it is no sum over pairs and there are too many to compare all: sampled.

Kept is a pool of different assignments [D, T] with what evidence says of each, up to one constant (only about so where a type
is none of these, because what that leaves depends on what has been met since). New evidence is added to all of them. Then some
types move: a tile type is given every category in turn, or exchanges its own with every other type, only examples in which that
makes a difference are asked again, and what is likely enough joins the pool. Where a step is a surprise to the best of them, or
a tile type is new, all types in question move. If that does not explain it, and now and then in any case, types are forgotten
and told one by one again (`rebuild`).

Nothing warrants that the right assignment is in the pool. Probabilities here are shares of the pool; what is said to others
allows for that (`SampledJudge.unfound`).

Prior: a type is none of these with odds NONE, which is what types are while they are told one by one; that a type which is left
so is a kind the source never showed does not follow. A prototype may have more than one look, at the price of VARIANT for each
and of a Chinese restaurant process by which it deals its looks out to its tiles (SPREAD): or calling a rare type by a common
name would always make a board likelier. A look that is nearly an earlier one of its prototype costs less (`resembling`): things
are drawn in variants. And first pictures tell how many tiles of each prototype are usual (`TargetEvidence.numbers_of`).
"""

from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln, logsumexp

from protoalign.alignment.hypotheses import VARIANT
from protoalign.alignment.local_model import MIDDLE, categories
from protoalign.alignment.target_evidence import Pack, TargetEvidence

POOL = 96  # assignments
WIDE, NARROW = 16, 4  # assignments that are kept while all or some types are told again
DEALT = 4  # types that are dealt their categories anew
NONE = np.log(1e-5)  # prior odds that a type is none of the prototypes; most targets were measured with this value
UNLIKE = 0.1  # root mean square difference of two pictures, from 0 to 1, that shows no likeness any more
SPREAD = 0.5  # concentration: small if the looks of a prototype are dealt out unevenly
SURPRISE = 3.0  # nats by which the best assignment falls short of what is to be expected
WORRY = 0.5  # nats to explain about a type, above which it moves in an ordinary step
IDLE = 0.25  # how often one does all the same
AGAIN = (3, 6, 10, 15, 20, 30, 40, 60, 80, 120, 200)  # steps after which all are told again, surprise or not
SURE, SELDOM = 0.99, (3, 10, 30, 80, 200)  # share of the best above which that is done at these steps only


def resembling(pictures: np.ndarray) -> np.ndarray:
    """How much each picture [T, h, w, 3] uint8 is like each before it, [T, T]: 1 the same, 0 as far apart as UNLIKE or more."""
    flat = pictures.reshape(len(pictures), -1) / 255
    apart = cdist(flat, flat) / np.sqrt(flat.shape[1])
    return np.tril(np.maximum(1 - apart / UNLIKE, 0), -1)


class Sampler:
    """Assignments of T tile types to `hideable` prototypes, below C, or to none of these, C. `pairs` [T, C + 1], logs, is what
    other judges say."""

    def __init__(self, evidence: TargetEvidence, hideable: tuple[int, ...], rng: np.random.Generator):
        self.evidence, self.rng = evidence, rng
        self.none = evidence.kinds
        self.choices = np.array([self.none, *hideable])
        self.pool = np.zeros((1, 0), np.int64)
        self.said = np.zeros(1)  # what evidence says of each
        self.pairs = np.zeros((0, self.none + 1))
        self.known = np.zeros(self.none, bool)  # prototypes met looking as in the source
        self.like = np.zeros((0, 0))  # [types, types], from 0 to 1: how much a type looks like each that was met before it
        self.worry = np.zeros(0)  # [T], how much evidence about each type the best has not explained since that type moved
        self.steps = self.restarts = self.wait = 0
        self.packs: dict[str, Pack] = {}
        self._of: tuple[Any, ...] = (None, None, None, None, 0)
        self._logs = np.zeros(1)

    # -- the posterior -------------------------------------------------------------------------------------------------------

    def prior(self, assignments: np.ndarray) -> np.ndarray:
        """Log-odds [M] of assignments [M, T] before any evidence but how many tiles each type has, and `pairs`."""
        number, types = assignments.shape
        place = (assignments + (self.none + 1) * np.arange(number)[:, None]).reshape(-1)
        shape = number, self.none + 1
        looks = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
        tiles = np.bincount(place, np.tile(self.tiles, number), shape[0] * shape[1]).reshape(shape)
        extra = np.maximum(looks[:, :-1] + self.known - 1, 0).sum(1)
        total = looks[:, -1] * NONE + extra * np.log(VARIANT) + self.pairs[np.arange(types), assignments].sum(1)
        total += self.evidence.numbers_of(assignments)
        for t, row in enumerate(self.like[:types, :types]):  # what looks much like an earlier look of its prototype costs less
            if row.any():
                alike = (assignments == assignments[:, t : t + 1]) & (assignments[:, t : t + 1] < self.none)
                total -= np.log(VARIANT) * (alike * row).max(1)
        return total - (gammaln(SPREAD + tiles) - gammaln(SPREAD)).sum(1)

    @property
    def tiles(self) -> np.ndarray:
        """How many masked tiles [T] are of each type, weighed."""
        still = self.packs.get("still")
        if still is None or not len(still.weight):
            return np.zeros(self.evidence.types)
        types = still.cells[:, MIDDLE] - self.none
        return np.bincount(types[types >= 0], still.weight[types >= 0], self.evidence.types)

    @property
    def logs(self) -> np.ndarray:
        """Log-probabilities [D] of the pool's assignments, if no others were possible."""
        of = (self.pool, self.said, self.pairs, self.packs, int(self.known.sum()))
        if any(one is not other for one, other in zip(of[:-1], self._of[:-1], strict=True)) or of[-1] != self._of[-1]:
            total = self.said + self.prior(self.pool)
            self._of, self._logs = of, total - logsumexp(total)  # asked for many times between changes
        return self._logs

    @property
    def best(self) -> np.ndarray:
        """The likeliest assignment, [T]."""
        return self.pool[self.logs.argmax()]

    def belief(self) -> np.ndarray:
        """Probabilities [T, C + 1] of what each type is, if no other assignments were possible than those of the pool."""
        marks = self.pool[..., None] == np.arange(self.none + 1)
        return np.einsum("d,dtc->tc", np.exp(self.logs), marks)

    def likeliest(self) -> np.ndarray:
        """The prototype [T] that each type is taken for if it has to be one: the likeliest, or if none has any share of the
        pool, the one that would explain it best."""
        prototypes = self.choices[1:]
        belief = self.belief()[:, prototypes]
        found = prototypes[belief.argmax(1)]
        for t in np.flatnonzero(belief.max(1) < 1e-6):
            every = np.repeat(self.best[None], len(self.choices), 0)
            every[1:, t] = prototypes
            found[t] = prototypes[self.compare(every)[1:].argmax()]
        return found

    # -- taking evidence in --------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Take in what the evidence has got since the last time, and move."""
        new = self.evidence.take_new()
        fresh = list(range(self.pool.shape[1], self.evidence.types))
        first = not self.pool.shape[1]
        if fresh:
            filled = np.full((len(self.pool), len(fresh)), self.none)
            self.pool = np.concatenate([self.pool, filled], 1)
            self.pairs = np.concatenate([self.pairs, np.zeros((len(fresh), self.none + 1))])
            self.worry = np.append(self.worry, np.zeros(len(fresh)))
        self.packs = {sort: self.evidence.pack(sort) for sort in new}
        self.said = self.said + self.evidence.total(new, self.pool)
        self.steps += 1
        types = self.pool.shape[1]
        if not types:
            return
        if first:
            self.rebuild(self.pool[0], np.arange(types), WIDE)
            self.settle()
            return
        if fresh:
            for t in fresh:
                for state in self.pool[np.argsort(-self.logs)[:2]]:
                    self.move(state, t)
        excess, blame = self.excess(new)
        self.worry += blame
        if excess > SURPRISE:
            self.settle()
        excess, blame = self.excess(self.packs)
        if excess > SURPRISE and self.steps >= self.wait:
            self.wait = self.steps + min(2 + self.restarts // 4, 20)
            self.deal(self.best, blame)
            if self.excess(self.packs)[0] > 2 * SURPRISE:
                self.rebuild(self.best, self._suspects(blame, DEALT + 2), NARROW)
        elif self.steps in (AGAIN if self.logs.max() < np.log(SURE) else SELDOM) or self.steps % AGAIN[-1] == 0:
            self.rebuild(self.best, np.arange(types), NARROW)
        elif not fresh and (self.worry.max() > WORRY or self.rng.random() < IDLE):
            self.move(self.draw(), int(np.argmax(self.worry + 1e-3 * self.rng.random(types))))

    def excess(self, packs: dict[str, Pack]) -> tuple[float, np.ndarray]:
        """How many nats the best assignment falls short of what is to be expected, in steps and outcomes; and by type [T]."""
        best, total, blame = self.best[None], 0.0, np.zeros(self.pool.shape[1])
        present = self.evidence.present(best)
        for sort, packed in packs.items():
            if sort != "still" and len(packed.weight):
                every = np.arange(len(packed.weight))
                if sort == "outcome":
                    lost = self.evidence.say_outcomes(packed, best, True)[0] * packed.weight
                else:
                    lost = self.evidence.say(sort, packed, best, (0 * every, every), present, True) * packed.weight
                total += float(lost.sum())
                blame += np.maximum(lost, 0) @ packed.has
        return total, blame

    def draw(self) -> np.ndarray:
        """An assignment [T] from the pool."""
        logs = self.logs
        return self.pool[int(np.argmax(logs + self.rng.gumbel(size=len(logs))))]

    def settle(self) -> None:
        """All types about which something is unexplained move, the best assignment's, until that changes nothing."""
        for _ in range(3):
            best = self.best
            for t in [int(t) for t in np.argsort(-self.worry) if self.worry[t] > WORRY][:8]:
                self.move(self.best, t)
            if (best == self.best).all():
                break

    def deal(self, state: np.ndarray, blame: np.ndarray) -> None:
        """All orders of the categories of a few types, those most to `blame` [T] more often: longer cycles than exchanges."""
        some = self._suspects(blame, DEALT)
        every = np.repeat(state[None], factorial(len(some)), 0)
        every[:, some] = state[some][list(permutations(range(len(some))))]
        every = np.unique(every, axis=0)
        self.join(every, self.compare(every))

    def _suspects(self, blame: np.ndarray, number: int) -> np.ndarray:
        """So many types, those most to `blame` [T] more often."""
        return np.argsort(-np.log(blame + 0.1) - self.rng.gumbel(size=len(blame)))[:number]

    def rebuild(self, state: np.ndarray, forgotten: np.ndarray, width: int) -> None:
        """Forget some types of a state [T], then tell them one by one again, the commonest first: the model knows what to
        expect around what it does not know. `width` assignments are kept meanwhile; the last ones join the pool. Looks of one
        ground are each other's surroundings, so that one of them alone may fit nowhere: what stays none of these is then taken
        for one thing, whatever explains it best, and told one by one again."""
        self.restarts += 1
        self._tell(state, forgotten, self.none, width)
        state = self.best
        left = np.flatnonzero(state == self.none)
        if len(left) > 1:
            every = np.repeat(state[None], len(self.choices), 0)
            every[:, left] = self.choices[:, None]
            value = self.compare(every) + self.prior(every)
            for c in self.choices[1:][np.argsort(-value[1:])[:2]]:
                self._tell(state, left, c, width)

    def _tell(self, state: np.ndarray, some: np.ndarray, begin: int, width: int) -> None:
        """Tell some types of a state [T] one by one, all of category `begin` until then."""
        state = state.copy()
        state[some] = begin
        beam = state[None]
        often = sum(packed.has.T.astype(np.float32) @ packed.weight for packed in self.packs.values())
        for t in sorted(some.tolist(), key=lambda t: -often[t] * self.rng.uniform(0.7, 1)):
            given = np.repeat(beam, len(self.choices), 0).reshape(len(beam), len(self.choices), -1)
            given[:, :, t] = self.choices
            value = np.concatenate([self.compare(every) for every in given])
            states = given.reshape(len(value), -1)
            beam = states[np.argsort(-(value + self.prior(states)))[:width]]
        self.join(states, value)

    # -- moves ---------------------------------------------------------------------------------------------------------------

    def around(self, state: np.ndarray, t: int) -> np.ndarray:
        """Assignments [M, T] with t given every category, or exchanged with another type; the state itself is the first."""
        given = np.repeat(state[None], len(self.choices), 0)
        given[:, t] = self.choices
        others = np.flatnonzero(state != state[t])
        swapped = np.repeat(state[None], len(others), 0)
        swapped[np.arange(len(others)), others] = state[t]
        swapped[:, t] = state[others]
        every = np.concatenate([given[given[:, t] != state[t]], swapped])
        return np.concatenate([state[None], every])

    def move(self, state: np.ndarray, t: int) -> None:
        """Let the assignments around a state [T] join the pool."""
        self.worry[t] = 0.0
        every = self.around(state, t)
        self.join(every, self.compare(every))

    def compare(self, every: np.ndarray) -> np.ndarray:
        """What all evidence says of assignments [M, T] that are all like the first, but for a few types."""
        changes = (every != every[0]).astype(np.float32)  # [M, T]
        present = self.evidence.present(every)  # [M, B, C + 1]
        other = (present != present[0]).any(-1)  # [M, B]
        free = self.evidence.free(every)
        moved = (free != free[0]).any(1)
        found = np.zeros(len(every))
        for sort, packed in self.packs.items():
            if not len(packed.weight):
                continue
            if sort == "outcome":
                found += self.evidence.say_outcomes(packed, every) @ packed.weight
                continue
            touched = (changes @ packed.has.T.astype(np.float32) > 0) | other[:, packed.board]
            touched[0] = True
            if (every == self.none).any():  # what is none of these depends on which prototypes have no look
                table = categories(self.evidence.model, every)
                touched |= moved[:, None] & (table[:, packed.result] == self.none)
            m, n = np.nonzero(touched)
            logs = self.evidence.say(sort, packed, every, (m, n), present)
            base = logs[: len(packed.weight)]
            found += base @ packed.weight + np.bincount(m, (logs - base[n]) * packed.weight[n], len(every))
        return found

    def join(self, every: np.ndarray, said: np.ndarray) -> None:
        """Keep the best of the pool and of more assignments [M, T], of which evidence says `said` [M], all different."""
        states, value = np.concatenate([self.pool, every]), np.concatenate([self.said, said])
        order = np.argsort(-(value + self.prior(states)), kind="stable")
        kept, marks = [], set()
        for i in order:
            mark = states[i].tobytes()
            if mark not in marks:
                marks.add(mark)
                kept.append(i)
                if len(kept) == POOL:
                    break
        self.pool, self.said = states[kept], value[kept]
