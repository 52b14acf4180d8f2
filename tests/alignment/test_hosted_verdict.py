"""What is said of a mapping into a hosted world, in result.json and as it is printed."""

import numpy as np
import pytest

from protoalign.alignment.hosted_verdict import judge
from protoalign.alignment.mapping import Draws, Mapping
from protoalign.perception.tile_types import TileTypes
from protoalign.perception.vocabulary import Vocabulary
from protoalign.report.result import Result
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.reskin import Reskin
from tests.worlds.rooms import Rooms

PICTURES = Rooms().pictures


def judged(truth, names, swap):
    """The rows that are printed of what is met on a redrawn board, the prototypes `swap` taken for each other; and what the
    judge said."""
    world = GymWorld(Rooms, 4, truth=truth)
    target = Reskin(world.make(), seed=1)
    vocabulary = Vocabulary.each(PICTURES, np.ones(7, int))
    types = TileTypes(vocabulary, exact=world.tile)
    types.see(target.reset(seed=0)[0])
    taken = np.array([(target.origin(picture) == PICTURES).all((1, 2, 3)).argmax() for picture in types.pictures])
    assert set(swap) <= set(taken.tolist())
    taken = np.where(taken == swap[0], swap[1], np.where(taken == swap[1], swap[0], taken))
    met = len(types)
    draws = Draws(taken[None].astype(np.int32), np.zeros(1, np.float32), taken.astype(np.int32), np.ones(met, bool))
    facts = "Rooms", names, tuple(range(7)), vocabulary, types, np.zeros((met, 7)), np.zeros(7, bool), np.zeros(7)
    found = judge(Mapping(*facts, 0, (), draws=draws), target, world, "random:1")
    return Result(found).rows, found["mapping"]


def test_where_nothing_has_a_name_what_is_wrong_is_printed_so():
    rows, said = judged(None, tuple(f"prototype {c}" for c in range(7)), (1, 2))
    assert [row.right for row in rows] == [row["right"] for row in said]
    assert {(row.true, row.found) for row in rows if not row.right} == {
        ("prototype 1", "prototype 2"),
        ("prototype 2", "prototype 1"),
    }


@pytest.mark.parametrize("swap", [(0, 1), (2, 3)])
def test_pictures_without_a_name_keep_their_number(swap):
    """Floor and wall are nameless; lava and gold are both called a field."""
    shown = dict(zip((p.tobytes() for p in PICTURES), (None, None, "field", "field", "agent", "agent", None), strict=True))
    names = ("picture 0", "picture 1", "field", "field 2", "agent", "agent 2", "picture 6")
    rows, said = judged(lambda look, tile: shown[tile.tobytes()], names, swap)
    assert [row.right for row in rows] == [row["right"] for row in said]
    one, other = (names[c] for c in swap)
    assert {(row.true, row.found) for row in rows if not row.right} == {(one, other), (other, one)}
