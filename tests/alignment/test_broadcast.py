"""The paper's designs of q_theta and pi_exp, and the preset that uses them."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import config, stages
from protoalign.alignment import inference, transfer
from protoalign.alignment.broadcast import BroadcastNet
from protoalign.alignment.exploration import ExplorerNet, ImaginedWorld, RelationExplorer, View, explore
from protoalign.alignment.imagination import Imagined
from protoalign.envs import hunter
from protoalign.envs.gym import HunterEnv
from protoalign.errors import UserError
from protoalign.rl.history import Episodes
from protoalign.rl.networks import RelationNet

WORLD = hunter.parse("z1c1")


def noisy(net, seed=1):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: x + jnp.asarray(0.1 * rng.normal(size=x.shape), jnp.float32), net)


def model(width=16):
    return noisy(BroadcastNet(np.random.default_rng(0), WORLD, width))


@cache
def explored() -> tuple:
    world = ImaginedWorld(model(), WORLD, 0.5)
    net = ExplorerNet.fresh(np.random.default_rng(0), WORLD, 16)
    return world, jax.device_get(jax.jit(explore, static_argnums=(3, 4))(world, net, jax.random.key(0), 96, 31))


@jax.jit
def update(net, hidden, imagined, seen):
    return net.update(hidden, imagined, seen)


def named(number, hidden=True):
    """Imagined worlds in which type and prototype are the same number."""
    names = np.tile(np.arange(5, dtype=np.int32), (number, 1))
    return Imagined(names, names, np.full((number, 5), hidden))


def test_renaming_types_renames_beliefs_and_nothing_else():
    _, done = explored()
    number = len(done.episodes.length)
    straight = named(number)
    rng = np.random.default_rng(0)
    hidden = rng.random((number, 5)) < 0.8  # by prototype: some are known
    psi = rng.permuted(straight.type_of, axis=1)
    back = np.argsort(psi, 1).astype(np.int32)
    plain = np.asarray(inference.follow(model(), done.episodes, straight._replace(hidden=hidden)))
    renamed = Imagined(psi, back, np.take_along_axis(hidden, back, 1))
    renamed = np.asarray(inference.follow(model(), done.episodes, renamed))
    same = np.take_along_axis(renamed, np.broadcast_to(psi[None, ..., None], (*renamed.shape[:-1], 1)), 2)
    np.testing.assert_allclose(same, plain, atol=2e-4)
    assert abs(renamed - plain).max() > 0.1, "the renaming was not trivial"


def test_all_types_start_alike_and_known_ones_are_certain():
    hidden = np.asarray(model().begin(3))
    assert hidden.shape == (3, 5, 16)
    assert (hidden == hidden[:, :1]).all()
    score = np.asarray(model().score(jnp.asarray(hidden), named(3, hidden=False)))
    assert (score.argmax(-1) == np.arange(5)).all()
    assert (np.exp(score).max(-1) == 1).all()


def test_beliefs_while_exploring_are_those_of_the_episode_afterwards():
    world, done = explored()
    after = np.asarray(inference.follow(world.model, done.episodes, Imagined(*map(jnp.asarray, done.imagined))))[-1]
    np.testing.assert_allclose(after, done.score, atol=2e-3)


@pytest.mark.parametrize("types", [2, 7])
def test_absent_types_keep_their_state_however_many_there_are(types):
    net, rng = model(), np.random.default_rng(0)
    hidden = net.begin(4, types) + jnp.asarray(rng.normal(size=(4, types, 16)), jnp.float32)
    before = np.zeros((4, 8, 8), np.uint8)
    after = before.copy()
    after[:, 3, 4] = types - 1  # comes into sight
    unknown = Imagined(*(np.zeros((4, types), np.int32),) * 2, np.ones((4, types), bool))
    seen = net.look(before, after, np.arange(4), np.ones(4, np.float32), types)
    changed = abs(np.asarray(update(net, hidden, unknown, seen) - hidden)).max((0, 2)) > 0
    assert changed.tolist() == [True] + [False] * (types - 2) + [True]
    assert net.score(hidden, unknown).shape == (4, types, 5)


def test_only_tiles_of_a_type_within_reach_of_the_convolutions_matter_to_it():
    """Three layers of 3 x 3 see three tiles far."""
    net = model()
    before = np.zeros((1, 8, 8), np.uint8)
    before[0, 0, 0] = 1
    hidden = net.begin(1) + jnp.asarray(np.random.default_rng(0).normal(size=(1, 5, 16)), jnp.float32)

    def state_of_one(row):
        after = before.copy()
        after[0, row, 0] = 2
        seen = net.look(before, after, np.zeros(1, np.int32), np.zeros(1, np.float32), 5)
        return np.asarray(update(net, hidden, named(1), seen))[0, 1]

    near, edge, far, farther = map(state_of_one, (1, 3, 4, 7))
    assert (far == farther).all()
    assert abs(near - far).max() > 1e-4
    assert abs(edge - far).max() > 1e-6


def test_gradients_flow_through_the_states_on_the_grid():
    net = model()
    grid = explored()[1].episodes.observation[:1, 0]
    seen = net.look(grid, grid, np.zeros(1, np.int32), np.zeros(1, np.float32), 5)
    grad = jax.jit(jax.grad(lambda h: net.update(h, named(1), seen)[0, WORLD.agent].sum()))(net.begin(1))
    assert abs(np.asarray(grad)[0, WORLD.floor]).max() > 0, "what another type's state says counts"


def test_it_learns_from_games():
    """A random explorer's games. Not knowing a type costs log 5 = 1.61."""
    _, done = explored()
    net = BroadcastNet(np.random.default_rng(0), WORLD, 16)
    optimiser = inference.make_optimiser(60, 2e-3, 1e-3)  # at 5e-3 it learns for 35 updates and then comes apart
    state, fit = optimiser.init(net), inference.make_fit(optimiser)
    rng, losses = np.random.default_rng(0), []
    for i in range(60):
        batch = inference.choose(Episodes(*done.episodes), rng, 16)
        net, state, metrics = fit(net, state, batch, jax.random.key(i))
        losses.append(float(metrics["final_loss"]))
    assert np.mean(losses[:3]) > 1.3
    assert np.mean(losses[-10:]) < 1.42


