"""Running many episodes at once in compiled worlds: segments to learn from, and whole episodes to be judged by.

A step after an episode's end resets it (Gymnasium's "next step" autoreset), so that the final observation passes through the
network like any other and a truncated episode can be bootstrapped from its value. Such a step takes no action; it is marked
`reset` and belongs to no episode.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from protoalign.arrays import select
from protoalign.rl.networks import ActorCritic
from protoalign.rng import gumbel


class Learnable(Protocol):
    """What a policy can learn in: a world as the policy sees it. States are pytrees with leading batch axis B."""

    @property
    def num_actions(self) -> int: ...
    def reset(self, key: Array, batch: int) -> Any: ...
    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Any]: ...
    def observe(self, state: Any) -> Any: ...
    def record(self, state: Any) -> Any:
        """What a history keeps of a state; asked for only if environments are recorded."""
        ...


class Running(NamedTuple):
    """B episodes in progress."""

    state: Any
    done: Array  # [B] bool, over: the next step resets
    ret: Array  # [B] float32, return so far
    length: Array  # [B] int32, steps so far


class Segment(NamedTuple):
    """T consecutive steps of B environments, to learn from; every array is [T, B, ...]."""

    seen: Any  # encoded observations
    action: Array
    log_prob: Array
    value: Array
    reward: Array
    terminated: Array
    truncated: Array
    reset: Array


class Finished(NamedTuple):
    """Sums over the episodes that ended in a segment."""

    episodes: Array
    ret: Array
    length: Array


class Record(NamedTuple):
    """What the first R environments went through, [T, R, ...]: raw material for `rl.history`. JAX or NumPy arrays."""

    observation: Any
    action: Any  # uint8
    reward: Any
    terminated: Any
    truncated: Any
    reset: Any


def begin(world: Learnable, key: Array, batch: int) -> Running:
    zero = jnp.zeros(batch)
    return Running(world.reset(key, batch), zero > 0, zero, zero.astype(jnp.int32))


def act(net: ActorCritic, observation: Any, noise: Array | float) -> tuple[Any, Array, Array, Array]:
    """Encoded observations, sampled actions [B], their log-probabilities [B] and values [B]. Without noise, the likeliest."""
    seen = net.encode(observation)
    logits, value = net(seen)
    action = jnp.argmax(logits + noise, -1)
    log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
    return seen, action, log_prob, value


def collect(
    world: Learnable, net: ActorCritic, running: Running, key: Array, steps: int, starts: int, recorded: int = 0
) -> tuple[Running, Segment, Array, Finished, Record | None]:
    """`steps` steps of every environment, and the value [B] of what they see after the last.

    Start states come from a pool of `starts` fresh ones, each used once (a start may recur only if more episodes than that
    end within one segment): drawing them here, not in every step, halves the cost of a step.
    """
    pool_key, action_key, world_key = jax.random.split(key, 3)
    batch = running.done.shape[0]
    pool = world.reset(pool_key, starts)
    noise = gumbel(action_key, (steps, batch, world.num_actions))

    def step(carry: tuple[Running, Array], x: tuple[Array, Array]) -> tuple[tuple[Running, Array], Any]:
        running, used = carry
        noise, key = x
        seen, action, log_prob, value = act(net, world.observe(running.state), noise)
        shown = world.record(running.state) if recorded else ()
        state, (reward, terminated, truncated) = world.step(running.state, action, key)

        reset = running.done
        turn = jnp.cumsum(reset)

        def renew(state: Any) -> Any:
            return select(reset, jax.tree.map(lambda x: x[(used + turn - 1) % starts], pool), state)

        # Behind a condition, although it nearly always holds: XLA would else fold this into all that is made of the state.
        state = jax.lax.cond(reset.any(), renew, lambda state: state, state)
        reward = jnp.where(reset, 0, reward)
        terminated, truncated = terminated & ~reset, truncated & ~reset
        done = terminated | truncated
        running = Running(
            state,
            done,
            jnp.where(reset, 0, running.ret + reward),
            jnp.where(reset, 0, running.length + 1),
        )
        finished = Finished(done.sum(), (done * running.ret).sum(), (done * running.length).sum())
        segment = Segment(seen, action, log_prob, value, reward, terminated, truncated, reset)
        record = Record(shown, action.astype(jnp.uint8), reward, terminated, truncated, reset) if recorded else None
        return (running, used + turn[-1]), (segment, finished, jax.tree.map(lambda x: x[:recorded], record))

    (running, _), (segment, finished, record) = jax.lax.scan(
        step, (running, jnp.int32(0)), (noise, jax.random.split(world_key, steps))
    )
    _, last_value = net(net.encode(world.observe(running.state)))
    return running, segment, last_value, jax.tree.map(jnp.sum, finished), record


def play_out(world: Learnable, net: ActorCritic, key: Array, episodes: int, greedy: bool = False) -> tuple[Array, Array, Any]:
    """Returns [E] and lengths [E] of whole episodes, all started together, so that short ones are not favoured; and the world's
    states when the last of them had ended."""
    start_key, play_key = jax.random.split(key)

    def step(carry: tuple[Running, Array]) -> tuple[Running, Array]:
        running, t = carry
        action_key, world_key = jax.random.split(jax.random.fold_in(play_key, t))
        noise = 0.0 if greedy else gumbel(action_key, (episodes, world.num_actions))
        _, action, _, _ = act(net, world.observe(running.state), noise)
        state, (reward, terminated, truncated) = world.step(running.state, action, world_key)
        going = ~running.done
        return Running(
            state,
            running.done | terminated | truncated,
            running.ret + jnp.where(going, reward, 0),
            running.length + going,
        ), t + 1

    running, _ = jax.lax.while_loop(lambda carry: ~carry[0].done.all(), step, (begin(world, start_key, episodes), jnp.int32(0)))
    return running.ret, running.length, running.state
