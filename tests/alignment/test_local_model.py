"""Views that move or turn are laid over each other by what they show."""

import numpy as np
import pytest

from protoalign.alignment.local_model import in_place
from protoalign.rl.networks import Scene

OUTSIDE = 9
VIEW = Scene((7, 7), 5, 4, 0, 6 * 7 + 3)  # the agent in the middle of the last row


def view(world, row, column, turns):
    """What is seen at a place of a world [S, S], turned so many quarters."""
    marked = np.zeros(world.shape, bool)
    marked[row, column] = True
    ((r, c),) = np.argwhere(np.rot90(marked, turns))
    return np.rot90(world, turns)[r - 6 : r + 1, c - 3 : c + 4]


@pytest.mark.parametrize(
    ("row", "column", "turns", "left"),
    [(15, 15, 0, 49), (14, 15, 0, 42), (15, 16, 0, 42), (15, 15, 1, 16), (15, 15, 3, 16)],
)
def test_views_that_move_or_turn(row, column, turns, left):
    world = np.random.default_rng(0).integers(0, 5, (30, 30))
    before = view(world, 15, 15, 0)
    found = in_place(before[None], view(world, row, column, turns)[None], VIEW, OUTSIDE)[0]
    in_sight = found != OUTSIDE
    assert in_sight.sum() == left
    np.testing.assert_array_equal(found[in_sight], before[in_sight])


def test_a_change_in_a_symmetric_view_is_no_turn():
    before = np.zeros((7, 7), int)
    before[3, 3] = 2  # a door straight ahead
    after = before.copy()
    after[3, 3] = 3
    np.testing.assert_array_equal(in_place(before[None], after[None], VIEW, OUTSIDE)[0], after)
