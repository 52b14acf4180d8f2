"""o^c: the category of each tile, found by looks alone (`Clusters`) or told by an oracle (`Labelled`).

By looks there are no labels, and the number of categories is not given. Two tiles of one kind differ by noise only. How much
that is, the picture itself tells: most tiles have a twin, so the distance to the nearest other tile is noise for most of them.
The tiles of the first picture are joined into clusters, nearest first, as long as they differ little more than that. Later
tiles go to the nearest cluster, or found a new one if they are too far from all.
"""

from typing import Protocol

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist

from protoalign.envs.appearance import TILE

EXAMPLES = 16  # tiles kept of each category


class Categories(Protocol):
    """Categories met so far; tiles are [N, 8, 8, 3] uint8."""

    centres: np.ndarray  # [P, 192], mean looks, 0 to 1
    examples: list[np.ndarray]  # of each, some tiles

    def assign(self, tiles: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """The category of each tile, [N]; new ones get new numbers."""
        ...

    def __len__(self) -> int: ...


class Labelled:
    """Categories by labels, which mean nothing here but sameness. They are numbered as they are met."""

    def __init__(self) -> None:
        self.centres = np.zeros((0, TILE * TILE * 3))
        self.examples: list[np.ndarray] = []
        self.number: dict[int, int] = {}

    def assign(self, tiles: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        assert labels is not None
        flat = np.asarray(labels).ravel().tolist()
        for label in flat:
            if label not in self.number:
                self.number[label] = len(self.number)
                same = tiles[np.array(flat) == label]
                self.examples.append(same[:EXAMPLES])
                self.centres = np.concatenate([self.centres, _vectors(same).mean(0, keepdims=True)])
        return np.array([self.number[label] for label in flat])

    def __len__(self) -> int:
        return len(self.centres)


class Clusters:
    """Categories by looks."""

    def __init__(self, tiles: np.ndarray):
        x = _vectors(tiles)
        squares = cdist(x, x, "sqeuclidean")
        twin = (squares + np.diag(np.full(len(x), np.inf))).min(1)
        # Four in five tiles have a twin; 1.6 covers the spread of noise, the constant tiles that differ by a shade.
        self.limit = 1.6 * np.quantile(twin, 0.8) + 0.5
        labels = fcluster(linkage(x, "average"), np.sqrt(self.limit), "distance") - 1
        order = {label: i for i, label in enumerate(dict.fromkeys(labels))}  # numbered as they are met
        labels = np.array([order[label] for label in labels])
        self.centres = np.stack([x[labels == i].mean(0) for i in range(len(order))])
        self.examples = [tiles[labels == i][:EXAMPLES] for i in range(len(order))]

    def assign(self, tiles: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        x = _vectors(tiles)
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


def _vectors(tiles: np.ndarray) -> np.ndarray:
    return np.asarray(tiles, np.float64).reshape(len(tiles), -1) / 255
