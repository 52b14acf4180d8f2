"""f_cls (section 4.3): a small classifier from a tile's pixels to its code, PCA and a linear SVM, for noisy pictures.

Both are linear, so what is kept of them is one matrix.
"""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.svm import LinearSVC

from protoalign.perception.tiles import vectors

COMPONENTS = 8


class TileClassifier:
    def __init__(self, tiles: np.ndarray, codes: np.ndarray):
        """From tiles [N, h, w, 3] uint8 and their codes [N]."""
        self.codes = np.unique(codes).astype(np.int32)  # [K]
        x = vectors(tiles)
        self.matrix, self.bias = np.zeros((x.shape[1], len(self.codes))), np.zeros(len(self.codes))
        if len(self.codes) == 1:
            return
        pca = PCA(min(COMPONENTS, *x.shape, len(x) - 1), random_state=0)
        svm = LinearSVC(random_state=0, max_iter=20_000).fit(pca.fit_transform(x), codes)
        matrix = pca.components_.T @ svm.coef_.T
        bias = svm.intercept_ - pca.mean_ @ matrix
        if len(self.codes) == 2:  # one number then tells them apart
            self.matrix[:, 1:], self.bias[1:] = matrix, bias
        else:
            self.matrix, self.bias = matrix, bias

    def __call__(self, tiles: np.ndarray) -> np.ndarray:
        """The codes [N] int32 of tiles [N, h, w, 3]."""
        return self.codes[(vectors(tiles) @ self.matrix + self.bias).argmax(1)]

    def save(self) -> dict[str, np.ndarray]:
        return {"codes": self.codes, "matrix": self.matrix, "bias": self.bias}

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray]) -> "TileClassifier":
        """What was saved."""
        classifier = cls.__new__(cls)
        classifier.codes, classifier.matrix, classifier.bias = arrays["codes"], arrays["matrix"], arrays["bias"]
        return classifier
