"""Whole games in imagined worlds, one after another, by any judge and actor: for training, calibration and measurement.

In each of B imagined worlds everything is played as in a target: an actor chooses, a judge watches, evidence adds up from game
to game. Nothing but codes reaches either of them.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment import assignments
from protoalign.alignment.actors import Actor
from protoalign.alignment.imagination import hide, imagine
from protoalign.alignment.inference import Step
from protoalign.alignment.judges import Judge
from protoalign.arrays import select
from protoalign.rl.history import Episodes
from protoalign.rl.networks import Believed
from protoalign.rl.rollout import Learnable
from protoalign.rng import gumbel, uniform
from protoalign.worlds.base import Observation

SIDE_BY_SIDE = 256  # imagined worlds in one compiled program


class Games(NamedTuple):
    """G games in each of E imagined worlds, L steps at most. NumPy or JAX arrays."""

    episodes: Episodes  # in prototypes, leading axes [G, E]
    sure: Any  # [G, E, L], the probability of the most likely assignment after each step; of many prototypes, slot by slot
    right: Any  # [G, E, L] bool, whether that is the truth
    score: Any  # [G, E, H], the judge's, of each game by itself; or [G, E, K, K], of pairs, a row being what truly is that one
    truth: Any  # [E] int32, number of the true assignment; 0 where they have none
    met: Any  # [G, E, K] bool, which prototypes were seen in each game
    hidden: Any  # [E, K] bool, which were hidden

    @property
    def going(self) -> np.ndarray:
        """[G, E, L] bool, the steps that were taken."""
        return np.arange(self.sure.shape[-1]) < np.asarray(self.episodes.length)[..., None]

    @property
    def returns(self) -> np.ndarray:
        """[G, E]."""
        return np.asarray(self.episodes.reward).sum(-1)


def play(
    world: Learnable,
    hideable: tuple[int, ...],
    judge: Judge,
    actor: Actor,
    key: Array,
    number: int,
    games: int,
    longest: int,
    hide_all: float = 1.0,
) -> Games:
    """`number` imagined worlds (a multiple of SIDE_BY_SIDE, or fewer), `games` games in each; NumPy arrays.

    Everything that may be hidden is hidden with probability `hide_all`, else a random subset; of many prototypes always that.
    """
    parts = -(-number // SIDE_BY_SIDE)
    side = min(number, SIDE_BY_SIDE)
    found = [
        jax.device_get(_play(world, hideable, judge, actor, jax.random.fold_in(key, part), side, games, longest, hide_all))
        for part in range(parts)
    ]
    axis = {"truth": 0, "hidden": 0}  # of worlds; 1 where games come first
    joined = {
        name: jax.tree.map(lambda *x, name=name: np.concatenate(x, axis.get(name, 1)), *(getattr(part, name) for part in found))
        for name in Games._fields
    }
    return Games(**joined)


@eqx.filter_jit
def _play(
    world: Learnable,
    hideable: tuple[int, ...],
    judge: Judge,
    actor: Actor,
    key: Array,
    batch: int,
    games: int,
    longest: int,
    hide_all: float,
) -> Games:
    kinds, prototypes = len(hideable), judge.prototypes
    imagine_key, mind_key, games_key = jax.random.split(key, 3)
    whole = kinds <= assignments.MOST
    which = None
    if not whole:  # of many prototypes any share is new, seldom all
        u = uniform(jax.random.fold_in(imagine_key, 1), (batch, kinds + 1))
        which = u[:, :-1] < u[:, -1:]
    imagined = imagine(imagine_key, batch, kinds, hide_all, which=which)
    truth = assignments.index_of(imagined.truth) if whole else jnp.zeros(batch, jnp.int32)

    def see(state: Any) -> Observation:
        tiles, numbers = world.observe(state)
        return Observation(hide(imagined, tiles, prototypes, hideable), numbers)

    def posterior(earlier: Array, watched: Any) -> Array:
        return jax.nn.log_softmax(earlier + judge.score(watched, imagined))

    def verdict(posterior: Array) -> tuple[Array, Array]:
        if whole:
            return jnp.exp(posterior.max(1)), jnp.argmax(posterior, 1) == truth
        right = (jnp.argmax(posterior, -1) == imagined.truth) | ~imagined.hidden
        return jnp.exp(jnp.where(imagined.hidden, posterior.max(-1), 0).sum(1)), right.all(1)

    def game(carry: tuple[Array, Any], key: Array) -> tuple[tuple[Array, Any], Any]:
        earlier, mind = carry
        start_key, noise_key, step_key = jax.random.split(key, 3)
        state = world.reset(start_key, batch)
        noise = gumbel(noise_key, (longest, batch, world.num_actions))

        def step(carry: Any, x: tuple[Array, Array]) -> tuple[Any, Any]:
            state, seen, watched, mind, over = carry
            noise, key = x
            act_key, world_key = jax.random.split(key)
            believed = Believed(seen.tiles, seen.numbers, judge.belief(watched, imagined))
            action, next_mind = actor.act(mind, believed, posterior(earlier, watched), act_key, noise)
            after, (reward, terminated, truncated) = world.step(state, action, world_key)
            then = see(after)
            happened = Step(seen.tiles, then.tiles, seen.numbers, then.numbers, action, reward)
            watched = select(over, watched, judge.watch(watched, imagined, happened, ~over))
            sure, right = verdict(posterior(earlier, watched))
            out = (
                world.observe(state),
                action.astype(jnp.uint8),
                jnp.where(over, 0, reward),
                ~over,
                terminated & ~over,
                sure,
                right,
            )
            carry = select(over, state, after), select(over, seen, then), watched, select(over, mind, next_mind)
            return (*carry, over | terminated | truncated), out

        seen = see(state)
        start = (state, seen, judge.begin(imagined, seen), mind, jnp.zeros(batch, bool))
        keys = jax.random.split(step_key, longest)
        (state, _, watched, mind, _), (shown, action, reward, going, terminated, sure, right) = jax.lax.scan(
            step, start, (noise, keys)
        )
        score = judge.score(watched, imagined)
        shown = jax.tree.map(lambda x, end: jnp.concatenate([x, end[None]]).swapaxes(0, 1), shown, world.observe(state))
        length = going.sum(0).astype(jnp.int32)
        episodes = Episodes(shown, action.T, reward.T, length, terminated.any(0))
        inside = jnp.arange(longest + 1) <= length[:, None]
        met = jnp.stack([((shown.tiles == c).any((2, 3)) & inside).any(1) for c in hideable], 1)
        return (earlier + score, mind), (episodes, sure.T, right.T, score, met)

    flat = assignments.combined(jnp.zeros((batch, kinds, kinds)))
    start = (jnp.zeros_like(flat), actor.begin(flat, mind_key))
    _, (episodes, sure, right, score, met) = jax.lax.scan(game, start, jax.random.split(games_key, games))
    hidden = jnp.take_along_axis(imagined.hidden, imagined.slot_of, 1)
    if not whole:
        score = jnp.take_along_axis(score, imagined.slot_of[None, ..., None], 2)
    return Games(episodes, sure, right, score, truth, met, hidden)
