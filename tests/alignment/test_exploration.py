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
    state = world.reset(jax.random.key(0), 8)
    first, total, step = world.truth_score(state), 0.0, jax.jit(lambda *args: world.step(*args))
    for t in range(6):
        state, (reward, _, _) = step(state, jnp.full(8, 1 + t % 8), jax.random.key(t))
        total = total + reward
    np.testing.assert_allclose(total, world.truth_score(state) - first, atol=1e-3)


def test_episodes_end_by_themselves_or_when_they_are_long_enough():
    world, done = explored()
    assert done.episodes.length.max() <= 31
    assert done.episodes.observation.tiles.shape == (64, 32, 6, 6)
    going = np.arange(31) < done.episodes.length[:, None]
    assert not done.episodes.reward[~going].any()
    short = type(world)(world.model, world.world, 3, 1.0)
    state = short.reset(jax.random.key(0), 4)
    for t in range(3):
        state, (_, terminated, truncated) = short.step(state, jnp.zeros(4, int), jax.random.key(t))
    assert (truncated | terminated).all()


def test_an_explorer_made_from_the_task_policy_acts_like_it_when_sure():
    observation = source().observe(source().reset(jax.random.key(0), 6))
    psi = np.array([3, 0, 4, 1, 2])  # prototype -> slot
    codes = 5 + psi[np.asarray(observation.tiles)].astype(np.uint8)
    belief = np.broadcast_to(np.eye(5, dtype=np.float32)[np.argsort(psi)], (6, 5, 5))
    for build in (RelativeNet, RelationNet):
        task = jax.tree.map(lambda x: x + 0.1, build(np.random.default_rng(3), scene(), 16))
        explorer = explorer_from(task, ALL, np.random.default_rng(0), 1.0)
        silent = jax.tree.map(lambda x: 0 * x, explorer.doubt)
        explorer = type(explorer)(explorer.net, silent)
        expected, _ = task(task.encode(observation))
        got, _ = explorer(explorer.encode(Believed(codes, observation.numbers, belief)))
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
