"""Crafter's pictures are the original's, and its six redrawn kinds like no others."""

import shutil

import numpy as np
import pytest
from crafter import constants, engine
from PIL import Image

from protoalign import UserError
from protoalign.worlds import looks
from protoalign.worlds.crafter import art
from protoalign.worlds.crafter.art import ART, CATEGORY_OF, FILES, ID_OF, KINDS, PAIRS, THINGS, TRUTH
from protoalign.worlds.crafter.names import CATEGORY_NAMES, LAVA, MATERIALS

ASSETS = constants.root / "assets"
ANIMALS = ("cow", "zombie", "skeleton")


def load(look, tile=8):
    return looks.load(look, ART, tile)


def changed(look):
    """The kinds that a look draws anew."""
    source, new = load("source"), load(look)
    assert source.keys() == new.keys() == {"outside", *KINDS}
    return {name for name in source if (new[name] != source[name]).any()}


@pytest.mark.parametrize("tile", [8, 16, 7])
def test_the_source_is_the_originals_at_the_same_size(tile):
    source, textures = load("source", tile), engine.Textures(ASSETS)
    assert len(KINDS) == 26
    for name in KINDS:
        theirs = textures.get(FILES.get(name, name), (tile, tile)).swapaxes(0, 1)
        np.testing.assert_array_equal(source[name][..., : theirs.shape[-1]], theirs, name)
    assert (source["outside"] == (127, 127, 127, 255)).all()


@pytest.mark.parametrize("look", ["target", "random:0", "random:12345"])
def test_six_kinds_look_new_and_all_others_as_before(look):
    assert changed(look) == set(ART.redrawn)


@pytest.mark.parametrize("look", ["target", *(f"random:{seed}" for seed in range(10))])
def test_nothing_new_looks_like_anything_else(look):
    new = load(look)
    others = [*load("source").values(), *(new[name] for name in ART.redrawn)]
    for name in ART.redrawn:
        distances = sorted(looks.distance(new[name], other) for other in others)
        assert distances[0] == 0, "itself"
        assert distances[1] >= 40
        opaque = new[name][..., 3] == 255
        assert (opaque | (new[name][..., 3] == 0)).all()
        assert 0.35 <= opaque.mean() <= 0.6 if name in ANIMALS else opaque.all()
        if look != "target":
            np.testing.assert_array_equal(new[name], new[name][:, ::-1])


@pytest.mark.parametrize("look", ["source", "target", "random:3"])
def test_drawing_is_the_originals_arithmetic(look):
    rng = np.random.default_rng(0)
    sprites = load(look)
    sprites["zombie"][..., 3] = rng.integers(0, 256, (8, 8))  # partly transparent
    tiles = art.atlas(sprites)
    assert tiles.shape == (28, 13, 8, 8, 3)
    for i, name in enumerate(THINGS):
        for j, ground in enumerate(MATERIALS):
            expected = np.zeros((8, 8, 3), np.uint8)
            engine._draw(expected, np.zeros(2, int), sprites[name if name in MATERIALS else ground])
            if name not in MATERIALS:
                engine._draw_alpha(expected, np.zeros(2, int), sprites["arrow-up" if name == "arrow" else name])
            np.testing.assert_array_equal(tiles[i, j], expected, f"{name} on {ground}")


def test_every_id_is_a_thing_on_a_ground():
    assert len(PAIRS) == len(TRUTH) == len(set(map(tuple, PAIRS))) == 59
    np.testing.assert_array_equal(ID_OF[tuple(PAIRS.T)], np.arange(59))
    np.testing.assert_array_equal(ID_OF[: len(MATERIALS), 1], np.arange(len(MATERIALS)))
    assert tuple(dict.fromkeys(TRUTH)) == CATEGORY_NAMES, "in the order of the categories"
    assert TRUTH.count("zombie") == 3
    assert TRUTH.count("arrow") == 4 * 5
    left = THINGS.index("player-left")
    assert tuple(PAIRS[ID_OF[left, LAVA]]) == (left, MATERIALS.index("grass")), "whoever stands on lava is dead"
    assert [CATEGORY_NAMES[i] for i in CATEGORY_OF] == [*CATEGORY_NAMES, *4 * ["arrow"]]


@pytest.mark.parametrize("look", ["source", "target", "random:11"])
def test_every_id_has_a_picture_of_its_own(look):
    for tile in (8, 16):
        pictures = art.pictures(look, tile)
        assert pictures.shape == (59, tile, tile, 3)
        assert len({picture.tobytes() for picture in pictures}) == 59


def test_a_users_folder(tmp_path):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(tmp_path / "water.png")
    Image.fromarray(rng.integers(0, 256, (8, 8, 4), np.uint8)).save(tmp_path / "cow.png")
    Image.new("RGBA", (30, 20), (200, 100, 0, 51)).save(tmp_path / "sand.png")
    (tmp_path / "notes.txt").write_text("something else")
    new = load(str(tmp_path))
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
        load(str(tmp_path))
    (tmp_path / "cow.png").write_text("not a picture")
    with pytest.raises(UserError, match=r"cow\.png is not a readable picture"):
        load(str(tmp_path))


def test_looks_that_change_in_part():
    target, only = load("target"), load("only:cow,stone:target")
    assert changed("only:cow,stone:target") == {"cow", "stone"}
    assert all((only[name] == target[name]).all() for name in ("cow", "stone"))
    assert changed("only:tree:random:7") == {"tree"}
    twins = load("twins:zombie,stone:target")
    np.testing.assert_array_equal(twins["stone"][..., :3], twins["zombie"][..., :3] * (twins["zombie"][..., 3:] > 0))
    assert (twins["stone"][..., 3] == 255).all(), "a material has nothing under it"


@pytest.mark.parametrize(
    "look",
    ["only:sheep:target", "only:cow", "only::target", "only:water:target", "only:cow:source", "only:cow:only:cow:target"],
)
def test_changes_that_are_not_understood(look):
    with pytest.raises(UserError, match=r"not understood.* out of stone, tree, coal, cow, zombie, skeleton"):
        load(look)
