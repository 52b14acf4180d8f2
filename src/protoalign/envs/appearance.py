"""What worlds look like: texture sets, and category grids to pixels and back to tiles.

A texture set is one 8 x 8 RGB picture per category. Drawing a grid is one gather from it; cutting a picture into tiles is a
reshape, so that a tile cut out is exactly the texture drawn.

    source         Crafter's own pictures (MIT), read from the installed craftax package
    target         drawn here, like the source in nothing but size
    random:SEED    drawn at random
    FOLDER         a user's pictures: one PNG per category, any size; the floor shows where they are transparent

Three ways to make a harder look LOOK' out of a look LOOK:

    only:zombie,cow:LOOK    only these kinds look new; all others as in the source
    twins:zombie,cow:LOOK   these kinds look alike, all as the first of them
    two:wall:LOOK           this kind has a second look, on every other tile, as on a chessboard
"""

import importlib.util
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from protoalign.errors import UserError

TILE = 8  # pixels
SOURCE_PICTURES = {"floor": "sand", "zombie": "zombie", "agent": "player", "cow": "cow", "wall": "stone"}

Textures = np.ndarray  # [C, 8, 8, 3] uint8; [2, C, 8, 8, 3] where a kind has two looks


def load(look: str, categories: tuple[str, ...]) -> Textures:
    """The texture set called `look` for the named categories; the first is the floor."""
    if look == "source":
        return _source(categories)
    if look == "target":
        return _target(categories)
    if look.startswith("random:"):
        seed = look.removeprefix("random:")
        if not seed.isdecimal():
            raise UserError(f"'{look}' needs a whole number after the colon, e.g. random:7")
        return _random(int(seed), len(categories))
    way, _, rest = look.partition(":")
    if way in ("only", "twins", "two"):
        return _changed(way, rest, categories)
    folder = Path(look).expanduser()
    if not folder.is_dir():
        raise UserError(f"no look is called '{look}': use source, target, random:<seed>, or a folder of PNG files")
    floor = _picture(folder / f"{categories[0]}.png")
    return np.stack([_picture(folder / f"{name}.png", behind=floor) for name in categories])


def render(textures: Textures, grid: np.ndarray) -> np.ndarray:
    """Category grids [..., H, W] to pictures [..., 8H, 8W, 3] uint8."""
    *batch, height, width = grid.shape
    if textures.ndim == 5:
        field = np.add.outer(np.arange(height), np.arange(width)) % 2  # of the chessboard
        tiles = textures[field, grid]
    else:
        tiles = textures[grid]  # [..., H, W, 8, 8, 3]
    return np.swapaxes(tiles, -4, -3).reshape(*batch, height * TILE, width * TILE, 3)


