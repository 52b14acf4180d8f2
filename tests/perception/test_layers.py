"""One thing on several grounds is one group, told from pictures alone."""

import numpy as np
import pytest

from protoalign import worlds
from protoalign.perception import layers

CRAFTER = worlds.make("crafter")
TRUTH = np.array(CRAFTER.spec.truth)
GROUNDS = ("grass", "sand", "path", "water", "lava")
RANDOM = [f"random:{seed}" for seed in range(1000, 1010)]


def paint(colour, shape=(8, 8), seed=None) -> np.ndarray:
    """A tile of one colour, with some grain if there is a seed."""
    tile = np.full((*shape, 3), colour, float)
    if seed is not None:
        tile += np.random.default_rng(seed).integers(-20, 21, tile.shape)
    return np.clip(tile, 0, 255).astype(np.uint8)


def lay(colour, mask, ground, opacity=1.0) -> np.ndarray:
    """A thing of one colour over a ground, where the mask says so."""
    return np.where(mask[..., None], opacity * np.array(colour) + (1 - opacity) * ground, ground).astype(np.uint8)


def ball(shape=(8, 8), size=0.3) -> np.ndarray:
    rows, columns = ((np.arange(n) + 0.5) / n - 0.5 for n in shape)
    return np.hypot.outer(rows, columns) < size


def kinds() -> np.ndarray:
    """The kind of each of Crafter's pictures, arrows by direction."""
    number = np.array([list(dict.fromkeys(TRUTH)).index(name) for name in TRUTH])
    arrows = np.flatnonzero(TRUTH == "arrow")
    number[arrows] = 100 + np.arange(len(arrows)) // (len(arrows) // 4)
    return number


@pytest.mark.parametrize("look", ["source", "target", *RANDOM, "only:cow,stone:target"])
def test_every_thing_of_crafter_is_one_group(look):
    found = layers.group(CRAFTER.pictures(look))
    pairs = set(zip(found.group.tolist(), kinds().tolist(), strict=True))
    assert len(pairs) == found.group.max() + 1 == 27
    assert set(TRUTH[found.ground]) == set(GROUNDS)
    assert TRUTH[found.under[list(TRUTH).index("plant")]] == "grass"
    assert (found.under[found.ground] == -1).all()


def test_some_of_crafters_pictures_never_join_two_things():
    rng = np.random.default_rng(0)
    kind = kinds()
    standing = {name: set(kind[CRAFTER_ON[name]]) for name in GROUNDS}
    whole = 0
    for look in ("source", "target", "random:1000", "random:1003"):
        pictures = CRAFTER.pictures(look)
        for count in (50, 40, 25, 12):
            some = np.sort(rng.permutation(len(pictures))[:count])
            group = layers.group(pictures[some]).group
            for number in range(group.max() + 1):
                assert len(set(kind[some[group == number]])) == 1, (look, TRUTH[some[group == number]])
            there = [i for i in some if any(i in CRAFTER_ON[name] and FIRST[name] in some for name in standing)]
            number_of = dict(zip(some.tolist(), group.tolist(), strict=True))
            for name in set(kind[there]):
                whole += len({number_of[i] for i in there if kind[i] == name}) > 1
    assert whole <= 1, "one thing on grounds that are all there is nearly always one group"


FIRST = {name: list(TRUTH).index(name) for name in GROUNDS}  # the ground's own picture
CRAFTER_ON = {
    name: [
        i
        for i, picture in enumerate(CRAFTER.pictures("source"))
        if i >= 13 and (picture == CRAFTER.pictures("source")[FIRST[name]]).all(-1).sum() >= layers.THROUGH
    ]
    for name in GROUNDS
}


def test_balls_of_one_shape_and_several_colours_are_not_one():
    """What a red and a blue ball on sand differ by is what they differ by on grass: there the grounds are the same."""
    floors = [paint((60, 160, 60), seed=1), paint((220, 200, 120), seed=2), paint((90, 90, 90), seed=3)]
    colours = [(220, 30, 30), (30, 30, 220), (240, 240, 40)]
    for used in (floors, floors[:2]):
        tiles = [*used, *(lay(colour, ball(), floor) for colour in colours for floor in used)]
        expected = [*range(len(used)), *np.repeat(np.arange(len(colours)) + len(used), len(used))]
        assert layers.group(np.stack(tiles)).group.tolist() == expected
        bare = layers.group(np.stack(tiles[len(used) :]))
        assert bare.group.tolist() == list(range(len(bare.group))), "no ground was seen by itself: nothing is certain"


@pytest.mark.parametrize("shape", [(8, 8), (16, 16), (7, 5), (32, 24)])
def test_half_transparent_things_and_any_size(shape):
    floors = [paint((60, 160, 60), shape, 1), paint((220, 200, 120), shape, 2)]
    tiles = [*floors, *(lay((200, 20, 150), ball(shape), floor, 0.6) for floor in floors)]
    tiles += [lay((20, 20, 150), ball(shape, 0.4), floor) for floor in floors]
    assert layers.group(np.stack(tiles)).group.tolist() == [0, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_where_nothing_lies_on_anything(count):
    found = layers.group(np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3)).astype(np.uint8))
    assert found.group.tolist() == list(range(count))
    assert not found.ground.any()
    assert (found.under == -1).all()


def test_one_ground_is_found_where_it_shows_most():
    floor = paint((60, 160, 60), seed=1)
    tiles = np.stack([lay((200, 20, 20), np.roll(ball(), 3, 0), floor), floor, lay((20, 20, 200), ball(), floor)])
    assert layers.group(tiles).under.tolist() == [1, -1, 1]
