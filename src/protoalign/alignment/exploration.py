"""pi_exp (eqs. 6 to 8): a policy that acts so that q_theta can tell what is what.

`ImaginedWorld` is a source world behind f_{I,psi}: types instead of categories, beliefs of a frozen q_theta beside them, and
as reward the log-ratio of what q_theta gives the truth after and before a step. PPO trains `ExplorerNet`, or the paper's
`RelationExplorer`, in it like any other policy in any other world.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined, disguise, imagine
from protoalign.alignment.inference import InferenceModel
from protoalign.envs.base import TileWorld, Transition
from protoalign.rl.history import Episodes
from protoalign.rl.networks import ActorCritic, Dense, Objects, RelationNet, RelativeNet
from protoalign.rl.rollout import act, choose
from protoalign.rng import gumbel

SIDE_BY_SIDE = 256  # episodes


class State(NamedTuple):
    inner: Any
    imagined: Imagined
    types: Array  # [B, H, W] uint8, what is seen; kept because it costs more to make than to carry
    hidden: Array  # [B, P, F], q_theta's


class View(NamedTuple):
    """What pi_exp sees."""

    types: Array  # [B, H, W] uint8
    belief: Array  # [B, P, C]


class ImaginedWorld(eqx.Module):
    """`world` with prototypes hidden; `hide_all` as in `imagine`."""

    model: InferenceModel
    world: TileWorld = eqx.field(static=True)
    hide_all: float = eqx.field(static=True, default=0.5)

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def num_actions(self) -> int:
        return self.world.num_actions

    def reset(self, key: Array, batch: int) -> State:
        world_key, imagine_key = jax.random.split(key)
        imagined = imagine(imagine_key, batch, self.model.prototypes, self.hide_all)
        inner = self.world.reset(world_key, batch)
        return State(inner, imagined, disguise(imagined, self.world.observe(inner)), self.model.begin(batch))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        after, (_, terminated, truncated) = self.advance(state, action, key)
        gained = self.truth_score(after.hidden, state.imagined) - self.truth_score(state.hidden, state.imagined)
        return after, Transition(gained, terminated, truncated)

    def advance(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        """A step with the world's own reward."""
        inner, transition = self.world.step(state.inner, action, key)
        types = disguise(state.imagined, self.world.observe(inner))
        seen = self.model.look(state.types, types, action, transition.reward, self.model.prototypes)
        hidden = self.model.update(state.hidden, state.imagined, seen)
        return State(inner, state.imagined, types, hidden), transition

    def truth_score(self, hidden: Array, imagined: Imagined) -> Array:
        """log q(I' | tau), [B]: the sum over types of what the truth is given."""
        return jnp.take_along_axis(self.model.score(hidden, imagined), imagined.truth[..., None], -1)[..., 0].sum(-1)

    def observe(self, state: State) -> View:
        return View(state.types, jnp.exp(self.model.score(state.hidden, state.imagined)))


class ExplorerNet(eqx.Module):
    """The relative network on soft codes, told besides how sure it is of what."""

    net: RelativeNet
    doubt: Dense

    @classmethod
    def fresh(cls, rng: np.random.Generator, world: TileWorld, width: int = 64) -> "ExplorerNet":
        return cls(RelativeNet(rng, world, width), Dense(rng, 2 * len(world.category_names), width, 0.1))

    def encode(self, view: View) -> Objects:
        return self.net.encode(view.types, view.belief)

    def __call__(self, seen: Objects) -> tuple[Array, Array]:
        assert seen.codes is not None
        doubt = jnp.concatenate([seen.codes.sum(1), (seen.codes**2).sum(1)], -1)  # the same however types are numbered
        return self.net(seen, self.doubt(doubt))


class RelationExplorer(eqx.Module):
    """The paper's: the relation network, a tile's embedding the mean over what its type may be."""

    net: RelationNet

    @classmethod
    def fresh(cls, rng: np.random.Generator, world: TileWorld, width: int = 32) -> "RelationExplorer":
        return cls(RelationNet(rng, world, width))

    def encode(self, view: View) -> View:
        return View(self.net.encode(view.types), view.belief)

    def __call__(self, seen: View) -> tuple[Array, Array]:
        tile = seen.types[..., None] == np.arange(seen.belief.shape[1], dtype=np.uint8)  # [B, N, P]
        return self.net.relate(tile.astype(jnp.float32) @ (seen.belief @ self.net.category))


def from_task(rng: np.random.Generator, task: RelativeNet, scale: float) -> ExplorerNet:
    """An explorer that begins as the task policy, less decided: what is worth poking is mostly what is worth hunting."""
    fresh = ExplorerNet.fresh(rng, task.world, len(task.bias))
    policy = jax.tree.map(lambda x: scale * x, task.heads.policy)
    heads = eqx.tree_at(lambda h: h.policy, fresh.net.heads, policy)  # the value starts anew: it is of another reward
    return ExplorerNet(eqx.tree_at(lambda n: n.heads, task, heads), fresh.doubt)


class Explored(NamedTuple):
    """E whole episodes of exploration."""

    score: Array  # [E, P, C], at the end
    imagined: Imagined
    episodes: Episodes  # in prototypes, with the world's own rewards


def explore(world: ImaginedWorld, net: ActorCritic, key: Array, number: int, longest: int) -> Explored:
    """Whole episodes of pi_exp, given at most `longest` steps; so many side by side as fit the processor's cache."""
    parts = number // SIDE_BY_SIDE if number % SIDE_BY_SIDE == 0 else 1
    done = jax.lax.map(lambda k: _explore_together(world, net, k, number // parts, longest), jax.random.split(key, parts))
    return jax.tree.map(lambda x: x.reshape(number, *x.shape[2:]), done)


def _explore_together(world: ImaginedWorld, net: ActorCritic, key: Array, number: int, longest: int) -> Explored:
    start_key, play_key = jax.random.split(key)
    start = world.reset(start_key, number)
    noise = gumbel(jax.random.fold_in(play_key, 0), (longest, number, world.num_actions))

    def step(carry: tuple[State, Array], x: tuple[Array, Array]) -> tuple[tuple[State, Array], Any]:
        state, over = carry
        noise, key = x
        grid = world.world.observe(state.inner)
        _, action, _, _ = act(net, world.observe(state), noise)
        after, (reward, terminated, truncated) = world.advance(state, action, key)
        out = (grid, action.astype(jnp.uint8), jnp.where(over, 0, reward), ~over, terminated & ~over)
        return (choose(over, state, after), over | terminated | truncated), out

    keys = jax.random.split(jax.random.fold_in(play_key, 1), longest)
    (state, _), (grid, action, reward, going, terminated) = jax.lax.scan(step, (start, jnp.zeros(number, bool)), (noise, keys))
    grid = jnp.concatenate([grid, world.world.observe(state.inner)[None]]).swapaxes(0, 1)
    episodes = Episodes(grid, action.T, reward.T, going.sum(0).astype(jnp.int32), terminated.any(0))
    return Explored(world.model.score(state.hidden, state.imagined), state.imagined, episodes)
