"""`protoalign reproduce`: the paper's tables and figures, beside the paper's own.

Tables are made from data under results/. What is missing there is trained and measured first, run by run; that can be stopped
and started again at any time. What is there is never trained anew. Baselines are trained when asked for by name and world.
"""

import shutil
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from protoalign import crafter_stages, stages
from protoalign.baselines import run as baseline_runs
from protoalign.config import baseline_config, plain
from protoalign.errors import GateError, UserError
from protoalign.experiments import compared, crafted, crafter_looks, figures, frozen, imagined, looks, tables
from protoalign.experiments.paper import WORLDS
from protoalign.files import read_json, write_atomic, write_json
from protoalign.progress import warn
from protoalign.runs import Run
from protoalign.runtime import versions

SEEDS = 4
BASELINE_SEEDS = CRAFTER_SEEDS = 2
NO_BASELINE = f"No baseline has been measured: protoalign reproduce baselines --worlds {' '.join(WORLDS)}\n"
NO_CRAFTER = "Crafter has not been measured: protoalign reproduce crafter --worlds crafter\n"
CURVE = ("steps", "return", "one_episode_correct", "information")


class Results:
    """The data, and how to get what is missing."""

    def __init__(self, results: Path, runs: Path, seeds: int | None = None):
        if seeds is not None and seeds < 1:
            raise UserError(f"--seeds {seeds}: use at least 1")
        for folder in ("opa", "baselines", "crafter"):
            (results / folder).mkdir(parents=True, exist_ok=True)
        self.results, self.runs, self.seeds = results, runs, seeds

    def run(self, world: str, seed: int) -> dict[str, Any]:
        """The whole method in one world from one seed, with all measurements on it."""
        path = self.results / "opa" / f"{world}-s{seed}.json"
        if not path.exists():
            folder = self.folder(world, seed)
            warn(f"{path} is not there: training {world}, seed {seed}, in {folder}")
            result = whole(world, folder, seed)
            curves = {
                stage: [{k: row[k] for k in CURVE if k in row} for row in Run(folder).metrics(stage)]
                for stage in ("task", "explore")
            }
            curves["explore"] = [row for row in curves["explore"] if "information" in row]
            curves["task"] = curves["task"][:: max(1, len(curves["task"]) // 50)]
            measured = imagined.measure(folder, seed)
            write_json(path, {"result": result, "imagined": measured, "curves": curves, "config": Run(folder).config})
        return read_json(path)

    def all(self, worlds: Iterable[str] = WORLDS) -> dict[str, list[dict[str, Any]]]:
        """All runs by world; if the number of seeds was not given, those that are there, or four."""
        return {world: [self.run(world, seed) for seed in range(self.seeds or self._there(world) or SEEDS)] for world in worlds}

    def _there(self, world: str) -> int:
        """Seeds measured without a gap, from 0."""
        return next(n for n in count() if not (self.results / "opa" / f"{world}-s{n}.json").exists())

    def baseline(self, name: str, world: str, seed: int) -> dict[str, Any]:
        """One of the paper's baselines in one world from one seed."""
        path = self._baseline_path(name, world, seed)
        if not path.exists():
            folder = self.runs / f"{name}-{world}-s{seed}"
            if name == "unit4rl":
                hand_over(self.runs / f"ppo-{world}-s{seed}", folder)
            warn(f"{path} is not there: training {name} in {world}, seed {seed}, in {folder}")
            result = baseline_runs.run(name, world, folder, seed, "fast", "target")
            if (folder / "swaps.png").exists() and seed == 0:
                write_atomic(path.with_suffix(".png"), (folder / "swaps.png").read_bytes())
            curves = {stage: smooth(Run(folder).metrics(stage)) for stage in ("source", "adapt", "none", "random")}
            write_json(path, {"result": result, "curves": curves, "config": Run(folder).config})
        data = read_json(path)
        if data["config"]["baseline"] != {"name": name, "target": "target"} | plain(baseline_config("fast", None, env=world)):
            raise UserError(f"{path} was made with other settings than preset fast has now: delete it, to measure it again")
        return data

    def baselines(self, train: Iterable[str] = ()) -> compared.Baselines:
        """All baselines by name and world of Hunter: seeds that are there, after training those of the worlds named."""
        train = [world.lower() for world in train]
        unknown = [world for world in train if world not in (*WORLDS, "crafter")]
        if unknown:
            raise UserError(f"there is no row for '{unknown[0]}': use --worlds with some of {', '.join(WORLDS)}, crafter")
        for world in train:
            for seed in range(self.seeds or BASELINE_SEEDS):
                for name in baseline_runs.offered(world):
                    try:
                        self.baseline(name, world, seed)
                    except GateError as error:  # the others go on; the tables name this one
                        warn(str(error))
        found = {
            name: {world: runs for world in WORLDS if (runs := self._measured(name, world))} for name in baseline_runs.BASELINES
        }
        return {name: runs for name, runs in found.items() if runs}

    def _measured(self, name: str, world: str) -> list[dict[str, Any]]:
        """Runs of a baseline that are there."""
        there = (seed for seed in range(100) if self._baseline_path(name, world, seed).exists())
        return [self.baseline(name, world, seed) for seed in there]

    def _baseline_path(self, name: str, world: str, seed: int) -> Path:
        return self.results / "baselines" / f"{name}-{world}-s{seed}.json"

    def crafter(self, train: bool = False) -> str:
        """What is measured in Crafter, after training it if asked to: that takes hours."""
        for seed in range(self.seeds or CRAFTER_SEEDS) if train else ():
            path = self._crafter_path(seed)
            if not path.exists():
                folder = self.folder("crafter", seed)
                warn(f"{path} is not there: training crafter, seed {seed}, in {folder}")
                result = whole("crafter", folder, seed)
                write_json(path, {"result": result, "curves": crafter_curves(folder), "config": Run(folder).config})
        if train:
            self.rows("crafter_looks", crafter_looks.measure, "crafter")
        runs = [read_json(self._crafter_path(seed)) for seed in range(100) if self._crafter_path(seed).exists()]
        others = {name: self._measured(name, "crafter") for name in baseline_runs.offered("crafter")}
        shown = crafted.show(runs, others) if runs else NO_CRAFTER
        path = self.results / "crafter_looks.json"
        return shown + "\n" + crafter_looks.show(read_json(path)) if path.exists() else shown

    def _crafter_path(self, seed: int) -> Path:
        return self.results / "crafter" / f"crafter-s{seed}.json"

    def compare(self, train: Iterable[str] = ()) -> str:
        """All that is said of baselines."""
        opa, found = self.all(), self.baselines(train)
        if not found:
            return NO_BASELINE
        parts = [part(opa, found) for part in (compared.data_used, compared.codes, compared.catching_up, compared.speeds)]
        drawn = self.draw("compared", lambda runs, path: compared.figure(runs, found, path))
        return "\n".join(parts) + drawn + self.draw("translations", lambda _, path: compared.translations(found, path))

    def beside(self, part: Callable[[tables.Runs, compared.Baselines], str]) -> str:
        """A table of the method beside its baselines."""
        found = self.baselines()
        return "\n" + (part(self.all(), found) if found else NO_BASELINE)

    def rows(self, name: str, measure: Callable[..., Iterable[dict[str, Any]]], world: str | None = None, *args: Any) -> Any:
        """Rows of one of the smaller experiments, on the first seed's agent."""
        path = self.results / f"{name}.json"
        if not path.exists():
            where = [self.agent(world)] if world else []
            warn(f"{path} is not there: measuring")
            rows = list(measure(*where, *args))
            write_json(path, {"world": world, "seed": 0 if world else None, "versions": versions(), "rows": rows})
        return read_json(path)

    def draw(self, name: str, figure: Callable[[tables.Runs, Path], None]) -> str:
        """A figure of all runs, as a file; says where."""
        path = self.results / "figures" / f"{name}.png"
        figure(self.all(), path)
        return f"\nDrawn: {path}\n"

    def folder(self, world: str, seed: int) -> Path:
        return self.runs / f"{world}-s{seed}"

    def agent(self, world: str, seed: int = 0) -> Path:
        """The folder of a run, finished."""
        folder = self.folder(world, seed)
        if not folder.exists() or "target_return" not in Run(folder, create=False).result():
            whole(world, folder, seed)
        return folder


def whole(world: str, folder: Path, seed: int) -> dict[str, Any]:
    """The whole method, as all tables have it."""
    if world == "crafter":
        return crafter_stages.whole(folder, seed, None, None, "target", 4)
    return stages.whole(world, folder, seed, None, None, "target", 4)


def hand_over(trained: Path, folder: Path) -> None:
    """UNIT4RL's source policy is PPO's: a new run starts from it rather than train it once more."""
    if folder.exists() or not (trained / "result.json").exists():
        return
    copy = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(trained / "checkpoints", copy / "checkpoints")
    shutil.copy(trained / "metrics.jsonl", copy)
    copy.rename(folder)


def crafter_curves(folder: Path) -> dict[str, Any]:
    watched = [row for row in Run(folder).metrics("explore") if "information" in row]
    return {
        "task": smooth(Run(folder).metrics("task")),
        "explore": [{key: row[key] for key in CURVE if key in row} for row in watched],
    }


def smooth(rows: list[dict[str, Any]], points: int = 50) -> list[dict[str, Any]]:
    """A learning curve in a few points, each the mean over the episodes since the one before."""
    ended = [row for row in rows if row["episodes"]]
    parts = np.array_split(np.array([(row["steps"], row["return"], row["episodes"]) for row in ended]).reshape(-1, 3), points)
    return [
        {"steps": int(part[-1, 0]), "return": round(float(np.average(part[:, 1], weights=part[:, 2])), 5)}
        for part in parts
        if len(part)
    ]


EXPERIMENTS: dict[str, Callable[[Results], str]] = {
    "table1": lambda r: tables.returns(r.all()) + r.beside(compared.returns),
    "table2": lambda r: tables.ratios(r.all()) + r.beside(compared.ratios),
    "baselines": Results.compare,
    "encoders": lambda r: compared.encoder_table(r.rows("encoders", compared.encoders, None, r.runs, WORLDS[0])),
    "crafter": Results.crafter,
    "episodes": lambda r: tables.episodes(r.all()),
    "necessity": lambda r: tables.policies(r.all()),
    "alignment": lambda r: tables.curves(r.all()) + r.draw("alignment", figures.learning),
    "reconstruction": lambda r: tables.reconstruction(r.rows("reconstruction", looks.reconstruction)),
    "calibration": lambda r: tables.calibration(r.all()) + r.draw("calibration", figures.reliability),
    "stopping": lambda r: tables.stopping(r.all()),
    "random-looks": lambda r: tables.random_looks(r.rows("random_looks", looks.random_looks, "hunter-z2c2")),
    "frozen": lambda r: tables.frozen(r.rows("frozen", frozen.compare, "hunter-z1c1")),
    "noise": lambda r: tables.noise(r.rows("noise", looks.noisy_looks, "hunter-z1c1")),
    "subsets": lambda r: tables.subsets(r.rows("subsets", looks.subsets, "hunter-z1c1")),
    "mixed": lambda r: tables.mixed(r.rows("mixed", looks.mixed, "hunter-z1c1")),
    "variants": lambda r: tables.variants(
        r.rows("variants", looks.other_variants, None, r.agent, WORLDS[0], SEEDS, WORLDS[1:])
    ),
}
