"""Actor-critic networks over category grids.

A network has two halves. `encode` turns an observation into compact integers, once, while collecting; calling the network
turns those into action logits and a value, many times, while learning.

`RelativeNet` (the default) sees every object relative to the agent. `RelationNet` is the paper's: self-attention over tiles
that carry their position.
"""

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.envs.base import TileWorld, first_marked


class ActorCritic(Protocol):
    """What PPO asks of a network."""

    def encode(self, observation: Any) -> Any:
        """A batch of observations as the network wants them; a pytree with leading axis B."""
        ...

    def __call__(self, seen: Any) -> tuple[Array, Array]:
        """Action logits [B, A] and values [B] of encoded observations."""
        ...


class Dense(eqx.Module):
    """x @ weight + bias, with an orthogonal start."""

    weight: Array  # [in, out]
    bias: Array  # [out]

    def __init__(self, rng: np.random.Generator, n_in: int, n_out: int, gain: float = 2**0.5):
        a = rng.standard_normal((max(n_in, n_out), min(n_in, n_out)))
        q, r = np.linalg.qr(a)
        q *= np.sign(np.diag(r))
        self.weight = jnp.asarray(gain * (q if n_in >= n_out else q.T), jnp.float32)
        self.bias = jnp.zeros(n_out)

    def __call__(self, x: Array) -> Array:
        # Flat, because the gradient of a product with [A, B, in] is several times slower than with [A * B, in].
        flat = x.reshape(-1, x.shape[-1]) @ self.weight + self.bias
        return flat.reshape(*x.shape[:-1], self.bias.shape[0])


class Heads(eqx.Module):
    """Policy and value on top of features [B, F]."""

    policy: Dense
    value: Dense

    def __init__(self, rng: np.random.Generator, width: int, num_actions: int):
        self.policy = Dense(rng, width, num_actions, 0.01)  # nearly uniform at the start
        self.value = Dense(rng, width, 1, 1.0)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        return self.policy(x), self.value(x)[:, 0]


class RandomNet(eqx.Module):
    """Every action alike, whatever is seen."""

    actions: int = eqx.field(static=True)

    def encode(self, observation: Any) -> Array:
        return jnp.zeros(len(jax.tree.leaves(observation)[0]))

    def __call__(self, seen: Array) -> tuple[Array, Array]:
        return jnp.zeros((len(seen), self.actions)), seen


# -- the default ---------------------------------------------------------------------------------------------------------


class Objects(NamedTuple):
    """The tiles of a grid that are not floor, as the agent sees them; at most K = world.max_objects."""

    category: Array  # [B, K] uint8
    offset: Array  # [B, K] int16, which of the (2H-1)(2W-1) offsets from the agent; past the last where there is no object
    place: Array  # [B] int16, the agent's own tile
    codes: Array | None = None  # [B, types, C]: what each type of object is believed to be; None: it is what it looks like


