"""Crafter (Hafner, 2021): the rules of the original game (crafter 1.8.3), in batched JAX.

The player sees 7 x 9 tiles of a world of 64 x 64, and 17 numbers. A step is: the player acts, the creatures near it act one
after another, then some parts of the world are stocked up. Worlds come from a pool (`terrain.py`). What
is seen are picture ids, each a thing on a ground (`art.py`).

Three things differ from the original. There, all 36 parts of the world are stocked up on every tenth step; here four on every
step, so that each has its turn every ten steps. And there is room for a limited number of creatures, of which a limited number
act in a step (`SLOTS`, `ACTING`): as good as never too few. And a sapling is there only after the creatures have acted: one
that steps on its place just then is in the way of it.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.worlds import looks
from protoalign.worlds.base import Observation, Spec, Transition
from protoalign.worlds.crafter import art, terrain
from protoalign.worlds.crafter.creatures import ACTING, STOCKED, WORDS_EACH, WORDS_STOCKING, chance, creatures_act, stock_up
from protoalign.worlds.crafter.names import (
    ACHIEVEMENTS,
    ACTION_NAMES,
    ARROW,
    ASLEEP,
    CATEGORY_NAMES,
    HEALTH,
    MATERIALS,
    NUMBER_NAMES,
    PLANT,
    PLAYER,
    RIPENS,
    TIME_LIMIT,
    VIEW,
)
from protoalign.worlds.crafter.original import CrafterEnv
from protoalign.worlds.crafter.player import player_acts
from protoalign.worlds.crafter.state import SIDE, Creatures, State, add, begin, daylight, prepare, where_nobody_is

DRAWS = 1 + WORDS_EACH * ACTING + WORDS_STOCKING * STOCKED  # random words in a step
FRESH, FRESH_WORLDS = 1_000_000, 512  # maps to measure on: the seed of the first, and how many


class Crafter(eqx.Module):
    """The world, with a pool of maps that its episodes start on: those of seeds `first` to `first + worlds - 1`.

    The maps are the world's array leaves: pass the world to compiled functions as an argument, and they are no constants there.
    """

    ground: Array  # [worlds, SIDE * SIDE] uint8
    creatures: Creatures  # [worlds, SLOTS] int32 each
    tile: int = eqx.field(static=True)  # pixels

    def __init__(self, worlds: int = 2048, first: int = 0, tile: int = 8):
        looks.check_tile(tile)
        self.ground, self.creatures = jax.tree.map(jnp.asarray, prepare(*terrain.pool(first, worlds)))
        self.tile = tile

    @property
    def spec(self) -> Spec:
        return Spec(
            name="crafter",
            grid=VIEW,
            actions=ACTION_NAMES,
            max_steps=TIME_LIMIT,
            agent=(VIEW[0] // 2, VIEW[1] // 2),
            numbers=NUMBER_NAMES,
            truth=art.TRUTH,
        )

    def fresh(self) -> "Crafter":
        """The same world on 512 maps that no other pool has."""
        return Crafter(FRESH_WORLDS, FRESH, self.tile)

    def pictures(self, look: str) -> np.ndarray:
        return art.pictures(look, self.tile)

    def make(self, look: str = "source", **options: Any) -> CrafterEnv:
        """The original game."""
        return CrafterEnv(look, tile=self.tile, **options)

    def reset(self, key: Array, batch: int) -> State:
        chosen = jax.random.randint(key, (batch,), 0, len(self.ground))
        return begin(*jax.tree.map(lambda x: x[chosen], (self.ground, self.creatures)))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        words = jax.random.bits(key, (len(action) * DRAWS,)).reshape(-1, DRAWS)
        return transition(state, action, words)

    def observe(self, state: State) -> Observation:
        return observe(state)

    def summary(self, state: State) -> dict[str, Any]:
        """Of games that have ended."""
        return report(np.asarray(state.unlocked).mean(0))

    def summary_of_games(self, infos: list[dict[str, Any]]) -> dict[str, Any]:
        """The same of games of the original, from the infos of their last steps."""
        return report(np.mean([[info["achievements"][name] > 0 for name in ACHIEVEMENTS] for info in infos], 0))


def report(rate: np.ndarray) -> dict[str, Any]:
    """How often each achievement was unlocked, from rates [22], and Crafter's score: their geometric mean in percent, after one
    percent is added to each."""
    return {
        "score": round(float(np.exp(np.log(1 + 100 * rate).mean()) - 1), 3),
        "achievements": {name: round(float(x), 4) for name, x in zip(ACHIEVEMENTS, rate, strict=True)},
    }


def surroundings(state: State) -> tuple[Array, Array]:
    """The thing on each tile of the view, an index into `art.THINGS`, and the material under it; [B, 63] uint8 both."""
    height, width = VIEW
    rows, cols = np.divmod(np.arange(height * width), width)
    offset = (rows - height // 2) * SIDE + cols - width // 2
    here = state.row * SIDE + state.col
    ground = jnp.take_along_axis(state.ground, here[:, None] + offset, 1)
    who = state.creatures
    down, right = who.tile // SIDE - state.row[:, None] + height // 2, who.tile % SIDE - state.col[:, None] + width // 2
    seen = (who.tile > 0) & (down >= 0) & (down < height) & (right >= 0) & (right < width)
    place = jnp.where(seen, down * width + right, height * width)
    thing = who.kind + ((who.kind == PLANT) & (who.clock > RIPENS))
    thing = jnp.where(who.kind == ARROW, len(CATEGORY_NAMES) + who.clock, thing)
    things = ground.at[jnp.arange(len(here))[:, None], place].set(thing.astype(jnp.uint8), mode="drop")
    player = jnp.where(state.asleep, ASLEEP, PLAYER + state.facing).astype(jnp.uint8)
    return things.at[:, len(offset) // 2].set(player), ground


def observe(state: State) -> Observation:
    """Picture ids [B, 7, 9] uint8, and what the player knows besides, [B, 17]: the items and the daylight."""
    things, ground = surroundings(state)
    ids = jnp.asarray(art.ID_OF.reshape(-1))[things.astype(jnp.int32) * len(MATERIALS) + ground]
    numbers = jnp.concatenate([state.items.astype(jnp.float32), daylight(state.time)[:, None]], 1)
    return Observation(ids.reshape(-1, *VIEW), numbers)


def transition(state: State, action: Array, words: Array) -> tuple[State, Transition]:
    """One step from actions [B] and random words [B, DRAWS] uint32."""
    first = state.items[:, HEALTH]
    state = state._replace(time=state.time + 1)
    state, unlocked, planted = player_acts(state, action, chance(words[:, 0]))
    state, shots = creatures_act(state, words[:, 1 : 1 + WORDS_EACH * ACTING].reshape(-1, ACTING, WORDS_EACH))
    born = [where_nobody_is(x, state.creatures) for x in (planted, shots)]
    state, spawned = stock_up(state, words[:, -WORDS_STOCKING * STOCKED :].reshape(-1, STOCKED, WORDS_STOCKING))
    state = state._replace(creatures=add(state.creatures, [*born, spawned]))
    alive = first > 0  # the dead stay dead and achieve nothing, so that a game can be looked at after its end
    state = state._replace(items=jnp.where(alive[:, None], state.items, 0))
    unlocked &= alive[:, None]
    health = state.items[:, HEALTH]
    fresh = (unlocked & ~state.unlocked).any(1)
    reward = (health - first) / 10 + fresh
    dead = health <= 0
    return state._replace(unlocked=state.unlocked | unlocked), Transition(reward, dead, ~dead & (state.time >= TIME_LIMIT))
