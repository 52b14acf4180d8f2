"""Evidence about a target: different local examples in codes, with how often each was seen, and what they say of assignments.

Codes are as in `TileTypes`: below C a prototype that looks as in the source, C + t tile type t; here -1 is what lies outside.
An assignment is [T] categories of the world model, below C a prototype, C for none of these. Evidence is kept where something
changed, now or last time, and of first pictures; a few other tiles are kept by chance. An example that was seen n times counts
1 + log n: a model's error would else be taken for evidence by repeating it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from protoalign.alignment.local_model import (
    MIDDLE,
    USUAL,
    Context,
    about,
    categories,
    contribution,
    in_place,
    masked_tile,
    next_tile,
    outcome_class,
    outcomes,
    patch_sum,
    patches,
)

ANYTHING = 0.02  # of each probability is spread over all that could be; most targets were measured with this value
UNKNOWN = 0.3  # the same where a type is none of these, as it is while types are told one by one: the model knows little there
MOST = {
    "next": 256,
    "still": 128,
    "outcome": 16,
}  # examples kept of each sort: the latest; changes before other next tiles, outcomes that nothing explains before others
STILL = 0.5  # weight of a masked tile: neighbours are each other's evidence, so it would else be counted twice
ASIDE = 2  # tiles near a change that are kept of each step, by chance
CHANCE = 2.5  # nats by which an outcome may surprise without being odd
OTHER_LOOK = np.log(0.01)  # that a thing which stays what it is looks different after a step
FIRSTS = 16  # first pictures of which the numbers of tiles are kept
LAST = 0.3  # weight of what the last picture of an episode shows: it may show anything


class Row(NamedTuple):
    """An example in codes."""

    cells: np.ndarray  # [9], or [H * W, 9] of an outcome
    result: Any  # the code after; of an outcome (class, changes of numbers)
    action: int  # of a masked tile 1 in an episode's first picture, else 0
    board: int  # which set of codes is on the board; elsewhere on it, of a masked tile
    numbers: np.ndarray  # [M]


class Rows:
    """Examples of one sort, numbered as they were met, and the weights of those that are kept."""

    def __init__(self) -> None:
        self.number: dict[bytes, int] = {}
        self.rows: list[Row] = []
        self.seen: list[int] = []
        self.kept: dict[int, float] = {}  # the oldest first
        self.odd: set[int] = set()  # those that the best assignment does not explain: of outcomes, they are kept longest

    def add(self, key: bytes, row: Row, weight: float) -> tuple[int, float]:
        """The number of an example, new or seen again, and how much more it counts now; one that was forgotten stays so."""
        i = self.number.setdefault(key, len(self.rows))
        if i == len(self.rows):
            self.rows.append(row)
            self.seen.append(0)
            self.kept[i] = 0.0
        if i not in self.kept:
            return i, 0.0
        self.seen[i] += 1
        before, self.kept[i] = self.kept[i], weight * (1 + np.log(self.seen[i]))
        return i, self.kept[i] - before


class Pack(NamedTuple):
    """N examples of one sort as arrays."""

    cells: np.ndarray  # [N, 9], or [N, H * W, 9]
    result: np.ndarray  # [N] or [N, 1 + M]
    action: np.ndarray  # [N]
    board: np.ndarray  # [N]
    numbers: np.ndarray  # [N, M]
    weight: np.ndarray  # [N]
    has: np.ndarray  # [N, T] bool: whether a tile type is in it


class TargetEvidence:
    """What has been seen in a target, for a world model in NumPy; `say` is what it says of assignments."""

    def __init__(self, model: Any, rng: np.random.Generator, still: bool = True):
        """`still`: what lies where, and how many of each, tells too; otherwise only what happens."""
        self.model, self.rng, self.still = model, rng, still
        self.kinds = model.scene.prototypes
        self.rows = {sort: Rows() for sort in MOST}
        self.boards: dict[frozenset[int], int] = {}  # sets of codes that were on a board together, numbered
        self.firsts: dict[bytes, np.ndarray] = {}  # how many tiles of each code different first pictures have, the oldest first
        self.types = 0
        self.changed: np.ndarray | None = (
            None  # [H, W] bool, what changed in the last step of the episode in which anything did
        )
        self.new: list[tuple[str, int, float]] = []  # sort, number and how much more it counts, since the last `take_new`

    # -- seeing --------------------------------------------------------------------------------------------------------------

    def begin(self, codes: np.ndarray, types: int, numbers: np.ndarray, first: bool = True) -> None:
        """An episode's `first` picture, or another one from which to go on: codes [H, W], numbers [M] float32."""
        fresh, self.types, self.changed = types > self.types, types, None
        if self.still and first and codes.size == self.model.often.shape[1] - 1:
            counts = np.bincount(codes.reshape(-1), minlength=self.kinds + types)
            self.firsts.setdefault(np.trim_zeros(counts, "b").tobytes(), counts)
            if len(self.firsts) > FIRSTS:
                self.firsts.pop(next(iter(self.firsts)))
        if first or fresh:
            self._still(codes, numbers, first)

    def watch(
        self,
        codes: np.ndarray,
        action: int,
        reward: float,
        ended: bool,
        after: np.ndarray,
        types: int,
        numbers: tuple[np.ndarray, np.ndarray],
        telling: bool = False,
    ) -> None:
        """A step from one picture of codes [H, W] to the next; numbers [M] float32 before and after. `telling`: assignments do
        not agree on what was to come of it, so that it counts even if nothing did."""
        fresh, self.types = types > self.types, types
        outside = -1
        lies = in_place(codes[None], after[None], self.model.scene, outside)[0]
        changed = (lies != codes) & (lies != outside)
        around, flat = patches(codes, outside), lies.reshape(-1)
        board = self._number(np.unique(codes).tolist())
        last = self.changed
        busy = np.ones_like(changed) if last is None else changed | last
        if last is None or changed.any():
            self.changed = changed
        near = np.flatnonzero((_wider(busy) & ~busy).reshape(-1))
        chosen = [*np.flatnonzero(busy), *self.rng.permutation(near)[:ASIDE]]
        for i in chosen:
            if flat[i] != outside:
                key = around[i].tobytes() + _mark(action, flat[i], board) + numbers[0].tobytes()
                self._add("next", key, Row(around[i], int(flat[i]), action, board, numbers[0]), LAST if ended else 1.0)
        if fresh and not ended:
            self._still(after, numbers[1], False)
        kind = int(outcome_class(self.model, np.float64(reward), ended))
        change = np.sign(numbers[1] - numbers[0]).astype(int) + 1
        eventful = kind != USUAL or (change != 1).any()
        if eventful or telling:
            key = codes.tobytes() + _mark(action, kind, *change) + numbers[0].tobytes()
            self._add("outcome", key, Row(around, np.append(kind, change), action, board, numbers[0]))

    def _still(self, codes: np.ndarray, numbers: np.ndarray, first: bool) -> None:
        """All tiles of a picture as masked ones."""
        if not self.still:
            return
        around = patches(codes, -1)
        present, counts = np.unique(codes, return_counts=True)
        everything = set(present.tolist())
        single = set(present[counts == 1].tolist())
        for cells in around:
            middle = int(cells[MIDDLE])
            board = self._number(everything - {middle} if middle in single else everything)
            key = cells.tobytes() + _mark(first, board) + numbers.tobytes()
            if key not in self.rows["still"].number:
                self._add("still", key, Row(cells, middle, int(first), board, numbers), STILL)

    def _number(self, codes: Iterable[int]) -> int:
        return self.boards.setdefault(frozenset(codes), len(self.boards))

    def _add(self, sort: str, key: bytes, row: Row, weight: float = 1.0) -> None:
        rows = self.rows[sort]
        i, more = rows.add(key, row, weight)
        if more:
            self.new.append((sort, i, more))
        if len(rows.kept) > MOST[sort]:
            spared = i if sort == "outcome" else -1  # or a new one would go before it was judged
            dull = (j for j in rows.kept if j != spared and self._dull(sort, j))
            j = next(dull, next(iter(rows.kept)))
            self.new.append((sort, j, -rows.kept.pop(j)))

    def _dull(self, sort: str, i: int) -> bool:
        """Whether an example is forgotten before others: nothing changed, or it is an outcome that is explained."""
        rows = self.rows[sort]
        if sort == "next":
            return bool(rows.rows[i].result == rows.rows[i].cells[MIDDLE])
        return sort == "outcome" and i not in rows.odd

    # -- saying --------------------------------------------------------------------------------------------------------------

    def pack(self, sort: str, weights: dict[int, float] | None = None) -> Pack:
        """All examples of a sort that are kept, or those with `weights` by number."""
        weights = self.rows[sort].kept if weights is None else weights
        chosen = [self.rows[sort].rows[i] for i in weights]
        number, boards, known = len(chosen), sort == "outcome", self.model.scene.numbers
        tiles = [len(chosen[0].cells) if chosen else 0] if boards else []  # all boards of a target are of one size
        cells = np.array([r.cells for r in chosen], np.int64).reshape(number, *tiles, 9)
        result = np.array([r.result for r in chosen], np.int64).reshape(number, *([1 + known] if boards else []))
        action, board = (np.array([getattr(r, name) for r in chosen], np.int64) for name in ("action", "board"))
        numbers = np.array([r.numbers for r in chosen], np.float32).reshape(number, known)
        flat = cells.reshape(number, cells[:1].size or 9)
        if sort == "next":
            flat = np.concatenate([flat, result[:, None]], 1)
        has = (flat[..., None] == self.kinds + np.arange(self.types)).any(1)
        return Pack(cells, result, action, board, numbers, np.array(list(weights.values()), float), has)

    def take_new(self) -> dict[str, Pack]:
        """Examples added, seen again or forgotten since the last call; weights are by how much they count more now."""
        found = {}
        for sort in self.rows:
            more: dict[int, float] = {}
            for of, i, weight in self.new:
                if of == sort:
                    more[i] = more.get(i, 0.0) + weight
            found[sort] = self.pack(sort, more)
        self.new = []
        return found

    def present(self, assignments: np.ndarray) -> np.ndarray:
        """Categories [M, B, C + 1] that are on each set of codes under assignments [M, T], as 0 or 1."""
        codes = np.zeros((len(self.boards), self.kinds + self.types), np.float32)
        for board, i in self.boards.items():
            codes[i, [c for c in board if c >= 0]] = 1
        known, types = codes[:, : self.kinds], codes[:, self.kinds :]
        # Only the types are different under different assignments.
        found = np.zeros((len(assignments), len(codes), self.kinds + 1), np.float32)
        found[..., : self.kinds] = known
        marks = (assignments[..., None] == np.arange(self.kinds + 1)).astype(np.float32)  # [M, T, C + 1]
        return np.minimum(found + np.matmul(types[None], marks), 1)

    def numbers_of(self, assignments: np.ndarray) -> np.ndarray:
        """What numbers of tiles in first pictures say of assignments [M, T]: [M]. All but the commonest prototype count, whose
        tiles are what is left; n pictures count 1 + log n times their mean."""
        if not self.firsts:
            return np.zeros(len(assignments))
        every = np.zeros((len(self.firsts), self.kinds + assignments.shape[1]))
        for row, counts in zip(every, self.firsts.values(), strict=True):
            row[: len(counts)] = counts
        marks = (assignments[..., None] == np.arange(self.kinds)).astype(float)  # [M, T, C]
        found = every[:, : self.kinds] + np.matmul(every[:, self.kinds :], marks)  # [M, B, C]
        often = self.model.often
        logs = often[np.arange(self.kinds), found.astype(np.int64)]
        logs[..., (np.exp(often) @ np.arange(often.shape[1])).argmax()] = 0.0
        return logs.sum(-1).mean(-1) * (1 + np.log(len(every)))

    def free(self, assignments: np.ndarray) -> np.ndarray:
        """Which prototypes [M, C] have no look under assignments [M, T]."""
        seen = {c for board in self.boards for c in board if 0 <= c < self.kinds}
        held = (assignments[..., None] == np.arange(self.kinds)).any(1)
        held[:, list(seen)] = True
        return ~held

    def say(
        self,
        sort: str,
        packed: Pack,
        assignments: np.ndarray,
        pairs: tuple[np.ndarray, np.ndarray],
        present: np.ndarray,
        excess: bool = False,
    ) -> np.ndarray:
        """Log-probabilities [R] of example n under assignment m, for R pairs (m, n); with `excess`, how many nats less they
        were than is to be expected: about 0 on average if the assignment is right, however much is left to chance."""
        m, n = pairs
        model, table = self.model, categories(self.model, assignments)
        if not len(m):
            return np.zeros(0)
        net = model.tile if sort == "next" else model.masked
        nothing = np.zeros((len(packed.action), self.kinds + 1), np.float32)
        besides = (present.reshape(-1, self.kinds + 1) @ net.present).take(m * len(self.boards) + packed.board.take(n), 0)
        besides += about(net, Context(packed.action, nothing, packed.numbers)).take(n, 0)
        first = m * table.shape[1]  # what lies outside, -1, is the last of the row before, which is outside as well
        cells = table.take(packed.cells.take(n, 0) + first[:, None])
        logs = next_tile(model, cells, besides) if sort == "next" else masked_tile(model, cells, besides)
        result = table.take(packed.result.take(n) + first)
        # What is none of these takes the place of all prototypes that have no look yet.
        unlike = np.flatnonzero(result == self.kinds)
        if len(unlike):
            chance = np.exp(logs[unlike])
            chance[:, :-1] *= self.free(assignments)[m[unlike]]
            logs[unlike, -1] = np.log(chance.sum(1))
        odd = (cells[:, MIDDLE] == self.kinds) & (sort == "next")
        found = _mixed(logs, result, excess, np.where(odd, UNKNOWN, ANYTHING))
        if sort == "next":  # a thing that stays what it is keeps its look
            same = result == cells[:, MIDDLE]
            found += np.where(same & (packed.result != packed.cells[:, MIDDLE])[n], -OTHER_LOOK if excess else OTHER_LOOK, 0.0)
        return found

    def say_outcomes(self, packed: Pack, assignments: np.ndarray, excess: bool = False, excused: bool = True) -> np.ndarray:
        """Log-probabilities [M, N] of outcomes under assignments; patches in which one has nothing else than the first has are
        not asked again. `excess` as for `say`. `excused`: where a type in sight is none of these, anything may well happen."""
        (number, tiles), every = packed.cells.shape[:2], len(assignments)
        model, table = self.model, categories(self.model, assignments)
        flat = packed.cells.reshape(-1, 9)
        has = (flat[..., None] == self.kinds + np.arange(self.types)).any(1).astype(np.float32)  # [N tiles, T]
        touched = (assignments != assignments[0]).astype(np.float32) @ has.T > 0
        touched[0] = True
        m, p = np.nonzero(touched)
        nothing = np.zeros((number, self.kinds + 1), np.float32)
        besides = about(model.outcome, Context(packed.action, nothing, packed.numbers))
        parts = contribution(
            model, patch_sum(model.outcome, table.take(flat.take(p, 0) + (m * table.shape[1])[:, None])) + besides[p // tiles]
        )
        base, where = parts[: number * tiles], m * number + p // tiles
        more = [np.bincount(where, (parts[:, k] - base[p, k]), every * number) for k in range(parts.shape[1])]
        summed = base.reshape(number, tiles, -1).sum(1) + np.stack(more, -1).reshape(every, number, -1)
        kinds, changes = outcomes(model, summed.astype(np.float32))
        unknown = (table[:, packed.cells[:, :, MIDDLE]] == self.kinds).any(-1).reshape(-1)
        share = np.where(unknown & excused, UNKNOWN, ANYTHING)
        right = np.broadcast_to(packed.result, (every, *packed.result.shape)).reshape(every * number, -1)
        logs = _mixed(kinds.reshape(every * number, -1), right[:, 0], excess, share)
        for k in range(model.scene.numbers):
            logs = logs + _mixed(changes[:, :, k].reshape(every * number, 3), right[:, 1 + k], excess, share)
        return logs.reshape(every, number)

    def unexplained(self, packed: Pack, assignment: np.ndarray) -> float:
        """How many nats all outcomes that are kept, as `pack` gives them, surprise an assignment [T], each beyond what chance
        explains: some 3 for one that should not have been at all. Those that do are remembered longest. That something in sight
        is none of these explains nothing: or one such type would excuse everything."""
        if not len(packed.weight):
            return 0.0
        beyond = np.maximum(self.say_outcomes(packed, assignment[None], True, excused=False)[0] - CHANCE, 0)
        rows = self.rows["outcome"]
        rows.odd = {i for i, nats in zip(rows.kept, beyond, strict=True) if nats > 0}
        return float(beyond @ packed.weight)

    def total(self, packs: dict[str, Pack], assignments: np.ndarray) -> np.ndarray:
        """What examples say of assignments [M, T], weighed and summed: [M]."""
        present, found = self.present(assignments), np.zeros(len(assignments))
        for sort, packed in packs.items():
            number = len(packed.weight)
            if number and sort == "outcome":
                found += self.say_outcomes(packed, assignments) @ packed.weight
            elif number:
                pairs = np.divmod(np.arange(len(assignments) * number), number)
                found += self.say(sort, packed, assignments, pairs, present).reshape(-1, number) @ packed.weight
        return found


def _mixed(logs: np.ndarray, index: np.ndarray, excess: bool, anything: np.ndarray) -> np.ndarray:
    """Of log-probabilities [R, n], those of what happened [R], with a share [R] of anything; or how far they fall short."""
    if excess:
        share = anything[:, None]
        logs = np.log((1 - share) * np.exp(logs) + share / logs.shape[1])
        return (np.exp(logs) * logs).sum(-1) - logs[np.arange(len(logs)), index]
    chosen = np.exp(logs[np.arange(len(logs)), index])
    return np.log((1 - anything) * chosen + anything / logs.shape[1])


def _mark(*numbers: Any) -> bytes:
    return np.array(numbers, np.int32).tobytes()


def _wider(marked: np.ndarray) -> np.ndarray:
    """Tiles [H, W] bool that are marked or next to one that is."""
    return np.asarray(patches(marked, False).any(-1)).reshape(marked.shape)
