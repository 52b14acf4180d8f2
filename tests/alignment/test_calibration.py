"""How much of what judges say counts."""

import jax
import numpy as np
import pytest

from protoalign.alignment import assignments, calibration, imagined_games
from protoalign.alignment.actors import Thompson
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.judges import QTheta
from protoalign.rl.history import Episodes
from tests.alignment.helpers import ALL, model, source
from tests.alignment.test_imagined_games import task


def test_the_weight_of_evidence_is_found():
    """Scores that say too little are strengthened, those that say too much are weakened."""
    games = imagined_games.play(source(), ALL, QTheta(model()), Thompson(task()), jax.random.key(2), 64, 1, 31)
    loud = calibration.calibrate(games._replace(told=50 * games.told))
    assert loud[:2] == (pytest.approx(calibration.WEIGHTS[0]), 0.0)
    truth = np.eye(5)[assignments.table(5)[games.truth]][None, :, None]
    shy = calibration.calibrate(games._replace(told=np.broadcast_to(0.5 * truth, games.told.shape)))
    assert shy == (pytest.approx(calibration.WEIGHTS[-1]), 0.0, 0.0), "what is always right is believed, without doubt"


@pytest.mark.parametrize("kinds", [1, 3, 5])
def test_the_truth_counts_once_beside_the_leaders(kinds):
    """With few prototypes all assignments are looked at, the truth in a column of its own; with many the best of them."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, len(assignments.table(kinds)), 4)
    told = rng.normal(size=(1, 4, 3, kinds, kinds)).astype(np.float32)
    episodes = Episodes(None, np.zeros((1, 4, 3)), np.zeros((1, 4, 3)), np.array([[3, 1, 2, 3]]), None)
    nothing = np.zeros((1, 4, 3))
    games = Games(episodes, nothing, nothing, None, truth, None, np.ones((4, kinds), bool), told)
    said = calibration._said(games)
    assert said.first.tolist() == [0, 3, 4, 6]
    assert said.own.shape == (9, min(len(assignments.table(kinds)), 1 + calibration.LEADERS))
    for game, step in ((0, 0), (3, 8)):
        total = assignments.marks(kinds) @ told[0, game, 0 if game == 0 else 2].reshape(-1)
        assert said.own[step, 0] == pytest.approx(total[truth[game]], abs=1e-5)
        best = np.sort(np.delete(total, truth[game]))[::-1][: calibration.LEADERS]
        np.testing.assert_allclose(np.sort(said.own[step, 1:])[::-1], best, atol=1e-5)


def test_what_is_noise_is_doubted():
    """A judge whose scores differ from even by a little noise until it knows: the noise is not believed, what it knows is."""
    rng = np.random.default_rng(0)
    length, worlds = 12, 256
    truth = rng.integers(0, 120, worlds)
    marks = np.eye(5)[assignments.table(5)[truth]]
    other = np.eye(5)[assignments.table(5)[(truth + 1) % 120]]
    knows = np.arange(length) >= 6
    told = np.where(knows[None, :, None, None], 5 * marks[:, None], 0) + 3 * (marks + other)[:, None]
    leaning = rng.normal(0, 0.2, worlds)[:, None, None, None] * (marks - other)[:, None]
    episodes = Episodes(None, np.zeros((1, worlds, length)), np.zeros((1, worlds, length)), np.full((1, worlds), length), None)
    nothing = np.zeros((1, worlds, length))
    games = Games(episodes, nothing, nothing, None, truth, None, np.ones((worlds, 5), bool), (told + leaning)[None])
    found = calibration.calibrate(games)
    assert found.doubt > 0
    assert found.own >= 1
