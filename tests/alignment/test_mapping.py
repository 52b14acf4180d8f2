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
    mapping.joint = None
    for name in ("belief", "prototypes", "posterior"):
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


@pytest.mark.parametrize("joint", [True, False])
def test_sureness_falls_with_every_prototype_not_met(joint):
    said = []
    for types in (5, 4, 3, 2):
        score = np.concatenate([certain(0, 1, 2, 3, 4)[:types], np.zeros((5 - types, 5))]) if joint else certain(*range(types))
        found = judged(score, types, joint=joint)
        found.missed = np.full(5, 0.999)
        said.append(found.sureness)
    assert said[0] > 0.99
    assert said[1] > 0.9, "one that is left over can be told by elimination"
    assert said[2] < 1 / 2 > said[3] * 2


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
        edited(lambda x: x | {"strangeness": float("nan")}),
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


class Types:
    """So many tile types, without pictures."""

    def __init__(self, number):
        self.number = number

    def __len__(self):
        return self.number


def judged(score, types, known=(), joint=True):
    """A mapping of five prototypes, with evidence about whole assignments that says nothing."""
    met = np.isin(np.arange(5), known)
    told = np.zeros(120) if joint else None
    about = ("world", tuple("abcde"), tuple(range(5)), None, Types(types))
    return Mapping(*about, score, met, np.full(5, 1e-9), 1, (0.0,), "bayes", told)


def certain(*prototypes):
    return np.where(np.eye(5)[list(prototypes)] > 0, 0.0, -8.0)


@pytest.mark.parametrize("joint", [True, False])
def test_two_looks_of_one_kind_beside_a_known_one(joint):
    """Five types, of which two are one kind, and one kind looks as in the source: types outnumber what is left."""
    found = judged(certain(0, 0, 1, 2, 3), 5, known=[4], joint=joint)
    assert found.prototypes.tolist() == [0, 0, 1, 2, 3]
    assert found.posterior is None
    assert found.sureness > 0.99


@pytest.mark.parametrize("joint", [True, False])
def test_what_was_not_met_counts_too(joint):
    """A constant for one prototype says nothing while every prototype has a row, met or not."""
    score = certain(0, 1, 2, 3, 4)
    score[4] = 0
    score[:, 4] += 7
    found = judged(score, 4, joint=joint)
    assert found.prototypes.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("joint", [True, False])
def test_what_looks_as_in_the_source_is_not_looked_for(joint):
    found = judged(certain(2, 0, 1), 3, known=[3, 4], joint=joint)
    assert found.prototypes.tolist() == [2, 0, 1]
    assert found.sureness > 0.99
    np.testing.assert_allclose(found.belief.sum(1), 1, rtol=1e-6)


def test_evidence_about_whole_assignments_counts():
    from protoalign.alignment import assignments

    found = judged(np.zeros((5, 5)), 5)
    assert found.sureness == pytest.approx(1 / 120, rel=0.01)
    truth = 77
    found = judged(np.zeros((5, 5)), 5)
    found.joint = np.where(np.arange(120) == truth, 0.0, -12.0)
    assert found.prototypes.tolist() == assignments.table(5)[truth].tolist()
    assert found.sureness > 0.99
