import jax
import numpy as np
import pytest

from protoalign.rl import history
from protoalign.rl.rollout import Record
from protoalign.worlds.base import Observation

STEPS, COLUMNS = 200, 4


def recording(seed=0, ends=0.15) -> Record:
    """Columns in which episodes end anywhere; every tile shows the time, so that it is plain what was cut where."""
    rng = np.random.default_rng(seed)
    time = np.tile(np.arange(STEPS)[:, None], (1, COLUMNS))
    terminated, truncated, reset = (np.zeros((STEPS, COLUMNS), bool) for _ in range(3))
    for t in range(1, STEPS):
        reset[t] = terminated[t - 1] | truncated[t - 1]
        over = (rng.random(COLUMNS) < ends) & ~reset[t]
        terminated[t] = over & (rng.random(COLUMNS) < 0.5)
        truncated[t] = over & ~terminated[t]
    tiles = np.tile(time[..., None, None], (1, 1, 2, 3)).astype(np.uint8)
    action, reward = rng.integers(1, 9, time.shape).astype(np.uint8), rng.normal(size=time.shape).astype(np.float32)
    return Record(Observation(tiles, time[..., None].astype(np.float32)), action, reward, terminated, truncated, reset)


def whole(record: Record) -> list[tuple[int, int, int]]:
    """Columns, first and last steps of all that has ended, by a plain loop."""
    found = []
    for column in range(COLUMNS):
        start = 0
        for t in np.flatnonzero(record.reset[:, column]):
            found.append((column, start, int(t)))
            start = int(t) + 1
    return found


@pytest.mark.parametrize("longest", [None, 9, 1])
def test_whole_episodes_are_cut_out(longest):
    record = recording()
    got, expected = history.cut(record, longest), whole(record)
    assert len(got.length) == len(expected) > 50
    assert max(end - start for _, start, end in expected) > 9
    for i, (column, start, end) in enumerate(expected):
        length = end - start if longest is None else min(end - start, longest)
        stop = start + length
        assert got.length[i] == length
        assert got.observation.tiles[i, : length + 1, 0, 0].tolist() == list(range(start, stop + 1))
        assert (got.observation.tiles[i, length + 1 :] == stop).all(), "padded with the last"
        np.testing.assert_array_equal(got.observation.numbers[i, : length + 1, 0], np.arange(start, stop + 1))
        np.testing.assert_array_equal(got.action[i, :length], record.action[start:stop, column])
        np.testing.assert_array_equal(got.reward[i, :length], record.reward[start:stop, column])
        assert got.terminated[i] == (record.terminated[end - 1, column] and stop == end)
        assert not got.action[i, length:].any()
        assert not got.reward[i, length:].any()
    assert got.action.shape[1] == got.length.max() == (longest or got.length.max())


def test_no_episode_has_ended_yet():
    record = recording(ends=0.0)
    assert len(history.cut(record).length) == 0
    assert history.cut(record, 5).observation.tiles.shape == (0, 6, 2, 3)


def test_all_are_padded_to_the_length_that_is_asked_for():
    """Games of other makes are joined with them, even if no recorded one was as long."""
    record = recording()
    longest = int(history.cut(record).length.max())
    assert history.cut(record).action.shape[1] == longest
    longer = history.cut(record, longest + 3)
    assert longer.action.shape[1] == longest + 3
    np.testing.assert_array_equal(longer.length, history.cut(record).length)
    np.testing.assert_array_equal(longer.action[:, :longest], history.cut(record).action)


def test_parts_are_joined_before_they_are_cut():
    record = recording()
    parts = [jax.tree.map(lambda x, a=a, b=b: x[a:b], record) for a, b in ((0, 13), (13, 90), (90, STEPS))]
    for one, other in zip(*map(jax.tree.leaves, (history.cut(history.join(parts)), history.cut(record))), strict=True):
        np.testing.assert_array_equal(one, other)
    torn = sum(int(history.cut(part).length.sum()) for part in parts)
    assert torn < history.cut(record).length.sum(), "alone, they would lose what goes across their ends"


def test_some_are_drawn_with_repetition():
    episodes = history.cut(recording())
    drawn, again = (episodes.some(np.random.default_rng(0), 500) for _ in range(2))
    assert drawn.action.shape == (500, episodes.action.shape[1])
    np.testing.assert_array_equal(drawn.reward, again.reward)
    which = [
        np.flatnonzero((episodes.reward == reward).all(1) & (episodes.length == n))
        for reward, n in zip(drawn.reward, drawn.length, strict=True)
    ]
    assert len(set(map(int, np.concatenate(which)))) > 0.9 * len(episodes.length)
    for i in range(0, 500, 50):  # all parts belong together
        assert (episodes.observation.tiles[which[i]] == drawn.observation.tiles[i]).all((1, 2, 3)).any()
