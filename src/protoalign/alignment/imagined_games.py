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
from protoalign.alignment.imagination import Imagined, hide, imagine
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
    told: Any = ()  # what the judge said, unweighed, after each step, leading axes [G, E, L]; of many prototypes nothing

    @property
    def going(self) -> np.ndarray:
        """[G, E, L] bool, the steps that were taken."""
        return np.arange(self.sure.shape[-1]) < np.asarray(self.episodes.length)[..., None]

    def of(self, worlds: np.ndarray) -> "Games":
        """The games in some of the worlds, [E] bool."""
        some = {"truth": self.truth[worlds], "hidden": self.hidden[worlds]}
        return jax.tree.map(lambda x: x[:, worlds], self._replace(truth=None, hidden=None))._replace(**some)

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
    played, truths, hidden = [], [], []
    for part in range(-(-number // SIDE_BY_SIDE)):
        world_key, games_key = jax.random.split(jax.random.fold_in(key, part))
        batch = min(number, SIDE_BY_SIDE)
        imagined, kept = _begin(hideable, actor, world_key, batch, jnp.float32(hide_all))
        done = []
        for game in range(games):
            game_key = jax.random.fold_in(games_key, game)
            kept, found = _game(world, hideable, judge, actor, imagined, kept, game_key, longest)
            done.append(jax.device_get(found))
        played.append(jax.tree.map(lambda *x: np.stack(x), *done))
        whole = len(hideable) <= assignments.MOST
        truths.append(np.asarray(assignments.index_of(imagined.truth)) if whole else np.zeros(batch, np.int32))
        hidden.append(np.asarray(jnp.take_along_axis(imagined.hidden, imagined.slot_of, 1)))
    joined = jax.tree.map(lambda *x: np.concatenate(x, 1), *played)  # worlds are the second axis, after games
    return Games(**joined, truth=np.concatenate(truths), hidden=np.concatenate(hidden))


@eqx.filter_jit
def _begin(hideable: tuple[int, ...], actor: Actor, key: Array, batch: int, hide_all: Array) -> tuple[Imagined, Any]:
    """Imagined worlds, and what is kept from game to game in them: scores so far, and what the actor has in mind."""
    kinds = len(hideable)
    imagine_key, share_key, mind_key = jax.random.split(key, 3)
    which = None
    if kinds > assignments.MOST:  # of many prototypes any share is new, seldom all
        u = uniform(share_key, (batch, kinds + 1))
        which = u[:, :-1] < u[:, -1:]
    imagined = imagine(imagine_key, batch, kinds, hide_all, which=which)
    flat = assignments.combined(jnp.zeros((batch, kinds, kinds)))
    return imagined, (jnp.zeros_like(flat), actor.begin(flat, mind_key))


@eqx.filter_jit
def _game(
    world: Learnable,
    hideable: tuple[int, ...],
    judge: Judge,
    actor: Actor,
    imagined: Imagined,
    kept: tuple[Array, Any],
    key: Array,
    longest: int,
) -> tuple[tuple[Array, Any], dict[str, Any]]:
    """One game in each of B imagined worlds; what is kept after it, and fields of `Games` without their first axis."""
    (earlier, mind), batch = kept, len(imagined.truth)
    start_key, noise_key, step_key = jax.random.split(key, 3)

    def see(state: Any) -> Observation:
        tiles, numbers = world.observe(state)
        return Observation(hide(imagined, tiles, judge.prototypes, hideable), numbers)

    def total(watched: Any) -> Array:
        return earlier + judge.score(watched, imagined)

    def verdict(posterior: Array) -> tuple[Array, Array]:
        if posterior.ndim == 2:
            return jnp.exp(posterior.max(1)), jnp.argmax(posterior, 1) == assignments.index_of(imagined.truth)
        right = (jnp.argmax(posterior, -1) == imagined.truth) | ~imagined.hidden
        return jnp.exp(jnp.where(imagined.hidden, posterior.max(-1), 0).sum(1)), right.all(1)

    def step(carry: Any, x: tuple[Array, Array]) -> tuple[Any, Any]:
        state, seen, watched, mind, over = carry
        noise, key = x
        act_key, world_key = jax.random.split(key)
        believed = Believed(seen.tiles, seen.numbers, judge.belief(watched, imagined))
        so_far = jax.nn.log_softmax(total(watched))  # who plays on a draw need not doubt what little speaks for it
        action, next_mind = actor.act(mind, believed, so_far, act_key, noise)
        after, (reward, terminated, truncated) = world.step(state, action, world_key)
        then = see(after)
        happened = Step(seen.tiles, then.tiles, seen.numbers, then.numbers, action, reward)
        watched = select(over, watched, judge.watch(watched, imagined, happened, ~over, so_far))
        out = {
            "shown": world.observe(state),
            "action": action.astype(jnp.uint8),
            "reward": jnp.where(over, 0, reward),
            "going": ~over,
            "terminated": terminated & ~over,
            "verdict": verdict(judge.posterior(total(watched))),
            "told": judge.unweighed(watched, imagined) if len(hideable) <= assignments.MOST else (),
        }
        carry = select(over, state, after), select(over, seen, then), watched, select(over, mind, next_mind)
        return (*carry, over | terminated | truncated), out

    state = world.reset(start_key, batch)
    seen = see(state)
    start = (state, seen, judge.begin(imagined, seen), mind, jnp.zeros(batch, bool))
    xs = gumbel(noise_key, (longest, batch, world.num_actions)), jax.random.split(step_key, longest)
    (state, _, watched, mind, _), out = jax.lax.scan(step, start, xs)
    score = judge.score(watched, imagined)
    shown = jax.tree.map(lambda x, end: jnp.concatenate([x, end[None]]).swapaxes(0, 1), out["shown"], world.observe(state))
    length = out["going"].sum(0).astype(jnp.int32)
    inside = jnp.arange(longest + 1) <= length[:, None]
    sure, right = out["verdict"]
    found = {
        "episodes": Episodes(shown, out["action"].T, out["reward"].T, length, out["terminated"].any(0)),
        "sure": sure.T,
        "right": right.T,
        "score": score if score.ndim == 2 else jnp.take_along_axis(score, imagined.slot_of[..., None], 1),
        "met": jnp.stack([((shown.tiles == c).any((2, 3)) & inside).any(1) for c in hideable], 1),
        "told": jax.tree.map(lambda x: x.swapaxes(0, 1), out["told"]),
    }
    return (earlier + score, mind), found
