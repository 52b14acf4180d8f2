"""Pictures of the source that act alike, but only together: an agent that is drawn over each of three sorts of ice leaves that
sort behind, so neither the agents nor the ices could change places alone.

A partition of the prototypes is proposed and then tested on what happened. Two situations, patches of 3 x 3 tiles with an
action and what is on the board, are the same if they are so but for which member of a class lies where. If it helps to know
the member to tell which class follows, the members are no one class, unless what followed, one thing here and another there, is
made one class too. Proposed are all pictures of the agent, and all that it walks over.
"""

from typing import NamedTuple

import numpy as np

from protoalign.alignment.local_model import MIDDLE, patches
from protoalign.alignment.local_training import Transitions, multipliers

STEPS = 200_000  # of the source that are looked at
ENOUGH = 10  # situations that a member has to share with others, and times that the agent has to step onto a ground and off it
DIFFERENT = 12.0  # likelihood ratio, as in a G-test, of a situation in which members differ
NATS = 0.3  # by which they do, for each time that the rarer one was seen there
SHARE = 0.01  # of situations may differ all the same; in worlds where members are truly alike none did
SYSTEMATIC = 20  # times that something follows, or should, in all situations: half as often is amiss then
MOST = 0.6  # of what is like an agent has to fit in
ROUNDS = 20
MOVED, OUTCOMES = 8, 16  # codes of what followed: class * 16 + 8 if another class is there now + outcome, where it tells


class Rows(NamedTuple):
    """R patches around agents and near what changed, now or in the step before, with what followed."""

    cells: np.ndarray  # [R, 9]
    after: np.ndarray  # [R]
    outcome: np.ndarray  # [R], of the step
    other: np.ndarray  # [R], the action as a random number
    step: np.ndarray  # [R]
    present: np.ndarray  # [N, C] bool, what is on the board


class Found(NamedTuple):
    """What a test of a partition found."""

    tested: np.ndarray  # [C], situations that each prototype shares with others of its class
    broken: np.ndarray  # [C], of these, in which something else follows
    amiss: np.ndarray  # [C], share of steps with a prototype in which what followed never does with others, seldom or not
    joined: set[tuple[int, int]]  # classes that would have to be one


