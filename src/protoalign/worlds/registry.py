"""Worlds by name: one row for each family."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from protoalign.errors import UserError
from protoalign.settings import Settings
from protoalign.worlds.base import World
from protoalign.worlds.crafter.settings import CRAFTER_SETTINGS


@dataclass(frozen=True)
class Row:
    """A family of worlds."""

    pattern: str  # a regular expression that names match as a whole, in lower case
    make: Callable[..., World]  # called with the pattern's named groups that are there, as text, and with the user's options
    description: str  # one line
    settings: Mapping[str, Any] = field(default_factory=dict)  # by preset; presets not listed are refused; none: as any world
    examples: tuple[str, ...] = ()  # names to show


def make(name: str, **options: Any) -> World:
    """The world with this name, e.g. `hunter-z1c1`, `hunter-z1c1/z2c2`, `hunter-z4c4-16x16`, `crafter`.

    Options are those of its maker, e.g. `tile=16`, the tile size in pixels.
    """
    row, parts = _find(name)
    options = parts | options
    try:
        inspect.signature(row.make).bind(**options)
    except TypeError as problem:
        raise UserError(f"{name} cannot be made so: {problem}") from None
    return row.make(**options)


def first() -> str:
    """The name of a world to begin with."""
    return WORLDS[0].examples[0]


def row(name: str) -> Row:
    """The row that a world's name belongs to."""
    return _find(name)[0]


def own_settings(name: str) -> Mapping[str, Settings]:
    """A world's own settings by preset; nothing for a world that has none or is not listed."""
    try:
        return row(name).settings
    except UserError:
        return {}


def register(
    pattern: str,
    make: Callable[..., World],
    description: str,
    settings: Mapping[str, Any] | None = None,
    examples: tuple[str, ...] | None = None,
) -> None:
    """Add a world, or a family of worlds, of one's own; see `Row`. A row with the same pattern is replaced."""
    WORLDS[:] = [row for row in WORLDS if row.pattern != pattern]
    WORLDS.append(Row(pattern, make, description, settings or {}, (pattern,) if examples is None else examples))


def _find(name: str) -> tuple[Row, dict[str, str]]:
    for row in WORLDS:
        if found := re.fullmatch(row.pattern, name.lower()):
            return row, {key: text for key, text in found.groupdict().items() if text is not None}
    known = ", ".join(example for row in WORLDS for example in row.examples)
    raise UserError(f"no world is called {name[:80]!r}: there are {known}")


def _hunter(variant: str, size: str = "8", tile: int = 8) -> World:
    from protoalign.worlds.hunter import parse

    return parse(variant, size, tile)


def _crafter(worlds: int = 2048, first: int = 0, tile: int = 8) -> World:
    from protoalign.worlds.crafter.world import Crafter

    return Crafter(worlds, first, tile)


WORLDS = [
    Row(
        "hunter-(?P<variant>z[^-]*?)(?:-(?P<size>[0-9]{1,4})x(?P=size))?",
        _hunter,
        "shoot zombies, catch cows; zXcY: X zombies and Y cows, on 8 x 8 tiles or as many as are named",
        examples=("hunter-z1c1", "hunter-z4c4", "hunter-z1c1/z2c2", "hunter-z4c4-16x16"),
    ),
    Row(
        "crafter",
        _crafter,
        "survive, collect and build in a world of 64 x 64 tiles, of which 7 x 9 are seen (Hafner, 2021)",
        CRAFTER_SETTINGS,
        ("crafter",),
    ),
]
