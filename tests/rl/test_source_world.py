"""The source as prototypes, and what a first look round tells of it."""

import jax
import numpy as np
import pytest

from protoalign.rl import source_world
from protoalign.rl.networks import Scene
from protoalign.rl.source_world import SourceWorld, survey
from protoalign.worlds import registry
from tests.toy import Garden

FLOOR, ZOMBIE, AGENT, COW, WALL = range(5)


def test_pictures_of_one_prototype_are_one_to_a_policy():
    """Nothing but a renaming: the world's own ids are what a history keeps."""
    world = SourceWorld(registry.make("hunter-z1c1-6x6"), (0, 1, 2, 1, 3))
    same = SourceWorld(world.world, (0, 1, 2, 3, 4))

    @jax.jit
    def look(key):
        state = world.reset(key, 4)
        return world.record(state).tiles, world.observe(state).tiles, same.observe(state).tiles

    raw, seen, unchanged = map(np.asarray, look(jax.random.key(0)))
    np.testing.assert_array_equal(seen, np.array([0, 1, 2, 1, 3])[raw])
    assert (raw == COW).sum() == (raw == ZOMBIE).sum() == 4
    assert world.num_actions == 9
    np.testing.assert_array_equal(unchanged, raw)


@pytest.mark.parametrize(("name", "ids"), [("hunter-z1c1-6x6", (4, 3, 0, 2, 1)), ("hunter-z0c2", (1, 0, 2, 3, 4))])
def test_floor_and_agent_are_found_without_being_told(name, ids):
    """However prototypes are numbered, and however many animals there are."""
    world = registry.make(name)
    found = survey(SourceWorld(world, ids), 0)
    assert found == Scene(world.spec.grid, 5, 9, 0, None, (ids[AGENT],), ids[FLOOR], world.spec.objects)


def test_in_a_view_the_agent_is_where_the_world_says():
    found = survey(SourceWorld(Garden(), (0, 1, 2, 3, 4)), 0)
    assert found == Scene((4, 5), 5, 5, numbers=1, cell=7, agent=(), floor=0, objects=None)


@pytest.mark.parametrize(
    ("counts", "moves", "agent"),
    [
        ([20, 1, 1, 3], [50, 0, 40, 10], (2,)),  # two are there once: the one that moves
        ([20, 1, 2, 2], [50, 0, 40, 10], (1,)),
        ([20, 2, 2, 1.5], [50, 0, 40, 10], ()),  # none is there once in every picture
    ],
)
def test_which_of_several_is_the_agent(counts, moves, agent, monkeypatch):
    found = np.broadcast_to(np.array(counts), (3, 7, 4)), np.broadcast_to(np.array(moves), (3, 4))
    monkeypatch.setattr(source_world, "_look_round", lambda *_: found)
    scene = survey(SourceWorld(registry.make("hunter-z1c1-6x6"), (0, 1, 2, 3, 3)), 0)
    assert (scene.agent, scene.floor) == (agent, 0)
