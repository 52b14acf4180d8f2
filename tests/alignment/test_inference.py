"""q_theta, in both designs, on episodes of real games."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.alignment import training
from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import PatchNet, Step, align_views
from protoalign.rl.networks import Scene
from protoalign.settings import InferConfig
from tests.alignment.helpers import ALL, explored, model, plainly

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "networks.json").read_text())
follow = jax.jit(training.follow)


def test_equal_weights_give_what_the_first_edition_gave():
    net = PatchNet(np.random.default_rng(4), Scene((8, 8), 5, 9, objects=19), ALL, InferConfig(width=16))
    slots = np.asarray(GOLDEN["types"], np.int32)
    truth = np.argsort(slots, 1).astype(np.int32)
    imagined = Imagined(slots, slots, None, truth, np.asarray(GOLDEN["hidden"]))

    def codes(grid):
        flat = np.asarray(grid).reshape(6, -1)
        return jnp.asarray(5 + np.take_along_axis(slots, flat, 1).reshape(6, 8, 8), jnp.uint8)

    hidden, before, none = net.begin(6, 5), codes(GOLDEN["grids"]), jnp.zeros((6, 0))
    for grid, action, reward in zip(GOLDEN["steps"], GOLDEN["actions"], GOLDEN["rewards"], strict=True):
        after = codes(grid)
        step = Step(before, after, none, none, jnp.asarray(action), jnp.asarray(reward, jnp.float32))
        hidden, before = net.update(hidden, imagined, net.digest(step, 5)), after
    np.testing.assert_allclose(net.score(hidden, imagined), GOLDEN["score"], atol=3e-5)


@pytest.mark.parametrize("network", ["patches", "broadcast"])
def test_renaming_slots_renames_beliefs_and_nothing_else(network):
    _, done = explored(network)
    number, net = len(done.episodes.length), model(network)
    rng = np.random.default_rng(0)
    hidden = rng.random((number, 5)) < 0.8  # by prototype: some are known
    plain = np.asarray(follow(net, done.episodes, plainly(number, hidden)))
    psi = rng.permuted(plainly(number).slot_of, axis=1)
    back = np.argsort(psi, 1).astype(np.int32)
    renamed = Imagined(psi, psi, None, back, np.take_along_axis(hidden, back, 1))
    renamed = np.asarray(follow(net, done.episodes, renamed))
    same = np.take_along_axis(renamed, np.broadcast_to(psi[None, ..., None], (*renamed.shape[:-1], 1)), 2)
    np.testing.assert_allclose(same, plain, atol=5e-4)
    assert abs(renamed - plain).max() > 0.1, "the renaming was not trivial"


@pytest.mark.parametrize("network", ["patches", "broadcast"])
def test_beliefs_while_exploring_are_those_of_the_episode_afterwards(network):
    world, done = explored(network)
    after = np.asarray(follow(world.model, done.episodes, jax.tree.map(jnp.asarray, done.imagined)))[-1]
    np.testing.assert_allclose(after, done.score, atol=2e-3)


@pytest.mark.parametrize("network", ["patches", "broadcast"])
@pytest.mark.parametrize("slots", [2, 7])
def test_absent_slots_keep_their_state_however_many_there_are(network, slots):
    net, rng = model(network), np.random.default_rng(0)
    hidden = net.begin(4, slots) + jnp.asarray(rng.normal(size=(4, slots, 16)), jnp.float32)
    before = np.full((4, 6, 6), 5, np.uint8)
    before[:, 3, 4] = 5 + slots - 1
    none = np.zeros((4, 0), np.float32)
    unknown = Imagined(*(np.zeros((4, 5), np.int32),) * 2, None, np.zeros((4, slots), np.int32), np.ones((4, slots), bool))
    step = Step(before, before, none, none, np.arange(4), np.ones(4, np.float32))
    after = jax.jit(lambda net, h, s: net.update(h, unknown, net.digest(s, slots)))(net, hidden, step)
    changed = abs(np.asarray(after - hidden)).max((0, 2)) > 0
    assert changed.tolist() == [True] + [False] * (slots - 2) + [True]


def test_all_slots_start_alike_and_known_ones_are_certain():
    hidden = model().begin(3, 5)
    assert (np.asarray(hidden) == np.asarray(hidden)[:, :1]).all()
    known = plainly(3, np.array([[True, False, True, True, False]]))
    belief = np.exp(np.asarray(model().score(hidden, known)))
    np.testing.assert_allclose(belief.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(belief[:, [1, 4], [1, 4]], 1, atol=1e-5)


def test_what_is_known_from_before_colours_cells_and_only_those():
    """A prior about another slot changes what is made of cells of it; of a slot that is not there it changes nothing."""
    net = model()
    grid = np.full((1, 6, 6), 5, np.uint8)
    grid[0, 2, 2] = 6
    none = np.zeros((1, 0), np.float32)
    digested = net.digest(Step(grid, grid, none, none, np.zeros(1, np.int32), np.zeros(1, np.float32)), 5)

    def after(slot):
        prior = np.zeros((1, 5, 5), np.float32)
        prior[0, slot, 3] = 8
        return np.asarray(net.update(net.begin(1, 5), plainly(1), digested, jnp.asarray(prior)))

    nothing = np.asarray(net.update(net.begin(1, 5), plainly(1), digested))
    assert abs(after(1)[0, 0] - nothing[0, 0]).max() > 1e-3
    np.testing.assert_allclose(after(4), nothing, atol=1e-5)


@pytest.mark.parametrize(("down", "right"), [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)])
def test_views_are_aligned_wherever_the_agent_went(down, right):
    """A view of a large map, before and after a move, with a creature that has moved too."""
    rng = np.random.default_rng(0)
    maps = rng.integers(0, 6, (40, 20, 20))
    before = maps[:, 5:12, 5:14].copy()
    after = maps[:, 5 + down : 12 + down, 5 + right : 14 + right].copy()
    before[:, 3, 4] = after[:, 3, 4] = 7  # the agent, always in the middle
    before[:, 1, 2], after[:, 2 - down, 2 - right] = 8, 8
    laid = np.asarray(align_views(before.reshape(40, -1), after.reshape(40, -1), (7, 9), 99)).reshape(40, 7, 9)
    inside = laid != 99
    assert (inside.mean((1, 2)) >= 6 / 7 - 1e-6).all()
    expected = np.broadcast_to(maps[:, 5:12, 5:14], laid.shape)
    same = (laid == expected) | ~inside
    assert (same.reshape(40, -1).sum(1) >= 63 - 4).all(), "all but the agent's two places and the creature"


@pytest.mark.parametrize(("network", "updates", "bar"), [("patches", 60, 1.0), ("broadcast", 40, 1.5)])
def test_it_learns_from_games(network, updates, bar):
    """An untrained explorer's games. Not knowing a slot costs log 5 = 1.61."""
    _, done = explored(number=256)
    config = InferConfig(network=network, width=16, hide_all=1.0, twice=0.0)
    net = training.build_model(0, explored()[0].model.scene, ALL, config)
    optimiser = training.make_optimiser(updates, 4e-3, 2e-3)
    state, fit = optimiser.init(net), training.make_fit(optimiser, config)
    rng, losses = np.random.default_rng(0), []
    for i in range(updates):
        net, state, metrics = fit(net, state, done.episodes.some(rng, 32), jax.random.key(i))
        losses.append(float(metrics["final_loss"]))
    assert np.mean(losses[:3]) > 1.3
    assert np.mean(losses[-10:]) < bar
