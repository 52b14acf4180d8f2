"""Posteriors over assignments in compiled programs: against enumeration by hand, and against `hypotheses`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.alignment import assignments, hypotheses


def test_totals_and_marginals_agree_with_the_host():
    score = np.random.default_rng(0).normal(size=(7, 4, 4)) * 2
    posterior = assignments.combined(jnp.asarray(score))
    assert posterior.shape == (7, 24)
    np.testing.assert_allclose(np.exp(posterior).sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(assignments.marginals(posterior), hypotheses.marginals(score, one_to_one=True), atol=1e-5)
    best = assignments.table(4)[np.argmax(posterior, 1)]
    np.testing.assert_array_equal(best, hypotheses.decode(score, one_to_one=True))
    np.testing.assert_array_equal(assignments.index_of(jnp.asarray(best)), np.argmax(posterior, 1))
    np.testing.assert_array_equal(assignments.numbered(jnp.argmax(posterior, 1), 4), best)


def test_a_coupled_draw_is_a_draw_and_changes_as_seldom_as_can_be():
    number = 40_000
    old, new = (np.log(np.random.default_rng(i).dirichlet(np.ones(6))) for i in (1, 2))
    wide = [jnp.broadcast_to(jnp.asarray(x, jnp.float32), (number, 6)) for x in (old, new)]
    index = jax.random.categorical(jax.random.key(0), wide[0])
    drawn = np.asarray(assignments.couple(*wide, index, jax.random.key(1)))
    error = 4 * (np.exp(new) / number) ** 0.5
    assert (abs(np.bincount(drawn, minlength=6) / number - np.exp(new)) < error).all()
    least = np.maximum(np.exp(new) - np.exp(old), 0).sum()  # the total variation: no coupling changes less
    assert abs((drawn != np.asarray(index)).mean() - least) < 4 * (least / number) ** 0.5


def test_metropolis_sampling_has_the_posterior_as_its_law():
    kinds, number = 4, 8192
    score = np.random.default_rng(3).normal(size=(kinds, kinds))
    wide = jnp.broadcast_to(jnp.asarray(score, jnp.float32), (number, kinds, kinds))
    choice = jnp.tile(jnp.arange(kinds), (number, 1))
    for i in range(4):
        choice = jax.jit(assignments.resample)(wide, choice, jax.random.key(i))
    assert (np.sort(choice, 1) == np.arange(kinds)).all(), "still one to one"
    found = np.eye(kinds)[np.asarray(choice)].mean(0)
    np.testing.assert_allclose(found, hypotheses.marginals(score, one_to_one=True), atol=5 * 0.5 / number**0.5)


def test_too_many_prototypes_are_judged_pair_by_pair():
    score = jnp.zeros((2, 9, 9))
    assert assignments.combined(score).shape == (2, 9, 9)
    with pytest.raises(ValueError, match="9 prototypes"):
        assignments.table(9)
