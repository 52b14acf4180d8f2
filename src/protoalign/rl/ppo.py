"""Proximal policy optimisation: one implementation for every stage and every baseline.

    state = init(config, world, net, key, updates)
    update = jax.jit(make_update(config, world, updates))
    state, metrics, record = update(state, key)        # as often as you like

One update is two halves: `rollout.collect` plays a segment in every environment, `learn` learns from it. In compiled worlds
both are one program; segments from elsewhere go into `learn` alike. Keys of updates come from folding the update's number into
`key`, so a training state restored from disk goes on exactly as if never stopped.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from protoalign.rl.networks import ActorCritic
from protoalign.rl.rollout import Learnable, Record, Running, Segment, begin, collect
from protoalign.settings import PPOConfig


class PPOState(NamedTuple):
    net: Any
    optimiser: Any
    running: Running
    updates: Array  # int32, updates done


Update: TypeAlias = Callable[[PPOState, Array], tuple[PPOState, dict[str, Array], Record | None]]
Auxiliary: TypeAlias = Callable[[Any, "Batch"], Array]  # a loss besides PPO's, of a network on a minibatch


def make_optimiser(config: PPOConfig, total_updates: int) -> optax.GradientTransformation:
    gradient_steps = total_updates * config.epochs * (config.batch // config.minibatch)
    rate = optax.linear_schedule(config.learning_rate, config.final_learning_rate, gradient_steps)
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(rate, eps=1e-5))


def init(config: PPOConfig, world: Learnable, net: ActorCritic, key: Array, total_updates: int) -> PPOState:
    optimiser = make_optimiser(config, total_updates)
    return PPOState(net, optimiser.init(net), eqx.filter_jit(begin)(world, key, config.envs), jnp.int32(0))


def make_update(
    config: PPOConfig, world: Learnable, total_updates: int, recorded: int = 0, auxiliary: Auxiliary | None = None
) -> Update:
    """`update(state, key) -> state, metrics, record` for a run of `total_updates`; jit it.

    It records the first `recorded` environments. An `auxiliary` loss is added to PPO's.
    """

    def update(state: PPOState, key: Array) -> tuple[PPOState, dict[str, Array], Record | None]:
        collect_key, shuffle_key = jax.random.split(jax.random.fold_in(key, state.updates))
        running, segment, last_value, finished, record = collect(
            world, state.net, state.running, collect_key, config.segment, config.starts, recorded
        )
        state, metrics = learn(config, total_updates, state, segment, last_value, shuffle_key, auxiliary)
        metrics |= {"episodes": finished.episodes, "return_sum": finished.ret, "length_sum": finished.length}
        return state._replace(running=running), metrics, record

    return update


def learn(
    config: PPOConfig,
    total_updates: int,
    state: PPOState,
    segment: Segment,
    last_value: Array,
    key: Array,
    auxiliary: Auxiliary | None = None,
) -> tuple[PPOState, dict[str, Array]]:
    """The state after learning from a segment [T, B, ...], followed by observations worth `last_value` [B]; and mean losses."""
    optimiser = make_optimiser(config, total_updates)
    advantage = estimate_advantage(segment, last_value, config.discount, config.gae_lambda)
    batch = Batch(segment.seen, segment.action, segment.log_prob, advantage, advantage + segment.value, ~segment.reset)
    if auxiliary:
        batch = batch._replace(next=what_follows(segment))
    batch = jax.tree.map(lambda x: x.reshape(config.batch, *x.shape[2:]), batch)
    done = state.updates / total_updates
    entropy_coef = (1 - done) * config.entropy_coef + done * config.final_entropy_coef

    def descend(carry: tuple[Any, Any], chosen: Array) -> tuple[tuple[Any, Any], Any]:
        net, optimiser_state = carry
        minibatch = jax.tree.map(lambda x: x[chosen], batch)
        grads, losses = jax.grad(loss, has_aux=True)(net, minibatch, config, entropy_coef, auxiliary)
        steps, optimiser_state = optimiser.update(grads, optimiser_state)
        return (optax.apply_updates(net, steps), optimiser_state), losses

    (net, optimiser_state), losses = jax.lax.scan(
        descend, (state.net, state.optimiser), shuffle(key, config.batch, config.epochs, config.minibatch)
    )
    metrics = {name: value.mean() for name, value in losses.items()}
    return PPOState(net, optimiser_state, state.running, state.updates + 1), metrics


class Batch(NamedTuple):
    """Steps to learn from, [N, ...]."""

    seen: Any
    action: Array
    log_prob: Array
    advantage: Array
    target: Array  # of the value
    counts: Array  # bool, False for resets
    next: "Next | None" = None  # for auxiliary losses


class Next(NamedTuple):
    """What followed on steps, [N, ...]."""

    seen: Any
    reward: Array
    known: Array  # bool; not so after an episode's end and a segment's last step


def what_follows(segment: Segment) -> Next:
    last = jnp.arange(len(segment.reward))[:, None] == len(segment.reward) - 1
    known = ~(segment.terminated | segment.truncated | segment.reset | last)
    return Next(jax.tree.map(lambda x: jnp.roll(x, -1, 0), segment.seen), segment.reward, known)


def estimate_advantage(segment: Segment, last_value: Array, discount: float, gae_lambda: float) -> Array:
    """Generalised advantage estimation, [T, B]. What follows a truncated episode is worth the value of its last observation."""

    def back(carry: tuple[Array, Array], x: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        advantage, next_value = carry
        reward, value, terminated, truncated = x
        surprise = reward + discount * jnp.where(terminated, 0, next_value) - value
        advantage = surprise + discount * gae_lambda * jnp.where(terminated | truncated, 0, advantage)
        return (advantage, value), advantage

    _, advantage = jax.lax.scan(
        back,
        (jnp.zeros_like(last_value), last_value),
        (segment.reward, segment.value, segment.terminated, segment.truncated),
        reverse=True,
    )
    return advantage


def loss(
    net: ActorCritic, batch: Batch, config: PPOConfig, entropy_coef: Array | float, auxiliary: Auxiliary | None = None
) -> tuple[Array, dict[str, Array]]:
    """PPO's clipped objective on one minibatch, and its parts."""
    weight = batch.counts / jnp.maximum(batch.counts.sum(), 1)

    def mean(x: Array) -> Array:
        return (weight * x).sum()

    logits, value = net(batch.seen)
    log_probs = jax.nn.log_softmax(logits)
    log_ratio = jnp.take_along_axis(log_probs, batch.action[:, None], 1)[:, 0] - batch.log_prob
    ratio = jnp.exp(log_ratio)
    centred = batch.advantage - mean(batch.advantage)
    advantage = centred / (jnp.sqrt(mean(centred**2)) + 1e-8)
    gain = mean(jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - config.clip, 1 + config.clip) * advantage))
    value_loss = mean((value - batch.target) ** 2)
    entropy = -mean((jnp.exp(log_probs) * log_probs).sum(1))
    parts = {
        "policy_loss": -gain,
        "value_loss": value_loss,
        "entropy": entropy,
        "kl": mean(ratio - 1 - log_ratio),
        "clipped": mean(abs(ratio - 1) > config.clip),
    }
    total = config.value_coef * value_loss - gain - entropy_coef * entropy
    if auxiliary:
        parts["auxiliary_loss"] = auxiliary(net, batch)
        total += parts["auxiliary_loss"]
    return total, parts


def shuffle(key: Array, n: int, epochs: int, minibatch: int) -> Array:
    """Indices [epochs * n / minibatch, minibatch] that visit each of n steps once an epoch, in random order.

    The index rides in the low bits of a random word: sorting plain words is ten times faster than `jax.random.permutation`.
    """
    low = jnp.uint32((1 << (n - 1).bit_length()) - 1)
    words = jax.random.bits(key, (epochs * n,)).reshape(epochs, n)
    words = jnp.sort((words & ~low) | jnp.arange(n, dtype=jnp.uint32), axis=1)
    return (words & low).astype(jnp.int32).reshape(-1, minibatch)
