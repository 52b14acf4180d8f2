"""`protoalign reproduce`: the paper's tables and figures, beside the paper's own.

Tables are made from data under results/. What is missing there is named, and trained and measured if asked for (`--train`), run
by run; that can be stopped and started again at any time. What is there is never trained anew.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from protoalign import stages
from protoalign.errors import GateError, NotInstalled, UserError
from protoalign.files import read_json, write_atomic, write_json
from protoalign.progress import warn
from protoalign.reproduction.baselines import run as baseline_runs
from protoalign.reproduction.experiments import (
    baseline_figures,
    baseline_tables,
    best_first_episode,
    crafter_first,
    crafter_kinds,
    crafter_looks,
    crafter_tables,
    encoders,
    engines,
    figures,
    frozen,
    hosted_worlds,
    imagined,
    look_tables,
    looks,
    tables,
)
from protoalign.reproduction.experiments.paper import WORLDS
from protoalign.reproduction.settings import baseline_config, family
from protoalign.runs import Run
from protoalign.runtime import versions
from protoalign.settings import ENGINES, Engine, plain
from protoalign.sweep.sweep import do_all
from protoalign.sweep.tasks import Task
from protoalign.worlds import registry

CRAFTER = "crafter"
SEEDS = {CRAFTER: 2}  # by world, else FOUR
FOUR = 4
BASELINE_SEEDS = 2
HOSTED_SEEDS = 3
CURVE = ("steps", "return", "one_episode_correct", "information")
COST = "a quarter of an hour per world and seed in Hunter, half an hour per baseline there, hours in Crafter, on one core"


class Missing(UserError):
    """Something has not been measured, and training was not asked for."""


class Results:
    """The data under `results`, and how to get what is missing: with `train`, it is trained in folders under `runs`."""

    def __init__(self, results: Path, runs: Path, seeds: int | None = None, train: bool = False):
        if seeds is not None and seeds < 1:
            raise UserError(f"--seeds {seeds}: use at least 1")
        if not train and not results.is_dir():
            raise Missing(
                f"there is no folder {results.absolute()}: start this where the project's results/ is, name it by --results, "
                f"or measure everything anew with --train ({COST})"
            )
        self.results, self.runs, self.seeds, self.train = results, runs, seeds, train
        self.missing: set[str] = set()  # what tables had to go without

    def get(self, path: Path, what: str, make: Callable[[], Any]) -> Any:
        """The data in a file; made first if they are not there and training was asked for."""
        if not path.exists():
            if not self.train:
                raise Missing(f"{what} has not been measured: {path} is not there")
            warn(f"{path} is not there: measuring {what}")
            made = make()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, made)
        return read_json(path)

    # -- the method ------------------------------------------------------------------------------------------------

    def run(self, world: str, seed: int) -> dict[str, Any]:
        """The whole method in one world from one seed, with all measurements on it."""

        def make() -> dict[str, Any]:
            folder = self.folder(world, seed)
            found = {"result": whole(world, folder, seed)}
            if world in WORLDS:
                found["imagined"] = imagined.measure(folder, seed)
            return found | {"curves": curves(folder), "config": Run(folder).config}

        return self.get(self._path(world, seed), f"{world}, seed {seed},", make)

    def all(self, worlds: Iterable[str] = WORLDS) -> tables.Runs:
        """All runs by world: as many seeds as were asked for, or else those that are there, or as many as we have measured."""
        found = {}
        for world in worlds:
            number = self.seeds or self._there(world) or (SEEDS.get(world, FOUR) if self.train else 0)
            if number:
                found[world] = [self.run(world, seed) for seed in range(number)]
            else:
                self.missing.add(world)
        if not found:
            raise Missing(f"nothing has been measured in {', '.join(worlds)}: there is no {self._path(next(iter(worlds)), 0)}")
        return found

    def _there(self, world: str) -> int:
        """Seeds measured without a gap, from 0."""
        return next(n for n in count() if not self._path(world, n).exists())

    def _path(self, world: str, seed: int) -> Path:
        return self.results / ("opa" if world in WORLDS else world) / f"{world}-s{seed}.json"

    def folder(self, world: str, seed: int) -> Path:
        return self.runs / f"{world}-s{seed}"

    def agent(self, world: str, seed: int = 0, engine: Engine = "opa") -> Path:
        """The folder of a run, finished with an engine."""
        folder = self.folder(world, seed)
        if not folder.exists() or engine not in Run(folder, create=False).result().get("engines", {}):
            whole(world, folder, seed, engine)
        return folder

    def rows(
        self,
        name: str,
        measure: Callable[..., Iterable[dict[str, Any]]],
        world: str | None = None,
        *args: Any,
        engine: Engine = "opa",
    ) -> Any:
        """Rows of one of the smaller experiments, on the first seed's agent."""

        def make() -> dict[str, Any]:
            where = [self.agent(world, engine=engine)] if world else []
            rows = list(measure(*where, *args))
            return {"world": world, "seed": 0 if world else None, "versions": versions(), "rows": rows}

        return self.get(self.results / f"{name}.json", name, make)

    def draw(self, name: str, figure: Callable[[tables.Runs, Path], None]) -> str:
        """A figure of all runs, as a file; says where."""
        path = self.results / "figures" / f"{name}.png"
        figure(self.all(), path)
        return f"\nDrawn: {path}\n"

    # -- baselines -------------------------------------------------------------------------------------------------

    def baseline(self, name: str, world: str, seed: int) -> dict[str, Any]:
        """One of the paper's baselines in one world from one seed."""
        path = self._baseline_path(name, world, seed)

        def make() -> dict[str, Any]:
            folder = self.runs / f"{name}-{world}-s{seed}"
            if name == "unit4rl":
                hand_over(self.runs / f"ppo-{world}-s{seed}", folder)
            result = baseline_runs.run(name, world, folder, seed, "fast", "target")
            if (folder / "swaps.png").exists() and seed == 0:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path.with_suffix(".png"), (folder / "swaps.png").read_bytes())
            learned = {stage: smooth(Run(folder).metrics(stage)) for stage in ("source", "adapt", "none", "random")}
            return {"result": result, "curves": learned, "config": Run(folder).config}

        data = self.get(path, f"{name} in {world}, seed {seed},", make)
        if data["config"]["baseline"] != {"name": name, "target": "target"} | plain(baseline_config(world, "fast")):
            raise UserError(f"{path} was made with other settings than preset fast has now: delete it, to measure it again")
        return data

    def baselines(self, train: Iterable[str] = ()) -> baseline_tables.Baselines:
        """All baselines by name and world of Hunter: seeds that are there, after training those of the worlds named."""
        for world in train:
            for seed in range(self.seeds or BASELINE_SEEDS):
                for name in family(world).compared:
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

    def compare(self) -> str:
        """All that is said of baselines."""
        opa, found = self.all(), self.baselines(WORLDS if self.train else ())
        if not found:
            raise Missing(f"no baseline has been measured: there is nothing in {self.results / 'baselines'}")
        about = (baseline_tables.data_used, baseline_tables.codes, baseline_tables.catching_up, baseline_tables.speeds)
        drawn = self.draw("compared", lambda runs, path: baseline_figures.returns(runs, found, path))
        drawn += self.draw("translations", lambda _, path: baseline_figures.translations(found, path))
        return "\n".join(part(opa, found) for part in about) + drawn

    def beside(self, part: Callable[[tables.Runs, baseline_tables.Baselines], str]) -> str:
        """A table of the method beside its baselines, if there are any."""
        found = self.baselines()
        if not found:
            self.missing.add("baselines")
        return "\n" + part(self.all(), found) if found else ""

    # -- engines ---------------------------------------------------------------------------------------------------

    def engines(self, worlds: Iterable[str] = ()) -> str:
        """The engine bayes, and all pairs of judge and actor: tables; or training and measuring in `worlds`, and nothing."""
        for world in worlds:
            for seed in range(self.seeds or SEEDS.get(world, FOUR)):
                self.bayes(world, seed)
                self.pairs(world, seed)
        if worlds:
            return ""
        found, pairs = self._there_of("bayes", self.bayes), self._there_of("pairs", self.pairs)
        if not found:
            raise Missing(f"no engine has been measured: there is nothing in {self.results / 'engines'}")
        self.missing |= {f"engines in {world}" for world in (*WORLDS, CRAFTER) if world not in found}
        shown = engines.show(found, pairs)
        try:
            best = self.rows("best_first_episode", best_first_episode.measure, WORLDS[0], engine="bayes")
        except Missing:
            self.missing.add("the best first episode")
            return shown
        return shown + "\n" + best_first_episode.show(best["rows"])

    def bayes(self, world: str, seed: int) -> dict[str, Any]:
        """The engine bayes in one world from one seed; from the first of Hunter's also in the others."""

        def make() -> dict[str, Any]:
            folder = self.folder(world, seed)
            whole(world, folder, seed, "bayes")
            return engines.measure(folder, seed, WORLDS[1:] if world == WORLDS[0] else ())

        return self.get(self._engines_path("bayes", world, seed), f"the engine bayes in {world}, seed {seed},", make)

    def pairs(self, world: str, seed: int) -> dict[str, Any]:
        """All pairs of judge and actor in one world from one seed."""

        def make() -> dict[str, Any]:
            folder = self.folder(world, seed)
            for engine in ENGINES:
                whole(world, folder, seed, engine)
            return engines.measure_pairs(folder, seed)

        return self.get(self._engines_path("pairs", world, seed), f"judges and actors in {world}, seed {seed},", make)

    def _there_of(self, part: str, get: Callable[[str, int], dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        there = {w: [s for s in range(100) if self._engines_path(part, w, s).exists()] for w in (*WORLDS, CRAFTER)}
        return {world: [get(world, seed) for seed in seeds] for world, seeds in there.items() if seeds}

    def _engines_path(self, part: str, world: str, seed: int) -> Path:
        return self.results / "engines" / f"{part}-{world}-s{seed}.json"

    # -- hosted worlds ---------------------------------------------------------------------------------------------

    def worlds(self, names: Iterable[str] = (), leave_out: bool = False) -> str:
        """Hosted worlds: tables, after training and measuring in some; those whose package is not there may be left out."""
        for name in names:
            try:
                for seed in range(self.seeds or HOSTED_SEEDS):
                    self.hosted(name, seed)
            except NotInstalled as error:
                if not leave_out:
                    raise
                warn(f"{name} is left out: {error}")
        there = {n: [s for s in range(100) if self._hosted_path(n, s).exists()] for n in hosted_worlds.WORLDS}
        found = {name: [self.hosted(name, seed) for seed in seeds] for name, seeds in there.items() if seeds}
        if not found:
            raise Missing(f"no hosted world has been measured: there is nothing in {self.results / 'worlds'}")
        self.missing |= {name for name in hosted_worlds.WORLDS if name not in found}
        return hosted_worlds.show(found)

    def hosted(self, name: str, seed: int) -> dict[str, Any]:
        """A hosted world from one seed, transferred into many targets."""
        path, folder = self._hosted_path(name, seed), self.folder(name, seed)

        def make() -> dict[str, Any]:
            found = hosted_worlds.measure(name, folder, seed)
            if seed == 0:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path.with_suffix(".png"), (folder / "contact-sheet.png").read_bytes())
            return found

        return self.get(path, f"{name}, seed {seed},", make)

    def _hosted_path(self, name: str, seed: int) -> Path:
        return self.results / "worlds" / f"{name}-s{seed}.json"

    # -- Crafter ---------------------------------------------------------------------------------------------------

    def crafter(self) -> str:
        """What is measured in Crafter."""
        runs = self.all([CRAFTER])[CRAFTER]
        others = {name: self._measured(name, CRAFTER) for name in family(CRAFTER).compared}
        shown = crafter_tables.show(runs, others)
        try:
            return shown + "\n" + crafter_looks.show(self.rows("crafter_looks", crafter_looks.measure, CRAFTER))
        except Missing:
            self.missing.add("looks of crafter")
            return shown


def whole(world: str, folder: Path, seed: int, engine: Engine = "opa") -> dict[str, Any]:
    """The whole method with an engine, as all tables have it; the figures are of that engine."""
    result = stages.run(registry.make(world), folder, seed, "target", 4, engine=engine)
    return result | result["engines"][engine]


def hand_over(trained: Path, folder: Path) -> None:
    """UNIT4RL's source policy is PPO's: a new run starts from it rather than train it once more."""
    if folder.exists() or not (trained / "result.json").exists():
        return
    copy = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(trained / "checkpoints", copy / "checkpoints")
    shutil.copy(trained / "metrics.jsonl", copy)
    copy.rename(folder)


def curves(folder: Path) -> dict[str, Any]:
    """Learning curves of a run folder: returns of pi_task, and what was watched while pi_exp learned."""
    watched = [row for row in Run(folder).metrics("explore") if "information" in row]
    explore = [{key: row[key] for key in CURVE if key in row} for row in watched]
    return {"task": smooth(Run(folder).metrics("task")), "explore": explore}


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
    "table1": lambda r: tables.returns(r.all()) + r.beside(baseline_tables.returns),
    "table2": lambda r: tables.ratios(r.all()) + r.beside(baseline_tables.ratios),
    "baselines": Results.compare,
    "encoders": lambda r: encoders.show(r.rows("encoders", encoders.measure, None, r.runs, WORLDS[0])),
    "crafter": Results.crafter,
    "crafter-first": lambda r: crafter_first.show(r.rows("crafter_first", crafter_first.measure, CRAFTER, engine="bayes")),
    "crafter-kinds": lambda r: crafter_kinds.show(r.rows("crafter_kinds", crafter_kinds.measure, CRAFTER, engine="bayes")),
    "worlds": lambda r: r.worlds(hosted_worlds.WORLDS if r.train else (), leave_out=True),
    "engines": lambda r: r.engines((*WORLDS, CRAFTER) if r.train else ()),
    "episodes": lambda r: tables.episodes(r.all()),
    "necessity": lambda r: tables.policies(r.all()),
    "alignment": lambda r: tables.curves(r.all()) + r.draw("alignment", figures.learning),
    "reconstruction": lambda r: look_tables.reconstruction(r.rows("reconstruction", looks.reconstruction, None, WORLDS[0])),
    "calibration": lambda r: tables.calibration(r.all()) + r.draw("calibration", figures.reliability),
    "stopping": lambda r: tables.stopping(r.all()),
    "random-looks": lambda r: look_tables.random_looks(r.rows("random_looks", looks.random_looks, WORLDS[0])),
    "played-looks": lambda r: look_tables.played_looks(r.rows("played_looks", looks.played_looks, WORLDS[0], engine="bayes")),
    "frozen": lambda r: look_tables.frozen(r.rows("frozen", frozen.compare, WORLDS[0])),
    "noise": lambda r: look_tables.noise(r.rows("noise", looks.noisy_looks, WORLDS[0])),
    "subsets": lambda r: look_tables.subsets(r.rows("subsets", looks.subsets, WORLDS[0])),
    "mixed": lambda r: look_tables.mixed(r.rows("mixed", looks.mixed, WORLDS[0])),
    "variants": lambda r: look_tables.variants(
        r.rows("variants", looks.other_variants, None, r.agent, WORLDS[0], r.seeds or FOUR, WORLDS[1:])
    ),
}


