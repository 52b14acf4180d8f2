"""Crafter by the pictures of its tiles: what methods that see pixels learn from.

A tile shows a thing on a ground, and all pairs that occur are numbered. A view is then a grid of such numbers, and a look is a
table of pictures, one for each: another look is another table.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from protoalign.envs import appearance
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import FLIES_OVER, GRASS, MATERIALS, WALKABLE
from protoalign.envs.crafter.state import State
from protoalign.envs.crafter.world import Crafter, View, numbers, surroundings

GROUNDS = {
    **{name: (i,) for i, name in enumerate(MATERIALS)},
    **dict.fromkeys(("plant", "plant-ripe"), (GRASS,)),
    **dict.fromkeys(("cow", "zombie", "skeleton", *(name for name in sprites.PICTURES if name.startswith("player"))), WALKABLE),
    **dict.fromkeys(sprites.ARROWS, FLIES_OVER),
}
PAIRS = [(sprites.PICTURES.index(name), ground) for name, grounds in GROUNDS.items() for ground in grounds]
NUMBER = np.zeros((len(sprites.PICTURES), len(MATERIALS)), np.uint8)  # by picture and ground
for _i, (_picture, _ground) in reversed(list(enumerate(PAIRS))):
    NUMBER[_picture] = _i  # on any other ground, as on the first: the player on lava, who is dead
for _i, (_picture, _ground) in enumerate(PAIRS):
    NUMBER[_picture, _ground] = _i


@dataclass(frozen=True)
class PicturedCrafter(Crafter):
    """Our Crafter, where `observe` gives the numbers of tiles."""

    category_names: ClassVar[tuple[str, ...]] = tuple(
        name if name in MATERIALS else f"{name} on {MATERIALS[ground]}"
        for name, grounds in GROUNDS.items()
        for ground in grounds
    )

    def observe(self, state: State) -> View:
        pictures, ground = surroundings(state)
        return View(jnp.asarray(NUMBER)[pictures, ground].reshape(-1, *self.shape), numbers(state))


def pictures(look: str) -> np.ndarray:
    """The look's picture of every tile, [tiles, 8, 8, 3] uint8."""
    return sprites.atlas(sprites.load(look))[tuple(np.array(PAIRS).T)]


class Reader:
    """Pictures of the original game in a look, to the numbers of their tiles."""

    def __init__(self, look: str):
        self.tiles = pictures(look)
        self.number = {tile.tobytes(): i for i, tile in reversed(list(enumerate(self.tiles)))}

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """[8H, 8W, 3] to [H, W] uint8."""
        cut = appearance.cut(picture)
        flat = cut.reshape(-1, *cut.shape[2:])
        return np.array([self._number(tile) for tile in flat], np.uint8).reshape(cut.shape[:2])

    def _number(self, tile: np.ndarray) -> int:
        mark = tile.tobytes()
        if mark not in self.number:  # a pair that is not listed
            self.number[mark] = int(abs(self.tiles.astype(int) - tile).sum((1, 2, 3)).argmin())
        return self.number[mark]
