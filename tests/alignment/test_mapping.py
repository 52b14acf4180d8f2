"""The mapping as a thing: called, printed, saved, loaded, damaged."""

import json

import numpy as np
import pytest

from protoalign import UserError
from protoalign.alignment.mapping import Mapping
from protoalign.worlds import looks


@pytest.fixture
def sure(mapping, world):
    """The run's own mapping, made right, whatever was found."""
    truth = {picture.tobytes(): i for i, picture in enumerate(world.pictures("target"))}
    own = np.array([truth[picture.tobytes()] for picture in mapping.tile_types.pictures])
    mapping.score = np.where(own[:, None] == np.arange(5), 0.0, -12.0)
    for name in ("belief", "prototypes"):
        mapping.__dict__.pop(name, None)
    return mapping


def test_a_right_mapping_reads_and_redraws_any_board(sure, world):
    grids = np.random.default_rng(0).integers(0, 5, (20, 6, 6))
    target = looks.render(world.pictures("target"), grids)
    np.testing.assert_array_equal(sure(target), grids)
    np.testing.assert_array_equal(sure(target[3]), grids[3])
    np.testing.assert_array_equal(sure.translate(target), looks.render(world.pictures("source"), grids))


def test_a_look_that_comes_late_is_what_is_left_over(sure, world):
    """Of five types one was never met: its tiles are the prototype that nothing else was taken for."""
    grids = np.random.default_rng(0).integers(0, 5, (4, 6, 6))
    fewer = looks.render(world.pictures("target"), np.where(grids == 3, 0, grids))
    types = type(sure.tile_types)(sure.vocabulary)
    codes = types.see(fewer[0])
    own = {int(c) - 5: int(g) for c, g in zip(codes.ravel(), np.where(grids == 3, 0, grids)[0].ravel(), strict=True)}
    score = np.array([np.where(np.arange(5) == own[t], 0.0, -12.0) for t in range(len(types))])
    late = Mapping(
        "x", sure.names, sure.hideable, sure.vocabulary, types.freeze(), score, np.zeros(5, bool), np.zeros(5), 1, (0.0,)
    )
    np.testing.assert_array_equal(late(looks.render(world.pictures("target"), grids)), grids)
    assert late.unmet.tolist() == [False, False, False, True, False]
    assert late.sureness < 0.01, "what is always there and was not met shares a look"
    late.missed = np.full(5, 0.999)
    assert late.sureness > 0.9, "what is seldom met is told by elimination"


def test_sureness_falls_with_every_prototype_not_met(sure):
    sure.missed = np.full(5, 0.999)
    assert sure.sureness > 0.99
    sure.score = sure.score[:2]
    sure.__dict__.pop("belief", None), sure.__dict__.pop("prototypes", None)
    assert sure.sureness < 1 / 5


def test_saved_and_loaded_it_is_the_same(sure, world, tmp_path):
    sure.save(tmp_path / "some.where")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some.where.json", "some.where.safetensors"]
    for path in (tmp_path / "some.where", tmp_path / "some.where.json"):
        again = Mapping.load(path)
        assert str(again) == str(sure)
        np.testing.assert_array_equal(again.trace.belief, sure.trace.belief)
        picture, _ = world.make("target").reset(seed=1)
        np.testing.assert_array_equal(again(picture), sure(picture))
    assert str(sure).count("tile type") == 5
    assert "1.0000" in str(sure)


def edited(change):
    def damage(folder):
        path = folder / "m.json"
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return damage


def garble(folder):
    data = bytearray((folder / "m.safetensors").read_bytes())
    data[:8] = b"\xff" * 8  # a header of 10^19 bytes
    (folder / "m.safetensors").write_bytes(bytes(data))


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "m.json").write_text("{"),
        lambda f: (f / "m.json").write_text("[" * 200_000),
        lambda f: (f / "m.json").write_text("[]"),
        lambda f: (f / "m.json").unlink(),
        lambda f: (f / "m.safetensors").unlink(),
        lambda f: (f / "m.safetensors").write_bytes((f / "m.safetensors").read_bytes()[:-100]),
        garble,
        edited(lambda x: x | {"format": "another"}),
        edited(lambda x: x | {"names": x["names"][:-1]}),
        edited(lambda x: x | {"hideable": [0, 1, 2, 3, 99]}),
        edited(lambda x: x | {"hideable": "abc"}),
        edited(lambda x: x | {"returns": None}),
        edited(lambda x: x | {"vocabulary": None}),
        edited(lambda x: x | {"tile_types": []}),
        edited(lambda x: x | {"about": 3}),
        edited(lambda x: {k: v for k, v in x.items() if k != "steps"}),
    ],
)
def test_damaged_files_are_one_line(sure, damage, tmp_path):
    sure.save(tmp_path / "m")
    damage(tmp_path)
    with pytest.raises(UserError) as refusal:
        Mapping.load(tmp_path / "m")
    assert "\n" not in str(refusal.value)


def test_a_mapping_of_another_world_is_refused(agent, sure):
    agent.policy(sure)
    sure.names = ("a", "b", "c", "d", "e")
    with pytest.raises(UserError, match="belongs to"):
        agent.policy(sure)


def test_nothing_is_half_written(sure, tmp_path, monkeypatch):
    sure.save(tmp_path / "m")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(_):
        raise OSError(28, "No space left on device", "m")

    monkeypatch.setattr("os.fsync", fail)
    sure.steps = 12345
    with pytest.raises(UserError, match="cannot write"):
        sure.save(tmp_path / "m")
    monkeypatch.undo()
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
