import jax
import numpy as np
import pytest

from protoalign import UserError
from protoalign.envs import hunter
from protoalign.rl import history
from protoalign.rl.networks import RelativeNet
from protoalign.rl.rollout import Record, begin, collect


def recording(segments=6):
    """Hunter played by a fresh network in segments that cut episodes anywhere."""
    world = hunter.parse("z1c1")
    net = RelativeNet(np.random.default_rng(0), world, 8)
    running, records = begin(world, jax.random.key(0), 6), []
    step = jax.jit(lambda running, key: collect(world, net, running, key, 11, 16, recorded=4))
    for i in range(segments):
        running, _, _, _, record = step(running, jax.random.key(i))
        records.append(jax.device_get(record))
    return records


def test_whole_episodes_are_cut_out_across_segments(tmp_path):
    records = recording()
    history.save(tmp_path, "task", 0, 3, records[:2])
    history.save(tmp_path, "task", 3, 12, records[2:])
    got = history.load(tmp_path, "task")
    whole = Record(*(np.concatenate(parts) for parts in zip(*records, strict=True)))
    expected = []
    for column in range(4):
        start = 0
        for t in range(len(whole.reset)):
            if whole.reset[t, column]:
                expected.append((column, start, t))
                start = t + 1
    assert len(got.length) == len(expected) > 4
    for i, (column, start, end) in enumerate(expected):
        length = end - start
        assert got.length[i] == length
        np.testing.assert_array_equal(got.observation[i, : length + 1], whole.observation[start : end + 1, column])
        np.testing.assert_array_equal(got.action[i, :length], whole.action[start:end, column])
        np.testing.assert_array_equal(got.reward[i, :length], whole.reward[start:end, column])
        assert got.terminated[i] == whole.terminated[end - 1, column]
        assert not got.action[i, length:].any()
        assert not got.reward[i, length:].any()
    assert got.length.max() == 31


def test_nothing_recorded_and_broken_files(tmp_path):
    with pytest.raises(UserError, match="train the task stage first"):
        history.load(tmp_path, "task")
    history.save(tmp_path, "task", 0, 3, recording(3))
    path = next(tmp_path.glob("*.npz"))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError, match="cannot read"):
        history.load(tmp_path, "task")


def test_no_episode_has_ended_yet(tmp_path):
    history.save(tmp_path, "task", 0, 1, recording(1))
    assert len(history.load(tmp_path, "task").length) == 0


def test_a_missing_piece_is_noticed(tmp_path):
    records = recording(3)
    for i, record in enumerate(records):
        history.save(tmp_path, "task", i, i + 1, [record])
    (tmp_path / "task-00000002.npz").unlink()
    with pytest.raises(UserError, match=r"before task-00000003\.npz is missing"):
        history.load(tmp_path, "task")
