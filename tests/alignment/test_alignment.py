"""q_theta, pi_exp and the decision, on episodes of real games."""

from functools import cache
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.alignment import decoding, inference
from protoalign.alignment.assignment import log_joint, log_marginals
from protoalign.alignment.exploration import ExplorerNet, ImaginedWorld, View, explore, from_task
from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import InferenceNet
from protoalign.envs import hunter
from protoalign.rl.history import Episodes
from protoalign.rl.networks import RelativeNet

WORLD = hunter.parse("z1c1")


def model(seed=0):
    net = InferenceNet(np.random.default_rng(seed), WORLD, 16)
    rng = np.random.default_rng(seed + 1)
    return jax.tree.map(lambda x: x + jnp.asarray(0.1 * rng.normal(size=x.shape), jnp.float32), net)


@cache
def explored(number=64, seed=0) -> tuple:
    world = ImaginedWorld(model(), WORLD, 0.5)
    net = ExplorerNet.fresh(np.random.default_rng(0), WORLD, 16)
    return world, jax.device_get(jax.jit(explore, static_argnums=(3, 4))(world, net, jax.random.key(seed), number, 31))


def test_renaming_types_renames_beliefs_and_nothing_else():
    _, done = explored()
    number = len(done.episodes.length)
    names = np.tile(np.arange(5, dtype=np.int32), (number, 1))
    hidden = np.ones((number, 5), bool)
    plain = np.asarray(inference.follow(model(), done.episodes, Imagined(names, names, hidden)))
    rng = np.random.default_rng(0)
    psi = rng.permuted(names, axis=1)
    renamed = np.asarray(inference.follow(model(), done.episodes, Imagined(psi, np.argsort(psi, 1).astype(np.int32), hidden)))
    back = np.take_along_axis(renamed, np.broadcast_to(psi[None, ..., None], (*renamed.shape[:-1], 1)), 2)
    np.testing.assert_allclose(back, plain, atol=2e-4)
    assert abs(renamed - plain).max() > 0.1, "the renaming was not trivial"


def test_all_types_start_alike_and_known_ones_are_certain():
    hidden = model().begin(3)
    assert (np.asarray(hidden) == np.asarray(hidden)[:, :1]).all()
    truth = np.array([[2, 0, 1, 4, 3]] * 3)
    known = Imagined(truth, truth, np.array([[True, False, True, True, False]] * 3))
    belief = np.exp(np.asarray(model().score(hidden, known)))
    np.testing.assert_allclose(belief.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(belief[:, 1, 0], 1, atol=1e-5)
    np.testing.assert_allclose(belief[:, 4, 3], 1, atol=1e-5)
    together = np.exp(np.asarray(log_marginals(model().score(hidden, known))))
    assert (together[:, [0, 2, 3]][..., [0, 3]] < 1e-5).all(), "what is taken is not free for others"


def test_the_information_reward_adds_up():
    """Over an episode it is what the truth is given at the end, less what it was given at the start."""
    world, _ = explored()
    state = world.reset(jax.random.key(0), 8)
    first, total, step = world.truth_score(state.hidden, state.imagined), 0.0, jax.jit(lambda *args: world.step(*args))
    for t in range(10):
        state, (reward, _, _) = step(state, jnp.full(8, 1 + t % 8), jax.random.key(t))
        total = total + reward
    np.testing.assert_allclose(total, world.truth_score(state.hidden, state.imagined) - first, atol=1e-3)


def test_beliefs_while_exploring_are_those_of_the_episode_afterwards():
    """Playing step by step and following the recorded episode give the same beliefs."""
    world, done = explored()
    after = np.asarray(inference.follow(world.model, done.episodes, Imagined(*map(jnp.asarray, done.imagined))))[-1]
    np.testing.assert_allclose(after, done.score, atol=2e-3)


def test_an_explorer_made_from_the_task_policy_acts_like_it_when_sure():
    task = RelativeNet(np.random.default_rng(3), WORLD, 16)
    task = jax.tree.map(lambda x: x + 0.3, task)
    explorer = from_task(np.random.default_rng(0), task, 1.0)
    explorer = ExplorerNet(explorer.net, jax.tree.map(lambda x: 0 * x, explorer.doubt))
    grid = np.asarray(WORLD.observe(WORLD.reset(jax.random.key(0), 6)))
    sure = np.tile(np.eye(5, dtype=np.float32), (6, 1, 1))
    expected, _ = task(task.encode(grid))
    got, _ = explorer(explorer.encode(View(grid, sure)))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


def test_q_theta_learns_from_games():
    """From a random explorer's games alone: floor, walls and the agent give themselves away within an episode."""
    _, done = explored(1024)
    episodes = Episodes(*done.episodes)
    net = InferenceNet(np.random.default_rng(0), WORLD, 32)
    optimiser = inference.make_optimiser(80, 4e-3, 2e-3)
    state, fit = optimiser.init(net), inference.make_fit(optimiser)
    rng, losses = np.random.default_rng(0), []
    for i in range(80):
        net, state, metrics = fit(net, state, inference.choose(episodes, rng, 64), jax.random.key(i))
        losses.append(float(metrics["final_loss"]))
    assert np.mean(losses[:3]) > 1.3, "not knowing costs log 5 = 1.61"
    assert np.mean(losses[-10:]) < 0.8


def test_assignments_by_hand():
    score = np.log(np.array([[0.8, 0.2], [0.5, 0.5]]))
    same, swapped = 0.8 * 0.5, 0.2 * 0.5
    sure = same / (same + swapped)
    np.testing.assert_allclose(np.exp(log_marginals(score)), [[sure, 1 - sure], [1 - sure, sure]], rtol=1e-5)
    np.testing.assert_allclose(np.exp(log_joint(score, np.array([1, 0]))), 1 - sure, rtol=1e-5)
    assert decoding.sureness(score) == pytest.approx(sure, rel=1e-5)


@pytest.mark.parametrize(("types", "prototypes"), [(1, 3), (3, 3), (3, 5), (5, 5)])
def test_assignments_against_a_plain_sum(types, prototypes):
    score = np.random.default_rng(types).normal(size=(2, types, prototypes))
    chosen = list(permutations(range(prototypes), types))
    weight = np.exp([[sum(one[p, c] for p, c in enumerate(choice)) for choice in chosen] for one in score])
    weight /= weight.sum(1, keepdims=True)
    for i, choice in enumerate(chosen):
        joint = log_joint(score, np.tile(choice, (2, 1)))
        np.testing.assert_allclose(np.exp(joint), weight[:, i], rtol=1e-4)
    expected = np.zeros_like(score)
    for i, choice in enumerate(chosen):
        expected[:, np.arange(types), choice] += weight[:, i : i + 1]
    np.testing.assert_allclose(np.exp(log_marginals(score)), expected, rtol=1e-4)


def test_more_types_than_prototypes_are_judged_one_by_one():
    score = np.log(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]))
    np.testing.assert_allclose(np.exp(log_marginals(score)), np.exp(score), rtol=1e-5)
    np.testing.assert_allclose(np.exp(log_joint(score, np.array([0, 0, 1]))), 0.9 * 0.8 * 0.7, rtol=1e-5)


