import shutil

import jax
import numpy as np
import pytest
from crafter import constants, engine
from PIL import Image

from protoalign import UserError
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import CATEGORY_NAMES, MATERIALS
from protoalign.envs.crafter.sprites import FILES, KINDS, PICTURES, REDRAWN

ASSETS = constants.root / "assets"
ANIMALS = ("cow", "zombie", "skeleton")


def changed(look):
    """The kinds that a look draws anew."""
    source, new = sprites.load("source"), sprites.load(look)
    assert source.keys() == new.keys() == {"outside", *KINDS}
    return {name for name in source if (new[name] != source[name]).any()}


def test_the_source_is_the_originals_at_the_same_size():
    source, textures = sprites.load("source"), engine.Textures(ASSETS)
    assert len(KINDS) == 26
    for name in KINDS:
        theirs = textures.get(FILES.get(name, name), (8, 8)).swapaxes(0, 1)
        np.testing.assert_array_equal(source[name][..., : theirs.shape[-1]], theirs, name)
    assert (source["outside"] == (127, 127, 127, 255)).all()


@pytest.mark.parametrize("look", ["target", "random:0", "random:12345"])
def test_six_kinds_look_new_and_all_others_as_before(look):
    assert changed(look) == set(REDRAWN)


@pytest.mark.parametrize("look", ["target", *(f"random:{seed}" for seed in range(30))])
def test_nothing_new_looks_like_anything_else(look):
    new = sprites.load(look)
    others = [*sprites.load("source").values(), *(new[name] for name in REDRAWN)]
    for name in REDRAWN:
        distances = sorted(sprites.distance(new[name], other) for other in others)
        assert distances[0] == 0, "itself"
        assert distances[1] >= 40
        opaque = new[name][..., 3] == 255
        assert (opaque | (new[name][..., 3] == 0)).all()
        assert 0.35 <= opaque.mean() <= 0.6 if name in ANIMALS else opaque.all()
        if look != "target":
            np.testing.assert_array_equal(new[name], new[name][:, ::-1])


def test_distances_count_where_both_are_opaque():
    one, other = np.zeros((2, 8, 8, 4), np.uint8)
    one[:4, :, 3] = other[2:, :, 3] = 255
    one[2:4, :, :3] = (30, 0, 0)
    one[:2, :, :3] = other[4:, :, :3] = 200
    assert sprites.distance(one, other) == 10
    assert sprites.distance(one, np.zeros_like(one)) == np.inf


def test_random_looks_repeat():
    first, again, other = (sprites.load(f"random:{seed}") for seed in (7, 7, 8))
    assert all((first[name] == again[name]).all() for name in first)
    assert all((first[name] != other[name]).any() for name in REDRAWN)


@pytest.mark.parametrize("look", ["source", "target", "random:3"])
def test_drawing_is_the_originals_arithmetic(look):
    rng = np.random.default_rng(0)
    look = sprites.load(look)
    look["zombie"][..., 3] = rng.integers(0, 256, (8, 8))  # partly transparent
    grid = rng.permutation(np.arange(2 * 7 * 9) % len(PICTURES)).reshape(2, 7, 9)
    ground = rng.integers(0, len(MATERIALS), (2, 7, 9))
    tiles = sprites.atlas(look)
    assert tiles.shape == (28, 13, 8, 8, 3)
    expected = np.zeros((2, 56, 72, 3), np.uint8)
    for (i, row, column), picture in np.ndenumerate(grid):
        at, name = np.array((row, column)) * 8, PICTURES[picture]
        if name in MATERIALS:
            engine._draw(expected[i], at, look[name])
        else:
            engine._draw(expected[i], at, look[MATERIALS[ground[i, row, column]]])
            engine._draw_alpha(expected[i], at, look["arrow-up" if name == "arrow" else name])
    drawn = sprites.draw(tiles, grid, ground)
    assert drawn.dtype == np.uint8
    np.testing.assert_array_equal(drawn, expected)
    np.testing.assert_array_equal(sprites.draw(*map(jax.numpy.asarray, (tiles, grid, ground))), expected)
    np.testing.assert_array_equal(sprites.draw(tiles, grid[1], ground[1]), expected[1])


def test_arrows_with_directions_are_one_category():
    assert [CATEGORY_NAMES[i] for i in sprites.CATEGORY_OF] == [*CATEGORY_NAMES, *4 * ["arrow"]]
    tiles = sprites.atlas(sprites.load("source"))
    flying = [tiles[PICTURES.index(name)] for name in sprites.ARROWS]
    assert all((flying[i] != flying[j]).any() for i in range(4) for j in range(i))


def test_a_users_folder(tmp_path):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(tmp_path / "water.png")
    Image.fromarray(rng.integers(0, 256, (8, 8, 4), np.uint8)).save(tmp_path / "cow.png")
    Image.new("RGBA", (30, 20), (200, 100, 0, 51)).save(tmp_path / "sand.png")
    (tmp_path / "notes.txt").write_text("something else")
    new = sprites.load(str(tmp_path))
    assert changed(str(tmp_path)) == {"water", "cow", "sand"}
    np.testing.assert_array_equal(new["cow"], np.asarray(Image.open(tmp_path / "cow.png")))
    blocks = np.asarray(Image.open(tmp_path / "water.png"), float).reshape(8, 5, 8, 5, 3).mean((1, 3))
    assert abs(new["water"][..., :3] - blocks).max() <= 1
    assert (new["sand"] == (40, 20, 0, 255)).all(), "a material has nothing under it"
    assert changed(f"only:cow:{tmp_path}") == {"cow"}


def test_the_originals_own_files_as_a_folder_are_the_source(tmp_path):
    for name in KINDS:
        shutil.copy(ASSETS / f"{FILES.get(name, name)}.png", tmp_path / f"{name}.png")
    assert changed(str(tmp_path)) == set()


def test_empty_folders_and_unreadable_pictures_are_named(tmp_path):
    with pytest.raises(UserError, match="no picture of anything"):
        sprites.load(str(tmp_path))
    (tmp_path / "cow.png").write_text("not a picture")
    with pytest.raises(UserError, match=r"cow\.png is not a readable picture"):
        sprites.load(str(tmp_path))


def test_looks_that_change_in_part():
    target, only = sprites.load("target"), sprites.load("only:cow,stone:target")
    assert changed("only:cow,stone:target") == {"cow", "stone"}
    assert all((only[name] == target[name]).all() for name in ("cow", "stone"))
    assert changed("only:tree:random:7") == {"tree"}


@pytest.mark.parametrize("look", ["nowhere", "random:", "random:x", "random:-1", "only:cow:nowhere"])
def test_wrong_looks(look, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no look is called|needs a whole number"):
        sprites.load(look)


@pytest.mark.parametrize(
    "look",
    ["only:sheep:target", "only:cow", "only::target", "only:water:target", "only:cow:source", "only:cow:only:cow:target"],
)
def test_changes_that_are_not_understood(look):
    with pytest.raises(UserError, match=r"not understood.* out of stone, tree, coal, cow, zombie, skeleton"):
        sprites.load(look)
