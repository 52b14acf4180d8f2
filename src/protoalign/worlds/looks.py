"""Looks: what things are drawn as, for every world; and grids of picture ids to pictures and back to tiles.

A world hands in its `Art`. A look is then called by a name:

    source                  pictures of the package crafter (MIT)
    target                  drawn in code, like nothing in the source
    random:SEED             drawn at random
    every:SEED              drawn at random, all kinds of things, also those that `target` and `random` leave as they are
    FOLDER                  a user's pictures: one PNG for each kind of thing, of any size
    only:zombie,cow:LOOK    only these kinds look as in LOOK, all others as in the source
    twins:zombie,cow:LOOK   as LOOK, but these kinds look alike, all as the first of them
    two:wall:LOOK           as LOOK, but this kind has a second picture, on every other tile, as on a chessboard

`target` and `random` draw anew the kinds in `Art.redrawn`. Pictures drawn in code are 8 x 8, and scaled for
other tile sizes.
"""

import importlib.util
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from protoalign.errors import UserError

DRAWN = 8  # rows and columns of a picture drawn in code
APART = 40  # mean distance per channel, of 255, between a random picture and any other
MOST_PIXELS = 4096  # of a PNG, in a row or a column
MOST_TILE = 256  # pixels, in a row or a column
PNG = b"\x89PNG\r\n\x1a\n"

Sprites = dict[str, np.ndarray]  # kind -> [t, t, 4] uint8: red, green, blue, opacity


@dataclass(frozen=True)
class Art:
    """How a world's kinds of things are drawn."""

    kinds: tuple[str, ...]  # that have a picture of their own
    redrawn: tuple[str, ...]  # of these, what looks new in `target` and `random`
    drawings: Mapping[str, str]  # of look `target`: eight words of eight letters of the palette; a dot is transparent
    palette: Mapping[str, tuple[int, int, int]]
    solid: tuple[str, ...]  # kinds with nothing under them: black where their picture is transparent
    salt: int  # makes the random looks of two worlds differ
    ground: str | None = None  # what all things stand on; None: several grounds, and the world lays sprites over them itself
    files: Mapping[str, str] = field(default_factory=dict)  # source pictures that are not called as their kind
    plain: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)  # kinds of one colour, the same in every look
    sharp: bool = False  # small pictures, up to twice the tile's size, are resized by the nearest pixel, as crafter does it


def load(look: str, art: Art, tile: int = DRAWN) -> Sprites:
    """The sprites [tile, tile, 4] of a look: of every kind in `art.kinds` and `art.plain`.

    With `art.ground` they are laid over it and have no transparent pixels. Without, the kinds missing in a folder are as in the
    source, and random pictures of things that are not solid have gaps.
    """
    check_tile(tile)
    if not isinstance(look, str):
        raise UserError(f"{_short(look)} is not a look: use source, target, random:<seed>, or a folder of PNG files")
    way, colon, rest = look.partition(":")
    if look == "source":
        return _source(art, tile)
    if look == "target":
        return _source(art, tile) | {kind: _scaled(_drawing(art, kind), tile) for kind in art.redrawn}
    if colon and way in ("random", "every"):
        some = replace(art, redrawn=art.kinds) if way == "every" else art
        return _source(art, tile) | {kind: _scaled(sprite, tile) for kind, sprite in _random(_seed(look, rest), some).items()}
    if colon and way in ("only", "twins"):
        return _changed(way, rest, art, tile)
    if colon and way == "two":
        raise UserError(f"'{_short(look)}': a second picture needs a world that is seen as a whole, such as Hunter")
    return _folder(look, art, tile)


def pictures(look: str, art: Art, tile: int = DRAWN) -> np.ndarray:
    """The table of pictures of a world with one ground, in the order of `art.kinds`.

    [kinds, tile, tile, 3] uint8, and [2, kinds, tile, tile, 3] for `two`: of even and of odd fields of the chessboard.
    """
    if not (isinstance(look, str) and look.startswith("two:")):
        return _table(load(look, art, tile), art)
    kind, _, rest = look.removeprefix("two:").partition(":")
    _check_change("two", look.removeprefix("two:"), [kind], art.kinds, rest)
    plain = load(rest, art, DRAWN)
    seed = int(_table(plain, art).sum(dtype=np.int64))
    (second,) = _patterns(np.random.default_rng([seed, art.salt]), [kind], (), plain.values()).values()
    first = load(rest, art, tile)
    return np.stack([_table(first, art), _table(first | {kind: _scaled(second, tile)}, art)])


