"""The target's tiles get codes: known prototypes, and types of what is new."""

import json

import numpy as np
import pytest
from PIL import Image, ImageDraw

from protoalign import UserError, worlds
from protoalign.perception.tile_types import TileTypes
from protoalign.perception.tiles import cut, join
from protoalign.worlds.tile_dictionary import MOST
from tests.perception.boards import HUNTER, LOOKS, agree, board, noisy, show
from tests.perception.conftest import learned
from tests.perception.test_layers import ball, lay, paint

CRAFTER = worlds.make("crafter")
TRUTH = np.array(CRAFTER.spec.truth)
REDRAWN = ("stone", "tree", "coal", "cow", "zombie", "skeleton")


def again(types: TileTypes) -> TileTypes:
    """Written and read."""
    arrays, info = types.save()
    return TileTypes.load(
        types.vocabulary, {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(info))
    )


def test_exact_tiles_that_never_repeat_are_refused(hunter):
    types, rng = TileTypes(hunter, exact=(4, 4)), np.random.default_rng(0)
    for _ in range(MOST // 25):
        types.see(rng.integers(0, 256, (20, 20, 3), np.uint8))
    last = rng.integers(0, 256, (20, 20, 3), np.uint8)
    for _ in range(2):
        with pytest.raises(UserError, match=r"do not repeat: more than 255 new ones of 4 x 4 pixels .*; use a target"):
            types.see(last)
        assert len(types) == MOST
    assert (types.freeze()(last) == hunter.num_prototypes + MOST).sum() == 20, "what has no type is unknown"


# -- Hunter: one picture for each kind -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1, 0.2])
def test_new_looks_are_told_apart(hunter, noise):
    wrong = 0
    for seed, look in enumerate(LOOKS[:20]):
        types, grid = TileTypes(hunter), board(seed)
        codes = types.see(show(look, grid, noise, seed))
        assert types.noisy == (noise > 0)
        wrong += not (agree(codes, grid) and len(types) == 5 and codes.min() == 5)
    assert wrong <= (0 if noise < 0.2 else 2)


def test_the_source_is_known(hunter):
    types = TileTypes(hunter)
    for seed in range(5):
        np.testing.assert_array_equal(types.see(show("source", board(seed))), board(seed))
    assert len(types) == 0
    assert types.pictures.shape == (0, 8, 8, 3)
    np.testing.assert_array_equal(types.freeze()(show("source", board(9))), board(9))
    assert (types(show("target", board(9))) == 5).all()


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_later_pictures_and_new_types(hunter, noise):
    types, grid = TileTypes(hunter), board(0)
    codes = types.see(show("target", grid, noise, 0))
    code_of = dict(zip(grid.ravel().tolist(), codes.ravel().tolist(), strict=True))
    later = board(5)
    expected = np.vectorize(code_of.get)(later)
    picture = show("target", later, noise, 5)
    np.testing.assert_array_equal(types.see(picture), expected)
    np.testing.assert_array_equal(types(picture), expected)
    picture[8:16, 8:16] = HUNTER.pictures("random:3")[0]
    assert types(picture)[1, 1] == 10, "not met, and not kept"
    assert len(types) == 5
    other = picture.copy()
    other[8:16, 8:16] = HUNTER.pictures("random:8")[0]
    assert types(other)[1, 1] == 10
    assert types.see(picture)[1, 1] == types.see(picture)[1, 1] == 10
    assert types(other)[1, 1] == 11
    assert len(types) == 6
    assert types.pictures.shape == (6, 8, 8, 3)
    assert all(1 <= len(tiles) <= 16 for tiles in types.examples)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_numbered_as_met_and_frozen(hunter, noise):
    types, grids = TileTypes(hunter), np.stack([board(seed) for seed in range(40)])
    codes = types.see(show("random:7", grids[0], noise))
    assert list(dict.fromkeys(codes.ravel().tolist())) == [5, 6, 7, 8, 9]
    code_of = dict(zip(grids[0].ravel().tolist(), codes.ravel().tolist(), strict=True))
    types.freeze()
    many = show("random:7", grids.reshape(2, 20, 8, 8), noise, 1)
    seen = types(many)
    assert seen.dtype == np.int32
    np.testing.assert_array_equal(seen, np.vectorize(code_of.get)(grids).reshape(2, 20, 8, 8))
    many[1, 3, 16:24, 24:32] = noisy(HUNTER.pictures("random:8")[0], noise)
    assert types(many)[1, 3, 2, 3] == 10
    assert types.see(many[1, 3])[2, 3] == 10
    assert len(types) == 5
    np.testing.assert_array_equal(again(types)(many), types(many))
    np.testing.assert_array_equal(again(types).pictures, types.pictures)


@pytest.mark.parametrize("look", LOOKS[:8])
def test_a_change_of_light_is_seen_as_such(hunter, look):
    """The whole picture a shade brighter, darker or redder: the same codes, and no new ones. A new thing is still new."""
    types, grid = TileTypes(hunter), board(0)
    code_of = dict(zip(grid.ravel().tolist(), types.see(show(look, grid)).ravel().tolist(), strict=True))
    rng = np.random.default_rng(1)
    lit, right = [], []
    for seed in range(1, 6):
        picture = show(look, board(seed))
        colours = picture.reshape(-1, 3).astype(int)
        lowest, highest = np.maximum(-colours.min(0), -50), np.minimum(255 - colours.max(0), 50)  # nothing cut off
        lit.append((picture + rng.integers(lowest, highest + 1)).astype(np.uint8))
        right.append(np.vectorize(code_of.get)(board(seed)))
        np.testing.assert_array_equal(types.see(lit[-1]), right[-1])
        assert len(types) == 5
    np.testing.assert_array_equal(types(np.stack(lit)), right)
    lit[-1][8:16, 8:16] = HUNTER.pictures("random:99")[0]
    assert types.see(lit[-1])[1, 1] == 10


def test_light_and_noise_together(hunter):
    types, grid = TileTypes(hunter), board(0)
    code_of = dict(zip(grid.ravel().tolist(), types.see(show("target", grid, 0.05)).ravel().tolist(), strict=True))
    for seed in range(1, 6):
        picture = noisy(show("target", board(seed)).astype(int) + np.array([20, 10, 0]), 0.05, seed)
        np.testing.assert_array_equal(types.see(picture), np.vectorize(code_of.get)(board(seed)))
    assert len(types) == 5


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_labels_mean_sameness_only(hunter, noise):
    grid, names = board(3), np.array([70, 3, 900, -2, 12])
    by_label, by_look = TileTypes(hunter, oracle=True), TileTypes(hunter)
    picture = show("target", grid, noise)
    np.testing.assert_array_equal(by_label.see(picture, names[grid]), by_look.see(picture))
    twins = show("twins:cow,zombie:target", grid, noise)
    by_label, by_look = TileTypes(hunter, oracle=True), TileTypes(hunter)
    assert agree(by_label.see(twins, names[grid]), grid)
    assert len(by_label) == 5
    by_look.see(twins)
    assert len(by_look) == 4
    again(by_label).see(twins, names[grid])
    for wrong in (None, names[grid][:3]):
        with pytest.raises(UserError, match="a grid of labels, 8 x 8"):
            by_label.see(twins, wrong)


def test_only_some_kinds_are_redrawn(hunter):
    """Zombie and cow are new; all others stay known."""
    types, grid = TileTypes(hunter), board(2)
    codes = types.see(show("only:zombie,cow:target", grid))
    kept = np.isin(grid, [HUNTER.spec.truth.index(name) for name in ("floor", "agent", "wall")])
    np.testing.assert_array_equal(codes[kept], grid[kept])
    assert len(types) == 2
    assert agree(codes, grid)


# -- Crafter: things on several grounds ----------------------------------------------------------------------------------------


def crafter_codes(types: TileTypes, look: str, seed: int = 0) -> np.ndarray:
    """Codes of all 59 pictures, met in views of 7 x 9 in a random order."""
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(59), 8))[: 7 * 63].reshape(7, 7, 9)
    codes = np.full(59, -1)
    for ids in [*order, np.resize(np.arange(59), (7, 9))]:
        codes[ids] = types.see(join(CRAFTER.pictures(look)[ids]))
    return codes


