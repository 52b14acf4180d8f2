"""Hypotheses: from scores to beliefs about what every tile type is, all types taken together.

A judge scores each of T types met against each of C prototypes: `score` [..., T, C] are log-likelihoods up to a constant per
type (as are the log-probabilities of a judge trained on evenly drawn truths). A hypothesis is an assignment of a prototype to
every type, with the posterior

    P(assignment)  ~  VARIANT ** (number of types that are not the first of their prototype)  *  exp(total score).

One type per prototype is the rule; several looks of one are possible but rare, and needed where types outnumber prototypes; a
prototype may have no type. `one_to_one=True` sets VARIANT to 0, unless T > C, which makes that impossible.

Up to EXACT types posteriors are exact: a sum over subsets. f[M] sums over all ways to hand the types in M to the prototypes so
far, and the next prototype takes a subset of the others. As each type after its first costs the same factor, the subset grows
type by type, to any size: C T 2^T additions of positive numbers. Marginals are derivatives of this sum, by a pass backwards.
Above EXACT, posteriors are sampled (`_gibbs`). The most probable assignment is exact at any size: a linear assignment in which
a prototype has T places, all but the first at the price of log VARIANT.
"""

from functools import lru_cache
from itertools import permutations
from math import factorial
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax

Combine = Literal["bayes", "average"]
VARIANT = 1e-3  # prior odds of one more look of a prototype that has one already
EXACT = 16  # types: above, posteriors are sampled
FLOOR = np.log(1e-4)  # no single episode may rule anything out for good
REACH = 600.0  # nats: exp(-REACH) is about the least float64, so in exact sums no type counts for more than REACH / T
NEVER = 1e5  # nats below a type's best: as good as impossible, for `decode`
TRIES = 32  # of `redraw`
MOVES = 64  # of `walk`
CHAINS, SWEEPS, BURN, SWAPS, GROUP = 128, 320, 64, 3, 4  # Gibbs sampling: (SWEEPS - BURN) * CHAINS = 32,768 draws


def combine(score: np.ndarray, how: Combine = "bayes") -> np.ndarray:
    """Scores after K episodes [..., K, T, C] to one [..., T, C], log-probabilities over C all.

    Episodes are independent given the truth, so "bayes" adds up log-likelihoods; "average" is the paper's mean probability.
    """
    if how == "average":
        return np.log(np.exp(score).mean(-3) + 1e-12)
    return log_softmax(np.maximum(log_softmax(score, axis=-1), FLOOR).sum(-3), axis=-1)


def log_partition(score: np.ndarray, one_to_one: bool = False) -> np.ndarray:
    """The logarithm [...] of the sum over all assignments of prior odds * exp(total score), for scores [..., T <= EXACT, C]."""
    score, best, variant = _check(score, one_to_one)
    if score.shape[-2] > EXACT:
        raise ValueError(f"the exact sum goes to {EXACT} types, not {score.shape[-2]}")
    total = [np.log(_layers(weight, variant)[-1][-1]) for weight in _chunks(score)]
    return np.concatenate(total).reshape(score.shape[:-2]) + best.sum((-2, -1))


def marginals(score: np.ndarray, one_to_one: bool = False) -> np.ndarray:
    """What each type is, given the evidence about all of them: probabilities [..., T, C] from scores [..., T, C]."""
    score, _, variant = _check(score, one_to_one)
    if score.shape[-2] > EXACT:
        return np.array([_gibbs(x.tobytes(), len(x), variant)[0] for x in _flat(score)]).reshape(score.shape)
    found = [_marginals(weight, variant).transpose(2, 0, 1) for weight in _chunks(score)]
    return np.concatenate(found).reshape(score.shape)


def probability(score: np.ndarray, choice: np.ndarray, one_to_one: bool = False) -> np.ndarray:
    """The posterior probability [...] that the whole assignment `choice` [..., T] is right.

    Leading dimensions of scores [..., T, C] and choices broadcast. Above EXACT types it is the share of Gibbs' draws.
    """
    score, _, variant = _check(score, one_to_one)
    types, prototypes = score.shape[-2:]
    choice = np.asarray(choice)
    if choice.shape[-1:] != (types,) or not ((choice >= 0) & (choice < prototypes)).all():
        raise ValueError(f"a choice is one prototype below {prototypes} for each of {types} types, not an array {choice.shape}")
    batch = np.broadcast_shapes(score.shape[:-2], choice.shape[:-1])
    choice = np.broadcast_to(choice, (*batch, types)).astype(np.int64)
    wide = np.broadcast_to(score, (*batch, types, prototypes))
    if types > EXACT:
        pairs = zip(_flat(wide), _flat(choice, 1), strict=True)
        return np.array([(_gibbs(x.tobytes(), types, variant)[1] == y).all(-1).mean() for x, y in pairs]).reshape(batch)
    total = np.take_along_axis(wide, choice[..., None], -1)[..., 0].sum(-1)
    return np.minimum(np.exp(total - log_partition(score, one_to_one)) * variant ** _shared(choice), 1.0)


