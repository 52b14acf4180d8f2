"""Looks of any world. Pictures of 8 x 8 are, byte by byte, those of the first edition."""

import hashlib
import json
import struct
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from protoalign import UserError
from protoalign.worlds import looks
from protoalign.worlds.crafter import art as crafter
from protoalign.worlds.hunter import ART, KINDS

LOOKS = ["source", "target", "random:0", "random:12345"]
GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "looks.json").read_text())


def draw_folder(kinds, path):
    """Pictures of many sizes, every second one with transparency."""
    rng = np.random.default_rng(0)
    for i, name in enumerate(kinds):
        size = (8, 16, 13, 40, 9)[i % 5]
        Image.fromarray(rng.integers(0, 256, (size, size, 4 if i % 2 else 3), np.uint8)).save(path / f"{name}.png")


@pytest.fixture
def folder(tmp_path):
    draw_folder(KINDS, tmp_path)
    return tmp_path


def checksum(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("look", GOLDEN["hunter"])
def test_hunters_looks_are_as_ever(look, folder):
    assert checksum(looks.pictures(look.replace("FOLDER", str(folder)), ART)) == GOLDEN["hunter"][look]


@pytest.mark.parametrize("look", GOLDEN["crafter"])
def test_crafters_looks_are_as_ever(look, tmp_path):
    draw_folder(("water", "cow", "sand", "zombie", "stone", "player-left", "arrow-up"), tmp_path)
    sprites = looks.load(look.replace("FOLDER", str(tmp_path)), crafter.ART)
    found = np.stack([sprites[name] for name in ("outside", *crafter.KINDS)]), crafter.atlas(sprites)
    assert [checksum(x) for x in found] == GOLDEN["crafter"][look]


@pytest.mark.parametrize("tile", [8, 5])
@pytest.mark.parametrize("look", ["source", "random:0", "two:wall:target"])
def test_cutting_undoes_drawing(look, tile):
    pictures = looks.pictures(look, ART, tile)
    assert pictures.shape[-4:] == (5, tile, tile, 3)
    grid = np.random.default_rng(0).integers(0, 5, (7, 3, 8, 6))
    picture = looks.render(pictures, grid)
    assert picture.shape == (7, 3, 8 * tile, 6 * tile, 3)
    assert picture.dtype == np.uint8
    tiles = looks.cut(picture, tile)
    field = np.add.outer(np.arange(8), np.arange(6)) % 2
    np.testing.assert_array_equal(tiles, pictures[field, grid] if pictures.ndim == 5 else pictures[grid])
    np.testing.assert_array_equal(picture[2, 1, tile : 2 * tile, 3 * tile : 4 * tile], tiles[2, 1, 1, 3])
    if tile == 8:
        np.testing.assert_array_equal(looks.render(jax.numpy.asarray(pictures), jax.numpy.asarray(grid)), picture)


def test_tiles_need_not_be_square():
    pictures = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 3), np.uint8)
    grid = np.arange(12).reshape(3, 4) % 4
    picture = looks.render(pictures, grid)
    assert picture.shape == (9, 20, 3)
    np.testing.assert_array_equal(looks.cut(picture, (3, 5)), pictures[grid])
    reader = looks.Reader(pictures)
    np.testing.assert_array_equal(reader(picture), grid)
    near = np.clip(picture.astype(int) + 3, 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(reader(near), grid)


def test_larger_drawings_are_the_small_ones_enlarged():
    for look in ("target", "random:3", "twins:cow,wall:target", "two:cow:random:5"):
        small, large = (looks.pictures(look, ART, tile) for tile in (8, 24))
        np.testing.assert_array_equal(large, small.repeat(3, -3).repeat(3, -2))


def test_larger_source_pictures_show_more():
    small, large = (looks.pictures("source", ART, tile) for tile in (8, 16))
    means = large.reshape(5, 8, 2, 8, 2, 3).astype(float).mean((2, 4))
    assert abs(means - small).max() < 10
    assert (large != small.repeat(2, -3).repeat(2, -2)).any()


def test_no_two_pictures_are_alike_within_or_between_looks():
    source, *others = (looks.pictures(look, ART).astype(int) for look in (*LOOKS, *(f"random:{s}" for s in range(50))))
    for pictures in (source, *others):
        apart = abs(pictures[:, None] - pictures).mean((2, 3, 4))
        assert apart[~np.eye(5, dtype=bool)].min() > 8, "kinds look different"
    for other in others:
        assert abs(source[:, None] - other).mean((2, 3, 4)).min() > 15, "nothing looks like the source"


def test_random_looks_repeat():
    np.testing.assert_array_equal(*(looks.pictures("random:7", ART) for _ in range(2)))
    np.testing.assert_array_equal(looks.pictures("random:007", ART), looks.pictures("random:7", ART))
    assert (looks.pictures("random:7", ART) != looks.pictures("random:8", ART)).any()


def test_the_source_shows_crafters_pictures_on_sand():
    pictures = looks.pictures("source", ART).astype(float)
    sand, stone = pictures[0].mean((0, 1)), pictures[4].mean((0, 1))
    assert sand[0] > sand[2] + 40, "sand is yellow"
    assert np.ptp(stone) < 12, "stone is grey"
    corners = pictures[1:4, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert (abs(corners - sand).mean(-1) < 40).any(1).all(), "sand shows around the figures"


def test_distances_count_where_both_are_opaque():
    one, other = np.zeros((2, 8, 8, 4), np.uint8)
    one[:4, :, 3] = other[2:, :, 3] = 255
    one[2:4, :, :3] = (30, 0, 0)
    one[:2, :, :3] = other[4:, :, :3] = 200
    assert looks.distance(one, other) == 10
    assert looks.distance(one, np.zeros_like(one)) == np.inf


def test_looks_that_change_in_part():
    source, target = (looks.pictures(look, ART) for look in ("source", "target"))
    only = looks.pictures("only:cow,floor:target", ART)
    for i, name in enumerate(KINDS):
        np.testing.assert_array_equal(only[i], (target if name in ("cow", "floor") else source)[i])
    twins = looks.pictures("twins:wall,agent:target", ART)
    np.testing.assert_array_equal(twins[2], target[4])
    np.testing.assert_array_equal(twins[[0, 1, 3, 4]], target[[0, 1, 3, 4]])


def test_a_kind_with_two_pictures():
    two, plain = (looks.pictures(look, ART) for look in ("two:wall:random:3", "random:3"))
    np.testing.assert_array_equal(two[0], plain)
    np.testing.assert_array_equal(two[1, :4], plain[:4])
    assert all(abs(two[1, 4].astype(int) - other).mean() >= 40 for other in plain), "the second is like no other"
    tiles = looks.cut(looks.render(two, np.full((1, 8, 8), 4)), 8)[0]
    for row, column, which in ((2, 4, 0), (2, 5, 1), (3, 5, 0)):
        np.testing.assert_array_equal(tiles[row, column], two[which, 4])


@pytest.mark.parametrize(
    "look",
    [
        *("only:sheep:target", "only:cow", "only::target", "two:cow,wall:target", "two:cow", "twins::target", "twins:cow"),
        *("only:cow:two:wall:target", "twins:cow:only:cow:target", "two:cow:two:cow:target", "only:cow:source"),
    ],
)
def test_changes_that_are_not_understood(look):
    with pytest.raises(UserError, match=r"not understood.*kinds out of floor, zombie, agent, cow, wall"):
        looks.pictures(look, ART)


def test_two_pictures_need_a_world_that_is_seen_as_a_whole():
    with pytest.raises(UserError, match="seen as a whole"):
        crafter.pictures("two:cow:target")


# -- a user's pictures and names, and hostile ones ------------------------------------------------------------------------


def test_a_users_folder(folder):
    pictures = looks.pictures(str(folder), ART)
    assert pictures.shape == (5, 8, 8, 3)
    np.testing.assert_array_equal(pictures[0], np.asarray(Image.open(folder / "floor.png")))
    Image.new("RGBA", (40, 20), (200, 100, 0, 51)).save(folder / "cow.png")
    floor = pictures[0].astype(float)
    expected = np.round(0.2 * np.array([200, 100, 0]) + 0.8 * floor)
    np.testing.assert_array_equal(looks.pictures(str(folder), ART)[3], expected)


def test_missing_and_unreadable_pictures_are_named(folder):
    (folder / "cow.png").unlink()
    with pytest.raises(UserError, match=r"cow\.png is missing"):
        looks.pictures(str(folder), ART)
    (folder / "cow.png").write_text("not a picture")
    with pytest.raises(UserError, match=r"cow\.png is not a readable picture"):
        looks.pictures(str(folder), ART)


def png_of(width, height):
    """The beginning of a PNG that says it is so large, and no pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))


@pytest.mark.parametrize("name", ["gif", "jpeg", "bmp", "tiff", "ppm", "webp", "empty", "cut", "header", "text", "folder"])
def test_only_whole_png_files_are_read(name, folder):
    path = folder / "cow.png"
    whole = path.read_bytes()
    path.unlink()
    if name in ("gif", "jpeg", "bmp", "tiff", "ppm", "webp"):
        Image.new("RGB", (8, 8)).save(path, format=name)
    elif name == "folder":
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "cut": whole[:-40], "header": png_of(8, 8), "text": b"%!PS-Adobe-3.0 EPSF-3.0"}[name])
    with pytest.raises(UserError, match=r"cow\.png is (not a readable picture|missing)"):
        looks.pictures(str(folder), ART)


@pytest.mark.parametrize(("width", "height"), [(4097, 8), (8, 4097), (13_000, 13_000), (100_000, 100_000), (2**31 - 1, 1)])
def test_huge_pictures_are_not_opened(width, height, folder, monkeypatch):
    monkeypatch.setattr(Image, "open", None)
    (folder / "floor.png").write_bytes(png_of(width, height))
    with pytest.raises(UserError, match=f"{width} x {height} pixels: use at most 4096"):
        looks.pictures(str(folder), ART)


@pytest.mark.parametrize("kind", ["grey16", "grey", "palette", "bits", "grey-alpha"])
def test_all_sorts_of_png(kind, folder):
    grey = (np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).astype(np.uint16)
    image = Image.fromarray((grey >> 8).astype(np.uint8))
    if kind == "grey16":
        image = Image.fromarray(grey)
    elif kind == "palette":
        image = image.convert("RGB").quantize(64)
    elif kind == "bits":
        image = image.convert("1")
    elif kind == "grey-alpha":
        image = image.convert("LA")
    image.save(folder / "wall.png")
    found = looks.pictures(str(folder), ART)[4].astype(int)
    assert np.ptp(found, axis=-1).max() == 0, "grey"
    if kind == "bits":
        assert set(found.flat) == {0, 255}
    else:
        assert abs(found[..., 0] - (grey >> 8)).max() <= 4


HOSTILE = [
    *("nowhere", "", "~nobody", "~nobody/x", "random:", "random:x", "random:-1", "random:1.5", "random:٣", "random: 7"),
    *(
        "random:" + 5000 * "9",
        f"random:{2**63}",
        "only:cow:nowhere",
        "a" * 5000,
        "a\0b",
        "a\nb",
        "/dev/null",
        "target:1",
        "source:",
    ),
]


@pytest.mark.parametrize("art", [ART, crafter.ART], ids=["hunter", "crafter"])
@pytest.mark.parametrize("look", HOSTILE, ids=range(len(HOSTILE)))
def test_wrong_looks(look, art, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no look is called|needs a (whole )?number") as caught:
        looks.load(look, art)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_largest_seed():
    assert looks.pictures(f"random:{2**63 - 1}", ART).any()


@pytest.mark.parametrize("look", [None, 7, b"source", ["source"]])
def test_looks_are_called_by_text(look):
    with pytest.raises(UserError, match="is not a look"):
        looks.pictures(look, ART)


@pytest.mark.parametrize("tile", [0, -8, 257, 8.0, "8", None])
def test_wrong_tile_sizes(tile):
    with pytest.raises(UserError, match="tile="):
        looks.pictures("source", ART, tile)


@pytest.mark.parametrize(
    ("shape", "tile"), [((60, 64, 3), 8), ((64, 64), 8), ((64, 64, 4), 8), ((64, 64, 3), (8, 5)), ((64, 64, 3), 0)]
)
def test_pictures_that_cannot_be_cut(shape, tile):
    with pytest.raises(UserError, match=r"cannot be cut|has shape"):
        looks.cut(np.zeros(shape, np.uint8), tile)


def test_every_kind_can_be_redrawn_and_any_of_them_alone():
    source, new = crafter.pictures("source"), crafter.pictures("every:3")
    changed = (source != new).any((1, 2, 3))
    assert [name for name, is_new in zip(crafter.TRUTH, changed, strict=True) if not is_new] == ["outside"], "it is plain grey"
    only = crafter.pictures("only:water:every:3")
    ids = (source != only).any((1, 2, 3))
    assert {name for name, is_new in zip(crafter.TRUTH, ids, strict=True) if is_new} == {"water", "arrow"}, "arrows fly over it"
    np.testing.assert_array_equal(looks.load("every:5", ART)["cow"], looks.load("random:5", ART)["cow"])
    with pytest.raises(UserError, match="whole number"):
        looks.load("every:x", ART)