def jointly_merged(given: Transitions, outcome: np.ndarray, agent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The class of every prototype [C], numbered in order of the first; `agent` [C] bool: what is like an agent; outcomes [N].
    What does not fit in is left out, the worst first; if that is most of the agents, nothing is merged."""
    kinds = len(agent)
    rows = _rows(given, outcome, agent, rng)
    if not len(rows.step):
        return np.arange(kinds)
    proposed = np.flatnonzero(agent), _grounds(rows, agent)
    least = max(2, round(MOST * agent.sum()))
    while len(proposed[0]) >= least:
        found = _unified(rows, proposed, agent)
        if isinstance(found, np.ndarray):
            return np.unique(found, return_inverse=True)[1]
        misfit = found.broken / np.maximum(found.tested, 1) + found.amiss + (found.tested < ENOUGH)
        worst = max((c for members in proposed if len(members) > 1 for c in members), key=lambda c: misfit[c])
        proposed = tuple(members[members != worst] for members in proposed)
    return np.arange(kinds)


def _rows(given: Transitions, outcome: np.ndarray, agent: np.ndarray, rng: np.random.Generator) -> Rows:
    kinds = len(agent)
    kept = np.sort(rng.permutation(len(given.action))[:STEPS])
    changed = (given.before != given.after) & (given.after <= kinds)
    earlier = np.concatenate([np.zeros_like(changed[:1]), changed[:-1]])
    earlier[given.first] = False
    before = given.before[kept]
    near = patches((changed | earlier)[kept], False).any(-1) | agent[before].reshape(len(kept), -1)
    step, cell = np.nonzero(near)
    after = given.after[kept].reshape(len(kept), -1)[step, cell].astype(np.int64)
    seen = after <= kinds  # what is out of sight tells nothing
    step, cell, after = step[seen], cell[seen], after[seen]
    present = np.stack([(before == c).any((1, 2)) for c in range(kinds)], 1)
    other = given.action[kept][step].astype(np.int64) * multipliers(1)
    return Rows(patches(before, kinds + 1)[step, cell], after, outcome[kept][step], other, step, present)


def _grounds(rows: Rows, agent: np.ndarray) -> np.ndarray:
    """Prototypes that an agent often steps onto, and off, without anything else happening."""
    middle, usual = rows.cells[:, MIDDLE], rows.outcome == np.bincount(rows.outcome).argmax()
    mine = np.append(agent, [False, False])
    left = np.bincount(rows.after[usual & mine[middle]], minlength=len(mine))
    taken = np.bincount(middle[usual & mine[rows.after]], minlength=len(mine))
    return np.flatnonzero((left >= ENOUGH) & (taken >= ENOUGH) & ~mine)


def _unified(rows: Rows, proposed: tuple[np.ndarray, ...], agent: np.ndarray) -> np.ndarray | Found:
    """The partition [C] with proposed members one class each, and whatever has to be one with that; or what speaks against
    it."""
    group = np.arange(len(agent))
    several = [members for members in proposed if len(members) > 1]
    for members in several:
        group[members] = members[0]
    for _ in range(ROUNDS):
        found = _test(rows, group, agent)
        unlike = found.broken.sum() > SHARE * found.tested.sum() or found.amiss.any()
        if unlike or (found.tested[np.concatenate(several)] < ENOUGH).any():
            return found
        if not found.joined:
            return group
        for one, other in found.joined:
            both = group[one], group[other]
            group[np.isin(group, both)] = min(both)
    return found


def _test(rows: Rows, group: np.ndarray, agent: np.ndarray) -> Found:
    kinds = len(group)
    classes = np.append(group, [kinds, kinds + 1])
    on_board = np.zeros((len(rows.present), kinds), bool)
    for c in range(kinds):
        on_board[:, group[c]] |= rows.present[:, c]
    with np.errstate(over="ignore"):
        mark = rows.other + (on_board @ multipliers(kinds))[rows.step]
        mark = mark + (classes[rows.cells] * multipliers(9)).sum(1)
    situation = np.unique(mark, return_inverse=True)[1]
    moved = classes[rows.cells[:, MIDDLE]] != classes[rows.after]
    told = moved | agent[rows.cells[:, MIDDLE]]  # an agent may be paid for what is not to be seen
    code = classes[rows.after] * OUTCOMES + moved * MOVED + told * rows.outcome
    codes, result = np.unique(code, return_inverse=True)
    eventful = np.zeros(situation.max() + 1, bool)
    eventful[situation[moved | (told & (rows.outcome != np.bincount(rows.outcome).argmax()))]] = True
    used = eventful[situation]
    tested, broken, amiss, joined = np.zeros(kinds), np.zeros(kinds), np.zeros(kinds), set()
    for k in range(9):
        who = rows.cells[used, k]
        every, count = np.unique((situation[used] * (kinds + 2) + who) * len(codes) + result[used], return_counts=True)
        rest, followed = np.divmod(every, len(codes))
        where, who = np.divmod(rest, kinds + 2)
        for c in np.flatnonzero(np.bincount(group, minlength=kinds) > 1).tolist():
            inside = classes[who] == c
            for x in np.flatnonzero(group == c):
                mine, theirs = inside & (who == x), inside & (who != x)
                number, pairs, more, much = _apart(where, followed, count, mine, theirs, len(codes))
                tested[x] += number
                for one, other in (codes[list(pair)] for pair in pairs):
                    if _could_be_one(one, other, group, agent):
                        joined.add((int(one // OUTCOMES), int(other // OUTCOMES)))
                    else:
                        broken[x] += 1
                for one in np.flatnonzero(much):
                    others = np.flatnonzero(np.sign(more) == -np.sign(more[one]))
                    instead = sum(abs(more[y]) for y in others if _could_be_one(codes[one], codes[y], group, agent))
                    if instead < abs(more[one]) / 2:  # else it would not be amiss if these were one
                        amiss[x] = max(amiss[x], abs(more[one]))
    return Found(tested, broken, amiss, joined)


def _could_be_one(one: int, other: int, group: np.ndarray, agent: np.ndarray) -> bool:
    """Whether two codes of what followed would be the same if two classes were one."""
    (a, how), (b, how_too) = np.divmod(one, OUTCOMES), np.divmod(other, OUTCOMES)
    fits = how == how_too and how >= MOVED and max(a, b) < len(group) and a != b
    return bool(fits and agent[group == a].any() == agent[group == b].any())


def _apart(
    where: np.ndarray, followed: np.ndarray, count: np.ndarray, mine: np.ndarray, theirs: np.ndarray, results: int
) -> tuple[int, list[tuple[int, int]], np.ndarray, np.ndarray]:
    """In how many situations one member can be compared with the others; of those in which something else follows, what
    followed most often, for the one, for the others; and of each result [results] how much more often it follows the one than
    it should, in all situations together, as a share of its steps, and whether that is much."""
    common = np.intersect1d(where[mine], where[theirs])
    if not len(common):
        return 0, [], np.zeros(results), np.zeros(results, bool)
    both = [x & np.isin(where, common) for x in (mine, theirs)]
    keys, index = np.unique(np.concatenate([where[x] * results + followed[x] for x in both]), return_inverse=True)
    split = int(both[0].sum())
    seen = np.stack([np.bincount(i, count[x], len(keys)) for i, x in zip((index[:split], index[split:]), both, strict=True)])
    place = np.searchsorted(common, keys // results)
    total = np.stack([np.bincount(place, x, len(common)) for x in seen])  # [2, S]
    pooled = seen.sum(0) / total.sum(0)[place]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 2 * np.where(seen > 0, seen * np.log(seen / total[:, place] / pooled), 0).sum(0)
    ratio, rarer = np.bincount(place, ratio, len(common)), total.min(0)
    compared = rarer >= 2
    different = compared & (ratio > DIFFERENT) & (ratio / 2 > NATS * rarer)
    pairs = []
    for s in np.flatnonzero(different):
        here = np.flatnonzero(place == s)
        one, other = (int(keys[here[x[here].argmax()]] % results) for x in seen)
        pairs.append((one, other))
    seen, expected = (np.bincount(keys % results, x, results) for x in (seen[0], pooled * total[0, place]))
    larger = np.maximum(seen, expected)
    much = (larger >= SYSTEMATIC) & (abs(seen - expected) > larger / 2)
    return int(compared.sum()), pairs, (seen - expected) / total[0].sum(), much
