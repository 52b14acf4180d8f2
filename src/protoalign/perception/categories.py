"""o^c: which tiles look alike. No labels, and the number of looks is not given.

Two tiles of one kind differ by noise only. How much that is, the picture itself tells: most tiles have a twin, so the distance
to the nearest other tile is noise for most of them. The tiles of the first picture are joined into clusters, nearest first, as
long as they differ little more than that. Later tiles go to the nearest cluster, or found a new one if they are too far from
all.
"""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist


class Categories:
    """Looks met so far; tiles are [N, 8, 8, 3] uint8."""

    def __init__(self, tiles: np.ndarray):
        x = self._vectors(tiles)
        squares = cdist(x, x, "sqeuclidean")
        twin = (squares + np.diag(np.full(len(x), np.inf))).min(1)
        # Four in five tiles have a twin; 1.6 covers the spread of noise, the constant tiles that differ by a shade.
        self.limit = 1.6 * np.quantile(twin, 0.8) + 0.5
        labels = fcluster(linkage(x, "average"), np.sqrt(self.limit), "distance") - 1
        order = {label: i for i, label in enumerate(dict.fromkeys(labels))}  # numbered as they are met
        labels = np.array([order[label] for label in labels])
        self.centres = np.stack([x[labels == i].mean(0) for i in range(len(order))])
        self.examples = [tiles[labels == i][:16] for i in range(len(order))]

    def assign(self, tiles: np.ndarray) -> np.ndarray:
        """The category of each tile, [N]; new looks get new numbers."""
        x = self._vectors(tiles)
        squares = cdist(x, self.centres, "sqeuclidean")
        labels = squares.argmin(1)
        for i in np.flatnonzero(squares.min(1) > self.limit):
            known = ((self.centres - x[i]) ** 2).sum(1)  # another tile may have founded it just now
            labels[i] = known.argmin()
            if known.min() > self.limit:
                labels[i] = len(self.centres)
                self.centres = np.concatenate([self.centres, x[i : i + 1]])
                self.examples.append(tiles[i : i + 1])
        return labels

    def __len__(self) -> int:
        return len(self.centres)

    @staticmethod
    def _vectors(tiles: np.ndarray) -> np.ndarray:
        return np.asarray(tiles, np.float64).reshape(len(tiles), -1) / 255