def decode(score: np.ndarray, one_to_one: bool = False) -> np.ndarray:
    """The most probable assignment [..., T] for scores [..., T, C] of any size. Exact; here differences count up to NEVER."""
    score, _, variant = _check(score, one_to_one, NEVER)
    flat = _flat(score)
    choice = flat.argmax(-1)  # nothing beats each type's best, if no two share one
    for i in np.flatnonzero(_shared(choice)):
        choice[i] = _assign(flat[i], variant)
    return choice.reshape(score.shape[:-1])


def draw(score: np.ndarray, rng: np.random.Generator, one_to_one: bool = False) -> np.ndarray:
    """One assignment [T] drawn from the posterior for scores [T, C]: type by type, each given those before. Exact up to EXACT
    types; above, one of Gibbs' draws."""
    score, _, variant = _check(score, one_to_one)
    types, prototypes = score.shape
    if types > EXACT:
        draws = _gibbs(score.tobytes(), types, variant)[1]
        return draws[rng.integers(len(draws))].astype(np.int64)
    choice = np.zeros(types, np.int64)
    given = score.copy()
    for t in range(types):
        chance = marginals(given, one_to_one)[t]
        choice[t] = rng.choice(prototypes, p=chance / chance.sum())
        given[t] = np.where(np.arange(prototypes) == choice[t], 0.0, -REACH)
    return choice


def sample(score: np.ndarray) -> np.ndarray:
    """Many draws [D, T] from the posterior for scores [T, C] of any size, by Gibbs sampling: the same every time."""
    score, _, variant = _check(score, False)
    return _gibbs(score.tobytes(), len(score), variant)[1]


def redraw(
    old: np.ndarray, new: np.ndarray, choice: np.ndarray, rng: np.random.Generator, one_to_one: bool = False
) -> np.ndarray:
    """A draw [T] from the posterior for scores `new` [T, C], given a draw `choice` from that for `old` [T, C].

    It is a draw from the new posterior and differs from the old one as seldom as any could (a maximal coupling by rejection;
    after TRIES of them it is a plain draw).
    """
    if rng.random() * probability(old, choice, one_to_one) <= probability(new, choice, one_to_one):
        return choice
    for _ in range(TRIES):
        drawn = draw(new, rng, one_to_one)
        if rng.random() * probability(new, drawn, one_to_one) >= probability(old, drawn, one_to_one):
            break
    return drawn


def couple(old: np.ndarray, new: np.ndarray, index: int | None, rng: np.random.Generator) -> int:
    """As `redraw`, for log-probabilities [H] of hypotheses by number: a draw from `new`, given a draw `index` from `old`, or
    none yet."""
    if index is not None and np.log(rng.random()) + old[index] <= new[index]:
        return index
    chance = np.exp(new) if index is None else np.maximum(np.exp(new) - np.exp(old), 0) + 1e-12
    return int(rng.choice(len(new), p=chance / chance.sum()))


def walk(score: np.ndarray, choice: np.ndarray, rng: np.random.Generator, one_to_one: bool = False) -> np.ndarray:
    """A draw [T] after MOVES steps of a Metropolis chain from `choice` [T], for scores [T, C]: cheap at any size.

    A move gives a random type a random prototype, or exchanges those of two types.
    """
    score, _, variant = _check(score, one_to_one, NEVER)
    types, prototypes = score.shape
    price, each = (np.log(variant) if variant else -NEVER), np.arange(types)
    choice = np.array(choice)
    worth = score[each, choice].sum() + price * _shared(choice)
    for one, other, c, swap, u in zip(*(rng.random((5, MOVES)) * [[types], [types], [prototypes], [1], [1]]), strict=True):
        moved = choice.copy()
        if swap < 0.5:
            moved[[int(one), int(other)]] = choice[[int(other), int(one)]]
        else:
            moved[int(one)] = int(c)
        would = score[each, moved].sum() + price * _shared(moved)
        if np.log(u) < would - worth:
            choice, worth = moved, would
    return choice


