import numpy as np
import pytest

from protoalign import worlds
from protoalign.perception import novelty
from protoalign.perception.novelty import NoveltyDetector
from tests.perception.boards import HUNTER, LOOKS


def test_every_new_look_is_noticed_and_no_old_one_is(hunter):
    assert not hunter.detector.unseen(HUNTER.pictures("source")).any()
    for look in LOOKS:
        assert hunter.detector.unseen(HUNTER.pictures(look)).all(), look


def test_it_is_the_first_editions(hunter):
    """The same random numbers give the same weights as they did then."""
    assert [matrix.shape for matrix, _ in hunter.detector.weights] == [
        (192, 64),
        (64, 64),
        (64, 32),
        (32, 64),
        (64, 64),
        (64, 192),
    ]
    assert hunter.detector.threshold == pytest.approx(0.0011164689785800874, rel=0.05)


def test_crafters_new_kinds_are_noticed(crafter):
    world = worlds.make("crafter")
    assert not crafter.detector.unseen(world.pictures("source")).any()
    for look in ("target", *(f"random:{seed}" for seed in range(1000, 1010))):
        changed = (world.pictures(look) != world.pictures("source")).any((1, 2, 3))
        assert (crafter.detector.unseen(world.pictures(look)) == changed).all(), look


@pytest.mark.parametrize("tile", [(16, 16), (7, 5)])
def test_any_size_of_tiles_and_from_files(tile):
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 256, (2, 4, *tile, 3)).astype(np.uint8)
    detector = novelty.train(old, rng, 1000)
    assert not detector.unseen(old).any()
    assert detector.unseen(new).all()
    arrays, info = detector.save()
    np.testing.assert_array_equal(NoveltyDetector.load(arrays, info).errors(new), detector.errors(new))
    assert NoveltyDetector.load(arrays, info).threshold == detector.threshold


def test_more_tiles_take_more_steps():
    assert [novelty.steps_for(n) for n in (1, 5, 16, 17, 83)] == [3000, 3000, 3000, 10_000, 10_000]
