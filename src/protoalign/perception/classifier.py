"""f_cls (section 4.3): a small classifier from a tile's pixels to its prototype, PCA and a linear SVM."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

COMPONENTS = 8


class TileClassifier:
    def __init__(self, tiles: np.ndarray, prototypes: np.ndarray):
        """From tiles [N, 8, 8, 3] and their prototypes [N]."""
        self.only = int(prototypes[0]) if len(set(prototypes.tolist())) == 1 else None
        self.pipeline: Pipeline | None = None
        if self.only is None:
            components = min(COMPONENTS, len(tiles) - 1)
            self.pipeline = make_pipeline(PCA(components, random_state=0), LinearSVC(random_state=0, max_iter=20_000))
            self.pipeline.fit(self._vectors(tiles), prototypes)

    def __call__(self, tiles: np.ndarray) -> np.ndarray:
        if self.pipeline is None:
            return np.full(len(tiles), self.only)
        return self.pipeline.predict(self._vectors(tiles))

    @staticmethod
    def _vectors(tiles: np.ndarray) -> np.ndarray:
        return np.asarray(tiles, np.float64).reshape(len(tiles), -1) / 255
