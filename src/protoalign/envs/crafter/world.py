"""Crafter (Hafner, 2021): the rules of the original game (crafter 1.8.3), in batched JAX.

The player sees 7 x 9 tiles of a world of 64 x 64, and 17 numbers. A step is: the player acts, the creatures near it act one
after another, then some parts of the world are stocked up. Worlds come from a pool (`terrain.py`).

Three things differ from the original. There, all 36 parts of the world are stocked up on every tenth step; here four on every
step, so that each has its turn every ten steps. And there is room for a limited number of creatures, of which a limited number
act in a step (`SLOTS`, `ACTING`): as good as never too few. And a sapling is there only after the creatures have acted: one
that steps on its place just then is in the way of it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.envs.base import Transition
from protoalign.envs.crafter import terrain
from protoalign.envs.crafter.creatures import ACTING, STOCKED, WORDS_EACH, WORDS_STOCKING, chance, creatures_act, stock_up
from protoalign.envs.crafter.names import (
    ACHIEVEMENTS,
    ACTION_NAMES,
    ARROW,
    ASLEEP,
    CATEGORY_NAMES,
    HEALTH,
    NUMBER_NAMES,
    PLANT,
    PLAYER,
    RIPENS,
    TIME_LIMIT,
    VIEW,
)
from protoalign.envs.crafter.player import player_acts
from protoalign.envs.crafter.state import SIDE, Creatures, State, add, begin, daylight, prepare, where_nobody_is

DRAWS = 1 + WORDS_EACH * ACTING + WORDS_STOCKING * STOCKED  # random words in a step


class View(NamedTuple):
    """What the player sees."""

    tiles: Array  # [B, 7, 9] uint8, categories
    numbers: Array  # [B, 17] float32


@dataclass(frozen=True)
class Crafter:
    """The world. Episodes start in worlds drawn from those of seeds `first` to `first + worlds`."""

    worlds: int = 2048
    first: int = 0
    creatures: bool = True  # no game without them; tests want them gone

    name = "crafter"
    shape = VIEW
    category_names: ClassVar[tuple[str, ...]] = CATEGORY_NAMES
    action_names = ACTION_NAMES
    num_actions = len(ACTION_NAMES)
    num_numbers = len(NUMBER_NAMES)

    @cached_property
    def pool(self) -> tuple[np.ndarray, Creatures]:
        """Maps [W, SIDE * SIDE] and the creatures on them."""
        return prepare(*terrain.pool(self.first, self.worlds), self.creatures)

    def reset(self, key: Array, batch: int) -> State:
        ground, creatures = self.pool
        chosen = jax.random.randint(key, (batch,), 0, len(ground))
        return begin(*jax.tree.map(lambda x: jnp.asarray(x)[chosen], (ground, creatures)))

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        words = jax.random.bits(key, (len(action) * DRAWS,)).reshape(-1, DRAWS)
        return transition(state, action, words, self.creatures)

    def observe(self, state: State) -> View:
        return observe(state)

    def summary(self, state: State) -> dict[str, Any]:
        """Of games that have ended."""
        return report(np.asarray(state.unlocked).mean(0))


def report(rate: np.ndarray) -> dict[str, Any]:
    """How often each achievement was unlocked, from rates [22], and Crafter's score: their geometric mean in percent, after one
    percent is added to each."""
    return {
        "score": round(float(np.exp(np.log(1 + 100 * rate).mean()) - 1), 3),
        "achievements": {name: round(float(x), 4) for name, x in zip(ACHIEVEMENTS, rate, strict=True)},
    }


def surroundings(state: State) -> tuple[Array, Array]:
    """What is drawn on each tile of the view, as in `sprites.PICTURES`, and the material under it; [B, 63] both."""
    height, width = VIEW
    rows, cols = np.divmod(np.arange(height * width), width)
    offset = (rows - height // 2) * SIDE + cols - width // 2
    here = state.row * SIDE + state.col
    ground = jnp.take_along_axis(state.ground, here[:, None] + offset, 1)
    who = state.creatures
    down, right = who.tile // SIDE - state.row[:, None] + height // 2, who.tile % SIDE - state.col[:, None] + width // 2
    seen = (who.tile > 0) & (down >= 0) & (down < height) & (right >= 0) & (right < width)
    place = jnp.where(seen, down * width + right, height * width)
    picture = who.kind + ((who.kind == PLANT) & (who.clock > RIPENS))
    picture = jnp.where(who.kind == ARROW, len(CATEGORY_NAMES) + who.clock, picture)
    pictures = ground.at[jnp.arange(len(here))[:, None], place].set(picture.astype(jnp.uint8), mode="drop")
    player = jnp.where(state.asleep, ASLEEP, PLAYER + state.facing).astype(jnp.uint8)
    return pictures.at[:, len(offset) // 2].set(player), ground


def observe(state: State) -> View:
    pictures, _ = surroundings(state)
    categories = jnp.where(pictures < len(CATEGORY_NAMES), pictures, ARROW).astype(jnp.uint8)
    return View(categories.reshape(-1, *VIEW), numbers(state))


def numbers(state: State) -> Array:
    """What the player knows besides, [B, 17]."""
    return jnp.concatenate([state.items.astype(jnp.float32), daylight(state.time)[:, None]], 1)


def transition(state: State, action: Array, words: Array, stock: bool = True) -> tuple[State, Transition]:
    """One step from actions [B] and random words [B, DRAWS] uint32; `stock`: creatures come and go."""
    first = state.items[:, HEALTH]
    state = state._replace(time=state.time + 1)
    state, unlocked, planted = player_acts(state, action, chance(words[:, 0]))
    state, shots = creatures_act(state, words[:, 1 : 1 + WORDS_EACH * ACTING].reshape(-1, ACTING, WORDS_EACH))
    born = [where_nobody_is(x, state.creatures) for x in (planted, shots)]
    if stock:
        state, spawned = stock_up(state, words[:, -WORDS_STOCKING * STOCKED :].reshape(-1, STOCKED, WORDS_STOCKING))
        born.append(spawned)
    state = state._replace(creatures=add(state.creatures, born))
    alive = first > 0  # the dead stay dead and achieve nothing, so that a game can be looked at after its end
    state = state._replace(items=jnp.where(alive[:, None], state.items, 0))
    unlocked &= alive[:, None]
    health = state.items[:, HEALTH]
    fresh = (unlocked & ~state.unlocked).any(1)
    reward = (health - first) / 10 + fresh
    dead = health <= 0
    return state._replace(unlocked=state.unlocked | unlocked), Transition(reward, dead, ~dead & (state.time >= TIME_LIMIT))
