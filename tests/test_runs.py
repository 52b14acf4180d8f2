import json
import multiprocessing

import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError
from protoalign.files import read_json, write_atomic
from protoalign.runs import Run

TREE = {"net": {"weight": jnp.arange(6.0).reshape(2, 3), "steps": jnp.int32(4)}, "flags": jnp.array([True, False])}


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "run")
    run.configure("task", {"steps": 10})
    return run


def changed(tree, by):
    return {"net": {"weight": tree["net"]["weight"] + by, "steps": tree["net"]["steps"] + by}, "flags": ~tree["flags"]}


def test_what_is_saved_comes_back(run):
    assert run.restore("task", TREE) is None
    run.save("task", 5, changed(TREE, 3), {"seconds": 1.5})
    saved = run.restore("task", TREE)
    assert (saved.step, saved.info) == (5, {"seconds": 1.5})
    np.testing.assert_array_equal(saved.tree["net"]["weight"], TREE["net"]["weight"] + 3)
    assert saved.tree["net"]["steps"] == 7
    assert saved.tree["net"]["steps"].dtype == jnp.int32
    assert saved.tree["net"]["steps"].shape == ()
    assert saved.tree["flags"].tolist() == [False, True]


def test_only_the_last_two_are_kept_and_the_newest_is_used(run):
    for step in (1, 2, 30):
        run.save("task", step, changed(TREE, step), {"seconds": 1.0})
    assert sorted(p.name for p in (run.path / "checkpoints").iterdir()) == [
        "task-00000002.json", "task-00000002.safetensors", "task-00000030.json", "task-00000030.safetensors",
    ]  # fmt: skip
    assert run.restore("task", TREE).step == 30


def truncate(path):
    path.write_bytes(path.read_bytes()[:-3])


def garble(path):
    data = bytearray(path.read_bytes())
    data[-2] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
@pytest.mark.parametrize("damage", [truncate, garble, lambda p: p.write_bytes(b""), lambda p: p.unlink()])
def test_a_damaged_checkpoint_is_passed_over(run, damage, suffix, capfd):
    run.save("task", 1, changed(TREE, 1), {"seconds": 1.0})
    run.save("task", 2, changed(TREE, 2), {"seconds": 1.0})
    damage(run.path / "checkpoints" / f"task-00000002{suffix}")
    saved = run.restore("task", TREE)
    if saved.step == 2:  # the byte that was changed was white space
        assert suffix == ".json"
    else:
        np.testing.assert_array_equal(saved.tree["net"]["weight"], TREE["net"]["weight"] + 1)
    if (run.path / "checkpoints" / "task-00000002.json").exists() and saved.step == 1:
        assert "damaged checkpoint" in capfd.readouterr().err


def test_going_on_after_damage_never_loses_the_good_ones(run):
    """A damaged newer checkpoint and a stray one from elsewhere do not push the good ones out."""
    for step in (80, 100):
        run.save("task", step, changed(TREE, step), {"seconds": 1.0})
    truncate(run.path / "checkpoints" / "task-00000100.safetensors")
    stray = run.path / "checkpoints" / "task-00000200.json"
    stray.write_bytes((run.path / "checkpoints" / "task-00000080.json").read_bytes())
    assert run.restore("task", TREE).step == 80
    run.save("task", 90, changed(TREE, 90), {"seconds": 1.0})
    run.save("task", 95, changed(TREE, 95), {"seconds": 1.0})
    assert sorted(p.name for p in (run.path / "checkpoints").glob("*.json")) == ["task-00000090.json", "task-00000095.json"]
    assert run.restore("task", TREE).step == 95


def test_no_good_checkpoint_left_is_an_error_and_nothing_is_deleted(run):
    run.save("task", 1, TREE, {"seconds": 1.0})
    truncate(run.path / "checkpoints" / "task-00000001.safetensors")
    with pytest.raises(UserError, match=r"no usable checkpoint.*truncated"):
        run.restore("task", TREE)
    assert (run.path / "checkpoints" / "task-00000001.json").exists()


def test_foreign_checkpoints(run, tmp_path):
    """One of another shape, and one of the same shape from a run with other settings."""
    run.save("task", 1, TREE, {"seconds": 1.0})
    with pytest.raises(UserError, match="does not fit"):
        run.restore("task", TREE | {"more": jnp.zeros(3)})
    with pytest.raises(UserError, match="does not fit"):
        run.restore("task", TREE | {"flags": jnp.zeros(3, bool)})
    with pytest.raises(UserError, match="does not fit"):
        run.restore("task", TREE | {"flags": jnp.zeros(2, jnp.int32)})
    for section, settings in (("task", {"steps": 99}), ("seed", 7), ("env", "hunter-z4c4")):
        other = Run(tmp_path / section)
        other.configure("task", {"steps": 10}) if section != "task" else None
        other.configure(section, settings)
        for path in (run.path / "checkpoints").iterdir():
            (other.path / "checkpoints" / path.name).write_bytes(path.read_bytes())
        with pytest.raises(UserError, match="other settings"):
            other.restore("task", TREE)


def test_settings_may_not_change(run):
    run.configure("task", {"steps": 10})
    with pytest.raises(UserError, match=r"task.steps = 10, not 11"):
        Run(run.path).configure("task", {"steps": 11})


def test_going_on_forgets_what_came_after_the_checkpoint(run):
    for stage, update in (("other", 99), ("task", 1), ("task", 2), ("task", 3)):
        run.log({"stage": stage, "update": update})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "task", "upd')  # killed in the middle of a line
    for step in (2, 3):
        (run.path / "history" / f"task-{step:08d}.npz").touch()
    (run.path / "history" / "other-00000009.npz").touch()
    assert [row["update"] for row in run.metrics("task")] == [1, 2, 3], "the torn line is passed over"
    run.save("task", 2, TREE, {"seconds": 1.0})
    (run.path / "checkpoints" / ".task-00000003.json.tmp").touch()
    (run.path / "checkpoints" / "task-00000003.safetensors").touch()
    run.restore("task", TREE)
    assert len(list((run.path / "checkpoints").iterdir())) == 2, "what a killed process left half done is gone"
    assert [(r["stage"], r["update"]) for r in map(json.loads, (run.path / "metrics.jsonl").read_text().splitlines())] == [
        ("other", 99), ("task", 1), ("task", 2),
    ]  # fmt: skip
    assert sorted(p.name for p in (run.path / "history").iterdir()) == ["other-00000009.npz", "task-00000002.npz"]


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new and longer")
    assert path.read_bytes() == b"old"


def hold(path, ready, finish):
    with Run(path).lock():
        ready.set()
        finish.wait(60)


def test_one_process_at_a_time(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, finish = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path / "run", ready, finish))
    process.start()
    assert ready.wait(60)
    with pytest.raises(UserError, match="another process"), Run(tmp_path / "run").lock():
        pass
    finish.set()
    process.join()
    with Run(tmp_path / "run").lock():
        pass


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot use"):
        Run(tmp_path / "file")
    with pytest.raises(UserError, match="not a run folder"):
        Run(tmp_path, create=False)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        Run(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match="not the config of a run"):
        Run(tmp_path)
    (tmp_path / "config.json").write_text("[" * 200_000)
    with pytest.raises(UserError, match="not valid JSON"):
        Run(tmp_path)
    (tmp_path / "config.json").write_text('{"env": "hunter-z1c1", "seed": 0}')
    with pytest.raises(UserError, match="another edition of protoalign"):
        Run(tmp_path)
    with pytest.raises(UserError, match="cannot read"):
        read_json(tmp_path / "nothing.json")
