import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError
from protoalign.rl import ppo
from protoalign.rl.rollout import Segment, collect, play_out
from protoalign.settings import PPOConfig
from tests.rl.probes import Probe, TinyNet, probe

CONFIG = PPOConfig(
    envs=16, segment=16, minibatch=64, epochs=4, learning_rate=5e-3, discount=0.8, entropy_coef=0.0, final_entropy_coef=0.0
)
UPDATES = 250


@jax.jit
def train(world: Probe, seed: int, updates: int, pull: float) -> tuple[ppo.PPOState, dict]:
    """One program for all probes: so many of UPDATES updates, and the metrics of the last.

    An auxiliary loss pulls values towards 5, if `pull` is not 0.
    """

    def auxiliary(net, batch):
        assert batch.next is not None
        return pull * ((net(batch.seen)[1] - 5) ** 2).mean()

    state, key = fresh(seed, world), jax.random.key(seed + 1)
    update = ppo.make_update(CONFIG, world, UPDATES, 0, auxiliary)
    _, metrics, _ = jax.eval_shape(update, state, key)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), metrics)
    return jax.lax.fori_loop(0, updates, lambda _, carry: update(carry[0], key)[:2], (state, nothing))


def fresh(seed: int, world: Probe) -> ppo.PPOState:
    return ppo.init(CONFIG, world, TinyNet(), jax.random.key(seed), UPDATES)


def learn(world, updates=UPDATES, seed=0, pull=0.0):
    state, metrics = train(world, seed, updates, pull)
    return state.net, jax.device_get(metrics)


def value(net, bit, time):
    return float(net(jnp.array([[bit, time]], jnp.float32))[1][0])


def test_value_of_a_constant_reward():
    net, _ = learn(probe(length=1))
    assert value(net, 1, 0) == pytest.approx(1, abs=0.05)


def test_discounting_back_from_the_end():
    net, _ = learn(probe(length=3, pays="last"))
    for time, expected in ((0, 0.8**2), (1, 0.8), (2, 1)):
        assert value(net, 1, time) == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize(("ends", "expected"), [("truncated", 5.0), ("terminated", 1.0)])
def test_truncation_is_bootstrapped_and_termination_is_not(ends, expected):
    """A reward of 1 for ever is worth 1 / (1 - 0.8) = 5 if a time limit cuts it and 1 if the episode really ends."""
    net, _ = learn(probe(length=1, ends=ends, clock=False))
    assert value(net, 1, 0) == pytest.approx(expected, rel=0.08)


def test_actions_that_depend_on_what_is_seen():
    net, metrics = learn(probe(length=1, pays="match"), updates=60)
    logits, _ = net(jnp.array([[-1.0, 0], [1.0, 0]]))
    right = jax.nn.softmax(logits)[jnp.arange(2), jnp.array([0, 1])]
    assert (right > 0.95).all()
    assert metrics["return_sum"] / metrics["episodes"] > 0.9


def test_the_same_key_gives_the_same_network_and_another_does_not():
    nets = [learn(probe(length=2, pays="match"), updates=5, seed=s)[0] for s in (3, 3, 4)]
    same, again, other = ([np.asarray(x) for x in jax.tree.leaves(net)] for net in nets)
    assert all((a == b).all() for a, b in zip(same, again, strict=True))
    assert not all((a == b).all() for a, b in zip(same, other, strict=True))


def test_an_auxiliary_loss_moves_the_network():
    """Towards a value of 5 whatever the rewards, which say something else."""
    net, _ = learn(probe(length=1), updates=150, pull=100.0)
    assert value(net, 1, 0) == pytest.approx(5, abs=0.3)


@pytest.fixture(scope="module")
def played():
    """A segment in episodes of three steps, three of sixteen environments recorded; as an update of seed 0 plays it."""
    world = probe(length=3, pays="match", ends="truncated")
    state = jax.jit(fresh)(0, world)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(1), 0))
    found = eqx.filter_jit(collect)(world, state.net, state.running, keys[0], CONFIG.segment, CONFIG.starts, 3)
    return world, state, keys, jax.device_get(found)


