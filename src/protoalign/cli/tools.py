"""Other commands: report, worlds, baseline, sweep, reproduce, bench, play. Each sets JAX up before it imports what needs it."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from protoalign import runtime
from protoalign.cli.method import Folder, World, default_folder
from protoalign.console import open_page, print_json, say, show_baseline
from protoalign.errors import UserError
from protoalign.settings import Engine, Preset

SomeWorld = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[WORLD]")]
Encoder = Literal["tiles", "conv"]
Baseline = Literal["ppo", "darla", "lusr", "unit4rl", "ltmbr"]
What = Literal[
    "all", "table1", "table2", "baselines", "crafter", "crafter-first", "crafter-kinds", "encoders", "engines", "episodes",
    "necessity", "alignment", "reconstruction", "calibration", "stopping", "random-looks", "played-looks", "frozen", "noise",
    "subsets", "mixed", "variants", "worlds",
]  # fmt: skip


def worlds(json: bool = False) -> None:
    """List the worlds there are.

    Args:
        json: Print them as one line of JSON.
    """
    from protoalign.worlds.registry import WORLDS

    if json:
        return print_json({"worlds": [{"names": row.examples, "description": row.description} for row in WORLDS]})
    table = Table("world", "what it is")
    for row in WORLDS:
        table.add_row(", ".join(row.examples), row.description)
    Console().print(table)


def report(run: Folder) -> None:
    """Write a finished run as one HTML page: figures, pictures and films of what it learned and found.

    Args:
        run: The run folder, made by 'protoalign run'.
    """
    runtime.configure()
    from protoalign.report import page

    open_page(page.write(run))


def baseline(
    name: Annotated[Baseline, tyro.conf.Positional],
    env: World,
    seed: int = 0,
    steps: int | None = None,
    target: str = "target",
    encoder: Encoder | None = None,
    perceptual: bool = False,
    out: Path | None = None,
    preset: Preset = "fast",
    json: bool = False,
) -> None:
    """Train and judge one of the methods the paper compares itself with, on pixels.

    The same command again goes on where it was stopped, or shows the result when done.

    Args:
        name: ppo (nothing is adapted), darla, lusr, unit4rl or ltmbr.
        env: Where to train and where to move: hunter-z1c1, hunter-z4c4, ..., or crafter (judged in the original game).
        seed: Everything random follows from it.
        steps: Environment steps of every policy that is trained; the preset's numbers if not given.
        target: What the target looks like: target, random:<seed>, or a folder of PNG files.
        encoder: First layer: tiles (one tile at a time) or conv (a plain stack of convolutions, slower); the preset's if not
            given.
        perceptual: DARLA compares pictures by the features of a denoising autoencoder.
        out: The run folder; runs/NAME-WORLD-sSEED if not given.
        preset: fast (minutes) or paper (the paper's budgets, days).
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    from protoalign.reproduction.baselines.run import run

    out = out or Path("runs") / f"{name}-{default_folder(env, seed).name}"
    show_baseline(out, run(name, env, out, seed, preset, target, steps, encoder, perceptual), json)


def sweep(
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[FILE]")] = None,
    worlds: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    looks: tuple[str, ...] = (),
    engines: tuple[Engine, ...] = (),
    presets: tuple[Preset, ...] = (),
    baselines: tuple[Baseline, ...] = (),
    steps: int | None = None,
    episodes: int | None = None,
    out: Path = Path("runs/sweep"),
    workers: int = 1,
    ray: str | None = None,
    retries: int = 2,
    json: bool = False,
) -> None:
    """Run a grid of worlds, seeds, looks and baselines, each in an ordinary run folder.

    The same command again does what is missing. A run whose process dies goes on from its last checkpoint. What each run says
    is in OUT/logs, all figures are in OUT/results.json.

    Args:
        file: A TOML file with any of: worlds, seeds (a number or a list), looks, engines, presets, baselines, steps, episodes.
            Options count instead of what it says.
        worlds: See 'protoalign worlds'.
        seeds: Seeds, e.g. --seeds 0 1 2; 0 if none is named.
        looks: Looks of the target, as for run and transfer; "target" if none is named.
        engines: bayes, opa; bayes if none is named.
        presets: fast, paper; fast if none is named.
        baselines: ppo, darla, lusr, unit4rl, ltmbr.
        steps: Environment steps of task policies, and of a baseline's; the preset's if not given.
        episodes: Episodes in a target while finding out; 4 if not given.
        out: The folder of all runs.
        workers: Processes on this machine, each on a core of its own.
        ray: A Ray cluster instead: its address, auto for one that runs, local to start one here. Needs the extra ray, and OUT
            on storage that all nodes see.
        retries: How often a run that crashes, or whose process dies, is tried again.
        json: Print all figures as one line of JSON.
    """
    runtime.configure()
    from protoalign.sweep import Grid, read_grid
    from protoalign.sweep import sweep as run_all
    from protoalign.sweep.sweep import summary

    lists: dict[str, Any] = {
        "worlds": worlds,
        "seeds": seeds,
        "looks": looks,
        "engines": engines,
        "presets": presets,
        "baselines": baselines,
    }
    given = {name: value for name, value in lists.items() if value}
    given |= {name: value for name, value in (("steps", steps), ("episodes", episodes)) if value is not None}
    found = run_all(read_grid(file, **given) if file else Grid(**given), out, workers, ray, retries, not json)
    failed = [name for name, run in found["runs"].items() if "error" in run]
    if json:
        print_json(found)
    else:
        Console().print(summary(found))
        say(f"Everything is in {out}: a folder for each run, logs, results.json.")
    if failed:
        raise UserError(f"{len(failed)} of {len(found['runs'])} runs failed, {failed[0]} first: see {out / 'logs'}")


def reproduce(
    what: Annotated[What, tyro.conf.Positional],
    train: bool = False,
    seeds: int | None = None,
    results: Path = Path("results"),
    runs: Path = Path("runs/reproduce"),
    worlds: tuple[str, ...] = (),
    workers: int = 1,
    ray: str | None = None,
) -> None:
    """Show a table or figure of the paper beside ours.

    Data lie under results/. Without --train, what is there is shown and what is missing is named. Training can be stopped at
    any time, and goes on when started again: a quarter of an hour per world and seed in Hunter, half an hour per baseline
    there, hours in Crafter, on one core.

    Args:
        what: Which; all shows every one.
        train: Train and measure what is missing.
        seeds: How many seeds, from 0; those already measured if not given, or four (two of baselines and in Crafter).
        results: The folder of data.
        runs: Where to train what is missing.
        worlds: Only train and measure these, and show nothing; to share the work among processes. Both "crafter --worlds
            crafter" and "baselines --worlds crafter" belong to Crafter's tables.
        workers: Processes for these worlds, each on a core of its own.
        ray: A Ray cluster for them instead, as in 'protoalign sweep'.
    """
    runtime.configure()
    from protoalign.reproduction.experiments import reproduce as experiments

    data = experiments.Results(results, runs, seeds, train or bool(worlds))
    if (workers != 1 or ray) and not worlds:
        raise UserError("--workers and --ray share worlds among processes: name them with --worlds")
    if worlds and (workers != 1 or ray):
        return experiments.share(data, what, worlds, workers, ray)
    if worlds:
        return experiments.measure(data, what, worlds)
    for text in experiments.show(data, what):
        print(text)


def bench(
    env: SomeWorld = None,
    preset: Preset = "fast",
    repeats: int = 10,
    core: int | None = None,
    json: bool = False,
) -> None:
    """Measure the speed of the world alone, of collection and of training, and their compile times.

    Each is also given as a ratio to a calibration (matrix products) measured in the same run, because machines differ.

    Args:
        env: The world; the first of 'protoalign worlds' if not given.
        preset: Whose network and settings.
        repeats: Timings of each; the shortest counts.
        core: Run on this processor core only; on all if not given.
        json: Print one line of JSON.
    """
    if repeats < 1:
        raise UserError(f"--repeats {repeats}: use at least 1")
    runtime.configure(core, cache=False)
    from protoalign.bench import bench as measure
    from protoalign.worlds import registry

    figures = measure(env or registry.first(), preset, repeats)
    if json:
        return print_json(figures)
    columns = ("", "steps/s", "steps per product", "compile s", "in products")
    table = Table(*columns, title=f"{figures['env']}, preset {preset}, {figures['device']}")
    for name, speed in figures["steps_per_second"].items():
        ratio, seconds = figures["steps_per_product"][name], figures["compile_seconds"][name]
        table.add_row(name, f"{speed:,}", f"{ratio:.2f}", f"{seconds:.1f}", f"{figures['compile_products'][name]:,}")
    Console().print(table)
    say(f"calibration: {figures['products_per_second']:,} products of two 256 x 256 matrices a second")


def play(env: SomeWorld = None, look: str = "source", seed: int = 0) -> None:
    """Play a world yourself, in the terminal.

    Args:
        env: The world; the first of 'protoalign worlds' if not given.
        look: What it looks like: source, target, random:<seed>, or a folder of PNG files named after the kinds of things.
        seed: Of the first game.
    """
    runtime.configure()
    from protoalign.play import play as start
    from protoalign.rng import check_seed
    from protoalign.worlds import registry

    check_seed(seed)
    start(registry.make(env or registry.first()), look, seed)
