"""Actor-critic networks over grids of prototypes: the default, and the parts that every network here is made of.

A network has two halves. `encode` turns an observation into compact integers, once, while collecting; calling the network
turns those into action logits and a value, many times, while learning.

`RelativeNet` sees every tile relative to the agent. The paper's network is in `relation.py`. Both also take *beliefs*: grids in
which some cells show a slot, of which it is only believed what it is (see `Believed`).
"""

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.arrays import first_marked
from protoalign.worlds.base import Observation

MARKS = (1, 2, 4, 9)  # a number is shown to a network as how far it is on the way to each of these


class Scene(NamedTuple):
    """What a network has to know of a world. Hashable."""

    grid: tuple[int, int]  # rows and columns
    prototypes: int
    actions: int
    numbers: int = 0  # known besides the grid
    cell: int | None = None  # the agent's fixed tile in an egocentric view; None: a board
    agent: tuple[int, ...] = ()  # prototypes that are the agent on a board; none: places are absolute
    floor: int = 0  # the commonest prototype
    objects: int | None = None  # no more tiles than this differ from the floor

    @property
    def tiles(self) -> int:
        return self.grid[0] * self.grid[1]


class Believed(NamedTuple):
    """A grid of codes: below C a prototype, C + s slot s; `belief` tells what each of S slots may be of the hideable ones."""

    codes: Array  # [B, H, W] uint8 or int32
    numbers: Array  # [B, M]
    belief: Array  # [B, S, K], probabilities over the K prototypes that may be hidden


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


class Placed(NamedTuple):
    """The tiles that count, and where they lie; at most T of them. On a board those that are not floor, in a view all."""

    code: Array  # [B, T] uint8 or int32, as in `Observation` or `Believed`
    offset: Array | None  # [B, T] int16, which offset from the agent, past the last where there is no tile; None: all tiles
    place: Array | None  # [B] int16, the agent's own tile on a board
    numbers: Array  # [B, M]
    belief: Array | None  # [B, S, K]; None: every tile is what it looks like


