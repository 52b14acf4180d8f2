"""Pictures to tiles: checking a picture, cutting it up, and finding the different tiles among many.

A picture is [..., H*h, W*w, 3] uint8: a grid of H x W tiles of h x w pixels each, of any size.
"""

import math
from typing import Any

import numpy as np

from protoalign.errors import UserError
from protoalign.worlds.looks import cut as cut

Tile = tuple[int, int]  # height and width of a tile in pixels


def check_picture(picture: Any) -> np.ndarray:
    """The picture as an array; a UserError if it is not [..., height, width, 3] uint8."""
    array = np.asarray(picture)
    if array.ndim < 3 or array.shape[-1] != 3:
        raise UserError(f"a picture must have shape [height, width, 3], not {list(array.shape)}")
    if array.dtype != np.uint8:
        seen = f"{array.dtype} values"
        if array.size and np.issubdtype(array.dtype, np.number):
            seen += f" from {array.min():g} to {array.max():g}"
        raise UserError(f"a picture must be uint8, from 0 to 255, but this one has {seen}")
    return array


def join(tiles: np.ndarray) -> np.ndarray:
    """Tiles [..., H, W, h, w, 3] to pictures [..., H*h, W*w, 3]: what `cut` undoes."""
    *batch, rows, columns, h, w, channels = tiles.shape
    return np.swapaxes(tiles, -4, -3).reshape(*batch, rows * h, columns * w, channels)


def distinct(tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different ones [D, h, w, 3] among tiles [..., h, w, 3] uint8, in the order they occur, and which each is, [...] int.

    Tiles are told apart by 64-bit marks, so that a million take about a second. A chance that two different tiles of a picture
    have one mark is below one in a billion, and whether they have is the same in every run.
    """
    batch, size = tiles.shape[:-3], math.prod(tiles.shape[-3:])
    flat = np.ascontiguousarray(tiles).reshape(-1, size)
    _, first, which = np.unique(_marks(flat), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return flat[first[order]].reshape(-1, *tiles.shape[-3:]), rank[which.reshape(-1)].reshape(batch)


def vectors(tiles: np.ndarray) -> np.ndarray:
    """Tiles [..., h, w, 3] uint8 as vectors [..., h*w*3] float64 from 0 to 1."""
    return np.asarray(tiles, np.float64).reshape(*tiles.shape[:-3], math.prod(tiles.shape[-3:])) / 255


def as_tiles(vectors: np.ndarray, tile: Tile) -> np.ndarray:
    """Vectors [..., h*w*3] from 0 to 1 as tiles [..., h, w, 3] uint8."""
    return np.clip(np.round(vectors * 255), 0, 255).astype(np.uint8).reshape(*vectors.shape[:-1], *tile, 3)


def _marks(flat: np.ndarray) -> np.ndarray:
    """A number for every row of bytes [N, size] uint8, equal for equal rows: [N] uint64.

    The rows are read as 32-bit words and multiplied by random 64-bit numbers, so that even words that differ in their highest
    bits only leave forty random bits of difference.
    """
    size = flat.shape[1]
    if size % 4:
        flat = np.pad(flat, ((0, 0), (0, -size % 4)))
    words = flat.view(np.uint32)
    factors = np.random.default_rng(0).integers(0, 2**63, words.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    marks = np.empty(len(words), np.uint64)
    for start in range(0, len(words), 1 << 16):  # in parts, to save memory
        part = slice(start, start + (1 << 16))
        marks[part] = words[part].astype(np.uint64) @ factors
    return marks