@pytest.mark.parametrize("look", ["source", "target", *(f"random:{seed}" for seed in range(100, 106)), "only:cow,stone:target"])
def test_new_kinds_are_types_whatever_they_stand_on(crafter, look):
    types = TileTypes(crafter)
    codes = crafter_codes(types, look)
    new = (CRAFTER.pictures(look) != CRAFTER.pictures("source")).any((1, 2, 3))
    np.testing.assert_array_equal(codes[~new], crafter.prototype_of[~new])
    assert (codes[new] >= 27).all()
    assert len(types) == len(set(codes[new].tolist())) == {"source": 0, "only:cow,stone:target": 2}.get(look, 6)
    assert agree(codes[new], np.array([list(TRUTH).index(name) for name in TRUTH[new]]))
    np.testing.assert_array_equal(again(types.freeze())(join(CRAFTER.pictures(look)[None])), codes[None])


def test_what_was_not_met_before_freezing(crafter):
    """A known thing on another ground is known, a new one on another ground is its type; and anything else is not met."""
    pictures = CRAFTER.pictures("target")
    cow, zombie = np.flatnonzero(TRUTH == "cow"), np.flatnonzero(TRUTH == "zombie")
    types = TileTypes(crafter)
    codes = types.see(join(pictures[np.array([[2, 4, cow[0], 2], [4, 5, 2, 2]])]))
    np.testing.assert_array_equal(codes == 27, [[False, False, True, False], [False] * 4])
    later = types.freeze()(join(pictures[np.array([[cow[1], cow[2], zombie[0], 6], [1, 1, 2, 5]])]))
    assert later[0].tolist() == [27, 27, 28, 28]
    np.testing.assert_array_equal(later[1], crafter.prototype_of[[1, 1, 2, 5]])