class RelativeNet(eqx.Module):
    """The sum of one embedding per tile, by prototype and offset from the agent, of the agent's place and of numbers; then an
    MLP.

    On a board the agent is somewhere and floor counts for nothing; in an egocentric view it is always in the same place, so the
    offset of a tile is its place in the view. The embedding of a slot is the mean over what it may be; on a board the agent is
    then the tile most believed to be it, and floor is the commonest code and what is most likely floor.
    """

    table: Array  # [C, offsets, F]
    place: Array | None  # [H * W, F], on boards
    numbers: Dense | None
    bias: Array  # [F]
    hidden: Dense
    heads: Heads
    scene: Scene = eqx.field(static=True)
    hideable: tuple[int, ...] = eqx.field(static=True)  # prototypes that a slot may be

    def __init__(self, rng: np.random.Generator, scene: Scene, width: int = 64, hideable: tuple[int, ...] = ()):
        height, breadth = scene.grid
        board = scene.cell is None
        offsets = (2 * height - 1) * (2 * breadth - 1) if board else scene.tiles
        scale = 0.1 if board else scene.tiles**-0.5
        self.table = jnp.asarray(scale * rng.standard_normal((scene.prototypes, offsets, width)), jnp.float32)
        self.place = jnp.asarray(0.1 * rng.standard_normal((scene.tiles, width)), jnp.float32) if board else None
        self.numbers = Dense(rng, len(MARKS) * scene.numbers, width, 1.0) if scene.numbers else None
        self.bias = jnp.zeros(width)
        self.hidden = Dense(rng, width, width)
        self.heads = Heads(rng, width, scene.actions)
        self.scene = scene
        self.hideable = hideable

    def encode(self, observation: Observation | Believed) -> Placed:
        scene = self.scene
        codes, numbers = observation.tiles if isinstance(observation, Observation) else observation.codes, observation.numbers
        belief = None if isinstance(observation, Observation) else observation.belief
        codes = codes.reshape(len(codes), scene.tiles)
        if scene.cell is not None:
            return Placed(codes, None, None, numbers, belief)
        height, width = scene.grid
        if belief is None:
            place = jnp.argmax(jnp.isin(codes, np.array(scene.agent, codes.dtype)), 1)
            object_ = codes != scene.floor
        else:
            certain = np.isin(np.arange(scene.prototypes), scene.agent).astype(np.float32)
            chance = belief @ certain[np.array(self.hideable)]  # [B, S]
            every = jnp.concatenate([jnp.broadcast_to(certain, (len(codes), len(certain))), chance], 1)
            place = jnp.argmax(jnp.take_along_axis(every, codes.astype(jnp.int32), 1), 1)
            number = (codes[:, None, :] == np.arange(every.shape[1], dtype=codes.dtype)[:, None]).sum(-1)
            object_ = codes != jnp.argmax(number, 1)[:, None].astype(codes.dtype)
            if scene.floor in self.hideable:  # floor may have two looks
                floor = belief[..., self.hideable.index(scene.floor)] > 0.5
                floor = jnp.pad(floor, ((0, 0), (scene.prototypes, 0)))
                object_ &= ~jnp.take_along_axis(floor, codes.astype(jnp.int32), 1)
        tile = first_marked(object_, scene.objects or scene.tiles)  # [B, T], H * W where there is none
        code = jnp.take_along_axis(codes, jnp.minimum(tile, scene.tiles - 1), 1)
        down = tile // width - (place // width)[:, None] + height - 1
        right = tile % width - (place % width)[:, None] + width - 1
        offset = jnp.where(tile < scene.tiles, down * (2 * width - 1) + right, self.table.shape[1])
        return Placed(code, offset.astype(jnp.int16), place.astype(jnp.int16), numbers, belief)

    def __call__(self, seen: Placed, extra: Array | float = 0.0) -> tuple[Array, Array]:
        """`extra` [B, F] is added to the tiles' embeddings."""
        categories, offsets, width = self.table.shape
        flat, code = self.table.reshape(-1, width), seen.code.astype(jnp.int32)
        offset = np.arange(offsets) if seen.offset is None else seen.offset.astype(jnp.int32)
        x = self.bias + extra
        if seen.belief is None or len(self.hideable) < categories:
            absent = (offset == offsets) | (code >= categories)
            x = x + embed_sum(flat, jnp.where(absent, categories * offsets, code * offsets + offset))
        if seen.belief is not None:
            x = x + self._believed(seen, code, offset)
        if self.place is not None and seen.place is not None:
            x = x + self.place[seen.place.astype(jnp.int32)]
        if self.numbers is not None:
            x = x + self.numbers(toward_marks(seen.numbers))
        return self.heads(jax.nn.relu(self.hidden(jax.nn.relu(x))))

    def _believed(self, seen: Placed, code: Array, offset: Array | np.ndarray) -> Array:
        """Embeddings [B, F] of all slots: what lies at each offset as one row of beliefs; then one product."""
        assert seen.belief is not None
        categories, offsets, width = self.table.shape
        batch, slots, hideable = seen.belief.shape
        if seen.offset is None:
            mark = (code[..., None] == categories + np.arange(slots)).astype(jnp.float32)  # [B, N, S]
            lies = mark @ seen.belief
        else:
            belief = jnp.take_along_axis(seen.belief, jnp.maximum(code - categories, 0)[..., None], 1)  # [B, T, K]
            if hideable < categories:
                belief = jnp.where((code >= categories)[..., None], belief, 0)
            empty = jnp.zeros((batch, offsets, hideable))
            lies = empty.at[jnp.arange(batch)[:, None], offset].add(belief, mode="drop")
        table = self.table[np.array(self.hideable)] if hideable < categories else self.table
        return lies.reshape(batch, -1) @ table.swapaxes(0, 1).reshape(-1, width)


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


def toward_marks(numbers: Array) -> Array:
    """Numbers [B, M] as how far each is on the way to every mark, [B, 4 M]."""
    return jnp.concatenate([jnp.minimum(numbers / mark, 1) for mark in MARKS], 1)