class RelativeNet(eqx.Module):
    """The sum of one embedding per object, by category and offset from the agent, and one for the agent's place; then an MLP.

    With soft codes (`codes`), grids hold types instead of categories, an object's embedding is the mean over the categories
    it may be, and the agent is the tile most believed to be it.
    """

    table: Array  # [C, (2H-1)(2W-1), F]
    place: Array  # [H*W, F]
    bias: Array  # [F]
    hidden: Dense
    heads: Heads
    world: TileWorld = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, world: TileWorld, width: int = 64):
        height, breadth = world.shape
        offsets = (2 * height - 1) * (2 * breadth - 1)
        categories = len(world.category_names)
        self.table = jnp.asarray(0.1 * rng.standard_normal((categories, offsets, width)), jnp.float32)
        self.place = jnp.asarray(0.1 * rng.standard_normal((height * breadth, width)), jnp.float32)
        self.bias = jnp.zeros(width)
        self.hidden = Dense(rng, width, width)
        self.heads = Heads(rng, width, world.num_actions)
        self.world = world

    def encode(self, grid: Array, codes: Array | None = None) -> Objects:
        """Grids [B, H, W] of categories, or of types with codes [B, types, C]; then the commonest type counts as floor."""
        height, width = self.world.shape
        grid = grid.reshape(-1, height * width)
        if codes is None:
            place = jnp.argmax(grid == self.world.agent, 1)
            ground: Array | int = self.world.floor
        else:
            place = jnp.argmax(jnp.take_along_axis(codes[:, :, self.world.agent], grid.astype(jnp.int32), 1), 1)
            number = (grid[:, None, :] == np.arange(codes.shape[1], dtype=np.uint8)[:, None]).sum(-1)
            ground = jnp.argmax(number, 1)[:, None].astype(grid.dtype)
        tile = first_marked(grid != ground, self.world.max_objects)  # [B, K], H*W where there is none
        category = jnp.take_along_axis(grid, jnp.minimum(tile, height * width - 1), 1)
        down = tile // width - (place // width)[:, None] + height - 1
        right = tile % width - (place % width)[:, None] + width - 1
        offset = jnp.where(tile < height * width, down * (2 * width - 1) + right, self.table.shape[1])
        return Objects(category, offset.astype(jnp.int16), place.astype(jnp.int16), codes)

    def __call__(self, seen: Objects, extra: Array | float = 0.0) -> tuple[Array, Array]:
        """`extra` [B, F] is added to the objects' embeddings."""
        offset, category = seen.offset.astype(jnp.int32), seen.category.astype(jnp.int32)
        categories, offsets, width = self.table.shape
        if seen.codes is None:
            absent = offset == offsets
            row = jnp.where(absent, categories * offsets, category * offsets + offset)
            x = embed_sum(self.table.reshape(-1, width), row)
        else:
            # Everything that lies at an offset, as one row of categories; then one product, whose gradient is a product too.
            code = jnp.take_along_axis(seen.codes, category[..., None], 1)  # [B, K, C]
            lies = (
                jnp.zeros((len(offset), offsets, categories))
                .at[jnp.arange(len(offset))[:, None], offset]
                .add(code, mode="drop")
            )
            x = lies.reshape(len(offset), -1) @ self.table.swapaxes(0, 1).reshape(-1, width)
        x = x + self.place[seen.place.astype(jnp.int32)] + self.bias + extra
        return self.heads(jax.nn.relu(self.hidden(jax.nn.relu(x))))


@jax.custom_vjp
def embed_sum(table: Array, rows: Array) -> Array:
    """Sum over k of table[rows[:, k]], [B, F]; table is [R, F], and rows past its end count as zero."""
    total = jnp.zeros((rows.shape[0], table.shape[1]))
    for k in range(rows.shape[1]):  # one running sum is several times faster than gathering [B, K, F] and reducing it
        total += jnp.take(table, rows[:, k], axis=0, mode="fill", fill_value=0)
    return total


def _embed_sum_forward(table: Array, rows: Array) -> tuple[Array, Any]:
    return embed_sum(table, rows), (table, rows)


def _embed_sum_backward(saved: Any, grad: Array) -> tuple[Array, None]:
    # One scatter for all columns; automatic differentiation of the loop would make one per column.
    table, rows = saved
    grads = jnp.broadcast_to(grad[:, None, :], (*rows.shape, grad.shape[1]))
    return jnp.zeros_like(table).at[rows].add(grads, mode="drop"), None


embed_sum.defvjp(_embed_sum_forward, _embed_sum_backward)


# -- for worlds seen from the player's place -----------------------------------------------------------------------------


class Glance(NamedTuple):
    """A view with the player in the middle, and what the player knows in numbers."""

    tiles: Array  # [B, N] uint8, categories
    numbers: Array  # [B, M] float32


