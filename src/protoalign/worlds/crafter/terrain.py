"""Crafter's worlds: the same ones that the original game generates from the same seed, twenty times sooner.

Noise is computed for whole maps at once; only what depends on random numbers drawn one after another is decided cell by cell. A
test compares worlds with the original's, tile by tile and creature by creature.
"""

import io
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from protoalign.errors import UserError
from protoalign.files import cache_folder, write_atomic
from protoalign.worlds.crafter.names import CATEGORY_NAMES

AREA = 64  # rows and columns of a world
MOST = 65_536  # in a pool
CENTRE = AREA // 2  # where the player starts
NAMES = {name: i for i, name in enumerate(CATEGORY_NAMES)}


class Terrain(NamedTuple):
    """One world, or many with a leading axis."""

    material: np.ndarray  # [64, 64] uint8, rows x columns, numbered as MATERIALS
    creature: np.ndarray  # [64, 64] uint8, the category of the creature on a tile; 0: none


def generate(seed: int) -> Terrain:
    """The world that the original makes when its random numbers start from `seed`."""
    simplex = _library()
    rng = np.random.RandomState(seed)
    noise = simplex(seed=int(rng.randint(0, 2**31 - 1))).noise3array
    place = np.arange(AREA, dtype=np.float64)

    def field(z: int, sizes: dict[int, float], x: np.ndarray = place, y: np.ndarray = place) -> np.ndarray:
        """Sums of noise at several scales, [x, y]; all arithmetic in the original's order, so that no bit differs."""
        total: Any = 0
        for size, weight in sizes.items():
            total += weight * noise(x / size, y / size, np.array([float(z)]))[0].T
        return total

    away = np.sqrt((place[:, None] - CENTRE) ** 2 + (place - CENTRE) ** 2)
    start = 4 - away + 2 * field(8, {3: 1})
    start = 1 / (1 + np.exp(-start))
    water = field(3, {15: 1, 5: 0.15}) + 0.1 - 2 * start
    mountain = field(0, {15: 1, 5: 0.3}) / 1.3 - (4 * start + 0.3 * water)
    cave = (field(6, {7: 1}) > 0.15) & (mountain > 0.3)
    tunnel = (field(7, {3: 1}, 2 * place, place / 5) > 0.4) | (field(7, {3: 1}, place / 5, 2 * place) > 0.4)
    lava = (mountain > 0.3) & (field(6, {5: 1}) > 0.35)
    rock = (start <= 0.5) & (mountain > 0.15)
    meadow = (start <= 0.5) & ~rock
    sand = meadow & (water > 0.25) & (water <= 0.35) & (field(4, {9: 1}) > -0.2)
    lake = meadow & ~sand & (water > 0.3)

    material = np.full((AREA, AREA), NAMES["grass"], np.uint8)
    material[rock] = NAMES["stone"]
    material[rock & lava] = NAMES["lava"]
    material[rock & (cave | tunnel)] = NAMES["path"]
    material[sand], material[lake] = NAMES["sand"], NAMES["water"]
    tunnels = rock & tunnel & ~cave
    solid = rock & ~cave & ~tunnel
    grove = meadow & ~sand & ~lake & (field(5, {7: 1}) > 0)
    ores = (  # tried one after another, each with a random number of its own
        (NAMES["coal"], solid & (field(1, {8: 1}) > 0), 0.85),
        (NAMES["iron"], solid & (field(2, {6: 1}) > 0.4), 0.75),
        (NAMES["diamond"], solid & (mountain > 0.18), 0.994),
        (NAMES["tree"], grove, 0.8),
    )
    draws = iter(rng.random_sample(6 * AREA**2).tolist())  # the same numbers as one by one
    _decide(draws, material, ores)

    creature = np.zeros_like(material)
    grass, walkable = material == NAMES["grass"], np.isin(material, [NAMES[n] for n in ("grass", "path", "sand")])
    creatures = (
        (NAMES["cow"], grass & (away > 3), 0.985),
        (NAMES["zombie"], walkable & (away > 10), 0.993),
        (NAMES["skeleton"], tunnels, 0.95),
    )
    _decide(draws, creature, creatures)
    return Terrain(material.T, creature.T)


def _decide(draws: Iterator[float], cells: np.ndarray, chances: tuple[tuple[int, np.ndarray, float], ...]) -> None:
    """Cell by cell, give it the first thing whose random number is high enough, out of those possible there."""
    flat = cells.reshape(-1)
    possible = np.stack([where.reshape(-1) for _, where, _ in chances], 1)
    some = np.flatnonzero(possible.any(1))
    for cell, here in zip(some.tolist(), possible[some].tolist(), strict=True):
        for (thing, _, least), can in zip(chances, here, strict=True):
            if can and next(draws) > least:
                flat[cell] = thing
                break


def pool(first: int, number: int) -> Terrain:
    """The worlds of seeds from `first` on; they are made once and kept in the user's cache."""
    if not 1 <= number <= MOST or not 0 <= first <= 2**32 - number:
        raise UserError(f"{number} worlds from seed {first} on: use 1 to {MOST} worlds, and seeds below 2 to the power of 32")
    path = cache_folder() / f"crafter-worlds-{first}-{number}.npy"
    try:
        both = np.load(path)
        if both.shape != (number, 2, AREA, AREA) or both.dtype != np.uint8:
            raise ValueError
    except (OSError, EOFError, ValueError):  # not there, or damaged
        both = np.stack([np.stack(generate(seed)) for seed in range(first, first + number)])
        write_atomic(path, _as_file(both))
    return Terrain(both[:, 0], both[:, 1])


def _as_file(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@cache
def _library() -> Any:
    try:
        import numba  # opensimplex is a hundred times slower without it
        import opensimplex
    except ImportError:
        raise UserError("Crafter's worlds need more packages: pip install 'protoalign[crafter]'") from None
    numba.set_num_threads(1)  # two threads that share a core wait for each other most of the time
    return opensimplex.OpenSimplex
