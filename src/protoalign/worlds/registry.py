"""Worlds by name: one row for each family."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from protoalign.errors import UserError
from protoalign.settings import HOSTED_LONGER, HOSTED_LONGEST, HOSTED_SHORTER, Settings
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
    exact: bool = False  # the groups are as they were written, not in lower case


def make(name: str, **options: Any) -> World:
    """The world with this name, e.g. `hunter-z1c1`, `hunter-z1c1/z2c2`, `hunter-z4c4-16x16`, `crafter`.

    Options are those of its maker, e.g. `tile=16`, the tile size in pixels. Worlds that are stepped on the host have two more:
    `workers` and `patience`, see `GymWorld`.
    """
    row, parts = _find(name)
    processes = {key: options.pop(key) for key in ("workers", "patience") if key in options}
    options = parts | options
    try:
        inspect.signature(row.make).bind(**options)
    except TypeError as problem:
        raise UserError(f"{name} cannot be made so: {problem}") from None
    world: Any = row.make(**options)
    if hasattr(world, "run_in"):
        found = (
            {"tile": world.tile} if getattr(world, "found", False) and "tile" in inspect.signature(row.make).parameters else {}
        )
        world.remake = partial(row.make, **options | found)  # else each worker would look for it again
        world.run_in(**{"workers": world.workers, "patience": world.patience} | processes)
    elif processes:
        raise UserError(f"{name} is not stepped on the host: it has no {' or '.join(processes)}")
    return world


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
            groups = {key: found.span(key) for key, text in found.groupdict().items() if text is not None}
            return row, {key: (name if row.exact else name.lower())[a:b] for key, (a, b) in groups.items()}
    if ":" in name or re.search(r"-v[0-9]+$", name):
        raise UserError(f"no world is called {name[:80]!r}: an environment of Gymnasium is 'gym:{name[:80]}'")
    known = ", ".join(example for row in WORLDS for example in row.examples)
    raise UserError(f"no world is called {name[:80]!r}: there are {known}")


def _hunter(variant: str, size: str = "8", tile: int = 8) -> World:
    from protoalign.worlds.hunter import parse

    return parse(variant, size, tile)


def _crafter(worlds: int = 2048, first: int = 0, tile: int = 8) -> World:
    from protoalign.worlds.crafter.world import Crafter

    return Crafter(worlds, first, tile)


def _minigrid(name: str, view: str = "", tile: int = 8) -> Any:
    from protoalign.worlds.minigrid import minigrid

    return minigrid(name, view, tile)


def _frozenlake(size: str, slippery: str = "", release: str = "1.3") -> Any:
    from protoalign.worlds.toy_text_worlds import lake_world

    return lake_world(int(size), bool(slippery), release)


def _cliffwalking(release: str = "1.3") -> Any:
    from protoalign.worlds.toy_text_worlds import cliff_world

    return cliff_world(release)


def _pushbox(boxes: str = "4", size: str = "10", max_steps: int = 120) -> Any:
    from protoalign.worlds.lab2d import pushbox

    return pushbox(int(boxes), int(size), max_steps)


def _chase_eat(max_steps: int = 200) -> Any:
    from protoalign.worlds.lab2d import chase_eat

    return chase_eat(max_steps)


def _minihack(name: str, free: str = "") -> Any:
    from protoalign.worlds.minihack import minihack

    return minihack(name, free)


def _gym(id: str, tile: int | tuple[int, int] | str = "auto", **options: Any) -> Any:
    from protoalign.worlds.gym import GymWorld, by_id

    if unknown := options.keys() - inspect.signature(GymWorld).parameters.keys():
        raise UserError(f"gym:{id} cannot be made so: a GymWorld has no option {', '.join(sorted(unknown))}")
    return GymWorld(by_id(id), tile, name=f"gym:{id}", **options)


WORLDS: list[Row] = [
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
    Row(
        "minigrid-(?P<name>doorkey-8x8|dynamic-obstacles-6x6|unlock|keycorridor-s3r1)",
        _minigrid,
        "MiniGrid, seen from above, worlds that take longer to learn; extra: minigrid",
        {"fast": HOSTED_LONGER},
        ("minigrid-doorkey-8x8", "minigrid-dynamic-obstacles-6x6", "minigrid-unlock", "minigrid-keycorridor-s3r1"),
    ),
    Row(
        "minigrid-(?P<name>[a-z0-9-]+?)(?P<view>-view)?",
        _minigrid,
        "MiniGrid, seen from above, or (-view) as the agent's own view; extra: minigrid",
        examples=("minigrid-doorkey-6x6", "minigrid-lavagap-s6", "minigrid-lavagap-s7", "minigrid-doorkey-5x5-view"),
    ),
    Row(
        "frozenlake-(?P<size>[2-8])x(?P=size)(?P<slippery>-slippery)(?:-from-(?P<release>1\\.[34]))?",
        _frozenlake,
        "FrozenLake as below, where one slips; extra: toy-text",
        {"fast": HOSTED_LONGER},
        ("frozenlake-8x8-slippery",),
    ),
    Row(
        "frozenlake-(?P<size>[2-8])x(?P=size)(?:-from-(?P<release>1\\.[34]))?",
        _frozenlake,
        "FrozenLake, a new map every episode, in Gymnasium 1.3's pictures (or -from-1.4), its target in 1.4's; extra: toy-text",
        examples=("frozenlake-8x8", "frozenlake-8x8-from-1.4"),
    ),
    Row(
        "cliffwalking(?:-from-(?P<release>1\\.[34]))?",
        _cliffwalking,
        "CliffWalking, the same way; extra: toy-text",
        examples=("cliffwalking", "cliffwalking-from-1.4"),
    ),
    Row(
        "lab2d-pushbox(?:-b(?P<boxes>[1-4]))?(?:-(?P<size>[6-9]|10)x(?P=size))?",
        _pushbox,
        "DeepMind Lab2D's pushbox: 4 boxes on 10 x 10 tiles, a new room every episode; -bN: N boxes; extra: lab2d",
        {"fast": HOSTED_LONGEST},
        examples=("lab2d-pushbox", "lab2d-pushbox-b1", "lab2d-pushbox-b1-7x7"),
    ),
    Row(
        "lab2d-chase-eat",
        _chase_eat,
        "DeepMind Lab2D's chase_eat: food, pills, and a foe that chases or flees, in episodes of 200 steps; extra: lab2d",
        examples=("lab2d-chase-eat",),
    ),
    Row(
        "minihack-(?P<name>keyroom-s5)(?P<free>-free)?",
        _minihack,
        "MiniHack's room with a key; -free: no penalty for what takes no time; extra: minihack, in an environment of its own",
        examples=("minihack-keyroom-s5", "minihack-keyroom-s5-free"),
    ),
    Row(
        "minihack-(?P<name>room-monster-5x5)(?P<free>-free)?",
        _minihack,
        "MiniHack's room with a monster; -free: as above; extra: minihack, in an environment of its own",
        {"fast": HOSTED_SHORTER},  # monsters leave ever more things behind: after many more steps, more than can be told apart
        ("minihack-room-monster-5x5",),
    ),
    Row(
        "gym:(?P<id>.+)",
        _gym,
        "any Gymnasium environment whose picture is made of tiles: gym:ID or gym:PACKAGE:ID, --tile if its size is not found",
        examples=("gym:ID",),
        exact=True,
    ),
]
