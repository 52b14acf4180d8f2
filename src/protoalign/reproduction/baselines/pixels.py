"""Actor-critics that see pixels, for the baselines.

What is seen is made of tiles, one picture per id (`World.pictures`). A first layer as large as a tile, with the same stride,
therefore gives a tile one code, by its id: code = f(picture of the id). So a network can be given the grid of ids and the table
of pictures (its `look`) instead of the pixels, compute one code per id, and lay the codes out: the same numbers, far sooner.
`on_frames` computes them from the pixels; a test holds the two together. To put the network into another look is to give it
another table.

`TileEye` (the default) is such a first layer, `ConvEye` a plain stack of convolutions. `PixelNet` relates what they see: by
correlation on a board, where the agent may be anywhere; in an egocentric view by a dense layer over all places.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.errors import UserError
from protoalign.rl.networks import MARKS, Dense, Heads, embed_sum, toward_marks
from protoalign.worlds.base import Observation, World

CODE = 32  # numbers for a tile
CHANNELS = 4


class Screen(NamedTuple):
    """What a network on pixels has to know of a world. Hashable."""

    grid: tuple[int, int]  # rows and columns of tiles
    tile: tuple[int, int]  # a tile's height and width in pixels
    actions: int
    numbers: int  # known besides the picture
    board: bool  # the agent is anywhere; else the view moves with it

    @property
    def tiles(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def pixels(self) -> int:
        """Numbers in a tile."""
        return 3 * self.tile[0] * self.tile[1]


def screen_of(world: World) -> Screen:
    spec = world.spec
    height, width = world.pictures("source").shape[-3:-1]
    return Screen(spec.grid, (height, width), len(spec.actions), len(spec.numbers), spec.agent is None)


def load_look(look: str, world: World) -> Array:
    """The table of pictures called `look`, [ids, pixels], from 0 to 1."""
    table = world.pictures(look)
    if table.ndim != 4:
        raise UserError(f"baselines know one picture per kind, not '{look}'")
    with jax.ensure_compile_time_eval():  # it may first be asked for inside a compiled function
        return jnp.asarray(table.reshape(len(table), -1) / 255, jnp.float32)


def lay(seen: Array, values: Array) -> Array:
    """Values per id [C, F], or [B, C, F] if each grid has its own, laid out by grids [B, N] of ids: [B, N, F]."""
    mark = (seen[..., None] == np.arange(values.shape[-2], dtype=seen.dtype)).astype(values.dtype)
    return mark @ values


def picture(tiles: Array, screen: Screen) -> Array:
    """Pictures [B, H * h, W * w, 3] of tiles [B, N, pixels]."""
    (rows, columns), (height, width) = screen.grid, screen.tile
    placed = tiles.reshape(-1, rows, columns, height, width, 3).swapaxes(2, 3)
    return placed.reshape(len(tiles), rows * height, columns * width, 3)


def tiles_of(pictures: Array, screen: Screen) -> Array:
    """Tiles [B, N, pixels] of pictures [B, H * h, W * w, 3]."""
    (rows, columns), (height, width) = screen.grid, screen.tile
    tiles = pictures.reshape(-1, rows, height, columns, width, 3).swapaxes(2, 3)
    return tiles.reshape(len(pictures), screen.tiles, screen.pixels)


class TileCode(eqx.Module):
    """The first layer: one tile at a time."""

    dense: Dense

    def __init__(self, rng: np.random.Generator, pixels: int, width: int = CODE):
        self.dense = Dense(rng, pixels, width)

    def __call__(self, tiles: Array) -> Array:
        return jax.nn.relu(self.dense(2 * tiles - 1))


class TileEye(eqx.Module):
    """One code per tile, [B, N, CODE]."""

    code: TileCode

    def __init__(self, rng: np.random.Generator, screen: Screen):
        self.code = TileCode(rng, screen.pixels)

    def __call__(self, look: Array, seen: Array) -> Array:
        return lay(seen, self.code(look))

    def on_tiles(self, tiles: Array) -> Array:
        """The same from tiles [B, N, pixels]."""
        return self.code(tiles)


class ConvEye(eqx.Module):
    """Convolutions over the picture, 4 x 4 with stride 2, down to one code per tile, [B, N, CODE]: three for tiles of 8 x 8."""

    layers: list[Dense]
    screen: Screen = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, screen: Screen):
        height, width = screen.tile
        number = height.bit_length() - 1
        if height != width or height != 2**number or number < 1:
            raise UserError(f"--encoder conv needs square tiles of 2, 4, 8, 16, ... pixels, not {height} x {width}: use tiles")
        channels = (3, *((16, *(32,) * number)[: number - 1]), CODE)
        self.layers = [Dense(rng, 16 * n_in, n_out) for n_in, n_out in pairwise(channels)]
        self.screen = screen

    def __call__(self, look: Array, seen: Array) -> Array:
        return self.on_tiles(lay(seen, look))

    def on_frames(self, pictures: Array) -> Array:
        x = 2 * pictures - 1
        for layer in self.layers:
            x = jax.nn.relu(layer(surroundings(x)))
        return x.reshape(len(x), -1, CODE)

    def on_tiles(self, tiles: Array) -> Array:
        return self.on_frames(picture(tiles, self.screen))


def surroundings(x: Array) -> Array:
    """What a convolution of 4 x 4 with stride 2 sees of [B, H, W, C]: [B, H / 2, W / 2, 16 C].

    Multiplied by a matrix it is the convolution; XLA's own is many times slower on a processor, above all its gradient.
    """
    batch, height, width, channels = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(batch, height // 2 + 1, 2, width // 2 + 1, 2, channels)
    x = x.swapaxes(2, 3).reshape(batch, height // 2 + 1, width // 2 + 1, -1)  # blocks of 2 x 2
    return jnp.concatenate([x[:, i : i + height // 2, j : j + width // 2] for i in (0, 1) for j in (0, 1)], -1)


EYES: dict[str, Callable[..., Any]] = {"tiles": TileEye, "conv": ConvEye}


class Correlation(eqx.Module):
    """Codes mixed into a few maps, and features of what lies where, relative to what.

    Of the maps [B, 1 + K, N], the first is correlated with each of the others: how much of the one lies how far from the
    other. Correlations are taken as products of spectra, on a torus so large that nothing wraps around; the
    dense layer that follows makes any use of them that it could make of the correlations themselves.
    """

    mix: Dense
    dense: Dense
    grid: tuple[int, int] = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, screen: Screen, width: int):
        self.grid = screen.grid
        self.mix = Dense(rng, CODE, 1 + CHANNELS, 1.0)
        self.dense = Dense(rng, self.waves().shape[1] * (CHANNELS + 1), width, 1.0)

    def waves(self) -> np.ndarray:
        """Cosines and sines of all waves at all tiles, [N, 2Q]; of two waves that run in opposite directions one is enough."""
        height, width = self.grid
        around = (2 * height - 1, 2 * width - 1)
        waves = np.array([(a, b) for a in range(around[0]) for b in range(width) if b or a < height]) / around
        places = np.stack(np.divmod(np.arange(height * width), width), -1)
        phase = 2 * np.pi * places @ waves.T
        return np.concatenate([np.cos(phase), np.sin(phase)], 1).astype(np.float32)

    def __call__(self, codes: Array) -> Array:
        maps = self.mix(codes).swapaxes(1, 2)
        batch, number, tiles = maps.shape
        spectrum = (maps.reshape(-1, tiles) @ self.waves()).reshape(batch, number, 2, -1)
        one, others = spectrum[:, :1], spectrum[:, 1:]
        real = one[:, :, 0] * others[:, :, 0] + one[:, :, 1] * others[:, :, 1]
        imaginary = one[:, :, 0] * others[:, :, 1] - one[:, :, 1] * others[:, :, 0]
        x = jnp.concatenate([x.reshape(batch, -1) for x in (real, imaginary, one)], 1)
        return self.dense(0.3 * x)


class Places(eqx.Module):
    """A dense layer over the codes of all places."""

    tiles: Array  # [N, CODE, F]

    def __init__(self, rng: np.random.Generator, screen: Screen, width: int):
        number = screen.tiles
        self.tiles = jnp.asarray(rng.standard_normal((number, CODE, width)) / (number * CODE) ** 0.5, jnp.float32)

    def __call__(self, codes: Array) -> Array:
        return codes.reshape(len(codes), -1) @ self.tiles.reshape(-1, self.tiles.shape[-1])

    def laid(self, codes: Array, seen: Array) -> Array:
        """The same from codes per id [C, CODE] and grids [B, N]: a code goes through the layer once per place, not per tile."""
        table = jnp.einsum("ce,nef->ncf", codes, self.tiles).reshape(-1, self.tiles.shape[-1])
        return embed_sum(table, np.arange(seen.shape[1]) * len(codes) + seen.astype(jnp.int32))


class Seen(NamedTuple):
    """Grids of picture ids, and numbers."""

    tiles: Array  # [B, N]
    numbers: Array  # [B, M]


class PixelNet(eqx.Module):
    """One code per tile; features of all codes and the numbers; then an MLP."""

    look: Array  # [ids, pixels], given, not learned
    eye: Any
    body: Correlation | Places
    numbers: Dense | None
    hidden: Dense
    heads: Heads
    screen: Screen = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, screen: Screen, look: Array, kind: str = "tiles", width: int = 64):
        self.look, self.screen = look, screen
        self.eye = EYES[kind](rng, screen)
        self.body = (Correlation if screen.board else Places)(rng, screen, width)
        self.numbers = Dense(rng, len(MARKS) * screen.numbers, width, 1.0) if screen.numbers else None
        self.hidden = Dense(rng, width, width)
        self.heads = Heads(rng, width, screen.actions)

    def encode(self, observation: Observation) -> Seen:
        return flat(observation)

    def features(self, seen: Seen) -> Array:
        """[B, F]"""
        look = jax.lax.stop_gradient(self.look)
        if isinstance(self.eye, TileEye) and isinstance(self.body, Places):
            return self._features(self.body.laid(self.eye.code(look), seen.tiles), seen.numbers)
        return self._features(self.body(self.eye(look, seen.tiles)), seen.numbers)

    def _features(self, x: Array, numbers: Array) -> Array:
        if self.numbers is not None:
            x = x + self.numbers(toward_marks(numbers))
        return jax.nn.relu(self.hidden(jax.nn.relu(x)))

    def __call__(self, seen: Seen) -> tuple[Array, Array]:
        return self.heads(self.features(seen))

    def on_frames(self, pictures: Array, numbers: Array) -> tuple[Array, Array]:
        """The same from pictures [B, H * h, W * w, 3] with values from 0 to 1, and numbers [B, M]."""
        return self.heads(self._features(self.body(self.eye.on_tiles(tiles_of(pictures, self.screen))), numbers))


def flat(observation: Observation) -> Seen:
    """Grids [B, N] instead of [B, H, W]."""
    return Seen(observation.tiles.reshape(len(observation.tiles), -1), observation.numbers)


def in_look(net: Any, look: Array) -> Any:
    """The same network in a world of another look."""
    return eqx.tree_at(lambda n: n.look, net, look)
