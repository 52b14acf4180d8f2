"""Centres: what tiles that were met look like, on average, and how the light of a picture differs from theirs."""

import numpy as np

from protoalign.perception.tiles import Tile

SHADE = 0.5 / 192  # square distance per value of tiles that differ by a shade
GUESSES = 8  # tiles of a picture that suggest a change of light
TRIED = 128  # changes of light that are tried, at most
MANY = 256  # pictures levelled in one go


class Centres:
    """K centres, mean vectors of tiles with n = h*w*3 values from 0 to 1."""

    def __init__(self, tile: Tile):
        self.pixels = tile[0] * tile[1]
        self.vectors = np.zeros((0, 3 * self.pixels))  # [K, n]
        self.limit = SHADE * 3 * self.pixels  # square distance from a centre within which tiles are alike

    def __len__(self) -> int:
        return len(self.vectors)

    def add(self, vector: np.ndarray) -> None:
        """A centre more, [n]."""
        self.vectors = np.concatenate([self.vectors, vector.reshape(1, -1)])

    def widen(self, spread: float) -> None:
        """Tiles that are this far apart, and a shade, are alike."""
        self.limit = max(self.limit, SHADE * 3 * self.pixels + spread)

    def squares(self, x: np.ndarray) -> np.ndarray:
        """Square distances [..., K] of vectors [..., n] from the centres."""
        return (x**2).sum(-1)[..., None] - 2 * x @ self.vectors.T + (self.vectors**2).sum(1)

    def level(self, x: np.ndarray) -> np.ndarray:
        """Tiles of pictures [B, N, n], changes of light undone where there are tiles that fit no centre."""
        if not len(self):
            return x
        x = x.copy()
        for start in range(0, len(x), MANY):
            some = x[start : start + MANY]
            odd = np.flatnonzero((self.squares(some).min(-1) > self.limit).any(1))
            if len(odd):
                some[odd] -= np.tile(self.shift(some[odd]), self.pixels)
        return x

    def shift(self, x: np.ndarray) -> np.ndarray:
        """The change of each channel [B, 1, 3] under which most tiles of pictures [B, N, n] fit; 0 if it does not matter."""
        squares = self.squares(x)  # [B, N, K]
        colour = x.reshape(*x.shape[:2], self.pixels, 3).mean(2)[:, :, None] - self.vectors.reshape(-1, self.pixels, 3).mean(1)
        chosen = np.linspace(0, x.shape[1] - 1, GUESSES).astype(int)
        guesses = colour[:, chosen].reshape(len(x), -1, 3)  # [B, G, 3]
        if guesses.shape[1] > TRIED:  # those by which a tile comes nearest to a centre
            left = (squares - self.pixels * (colour**2).sum(-1))[:, chosen].reshape(len(x), -1)
            best = np.sort(np.argpartition(left, TRIED, 1)[:, :TRIED], 1)
            guesses = np.take_along_axis(guesses, best[..., None], 1)
        guesses = np.concatenate([np.zeros((len(x), 1, 3)), guesses], 1)
        cost = []
        for g in range(guesses.shape[1]):  # |tile - shift - centre|^2, multiplied out
            s = guesses[:, g, None, None]
            moved = squares - 2 * self.pixels * (s * colour).sum(-1) + self.pixels * (s**2).sum(-1)
            cost.append(np.minimum(moved.min(-1), self.limit).sum(1))
        best = np.argmin(np.stack(cost, 1), 1)
        return guesses[np.arange(len(x)), best][:, None]
