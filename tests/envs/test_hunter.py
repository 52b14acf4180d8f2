import json
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoalign import UserError, envs
from protoalign.envs import hunter
from protoalign.envs.hunter import AGENT, COW, FLOOR, WALL, ZOMBIE, Hunter
from tests.envs import hunter_reference as reference
from tests.envs.make_golden import PATH, RULES

LETTERS = np.array(list(".zac#"))
TRACES = json.loads(PATH.read_text())


@cache
def jitted(world: Hunter):
    return jax.jit(world.begin), jax.jit(world.transition), jax.jit(world.observe)


def as_text(grid: np.ndarray) -> list[str]:
    return ["".join(row) for row in LETTERS[grid]]


@pytest.mark.parametrize("trace", TRACES, ids=range(len(TRACES)))
def test_golden_traces_replay_exactly(trace):
    begin, transition, observe = jitted(Hunter(tuple(map(tuple, trace["variants"]))))
    state = begin(np.array([trace["u_begin"]], np.float32))
    assert as_text(np.asarray(observe(state))[0]) == trace["start"]
    for step in trace["steps"]:
        state, (reward, terminated, truncated) = transition(
            state, np.array([step["action"]]), np.array([step["u"]], np.float32)
        )
        assert as_text(np.asarray(observe(state))[0]) == step["grid"]
        assert float(reward[0]) == step["reward"]
        assert (bool(terminated[0]), bool(truncated[0])) == (step["terminated"], step["truncated"])


def test_golden_traces_show_every_rule():
    assert set().union(*(trace["shows"] for trace in TRACES)) >= RULES


@pytest.mark.parametrize(
    ("variants", "size"),
    [(((1, 1),), 8), (((4, 4),), 8), (((12, 12),), 8), (((1, 1), (2, 2)), 8), (((0, 3), (3, 0)), 8), (((6, 6),), 16)],
)
def test_agrees_with_the_reference(variants, size):
    """Every transition of 40 random episodes, against an implementation that shares nothing but the rules."""
    world = Hunter(variants, size)
    begin, transition, observe = jitted(world)
    rng, batch = np.random.default_rng(1), 40
    u = rng.random((batch, world.begin_draws), np.float32)
    state = begin(u)
    games = [reference.begin(row, list(variants), size) for row in u]
    over = np.zeros(batch, bool)
    for t in range(31):
        grids = np.asarray(observe(state))
        for b in np.flatnonzero(~over):
            assert as_text(grids[b]) == games[b].text(), (t, b)
        # Fire and walk towards animals often enough that something happens.
        actions, u = rng.integers(9, size=batch), rng.random((batch, world.step_draws), np.float32)
        state, (reward, terminated, truncated) = transition(state, actions, u)
        for b in np.flatnonzero(~over):
            assert reference.step(games[b], int(actions[b]), u[b]) == (
                float(reward[b]),
                bool(terminated[b]),
                bool(truncated[b]),
            )
        over |= np.asarray(terminated | truncated)
    assert over.all()


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), variant=st.sampled_from(["z1c1", "z4c4", "z2c0", "z1c1/z3c3"]))
def test_what_is_always_true(seed, variant):
    world = hunter.parse(variant)
    begin, transition, observe = jitted(world)
    rng, batch = np.random.default_rng(seed), 16
    state = begin(rng.random((batch, world.begin_draws), np.float32))
    over = np.zeros(batch, bool)
    before = np.asarray(observe(state))
    walls = before == WALL
    for _ in range(31):
        actions = rng.integers(9, size=batch)
        state, (reward, terminated, truncated) = transition(state, actions, rng.random((batch, world.step_draws), np.float32))
        after = np.asarray(observe(state))
        alive = np.asarray(state.alive).sum(1)
        assert ((after == AGENT).sum((1, 2)) == 1).all(), "one agent always"
        assert ((after == ZOMBIE) | (after == COW)).sum((1, 2)).tolist() == alive.tolist(), "animals never overlap"
        assert ((after == WALL) == walls).all(), "walls never move"
        zombies, cows = ((before == kind).sum((1, 2)) - (after == kind).sum((1, 2)) for kind in (ZOMBIE, COW))
        assert (zombies >= 0).all()
        assert (cows >= 0).all()
        # Everything that vanished changed the score by one, up or down; nothing else did.
        assert (abs(np.asarray(reward)) <= zombies + cows).all()
        assert ((np.asarray(reward) - zombies - cows) % 2 == 0).all()
        over |= np.asarray(terminated | truncated)
        before = after
    assert over.all(), "no episode is longer than 31 steps"


