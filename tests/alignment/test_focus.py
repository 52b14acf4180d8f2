"""q_theta for many slots: the same function as the one for few, at a cost that does not grow with them."""

import equinox as eqx
import jax
import numpy as np
import pytest

from protoalign.alignment import focus, training
from protoalign.alignment.focus import FocusNet
from protoalign.alignment.imagination import Imagined, imagine
from protoalign.alignment.inference import PatchNet, Step
from protoalign.alignment.training import build_model
from protoalign.rl.networks import Scene
from protoalign.settings import InferConfig
from tests.alignment.test_inference import BOARD, EPISODES, VIEW, followed, games, injected

CONFIG = InferConfig(width=16, radius=2, tiles=2)
WORLDS = {"board": (BOARD, (0, 1, 2, 3, 4)), "view": (VIEW, (1, 2, 4)), "view, all": (VIEW, tuple(range(6)))}


def both(scene, hideable):
    """The two networks with the same random weights."""
    nets = [kind(np.random.default_rng(0), scene, hideable, CONFIG) for kind in (PatchNet, FocusNet)]
    leaves, rng = jax.tree.leaves(nets[0]), np.random.default_rng(1)
    moved = [x + 0.1 * rng.normal(size=x.shape).astype(np.float32) for x in leaves]
    return [jax.tree.unflatten(jax.tree.structure(net), moved) for net in nets]


@pytest.mark.parametrize("name", WORLDS)
def test_it_is_the_function_of_the_network_for_few_slots(name):
    """Twelve tiles suffice for two of each slot: the same scores, and the same gradients."""
    scene, hideable = WORLDS[name]
    patches, few = both(scene, hideable)
    episodes = games(scene)
    world = imagine(jax.random.key(0), EPISODES, len(hideable), 0.5)
    expected = followed(patches, episodes, world)
    np.testing.assert_allclose(followed(few, episodes, world), expected, atol=2e-4)
    assert abs(np.asarray(expected[-1] - expected[0])).max() > 0.05

    @eqx.filter_jit
    @eqx.filter_grad
    def slope(net):
        return followed(net, episodes, world)[..., 0].sum()

    for ours, theirs in zip(jax.tree.leaves(slope(few)), jax.tree.leaves(slope(patches)), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3 * max(1, abs(np.asarray(theirs)).max()))


def test_with_more_slots_than_tiles_renaming_slots_still_renames_beliefs_and_nothing_else(monkeypatch):
    monkeypatch.setattr(focus, "MOST", 5)
    scene, hideable = WORLDS["view, all"]
    patches, few = both(scene, hideable)
    episodes, rng = games(scene), np.random.default_rng(0)
    straight = np.tile(np.arange(6, dtype=np.int32), (EPISODES, 1))
    psi, hidden = rng.permuted(straight, axis=1), rng.random((EPISODES, 6)) < 0.8
    follow = eqx.filter_jit(lambda *x: training.follow(*x))  # compiled with this MOST
    plain, renamed = (np.asarray(follow(few, episodes, injected(x, hidden))) for x in (straight, psi))
    back = np.take_along_axis(renamed, np.broadcast_to(psi[None, ..., None], (*renamed.shape[:-1], 1)), 2)
    np.testing.assert_allclose(back, plain, atol=2e-4)
    assert abs(plain - np.asarray(followed(patches, episodes, injected(straight, hidden)))).max() > 1e-3, "it looks at fewer"


def test_every_slot_in_view_is_looked_at_before_any_is_twice(monkeypatch):
    """Next to the agent and where something changes first; tiles of prototypes that are never hidden do not count."""
    monkeypatch.setattr(focus, "MOST", 4)
    scene = Scene((3, 5), 4, 2, cell=7)
    net = FocusNet(np.random.default_rng(0), scene, (0, 1, 2), InferConfig(width=8, radius=1, tiles=2))
    before = np.array([[4, 4, 4, 4, 5], [4, 4, 3, 4, 4], [6, 4, 4, 4, 4]], np.uint8)[None]
    after = before.copy()
    after[0, 0, 4] = 4
    none, one = np.zeros((1, 0), np.float32), np.zeros(1)
    digested = net.digest(Step(before, after, none, none, one.astype(int), one), 3)
    assert sorted(digested.own[0].tolist()) == [0, 0, 1, 2]
    number = {int(slot): n.tolist() for slot, n in zip(digested.own[0], digested.number[0], strict=True)}
    assert number == {0: [12, 13], 1: [1, 0], 2: [1, 1]}
    assert digested.best[0].tolist() == [True, True, True, False]
    own = digested.slots[0].reshape(4, 2, 9)
    beside = [i for i in range(4) if digested.own[0, i] == 0]
    assert all(3 in own[i, 0].tolist() for i in beside), "both are next to the agent, which is no slot"


@pytest.mark.parametrize(("hideable", "kind"), [(6, PatchNet), (7, FocusNet)])
def test_the_number_of_prototypes_that_may_be_hidden_decides(hideable, kind):
    net = build_model(0, Scene((3, 3), 9, 2), tuple(range(hideable)), InferConfig(width=4, radius=1))
    assert type(net) is kind


def test_slots_out_of_view_keep_their_state():
    _, net = both(BOARD, (0, 1, 2, 3, 4))
    slots = 140  # more than int8 holds
    hidden = jax.random.normal(jax.random.key(0), (2, slots, 16))
    before = np.full((2, 6, 6), 5, np.int32)
    before[:, 2, 3] = 5 + 139
    truth = np.zeros((2, slots), np.int32)
    unknown = Imagined(truth[:, :5], truth[:, :5], None, truth, truth == 0)
    none = np.zeros((2, 0), np.float32)
    step = Step(before, before, none, none, np.zeros(2, int), np.ones(2, np.float32))
    after = eqx.filter_jit(lambda: net.update(hidden, unknown, net.digest(step, slots)))()
    changed = abs(np.asarray(after - hidden)).max((0, 2)) > 0
    assert np.flatnonzero(changed).tolist() == [0, 139]