def cut(picture: np.ndarray) -> np.ndarray:
    """Pictures [..., 8H, 8W, 3] to tiles [..., H, W, 8, 8, 3]."""
    *batch, height, width, _ = picture.shape
    if height % TILE or width % TILE:
        raise UserError(f"a picture of {height} x {width} pixels cannot be cut into tiles of {TILE} x {TILE}")
    tiles = picture.reshape(*batch, height // TILE, TILE, width // TILE, TILE, 3)
    return np.swapaxes(tiles, -4, -3)


def _changed(way: str, rest: str, categories: tuple[str, ...]) -> Textures:
    kinds, _, look = rest.partition(":")
    chosen = kinds.split(",")
    unknown = [kind for kind in chosen if kind not in categories]
    if unknown or not look or (way == "two" and len(chosen) > 1) or look.startswith(("only:", "twins:", "two:")):
        raise UserError(f"'{way}:{rest}' is not understood: use {way}:KIND:LOOK with kinds out of {', '.join(categories)}")
    index = [categories.index(kind) for kind in chosen]
    new = load(look, categories)
    if way == "only":
        changed = load("source", categories)
        changed[index] = new[index]
        return changed
    if way == "twins":
        new[index] = new[index[0]]
        return new
    second = new.copy()
    second[index] = _random(int(new.sum()), 1, others=new)
    return np.stack([new, second])


def _picture(path: Path, behind: np.ndarray | None = None) -> np.ndarray:
    """A picture file as an 8 x 8 texture, laid over another where it is transparent."""
    if not path.is_file():
        raise UserError(f"{path} is missing: a look needs one PNG per category")
    try:
        with Image.open(path) as image:
            rgba = np.asarray(image.convert("RGBA").resize((TILE, TILE), Image.Resampling.BOX), np.float32)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise UserError(f"{path} is not a readable picture") from None
    alpha = rgba[..., 3:] / 255
    ground = np.zeros((TILE, TILE, 3), np.float32) if behind is None else behind.astype(np.float32)
    return np.round(alpha * rgba[..., :3] + (1 - alpha) * ground).astype(np.uint8)


def _source(categories: tuple[str, ...]) -> Textures:
    spec = importlib.util.find_spec("craftax")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("the source look needs the package craftax: pip install craftax")
    folder = Path(spec.submodule_search_locations[0]) / "craftax_classic" / "assets"
    unknown = [name for name in categories if name not in SOURCE_PICTURES]
    if unknown:
        raise UserError(f"there is no source picture for {', '.join(unknown)}")
    floor = _picture(folder / f"{SOURCE_PICTURES['floor']}.png")
    return np.stack([_picture(folder / f"{SOURCE_PICTURES[name]}.png", behind=floor) for name in categories])


# -- drawn in code ---------------------------------------------------------------------------------------------------------

# Eight rows of eight colour letters each.
PALETTE = {
    "k": (16, 12, 28), "p": (58, 24, 84), "v": (142, 60, 196), "g": (30, 160, 96), "y": (240, 224, 70),
    "c": (40, 220, 230), "w": (245, 245, 250), "r": (226, 40, 88), "b": (36, 64, 180), "o": (246, 138, 30),
}  # fmt: skip
DRAWINGS = {
    "floor": "pkppppkp kppppppp ppppkppp ppkppppp pppppppk ppppkppp kppppppp pppkpppp",  # night meadow
    "zombie": "pccccccp cwwccwwc cwkccwkc cccccccc cccccccc cccccccc cpccpccp cppccppc",  # ghost
    "agent": "pppyyppp ppyyyypp pyyyyyyp yyyrryyy yyyrryyy pyyyyyyp ppyyyypp pppyyppp",  # lantern
    "cow": "ppgggppp pgggggpp rrrrrrrr rwrrwrrw rrrrrrrr ppwwwwpp ppwwwwpp ppwwwwpp",  # toadstool
    "wall": "bbbobbbb bbbobbbb oooooooo bobbbbob bobbbbob oooooooo bbbobbbb bbbobbbb",  # tiles of blue glass
}


def _target(categories: tuple[str, ...]) -> Textures:
    unknown = [name for name in categories if name not in DRAWINGS]
    if unknown:
        raise UserError(f"the target look has no drawing of {', '.join(unknown)}; use random:<seed> or a folder")
    return np.array([[[PALETTE[pixel] for pixel in row] for row in DRAWINGS[name].split()] for name in categories], np.uint8)


def _random(seed: int, count: int, others: Textures | None = None) -> Textures:
    """Two-coloured mirrored patterns on random grounds, no two alike: mean distance per channel at least 40 of 255."""
    rng = np.random.default_rng([seed, 0x7E57])
    before = [] if others is None else list(others.astype(int))
    chosen: list[np.ndarray] = []
    while len(chosen) < count:
        colours = rng.integers(0, 256, (3, 3))
        half = rng.choice(3, (TILE, TILE // 2), p=rng.dirichlet((2, 2, 2)))
        texture = colours[np.concatenate([half, half[:, ::-1]], 1)]
        if all(abs(texture - other).mean() >= 40 for other in before + chosen):
            chosen.append(texture)
    return np.stack(chosen).astype(np.uint8)