def render(pictures: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Picture ids [..., H, W] to pictures [..., H * h, W * w, 3], NumPy or JAX arrays.

    The table of pictures is [ids, h, w, 3], or [2, ids, h, w, 3]: of even and of odd fields of a chessboard.
    """
    *batch, rows, columns = grid.shape
    field = np.add.outer(np.arange(rows), np.arange(columns)) % 2
    tiles = pictures[field, grid] if pictures.ndim == 5 else pictures[grid]  # [..., H, W, h, w, 3]
    height, width = pictures.shape[-3:-1]
    return tiles.swapaxes(-4, -3).reshape(*batch, rows * height, columns * width, 3)


def cut(picture: np.ndarray, tile: int | tuple[int, int]) -> np.ndarray:
    """Pictures [..., H * h, W * w, 3] to tiles [..., H, W, h, w, 3]; `tile` is h = w or (h, w)."""
    h, w = (tile, tile) if isinstance(tile, int | np.integer) else tile
    if picture.ndim < 3 or picture.shape[-1] != 3:
        raise UserError(f"a picture has shape [..., rows, columns, 3], not {list(picture.shape)}")
    *batch, height, width, _ = picture.shape
    if not (height and width) or min(h, w) < 1 or height % h or width % w:
        raise UserError(f"a picture of {height} x {width} pixels cannot be cut into tiles of {h} x {w}")
    return picture.reshape(*batch, height // h, h, width // w, w, 3).swapaxes(-4, -3)


class Reader:
    """Pictures drawn from a table [ids, h, w, 3] back to picture ids; a tile not in the table, to the id most like it."""

    def __init__(self, pictures: np.ndarray):
        self.pictures = pictures
        self.id_of = {tile.tobytes(): i for i, tile in reversed(list(enumerate(pictures)))}

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """[H * h, W * w, 3] uint8 to [H, W] int32."""
        tiles = cut(picture, self.pictures.shape[1:3])
        return np.array([[self._id(tile) for tile in row] for row in tiles], np.int32)

    def _id(self, tile: np.ndarray) -> int:
        mark = tile.tobytes()
        if mark not in self.id_of:
            self.id_of[mark] = int(abs(self.pictures.astype(int) - tile).sum((1, 2, 3)).argmin())
        return self.id_of[mark]


def over(sprite: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """A sprite [..., 4] laid over a ground [..., 3 or 4]: a sprite without transparent pixels."""
    opacity = sprite[..., 3:] / 255
    mixed = np.round(opacity * sprite[..., :3] + (1 - opacity) * ground[..., :3])
    return np.concatenate([mixed, np.full_like(mixed[..., :1], 255)], -1).astype(np.uint8)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Mean distance per channel between two sprites, over the pixels where both are opaque; infinite if there are none."""
    both = (one[..., 3] >= 128) & (other[..., 3] >= 128)
    return float(abs(one[both, :3].astype(int) - other[both, :3]).mean()) if both.any() else np.inf


def check_tile(tile: Any) -> None:
    if not isinstance(tile, int | np.integer) or not 1 <= tile <= MOST_TILE:
        raise UserError(f"tile={tile!r} is not a whole number of pixels from 1 to {MOST_TILE}")


def _table(sprites: Sprites, art: Art) -> np.ndarray:
    return np.stack([sprites[kind][..., :3] for kind in art.kinds])


# -- from files ------------------------------------------------------------------------------------------------------------


def _source(art: Art, tile: int) -> Sprites:
    found = importlib.util.find_spec("crafter")
    if found is None or not found.submodule_search_locations:
        raise UserError("the source look needs the package crafter: pip install crafter")
    folder = Path(found.submodule_search_locations[0]) / "assets"
    plain = {kind: np.full((tile, tile, 4), (*colour, 255), np.uint8) for kind, colour in art.plain.items()}
    return plain | _read({kind: folder / f"{art.files.get(kind, kind)}.png" for kind in art.kinds}, art, tile)


def _folder(look: str, art: Art, tile: int) -> Sprites:
    try:
        folder = Path(look).expanduser()
        known = bool(look) and folder.is_dir()
        paths = {kind: folder / f"{kind}.png" for kind in art.kinds}
        found = {kind: path for kind, path in paths.items() if known and path.is_file()}
    except (OSError, RuntimeError, ValueError):  # no such user, a name that is too long, no permission
        known = False
    if not known:
        raise UserError(f"no look is called '{_short(look)}': use source, target, random:<seed>, or a folder of PNG files")
    if not found:
        raise UserError(f"{_short(folder)} has no picture of anything: put PNG files there, named {', '.join(art.kinds)}")
    missing = [path for kind, path in paths.items() if kind not in found]
    if missing and art.ground:
        raise UserError(f"{_short(missing[0])} is missing: a look needs a PNG for each of {', '.join(art.kinds)}")
    return (_source(art, tile) if missing or art.plain else {}) | _read(found, art, tile)


def _read(paths: Mapping[str, Path], art: Art, tile: int) -> Sprites:
    sprites = {kind: _sprite(path, art, tile) for kind, path in paths.items()}
    for kind, sprite in sprites.items():
        if kind in art.solid:
            sprites[kind] = over(sprite, np.zeros_like(sprite))
    if art.ground:
        sprites = {kind: over(sprite, sprites[art.ground]) for kind, sprite in sprites.items()}
    return sprites


def _sprite(path: Path, art: Art, tile: int) -> np.ndarray:
    """A PNG as a sprite."""
    try:
        with path.open("rb") as file:
            start = file.read(24)
            width, height = struct.unpack(">II", start[16:])
            if start[:8] != PNG:
                raise ValueError
            if max(width, height) > MOST_PIXELS:
                raise UserError(f"{_short(path)} has {width} x {height} pixels: use at most {MOST_PIXELS} x {MOST_PIXELS}")
            file.seek(0)
            with Image.open(file, formats=["PNG"]) as image:
                if image.mode.startswith("I"):  # grey of 16 bits, which `convert` would cut off at 255
                    image.load()
                    eight = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
                else:
                    eight = image
                small = art.sharp and max(image.size) <= 2 * max(tile, DRAWN)
                way = Image.Resampling.NEAREST if small else Image.Resampling.BOX
                return np.array(eight.convert("RGBA").resize((tile, tile), way))
    except UserError:
        raise
    except Exception:  # damaged files can end in almost anything
        raise UserError(f"{_short(path)} is not a readable picture: use PNG files") from None


# -- drawn in code ---------------------------------------------------------------------------------------------------------


def _drawing(art: Art, kind: str) -> np.ndarray:
    colours = {letter: (*rgb, 255) for letter, rgb in art.palette.items()} | {".": (0, 0, 0, 0)}
    return np.array([[colours[pixel] for pixel in row] for row in art.drawings[kind].split()], np.uint8)


def _random(seed: int, art: Art) -> Sprites:
    """Random sprites [8, 8, 4] of the kinds to be redrawn, where grounds differ none like any sprite of the source."""
    others = [] if art.ground else list(_source(art, DRAWN).values())
    gaps = () if art.ground else tuple(kind for kind in art.redrawn if kind not in art.solid)
    return _patterns(np.random.default_rng([seed, art.salt]), art.redrawn, gaps, others)


def _patterns(rng: np.random.Generator, kinds: Any, gaps: tuple[str, ...], others: Any) -> Sprites:
    """Three-coloured mirrored patterns [8, 8, 4], none like another or like one of `others`; those of `gaps` have gaps."""
    others = list(others)
    chosen: Sprites = {}
    while len(chosen) < len(kinds):
        kind = kinds[len(chosen)]
        colours = np.concatenate([rng.integers(0, 256, (3, 3)), np.full((3, 1), 255)], 1)
        half = colours[rng.choice(3, (DRAWN, DRAWN // 2), p=rng.dirichlet((2, 2, 2)))]  # [8, 4, 4]
        if kind in gaps:
            opaque = rng.permutation(half[..., 0].size) < rng.integers(12, 20)  # 12 to 19 of 32: 37 to 60 percent
            half[~opaque.reshape(half.shape[:2])] = 0
        sprite = np.concatenate([half, half[:, ::-1]], 1).astype(np.uint8)
        if all(distance(sprite, other) >= APART for other in (*others, *chosen.values())):
            chosen[kind] = sprite
    return chosen


def _scaled(sprite: np.ndarray, tile: int) -> np.ndarray:
    """A square picture in another size, by the nearest pixel."""
    if tile == len(sprite):
        return sprite
    index = ((np.arange(tile) + 0.5) * len(sprite) / tile).astype(int)
    return sprite[index][:, index]


# -- looks made out of looks -----------------------------------------------------------------------------------------------


def _changed(way: str, rest: str, art: Art, tile: int) -> Sprites:
    names, _, look = rest.partition(":")
    kinds = names.split(",")
    _check_change(way, rest, [], art.redrawn, look)
    source, new = load("source", art, tile), load(look, art, tile)
    if way == "only":
        known = tuple(kind for kind in art.kinds if (new[kind] != source[kind]).any())
        _check_change(way, rest, kinds, known or art.redrawn, look if known else "")
        return source | {kind: new[kind] for kind in kinds}
    _check_change(way, rest, kinds, art.kinds, look)
    first = new[kinds[0]]
    return new | {kind: over(first, np.zeros_like(first)) if kind in art.solid else first for kind in kinds}


def _check_change(way: str, rest: str, kinds: list[str], known: tuple[str, ...], look: str) -> None:
    if not look or look.startswith(("only:", "twins:", "two:")) or any(kind not in known for kind in kinds):
        what = f"{way}:KIND:LOOK" if way == "two" else f"{way}:KIND,KIND:LOOK"
        raise UserError(f"'{_short(f'{way}:{rest}')}' is not understood: use {what} with kinds out of {', '.join(known)}")


def _seed(look: str, digits: str) -> int:
    if not re.fullmatch("[0-9]+", digits):
        raise UserError(f"'{_short(look)}' needs a whole number after the colon, e.g. random:7")
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19 or int(digits) >= 2**63:
        raise UserError(f"'{_short(look)}' needs a number below 2 to the power of 63")
    return int(digits)


def _short(name: Any) -> str:
    """A name to be shown in one line."""
    text = str(name)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= 200 else f"{text[:80]}...{text[-80:]}"
