"""Games in imagined worlds by any judge and actor, and how they are summed up."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.alignment import assignments, finding_out, imagined_games, judge_training
from protoalign.alignment.actors import Exploring, MostLikely, Thompson
from protoalign.alignment.exploration import explorer_from
from protoalign.alignment.imagination import imagine
from protoalign.alignment.judges import QTheta
from protoalign.alignment.training import each_in_a_row
from protoalign.rl.networks import RelativeNet
from tests.alignment.helpers import ALL, model, scene, source


def task():
    return RelativeNet(np.random.default_rng(0), scene(), 16, ALL)


class Oracle(eqx.Module):
    """A judge that knows."""

    prototypes: int = 5

    def begin(self, imagined, seen):
        return jnp.zeros(len(imagined.truth))

    def watch(self, state, imagined, step, going=None, posterior=None):
        return state + 1

    def score(self, state, imagined):
        return assignments.combined(10 * jax.nn.one_hot(imagined.truth, 5))

    def belief(self, state, imagined):
        return jax.nn.one_hot(imagined.truth, 5)

    def posterior(self, score):
        return jax.nn.log_softmax(score)

    def unweighed(self, state, imagined):
        return state


ACTORS = {
    "thompson": lambda: Thompson(task()),
    "most likely": lambda: MostLikely(task()),
    "pi_exp": lambda: Exploring(explorer_from(task(), ALL, np.random.default_rng(0), 0.5)),
}


@pytest.mark.parametrize("actor", ACTORS)
def test_any_actor_plays_with_any_judge(actor):
    games = imagined_games.play(source(), ALL, QTheta(model()), ACTORS[actor](), jax.random.key(0), 32, 2, 31)
    assert games.sure.shape == games.right.shape == games.going.shape == (2, 32, 31)
    assert games.episodes.observation.tiles.shape == (2, 32, 32, 6, 6)
    assert (games.episodes.length > 0).all()
    assert games.hidden.all()
    assert games.met[..., [0, 2, 4]].all(), "floor, agent and walls are in every picture"
    assert ((games.sure > 0) & (games.sure <= 1.0001)).all()


def test_who_knows_all_plays_as_in_the_source_and_is_right_at_once():
    """Every actor that plays pi_task plays the very same games if the judge knows: slots are renamed, nothing else."""
    played = [
        imagined_games.play(source(), ALL, Oracle(), actor, jax.random.key(1), 64, 1, 31)
        for actor in (Thompson(task(), 8.0), MostLikely(task()))
    ]
    for games in played:
        assert games.right[games.going].all()
        found = finding_out.figures(games)
        assert found["one_episode_correct"] == 1
        assert found["sure_steps"][0] == 1
        assert found["sure_right"] == 1
    np.testing.assert_array_equal(played[0].episodes.action, played[1].episodes.action)


def test_nothing_but_codes_reaches_judge_and_actor():
    """The same games with slots numbered otherwise give the same beliefs about what they truly are."""
    net = model()
    first = imagined_games.play(source(), ALL, QTheta(net), MostLikely(task()), jax.random.key(2), 64, 1, 31)
    rows = each_in_a_row(jax.tree.map(lambda x: x[0], first.episodes))
    for key in (3, 4):
        imagined = imagine(jax.random.key(key), 64, 5, 1.0)
        loss, _ = judge_training.loss(net, rows, imagined)
        plain = imagine(jax.random.key(5), 64, 5, 1.0)
        np.testing.assert_allclose(loss, judge_training.loss(net, rows, plain)[0], rtol=1e-4)


def test_many_prototypes_are_played_and_judged_pair_by_pair(monkeypatch):
    """As if five were too many to compare all assignments."""
    monkeypatch.setattr(assignments, "MOST", 4)
    games = imagined_games.play(source(), ALL, QTheta(model()), Thompson(task(), 4.0), jax.random.key(0), 24, 1, 31)
    assert games.score.shape == (1, 24, 5, 5)
    assert 0.2 < games.hidden.mean() < 0.8, "any share of them is new"
    assert (games.right[0, ~games.hidden.any(1)]).all(), "nothing is hidden, so nothing is wrong"
    worlds = int(games.hidden.any(1).sum())
    assert finding_out.figures(games)["measured_worlds"] == worlds < 24, "... and nothing is found out"


def test_figures_by_hand():
    """Two worlds of three steps: one sure and right after two steps, one sure of the wrong thing after one."""
    sure = np.array([[[0.5, 0.995, 0.999], [0.992, 0.6, 0.6]]])
    right = np.array([[[False, True, True], [False, True, True]]])
    reward = np.array([[[1.0, 0.0, 1.0], [0.0, -1.0, 0.0]]])
    length = np.array([[3, 2]])
    from protoalign.alignment.imagined_games import Games
    from protoalign.rl.history import Episodes

    episodes = Episodes(None, np.zeros((1, 2, 3)), reward, length, np.ones((1, 2), bool))
    met = np.array([[[True, True, True], [True, False, False]]])
    games = Games(episodes, sure, right, np.zeros((1, 2, 6)), np.zeros(2, int), met, np.ones((2, 3), bool))
    found = finding_out.figures(games)
    assert found["one_episode_correct"] == 0.5, "of the second world two prototypes were never met"
    assert found["returns"][0][0] == 0.5
    assert found["sure_steps"][0] == 1.5
    assert found["sure_right"] == 0.5
    assert found["sure_share"] == 1.0
    bins = {tuple(row[:2]): row[2:] for row in found["calibration"]}
    assert bins[0.99, 1.0] == [pytest.approx((0.995 + 0.999 + 0.992) / 3, abs=1e-4), pytest.approx(2 / 3, abs=1e-4), 3]
    assert sum(row[4] for row in found["calibration"]) == 5
