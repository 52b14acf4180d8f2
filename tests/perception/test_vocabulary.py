import json

import numpy as np
import pytest

from protoalign import UserError, worlds
from protoalign.perception.tiles import join
from protoalign.perception.vocabulary import Vocabulary
from tests.perception.boards import HUNTER, board, show
from tests.perception.conftest import learned
from tests.perception.test_layers import ball, lay, paint

CRAFTER = worlds.make("crafter")


def test_hunters_pictures_are_the_prototypes(hunter):
    assert hunter.prototype_of.tolist() == [0, 1, 2, 3, 4]
    assert hunter.num_prototypes == 5
    assert hunter.tile == (8, 8)
    assert hunter.names(HUNTER.spec.truth) == HUNTER.spec.truth
    assert hunter.names() == tuple(f"prototype {c}" for c in range(5))


def test_crafters_names(crafter):
    names = crafter.names(CRAFTER.spec.truth)
    assert len(names) == len(set(names)) == crafter.num_prototypes == 27
    assert set(names) == {*CRAFTER.spec.truth, "arrow 2", "arrow 3", "arrow 4"}
    for i, name in enumerate(CRAFTER.spec.truth):
        assert names[crafter.prototype_of[i]].removesuffix(" 2").removesuffix(" 3").removesuffix(" 4") == name
    first = [int(np.flatnonzero(crafter.prototype_of == c)[0]) for c in range(27)]
    assert first == sorted(first), "numbered in the order of ids"


def test_identical_pictures_share_a_prototype():
    pictures = np.random.default_rng(0).integers(0, 256, (3, 7, 5, 3)).astype(np.uint8)[[0, 1, 0, 2, 1]]
    found = Vocabulary.fit(pictures)
    assert found.prototype_of.tolist() == [0, 1, 0, 2, 1]
    assert found.names(("a", "b", "c", "b", "b")) == ("a", "b", "b 2")
    assert found.names(("a", "b 2", "a", "b", "b 2")) == ("a", "b 2", "b")
    with pytest.raises(UserError, match="2 names were given for 5 pictures"):
        found.names(("a", "b"))


def test_what_is_known_and_what_is_new(crafter):
    source = CRAFTER.pictures("source")
    np.testing.assert_array_equal(crafter.recognise(source), crafter.prototype_of)
    np.testing.assert_array_equal(crafter.nearest(source), crafter.prototype_of)
    assert crafter.known(source[:0]).shape == crafter.unseen(source[:0]).shape == (0,)
    for look in ("target", "random:1003"):
        changed = (CRAFTER.pictures(look) != source).any((1, 2, 3))
        np.testing.assert_array_equal(crafter.unseen(CRAFTER.pictures(look)), changed)
        np.testing.assert_array_equal(crafter.known(CRAFTER.pictures(look)), np.where(changed, -1, crafter.prototype_of))


def test_a_known_thing_on_another_known_ground_is_known(crafter):
    """Pictures that were not met are new, but not if the thing and the ground were."""
    floors = [paint((60, 160, 60), seed=1), paint((220, 200, 120), seed=2), paint((90, 90, 90), seed=3)]
    red, blue = ([lay(colour, ball(), floor) for floor in floors] for colour in ((220, 30, 30), (30, 30, 220)))
    vocabulary = Vocabulary.fit(np.stack([*floors, *red, *blue]))
    assert vocabulary.prototype_of.tolist() == [0, 1, 2, 3, 3, 3, 4, 4, 4]
    met = np.array([1, 1, 1, 1, 1, 0, 0, 1, 0], bool)
    some = vocabulary.learn(met, np.random.default_rng(0))
    assert some.prototype_of.tolist() == vocabulary.prototype_of.tolist()
    assert some.known(vocabulary.pictures).tolist() == [0, 1, 2, 3, 3, 3, 4, 4, 4]
    assert some.detector.unseen(vocabulary.pictures[~met]).all()
    assert not some.unseen(vocabulary.pictures).any()
    green = np.stack([lay((20, 220, 20), ball(), floor) for floor in floors])
    assert some.unseen(green).all()
    none = vocabulary.learn(np.array([1, 1, 1, 0, 0, 0, 1, 0, 0], bool), np.random.default_rng(0))
    assert none.known(vocabulary.pictures).tolist() == [0, 1, 2, -1, -1, -1, 4, 4, 4]


def test_reading_and_drawing(hunter, crafter):
    grids = np.stack([board(seed) for seed in range(3)])
    np.testing.assert_array_equal(hunter.read(show("source", grids)), grids)
    np.testing.assert_array_equal(hunter.draw(grids), show("source", grids))
    ids = np.random.default_rng(0).integers(0, 59, (2, 7, 9))
    np.testing.assert_array_equal(crafter.read(join(CRAFTER.pictures("source")[ids])), crafter.prototype_of[ids])
    np.testing.assert_array_equal(crafter.read(crafter.draw(crafter.prototype_of[ids])), crafter.prototype_of[ids])
    assert hunter.read(show("source", grids[0], 0.1)).shape == (8, 8)


def test_drawn_as_met_most_often():
    floors = [paint((60, 160, 60), seed=1), paint((220, 200, 120), seed=2)]
    found = Vocabulary.fit(np.stack([*floors, *(lay((220, 30, 30), ball(), floor) for floor in floors)]))
    assert found.prototype_of.tolist() == [0, 1, 2, 2]
    assert found.canonical.tolist() == [0, 1, 2]
    rng = np.random.default_rng(0)
    assert found.learn(np.ones(4, bool), rng, counts=np.array([9, 9, 1, 5])).canonical.tolist() == [0, 1, 3]
    assert found.learn(np.array([1, 1, 0, 1], bool), rng).canonical.tolist() == [0, 1, 3]


def test_from_files(crafter, hunter):
    for before in (crafter, Vocabulary.fit(hunter.pictures)):
        arrays, info = before.save()
        after = Vocabulary.load(arrays, json.loads(json.dumps(info)))
        np.testing.assert_array_equal(after.prototype_of, before.prototype_of)
        np.testing.assert_array_equal(after.canonical, before.canonical)
    arrays, info = crafter.save()
    after = Vocabulary.load(arrays, json.loads(json.dumps(info)))
    np.testing.assert_array_equal(
        after.recognise(CRAFTER.pictures("random:1001")), crafter.recognise(CRAFTER.pictures("random:1001"))
    )
    assert after.detector.threshold == crafter.detector.threshold


def test_mistakes(hunter):
    with pytest.raises(UserError, match="must be uint8"):
        Vocabulary.fit(hunter.pictures / 255)
    with pytest.raises(UserError, match="needs pictures"):
        Vocabulary.fit(hunter.pictures[0])
    with pytest.raises(UserError, match="0 of 5 pictures were met"):
        hunter.learn(np.zeros(5, bool), np.random.default_rng(0))
    with pytest.raises(UserError, match="call learn first"):
        Vocabulary.fit(hunter.pictures).unseen(hunter.pictures)
    with pytest.raises(UserError, match="cannot be cut"):
        hunter.read(np.zeros((12, 16, 3), np.uint8))


@pytest.mark.parametrize("tile", [(16, 16), (7, 5)])
def test_other_sizes(tile):
    pictures = np.random.default_rng(0).integers(0, 256, (6, *tile, 3)).astype(np.uint8)
    found = learned(pictures[:4])
    assert found.tile == tile
    grid = np.random.default_rng(0).integers(0, 4, (3, 5))
    np.testing.assert_array_equal(found.read(found.draw(grid)), grid)
    assert found.unseen(pictures).tolist() == [False] * 4 + [True] * 2
