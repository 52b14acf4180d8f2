"""Hunter against golden traces and a second implementation, what always holds, and how starts and flights are spread."""

import json
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoalign import UserError
from protoalign.worlds import hunter, registry
from protoalign.worlds.hunter import AGENT, COW, FLOOR, WALL, ZOMBIE, Hunter
from tests.worlds import hunter_reference as reference
from tests.worlds.make_golden import PATH, RULES

LETTERS = np.array(list(".zac#"))
TRACES = json.loads(PATH.read_text())
BATCH = 64  # games in every call, so that a world is compiled once


class Games:
    """A world's compiled start and step, each with the tiles that are seen."""

    def __init__(self, world: Hunter):
        self.world = world
        self._begin = jax.jit(lambda u: self._seen(world.begin(u)))
        self._step = jax.jit(lambda state, action, u: self._seen(*world.transition(state, action, u)))

    def _seen(self, state, *given):
        return state, *given, self.world.observe(state).tiles

    def begin(self, u):
        return jax.device_get(self._begin(np.asarray(u, np.float32)))

    def step(self, state, action, u):
        return jax.device_get(self._step(state, np.asarray(action, np.int32), np.asarray(u, np.float32)))

    def starts(self, number, seed=0):
        """So many start states and their tiles."""
        rng = np.random.default_rng(seed)
        parts = [self.begin(rng.random((BATCH, self.world.begin_draws))) for _ in range(number // BATCH)]
        return jax.tree.map(lambda *x: np.concatenate(x), *parts)


@cache
def games(variant: str, size: int = 8) -> Games:
    return Games(hunter.parse(variant, size))


def as_text(grid: np.ndarray) -> list[str]:
    return ["".join(row) for row in LETTERS[grid]]


@pytest.mark.parametrize("trace", TRACES, ids=range(len(TRACES)))
def test_golden_traces_replay_exactly(trace):
    played = games("/".join(f"z{z}c{c}" for z, c in trace["variants"]))
    state, grid = played.begin(BATCH * [trace["u_begin"]])
    assert as_text(grid[0]) == trace["start"]
    for step in trace["steps"]:
        state, (reward, terminated, truncated), grid = played.step(state, BATCH * [step["action"]], BATCH * [step["u"]])
        assert as_text(grid[0]) == step["grid"]
        assert float(reward[0]) == step["reward"]
        assert (bool(terminated[0]), bool(truncated[0])) == (step["terminated"], step["truncated"])


def test_golden_traces_show_every_rule():
    assert set().union(*(trace["shows"] for trace in TRACES)) >= RULES


@pytest.mark.parametrize(
    ("variant", "size"), [("z1c1", 8), ("z4c4", 8), ("z8c8", 8), ("z1c1/z2c2", 8), ("z0c3/z3c0", 8), ("z3c3", 16)]
)
def test_agrees_with_the_reference(variant, size):
    """Every transition of 64 random episodes, against an implementation that shares nothing but the rules."""
    played = games(variant, size)
    world, rng = played.world, np.random.default_rng(1)
    u = rng.random((BATCH, world.begin_draws), np.float32)
    state, grids = played.begin(u)
    boards = [reference.begin(row, list(world.variants), size) for row in u]
    over = np.zeros(BATCH, bool)
    for t in range(31):
        for b in np.flatnonzero(~over):
            assert as_text(grids[b]) == boards[b].text(), (t, b)
        actions, u = rng.integers(9, size=BATCH), rng.random((BATCH, world.step_draws), np.float32)
        state, (reward, terminated, truncated), grids = played.step(state, actions, u)
        for b in np.flatnonzero(~over):
            expected = reference.step(boards[b], int(actions[b]), u[b])
            assert expected == (float(reward[b]), bool(terminated[b]), bool(truncated[b])), (t, b)
        over |= terminated | truncated
    assert over.all()


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), variant=st.sampled_from(["z1c1", "z4c4", "z0c3/z3c0", "z1c1/z2c2"]))
def test_what_is_always_true(seed, variant):
    played = games(variant)
    rng = np.random.default_rng(seed)
    state, before = played.begin(rng.random((BATCH, played.world.begin_draws)))
    over = np.zeros(BATCH, bool)
    walls = before == WALL
    for _ in range(31):
        u = rng.random((BATCH, played.world.step_draws))
        state, (reward, terminated, truncated), after = played.step(state, rng.integers(9, size=BATCH), u)
        alive = state.alive.sum(1)
        assert ((after == AGENT).sum((1, 2)) == 1).all(), "one agent always"
        assert ((after == ZOMBIE) | (after == COW)).sum((1, 2)).tolist() == alive.tolist(), "animals never overlap"
        assert ((after == WALL) == walls).all(), "walls never move"
        zombies, cows = ((before == kind).sum((1, 2)) - (after == kind).sum((1, 2)) for kind in (ZOMBIE, COW))
        assert (zombies >= 0).all()
        assert (cows >= 0).all()
        # Everything that vanished changed the score by one, up or down; nothing else did.
        assert (abs(reward) <= zombies + cows).all()
        assert ((reward - zombies - cows) % 2 == 0).all()
        over |= terminated | truncated
        before = after
    assert over.all(), "no episode is longer than 31 steps"


