"""The size of the tiles that pictures are made of, found from some pictures."""

import numpy as np

from protoalign.errors import UserError
from protoalign.worlds.looks import cut
from protoalign.worlds.tile_dictionary import MOST

SMALLEST = 4  # pixels of a tile
LARGEST = 4096  # tiles of a picture
SIDE = 30.0  # bits that each different tile costs for each pixel of its side: large ones can be told in fewer for each pixel


def find_tile(pictures: list[np.ndarray]) -> tuple[int, int]:
    """The size (h, w) of tiles by which pictures [H, W, 3] uint8, all of one size, are told in the fewest bits: larger tiles
    are fewer, but more of them are different. Square tiles come first; others only if no square divides the pictures."""
    height, width = pictures[0].shape[:2]
    rows, columns = _divisors(height), _divisors(width)
    sizes = [(h, h) for h in rows if h in columns] or [(h, w) for h in rows for w in columns]
    sizes = [tile for tile in sizes if height * width <= LARGEST * tile[0] * tile[1]]
    bits = {}
    for tile in sizes:
        kinds: set[bytes] = set()
        for picture in pictures:
            kinds.update(square.tobytes() for square in cut(picture, tile).reshape(-1, *tile, 3))
            if len(kinds) > MOST:
                break
        else:
            tiles = len(pictures) * height * width // (tile[0] * tile[1])
            bits[tile] = SIDE * len(kinds) * (tile[0] * tile[1]) ** 0.5 + tiles * float(np.log2(max(len(kinds), 2)))
    if not bits:
        raise UserError(
            f"no tile size was found by which pictures of {height} x {width} pixels are made of at most {MOST} different "
            "tiles: give it with tile= (--tile), cut a border off with crop=, or use an environment that draws on a grid"
        )
    return min(bits, key=lambda tile: bits[tile])


def _divisors(length: int) -> list[int]:
    """Sizes that divide a length into two tiles at least."""
    return [size for size in range(SMALLEST, length // 2 + 1) if length % size == 0]
