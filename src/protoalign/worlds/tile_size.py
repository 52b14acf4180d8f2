"""The size of the tiles that pictures are made of, found from some pictures."""

from collections import Counter

import numpy as np

from protoalign.errors import UserError
from protoalign.worlds.looks import cut
from protoalign.worlds.tile_dictionary import MOST

SMALLEST = 4  # pixels of a tile
LARGEST = 4096  # tiles of a picture
SIDE = 30.0  # bits that each different tile costs for each pixel of its longer side: large ones can be told in fewer for each
MOVED = 1.1  # times as many tiles must differ, at least, where pictures are cut between the tiles


def find_tile(pictures: list[np.ndarray]) -> tuple[int, int]:
    """The size (h, w) of tiles by which pictures [H, W, 3] uint8, all of one size, are told in the fewest bits: larger tiles
    are fewer, but more of them are different, and what is frequent is told in fewer bits. A picture has two tiles at least."""
    height, width = pictures[0].shape[:2]
    found, fewest = None, np.inf
    for tile in [(h, w) for h in _divisors(height) for w in _divisors(width)][:-1]:  # the last one is the whole picture
        area, bits = tile[0] * tile[1], 0.0
        if height * width > LARGEST * area:
            continue
        kinds = Counter[bytes]()
        for picture in pictures:
            kinds.update(_marks(picture, tile))
            n = np.array([*kinds.values()])
            bits = SIDE * len(kinds) * max(tile) + float(n @ np.log2(n.sum() / n))
            if len(kinds) > MOST or bits >= fewest:
                break
        else:
            found, fewest = tile, bits
    if found is None:
        raise UserError(
            f"no tile size was found by which pictures of {height} x {width} pixels are made of at most {MOST} different "
            "tiles: give it with tile= (--tile), cut a border off with crop=, or use an environment that draws on a grid"
        )
    if _anywhere(pictures, found):
        raise UserError(
            f"pictures of {height} x {width} pixels are made of as few different pieces wherever they are cut: things move by "
            "pixels, not from tile to tile; give the tile size with tile= (--tile), or use an environment that draws on a grid"
        )
    return found


def _anywhere(pictures: list[np.ndarray], tile: tuple[int, int]) -> bool:
    """Whether hardly more tiles differ if pictures [H, W, 3] are cut half a tile farther down and to the right."""
    edges = [(n // 2, n - n // 2) if length > n else (0, 0) for n, length in zip(tile, pictures[0].shape[:2], strict=True)]
    (top, bottom), (left, right) = edges
    moved = [picture[top : len(picture) - bottom, left : picture.shape[1] - right] for picture in pictures]
    here, there = (len({mark for picture in some for mark in _marks(picture, tile)}) for some in (pictures, moved))
    return here > 1 and there < MOVED * here


def _marks(picture: np.ndarray, tile: tuple[int, int]) -> list[bytes]:
    return [square.tobytes() for square in cut(picture, tile).reshape(-1, *tile, 3)]


def _divisors(length: int) -> list[int]:
    return [size for size in range(SMALLEST, length + 1) if length % size == 0]
