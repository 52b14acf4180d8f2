"""o^c: the category of each tile, found by looks alone (`Clusters`) or told by an oracle (`Labelled`).

By looks there are no labels, and the number of categories is not given. Two tiles of one kind differ by noise only. How much
that is, the picture itself tells: most tiles have a twin, so the distance to the nearest other tile is noise for most of them.
The tiles of the first picture are joined into clusters, nearest first, as long as they differ little more than that. Later
tiles go to the nearest cluster, or found a new one if they are too far from all.

The light may change from picture to picture. If many tiles of a picture fit nothing, but would if all were a shade lighter or
redder, the picture is taken to be so (`level`).
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist

from protoalign.envs.appearance import TILE

EXAMPLES = 16  # tiles kept of each category
PIXELS = TILE * TILE
MOST = 16  # categories told apart by looks; where light or noise makes more, tiles go to the nearest
GUESSES = 8  # tiles of a picture that suggest a change of light


class Categories(ABC):
    """Categories met so far. The tiles of a picture are [N, 8, 8, 3] uint8."""

    def __init__(self) -> None:
        self.centres = np.zeros((0, 3 * PIXELS))  # [P, 192], mean looks, 0 to 1
        self.examples: list[np.ndarray] = []  # of each, some tiles [n, 8, 8, 3] uint8
        self.limit = 0.5  # square distance from a centre within which tiles are alike

    def __len__(self) -> int:
        return len(self.centres)

    @abstractmethod
    def assign(self, tiles: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """The category of each tile of one picture, [N]; new ones get new numbers."""

    def add(self, vectors: np.ndarray) -> None:
        """A new category, from some of its tiles [n, 192]."""
        self.centres = np.concatenate([self.centres, vectors.mean(0, keepdims=True)])
        self.examples.append(as_tiles(vectors[:EXAMPLES]))

    def level(self, pictures: np.ndarray) -> np.ndarray:
        """Tiles of pictures [B, N, 8, 8, 3] as vectors [B, N, 192], changes of light undone."""
        x = _vectors(pictures)
        if not len(self):
            return x
        for part in range(0, len(x), 256):
            some = x[part : part + 256]
            squares = self._squares(some)
            odd = np.flatnonzero((squares.min(-1) > self.limit).any(1))
            if len(odd):
                some[odd] -= np.tile(self._shift(some[odd], squares[odd]), PIXELS)
        return x

    def fits(self, tiles: np.ndarray) -> np.ndarray:
        """Whether tiles [..., 8, 8, 3] look like any category, [...] bool."""
        return self._squares(_vectors(tiles)).min(-1) <= self.limit

    def _squares(self, x: np.ndarray) -> np.ndarray:
        """Square distances [..., P] of vectors [..., 192] from the centres."""
        return (x**2).sum(-1)[..., None] - 2 * x @ self.centres.T + (self.centres**2).sum(1)

    def _shift(self, x: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """The change of each channel [B, 1, 3] under which most tiles fit; none if it does not matter."""
        colour = x.reshape(*x.shape[:2], PIXELS, 3).mean(2)[:, :, None] - self.centres.reshape(-1, PIXELS, 3).mean(
            1
        )  # [B, N, P, 3]
        chosen = colour[:, np.linspace(0, x.shape[1] - 1, GUESSES).astype(int)].reshape(len(x), -1, 3)
        guesses = np.concatenate([np.zeros((len(x), 1, 3)), chosen], 1)  # [B, G, 3]
        cost = []
        for g in range(guesses.shape[1]):  # |tile - shift - centre|^2, multiplied out
            s = guesses[:, g, None, None]
            moved = squares - 2 * PIXELS * (s * colour).sum(-1) + PIXELS * (s**2).sum(-1)
            cost.append(np.minimum(moved.min(-1), self.limit).sum(1))
        best = np.argmin(np.stack(cost, 1), 1)
        return guesses[np.arange(len(x)), best][:, None]


class Labelled(Categories):
    """Categories by labels, which mean nothing here but sameness. They are numbered as they are met."""

    def __init__(self) -> None:
        super().__init__()
        self.number: dict[int, int] = {}

    def assign(self, tiles: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        assert labels is not None
        flat = np.asarray(labels).ravel().tolist()
        x = self.level(tiles[None])[0]
        for label in dict.fromkeys(flat):
            if label not in self.number:
                self.number[label] = len(self.number)
                same = x[np.array(flat) == label]
                self.add(same)
                self.limit = max(self.limit, 0.5 + 1.6 * ((same - self.centres[-1]) ** 2).sum(1).mean())
        return np.array([self.number[label] for label in flat])


class Clusters(Categories):
    """Categories by looks."""

    def __init__(self, tiles: np.ndarray):
        super().__init__()
        x = _vectors(tiles)
        squares = cdist(x, x, "sqeuclidean")
        twin = (squares + np.diag(np.full(len(x), np.inf))).min(1)
        # Four in five tiles have a twin; 1.6 covers the spread of noise, the constant tiles that differ by a shade.
        self.limit = 1.6 * np.quantile(twin, 0.8) + 0.5
        labels = fcluster(linkage(x, "average"), np.sqrt(self.limit), "distance")
        for label in dict.fromkeys(labels):  # numbered as they are met
            self.add(x[labels == label])

    def assign(self, tiles: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        x = self.level(tiles[None])[0]
        squares = cdist(x, self.centres, "sqeuclidean")
        found = squares.argmin(1)
        for i in np.flatnonzero(squares.min(1) > self.limit):
            known = ((self.centres - x[i]) ** 2).sum(1)  # another tile may have founded it just now
            found[i] = known.argmin()
            if known.min() > self.limit and len(self) < MOST:
                found[i] = len(self)
                self.add(x[i : i + 1])
        return found


def _vectors(tiles: np.ndarray) -> np.ndarray:
    return np.asarray(tiles, np.float64).reshape(*tiles.shape[:-3], -1) / 255


def as_tiles(vectors: np.ndarray) -> np.ndarray:
    """Vectors [..., 192] of tiles, 0 to 1, as tiles [..., 8, 8, 3] uint8."""
    return np.clip(np.round(vectors * 255), 0, 255).astype(np.uint8).reshape(*vectors.shape[:-1], TILE, TILE, 3)
