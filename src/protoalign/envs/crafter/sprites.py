"""What Crafter looks like: one 8 x 8 picture with transparency, a sprite, per kind of thing, and grids of things to pictures.

Materials fill their tile; creatures, plants, arrows and the player show the ground they stand on around them. The looks:

    source               the original's own pictures (MIT), read from the installed craftax package, which has the same files
    target               six kinds drawn here, like nothing in the source; all others as in the source
    random:SEED          the same six drawn at random
    FOLDER               a user's pictures: a PNG of any size for any of the kinds; kinds without one are as in the source
    only:cow,stone:LOOK  only these of the look's new kinds are new

What lies beyond the world's edge is plain grey in every look.
"""

import importlib.util
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from protoalign.envs.crafter.names import CATEGORY_NAMES, MATERIALS
from protoalign.errors import UserError

TILE = 8  # pixels
REDRAWN = ("stone", "tree", "coal", "cow", "zombie", "skeleton")  # the kinds that look new in another look
ARROWS = ("arrow-left", "arrow-right", "arrow-up", "arrow-down")
# What a grid to be drawn may hold: a category, or past the last of them an arrow with its direction, since the category "arrow"
# has four pictures. The category itself is drawn as an arrow that flies up.
PICTURES = (*CATEGORY_NAMES, *ARROWS)
CATEGORY_OF = np.array([CATEGORY_NAMES.index("arrow" if name in ARROWS else name) for name in PICTURES], np.uint8)
KINDS = tuple(name for name in PICTURES if name not in ("outside", "arrow"))  # that have a picture of their own
FILES = {"player-asleep": "player-sleep"}  # the original's names, where they differ
APART = 40  # mean distance per channel, of 255, between a random sprite and any other

Sprites = dict[str, np.ndarray]  # [8, 8, 4] uint8 each: red, green, blue, opacity


def load(look: str) -> Sprites:
    """The sprites of the look with this name."""
    if look == "source":
        return _source()
    if look == "target":
        return _source() | {name: _drawn(name) for name in REDRAWN}
    if look.startswith("random:"):
        seed = look.removeprefix("random:")
        if not seed.isdecimal():
            raise UserError(f"'{look}' needs a whole number after the colon, e.g. random:7")
        return _random(int(seed))
    if look.startswith("only:"):
        return _only(look)
    folder = Path(look).expanduser()
    if not folder.is_dir():
        raise UserError(f"no look is called '{look}': use source, target, random:<seed>, or a folder of PNG files")
    found = {name: path for name in KINDS if (path := folder / f"{name}.png").is_file()}
    if not found:
        raise UserError(f"{folder} has no picture of anything: put PNG files there, with names out of {', '.join(KINDS)}")
    return _source() | {name: _picture(path, name in MATERIALS) for name, path in found.items()}


def atlas(sprites: Sprites) -> np.ndarray:
    """Every picture on every ground, blended with the original's arithmetic: [pictures, materials, 8, 8, 3] uint8."""
    ground = np.stack([sprites[name][..., :3] for name in MATERIALS])
    tiles = np.empty((len(PICTURES), *ground.shape), np.uint8)
    for i, name in enumerate(PICTURES):
        sprite = sprites["arrow-up" if name == "arrow" else name]
        if name in MATERIALS:
            tiles[i] = sprite[..., :3]
            continue
        opacity = sprite[..., 3:].astype(np.float32) / 255
        colour = sprite[..., :3].astype(np.float32) / 255
        blended = opacity * colour + (1 - opacity) * (ground.astype(np.float32) / 255)
        tiles[i] = (255 * blended).astype(np.uint8)  # cut off, not rounded: the original's pixels, bit by bit
    return tiles