def test_bayes_and_averaging_by_hand():
    p = np.array([[[0.8, 0.2], [0.2, 0.8]], [[0.6, 0.4], [0.4, 0.6]]])  # two episodes, two types
    bayes = np.exp(decoding.combine(np.log(p)))
    np.testing.assert_allclose(bayes[0], [0.48 / 0.56, 0.08 / 0.56])
    np.testing.assert_allclose(np.exp(decoding.combine(np.log(p), "average")), [[0.7, 0.3], [0.3, 0.7]], atol=1e-9)
    np.testing.assert_allclose(decoding.sureness(decoding.combine(np.log(p))), (0.48**2) / (0.48**2 + 0.08**2), rtol=1e-5)


def test_one_episode_cannot_rule_anything_out_for_good():
    wrong_once = np.log(np.array([[[1 - 1e-9, 1e-9]]] + [[[0.01, 0.99]]] * 3))
    assert decoding.decode(decoding.combine(wrong_once), joint=False)[0] == 1


def test_joint_decoding_gives_no_prototype_twice():
    belief = np.log(np.array([[0.5, 0.45, 0.05], [0.6, 0.1, 0.3], [0.1, 0.2, 0.7]]))
    assert decoding.decode(belief, joint=False).tolist() == [0, 0, 2]
    assert decoding.decode(belief).tolist() == [1, 0, 2]
    more_looks = np.concatenate([belief, belief[:1]])
    assert decoding.decode(more_looks).tolist() == [0, 0, 2, 0], "with more looks than prototypes, each by itself"


@pytest.mark.parametrize("episodes", [1, 2, 5])
def test_share_right(episodes):
    rng = np.random.default_rng(0)
    right = np.log(np.full((100, 3, 3), 0.05) + 0.85 * np.eye(3))
    assert decoding.share_right(right, episodes) == 1
    swapped = right[:, [1, 0, 2]]
    assert decoding.share_right(swapped, episodes) == 0
    truth = np.stack([rng.permutation(3) for _ in range(100)])
    disguised = np.take_along_axis(right, truth[..., None], 1)
    np.testing.assert_allclose(decoding.by_prototype(disguised, truth), right)
