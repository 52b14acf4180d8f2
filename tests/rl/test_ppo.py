import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError
from protoalign.config import PPOConfig, TaskConfig
from protoalign.envs import hunter
from protoalign.rl import ppo
from protoalign.rl.networks import RelativeNet
from protoalign.rl.rollout import Segment, begin, collect, play_out
from tests.rl.probes import Probe, TinyNet

CONFIG = PPOConfig(
    envs=16, segment=16, minibatch=64, epochs=4, learning_rate=5e-3, discount=0.8, entropy_coef=0.0, final_entropy_coef=0.0
)


def learn(world, updates=150, config=CONFIG, net=None, seed=0):
    state = ppo.init(config, world, net or TinyNet(seed), jax.random.key(seed), updates)
    update = jax.jit(ppo.make_update(config, world, updates))
    for _ in range(updates):
        state, metrics, _ = update(state, jax.random.key(seed + 1))
    return state.net, metrics


def value(net, bit, time):
    return float(net(jnp.array([[bit, time]], jnp.float32))[1][0])


def test_value_of_a_constant_reward():
    net, _ = learn(Probe(length=1))
    assert value(net, 1, 0) == pytest.approx(1, abs=0.05)


def test_discounting_back_from_the_end():
    net, _ = learn(Probe(length=3, pays="last"))
    for time, expected in ((0, 0.8**2), (1, 0.8), (2, 1)):
        assert value(net, 1, time) == pytest.approx(expected, abs=0.06)


def test_truncation_is_bootstrapped_and_termination_is_not():
    """A reward of 1 for ever is worth 1 / (1 - 0.8) = 5 if a time limit cuts it and 1 if the episode really ends."""

    class Timeless(Probe):
        def observe(self, state):
            return jnp.stack([state.bit, 0 * state.bit], 1)

    for ends, expected in (("truncated", 5.0), ("terminated", 1.0)):
        net, _ = learn(Timeless(length=1, ends=ends), updates=400)
        assert value(net, 1, 0) == pytest.approx(expected, rel=0.06)


def test_actions_that_depend_on_what_is_seen():
    net, metrics = learn(Probe(length=1, pays="match"), updates=60)
    logits, _ = net(jnp.array([[-1.0, 0], [1.0, 0]]))
    right = jax.nn.softmax(logits)[jnp.arange(2), jnp.array([0, 1])]
    assert (right > 0.95).all()
    assert metrics["return_sum"] / metrics["episodes"] > 0.9


def test_advantages_against_a_plain_loop():
    rng = np.random.default_rng(0)
    steps, batch, discount, lam = 12, 5, 0.9, 0.7
    reward, values = rng.normal(size=(2, steps, batch)).astype(np.float32)
    terminated, truncated = rng.random((2, steps, batch)) < 0.2
    truncated &= ~terminated
    last = rng.normal(size=batch).astype(np.float32)
    nothing = np.zeros(0)
    segment = Segment(nothing, nothing, nothing, values, reward, terminated, truncated, nothing)
    got = ppo.estimate_advantage(segment, last, discount, lam)
    for b in range(batch):
        following, next_value = 0.0, last[b]
        for t in reversed(range(steps)):
            delta = reward[t, b] + (0 if terminated[t, b] else discount * next_value) - values[t, b]
            following = delta + (0 if terminated[t, b] or truncated[t, b] else discount * lam * following)
            next_value = values[t, b]
            assert float(got[t, b]) == pytest.approx(following, abs=1e-5)


