"""Games in the source by an agent that does not know what is what: what a world model learns from.

A task policy that knows everything hardly ever does the wrong thing, so what follows from it would look unlikely even when it
is true. Here it takes some prototypes for others, and is decided to any degree.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from protoalign.alignment.imagination import Imagined, hide
from protoalign.arrays import select
from protoalign.rl.history import Episodes, join
from protoalign.rl.networks import ActorCritic, Believed
from protoalign.rl.rollout import Learnable
from protoalign.rng import gumbel, uniform

RIGHT, EXCHANGED = 0.35, 0.5  # how often it knows all, and has exchanged two; else it takes anything for anything
SIDE_BY_SIDE = 512  # games


def gather(
    world: Learnable, task: ActorCritic, prototypes: int, hideable: tuple[int, ...], key: Array, episodes: int, longest: int
) -> Episodes:
    """So many games (NumPy arrays, in prototypes), each to its step `longest`, by the task policy with its logits scaled by a
    number from 0 to 1, and taking the K hideable of C prototypes for what they are, for one another, or for anything."""
    parts = -(-episodes // SIDE_BY_SIDE)
    side = -(-episodes // parts)
    keys = [jax.random.fold_in(key, i) for i in range(parts)]
    done = [jax.device_get(_gather(world, task, prototypes, hideable, k, side, longest)) for k in keys]
    return jax.tree.map(lambda x: x[:episodes], join(done))


def mistakes(key: Array, batch: int, kinds: int) -> Array:
    """What each of K prototypes is taken for, [B, K] int32, all different: right, two exchanged, or any permutation."""
    u = uniform(key, (batch, 2 * kinds + 1))
    any_ = jnp.argsort(u[:, :kinds], axis=1)
    rank = jnp.argsort(jnp.argsort(u[:, kinds:-1], axis=1), axis=1)  # the two that come first are exchanged
    first, second = (jnp.argmax(rank == i, 1)[:, None] for i in range(2))
    plain = jnp.broadcast_to(jnp.arange(kinds), (batch, kinds))
    swapped = jnp.where(plain == first, second, jnp.where(plain == second, first, plain)) if kinds > 1 else plain
    which = u[:, -1:]
    return jnp.where(which < RIGHT, plain, jnp.where(which < RIGHT + EXCHANGED, swapped, any_)).astype(jnp.int32)


@eqx.filter_jit
def _gather(
    world: Learnable, task: ActorCritic, prototypes: int, hideable: tuple[int, ...], key: Array, number: int, longest: int
) -> Episodes:
    kinds = len(hideable)
    start_key, mistake_key, scale_key, noise_key, play_key = jax.random.split(key, 5)
    belief = jax.nn.one_hot(mistakes(mistake_key, number, kinds), kinds)
    scale = jnp.minimum(1.0, 1.5 * uniform(scale_key, (number, 1)))  # a third is as decided as it can be
    plain = jnp.broadcast_to(jnp.arange(kinds, dtype=jnp.int32), (number, kinds))
    hidden = Imagined(plain, plain, None, plain, jnp.ones((number, kinds), bool))
    noise = gumbel(noise_key, (longest, number, world.num_actions))

    def step(carry: tuple[Any, Array], x: tuple[Array, Array]) -> tuple[tuple[Any, Array], Any]:
        state, over = carry
        noise, key = x
        shown = world.observe(state)
        codes = hide(hidden, shown.tiles, prototypes, hideable)
        logits, _ = task(task.encode(Believed(codes, shown.numbers, belief)))
        action = jnp.argmax(scale * logits + noise, 1)
        after, (reward, terminated, truncated) = world.step(state, action, key)
        out = (shown, action.astype(jnp.uint8), jnp.where(over, 0, reward), ~over, terminated & ~over)
        return (select(over, state, after), over | terminated | truncated), out

    start = (world.reset(start_key, number), jnp.zeros(number, bool))
    (state, _), (shown, action, reward, going, terminated) = jax.lax.scan(
        step, start, (noise, jax.random.split(play_key, longest))
    )
    shown = jax.tree.map(lambda x, end: jnp.concatenate([x, end[None]]).swapaxes(0, 1), shown, world.observe(state))
    return Episodes(shown, action.T, reward.T, going.sum(0).astype(jnp.int32), terminated.any(0))
