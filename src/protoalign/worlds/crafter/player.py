"""The player's part in a step of Crafter."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.worlds.crafter.names import (
    ACHIEVED,
    ACHIEVEMENTS,
    BUILT,
    COLLECTED,
    COW,
    DO,
    DRINK,
    ENERGY,
    FOOD,
    FURNACE,
    FURNACE_NEEDED,
    GAINS,
    GRASS,
    HEALTH,
    LAVA,
    LEAVES,
    MAKE,
    MOST,
    MOVE,
    NEEDS,
    PATH,
    PLACE,
    PLANT,
    RIPENS,
    SAPLING_CHANCE,
    SKELETON,
    SLEEP,
    SWORDS,
    TABLE,
    USES,
    WALKABLE,
    WATER,
    WHERE,
    ZOMBIE,
)
from protoalign.worlds.crafter.state import CHUNKS, EDGE, SIDE, Births, State, chunk_of


def one_of(materials: tuple[int, ...], material: Array) -> Array:
    """Whether materials [...] are among some: one shift, where a table would take a slow gather."""
    return (jnp.uint32(sum(1 << m for m in materials)) >> material.astype(jnp.uint32)) & 1 > 0


def beside(direction: Array) -> Array:
    """How far away, in tiles of a map, the next tile to the left (0), right (1), up (2), down (3) or nowhere (4) is."""
    along = jnp.where(direction < 2, 1, SIDE)
    return jnp.where(direction < 4, jnp.where(direction % 2 == 0, -along, along), 0)


def look_up(table: np.ndarray, index: Array) -> Array:
    return jnp.asarray(table)[index.astype(jnp.int32)]


def player_acts(state: State, action: Array, luck: Array) -> tuple[State, Array, Births]:
    """The player's part. Also what it has achieved [B, 22], and a plant, if it placed one."""
    items, who = state.items, state.creatures
    hunger, thirst, fatigue, recovery = state.clocks.T
    here = state.row * SIDE + state.col
    ahead = here + beside(state.facing)
    material = jnp.take_along_axis(state.ground, ahead[:, None], 1)[:, 0]
    met = who.tile == ahead[:, None]  # [B, SLOTS]
    occupied = met.any(1)

    rested = items[:, ENERGY] >= MOST
    woke = state.asleep & rested
    action = jnp.where(state.asleep & ~rested, SLEEP, action)
    asleep = (state.asleep & ~woke) | ((action == SLEEP) & ~rested)
    achieved = jnp.zeros_like(state.unlocked).at[:, ACHIEVEMENTS.index("wake_up")].set(woke)

    # Moving.
    moves = (action >= MOVE) & (action < DO)
    facing = jnp.where(moves, action - MOVE, state.facing)
    step = here + beside(facing)
    ground = jnp.take_along_axis(state.ground, step[:, None], 1)[:, 0]
    walks = moves & one_of((*WALKABLE, LAVA), ground) & ~(who.tile == step[:, None]).any(1)
    place = jnp.where(walks, step, here)
    burnt = walks & (ground == LAVA)

    # Hitting and eating.
    does = action == DO
    sword = jnp.max(jnp.where(items[:, SWORDS] > 0, np.array([2, 3, 5]), 1), 1)
    hit = met & does[:, None]
    hurt = hit & (who.kind >= COW) & (who.kind <= SKELETON)
    health = jnp.where(hurt, jnp.maximum(who.health - sword[:, None], 0), who.health)
    dies = hurt & (health <= 0)
    cow, zombie, skeleton = ((dies & (who.kind == kind)).any(1) for kind in (COW, ZOMBIE, SKELETON))
    ripe = hit & (who.kind == PLANT) & (who.clock > RIPENS)
    eats = ripe.any(1)
    who = who._replace(health=health, clock=jnp.where(ripe, 0, who.clock))
    for name, happened in (("eat_cow", cow), ("defeat_zombie", zombie), ("defeat_skeleton", skeleton), ("eat_plant", eats)):
        achieved = achieved.at[:, ACHIEVEMENTS.index(name)].set(happened)
    items = items.at[:, FOOD].add(6 * cow + 4 * eats)
    hunger = jnp.where(cow, 0, hunger)

    # Collecting.
    takes = does & ~occupied
    thirst = jnp.where(takes & (material == WATER), 0, thirst)
    can = takes & (items >= look_up(NEEDS, material)).all(1)
    left = jnp.where(can, look_up(LEAVES, material), material)
    lucky = can & ((material != GRASS) | (luck <= SAPLING_CHANCE))
    items = items + jnp.where(lucky[:, None], look_up(GAINS, material), 0)
    achieved |= lucky[:, None] & look_up(COLLECTED, material)

    # Placing and making.
    which = jnp.clip(action - PLACE, 0, 9)
    affords = (action >= PLACE) & (items >= look_up(USES, which)).all(1)
    spot = jnp.clip(which, 0, 3)
    fits = ~occupied & jnp.asarray(WHERE)[spot, material.astype(jnp.int32)]
    places = affords & (action < MAKE) & fits
    plants = places & (which == 3)
    left = jnp.where(places & ~plants, look_up(BUILT, spot), left)
    around = np.array([r * SIDE + c for r in (-1, 0, 1) for c in (-1, 0, 1)])
    nearby = jnp.take_along_axis(state.ground, here[:, None] + around, 1)
    # The original looks nowhere when the player stands at the world's upper or left edge.
    looks = (state.row > EDGE) & (state.col > EDGE)
    table, furnace = (looks & (nearby == kind).any(1) for kind in (TABLE, FURNACE))
    tool = jnp.clip(action - MAKE, 0, 5)
    makes = affords & (action >= MAKE) & table & (furnace | ~look_up(FURNACE_NEEDED, tool))
    done = places | makes
    items = items - jnp.where(done[:, None], look_up(USES, which), 0)
    items = items + (makes[:, None] & (np.arange(16) == (10 + tool)[:, None]))
    achieved |= done[:, None] & look_up(ACHIEVED, which)

    # Needs.
    hunger = hunger + jnp.where(asleep, 1, 2)
    thirst = thirst + jnp.where(asleep, 1, 2)
    fatigue = jnp.where(asleep, jnp.minimum(fatigue - 1, 0), fatigue + 1)
    hungry, thirsty, fit, tired = hunger > 50, thirst > 40, fatigue < -10, fatigue > 30
    lost = jnp.stack([burnt * 99, hungry, thirsty, tired.astype(jnp.int32) - fit], 1)
    items = items.at[:, :4].add(-lost)
    fed = (items[:, FOOD] > 0) & (items[:, DRINK] > 0) & ((items[:, ENERGY] > 0) | asleep)
    recovery = recovery + jnp.where(fed, jnp.where(asleep, 4, 2), jnp.where(asleep, -1, -2))
    better, worse = recovery > 50, recovery < -30
    items = items.at[:, HEALTH].set(jnp.maximum(items[:, HEALTH], 0) + better - worse)
    items = jnp.clip(items, 0, MOST)
    clocks = [
        jnp.where(hungry, 0, hunger),
        jnp.where(thirsty, 0, thirst),
        jnp.where(fit | tired, 0, fatigue),
        jnp.where(better | worse, 0, recovery),
    ]
    asleep &= items[:, HEALTH] >= state.health_before
    one = jnp.ones_like(ahead)[:, None]
    plant = Births(plants[:, None], PLANT * one, ahead[:, None], one, 0 * one)
    state = state._replace(
        ground=state.ground.at[jnp.arange(len(ahead)), ahead].set(left),
        space=state.space + changed_space(ahead, material, left),
        row=place // SIDE,
        col=place % SIDE,
        facing=facing,
        asleep=asleep,
        items=items,
        clocks=jnp.stack(clocks, 1),
        health_before=items[:, HEALTH],
        creatures=who,
    )
    return state, achieved, plant


def changed_space(tile: Array, before: Array, after: Array) -> Array:
    """What a change of one tile's material means for the chunks' grass and path, [B, 2, 36]."""
    own = chunk_of(tile)[:, None] == np.arange(CHUNKS**2)
    gain = jnp.stack([(after == kind).astype(jnp.int32) - (before == kind) for kind in (GRASS, PATH)], 1)
    return own[:, None] * gain[..., None]
