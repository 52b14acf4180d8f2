"""q_theta for worlds seen from the player's place (Crafter): which kind is each unknown look, judged by what happens around it.

K kinds may look new; a type is one of their looks. What is seen is a view of codes: a known tile's category, or the number of
categories plus the type's number. After each step every type takes in what happened around a few of its tiles: the 3 x 3
cells there before and after, whether the player faced it, the action, and what the step did to the player's numbers. Views
before and after are laid over one another first, because the player moves and the view with it.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined, imagine
from protoalign.alignment.inference import gru, signs
from protoalign.envs.crafter.names import DO, MOVE, PLAYER
from protoalign.envs.crafter.world import Crafter
from protoalign.rl.networks import Dense, embed_sum

HIDE_ALL = 0.8  # how often all kinds are hidden while training; else a random subset
TILES = 2  # of each type: the one faced, and those with most change around them
SAME, OTHER, BEYOND = 0, 1, 2  # codes of cells past the categories: of the same type, of another, out of sight
BEYOND_CODE = np.uint8(255)
CELLS = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)]


def disguise(tiles: Array, imagined: Imagined, kinds: tuple[int, ...], categories: int) -> Array:
    """Categories [B, ...] as codes [B, ...] uint8; `imagined` is of the kinds only."""
    types = imagined.type_of  # [B, K], by kind
    new = jnp.take_along_axis(imagined.hidden, types, 1)
    codes = jnp.broadcast_to(jnp.arange(categories), (len(types), categories))
    codes = codes.at[:, np.array(kinds)].set(jnp.where(new, categories + types, np.array(kinds)))
    flat = tiles.reshape(len(tiles), -1).astype(jnp.int32)
    return jnp.take_along_axis(codes, flat, 1).reshape(tiles.shape).astype(jnp.uint8)


class Seen(NamedTuple):
    """What a step shows of each of K types; N steps."""

    cells: Array  # [N, K, TILES, 2 * 9] int8, codes around a tile before and after
    place: Array  # [N, K, TILES] int8, where in the view the tile is
    faced: Array  # [N, K, TILES] bool
    valid: Array  # [N, K, TILES] bool, the type has that many tiles
    number: Array  # [N, K, 2] float32, its tiles before and after
    action: Array  # [N] int32
    context: Array  # [N, M] float32


class Glimpse(NamedTuple):
    """One side of a step."""

    codes: Array  # [N, H * W] uint8
    numbers: Array  # [N, 17]


def look(world: Crafter, kinds: int, before: Glimpse, after: Glimpse, action: Array, reward: Array) -> Seen:
    """Cut out what matters of N steps."""
    height, width = world.shape
    tiles, categories = height * width, len(world.category_names)
    middle = tiles // 2
    laid = lay_over(before.codes, after.codes, action, world.shape)
    place = np.arange(tiles)
    rows, cols = np.divmod(place, width)
    near = (abs(rows[:, None] - rows) <= 1) & (abs(cols[:, None] - cols) <= 1)
    changed = (before.codes != laid) & (laid != BEYOND_CODE)
    change = changed.astype(jnp.float32) @ near.astype(np.float32)  # [N, HW]
    facing = jnp.where((action >= MOVE) & (action < DO), action - MOVE, before.codes[:, middle].astype(jnp.int32) - PLAYER)
    ahead = middle + jnp.select([facing == d for d in range(4)], [-1, 1, -width, width], 0)
    close = 1 / (1 + abs(rows - rows[middle]) + abs(cols - cols[middle]))
    worth = 1 + change + close.astype(np.float32) + 20 * (place == ahead[:, None])
    of_type = before.codes[:, None] == (categories + np.arange(kinds, dtype=np.uint8))[:, None]  # [N, K, HW]
    score = jnp.where(of_type, worth[:, None], 0)
    chosen, valid = [], []
    for _ in range(TILES):
        best = jnp.argmax(score, -1)
        valid.append(score.max(-1) > 0)
        chosen.append(best)
        score = jnp.where(place == best[..., None], 0, score)
    tile = jnp.stack(chosen, -1)  # [N, K, TILES]
    wide = width + 2
    offset = np.array([(r + 1) * wide + c + 1 for r, c in CELLS])
    corner = tile // width * wide + tile % width
    spots = (corner[..., None] + offset).reshape(len(action), -1)
    own = np.arange(kinds, dtype=np.int32)[:, None, None] + categories

    def cells(codes: Array) -> Array:
        board = jnp.pad(codes.reshape(-1, height, width), ((0, 0), (1, 1), (1, 1)), constant_values=BEYOND_CODE)
        found = jnp.take_along_axis(board.reshape(len(codes), -1), spots, 1).astype(jnp.int32)
        found = found.reshape(len(codes), kinds, TILES, -1)
        unknown = categories + jnp.where(found == own, SAME, jnp.where(found == BEYOND_CODE, BEYOND, OTHER))
        return jnp.where(found >= categories, unknown, found).astype(jnp.int8)

    number = jnp.stack([of_type.sum(-1), (laid[:, None] == own[:, 0].astype(np.uint8)).sum(-1)], -1).astype(jnp.float32)
    gained = after.numbers[:, :-1] - before.numbers[:, :-1]
    context = jnp.concatenate(
        [gained > 0, gained < 0, before.numbers[:, :-1] > 0, before.numbers[:, -1:], signs(reward)], 1
    ).astype(jnp.float32)
    both = jnp.concatenate([cells(before.codes), cells(laid)], -1)
    return Seen(both, tile.astype(jnp.int8), tile == ahead[:, None, None], jnp.stack(valid, -1), number, action, context)


def lay_over(before: Array, after: Array, action: Array, shape: tuple[int, int]) -> Array:
    """Codes after a step [N, H * W] where they were in the view before it; BEYOND_CODE for what has left the view.

    Whether the player has moved is not known: it has if the views fit better so.
    """
    height, width = shape
    rows, cols = np.divmod(np.arange(height * width), width)
    index = [np.arange(height * width)]
    for down, right in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        r, c = rows - down, cols - right
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        index.append(np.where(inside, r * width + c, height * width))
    moves = jnp.where((action >= MOVE) & (action < DO), action, 0)
    padded = jnp.pad(after, ((0, 0), (0, 1)), constant_values=BEYOND_CODE)
    moved = jnp.take_along_axis(padded, jnp.asarray(np.stack(index))[moves], 1)
    fits = (moved == before).sum(1) / (moved != BEYOND_CODE).sum(1)
    better = fits > (after == before).mean(1)
    return jnp.where(better[:, None], moved, after)


class ViewInference(eqx.Module):
    """Every type has a hidden state, the same for all at the start; a gated network takes in what each step shows of it."""

    start: Array  # [F]
    cells: Array  # [2 * 9 * (C + 3), F]
    place: Array  # [H * W, F]
    faced: Array  # [F]
    action: Array  # [A, F]
    context: Dense
    summary: Dense
    gru_in: Dense
    gru_hidden: Dense
    read: Dense
    world: Crafter = eqx.field(static=True)
    kinds: tuple[int, ...] = eqx.field(static=True)  # categories that may look new

    def __init__(self, rng: np.random.Generator, world: Crafter, kinds: tuple[int, ...], width: int = 32):
        self.world, self.kinds = world, kinds
        codes = len(world.category_names) + 3

        def table(rows: int, scale: float) -> Array:
            return jnp.asarray(scale * rng.standard_normal((rows, width)), jnp.float32)

        self.start = table(1, 0.1)[0]
        self.cells = table(2 * len(CELLS) * codes, 0.3)
        self.place = table(world.shape[0] * world.shape[1], 0.3)
        self.faced = table(1, 0.5)[0]
        self.action = table(world.num_actions, 0.5)
        self.context = Dense(rng, 3 * (world.num_numbers - 1) + 1 + 3, width)
        self.summary = Dense(rng, width + 3, width)
        self.gru_in = Dense(rng, width, 3 * width, 1.0)
        self.gru_hidden = Dense(rng, width, 3 * width, 1.0)
        self.read = Dense(rng, width, len(kinds), 0.1)

    def begin(self, batch: int) -> Array:
        return jnp.broadcast_to(self.start, (batch, len(self.kinds), len(self.start)))

    def look(self, before: Glimpse, after: Glimpse, action: Array, reward: Array) -> Seen:
        return look(self.world, len(self.kinds), before, after, action, reward)

    def digest(self, seen: Seen) -> tuple[Array, Array]:
        """What steps mean for each type [N, K, F], and whether it was there at all [N, K]; no memory enters."""
        batch, kinds, tiles, cells = seen.cells.shape
        codes = len(self.world.category_names) + 3
        rows = np.arange(cells) * codes + seen.cells.astype(jnp.int32)
        x = embed_sum(self.cells, rows.reshape(-1, cells)).reshape(batch, kinds, tiles, -1)
        told = self.action[seen.action] + self.context(seen.context)
        x = x + self.place[seen.place.astype(jnp.int32)] + seen.faced[..., None] * self.faced
        x = jax.nn.relu(x + told[:, None, None])
        valid = seen.valid[..., None].astype(jnp.float32)
        x = (x * valid).sum(2) / jnp.maximum(valid.sum(2), 1)
        before, after = seen.number[..., 0], seen.number[..., 1]
        counted = jnp.stack([jnp.minimum(before, 10) / 10, jnp.clip(after - before, -3, 3), before > 3], -1)
        x = jax.nn.relu(self.summary(jnp.concatenate([x, counted], -1)))
        return self.gru_in(x), before > 0

    def update(self, hidden: Array, digested: tuple[Array, Array]) -> Array:
        x, present = digested
        return jnp.where(present[..., None], gru(x, self.gru_hidden(hidden), hidden), hidden)

    def score(self, hidden: Array) -> Array:
        """Log-probabilities [B, K, K] of kinds, by type."""
        return jax.nn.log_softmax(self.read(hidden))


class Games(NamedTuple):
    """G games from their start, each of at most L steps."""

    tiles: Any  # [G, L + 1, H * W] uint8, categories
    numbers: Any  # [G, L + 1, 17] uint8 or float32
    action: Any  # [G, L] uint8
    reward: Any  # [G, L] float32
    length: Any  # [G] int32


def follow(model: ViewInference, games: Games, imagined: Imagined) -> Array:
    """Scores before the first and after every step, [L + 1, G, K, K]; a game's end keeps its last."""
    number, length = games.action.shape
    codes = disguise(games.tiles, imagined, model.kinds, len(model.world.category_names))

    def flat(x: Array) -> Array:
        return x.reshape(-1, *x.shape[2:])

    numbers = games.numbers.astype(jnp.float32)
    before, after = (Glimpse(flat(codes[:, part]), flat(numbers[:, part])) for part in (slice(0, -1), slice(1, None)))
    seen = model.look(before, after, flat(games.action).astype(jnp.int32), flat(games.reward))
    digested = jax.tree.map(lambda x: x.reshape(number, length, *x.shape[1:]).swapaxes(0, 1), model.digest(seen))

    def step(hidden: Array, x: tuple[Any, Array]) -> tuple[Array, Array]:
        digested, time = x
        hidden = jnp.where((time < games.length)[:, None, None], model.update(hidden, digested), hidden)
        return hidden, hidden

    start = model.begin(number)
    _, hidden = jax.lax.scan(step, start, (digested, jnp.arange(length)))
    return model.score(jnp.concatenate([start[None], hidden]))


def loss(model: ViewInference, games: Games, key: Array) -> tuple[Array, dict[str, Array]]:
    """Minus the log-probability of the truth, per hidden type, at the start and after every step."""
    imagined = imagine(key, len(games.length), len(model.kinds), HIDE_ALL)
    truth, weight = imagined.truth, imagined.hidden / imagined.hidden.sum()
    score = follow(model, games, imagined)
    given = jnp.take_along_axis(score, jnp.broadcast_to(truth[..., None], (*score.shape[:-1], 1)), -1)[..., 0]
    lost = -(given * weight).sum((1, 2))  # [L + 1]
    right = ((score[-1].argmax(-1) == truth) * weight).sum()
    return lost.mean(), {"loss": lost.mean(), "final_loss": lost[-1], "types_right": right}