def test_an_explorer_that_is_sure_acts_like_the_relation_network():
    net = noisy(RelationNet(np.random.default_rng(0), WORLD, 16))
    grid = explored()[1].episodes.observation[:6, 0]
    psi = np.array([3, 0, 4, 1, 2])  # category -> type
    belief = np.zeros((6, 5, 5), np.float32)
    belief[:, psi, np.arange(5)] = 1
    explorer = RelationExplorer(net)
    soft = explorer(explorer.encode(View(psi[grid].astype(np.uint8), belief)))
    for expected, got in zip(net(net.encode(grid)), soft, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    unsure, _ = explorer(explorer.encode(View(psi[grid].astype(np.uint8), np.full((6, 5, 5), 0.2, np.float32))))
    assert abs(unsure - soft[0]).max() > 1e-3


def test_the_paper_preset_goes_all_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Budgets too small to learn anything: every turn of the way is taken."""
    ppo = replace(config.TASK["paper"].ppo, envs=4, segment=64, minibatch=128, epochs=1)
    monkeypatch.setattr(stages, "EVALUATION_EPISODES", 16)
    monkeypatch.setitem(config.TASK, "paper", replace(config.TASK["paper"], ppo=ppo))
    monkeypatch.setitem(config.EXPLORE, "paper", replace(config.EXPLORE["paper"], ppo=ppo))
    monkeypatch.setitem(config.INFER, "paper", replace(config.INFER["paper"], batch=4))
    stages.task("hunter-z1c1", tmp_path, 0, "paper", 256)
    with pytest.raises(UserError, match="no inference model"):
        stages.explore(tmp_path, 256)
    with pytest.raises(UserError, match="at least 1"):
        stages.infer(tmp_path, 0)
    stages.infer(tmp_path, 2)
    with pytest.raises(UserError, match="at least 256"):
        stages.explore(tmp_path, 255)
    result = stages.explore(tmp_path, 256)
    assert result["explore_steps"] == 256
    assert 0 <= result["one_episode_correct"] <= 1
    settings = json.loads((tmp_path / "config.json").read_text())
    assert (settings["infer"]["network"], settings["infer"]["updates"]) == ("broadcast", 2)
    assert (settings["explore"]["network"], settings["explore"]["hide_all"]) == ("relation", 1.0)
    agent = stages.load_agent(tmp_path)
    assert isinstance(agent.model, BroadcastNet)
    assert isinstance(agent.explorer, RelationExplorer)
    trained = stages.load_model(stages.Run(tmp_path, create=False), WORLD)
    for frozen, after in zip(jax.tree.leaves(trained), jax.tree.leaves(agent.model), strict=True):
        np.testing.assert_array_equal(frozen, after)
    mapping = transfer.align(HunterEnv("z1c1", appearance="target"), agent, 1, 0)
    assert mapping.belief.shape[1] == 5
