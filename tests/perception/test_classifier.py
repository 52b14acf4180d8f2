import numpy as np

from protoalign.perception.classifier import TileClassifier
from protoalign.perception.tiles import cut
from tests.perception.boards import board, show


def test_it_tells_tiles_apart_and_stands_noise():
    def tiles(seed, noise):
        return cut(show("random:7", board(seed), noise, seed), (8, 8)).reshape(-1, 8, 8, 3)

    truth = board(0).ravel() + 300
    classify = TileClassifier(tiles(0, 0.05), truth)
    assert (classify(tiles(9, 0.1)) == board(9).ravel() + 300).mean() > 0.98
    kept = TileClassifier.load(classify.save())
    np.testing.assert_array_equal(kept(tiles(9, 0.1)), classify(tiles(9, 0.1)))
    two = np.isin(truth, [300, 304])
    assert (TileClassifier(tiles(0, 0.05)[two], truth[two])(tiles(0, 0.1)[two]) == truth[two]).all()
    assert (TileClassifier(tiles(0, 0.05)[:3], np.array([2, 2, 2]))(tiles(9, 0.1)) == 2).all()