@pytest.mark.parametrize("n", [64, 4096, 6000])
def test_shuffling_visits_every_step_once_an_epoch(n):
    order = np.asarray(ppo.shuffle(jax.random.key(0), n, 3, n // 8)).reshape(3, n)
    for row in order:
        assert sorted(row) == list(range(n))
    assert (order[0] != order[1]).mean() > 0.9
    # The first minibatch is a fair sample: its mean is within 4 standard errors.
    assert abs(order[0, : n // 8].mean() - (n - 1) / 2) < 4 * n / 12**0.5 / (n / 8) ** 0.5


def test_segments_go_across_episode_ends_and_resets_are_marked():
    world = Probe(length=3, ends="truncated")
    net = TinyNet()
    running = begin(world, jax.random.key(0), 4)
    running, segment, last_value, finished, record = collect(world, net, running, jax.random.key(1), 10, 8, recorded=2)
    reset = np.asarray(segment.reset[:, 0])
    assert reset.tolist() == [False, False, False, True] * 2 + [False, False]
    assert np.asarray(segment.truncated[:, 0]).tolist() == [False, False, True, False] * 2 + [False, False]
    assert np.asarray(segment.reward[reset]).sum() == 0
    assert np.asarray(record.observation)[:, 0, 1].tolist() == [0, 1, 2, 3] * 2 + [0, 1]
    assert record.observation.shape == (10, 2, 2)
    assert int(finished.episodes) == 8
    assert float(finished.ret) == 24
    assert int(finished.length) == 24
    np.testing.assert_allclose(last_value, net(world.observe(running.state))[1], rtol=1e-6)


def test_each_start_is_used_once():
    """With one start per reset and one-step episodes, the bits shown are those of the pool, in order."""
    world = Probe(length=1)
    running = begin(world, jax.random.key(0), 4)
    _, segment, *_ = collect(world, TinyNet(), running, jax.random.key(5), 5, 8)
    pool = world.reset(jax.random.split(jax.random.key(5), 3)[0], 8)
    shown = np.asarray(segment.seen)[2::2, :, 0].reshape(-1)  # steps 0, 2, 4 act; 1 and 3 reset
    np.testing.assert_array_equal(shown, pool.bit)


def test_evaluation_counts_whole_episodes_only():
    returns, lengths, _ = play_out(Probe(length=4), TinyNet(), jax.random.key(0), 50)
    assert np.asarray(returns).tolist() == [4.0] * 50
    assert np.asarray(lengths).tolist() == [4] * 50


def test_the_same_key_gives_the_same_network_and_another_does_not():
    nets = [learn(Probe(length=2, pays="match"), updates=5, seed=s)[0] for s in (3, 3, 4)]
    same, again, other = ([np.asarray(x) for x in jax.tree.leaves(net)] for net in nets)
    assert all((a == b).all() for a, b in zip(same, again, strict=True))
    assert not all((a == b).all() for a, b in zip(same, other, strict=True))


def test_wrong_settings():
    with pytest.raises(UserError, match="does not divide"):
        PPOConfig(envs=10, segment=10, minibatch=64)
    with pytest.raises(UserError, match="at least 1"):
        PPOConfig(envs=0)


def test_hunter_is_learned_in_seconds():
    """Half a million steps bring the return from 0 to well over 1.3 (the best possible is 2)."""
    world, config = hunter.parse("z1c1"), TaskConfig(steps=500_000)
    net = RelativeNet(np.random.default_rng(7), world, config.width)
    net, _ = learn(world, config.updates, config.ppo, net, seed=7)
    returns = np.asarray(jax.jit(play_out, static_argnums=(0, 3))(world, net, jax.random.key(0), 1000)[0])
    assert returns.mean() - 4 * returns.std() / 1000**0.5 > 1.3


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


def test_an_auxiliary_loss_moves_the_network():
    """Towards a value of 5 whatever the rewards: the only thing to learn where PPO's own losses say something else."""
    world = Probe(length=1)

    def pull(net, batch):
        assert batch.next is not None
        return 100 * ((net(batch.seen)[1] - 5) ** 2).mean()

    state = ppo.init(CONFIG, world, TinyNet(0), jax.random.key(0), 150)
    update = jax.jit(ppo.make_update(CONFIG, world, 150, 0, pull))
    for _ in range(150):
        state, _, _ = update(state, jax.random.key(1))
    assert value(state.net, 1, 0) == pytest.approx(5, abs=0.3)