class ViewNet(eqx.Module):
    """The sum of one embedding per tile, by its place in the view and its category, and one of the numbers; then an MLP."""

    table: Array  # [N * C, F]
    numbers: Dense
    hidden: Dense
    heads: Heads
    categories: int = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, world: Any, width: int = 256):
        tiles, self.categories = world.shape[0] * world.shape[1], len(world.category_names)
        self.table = jnp.asarray(rng.standard_normal((tiles * self.categories, width)) / tiles**0.5, jnp.float32)
        self.numbers = Dense(rng, len(STAIRS) * world.num_numbers, width, 1.0)
        self.hidden = Dense(rng, width, width)
        self.heads = Heads(rng, width, world.num_actions)

    def encode(self, observation: Any) -> Glance:
        tiles, numbers = observation
        return Glance(tiles.reshape(len(tiles), -1), numbers)

    def __call__(self, seen: Glance) -> tuple[Array, Array]:
        rows = np.arange(seen.tiles.shape[1]) * self.categories + seen.tiles.astype(jnp.int32)
        x = embed_sum(self.table, rows) + self.numbers(stairs(seen.numbers))
        return self.heads(jax.nn.relu(self.hidden(jax.nn.relu(x))))


STAIRS = (1, 2, 4, 9)  # amounts that make a difference: to have one, to afford a table, a furnace, to need nothing


def stairs(numbers: Array) -> Array:
    """Amounts [B, M] as how far each is on the way to some marks, [B, 4 M]."""
    return jnp.concatenate([jnp.minimum(numbers / mark, 1) for mark in STAIRS], 1)


# -- the paper's ---------------------------------------------------------------------------------------------------------


class RelationNet(eqx.Module):
    """Self-attention over all tiles: two passes through one layer of four heads, then the maximum over tiles (appendix B.2)."""

    category: Array  # [C, F]
    position: Array  # [2, F], for a tile's row and column, both from -1 to 1
    qkv: Dense
    mix: Dense
    expand: Dense
    shrink: Dense
    hidden: Dense
    heads: Heads
    shape: tuple[int, int] = eqx.field(static=True)
    num_heads: int = eqx.field(static=True)
    passes: int = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, world: TileWorld, width: int = 32, num_heads: int = 4, passes: int = 2):
        self.category = jnp.asarray(rng.standard_normal((len(world.category_names), width)), jnp.float32)
        self.position = jnp.asarray(rng.standard_normal((2, width)), jnp.float32)
        self.qkv = Dense(rng, width, 3 * width, 1.0)
        self.mix = Dense(rng, width, width, 1.0)
        self.expand = Dense(rng, width, width)
        self.shrink = Dense(rng, width, width, 1.0)
        self.hidden = Dense(rng, width, width)
        self.heads = Heads(rng, width, world.num_actions)
        self.shape = world.shape
        self.num_heads = num_heads
        self.passes = passes

    def encode(self, grid: Array) -> Array:
        return grid.reshape(grid.shape[0], -1)

    def __call__(self, seen: Array) -> tuple[Array, Array]:
        return self.relate(self.category[seen.astype(jnp.int32)])

    def relate(self, x: Array) -> tuple[Array, Array]:
        """Logits and values from what stands on every tile, [B, N, F]."""
        places = np.stack(np.meshgrid(*(np.linspace(-1, 1, n) for n in self.shape), indexing="ij"), -1).reshape(-1, 2)
        x = x + places.astype(np.float32) @ self.position
        for _ in range(self.passes):
            x = layer_norm(x + self.attend(x))
            x = layer_norm(x + self.shrink(jax.nn.relu(self.expand(x))))
        return self.heads(jax.nn.relu(self.hidden(x.max(1))))

    def attend(self, x: Array) -> Array:
        @jax.checkpoint
        def one(qkv: Array) -> Array:  # [N, 3F] -> [N, F]
            tiles, width = qkv.shape[0], qkv.shape[1] // 3
            q, k, v = (y.reshape(tiles, self.num_heads, -1).swapaxes(0, 1) for y in jnp.split(qkv, 3, -1))
            weight = jax.nn.softmax(q @ k.swapaxes(1, 2) / (width / self.num_heads) ** 0.5)  # [heads, N, N]
            return (weight @ v).swapaxes(0, 1).reshape(tiles, width)

        # A few boards at a time: the attention weights of a whole minibatch would not fit in a processor's cache.
        return self.mix(jax.lax.map(one, self.qkv(x), batch_size=32))


def layer_norm(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


NETWORKS = {"relative": RelativeNet, "relation": RelationNet, "view": ViewNet}
