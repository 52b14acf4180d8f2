"""pi_exp (eqs. 6 to 8): a policy that acts so that q_theta can tell what is what.

`ImaginedWorld` is a source world behind f_{I,psi}: codes instead of prototypes, beliefs of a frozen q_theta beside them, and as
reward the log-ratio of what q_theta gives the truth after and before a step. PPO trains an `Explorer` in it like any other
policy in any other world.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined, hide, imagine
from protoalign.alignment.inference import InferenceModel, Step
from protoalign.arrays import select
from protoalign.rl.history import Episodes
from protoalign.rl.networks import ActorCritic, Believed, Dense, RelativeNet
from protoalign.rl.relation import RelationNet
from protoalign.rl.rollout import Learnable, act
from protoalign.rng import gumbel
from protoalign.worlds.base import Observation, Transition

SIDE_BY_SIDE = 256  # episodes


class State(NamedTuple):
    inner: Any
    imagined: Imagined
    seen: Observation  # codes and numbers; kept because they cost more to make than to carry
    hidden: Array  # [B, S, F], q_theta's
    time: Array  # [B] int32, steps taken


class ImaginedWorld(eqx.Module):
    """`world`, seen as prototypes, with some of them hidden; `hide_all` as in `imagine`. Episodes end after `longest` steps."""

    model: InferenceModel
    world: Learnable
    longest: int = eqx.field(static=True)
    hide_all: Array | float = 1.0  # an array, so that one compiled program does for all

    @property
    def num_actions(self) -> int:
        return self.world.num_actions

    @property
    def slots(self) -> int:
        return len(self.model.hideable)

    def reset(self, key: Array, batch: int) -> State:
        world_key, imagine_key = jax.random.split(key)
        imagined = imagine(imagine_key, batch, self.slots, self.hide_all)
        inner = self.world.reset(world_key, batch)
        begun = self.model.begin(batch, self.slots)
        return State(inner, imagined, self._see(inner, imagined), begun, jnp.zeros(batch, jnp.int32))

    def _see(self, inner: Any, imagined: Imagined) -> Observation:
        tiles, numbers = self.world.observe(inner)
        return Observation(hide(imagined, tiles, self.model.scene.prototypes, self.model.hideable), numbers)

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        after, (_, terminated, truncated) = self.advance(state, action, key)
        gained = self.truth_score(after) - self.truth_score(state)
        return after, Transition(gained, terminated, truncated)

    def advance(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        """A step with the world's own reward."""
        inner, (reward, terminated, truncated) = self.world.step(state.inner, action, key)
        seen = self._see(inner, state.imagined)
        step = Step(state.seen.tiles, seen.tiles, state.seen.numbers, seen.numbers, action, reward)
        hidden = self.model.update(state.hidden, state.imagined, self.model.digest(step, self.slots))
        time = state.time + 1
        truncated |= ~terminated & (time >= self.longest)
        return State(inner, state.imagined, seen, hidden, time), Transition(reward, terminated, truncated)

    def truth_score(self, state: State) -> Array:
        """log q(I' | tau), [B]: the sum over slots of what the truth is given."""
        truth = state.imagined.truth[..., None]
        return jnp.take_along_axis(self.model.score(state.hidden, state.imagined), truth, -1)[..., 0].sum(-1)

    def observe(self, state: State) -> Believed:
        return Believed(*state.seen, jnp.exp(self.model.score(state.hidden, state.imagined)))

    def record(self, state: State) -> Any:
        return self.world.record(state.inner)


class Explorer(eqx.Module):
    """The task policy's network on beliefs, and a summary of how sure it is of what."""

    net: RelativeNet | RelationNet
    doubt: Dense | None

    def encode(self, seen: Believed) -> tuple[Any, Array]:
        belief = seen.belief
        doubt = jnp.concatenate([belief.sum(1), (belief**2).sum(1)], -1)  # the same however slots are numbered
        return self.net.encode(seen), doubt

    def __call__(self, seen: tuple[Any, Array]) -> tuple[Array, Array]:
        encoded, doubt = seen
        return self.net(encoded, self.doubt(doubt) if self.doubt is not None else 0.0)


def explorer_from(
    task: RelativeNet | RelationNet, hideable: tuple[int, ...], rng: np.random.Generator, scale: float
) -> Explorer:
    """An explorer that begins as the task policy, less decided: what is worth poking is mostly what is worth hunting.

    With a `scale` of 0 it begins from nothing, a network like the task policy's and without a summary, as the paper has it.
    """
    width = task.heads.policy.weight.shape[0]
    if not scale:
        return Explorer(type(task)(rng, task.scene, width, hideable), None)
    value = Dense(rng, width, 1, 1.0)  # it starts anew: it is of another reward
    policy = jax.tree.map(lambda x: scale * x, task.heads.policy)
    net = type(task)(rng, task.scene, width, hideable)
    net = jax.tree.unflatten(jax.tree.structure(net), jax.tree.leaves(task))
    net = eqx.tree_at(lambda n: (n.heads.policy, n.heads.value), net, (policy, value))
    return Explorer(net, Dense(rng, 2 * len(hideable), width, 0.1))


class Explored(NamedTuple):
    """E episodes of exploration in imagined worlds."""

    score: Array  # [E, S, K], at the end
    imagined: Imagined
    episodes: Episodes  # in prototypes, with the world's own rewards


def explore(world: ImaginedWorld, net: ActorCritic, key: Array, number: int) -> Explored:
    """Episodes of pi_exp from their start to their end; so many side by side as fit the processor's cache."""
    parts = number // SIDE_BY_SIDE if number % SIDE_BY_SIDE == 0 else 1
    done = jax.lax.map(lambda k: _explore_together(world, net, k, number // parts), jax.random.split(key, parts))
    return jax.tree.map(lambda x: x.reshape(number, *x.shape[2:]), done)


def _explore_together(world: ImaginedWorld, net: ActorCritic, key: Array, number: int) -> Explored:
    start_key, play_key = jax.random.split(key)
    start = world.reset(start_key, number)

    def step(carry: tuple[State, Array], key: Array) -> tuple[tuple[State, Array], Any]:
        state, over = carry
        act_key, world_key = jax.random.split(key)
        shown = world.world.observe(state.inner)
        _, action, _, _ = act(net, world.observe(state), gumbel(act_key, (number, world.num_actions)))
        after, (reward, terminated, truncated) = world.advance(state, action, world_key)
        out = (shown, action.astype(jnp.uint8), jnp.where(over, 0, reward), ~over, terminated & ~over)
        return (select(over, state, after), over | terminated | truncated), out

    keys = jax.random.split(play_key, world.longest)
    (state, _), (shown, action, reward, going, terminated) = jax.lax.scan(step, (start, jnp.zeros(number, bool)), keys)
    last = world.world.observe(state.inner)
    shown = jax.tree.map(lambda x, end: jnp.concatenate([x, end[None]]).swapaxes(0, 1), shown, last)
    episodes = Episodes(shown, action.T, reward.T, going.sum(0).astype(jnp.int32), terminated.any(0))
    return Explored(world.model.score(state.hidden, state.imagined), state.imagined, episodes)