def sureness(score: np.ndarray, unmet: int = 0, absent: float = 1.0, one_to_one: bool = False) -> float:
    """The probability that the whole mapping is right: that of `decode(score)` for scores [T, C], and what is not met yet.

    The looks of `unmet` prototypes can, when they come, be told by elimination only: a factor 1 / unmet!. `absent`, which the
    caller knows, is the probability that they have a look of their own, not seen yet. With no types, [0, C], these are all.
    """
    if unmet < 0 or not 0 <= absent <= 1:
        raise ValueError(f"unmet must be at least 0 and absent in [0, 1], not {unmet} and {absent}")
    return float(probability(score, decode(score, one_to_one), one_to_one)) * absent * (1 / factorial(unmet))


def by_prototype(score: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Scores [E, T, C] of imagined episodes, their types renamed by truth [E, T] so that type p is truly prototype p."""
    return np.take_along_axis(score, np.argsort(truth, 1)[..., None], 1)


def share_right(
    score: np.ndarray, episodes: int, how: Combine = "bayes", joint: bool = True, met: np.ndarray | None = None
) -> float:
    """How often all types are right after so many episodes, from many single ones [E, T, C] in `by_prototype` order.

    `joint`: decoded together, one to one (as they are drawn); otherwise type by type, as in the paper.
    `met` [E, T]: in which a type was met at all, if some are not: all cannot be right if two were never met.
    """
    groups = len(score) // episodes
    combined = combine(score[: groups * episodes].reshape(groups, episodes, *score.shape[1:]), how)
    if joint:  # of equals the first is chosen: in the order of the truth that would be right
        mixed = np.random.default_rng(0).permuted(np.tile(np.arange(score.shape[1]), (groups, 1)), axis=1)
        right = (decode(np.take_along_axis(combined, mixed[..., None], 1), one_to_one=True) == mixed).all(-1)
    else:
        right = (combined.argmax(-1) == np.arange(score.shape[1])).all(-1)
    if met is not None:
        right &= (~met[: groups * episodes].reshape(groups, episodes, -1).any(1)).sum(-1) < 2
    return float(right.mean())


def _check(score: np.ndarray, one_to_one: bool, reach: float | None = None) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores less each type's best [..., T, C], not below -reach; those best [..., T, 1]; and the price of a variant."""
    score = np.asarray(score, np.float64)
    if score.ndim < 2 or score.shape[-1] == 0:
        raise ValueError(f"scores are [..., types, prototypes], not {score.shape}")
    types, prototypes = score.shape[-2:]
    best = score.max(-1, keepdims=True)
    if not np.isfinite(best).all():
        raise ValueError("every type needs scores below infinity, none NaN, and one above -infinity")
    if reach is None:
        reach = REACH / max(types, 1) if types <= EXACT else REACH
    return np.maximum(score - best, -reach), best, 0.0 if one_to_one and types <= prototypes else VARIANT


def _flat(x: np.ndarray, keep: int = 2) -> np.ndarray:
    """All leading dimensions as one, which may be 1 or 0 long."""
    return x.reshape(int(np.prod(x.shape[: x.ndim - keep])), *x.shape[x.ndim - keep :])


def _shared(choice: np.ndarray) -> np.ndarray:
    """How many types [...] of an assignment [..., T] are not the first of their prototype."""
    return (np.diff(np.sort(choice, -1)) == 0).sum(-1)


def _assign(score: np.ndarray, variant: float) -> np.ndarray:
    """The most probable assignment [T] for scores [T, C]: a place for one type per prototype, and more of them at a price."""
    types, prototypes = score.shape
    if variant > 0:
        score = np.concatenate([score, *[score + np.log(variant)] * (types - 1)], 1)
    return linear_sum_assignment(score, maximize=True)[1] % prototypes


def _chunks(score: np.ndarray) -> list[np.ndarray]:
    """Likelihoods [T, C, n] of scores [..., T, C], in parts of which 2^T * n numbers stay in the processor's cache."""
    size, flat = max(1, 2**14 >> score.shape[-2]), _flat(score)
    return [np.exp(flat[i : i + size].transpose(1, 2, 0), order="C") for i in range(0, max(len(flat), 1), size)]


def _halves(x: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Views of the entries of x [2^T, n] for the subsets without type t, and for the same subsets with it."""
    split = x.reshape(len(x) >> t + 1, 2, 2**t, x.shape[-1])
    return split[:, 0], split[:, 1]


def _take(f: np.ndarray, weight: np.ndarray, variant: float, rest: list[np.ndarray] | None = None) -> np.ndarray:
    """The sums g [2^T, n] in which the next prototype, of likelihoods [T, n], takes at least one type; f without it.

    For every type, what its likelihood was multiplied with is appended to `rest`, if wanted.
    """
    g = np.zeros_like(f)
    for t, likelihood in enumerate(weight):
        (first, _), (another, with_t) = _halves(f, t), _halves(g, t)
        if variant:
            another = another * variant
            first = np.add(another, first, out=another)
        with_t += likelihood * first
        if rest is not None:
            rest.append(first)
    return g


def _layers(weight: np.ndarray, variant: float) -> list[np.ndarray]:
    """Sums f [2^T, n] over assignments of every subset of types, to the first 0, 1, ..., C prototypes; weight [T, C, n]."""
    types, prototypes, number = weight.shape
    layers = [np.zeros((2**types, number))]
    layers[0][0] = 1
    for c in range(prototypes):
        layers.append(layers[-1] + _take(layers[-1], weight[:, c], variant))
    return layers


def _marginals(weight: np.ndarray, variant: float) -> np.ndarray:
    """Marginals [T, C, n] for likelihoods [T, C, n]: the derivative of the last sum, from the last prototype to the first."""
    types, prototypes, _ = weight.shape
    layers = _layers(weight, variant)
    back = np.zeros_like(layers[0])
    back[-1] = 1
    found = np.empty_like(weight)
    for c in reversed(range(prototypes)):
        rest: list[np.ndarray] = []
        _take(layers[c], weight[:, c], variant, rest)
        taken = back.copy()
        for t in reversed(range(types)):
            (another, with_t), (first, _) = _halves(taken, t), _halves(back, t)
            up = weight[t, c] * with_t
            found[t, c] = np.einsum("abn,abn->n", up, rest[t])
            first += up
            if variant:
                up *= variant
                another += up
    return found / found.sum(1, keepdims=True)


def _pick(chance: np.ndarray, even: np.ndarray) -> np.ndarray:
    """One column [K] per row of odds [K, N], by even numbers [K, 1] in [0, 1)."""
    upto = chance.cumsum(1)
    return (even * upto[:, -1:] >= upto[:, :-1]).sum(1)


@lru_cache(maxsize=8)
def _gibbs(data: bytes, types: int, variant: float) -> tuple[np.ndarray, np.ndarray]:
    """Marginals [T, C] and draws [D, T] of the posterior, by Gibbs sampling from a fixed seed: the same every time.

    Half of the chains start from the most probable assignment, half from that of scores with Gumbel noise. A sweep draws every
    type anew given the others, then SWAPS times deals the types into random groups of GROUP and draws anew which of a group has
    which of the group's prototypes: swaps and longer cycles (with swaps alone one-to-one chains get stuck). Marginals are means
    of conditional probabilities. Cost: 0.6 s for 20 x 20, 1.6 s for 40 x 40.

    Error against the exact sum (8 to 16 types, 20 normal scores each of deviation 3 and 8): the worst of all marginals is off
    by 0.01 on average, 0.03 at most, the best assignment's probability by 0.02 at most. One to one, where chains mix worst:
    0.02 on average, 0.11 at most, and 0.05.
    """
    rng = np.random.default_rng(0)
    score = np.frombuffer(data).reshape(types, -1)
    weight, chain = np.exp(score), np.arange(CHAINS)
    noise = rng.gumbel(size=(CHAINS, *score.shape)) * (chain % 2)[:, None, None]
    state = np.array([_assign(score + x, variant) for x in noise])
    every = np.array(list(permutations(range(GROUP))))
    marks = np.eye(GROUP)[every].reshape(len(every), -1).T
    count = np.zeros((CHAINS, score.shape[1]), np.int64)
    np.add.at(count, (chain[:, None], state), 1)
    found, draws = np.zeros_like(score), []
    for sweep in range(SWEEPS):
        even = rng.random((types, CHAINS, 1))
        for t in range(types):
            count[chain, state[:, t]] -= 1
            chance = np.where(count > 0, variant, 1.0) * weight[t]
            state[:, t] = _pick(chance, even[t])
            count[chain, state[:, t]] += 1
            if sweep >= BURN:
                found[t] += (chance / chance.sum(1, keepdims=True)).sum(0)
        for _ in range(SWAPS):
            group = rng.random(state.shape).argsort(1)[:, : types // GROUP * GROUP].reshape(CHAINS, -1, GROUP)
            held = state[chain[:, None, None], group]
            pairs = score[group[..., :, None], held[..., None, :]].reshape(-1, GROUP * GROUP)
            total = pairs @ marks
            pick = _pick(np.exp(total - total.max(1, keepdims=True)), rng.random((len(total), 1))).reshape(group.shape[:2])
            state[chain[:, None, None], group] = np.take_along_axis(held, every[pick], -1)
        if sweep >= BURN:
            draws.append(state.astype(np.int16))
    return found / found.sum(1, keepdims=True), np.concatenate(draws)