def test_starts_are_spread_as_the_rules_say():
    state, grid = games("z1c1/z2c2").starts(24_000)
    n = len(grid)
    z, c = (grid == ZOMBIE).sum((1, 2)), (grid == COW).sum((1, 2))
    assert set(zip(z.tolist(), c.tolist(), strict=True)) == {(1, 1), (2, 2)}
    assert abs((z == 1).mean() - 0.5) < 4 * 0.5 / n**0.5
    # Mean number of walls, from all 2*2*3*3*16 equally likely layouts by the reference.
    rng = np.random.default_rng(1)
    expected = [sum(row.count("#") for row in reference.begin(u, [(1, 1)]).text()) for u in rng.random((4000, 10), np.float32)]
    error = (np.var(expected) / 4000 + (grid == WALL).sum((1, 2)).var() / n) ** 0.5
    assert abs((grid == WALL).sum((1, 2)).mean() - np.mean(expected)) < 4 * error
    # The agent is uniform on the floor: each floor tile holds it as often as 1 / (number of floor tiles) adds up to.
    floor = grid != WALL
    expected_at = (floor / floor.sum((1, 2), keepdims=True)).sum(0)
    observed_at = (grid == AGENT).sum(0)
    assert (abs(observed_at - expected_at) < 5 * np.sqrt(expected_at)).all()
    row, col = np.divmod(state.agent, 8)
    far = np.maximum(abs(state.animals // 8 - row[:, None]), abs(state.animals % 8 - col[:, None])) > 3
    assert far[state.alive].all()


def test_animals_flee_four_times_as_often():
    """A zombie two tiles right of the agent, away from walls: up, down and right lead away, left does not."""
    played, rng = games("z1c1"), np.random.default_rng(0)
    there = 3 * 8 + 5
    state = hunter.State(
        np.zeros((BATCH, 64), bool), np.full(BATCH, 3 * 8 + 3, np.int32), np.tile(np.int32([there, 0]), (BATCH, 1)),
        np.tile([True, False], (BATCH, 1)), np.ones(BATCH, np.int32), np.zeros(BATCH, bool),
    )  # fmt: skip
    went = np.concatenate(
        [played.step(state, np.zeros(BATCH), rng.random((BATCH, 3)))[0].animals[:, 0] - there for _ in range(300)]
    )
    for step, weight in ((-8, 4), (8, 4), (1, 4), (-1, 1)):
        p = weight / 13
        assert abs((went == step).mean() - p) < 4 * (p * (1 - p) / len(went)) ** 0.5
    resting, *_ = played.step(state._replace(time=np.zeros(BATCH, np.int32)), np.zeros(BATCH), rng.random((BATCH, 3)))
    assert (resting.animals == state.animals).all(), "animals move every second step only"


def test_games_of_a_batch_do_not_touch():
    played, rng = games("z4c4"), np.random.default_rng(0)
    u, v = (rng.random((BATCH, n)) for n in (played.world.begin_draws, played.world.step_draws))
    action = rng.integers(9, size=BATCH)
    all_at_once = played.step(played.begin(u)[0], action, v)
    for b in range(3):
        alone = played.step(played.begin(u[[b] * BATCH])[0], action[[b] * BATCH], v[[b] * BATCH])
        jax.tree.map(lambda x, y, b=b: np.testing.assert_array_equal(x[b], y[0]), all_at_once, alone)


def test_the_most_objects_there_can_be():
    played = games("z4c4")
    _, grid = played.starts(12_800)
    most = (grid != FLOOR).sum((1, 2)).max()
    assert played.world.spec.objects - 2 <= most <= played.world.spec.objects


def test_the_world_is_told():
    spec = hunter.parse("Z2C3", 10).spec
    assert (spec.name, spec.grid, spec.max_steps, spec.agent, spec.numbers) == ("hunter-z2c3-10x10", (10, 10), 31, None, ())
    assert spec.truth == ("floor", "zombie", "agent", "cow", "wall")
    assert len(spec.actions) == 9


@pytest.mark.parametrize("name", ["z1", "c1z1", "z1c1/", "zombie", "", "z-1c1"])
def test_wrong_variant_names(name):
    with pytest.raises(UserError, match="write ZxCy"):
        hunter.parse(name)


@pytest.mark.parametrize(
    ("name", "expected"), [("hunter-z1c1", 4), ("hunter-z2c1", 5), ("hunter-z1c30", 3), ("hunter-z4c4-6x6", 4)]
)
def test_a_world_with_more_variants(name, expected):
    """Its own variants and those that fit beside them; everything else stays."""
    world = registry.make(name)
    more = world.varied()
    assert more.variants[: len(world.variants)] == world.variants
    assert len(more.variants) == len(set(more.variants)) == expected
    assert (more.size, more.tile) == (world.size, world.tile)
    state = more.reset(jax.random.key(0), 64)
    assert more.observe(state).tiles.shape == (64, world.size, world.size)