def test_learning_from_a_segment_that_was_played_elsewhere_is_what_an_update_does(played):
    """The segment handed over as NumPy arrays."""
    world, state, keys, (_, segment, last_value, _, _) = played
    expected, metrics = learn(world, updates=1)
    got, losses = jax.jit(ppo.learn, static_argnums=(0, 1))(CONFIG, UPDATES, state, segment, last_value, keys[1])
    assert int(got.updates) == 1
    for a, b, start in zip(*map(jax.tree.leaves, (got.net, expected, state.net)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
        assert abs(a - start).max() > 1e-4
    assert losses["value_loss"] == pytest.approx(float(metrics["value_loss"]), abs=1e-6)


def test_segments_go_across_episode_ends_and_resets_are_marked(played):
    world, state, _, (running, segment, last_value, finished, record) = played
    reset = segment.reset[:, 0]
    assert reset.tolist() == [False, False, False, True] * 4
    assert segment.truncated[:, 0].tolist() == [False, False, True, False] * 4
    assert not segment.terminated.any()
    assert (segment.reward[reset] == 0).all()
    assert (abs(segment.reward[~reset]) == 1).all()
    assert record.observation[:, 0, 1].tolist() == [0, 1, 2, 3] * 4, "the last observation of an episode is recorded, too"
    assert record.observation.shape == (16, 3, 2)
    assert record.action.dtype == np.uint8
    np.testing.assert_array_equal(record.action, segment.action[:, :3])
    np.testing.assert_array_equal(record.reward, segment.reward[:, :3])
    assert (int(finished.episodes), int(finished.length)) == (64, 192)
    assert float(finished.ret) == segment.reward.sum()
    np.testing.assert_allclose(last_value, state.net(world.observe(running.state))[1], rtol=1e-5)


def test_each_start_is_used_once(played):
    """All environments reset together, each time with the next sixteen of the pool."""
    world, _, keys, (_, segment, *_) = played
    pool = world.reset(jax.random.split(keys[0], 3)[0], CONFIG.starts)
    np.testing.assert_array_equal(segment.seen[[4, 8], :, 0].reshape(-1), pool.bit)


def test_advantages_against_a_plain_loop():
    rng = np.random.default_rng(0)
    steps, batch, discount, lam = 12, 5, 0.9, 0.7
    reward, values = rng.normal(size=(2, steps, batch)).astype(np.float32)
    terminated, truncated = rng.random((2, steps, batch)) < 0.2
    truncated &= ~terminated
    last = rng.normal(size=batch).astype(np.float32)
    nothing = np.zeros(0)
    segment = Segment(nothing, nothing, nothing, values, reward, terminated, truncated, nothing)
    got = np.asarray(ppo.estimate_advantage(segment, last, discount, lam))
    for b in range(batch):
        following, next_value = 0.0, last[b]
        for t in reversed(range(steps)):
            delta = reward[t, b] + (0 if terminated[t, b] else discount * next_value) - values[t, b]
            following = delta + (0 if terminated[t, b] or truncated[t, b] else discount * lam * following)
            next_value = values[t, b]
            assert got[t, b] == pytest.approx(following, abs=1e-5)


@pytest.mark.parametrize("n", [64, 6000])
def test_shuffling_visits_every_step_once_an_epoch(n):
    order = np.asarray(ppo.shuffle(jax.random.key(0), n, 3, n // 8)).reshape(3, n)
    for row in order:
        assert sorted(row) == list(range(n))
    assert (order[0] != order[1]).mean() > 0.9
    # The first minibatch is a fair sample: its mean is within 4 standard errors.
    assert abs(order[0, : n // 8].mean() - (n - 1) / 2) < 4 * n / 12**0.5 / (n / 8) ** 0.5


def test_evaluation_counts_whole_episodes_only():
    returns, lengths, _ = eqx.filter_jit(play_out)(probe(length=4), TinyNet(), jax.random.key(0), 50)
    assert np.asarray(returns).tolist() == [4.0] * 50
    assert np.asarray(lengths).tolist() == [4] * 50


def test_what_follows_a_step_is_the_next_one_of_the_same_episode():
    time, envs = 4, 2
    none = jnp.zeros((time, envs), bool)
    seen = jnp.arange(time * envs).reshape(time, envs)
    numbers = jnp.zeros((time, envs))
    segment = Segment(seen, seen, numbers, numbers, numbers + 2, none.at[1, 0].set(True), none.at[0, 1].set(True), none)
    segment = segment._replace(reset=none.at[2, 0].set(True))
    follows = ppo.what_follows(segment)
    np.testing.assert_array_equal(follows.known, [[1, 0], [0, 1], [0, 1], [0, 0]])  # not after an end, nor after the last
    np.testing.assert_array_equal(follows.seen[:-1], seen[1:])
    np.testing.assert_array_equal(follows.reward, numbers + 2)


def test_wrong_settings():
    with pytest.raises(UserError, match="does not divide"):
        PPOConfig(envs=10, segment=10, minibatch=64)
    with pytest.raises(UserError, match="at least 1"):
        PPOConfig(envs=0)
