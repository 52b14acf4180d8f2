"""Posteriors over assignments, against plain enumeration, another recursion, and what scores in blocks must give."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax, logsumexp

from protoalign.alignment import hypotheses
from protoalign.alignment.hypotheses import (
    VARIANT,
    combine,
    decode,
    log_partition,
    marginals,
    probability,
    share_right,
    sureness,
)

SIZES = [(1, 1), (1, 5), (2, 2), (3, 5), (4, 4), (5, 5), (6, 6), (4, 2), (6, 3), (5, 1)]


def draw(seed, *shape, scale=2.0):
    return log_softmax(scale * np.random.default_rng(seed).normal(size=shape), axis=-1)


def enumerate_all(score, one_to_one):
    """All assignments [N, T] and the logarithms of their posterior odds [N], one by one."""
    types, prototypes = score.shape
    every = np.array(list(product(range(prototypes), repeat=types)))
    extra = types - np.array([len(set(x)) for x in every])
    total = score[np.arange(types), every].sum(1)
    if one_to_one and types <= prototypes:
        return every[extra == 0], total[extra == 0]
    return every, total + extra * np.log(VARIANT)


def by_types(score, variant):
    """The partition sum by another recursion: type after type, over the set of prototypes used so far."""
    used = np.arange(2 ** score.shape[1])
    odds = (used == 0).astype(float)
    for row in np.exp(score):
        after = np.zeros_like(odds)
        for c, likelihood in enumerate(row):
            np.add.at(after, used | 1 << c, odds * likelihood * np.where(used >> c & 1, variant, 1.0))
        odds = after
    return np.log(odds.sum())


def shuffled(parts, seed, empty):
    """The parts as the blocks of one matrix that is `empty` elsewhere, its rows and columns shuffled."""
    whole = np.where(block_diag(*map(np.ones_like, parts)), block_diag(*parts), empty)
    rng = np.random.default_rng(seed)
    return whole[rng.permutation(len(whole))][:, rng.permutation(len(whole))]


@pytest.mark.parametrize("one_to_one", [False, True])
@pytest.mark.parametrize(("types", "prototypes"), SIZES)
@pytest.mark.parametrize("scale", [0.5, 6.0])
def test_against_enumeration(types, prototypes, one_to_one, scale):
    scores = draw(types * 10 + prototypes, 3, types, prototypes, scale=scale)
    taken = decode(scores, one_to_one)
    for score, belief, best, total in zip(
        scores, marginals(scores, one_to_one), taken, log_partition(scores, one_to_one), strict=True
    ):
        every, odds = enumerate_all(score, one_to_one)
        chance = np.exp(odds - logsumexp(odds))
        np.testing.assert_allclose(total, logsumexp(odds), rtol=1e-11, atol=1e-12)
        expected = np.array([[chance[every[:, t] == c].sum() for c in range(prototypes)] for t in range(types)])
        np.testing.assert_allclose(belief, expected, rtol=1e-9, atol=1e-14)
        np.testing.assert_array_equal(best, every[chance.argmax()])
        some = every[:: max(1, len(every) // 500)]
        np.testing.assert_allclose(probability(score, some, one_to_one), chance[:: max(1, len(every) // 500)], rtol=1e-9)
        assert sureness(score, one_to_one=one_to_one) == pytest.approx(chance.max(), rel=1e-9)


@pytest.mark.parametrize("variant", [VARIANT, 0.0])
@pytest.mark.parametrize(("types", "prototypes"), [(12, 12), (16, 16), (16, 9), (7, 14)])
def test_large_sums_against_another_recursion(types, prototypes, variant):
    if variant or types <= prototypes:
        score = draw(types, types, prototypes)
        np.testing.assert_allclose(log_partition(score, not variant), by_types(score, variant), rtol=1e-11)


@pytest.mark.parametrize("one_to_one", [False, True])
@pytest.mark.parametrize(("number", "size"), [(2, 6), (4, 4), (3, 6)])
def test_blocks_that_know_nothing_of_each_other_factorise(number, size, one_to_one):
    """12 and 16 types are summed exactly, 18 are sampled."""
    parts = [draw(i, size, size) for i in range(number)]
    score = shuffled(parts, 5, -np.inf)
    error = 0.03 if len(score) > hypotheses.EXACT else 1e-10
    expected = shuffled([marginals(part, one_to_one) for part in parts], 5, 0.0)
    np.testing.assert_allclose(marginals(score, one_to_one), expected, atol=error)
    assert sureness(score, one_to_one=one_to_one) == pytest.approx(
        np.prod([sureness(part, one_to_one=one_to_one) for part in parts]), abs=error
    )


@pytest.mark.parametrize("one_to_one", [False, True])
def test_sampling_against_the_exact_sum(one_to_one, monkeypatch):
    score = draw(3, 8, 8)
    best, belief = decode(score, one_to_one), marginals(score, one_to_one)
    sure, other = (probability(score, x, one_to_one) for x in (best, best[::-1]))
    monkeypatch.setattr(hypotheses, "EXACT", 7)
    sampled = marginals(score, one_to_one)
    np.testing.assert_allclose(sampled, belief, atol=0.03)
    np.testing.assert_allclose(sampled.sum(-1), 1)
    np.testing.assert_allclose(probability(score, best, one_to_one), sure, atol=0.03)
    np.testing.assert_allclose(probability(score, best[::-1], one_to_one), other, atol=0.03)
    hypotheses._gibbs.cache_clear()
    np.testing.assert_array_equal(marginals(score, one_to_one), sampled)
    with pytest.raises(ValueError, match="exact sum"):
        log_partition(score)


def test_many_certain_types_are_sure_when_sampled_too():
    score = log_softmax(12 * np.eye(24)[np.random.default_rng(0).permutation(24)][:20], axis=-1)
    assert sureness(score) == pytest.approx(0.9975, abs=0.002)
    np.testing.assert_array_equal(decode(score), score.argmax(-1))


def test_most_probable_assignments_are_those_of_the_linear_assignment():
    score = draw(0, 300, 5, 5)
    np.testing.assert_array_equal(decode(score, one_to_one=True), [linear_sum_assignment(-x)[1] for x in score])
    score = draw(1, 30, 30)  # with variants, above EXACT: no change of one type or swap of two is any better
    best = decode(score)

    def odds(x):
        return score[np.arange(30), x].sum() + (30 - len(set(x))) * np.log(VARIANT)

    for i, j in product(range(30), repeat=2):
        moved, swapped = best.copy(), best.copy()
        moved[i], swapped[[i, j]] = j, best[[j, i]]
        assert max(odds(moved), odds(swapped)) <= odds(best) + 1e-9


def test_seven_certain_types_and_one_prototype_not_met():
    """The first edition said 0.124."""
    score = log_softmax(12 * np.eye(8)[:7], axis=-1)
    for one_to_one in (False, True):
        assert 0.999 < sureness(score, unmet=1, one_to_one=one_to_one) < 1


def test_not_having_met_something_costs():
    score = log_softmax(20 * np.eye(5)[:1], axis=-1)
    assert sureness(score) > 0.999
    assert 0.04 < sureness(score, unmet=4) <= 1 / 24, "all five pictures the same: four prototypes cannot be told"
    assert sureness(score, unmet=2, absent=0.5) == pytest.approx(sureness(score) / 4)
    nothing = np.zeros((0, 5))
    assert sureness(nothing, unmet=3, absent=0.5) == pytest.approx(0.5 / 6)
    assert sureness(nothing) == 1
    assert sureness(score, unmet=200) == 0
    for wrong in ({"unmet": -1}, {"absent": 1.1}, {"absent": np.nan}):
        with pytest.raises(ValueError, match="absent in"):
            sureness(score, **wrong)


def test_variants():
    """Two looks of one prototype: believed against the prior if the evidence is strong, never when one to one."""
    score = log_softmax(np.array([[9.0, 0, 0], [9, 0, 0], [0, 9, 0]]), axis=-1)
    np.testing.assert_array_equal(decode(score), [0, 0, 1])
    assert len(set(decode(score, one_to_one=True))) == 3
    assert probability(score, np.array([0, 0, 1]), one_to_one=True) == 0
    weak = score / 2  # 4.5 nats are less than log 1000
    assert len(set(decode(weak))) == 3
    more = np.zeros((3, 2))  # three types, two prototypes: one to one is impossible
    assert sureness(more, one_to_one=True) == pytest.approx(1 / (6 + 2 * VARIANT))


@pytest.mark.parametrize("one_to_one", [False, True])
def test_extreme_scores(one_to_one):
    for low in (-np.inf, -1e9):
        score = np.where(np.eye(4) > 0, 0.0, low)[[2, 0, 3, 1]]
        np.testing.assert_array_equal(decode(score, one_to_one), [2, 0, 3, 1])
        np.testing.assert_allclose(marginals(score, one_to_one), np.eye(4)[[2, 0, 3, 1]], atol=1e-12)
        assert sureness(score, one_to_one=one_to_one) == pytest.approx(1)
        forced = np.full((16, 16), low)  # all types are certain of the same
        forced[:, 0] = 0
        assert np.isfinite(marginals(forced, one_to_one)).all()
        assert np.isfinite(log_partition(forced, one_to_one))
        assert len(set(decode(forced, one_to_one))) == (16 if one_to_one else 1)
    np.testing.assert_allclose(marginals(np.zeros((6, 6)), one_to_one), 1 / 6)
    np.testing.assert_allclose(marginals(np.full((6, 6), -1e9), one_to_one), 1 / 6)
    assert sureness(np.zeros((5, 5)), one_to_one=True) == pytest.approx(1 / 120)
    far = np.array([[0.0, -50.0, -60.0], [0.0, -70.0, -49.0]])
    np.testing.assert_array_equal(decode(far, one_to_one=True), [0, 2])


def test_what_is_refused():
    good = np.zeros((2, 2))
    for bad in (np.nan, np.inf):
        score = good.copy()
        score[0, 1] = bad
        for use in (marginals, decode, log_partition, sureness):
            with pytest.raises(ValueError, match="every type needs"):
                use(score)
    with pytest.raises(ValueError, match="every type needs"):
        decode(np.full((2, 2), -np.inf))
    for shape in ((3,), (3, 0)):
        with pytest.raises(ValueError, match="scores are"):
            marginals(np.zeros(shape))
    for choice in ([0], [0, 2], [-1, 0], 0):
        with pytest.raises(ValueError, match="a choice is"):
            probability(good, np.array(choice))


@pytest.mark.parametrize("batch", [(), (0,), (2, 3), (1500,)])
@pytest.mark.parametrize(("types", "prototypes"), [(0, 3), (3, 4), (5, 3)])
def test_batches(batch, types, prototypes):
    score = np.random.default_rng(1).normal(size=(*batch, types, prototypes))
    best, belief = decode(score), marginals(score)
    chance = probability(score, best)
    assert best.shape == (*batch, types)
    assert belief.shape == score.shape
    assert chance.shape == batch == log_partition(score).shape
    if batch:
        for index in list(np.ndindex(batch))[-3:]:
            np.testing.assert_array_equal(best[index], decode(score[index]))
            np.testing.assert_allclose(belief[index], marginals(score[index]), rtol=1e-12)
            np.testing.assert_allclose(chance[index], sureness(score[index]), rtol=1e-12)


@settings(max_examples=30)
@given(
    st.integers(0, 10**6), st.sampled_from([1, 2, 3, 8]), st.sampled_from(["bayes", "average"]), st.booleans(), st.booleans()
)
def test_shares_that_are_right_as_in_the_first_edition(seed, episodes, how, joint, some_unmet):
    rng = np.random.default_rng(seed)
    score = log_softmax(4 * np.eye(5) + 3 * rng.normal(size=(50, 5, 5)), axis=-1)
    met = rng.random((50, 5)) < 0.6 if some_unmet else None
    right, groups = 0, 50 // episodes
    for group in range(groups):
        part = slice(group * episodes, (group + 1) * episodes)
        if how == "average":
            together = np.log(np.exp(score[part]).mean(0) + 1e-12)
        else:
            together = log_softmax(np.maximum(score[part], np.log(1e-4)).sum(0), axis=-1)
        np.testing.assert_allclose(combine(score[part], how), together, rtol=1e-9, atol=1e-12)
        choice = linear_sum_assignment(-together)[1] if joint else together.argmax(1)
        right += (choice == np.arange(5)).all() and (met is None or (~met[part].any(0)).sum() < 2)
    assert share_right(score, episodes, how, joint, met) == pytest.approx(right / groups)


def test_types_in_the_order_of_prototypes():
    truth = np.array([[2, 0, 1], [0, 1, 2]])
    score = np.where(np.eye(3)[truth] > 0, 0.0, -9.0)
    np.testing.assert_array_equal(hypotheses.by_prototype(score, truth).argmax(-1), [[0, 1, 2]] * 2)
    assert share_right(hypotheses.by_prototype(score, truth), 1) == 1


@pytest.mark.parametrize(("types", "one_to_one"), [(4, True), (4, False), (6, False)])
def test_draws_follow_the_posterior(types, one_to_one):
    rng = np.random.default_rng(0)
    score = 2 * rng.normal(size=(types, 5))
    drawn = np.array([hypotheses.draw(score, rng, one_to_one) for _ in range(1500)])
    found = (drawn[..., None] == np.arange(5)).mean(0)
    assert abs(found - hypotheses.marginals(score, one_to_one)).max() < 4 * 0.5 / 1500**0.5
    if one_to_one:
        assert (np.diff(np.sort(drawn, 1)) > 0).all()


def test_a_redrawn_assignment_is_a_draw_and_mostly_the_same():
    rng = np.random.default_rng(1)
    old = 2 * rng.normal(size=(4, 4))
    new = old + 0.3 * rng.normal(size=(4, 4))
    before = [hypotheses.draw(old, rng, True) for _ in range(1500)]
    after = np.array([hypotheses.redraw(old, new, choice, rng, True) for choice in before])
    found = (after[..., None] == np.arange(4)).mean(0)
    assert abs(found - hypotheses.marginals(new, True)).max() < 4 * 0.5 / 1500**0.5
    every = assignments_of(4)
    chances = [np.array([hypotheses.probability(x, a, True) for a in every]) for x in (old, new)]
    least = np.maximum(chances[1] - chances[0], 0).sum()
    changed = (after != np.array(before)).any(1).mean()
    assert abs(changed - least) < 5 * (least / 1500) ** 0.5


def assignments_of(kinds):
    return np.array(list(permutations(range(kinds))))


def test_numbered_hypotheses_are_coupled_in_the_same_way():
    rng = np.random.default_rng(4)
    old, new = np.log(rng.dirichlet(np.ones(6), 2))
    before = [hypotheses.couple(old, old, None, rng) for _ in range(6000)]
    after = np.array([hypotheses.couple(old, new, index, rng) for index in before])
    assert abs(np.bincount(after, minlength=6) / 6000 - np.exp(new)).max() < 4 * 0.5 / 6000**0.5
    least = np.maximum(np.exp(new) - np.exp(old), 0).sum()
    assert abs((after != np.array(before)).mean() - least) < 5 * (least / 6000) ** 0.5


def test_steps_of_a_chain_follow_the_posterior():
    rng = np.random.default_rng(5)
    score = 1.5 * rng.normal(size=(3, 4))
    for one_to_one in (True, False):
        choice, found = hypotheses.decode(score, one_to_one), np.zeros((3, 4))
        for _ in range(1500):
            choice = hypotheses.walk(score, choice, rng, one_to_one)
            found[np.arange(3), choice] += 1 / 1500
        assert abs(found - hypotheses.marginals(score, one_to_one)).max() < 0.06


def test_many_types_are_drawn_too():
    rng = np.random.default_rng(2)
    sure = np.where(np.eye(18) > 0, 0.0, -20.0)
    np.testing.assert_array_equal(hypotheses.draw(sure, rng), np.arange(18))


def test_what_is_even_is_right_by_chance_only():
    """Of equals the first is chosen, which must not be the truth by order."""
    share = hypotheses.share_right(np.zeros((600, 4, 4)), 1)
    assert abs(share - 1 / 24) < 4 * (23 / 24**2 / 600) ** 0.5
