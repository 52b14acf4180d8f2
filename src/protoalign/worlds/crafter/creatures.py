"""What creatures, arrows and plants do in a step of Crafter, and how they come and go."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.arrays import first_marked
from protoalign.worlds.crafter.names import (
    ARROW,
    COW,
    FLIES_OVER,
    FURNACE,
    GRASS,
    HEALTH,
    PATH,
    PLANT,
    SKELETON,
    TABLE,
    WALKABLE,
    ZOMBIE,
)
from protoalign.worlds.crafter.player import beside, changed_space, one_of
from protoalign.worlds.crafter.state import (
    CHUNK,
    CHUNKS,
    EDGE,
    SIDE,
    SLOTS,
    Births,
    Creatures,
    State,
    chunk_of,
    daylight,
    together,
)

ACTING = 24  # creatures at most in a step
STOCKED = 4  # chunks per step
NEAR = 18  # farther creatures are frozen
WORDS_EACH = 3  # random words per creature
WORDS_STOCKING = 7  # ... per chunk


def chance(words: Array) -> Array:
    """Random words to uniform numbers in [0, 1)."""
    return (words >> 8).astype(jnp.float32) * 2.0**-24


def halves(words: Array) -> tuple[Array, Array]:
    """Two uniform numbers from each word, coarser: multiples of 2^-16."""
    low = (words & 0xFFFF).astype(jnp.float32) * 2.0**-16
    return low, (words >> 16).astype(jnp.float32) * 2.0**-16


def creatures_act(state: State, words: Array) -> tuple[State, Births]:
    """Creatures near the player, arrows and plants, one after another. Also the arrows that were shot."""
    who, player = state.creatures, state.row * SIDE + state.col
    batch = jnp.arange(len(player))
    # Those near, and a little farther because they may be in the way; slots first, so that each turn is one row.
    distance = abs(who.tile // SIDE - state.row[:, None]) + abs(who.tile % SIDE - state.col[:, None])
    slot = first_marked((who.tile > 0) & (distance < NEAR + 2), ACTING)  # [B, ACTING], SLOTS where there is none
    near = Creatures(*(jnp.take_along_axis(x, jnp.minimum(slot, SLOTS - 1), 1).T for x in who))
    near = near._replace(tile=jnp.where(slot.T < SLOTS, near.tile, 0))

    def one(turn: Array, carry: tuple[Creatures, Array, list[Array]]) -> tuple[Creatures, Array, list[Array]]:
        near, health, events = carry
        words = jax.lax.dynamic_index_in_dim(all_words, turn, keepdims=False)
        kind, tile, life, clock = (x[turn] for x in near)  # [B] each
        (u, v), (w, x1), (y, z) = (halves(words[i]) for i in range(WORDS_EACH))
        down, right = state.row - tile // SIDE, state.col - tile % SIDE
        away = abs(down) + abs(right)
        kind = jnp.where((tile > 0) & (away < NEAR), kind, 0)
        cow, zombie, skeleton, arrow, plant = (kind == k for k in (COW, ZOMBIE, SKELETON, ARROW, PLANT))
        removed = (life <= 0) & (kind > 0) & ~arrow

        def toward(long_axis: Array) -> Array:
            """The direction to the player along the longer or the shorter axis; 4 if that is nowhere."""
            sideways = jnp.where(long_axis, abs(right) > abs(down), abs(right) <= abs(down))
            along = jnp.where(sideways, right, down)
            return jnp.where(along == 0, 4, 2 * ~sideways + (along > 0))

        def ahead(direction: Array) -> tuple[Array, Array, Array]:
            """The next tile in that direction, its material, and whether nobody is there."""
            target = tile + beside(direction)
            ground = jnp.take_along_axis(state.ground, target[:, None], 1)[:, 0]
            return target, ground, ~(near.tile == target).any(0) & (target != player)

        back = toward(w < 0.6)
        back = jnp.where(back < 4, back ^ 1, 4)
        _, ground, empty = ahead(back)
        fled = skeleton & (away <= 3) & empty & one_of(WALKABLE, ground)
        # A skeleton that cannot flee goes on to shoot, come nearer or stroll.
        shoots = skeleton & ~fled & (away <= 5) & (x1 < 0.5)
        nears = skeleton & ~fled & ~shoots & (away <= 8) & (y < 0.3)
        strolls = skeleton & ~fled & ~shoots & ~nears & (z < 0.2)
        goes = jnp.where(zombie & (away <= 8) & (u < 0.9), toward(w < 0.8), jnp.floor(4 * v).astype(jnp.int32))
        goes = jnp.where(nears, toward(y < 0.6 * 0.3), goes)
        goes = jnp.where(fled, back, goes)
        goes = jnp.where(shoots, toward(jnp.ones_like(shoots)), goes)
        goes = jnp.where(arrow, clock, goes)
        target, ground, empty = ahead(goes)
        flies = empty & one_of(FLIES_OVER, ground)
        walks = ((cow & (u < 0.5)) | zombie | fled | nears | strolls) & empty & one_of(WALKABLE, ground)
        moves = ~removed & (walks | (arrow & flies))
        place = jnp.where(moves, target, tile)

        # A zombie next to the player strikes, even one that has just been killed.
        strikes = zombie & (abs(state.row - place // SIDE) + abs(state.col - place % SIDE) <= 1)
        ready = strikes & (clock == 0)
        health = jnp.where(ready, jnp.maximum(health - jnp.where(state.asleep, 7, 2), 0), health)
        clock = jnp.where(ready, 5, clock - (strikes & ~ready))
        # Skeletons shoot, arrows hit.
        clock = jnp.where(skeleton, jnp.maximum(clock - 1, 0), clock)
        shot = shoots & (clock == 0) & flies
        clock = jnp.where(shot, 4, clock)
        lands = arrow & ~flies
        health = jnp.where(lands & (target == player), jnp.maximum(health - 2, 0), health)
        bursts = lands & empty & ((ground == TABLE) | (ground == FURNACE))
        # Plants grow, and are eaten.
        clock = clock + plant
        eaters = jnp.where((near.kind >= COW) & (near.kind <= SKELETON), near.tile, 0)
        off = abs(eaters - tile)
        eaten = plant & ((off == 1) | (off == SIDE)).any(0)
        gone = removed | lands | eaten

        struck = lands & (near.tile == target)
        near = Creatures(
            near.kind,
            near.tile.at[turn].set(jnp.where(gone, 0, place)),
            jnp.maximum(near.health - 2 * struck, 0),
            near.clock.at[turn].set(clock),
        )
        now = (shot, target, goes, bursts)
        return near, health, [old.at[turn].set(new) for old, new in zip(events, now, strict=True)]

    all_words = words.transpose(1, 2, 0)
    nothing = jnp.zeros_like(near.tile)
    events = [nothing > 0, nothing, nothing, nothing > 0]
    # No longer than the game with the most creatures needs.
    turns = (slot < SLOTS).sum(1).max()
    near, health, (shot, target, goes, bursts) = jax.lax.fori_loop(0, turns, one, (near, state.items[:, HEALTH], events))
    who = Creatures(*(old.at[batch[:, None], slot].set(new.T, mode="drop") for old, new in zip(who, near, strict=True)))
    # No more than two arrows are shot in a step, and one table or furnace hit.
    some = first_marked(shot.T, 2)  # [B, 2]
    tile, direction = (jnp.take_along_axis(x.T, jnp.minimum(some, ACTING - 1), 1) for x in (target, goes))
    arrows = Births(some < ACTING, 0 * tile + ARROW, tile, 0 * tile, direction)
    burst = jnp.where(bursts, target, 0).max(0)
    ground = state.ground.at[batch, jnp.where(burst > 0, burst, SIDE * SIDE)].set(PATH, mode="drop")
    space = state.space + changed_space(burst, jnp.full_like(burst, TABLE), jnp.full_like(burst, PATH))
    items = state.items.at[:, HEALTH].set(health)
    return state._replace(creatures=who, items=items, ground=ground, space=space), arrows


def stock_up(state: State, word: Array) -> tuple[State, Births]:
    """Creatures come to and go from STOCKED of the chunks. Gives those that come."""
    who, light, word = state.creatures, daylight(state.time)[:, None], jnp.moveaxis(word, -1, 0)
    chunk = (state.time % 10)[:, None] * STOCKED + np.arange(STOCKED)  # [B, STOCKED]
    real = jnp.minimum(chunk, CHUNKS**2 - 1)
    corner = (chunk // CHUNKS * CHUNK + EDGE) * SIDE + chunk % CHUNKS * CHUNK + EDGE
    inside = chunk_of(who.tile)[:, None] == chunk[..., None]  # [B, STOCKED, SLOTS]
    # A chunk counts as visited from when something is seen in it at its turn.
    every = np.arange(CHUNKS**2)
    entered = ((chunk[..., None] == every) & inside.any(-1)[..., None]).any(1)
    visited = state.visited | entered | (chunk_of(state.row * SIDE + state.col)[:, None] == every)
    known = (chunk < CHUNKS**2) & jnp.take_along_axis(visited, real, 1)
    grass, path = (jnp.take_along_axis(state.space[:, i], real, 1) for i in (0, 1))
    distance = abs(who.tile // SIDE - state.row[:, None]) + abs(who.tile % SIDE - state.col[:, None])

    leaving = []
    born = []
    zombies = 3.5 - 3 * light
    for kind, ground, space, least, most, come, go, coming, going, words in (  # the distances and chances of each
        (ZOMBIE, GRASS, grass, jnp.where(grass < 50, 0, zombies), zombies, 6, 0, 0.3, 0.4, word[:2]),
        (SKELETON, PATH, path, jnp.where(path < 6, 0, 1), 2, 7, 7, 0.1, 0.1, word[2:5]),
        (COW, GRASS, grass, jnp.where(grass < 30, 0, 1), 1.5 + light, 5, 5, 0.01, 0.1, word[5:]),
    ):
        here = inside & (who.kind == kind)[:, None]
        number = here.sum(-1)
        few, many = number < jnp.floor(least), number > jnp.floor(most)
        u, tries = chance(words[0]), [x & 0xFFFF for x in words[1:]] + [x >> 16 for x in words[1:]]
        # Tiles of the right ground are found by trying any; the fewer there are, the more a hit counts.
        tile, found = corner, jnp.zeros_like(real, bool)
        for x in tries:
            cell = (x * CHUNK**2 >> 16).astype(jnp.int32)
            tried = corner + cell // CHUNK * SIDE + cell % CHUNK
            right = jnp.take_along_axis(state.ground, jnp.minimum(tried, SIDE**2 - 1), 1) == ground
            tile = jnp.where(right & ~found, tried, tile)
            found |= right
        likely = coming / jnp.maximum(1 - (1 - space / CHUNK**2) ** len(tries), 1e-6)
        far = abs(tile // SIDE - state.row[:, None]) + abs(tile % SIDE - state.col[:, None])
        empty = ~(who.tile[:, None] == tile[..., None]).any(-1)
        comes = known & few & found & (u < likely) & empty & (far >= come)
        # Any of them may go: the one with the highest number, scrambled of the random word and its slot.
        slots = np.arange(SLOTS, dtype=np.uint32)
        scrambled = (words[1][..., None] ^ (slots * np.uint32(0x9E3779B9))) * np.uint32(0x85EBCA6B)
        scrambled = (scrambled ^ (scrambled >> 15)) * np.uint32(0xC2B2AE35)
        scrambled = (scrambled & ~np.uint32(SLOTS - 1)) | slots
        chosen = (jnp.where(here, scrambled, 0).max(-1) & (SLOTS - 1)).astype(jnp.int32)
        goes = known & many & (u < going) & (jnp.take_along_axis(distance, chosen, 1) >= go)
        leaving.append(jnp.where(goes, chosen, SLOTS))
        zero = 0 * tile
        born.append(Births(comes, zero + kind, tile, zero + (5 if kind == ZOMBIE else 3), zero))
    gone = jnp.concatenate(leaving, 1)
    who = who._replace(tile=who.tile.at[jnp.arange(len(gone))[:, None], gone].set(0, mode="drop"))
    return state._replace(creatures=who, visited=visited), together(born)
