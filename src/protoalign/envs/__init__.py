"""Worlds, by name."""

import re

from protoalign.envs import hunter
from protoalign.envs.base import TileWorld
from protoalign.errors import UserError


def make(name: str) -> TileWorld:
    """`hunter-z1c1`, `hunter-z1c1/z2c2` (one of them per episode), `hunter-z4c4-16x16` (a larger grid)."""
    found = re.fullmatch(r"hunter-(z[^-]*?)(?:-(\d+)x\2)?", name.lower())
    if not found:
        raise UserError(f"no world is called '{name}': try hunter-z1c1, hunter-z4c4, hunter-z1c1/z2c2 or hunter-z4c4-16x16")
    return hunter.parse(found[1], int(found[2] or 8))
