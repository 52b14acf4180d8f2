"""Worlds, by name."""

import re

from protoalign.envs import hunter
from protoalign.envs.base import TileWorld
from protoalign.envs.crafter.world import Crafter
from protoalign.errors import UserError


def make(name: str) -> TileWorld | Crafter:
    """`crafter`, `hunter-z1c1`, `hunter-z1c1/z2c2` (one of them per episode), `hunter-z4c4-16x16` (a larger grid)."""
    return Crafter() if name.lower() == "crafter" else board(name)


def board(name: str) -> TileWorld:
    """A world that is seen as a whole."""
    found = re.fullmatch(r"hunter-(z[^-]*?)(?:-(\d+)x\2)?", name.lower())
    if not found:
        if name.lower() == "crafter":
            raise UserError("this works in Hunter only so far: try hunter-z1c1")
        raise UserError(
            f"no world is called '{name}': try hunter-z1c1, hunter-z4c4, hunter-z1c1/z2c2, hunter-z4c4-16x16 or crafter"
        )
    return hunter.parse(found[1], int(found[2] or 8))
