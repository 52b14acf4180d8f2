"""Boards to look at: grids of picture ids, drawn, with noise if wanted."""

import numpy as np

from protoalign import worlds
from protoalign.perception.tiles import join

HUNTER = worlds.make("hunter-z2c2")
LOOKS = ["target", *(f"random:{seed}" for seed in range(50))]


def board(seed: int = 0, kinds: int = 5, shape: tuple[int, int] = (8, 8)) -> np.ndarray:
    """Picture ids [H, W]: mostly the first, a frame of the last, and of the others two at least."""
    rng = np.random.default_rng(seed)
    grid = np.zeros(shape, int)
    inner = rng.permutation((shape[0] - 2) * (shape[1] - 2))
    for i, place in enumerate(inner[: 2 * (kinds - 2)]):
        grid[1 + place // (shape[1] - 2), 1 + place % (shape[1] - 2)] = 1 + i // 2
    grid[[0, -1]] = grid[:, [0, -1]] = kinds - 1
    return grid


def show(look: str, grid: np.ndarray, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """The picture of a grid of Hunter's ids [..., H, W]."""
    return noisy(join(HUNTER.pictures(look)[grid]), noise, seed)


def noisy(picture: np.ndarray, noise: float, seed: int = 0) -> np.ndarray:
    changed = picture + 255 * noise * np.random.default_rng(seed).normal(size=picture.shape)
    return np.clip(changed, 0, 255).astype(np.uint8)


def agree(codes: np.ndarray, truth: np.ndarray) -> bool:
    """Whether two grids are the same but for their numbers."""
    pairs = set(zip(codes.ravel().tolist(), truth.ravel().tolist(), strict=True))
    return len(pairs) == len(set(codes.ravel().tolist())) == len(set(truth.ravel().tolist()))
