"""What a sweep is made of: a grid of worlds, seeds, presets and looks, and of baselines, from options or a TOML file."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, get_args

from protoalign.errors import UserError
from protoalign.rng import check_seed
from protoalign.settings import ENGINES, Preset
from protoalign.worlds import registry

LISTS = ("worlds", "presets", "engines", "looks", "baselines")


@dataclass(frozen=True)
class Grid:
    """All combinations of these are run."""

    worlds: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    presets: tuple[str, ...] = ("fast",)
    engines: tuple[str, ...] = ("bayes",)  # none: baselines alone
    looks: tuple[str, ...] = ("target",)
    baselines: tuple[str, ...] = ()
    steps: int | None = None  # of task policies; the preset's if not given
    episodes: int = 4  # in a target while finding out

    def __post_init__(self) -> None:
        if not self.worlds:
            raise UserError("a sweep needs worlds: --worlds hunter-z1c1 ..., or worlds = [...] in its file")
        for name in (*LISTS, "seeds"):  # each once
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        object.__setattr__(self, "worlds", tuple(dict.fromkeys(w if ":" in w else w.lower() for w in self.worlds)))
        for world in self.worlds:
            if registry.row(world).exact:
                raise UserError(f"{world} needs options of its own: train it with 'protoalign run'")
        for seed in self.seeds:
            check_seed(seed)
        known: dict[str, Any] = {"presets": get_args(Preset), "engines": ENGINES}
        if self.baselines:
            from protoalign.reproduction.baselines.run import BASELINES

            known["baselines"] = BASELINES
        for name, values in known.items():
            if unknown := [x for x in getattr(self, name) if x not in values]:
                raise UserError(f"{name}: there is no '{unknown[0]}'; use {', '.join(values)}")
        if not self.seeds or not self.presets or not self.looks or not (self.engines or self.baselines):
            raise UserError("nothing to do: name at least one seed, preset and look, and an engine or a baseline")
        if self.episodes < 1 or (self.steps is not None and self.steps < 1):
            raise UserError("episodes and steps have to be at least 1")


class Job(NamedTuple):
    """One run folder of a sweep: the method, or a baseline, in one world from one seed."""

    world: str
    seed: int
    preset: str
    baseline: str | None  # None: the method, with `engines`
    engines: tuple[str, ...]
    looks: tuple[str, ...]
    steps: int | None
    episodes: int

    @property
    def name(self) -> str:
        """Of the run folder; a gym:ID's colons and slashes are no part of it."""
        world = "".join(c if c.isalnum() or c in ".-+" else "+" for c in self.world.lower())
        parts = [self.baseline, world, None if self.preset == "fast" else self.preset, f"s{self.seed}"]
        return "-".join(part for part in parts if part)


def jobs(grid: Grid) -> list[Job]:
    """All run folders of a grid, seeds last, so that every world is seen early."""
    found = []
    for seed in grid.seeds:
        for preset in grid.presets:
            for world in grid.worlds:
                rest = grid.looks, grid.steps, grid.episodes
                if grid.engines:
                    found.append(Job(world, seed, preset, None, grid.engines, *rest))
                found += [Job(world, seed, preset, name, (), *rest) for name in grid.baselines]
    return found


def read_grid(path: Path, **given: Any) -> Grid:
    """The grid of a TOML file; what is `given` besides counts instead of what is there. `seeds` is a number or a list."""
    try:
        words = tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no TOML file: {error}") from None
    known = {field.name for field in fields(Grid)}
    if unknown := sorted(words.keys() - known):
        raise UserError(f"{path}: a sweep has no '{unknown[0]}'; it has {', '.join(sorted(known))}")
    for name, value in words.items():
        if name == "seeds" and _whole(value):
            words[name] = value = list(range(value))
        wanted = list if name in (*LISTS, "seeds") else int
        inside = all(_whole(x) if name == "seeds" else isinstance(x, str) for x in value) if isinstance(value, list) else True
        if not isinstance(value, wanted) or isinstance(value, bool) or not inside:
            what = "a number or a list of numbers" if name == "seeds" else "a list of names" if wanted is list else "a number"
            raise UserError(f"{path}: {name} has to be {what}, not {value!r}")
        words[name] = tuple(value) if isinstance(value, list) else value
    return Grid(**(words | given))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
