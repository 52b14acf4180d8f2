"""What is said of each tile type where prototypes are many: as a mapping says it, with a weight that makes it true."""

import jax
import numpy as np
import pytest
from scipy.special import log_softmax

from protoalign.alignment import hypotheses, judge_training, type_by_type
from protoalign.alignment.imagination import Imagined
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.judge_training import Lot
from protoalign.alignment.training import follow
from protoalign.rl.history import Episodes
from protoalign.rl.networks import Scene
from protoalign.worlds.base import Observation
from tests.alignment.test_focus import WORLDS, both
from tests.alignment.test_inference import games as made_up

KINDS = 9
NAMES = ("grass", "stone", "arrow", "arrow 2", "coal", "iron", "lava", "sand", "tree")


def played(strength, said, worlds=60, games=2, share=0.6, seed=0):
    """Games in which evidence of `strength` nats for the truth, give or take one, is told as `said` times that."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(games, worlds, KINDS, KINDS)) * strength**0.5 + strength * np.eye(KINDS)
    met = rng.random((games, worlds, KINDS)) < 0.8
    hidden = rng.random((worlds, KINDS)) < share
    episodes = Episodes(None, None, np.ones((games, worlds, 3)), np.full((games, worlds), 3), None)
    said_score = log_softmax(said * np.where(met[..., None], score, 0.0), axis=-1)
    return Games(episodes, None, None, said_score, np.zeros(worlds), met, hidden)


def test_what_is_said_is_what_a_mapping_says():
    """Types that were met and are hidden, against prototypes of which those met in their old look are hardly possible."""
    games = played(3.0, 1.0, worlds=1)
    found = type_by_type.said(games, 2, 0.5)
    met = games.met.any(0)[0]
    rows, known = np.flatnonzero(met & games.hidden[0]), met & ~games.hidden[0]
    assert found.truth.tolist() == rows.tolist()
    evidence = hypotheses.combine(0.5 * games.score[:, 0, rows]) + np.where(known, np.log(hypotheses.VARIANT), 0)
    belief = hypotheses.marginals(evidence, one_to_one=True)
    np.testing.assert_allclose(found.given, belief[np.arange(len(rows)), rows])
    assert not known[found.choice].any()


def test_what_is_even_is_right_by_chance_only():
    games = played(3.0, 0.0, worlds=300)
    found = type_by_type.said(games, 1)
    right = found.choice == found.truth
    assert abs(right.mean() - found.sure.mean()) < 0.06


@pytest.mark.parametrize("said", [0.5, 1.0, 2.0])
def test_the_weight_undoes_what_was_said_too_loud_or_too_low(said):
    weight = type_by_type.calibrate(played(4.0, said))
    assert said * weight == pytest.approx(1.0, rel=0.45)
    found = type_by_type.said(played(4.0, said, worlds=300, seed=1), 2, weight)
    for low, high in ((0.3, 0.7), (0.7, 0.95), (0.95, 1.01)):
        chosen = (found.sure >= low) & (found.sure < high)
        assert abs(found.sure[chosen].mean() - (found.choice == found.truth)[chosen].mean()) < 0.1


def test_figures():
    board = Scene((2, 2), KINDS, 2)
    found = type_by_type.figures(played(4.0, 1.0), NAMES, tuple(range(KINDS)), board)
    assert found["one_episode_touched_right"] == found["one_episode_types_right"], "on a board all that is met counts"
    assert 0.3 < found["one_episode_types_right"] < found["two_episodes_types_right"] < 1
    assert sum(row[4] for row in found["types_calibration"]) == sum(n for _, n in found["types_by_kind"].values())
    assert not {"arrow as arrow 2", "arrow 2 as arrow"} & set(found["types_taken_for"]), "either is an arrow"
    sure, wrong = found["types_sure"]
    assert sure > 5 * wrong
    nothing = played(4.0, 1.0, share=0.0)
    assert not len(type_by_type.said(nothing, 1).truth)


def test_what_was_touched():
    tiles = np.array([[[[0, 1, 2], [3, 4, 5]], [[0, 0, 6], [0, 0, 0]]]])[None]  # one game in one world, two pictures
    shown = Episodes(Observation(tiles, None), None, None, np.array([[0]]), None)
    games = Games(shown, None, None, None, None, None, None)
    scene = Scene((2, 3), KINDS, 2, cell=4)
    assert np.flatnonzero(type_by_type.touched(games, tuple(range(KINDS)), scene)).tolist() == [1, 3, 4, 5], "0 was seen later"
    assert type_by_type.touched(games, (0, 4), scene).tolist() == [[[False, True]]]


def test_parts_of_games_go_on_where_the_last_part_ended(monkeypatch):
    """With the network that the states are of, scores along the parts are those along whole games."""
    monkeypatch.setattr(judge_training, "PART", 2)
    monkeypatch.setattr(judge_training, "AT_ONCE", 8)
    scene, hideable = WORLDS["view, all"]
    net, episodes = both(scene, hideable)[1], made_up(scene)
    episodes = jax.tree.map(lambda x: x[:, :5] if x.ndim > 3 else x, episodes)  # of four steps
    short = episodes._replace(
        observation=jax.tree.map(lambda x: x[:, :5], episodes.observation),
        action=episodes.action[:, :4],
        reward=episodes.reward[:, :4],
        length=np.minimum(episodes.length, 4),
    )
    hidden = np.random.default_rng(0).random((len(short.length), 6)) < 0.7
    cut = judge_training.parts(net, Lot(short, hidden))
    assert cut.episodes.action.shape[1] == 2
    assert len(cut.hidden) == len(short.length) + (short.length > 2).sum(), "a part for what was played, none for what was not"
    names = np.tile(np.arange(6, dtype=np.int32), (len(cut.hidden), 1))

    def plainly(which):
        return Imagined(names[: len(which)], names[: len(which)], None, names[: len(which)], which)

    whole = np.asarray(follow(net, short, plainly(hidden)))
    along = np.asarray(follow(net, cut.episodes, plainly(cut.hidden), cut.start))
    order = [(0, slice(0, 8)), (2, slice(0, 8)), (0, slice(8, None)), (2, slice(8, None))]
    row = 0
    for begin, chosen in order:
        there = np.flatnonzero(short.length[chosen] > begin)
        expected = whole[begin : begin + 3, chosen][:, there]
        np.testing.assert_allclose(along[:, row : row + len(there)], expected, atol=1e-4)
        row += len(there)
    assert row == len(cut.hidden)
