"""Tiny worlds with known values, one thing each, so that a failure says what is broken."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.rl.networks import Dense, Heads
from protoalign.worlds.base import Transition


class State(NamedTuple):
    bit: Array  # [B] what is shown: -1 or +1
    time: Array  # [B]


class Probe(eqx.Module):
    """Episodes of `length` steps. All of it is data, so that one compiled program serves every probe."""

    length: Array
    terminates: Array  # the last step; else it truncates
    always: Array  # 1 for every step, whatever is done
    last: Array  # ... for the last step
    match: Array  # ... if the action fits the bit, else -1
    clock: Array  # whether the time is seen
    num_actions: int = eqx.field(static=True, default=2)

    def reset(self, key: Array, batch: int) -> State:
        return State(jnp.where(jax.random.bernoulli(key, shape=(batch,)), 1.0, -1.0), jnp.zeros(batch, jnp.int32))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        last = state.time + 1 >= self.length
        fits = jnp.where((action == 1) == (state.bit > 0), 1.0, -1.0)
        reward = self.always + self.last * last + self.match * fits
        return State(state.bit, state.time + 1), Transition(reward, last & self.terminates, last & ~self.terminates)

    def observe(self, state: State) -> Array:
        return jnp.stack([state.bit, self.clock * state.time], 1)

    def record(self, state: State) -> Array:
        return jnp.stack([state.bit, state.time.astype(jnp.float32)], 1)


def probe(length: int = 1, ends: str = "terminated", pays: str = "always", clock: bool = True) -> Probe:
    paid = [jnp.float32(pays == way) for way in ("always", "last", "match")]
    return Probe(jnp.int32(length), jnp.bool_(ends == "terminated"), *paid, jnp.float32(clock))


class TinyNet(eqx.Module):
    hidden: Dense
    heads: Heads

    def __init__(self, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.hidden = Dense(rng, 2, 32)
        self.heads = Heads(rng, 32, 2)

    def encode(self, observation: Array) -> Array:
        return observation

    def __call__(self, seen: Array) -> tuple[Array, Array]:
        return self.heads(jnp.tanh(self.hidden(seen)))
