"""Worlds by name, one's own included."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from protoalign import UserError
from protoalign.worlds import Observation, Spec, Transition, make, registry
from protoalign.worlds.env import WorldEnv, WorldVectorEnv


@pytest.mark.parametrize("name", ["hunter-z1c1", "hunter-z1c1/z2c2", "hunter-z4c4-16x16"])
def test_names_come_back(name):
    assert make(name).spec.name == name
    assert make(name.upper()) == make(name)


def test_rows_say_what_there_is():
    for row in registry.WORLDS:
        assert row.description
        assert all(registry.row(example) is row for example in row.examples)
    assert registry.row("Crafter").settings.keys() >= set()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "hunter",
            "hunter-",
            "crafter2",
            "",
            "hunter-z1c1-8x9",
            "hunter-z0c0",
            "hunter-z40c1",
            "hunter-z1c1-4x4",
            "hunter-z1",
        ),
        *("hunter-c1z1", "hunter-z1c1/", "hunter-z-1c1", "hunter-z1c1-99999x99999", f"hunter-z{5000 * '9'}c1"),
    ],
)
def test_wrong_names(name):
    with pytest.raises(UserError):
        make(name)
    if not name.startswith("hunter-z"):
        with pytest.raises(UserError, match=r"there are hunter-z1c1, .*, crafter"):
            make(name)


def test_wrong_options():
    with pytest.raises(UserError, match="unexpected keyword argument 'colour'"):
        make("hunter-z1c1", colour="red")
    with pytest.raises(UserError, match="tile="):
        make("hunter-z1c1", tile=0)


class Corridor(eqx.Module):
    """A row of tiles; the agent earns 1 at its right end. What is known besides is the time."""

    length: int = eqx.field(static=True, default=5)

    @property
    def spec(self):
        return Spec(f"corridor-{self.length}", (1, self.length), ("left", "right"), 20, numbers=("time",))

    def pictures(self, look):
        return np.array([[[[30, 30, 30]]], [[[200, 0, 0]]]], np.uint8)

    def reset(self, key, batch):
        return jnp.zeros((batch, 2), jnp.int32)

    def step(self, state, action, key):
        place = jnp.clip(state[:, 0] + 2 * action - 1, 0, self.length - 1)
        end, time = place == self.length - 1, state[:, 1] + 1
        return jnp.stack([place, time], 1), Transition(end.astype(jnp.float32), end, ~end & (time >= 20))

    def observe(self, state):
        tiles = (state[:, :1] == np.arange(self.length)).astype(jnp.uint8)
        return Observation(tiles[:, None], state[:, 1:].astype(jnp.float32))

    def make(self, look="source", **options):
        return WorldEnv(self, look, **options)


def test_a_world_of_ones_own(monkeypatch):
    monkeypatch.setattr(registry, "WORLDS", registry.WORLDS[:2])

    def maker(length="5"):
        return Corridor(int(length))

    registry.register("corridor-(?P<length>[0-9]+)", maker, "walk to the right", {"fast": {"steps": 1}}, ("corridor-5",))
    registry.register("corridor", maker, "walk to the right")
    assert make("corridor").spec.name == "corridor-5"
    with pytest.raises(UserError, match=r"there are .*crafter, .*corridor-5, corridor$"):
        make("corridors")
    world = make("corridor-7")
    assert registry.row("corridor-7").settings == {"fast": {"steps": 1}}
    env = world.make()
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert observation["view"].shape == (1, 7, 3)
    assert info["categories"].tolist() == [[1, 0, 0, 0, 0, 0, 0]]
    steps = [env.step(1) for _ in range(6)]
    assert [step[1:3] for step in steps] == 5 * [(0, False)] + [(1, True)]
    assert [step[0]["numbers"].tolist() for step in steps] == [[i] for i in range(1, 7)]
    check_env(world.make(), skip_render_check=True)
    vector = WorldVectorEnv(3, world, obs="categories")
    observation, _ = vector.reset(seed=0)
    assert vector.observation_space.contains(observation)
    assert vector.step([1, 0, 1])[0]["view"].argmax(-1).tolist() == [[1], [0], [1]]
    registry.register("corridor", maker, "again")
    assert [row.description for row in registry.WORLDS].count("again") == 1
    assert len(registry.WORLDS) == 4


def test_worlds_are_pytrees():
    small, large = (make("crafter", worlds=n, first=1_000_000) for n in (1, 2))
    arrays, rest = eqx.partition(large, eqx.is_array)
    assert sum(x.nbytes for x in jax.tree.leaves(arrays)) > 2 * 5000
    assert not any(eqx.is_array(x) for x in jax.tree.leaves(rest))
    again = eqx.combine(arrays, rest)
    starts = eqx.filter_jit(lambda world: world.reset(jax.random.key(0), 4).ground)
    np.testing.assert_array_equal(starts(again), starts(large))
    programs = [jax.jit(lambda world: world.reset(jax.random.key(0), 4)).lower(x).as_text() for x in (small, large)]
    assert abs(len(programs[0]) - len(programs[1])) < 1000, "maps are no constants of a compiled program"
    hunter = make("hunter-z1c1")
    assert not jax.tree.leaves(hunter)
    assert hash(hunter) == hash(make("hunter-z1c1"))
    assert hunter != make("hunter-z2c1")