def test_a_new_ground_with_old_and_new_things_on_it():
    """Once new grass was seen by itself, an old thing on it is known, and a new thing is of one type on old and new grounds.

    A thing that was met on new grass before that keeps the type it was given.
    """
    grass, sand, new_grass = paint((60, 160, 60), seed=1), paint((220, 200, 120), seed=2), paint((150, 60, 190), seed=3)
    cow, hen = np.roll(ball(), 1, 0), ball(size=0.4)
    on = [grass, sand, *(lay((240, 240, 240), cow, floor) for floor in (grass, sand)), lay((90, 50, 20), hen, grass)]
    vocabulary = learned(np.stack(on))
    assert vocabulary.prototype_of.tolist() == [0, 1, 2, 2, 3]
    fox = [lay((250, 120, 0), np.roll(ball(size=0.35), 1, 1), floor) for floor in (sand, new_grass)]
    old = [lay((240, 240, 240), cow, new_grass), lay((90, 50, 20), hen, new_grass)]
    types = TileTypes(vocabulary, noisy=False)
    first = np.stack([[old[0], new_grass, new_grass, sand], [fox[0], fox[1], new_grass, old[1]]])
    assert types.see(join(first)).tolist() == [[2, 4, 4, 1], [5, 5, 4, 3]]
    assert len(types) == 2
    late = TileTypes(vocabulary, noisy=False)
    assert late.see(join(first[:1, :1])).tolist() == [[4]]
    assert late.see(join(first)).tolist() == [[4, 5, 5, 1], [6, 6, 5, 3]]


def test_a_users_pictures(crafter, tmp_path):
    """Large, smooth-edged, half transparent, or of one plain colour: one thing on several grounds is still one type."""
    colours = [(90, 60, 20), (100, 72, 32), (255, 0, 255), (200, 30, 30), (250, 250, 250), (10, 10, 10)]
    for name, colour in zip(REDRAWN, colours, strict=True):
        solid = name in ("stone", "tree", "coal", "zombie")
        picture = Image.new("RGBA", (32, 32), (*colour, 255) if solid else (0, 0, 0, 0))
        draw = ImageDraw.Draw(picture)
        if name == "cow":
            draw.ellipse((3, 3, 29, 29), fill=(*colour, 255))
        if name == "skeleton":
            draw.rectangle((11, 2, 21, 30), fill=(*colour, 140))
            draw.rectangle((3, 10, 28, 13), fill=(*colour, 255))
        picture.save(tmp_path / f"{name}.png")
    types = TileTypes(crafter)
    codes = crafter_codes(types, str(tmp_path))
    new = np.isin(TRUTH, REDRAWN)
    np.testing.assert_array_equal(codes[~new], crafter.prototype_of[~new])
    assert len(types) == len(set(codes[new].tolist())) == 6
    assert agree(codes[new], np.array([REDRAWN.index(name) for name in TRUTH[new]]))


# -- anything else -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [(16, 16), (7, 5)])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_other_sizes_of_tiles(tile, noise):
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (2, 5, 3))
    masks = rng.random((2, 5, *tile, 1)) < 0.5
    pictures = np.where(masks, colours[:, :, None, None], colours[:, ::-1, None, None]).astype(np.uint8)
    types, grid = TileTypes(learned(pictures[0])), board(0)
    codes = types.see(noisy(join(pictures[1][grid]), noise))
    assert agree(codes, grid)
    assert len(types) == 5
    assert types.pictures.shape == (5, *tile, 3)
    many = noisy(join(pictures[1][np.stack([board(1), board(2)])]), noise, 1)
    seen = types.freeze()(many)
    assert agree(seen, np.stack([board(1), board(2)]))
    np.testing.assert_array_equal(again(types)(many), seen)


def test_hundreds_of_types(hunter):
    tiles = np.random.default_rng(0).integers(0, 256, (300, 8, 8, 3)).astype(np.uint8)
    types = TileTypes(hunter, noisy=False)
    grid = np.arange(300).reshape(15, 20)
    np.testing.assert_array_equal(types.see(join(tiles[grid])), 5 + grid)
    assert len(types) == 300
    np.testing.assert_array_equal(again(types.freeze())(join(tiles[grid[::-1]])), 5 + grid[::-1])


def test_under_noise_there_are_not_endlessly_many(hunter):
    types = TileTypes(hunter)
    types.see(show("target", board(0), 0.01))
    for seed in range(5):
        types.see(np.random.default_rng(seed).integers(0, 256, (64, 64, 3)).astype(np.uint8))
    assert len(types) == 64


def test_what_cannot_be_seen(hunter):
    types = TileTypes(hunter)
    picture = show("target", board(0))
    with pytest.raises(UserError, match="must be uint8, from 0 to 255, but this one has float64 values from 0"):
        types.see(picture / 255)
    with pytest.raises(UserError, match="one picture at a time"):
        types.see(picture[None])
    with pytest.raises(UserError, match="cannot be cut into tiles of 8 x 8"):
        types.see(picture[1:])
    assert len(types) == 0
    assert types(picture[None][:0]).shape == (0, 8, 8)
    assert cut(types.vocabulary.draw(types(show("source", board(0)))), (8, 8)).shape == (8, 8, 8, 8, 3)