def draw(tiles: np.ndarray, grid: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """Grids of indices into PICTURES and of the materials under them, [..., H, W] both, to pictures [..., 8H, 8W, 3] uint8.

    `tiles` is an `atlas`. Under a material the ground makes no difference. Works on arrays of NumPy and of JAX alike.
    """
    *batch, height, width = grid.shape
    return tiles[grid, ground].swapaxes(-4, -3).reshape(*batch, height * TILE, width * TILE, 3)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Mean distance per channel between two sprites, over the pixels where both are opaque; infinite if there are none."""
    both = (one[..., 3] >= 128) & (other[..., 3] >= 128)
    return float(abs(one[both, :3].astype(int) - other[both, :3]).mean()) if both.any() else np.inf


def _only(look: str) -> Sprites:
    kinds, _, rest = look.removeprefix("only:").partition(":")
    known: tuple[str, ...] = REDRAWN
    if rest not in ("", "source") and not rest.startswith("only:"):
        source, new = load("source"), load(rest)
        known = tuple(name for name in KINDS if (new[name] != source[name]).any())
        if all(kind in known for kind in kinds.split(",")):
            return source | {kind: new[kind] for kind in kinds.split(",")}
    raise UserError(f"'{look}' is not understood: use only:KIND:LOOK with kinds out of {', '.join(known)}")


def _source() -> Sprites:
    spec = importlib.util.find_spec("craftax")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("Crafter's pictures need the package craftax: pip install craftax")
    folder = Path(spec.submodule_search_locations[0]) / "craftax_classic" / "assets"
    outside = np.full((TILE, TILE, 4), (127, 127, 127, 255), np.uint8)
    return {"outside": outside} | {name: _picture(folder / f"{FILES.get(name, name)}.png", name in MATERIALS) for name in KINDS}


def _picture(path: Path, opaque: bool) -> np.ndarray:
    """A picture file as a sprite. Small pictures are resized as the original does it; in larger ones every pixel counts.

    A material has nothing under it: where its picture is transparent it becomes black.
    """
    try:
        with Image.open(path) as image:
            way = Image.Resampling.NEAREST if max(image.size) <= 2 * TILE else Image.Resampling.BOX
            sprite = np.array(image.convert("RGBA").resize((TILE, TILE), way))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise UserError(f"{path} is not a readable picture") from None
    if opaque:
        sprite[..., :3] = np.round(sprite[..., :3] * (sprite[..., 3:] / 255))
        sprite[..., 3] = 255
    return sprite


# -- drawn in code ---------------------------------------------------------------------------------------------------------

# Eight rows of eight colour letters each; the ground shows at the dots.
PALETTE = {
    "v": (150, 62, 206), "l": (204, 132, 246), "d": (66, 18, 112), "k": (22, 14, 52), "m": (255, 62, 140),
    "f": (255, 196, 220), "c": (40, 214, 232), "i": (176, 250, 250), "r": (228, 30, 74), "w": (250, 246, 255),
    "y": (255, 232, 36), "o": (250, 150, 20), "b": (24, 24, 250), "a": (110, 120, 255),
}  # fmt: skip
DRAWINGS = {
    "stone": "lllvdlll vvvvdvvv vvvvdvvv dddddddd dlllvvll dvvvvvvv dvvvvvvv dddddddd",  # violet bricks
    "tree": "kfkkfkkf kmkkmkkm kmmkmkmm kkmmmmmk kkkmmkkk fkkmmkkf mkkmmkkm mmmmmmmm",  # coral
    "coal": "iicccccc icrrrccc crwrrrcc crrrrrcc ccrrrccc cccccrrc ciccrwri iicccrrc",  # berries in ice
    "cow": "..rrrr.. .rwwrrr. rrwwrrrr rrrrrwwr ...ww... ...ww... ..wwww.. ........",  # toadstool
    "zombie": "........ ...yy... ..yyyy.. .ykyyky. .ykyyky. .yyyyyy. .yyooyy. .y.yy.y.",  # ghost
    "skeleton": "........ b......b bb.bb.bb bawbbwab baabbaab .b.bb.b. ...ww... ........",  # bat
}


def _drawn(name: str) -> np.ndarray:
    colours = {letter: (*rgb, 255) for letter, rgb in PALETTE.items()} | {".": (0, 0, 0, 0)}
    return np.array([[colours[pixel] for pixel in row] for row in DRAWINGS[name].split()], np.uint8)


def _random(seed: int) -> Sprites:
    """Three-coloured mirrored patterns, no two alike and none like any sprite of the source; those of animals with gaps."""
    rng = np.random.default_rng([seed, 0xC4AF])
    source = _source()
    chosen: Sprites = {}
    while len(chosen) < len(REDRAWN):
        name = REDRAWN[len(chosen)]
        colours = np.concatenate([rng.integers(0, 256, (3, 3)), np.full((3, 1), 255)], 1)
        half = colours[rng.choice(3, (TILE, TILE // 2), p=rng.dirichlet((2, 2, 2)))]  # [8, 4, 4]
        if name not in MATERIALS:
            opaque = rng.permutation(half[..., 0].size) < rng.integers(12, 20)  # 12 to 19 of 32: 37 to 60 percent
            half[~opaque.reshape(half.shape[:2])] = 0
        sprite = np.concatenate([half, half[:, ::-1]], 1).astype(np.uint8)
        if all(distance(sprite, other) >= APART for other in (*source.values(), *chosen.values())):
            chosen[name] = sprite
    return source | chosen