def test_starts_are_spread_as_the_rules_say():
    world, n = hunter.parse("z1c1/z3c2"), 40_000
    state = jax.jit(world.reset, static_argnums=1)(jax.random.key(0), n)
    grid = np.asarray(world.observe(state))
    z, c = (grid == ZOMBIE).sum((1, 2)), (grid == COW).sum((1, 2))
    assert set(zip(z.tolist(), c.tolist(), strict=True)) == {(1, 1), (3, 2)}
    assert abs((z == 1).mean() - 0.5) < 4 * 0.5 / n**0.5
    # Mean number of walls, from all 2*2*3*3*16 equally likely layouts by the reference.
    rng = np.random.default_rng(0)
    expected = [sum(row.count("#") for row in reference.begin(u, [(1, 1)]).text()) for u in rng.random((4000, 10), np.float32)]
    error = (np.var(expected) / 4000 + (grid == WALL).sum((1, 2)).var() / n) ** 0.5
    assert abs((grid == WALL).sum((1, 2)).mean() - np.mean(expected)) < 4 * error
    # The agent is uniform on the floor: each floor tile holds it as often as 1 / (number of floor tiles) adds up to.
    floor = grid != WALL
    expected_at = (floor / floor.sum((1, 2), keepdims=True)).sum(0)
    observed_at = (grid == AGENT).sum(0)
    assert (abs(observed_at - expected_at) < 5 * np.sqrt(expected_at)).all()
    row, col = np.divmod(np.asarray(state.agent), 8)
    far = np.maximum(abs(np.asarray(state.animals) // 8 - row[:, None]), abs(np.asarray(state.animals) % 8 - col[:, None])) > 3
    assert far[np.asarray(state.alive)].all()


def test_animals_flee_four_times_as_often():
    """A zombie two tiles right of the agent, away from walls: up, down and right lead away, left does not."""
    world, n = hunter.parse("z1c0"), 20_000
    state = hunter.State(
        np.zeros((n, 64), bool), np.full(n, 3 * 8 + 3), np.full((n, 1), 3 * 8 + 5), np.ones((n, 1), bool),
        np.ones(n, np.int32), np.zeros(n, bool),
    )  # fmt: skip
    after, _ = world.step(state, np.zeros(n, np.int32), jax.random.key(0))
    went = np.asarray(after.animals)[:, 0] - (3 * 8 + 5)
    for step, weight in ((-8, 4), (8, 4), (1, 4), (-1, 1)):
        p = weight / 13
        assert abs((went == step).mean() - p) < 4 * (p * (1 - p) / n) ** 0.5
    resting, _ = world.step(state._replace(time=np.zeros(n, np.int32)), np.zeros(n, np.int32), jax.random.key(0))
    assert (np.asarray(resting.animals) == state.animals).all(), "animals move every second step only"


def test_batching_changes_nothing():
    world = hunter.parse("z3c3")
    begin, transition, _ = jitted(world)
    rng = np.random.default_rng(0)
    u, v, action = rng.random((8, world.begin_draws), np.float32), rng.random((8, world.step_draws), np.float32), np.arange(8)
    together = transition(begin(u), action, v)
    for b in range(8):
        alone = transition(begin(u[b : b + 1]), action[b : b + 1], v[b : b + 1])
        jax.tree.map(lambda x, y, b=b: np.testing.assert_array_equal(x[b], y[0]), together, alone)


@pytest.mark.parametrize("name", ["z1", "c1z1", "z1c1/", "zombie", "", "z-1c1"])
def test_wrong_variant_names(name):
    with pytest.raises(UserError, match="write ZxCy"):
        hunter.parse(name)


@pytest.mark.parametrize(
    "name", ["hunter", "hunter-", "crafter2", "hunter-z1c1-8x9", "hunter-z0c0", "hunter-z40c1", "hunter-z1c1-4x4"]
)
def test_wrong_world_names(name):
    with pytest.raises(UserError):
        envs.make(name)


def test_names_come_back():
    for name in ("hunter-z1c1", "hunter-z1c1/z2c2", "hunter-z4c4-16x16"):
        assert envs.make(name).name == name
    assert envs.make("Hunter-Z2C2").name == "hunter-z2c2"


def test_the_most_objects_there_can_be():
    world = hunter.parse("z4c4")
    grid = np.asarray(world.observe(jax.jit(world.reset, static_argnums=1)(jax.random.key(1), 20_000)))
    assert (grid != FLOOR).sum((1, 2)).max() <= world.max_objects
