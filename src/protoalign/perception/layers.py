"""Looks of things that lie over others: a creature shows the ground it stands on, so one kind looks different on every ground.

Tiles the novelty detector knows are what they are most like in the source. A new tile is first freed of its ground: where it
shows a known ground's pixels, it is transparent. Two new tiles are of one type if what is left of them is the same.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from protoalign.envs import appearance
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import CATEGORY_NAMES, MATERIALS
from protoalign.perception import novelty
from protoalign.perception.novelty import NoveltyDetector

GROUNDS = ("grass", "sand", "path", "water", "lava")  # that things lie on
THROUGH = 0.25  # so much of a tile shows its ground, or it has none
ALIKE = 0.75  # so much of two shapes, taken together, is in both, with colours that are
STEPS = 10_000  # of the autoencoder: there are 83 tiles
CLOSE = 0.1  # apart on average, at most, as a share of the full range


class Shape(NamedTuple):
    """A tile without its ground."""

    mask: np.ndarray  # [8, 8] bool
    pixels: np.ndarray  # [8, 8, 3] float32, from 0 to 1


class Home:
    """Every tile there is in the source world, and an autoencoder that knows them."""

    def __init__(self, rng: np.random.Generator):
        every = sprites.atlas(sprites.load("source"))  # [pictures, materials, 8, 8, 3]
        materials = len(MATERIALS)
        on = [MATERIALS.index(name) for name in GROUNDS]
        tiles = np.concatenate([every[:materials, 0], every[materials:, on].reshape(-1, *every.shape[2:])])
        category = np.concatenate([np.arange(materials), np.repeat(sprites.CATEGORY_OF[materials:], len(on))])
        self.tiles, first = np.unique(tiles, axis=0, return_index=True)
        self.category = category[first].astype(np.uint8)
        self.detector: NoveltyDetector = novelty.train(self.tiles, rng, STEPS)
        self.grounds = every[on, 0].astype(np.float32) / 255

    def nearest(self, tiles: np.ndarray) -> np.ndarray:
        """The category of the source tile that each [N, 8, 8, 3] is most like."""
        flat, known = (x.reshape(len(x), -1).astype(np.float32) for x in (tiles, self.tiles))
        return self.category[((known**2).sum(1) - 2 * flat @ known.T).argmin(1)]


@dataclass
class Looks:
    """Tiles to codes: categories of those known at home, and types of the others, numbered as they are met."""

    home: Home
    shapes: list[list[Shape]] = field(default_factory=list)  # by type, one per different tile
    codes: dict[bytes, int] = field(default_factory=dict)  # of tiles met before
    labels: list[int] | None = None  # of types, if new tiles are put together by the target's labels and not by their looks

    def __len__(self) -> int:
        """Types met."""
        return len(self.shapes)

    def __call__(self, picture: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """A picture [8H, 8W, 3] to codes [H, W] int; `labels` [H, W] are looked at only if `self.labels` is a list."""
        cut = appearance.cut(picture)
        height, width = cut.shape[:2]
        tiles = cut.reshape(height * width, -1)
        given = np.zeros(len(tiles), int) if labels is None else np.asarray(labels).reshape(-1)
        return np.array([self.code(*pair) for pair in zip(tiles, given, strict=True)]).reshape(height, width)

    def code(self, tile: np.ndarray, label: int = 0) -> int:
        mark = tile.tobytes()
        if mark not in self.codes:
            picture = tile.reshape(1, sprites.TILE, sprites.TILE, 3)
            new = bool(self.home.detector.unseen(picture)[0])
            known = int(self.home.nearest(picture)[0])
            self.codes[mark] = len(CATEGORY_NAMES) + self.type_of(picture[0], int(label)) if new else known
        return self.codes[mark]

    def type_of(self, tile: np.ndarray, label: int) -> int:
        shape = self.shape(tile)
        if self.labels is None:
            fits = [max(alike(shape, other) for other in others) for others in self.shapes]
        else:
            fits = [float(label == other) for other in self.labels]
            self.labels.extend([label] * (label not in self.labels))
        if not fits or max(fits) < ALIKE:
            self.shapes.append([])
            fits.append(1.0)
        found = int(np.argmax(fits))
        self.shapes[found].append(shape)
        return found

    def shape(self, tile: np.ndarray) -> Shape:
        pixels = tile.astype(np.float32) / 255
        through: np.ndarray = np.all(abs(pixels - self.home.grounds) < 0.01, axis=-1)  # [grounds, 8, 8]
        best = through.mean((1, 2)).argmax()
        mask = ~through[best] if through[best].mean() >= THROUGH else np.ones_like(through[best])
        return Shape(mask, pixels)


def alike(one: Shape, other: Shape) -> float:
    """How much two shapes overlap, 0 if their colours differ there."""
    both, either = one.mask & other.mask, one.mask | other.mask
    if not both.any() or abs(one.pixels - other.pixels)[both].mean() > CLOSE:
        return 0.0
    return float(both.sum() / either.sum())
