"""Tiny worlds with known values, one thing each, so that a failure says what is broken."""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.envs.base import Transition
from protoalign.rl.networks import Dense, Heads


class State(NamedTuple):
    bit: Array  # [B] what is shown: -1 or +1
    time: Array  # [B]


@dataclass(frozen=True)
class Probe:
    """Episodes of `length` steps; `ends` says whether the last one terminates or truncates."""

    length: int = 1
    ends: str = "terminated"
    pays: str = "always"  # "always" 1; "last": 1 in the last step; "match": 1 if the action fits the bit, else -1
    name: str = "probe"
    num_actions: int = 2

    def reset(self, key: Array, batch: int) -> State:
        return State(jnp.where(jax.random.bernoulli(key, shape=(batch,)), 1.0, -1.0), jnp.zeros(batch, jnp.int32))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        last = state.time + 1 >= self.length
        if self.pays == "match":
            reward = jnp.where((action == 1) == (state.bit > 0), 1.0, -1.0)
        else:
            reward = jnp.where(last | (self.pays == "always"), 1.0, 0.0)
        over = last & (self.ends == "terminated"), last & (self.ends == "truncated")
        return State(state.bit, state.time + 1), Transition(reward, *over)

    def observe(self, state: State) -> Array:
        return jnp.stack([state.bit, state.time.astype(jnp.float32)], 1)


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
