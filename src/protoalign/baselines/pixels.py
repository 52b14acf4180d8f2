"""Actor-critics that see pixels, for the baselines.

A tile world's picture is made of 8 x 8 tiles, one texture per category. A first layer of 8 x 8 pixels with stride 8 therefore
gives a tile one code, by its category: code = f(texture). So a network can be given the grid and the textures (its `look`)
instead of the picture, compute one code per category, and lay the codes out: the same numbers, far sooner. `on_frames` computes
them from the picture; a test holds the two together. To put the network into another world is to give it another look.

`TileEye` (the default) is such a first layer, `ConvEye` a plain stack of convolutions. `PixelNet` relates what they see by
correlation; in Crafter, where the player is always in the middle, `PixelViewNet` has a dense layer there.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.envs import appearance
from protoalign.envs.base import TileWorld
from protoalign.envs.crafter.pictured import PicturedCrafter, pictures
from protoalign.errors import UserError
from protoalign.rl.networks import STAIRS, Dense, Glance, Heads, embed_sum, stairs

Pictured = TileWorld | PicturedCrafter  # worlds that can be seen as pixels
PIXELS = appearance.TILE**2 * 3  # numbers in a tile
CODE = 32  # numbers for a tile
CHANNELS = 4


def load_look(look: str, world: Pictured) -> Array:
    """The textures called `look`, [C, PIXELS], from 0 to 1."""
    if isinstance(world, PicturedCrafter):
        return jnp.asarray(pictures(look).reshape(-1, PIXELS) / 255, jnp.float32)
    textures = appearance.load(look, world.category_names)
    if textures.ndim != 4:
        raise UserError(f"baselines know one look per kind, not '{look}'")
    return jnp.asarray(textures.reshape(-1, PIXELS) / 255, jnp.float32)


def lay(seen: Array, values: Array) -> Array:
    """Per category values [C, F], or [B, C, F] if each grid has its own, laid out by grids [B, N] of categories: [B, N, F]."""
    mark = (seen[..., None] == np.arange(values.shape[-2], dtype=np.uint8)).astype(values.dtype)
    return mark @ values


def frames(look: Array, seen: Array, shape: tuple[int, int]) -> Array:
    """Pictures [B, 8H, 8W, 3] of grids [B, N]."""
    return picture(lay(seen, look), shape)


def picture(tiles: Array, shape: tuple[int, int]) -> Array:
    """Pictures [B, 8H, 8W, 3] of tiles [B, N, PIXELS]."""
    size = appearance.TILE
    placed = tiles.reshape(-1, *shape, size, size, 3).swapaxes(2, 3)
    return placed.reshape(len(tiles), shape[0] * size, shape[1] * size, 3)


def cut(pictures: Array) -> Array:
    """Tiles [B, N, PIXELS] of pictures [B, 8H, 8W, 3]."""
    size = appearance.TILE
    batch, height, width, _ = pictures.shape
    tiles = pictures.reshape(batch, height // size, size, width // size, size, 3).swapaxes(2, 3)
    return tiles.reshape(batch, -1, PIXELS)


class TileCode(eqx.Module):
    """The first layer: 8 x 8 pixels, stride 8."""

    dense: Dense

    def __init__(self, rng: np.random.Generator, width: int = CODE):
        self.dense = Dense(rng, PIXELS, width)

    def __call__(self, tiles: Array) -> Array:
        return jax.nn.relu(self.dense(2 * tiles - 1))


class Correlation(eqx.Module):
    """Features of what lies where, relative to what.

    Of the maps [B, 1 + K, N], the first is correlated with each of the others: how much of the one lies how far from the
    other. Correlations are taken as products of spectra, on a torus so large that nothing wraps around; the
    dense layer that follows makes any use of them that it could make of the correlations themselves.
    """

    dense: Dense
    hidden: Dense
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, shape: tuple[int, int], channels: int, width: int):
        self.shape = shape
        self.dense = Dense(rng, self.waves().shape[1] * (channels + 1), width, 1.0)
        self.hidden = Dense(rng, width, width)

    def waves(self) -> np.ndarray:
        """Cosines and sines of all waves at all tiles, [N, 2Q]; of two waves that run in opposite directions one is enough."""
        height, width = self.shape
        around = (2 * height - 1, 2 * width - 1)
        waves = np.array([(a, b) for a in range(around[0]) for b in range(width) if b or a < height]) / around
        places = np.stack(np.divmod(np.arange(height * width), width), -1)
        phase = 2 * np.pi * places @ waves.T
        return np.concatenate([np.cos(phase), np.sin(phase)], 1).astype(np.float32)

    def __call__(self, maps: Array) -> Array:
        batch, number, tiles = maps.shape
        spectrum = (maps.reshape(-1, tiles) @ self.waves()).reshape(batch, number, 2, -1)
        one, others = spectrum[:, :1], spectrum[:, 1:]
        real = one[:, :, 0] * others[:, :, 0] + one[:, :, 1] * others[:, :, 1]
        imaginary = one[:, :, 0] * others[:, :, 1] - one[:, :, 1] * others[:, :, 0]
        x = jnp.concatenate([x.reshape(batch, -1) for x in (real, imaginary, one)], 1)
        return jax.nn.relu(self.hidden(jax.nn.relu(self.dense(0.3 * x))))


class TileEye(eqx.Module):
    """One code per tile, [B, N, CODE]."""

    code: TileCode

    def __init__(self, rng: np.random.Generator, world: Pictured):
        self.code = TileCode(rng)

    def __call__(self, look: Array, seen: Array) -> Array:
        return lay(seen, self.code(look))

    def on_tiles(self, tiles: Array) -> Array:
        """The same from tiles [B, N, PIXELS]."""
        return self.code(tiles)


class ConvEye(eqx.Module):
    """Three convolutions over the picture, 4 x 4 with stride 2: codes of tiles and what is around them, [B, N, CODE]."""

    layers: list[Dense]
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, world: Pictured):
        self.layers = [Dense(rng, 16 * n_in, n_out) for n_in, n_out in ((3, 16), (16, 32), (32, CODE))]
        self.shape = world.shape

    def __call__(self, look: Array, seen: Array) -> Array:
        return self.on_frames(frames(look, seen, self.shape))

    def on_frames(self, pictures: Array) -> Array:
        x = 2 * pictures - 1
        for layer in self.layers:
            x = jax.nn.relu(layer(surroundings(x)))
        return x.reshape(len(x), -1, CODE)

    def on_tiles(self, tiles: Array) -> Array:
        return self.on_frames(picture(tiles, self.shape))


def surroundings(x: Array) -> Array:
    """What a convolution of 4 x 4 with stride 2 sees of [B, H, W, C]: [B, H / 2, W / 2, 16 C].

    Multiplied by a matrix it is the convolution; XLA's own is many times slower on a processor, above all its gradient.
    """
    batch, height, width, channels = x.shape
    x = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).reshape(batch, height // 2 + 1, 2, width // 2 + 1, 2, channels)
    x = x.swapaxes(2, 3).reshape(batch, height // 2 + 1, width // 2 + 1, -1)  # blocks of 2 x 2
    return jnp.concatenate([x[:, i : i + height // 2, j : j + width // 2] for i in (0, 1) for j in (0, 1)], -1)


EYES: dict[str, Callable[..., Any]] = {"tiles": TileEye, "conv": ConvEye}


class PixelNet(eqx.Module):
    """One code per tile, mixed into a few maps, correlated."""

    look: Array  # [C, PIXELS], given, not learned
    eye: Any
    mix: Dense
    body: Correlation
    heads: Heads

    def __init__(self, rng: np.random.Generator, world: TileWorld, look: Array, kind: str = "tiles", width: int = 64):
        self.look = look
        self.eye = EYES[kind](rng, world)
        self.mix = Dense(rng, CODE, 1 + CHANNELS, 1.0)
        self.body = Correlation(rng, world.shape, CHANNELS, width)
        self.heads = Heads(rng, width, world.num_actions)

    def encode(self, grid: Array) -> Array:
        return grid.reshape(len(grid), -1)

    def features(self, seen: Array) -> Array:
        return self.body(self.mix(self.eye(jax.lax.stop_gradient(self.look), seen)).swapaxes(1, 2))

    def __call__(self, seen: Array) -> tuple[Array, Array]:
        return self.heads(self.features(seen))

    def on_frames(self, pictures: Array) -> tuple[Array, Array]:
        """The same from pictures [B, 8H, 8W, 3] with values from 0 to 1."""
        return self.heads(self.body(self.mix(self.eye.on_tiles(cut(pictures))).swapaxes(1, 2)))


class PixelViewNet(eqx.Module):
    """One code per tile; a dense layer over all codes and the numbers; then an MLP."""

    look: Array  # [C, PIXELS], given, not learned
    eye: Any
    tiles: Array  # [N, CODE, F]
    numbers: Dense
    hidden: Dense
    heads: Heads

    def __init__(self, rng: np.random.Generator, world: PicturedCrafter, look: Array, kind: str = "tiles", width: int = 256):
        number = world.shape[0] * world.shape[1]
        self.look = look
        self.eye = EYES[kind](rng, world)
        self.tiles = jnp.asarray(rng.standard_normal((number, CODE, width)) / (number * CODE) ** 0.5, jnp.float32)
        self.numbers = Dense(rng, len(STAIRS) * world.num_numbers, width, 1.0)
        self.hidden = Dense(rng, width, width)
        self.heads = Heads(rng, width, world.num_actions)

    def encode(self, observation: Any) -> Glance:
        return Glance(*apart(observation))

    def __call__(self, seen: Glance) -> tuple[Array, Array]:
        look = jax.lax.stop_gradient(self.look)
        if isinstance(self.eye, TileEye):  # a code goes through the layer once per place, not once per tile
            table = jnp.einsum("ce,nef->ncf", self.eye.code(look), self.tiles).reshape(-1, self.tiles.shape[-1])
            rows = np.arange(seen.tiles.shape[1]) * len(look) + seen.tiles.astype(jnp.int32)
            return self.decide(embed_sum(table, rows), seen.numbers)
        return self.decide(self.relate(self.eye(look, seen.tiles)), seen.numbers)

    def relate(self, codes: Array) -> Array:
        return codes.reshape(len(codes), -1) @ self.tiles.reshape(-1, self.tiles.shape[-1])

    def decide(self, x: Array, numbers: Array) -> tuple[Array, Array]:
        return self.heads(jax.nn.relu(self.hidden(jax.nn.relu(x + self.numbers(stairs(numbers))))))

    def on_frames(self, pictures: Array, numbers: Array) -> tuple[Array, Array]:
        """The same from pictures [B, 8H, 8W, 3] with values from 0 to 1."""
        return self.decide(self.relate(self.eye.on_tiles(cut(pictures))), numbers)


def apart(observation: Any) -> tuple[Array, Array]:
    """Grids [B, N], and what is known besides in numbers [B, M], of which there are none in Hunter."""
    grid, numbers = observation if isinstance(observation, tuple) else (observation, jnp.zeros((len(observation), 0)))
    return grid.reshape(len(grid), -1), numbers


def in_look(net: Any, look: Array) -> Any:
    """The same network in a world of another look."""
    return eqx.tree_at(lambda n: n.look, net, look)
