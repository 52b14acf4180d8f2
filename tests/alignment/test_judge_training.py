"""A judge that is trained on games of the actor that uses it."""

import jax
import numpy as np

from protoalign.alignment import calibration, finding_out, imagined_games, judge_training
from protoalign.alignment.actors import Thompson
from protoalign.alignment.judges import QTheta
from protoalign.rl.history import Episodes
from protoalign.runs import Memory
from protoalign.settings import JudgeConfig
from protoalign.worlds.base import Observation
from tests.alignment.helpers import ALL, model, source
from tests.alignment.test_imagined_games import task
from tests.conftest import well_compiled


def test_a_judge_learns_from_its_actors_games_and_is_calibrated():
    """From one in 120 to many assignments right, and what it says can be believed."""
    config = JudgeConfig(updates=80, period=20, games=256, twice=0.0, hide_all=1.0)
    actor, fresh = Thompson(task(), 4.0), model()
    with well_compiled():
        trained, _ = judge_training.train_judge(Memory(), config, source(), fresh, actor, 0, 31)
    games = imagined_games.play(source(), ALL, QTheta(trained), actor, jax.random.key(9), 256, 1, 31)
    weight, _, doubt = calibration.calibrate(games)
    judged = imagined_games.play(source(), ALL, QTheta(trained, weight, doubt), actor, jax.random.key(10), 512, 1, 31)
    found = finding_out.figures(judged)
    before = finding_out.figures(imagined_games.play(source(), ALL, QTheta(fresh), actor, jax.random.key(10), 512, 1, 31))
    assert before["one_episode_correct"] < 0.1
    assert found["one_episode_correct"] > 0.2, "all but zombie and cow, which a policy that knows nothing hardly ever tells"
    for _, _, said, right, count in found["calibration"]:
        if count > 1000:
            assert abs(said - right) < 0.15


def test_a_batch_holds_games_as_they_were_played():
    """Whatever is drawn, all that belongs to one game, or part of one, stays together."""
    number, longest, kinds = 12, 4, 3
    mark = np.arange(number)
    tiles = np.broadcast_to(mark[:, None, None, None], (number, longest + 1, 2, 2)).astype(np.uint8)
    seen = Observation(tiles, np.broadcast_to(mark[:, None, None], (number, longest + 1, 1)).astype(np.float32))
    steps = np.broadcast_to(mark[:, None], (number, longest))
    episodes = Episodes(seen, steps.astype(np.uint8), steps.astype(np.float32), 1 + mark % longest, mark > 5)
    hidden = mark[:, None] >> np.arange(kinds) & 1 == 1
    for start in (None, np.broadcast_to(mark[:, None, None], (number, kinds, 5))):
        batch = judge_training.choose(judge_training.Lot(episodes, hidden, start), np.random.default_rng(0), 6)
        rows, there = batch.rows, np.asarray(batch.rows.counts) > 0
        games = np.asarray(rows.action)
        for other in (rows.reward, rows.before.tiles[..., 0, 0], rows.after.tiles[..., 1, 1], rows.after.numbers[..., 0]):
            np.testing.assert_array_equal(np.asarray(other)[there], games[there])
        for row in np.flatnonzero(there.any(1)):
            for game in np.unique(games[row][there[row]]):
                np.testing.assert_array_equal(batch.hidden[row], hidden[game])
                assert start is None or (batch.start[row] == game).all()
