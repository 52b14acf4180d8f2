import jax
import jax.numpy as jnp
import numpy as np

from protoalign.alignment import training
from protoalign.alignment.exploration import explorer_from
from protoalign.rl.networks import Believed, RelativeNet
from protoalign.rl.relation import RelationNet
from tests.alignment.helpers import ALL, explored, scene, source


def test_the_information_reward_adds_up():
    """Over an episode it is what the truth is given at the end, less what it was given at the start."""
    world, _ = explored()

    @jax.jit
    def play(key):
        start = world.reset(key, 8)

        def step(state, t):
            after, transition = world.step(state, jnp.full(8, 1 + t), jax.random.fold_in(key, t))
            return after, transition.reward

        end, rewards = jax.lax.scan(step, start, jnp.arange(6))
        return rewards.sum(0), world.truth_score(end) - world.truth_score(start)

    total, gained = play(jax.random.key(0))
    np.testing.assert_allclose(total, gained, atol=1e-3)
    assert abs(gained).max() > 0.01


def test_episodes_end_by_themselves_or_when_they_are_long_enough():
    _, done = explored()
    assert done.episodes.length.max() <= 31
    assert done.episodes.observation.tiles.shape == (64, 32, 6, 6)
    going = np.arange(31) < done.episodes.length[:, None]
    assert not done.episodes.reward[~going].any()


def test_an_explorer_made_from_the_task_policy_acts_like_it_when_sure():
    observation = jax.jit(lambda key: source().observe(source().reset(key, 6)))(jax.random.key(0))
    psi = np.array([3, 0, 4, 1, 2])  # prototype -> slot
    codes = 5 + psi[np.asarray(observation.tiles)].astype(np.uint8)
    belief = np.broadcast_to(np.eye(5, dtype=np.float32)[np.argsort(psi)], (6, 5, 5))
    for build in (RelativeNet, RelationNet):
        task = jax.tree.map(lambda x: x + 0.1, build(np.random.default_rng(3), scene(), 16))
        explorer = explorer_from(task, ALL, np.random.default_rng(0), 1.0)
        silent = jax.tree.map(lambda x: 0 * x, explorer.doubt)
        explorer = type(explorer)(explorer.net, silent)
        expected, _ = jax.jit(lambda net, seen: net(net.encode(seen)))(task, observation)
        believed = Believed(codes, observation.numbers, belief)
        got, _ = jax.jit(lambda net, seen: net(net.encode(seen)))(explorer, believed)
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
        fresh = explorer_from(task, ALL, np.random.default_rng(0), 0.0)
        assert fresh.doubt is None
        assert abs(fresh.net.heads.policy.weight).max() < 0.1, "from nothing"


def test_measuring_counts_what_was_met():
    world, _ = explored()
    task = RelativeNet(np.random.default_rng(0), scene(), 16)
    net = explorer_from(task, ALL, np.random.default_rng(0), 0.5)
    found = training.measure(source(), world.model, net, 0, 64, 31, ("floor", "zombie", "agent", "cow", "wall"))
    assert found["measured_episodes"] == 64
    assert found["one_episode_correct"] < 0.3, "a model with random weights knows nothing"
    assert found["one_episode_met"] == dict.fromkeys(("floor", "zombie", "agent", "cow", "wall"), 1.0)
    assert found["one_episode_all_met"] == 1