def show(data: Results, what: str) -> Iterator[str]:
    """The tables of one experiment, or of all; those that cannot be made for want of data are named at the end."""
    if what != "all":
        try:
            yield EXPERIMENTS[what](data)
        except Missing as missing:
            raise Missing(f"{missing}; 'protoalign reproduce {what} --train' trains and measures it ({COST})") from None
    else:
        for name, experiment in EXPERIMENTS.items():
            try:
                yield experiment(data)
            except Missing as missing:
                data.missing.add(f"{name} ({missing})")
    if data.missing:
        yield f"Not measured: {', '.join(sorted(data.missing))}. --train trains and measures what is missing: {COST}.\n"


def share(data: Results, what: str, worlds: Iterable[str], workers: int, ray: str | None) -> None:
    """As `measure`, each world in a process of its own, so many at a time, or on a Ray cluster."""
    data.results.mkdir(parents=True, exist_ok=True)
    where = data.results.absolute(), data.runs.absolute(), data.seeds
    tasks = [Task(f"reproduce-{what}-{world}", _measure_one, (*where, what, world)) for world in worlds]
    failed = [x for x in do_all(tasks, data.runs.absolute() / "logs", workers, ray) if x.error]
    if failed:
        raise UserError(f"{failed[0].name} failed: {failed[0].error}; see {data.runs / 'logs'}")


def _measure_one(results: Path, runs: Path, seeds: int | None, what: str, world: str) -> None:
    measure(Results(results, runs, seeds, True), what, [world])


def measure(data: Results, what: str, worlds: Iterable[str]) -> None:
    """Train and measure what an experiment needs in some worlds, and show nothing."""
    worlds = [world.lower() for world in worlds]
    known = hosted_worlds.WORLDS if what == "worlds" else (*WORLDS, CRAFTER)
    unknown = [world for world in worlds if world not in known]
    if unknown:
        raise UserError(f"there is no row for '{unknown[0]}': use --worlds with some of {', '.join(known)}")
    data.train = True
    if what == "worlds":
        data.worlds(worlds)
        return
    if what == "baselines":
        data.baselines(worlds)
        return
    if what == "engines":
        data.engines(worlds)
        return
    data.all(worlds)
    if CRAFTER in worlds:
        data.crafter()
