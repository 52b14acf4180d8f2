import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoalign import UserError
from protoalign.perception.tiles import as_tiles, check_picture, cut, distinct, join, vectors


@given(h=st.integers(1, 9), w=st.integers(1, 9), rows=st.integers(1, 5), columns=st.integers(1, 5), batch=st.integers(0, 3))
def test_a_picture_is_its_tiles(h, w, rows, columns, batch):
    rng = np.random.default_rng(h + 10 * w)
    tiles = rng.integers(0, 256, (batch, rows, columns, h, w, 3)).astype(np.uint8)
    np.testing.assert_array_equal(cut(join(tiles), (h, w)), tiles)
    np.testing.assert_array_equal(as_tiles(vectors(tiles), (h, w)), tiles)


@given(h=st.integers(1, 9), w=st.integers(1, 9), count=st.integers(1, 40), shades=st.integers(1, 4))
def test_different_tiles(h, w, count, shades):
    tiles = np.random.default_rng(count).integers(0, shades, (2, count, h, w, 3)).astype(np.uint8)
    different, which = distinct(tiles)
    np.testing.assert_array_equal(different[which], tiles)
    assert len(np.unique(different, axis=0)) == len(different)
    assert list(dict.fromkeys(which.ravel().tolist())) == list(range(len(different))), "in the order they occur"


def test_tiles_that_differ_in_high_bits_only_are_different():
    tiles = np.zeros((4096, 8, 8, 3), np.uint8)
    places = np.arange(3, 192, 4)
    for i in range(4096):
        tiles[i].ravel()[places[[i % 48, i // 48 % 48]]] = 128
        tiles[i].ravel()[0] = i // 48 // 48
    assert len(distinct(tiles)[0]) == len(np.unique(tiles.reshape(4096, -1), axis=0))


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        (np.full((8, 8, 3), 0.5), "float64 values from 0.5 to 0.5"),
        (np.zeros((8, 8, 3), np.int64), "int64 values from 0 to 0"),
        (np.zeros((8, 8, 4), np.uint8), r"not \[8, 8, 4\]"),
        (np.zeros((8, 8), np.uint8), r"not \[8, 8\]"),
        (np.array(["a"] * 3).reshape(1, 1, 3), "values"),
        (np.zeros((0, 8, 3)), "float64 values"),
    ],
)
def test_what_is_no_picture(picture, said):
    with pytest.raises(UserError, match=said):
        check_picture(picture)


@pytest.mark.parametrize("shape", [(17, 16, 3), (16, 12, 3), (0, 16, 3)])
def test_what_cannot_be_cut(shape):
    with pytest.raises(UserError, match="cannot be cut into tiles of 8 x 8"):
        cut(np.zeros(shape, np.uint8), (8, 8))
