"""pi_exp for worlds seen from the player's place (Crafter): it plays so that q_theta can tell which new look is which kind.

`ImaginedView` is the source world with kinds disguised; its reward is the log-ratio of what q_theta gives the truth after and
before a step. `ViewExplorer` is the task policy's network on beliefs, and starts from its weights.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined, imagine
from protoalign.alignment.view_inference import Games, Glimpse, ViewInference, disguise
from protoalign.envs.base import Transition
from protoalign.envs.crafter.world import Crafter
from protoalign.rl.networks import ActorCritic, Dense, ViewNet, embed_sum, stairs
from protoalign.rl.rollout import act, choose
from protoalign.rng import gumbel


class State(NamedTuple):
    inner: Any
    imagined: Imagined  # which kind each type is, and which are hidden
    seen: Glimpse
    hidden: Array  # [B, K, F], q_theta's


class Believed(NamedTuple):
    """What pi_exp sees."""

    codes: Array  # [B, H * W] uint8
    numbers: Array  # [B, 17]
    belief: Array  # [B, K, K], of kinds, by type


class ImaginedView(eqx.Module):
    """`world` with the model's kinds disguised, for `longest` steps; `hide_all` as in `imagine`."""

    model: ViewInference
    longest: int = eqx.field(static=True)
    hide_all: float = eqx.field(static=True, default=1.0)

    @property
    def world(self) -> Crafter:
        return self.model.world

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def num_actions(self) -> int:
        return self.world.num_actions

    def reset(self, key: Array, batch: int) -> State:
        world_key, disguise_key = jax.random.split(key)
        imagined = imagine(disguise_key, batch, len(self.model.kinds), self.hide_all)
        inner = self.world.reset(world_key, batch)
        return State(inner, imagined, self.see(inner, imagined), self.model.begin(batch))

    def see(self, inner: Any, imagined: Imagined) -> Glimpse:
        tiles, numbers = self.world.observe(inner)
        codes = disguise(tiles, imagined, self.model.kinds, len(self.world.category_names))
        return Glimpse(codes.reshape(len(codes), -1), numbers)

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        after, (_, terminated, truncated) = self.advance(state, action, key)
        gained = self.truth_score(after) - self.truth_score(state)
        return after, Transition(gained, terminated, truncated | (~terminated & (after.inner.time >= self.longest)))

    def advance(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        """A step with the world's own reward."""
        inner, transition = self.world.step(state.inner, action, key)
        seen = self.see(inner, state.imagined)
        digested = self.model.digest(self.model.look(state.seen, seen, action, transition.reward))
        return State(inner, state.imagined, seen, self.model.update(state.hidden, digested)), transition

    def truth_score(self, state: State) -> Array:
        """The sum over types of what the truth is given, in logs, [B]; of types that are not hidden it never changes."""
        truth = state.imagined.truth[..., None]
        return jnp.take_along_axis(self.model.score(state.hidden), truth, -1)[..., 0].sum(-1)

    def observe(self, state: State) -> Believed:
        return Believed(*state.seen, jnp.exp(self.model.score(state.hidden)))


class ViewExplorer(eqx.Module):
    """The task policy's network, where an unknown tile counts as a mixture of what it may be."""

    net: ViewNet
    doubt: Dense
    kinds: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def from_task(cls, rng: np.random.Generator, task: ViewNet, kinds: tuple[int, ...], scale: float) -> "ViewExplorer":
        """It begins as the task policy, less decided; the value starts anew: it is of another reward."""
        width = task.heads.policy.weight.shape[0]
        heads = eqx.tree_at(
            lambda h: (h.policy, h.value),
            task.heads,
            (jax.tree.map(lambda x: scale * x, task.heads.policy), Dense(rng, width, 1, 1.0)),
        )
        return cls(eqx.tree_at(lambda n: n.heads, task, heads), Dense(rng, 2 * len(kinds), width, 0.1), kinds)

    def encode(self, observation: Believed) -> Believed:
        return observation

    def __call__(self, seen: Believed) -> tuple[Array, Array]:
        net, tiles = self.net, seen.codes.shape[1]
        codes = seen.codes.astype(jnp.int32)
        first = np.arange(tiles) * net.categories
        x = embed_sum(net.table, jnp.where(codes < net.categories, first + codes, len(net.table)))
        unknown = (codes[..., None] == net.categories + np.arange(len(self.kinds))).astype(jnp.float32)  # [B, N, K]
        rows = (first[:, None] + np.array(self.kinds)).reshape(-1)
        x = x + (unknown @ seen.belief).reshape(len(codes), -1) @ net.table[rows]
        doubt = jnp.concatenate([seen.belief.sum(1), (seen.belief**2).sum(1)], -1)  # the same however types are numbered
        x = x + net.numbers(stairs(seen.numbers)) + self.doubt(doubt)
        return net.heads(jax.nn.relu(net.hidden(jax.nn.relu(x))))


class Blend(eqx.Module):
    """A policy from random (the first of B games) to itself (the last), for experience of every sort."""

    net: Any

    def encode(self, observation: Any) -> Any:
        return self.net.encode(observation)

    def __call__(self, seen: Any) -> tuple[Array, Array]:
        logits, value = self.net(seen)
        return logits * jnp.linspace(0, 1, len(logits))[:, None], value


class Played(NamedTuple):
    games: Games  # with the world's own rewards
    imagined: Imagined
    score: Array  # [G, K, K], at the end


def play(world: ImaginedView, net: ActorCritic, key: Array, number: int, disguised: bool = True) -> Played:
    """Games from their start, for at most `world.longest` steps; `disguised`: as pi_exp sees them, else as pi_task does."""
    start_key, play_key = jax.random.split(key)
    start = world.reset(start_key, number)

    def step(carry: tuple[State, Array], key: Array) -> tuple[tuple[State, Array], Any]:
        state, over = carry
        act_key, world_key = jax.random.split(key)
        view = world.world.observe(state.inner)
        noise = gumbel(act_key, (number, world.num_actions))
        _, action, _, _ = act(net, world.observe(state) if disguised else view, noise)
        after, (reward, terminated, _) = world.advance(state, action, world_key)
        out = (view.tiles, view.numbers, action.astype(jnp.uint8), jnp.where(over, 0, reward), ~over)
        return (choose(over, state, after), over | terminated), out

    keys = jax.random.split(play_key, world.longest)
    (state, _), (tiles, numbers, action, reward, going) = jax.lax.scan(step, (start, jnp.zeros(number, bool)), keys)
    last = world.world.observe(state.inner)

    def whole(parts: Array, end: Array) -> Array:
        return jnp.concatenate([parts, end[None]]).swapaxes(0, 1)

    games = Games(
        whole(tiles, last.tiles).reshape(number, world.longest + 1, -1),
        whole(numbers, last.numbers),
        action.T,
        reward.T,
        going.sum(0).astype(jnp.int32),
    )
    return Played(games, state.imagined, world.model.score(state.hidden))
