import numpy as np
import pytest
from PIL import Image

from protoalign import UserError
from protoalign.envs import appearance
from protoalign.envs.hunter import CATEGORY_NAMES

LOOKS = ["source", "target", "random:0", "random:12345"]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for i, name in enumerate(CATEGORY_NAMES):
        size = (8, 16, 13, 40, 8)[i]
        Image.fromarray(rng.integers(0, 256, (size, size, 3), np.uint8)).save(tmp_path / f"{name}.png")
    return tmp_path


@pytest.mark.parametrize("look", LOOKS)
def test_cutting_undoes_drawing(look):
    textures = appearance.load(look, CATEGORY_NAMES)
    grid = np.random.default_rng(0).integers(0, 5, (7, 3, 8, 6))
    picture = appearance.render(textures, grid)
    assert picture.shape == (7, 3, 64, 48, 3)
    assert picture.dtype == np.uint8
    np.testing.assert_array_equal(appearance.cut(picture), textures[grid])
    np.testing.assert_array_equal(picture[2, 1, 8:16, 24:32], textures[grid[2, 1, 1, 3]])


def test_no_two_textures_are_alike_within_or_between_looks():
    sets = [appearance.load(look, CATEGORY_NAMES).astype(float) for look in (*LOOKS, *(f"random:{s}" for s in range(50)))]
    for textures in sets:
        for i in range(5):
            for j in range(i):
                assert abs(textures[i] - textures[j]).mean() > 8, "categories look different"
    for other in sets[1:]:
        for a in sets[0]:
            for b in other:
                assert abs(a - b).mean() > 15, "nothing looks like the source"


def test_random_looks_repeat():
    np.testing.assert_array_equal(*(appearance.load("random:7", CATEGORY_NAMES) for _ in range(2)))
    assert (appearance.load("random:7", CATEGORY_NAMES) != appearance.load("random:8", CATEGORY_NAMES)).any()


def test_the_source_shows_crafters_pictures_on_sand():
    textures = appearance.load("source", CATEGORY_NAMES).astype(float)
    sand, stone = textures[0].mean((0, 1)), textures[4].mean((0, 1))
    assert sand[0] > sand[2] + 40, "sand is yellow"
    assert np.ptp(stone) < 12, "stone is grey"
    corners = textures[1:4, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert (abs(corners - sand).mean(-1) < 40).any(1).all(), "sand shows around the figures"


def test_a_users_folder(folder):
    textures = appearance.load(str(folder), CATEGORY_NAMES)
    assert textures.shape == (5, 8, 8, 3)
    np.testing.assert_array_equal(textures[0], np.asarray(Image.open(folder / "floor.png")))
    blocks = np.asarray(Image.open(folder / "zombie.png"), float).reshape(8, 2, 8, 2, 3).mean((1, 3))
    assert abs(textures[1] - blocks).max() <= 1


def test_missing_and_unreadable_pictures_are_named(folder):
    (folder / "cow.png").unlink()
    with pytest.raises(UserError, match=r"cow\.png is missing"):
        appearance.load(str(folder), CATEGORY_NAMES)
    (folder / "cow.png").write_text("not a picture")
    with pytest.raises(UserError, match=r"cow\.png is not a readable picture"):
        appearance.load(str(folder), CATEGORY_NAMES)


@pytest.mark.parametrize("look", ["nowhere", "random:", "random:x", "random:-1", ""])
def test_wrong_looks(look, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError):
        appearance.load(look or "missing/folder", CATEGORY_NAMES)


def test_pictures_that_cannot_be_cut():
    with pytest.raises(UserError, match="cannot be cut"):
        appearance.cut(np.zeros((60, 64, 3), np.uint8))


def test_looks_that_change_in_part():
    source, target = (appearance.load(look, CATEGORY_NAMES) for look in ("source", "target"))
    only = appearance.load("only:cow,floor:target", CATEGORY_NAMES)
    for i, name in enumerate(CATEGORY_NAMES):
        np.testing.assert_array_equal(only[i], (target if name in ("cow", "floor") else source)[i])
    twins = appearance.load("twins:wall,agent:target", CATEGORY_NAMES)
    np.testing.assert_array_equal(twins[2], target[4])
    np.testing.assert_array_equal(twins[[0, 1, 3, 4]], target[[0, 1, 3, 4]])


def test_a_kind_with_two_looks():
    two = appearance.load("two:wall:random:3", CATEGORY_NAMES)
    plain = appearance.load("random:3", CATEGORY_NAMES)
    np.testing.assert_array_equal(two[0], plain)
    np.testing.assert_array_equal(two[1, :4], plain[:4])
    assert all(abs(two[1, 4].astype(int) - other).mean() >= 40 for other in plain), "the second look is like no other"
    tiles = appearance.cut(appearance.render(two, np.full((1, 8, 8), 4)))[0]
    np.testing.assert_array_equal(tiles[2, 4], two[0, 4])
    np.testing.assert_array_equal(tiles[2, 5], two[1, 4])
    np.testing.assert_array_equal(tiles[3, 5], two[0, 4])


@pytest.mark.parametrize(
    "look", ["only:sheep:target", "only:cow", "two:cow,wall:target", "twins::target", "only:cow:two:wall:target"]
)
def test_changes_that_are_not_understood(look):
    with pytest.raises(UserError, match="not understood"):
        appearance.load(look, CATEGORY_NAMES)
