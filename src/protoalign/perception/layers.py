"""Looks of things that lie over others: a creature shows the ground it stands on, so one kind looks different on every ground.

Tiles the novelty detector knows are what they are most like in the source. Of a new tile it is first found out which known
ground shows through it. The same thing on two grounds differs, pixel by pixel, by some share of what the grounds differ by,
whether it is transparent there, half so or not at all: if that explains all the difference between two new tiles, they are of
one type.
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
THROUGH = 2  # pixels of a tile that show a ground just as it is, at least, or it has none
STEPS = 10_000  # of the autoencoder: there are 83 tiles
CLOSE = 0.02  # apart in any pixel, at most, as a share of the full range


class Shape(NamedTuple):
    """A tile and the ground under it."""

    pixels: np.ndarray  # [8, 8, 3] float32, from 0 to 1
    ground: np.ndarray | None  # [8, 8, 3], if any shows through


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
            far = [min(apart(shape, other) for other in others) for others in self.shapes]
        else:
            far = [float(label != other) for other in self.labels]
            self.labels.extend([label] * (label not in self.labels))
        if not far or min(far) > CLOSE:
            self.shapes.append([])
            far.append(0.0)
        found = int(np.argmin(far))
        self.shapes[found].append(shape)
        return found

    def shape(self, tile: np.ndarray) -> Shape:
        pixels = tile.astype(np.float32) / 255
        through = np.all(abs(pixels - self.home.grounds) < 0.01, axis=-1).sum((1, 2))  # [grounds]
        return Shape(pixels, self.home.grounds[through.argmax()] if through.max() >= THROUGH else None)


def apart(one: Shape, other: Shape) -> float:
    """How far two tiles are from being one thing on two grounds, by the pixel that fits worst."""
    difference = one.pixels - other.pixels
    if one.ground is not None and other.ground is not None:
        grounds = one.ground - other.ground
        share = (difference * grounds).sum(-1) / np.maximum((grounds**2).sum(-1), 1e-6)
        difference = difference - np.clip(share, 0, 1)[..., None] * grounds
    return float(abs(difference).mean(-1).max())
