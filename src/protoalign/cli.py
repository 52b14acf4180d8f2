"""The command line. Each command sets JAX up before it imports what needs it, and --help needs none of it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from protoalign import runtime
from protoalign.config import Encoder, Preset
from protoalign.errors import UserError
from protoalign.show import open_page, print_json, say, show_baseline, show_move, show_task

World = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WORLD")]
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]

Baseline = Literal["ppo", "darla", "lusr", "unit4rl", "ltmbr"]
What = Literal[
    "all", "table1", "table2", "baselines", "crafter", "encoders", "episodes", "necessity", "alignment", "reconstruction",
    "calibration", "stopping", "random-looks", "frozen", "noise", "subsets", "mixed", "variants",
]  # fmt: skip


def task(
    env: World,
    seed: int = 0,
    steps: int | None = None,
    out: Path | None = None,
    preset: Preset = "fast",
    json: bool = False,
) -> None:
    """Train the task policy in a world and measure it.

    The same command again goes on where it was stopped, or shows the result when done.

    Args:
        env: Where to train: hunter-z1c1 (one zombie, one cow), hunter-z4c4, hunter-z1c1/z2c2 (one of them per
            episode), hunter-z4c4-16x16 (a larger grid), crafter.
        seed: Everything random follows from it.
        steps: Environment steps to train for; the preset's number if not given.
        out: The run folder; runs/WORLD-sSEED if not given.
        preset: fast (two CPU cores, minutes) or paper (the paper's network and settings).
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    from protoalign import stages

    out = out or default_folder(env, seed)
    show_task(out, stages.task(env, out, seed, preset, steps), json)


def run(
    env: World,
    seed: int = 0,
    steps: int | None = None,
    explore_steps: int | None = None,
    target: str = "target",
    episodes: int = 4,
    out: Path | None = None,
    preset: Preset = "fast",
    json: bool = False,
) -> None:
    """The whole method in one world: train everything at home, then move into a world that looks different.

    The same command again goes on where it was stopped, or shows the result when done.

    Args:
        env: Where to train and where to move: hunter-z1c1, hunter-z4c4, ..., or crafter (hours; the target is the original
            game).
        seed: Everything random follows from it.
        steps: Environment steps of the task policy; 3 M if not given (20 M in Crafter, 25 M with the preset paper).
        explore_steps: Environment steps of the exploration policy; the preset's number if not given.
        target: What the target looks like: target, random:<seed>, or a folder of PNG files.
        episodes: Episodes of exploration in the target.
        out: The run folder; runs/WORLD-sSEED if not given.
        preset: fast (two CPU cores, minutes) or paper (the paper's networks and settings, many hours).
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    out = out or default_folder(env, seed)
    if env.lower() == "crafter":
        from protoalign import crafter_stages

        result = crafter_stages.whole(out, seed, steps, explore_steps, target, episodes, preset)
        if not (out / "report.html").exists():
            write_page(out)
        show_move(out, result, json)
        return None if json else open_page(out / "report.html")
    from protoalign import stages

    result = stages.whole(env, out, seed, steps, explore_steps, target, episodes, preset)
    if not (out / "report.html").exists():
        write_page(out)
    show_move(out, result, json)
    if not json:
        open_page(out / "report.html")


def infer(run: Folder, updates: int | None = None, json: bool = False) -> None:
    """Train the inference model q_theta on a run folder's history, with the preset of its task policy.

    Args:
        run: The run folder, with a task policy.
        updates: Gradient steps; the preset's number if not given.
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    result = stages_of(run).infer(run, updates)
    print_json(result) if json else say(f"q_theta is trained. Next: protoalign explore {run}")


def explore(run: Folder, steps: int | None = None, json: bool = False) -> None:
    """Train the exploration policy pi_exp, and measure how often one episode tells everything.

    The preset is that of the task policy.

    Args:
        run: The run folder, with a task policy and an inference model.
        steps: Environment steps; the preset's number if not given.
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    result = stages_of(run).explore(run, steps)
    if json:
        return print_json(result)
    one, two, four = (result[f"{n}_correct"] for n in ("one_episode", "two_episodes", "four_episodes"))
    say(f"everything right after one, two, four episodes: {one:.3f}, {two:.3f}, {four:.3f}. Next: protoalign transfer {run}")


def transfer(
    run: Folder,
    target: str = "target",
    episodes: int = 4,
    seed: int = 0,
    env: str | None = None,
    sure: float | None = None,
    oracle: bool = False,
    noise: float = 0.0,
    jitter: float = 0.0,
    json: bool = False,
) -> None:
    """Move a finished run into another look, and measure it there before and after.

    Args:
        run: The run folder, all stages trained.
        target: The look: target, random:<seed>, or a folder of PNG files; only:cow,wall:LOOK changes only these kinds,
            twins:zombie,cow:LOOK makes them look alike, two:wall:LOOK gives one a second look.
        episodes: Episodes of exploration there, at most.
        seed: Of the target world and of what is done there.
        env: Another variant to move to, e.g. hunter-z4c4.
        sure: Stop exploring as soon as the mapping is this sure, e.g. 0.99.
        oracle: Take the categories of tiles from the target's labels (which tiles are of one kind, not what kind).
        noise: Pixel noise in the target, standard deviation as a share of the full range.
        jitter: The same for the colour of whole pictures.
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    module = stages_of(run)
    if module.__name__.endswith("crafter_stages"):
        if env or noise or jitter:
            raise UserError("--env, --noise and --jitter are for Hunter only")
        result = module.move(run, target, episodes, seed, sure, oracle)
    else:
        result = module.move(run, target, episodes, seed, env, sure, oracle, noise, jitter)
    show_move(run, result, json)


def report(run: Folder) -> None:
    """Write a finished run as one HTML page: figures, pictures and films of what it learned and found.

    Args:
        run: The run folder, made by 'protoalign run'.
    """
    runtime.configure()
    open_page(write_page(run))


def evaluate(
    run: Folder,
    env: str | None = None,
    episodes: int | None = None,
    seed: int = 1,
    greedy: bool = False,
    original: bool = False,
    json: bool = False,
) -> None:
    """Measure the task policy of a run folder over whole episodes.

    Args:
        run: The run folder.
        env: Another world to play in, e.g. hunter-z4c4; the one it was trained in if not given.
        episodes: How many episodes; 2,048 if not given, 512 in Crafter.
        seed: Of the evaluation.
        greedy: Take the likeliest action instead of sampling.
        original: Of a run in Crafter: play in the original game, 200 episodes if not given otherwise.
        json: Print one line of JSON.
    """
    runtime.configure()
    from protoalign import envs, stages
    from protoalign.rng import check_seed, stream

    check_seed(seed)
    world, net, training = stages.load_task(run, envs.make(env) if env else None)
    number = stages.evaluation_episodes(world) if episodes is None else episodes
    if original:
        from protoalign import crafter_stages

        if world.name != "crafter" or greedy or env:
            raise UserError("--original is for runs in Crafter, without --greedy and --env")
        number = crafter_stages.GAMES if episodes is None else episodes
        figures = crafter_stages.evaluate(run, number, seed)
    else:
        figures = stages.evaluate(world, net, stream(seed, "evaluate"), number, greedy)
    if json:
        return print_json({"env": world.name, **training, "seed": seed, "greedy": greedy, **figures})
    say(
        f"{world.name}: return {figures['return']:.3f} ± {figures['return_se']:.3f} (standard error, {number} episodes, "
        f"{'greedy' if greedy else 'sampled'}), mean length {figures['length']:.1f}, "
        f"trained for {training['task_steps']:,} steps in {training['trained_in']}"
    )


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
        env: Where to train and where to move: hunter-z1c1, hunter-z4c4, ..., or crafter (not ltmbr; the original game is
            what they are judged by).
        seed: Everything random follows from it.
        steps: Environment steps of every policy that is trained; the preset's numbers if not given.
        target: What the target looks like: target, random:<seed>, or a folder of PNG files.
        encoder: First layer: tiles (8 x 8 pixels, stride 8) or conv (a plain stack of convolutions, slower); the preset's if
            not given.
        perceptual: DARLA compares pictures by the features of a denoising autoencoder.
        out: The run folder; runs/NAME-WORLD-sSEED if not given.
        preset: fast (minutes) or paper (the paper's budgets, days).
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    from protoalign.baselines.run import run

    out = out or Path("runs") / f"{name}-{default_folder(env, seed).name}"
    show_baseline(out, run(name, env, out, seed, preset, target, steps, encoder, perceptual), json)


def reproduce(
    what: Annotated[What, tyro.conf.Positional],
    seeds: int | None = None,
    results: Path = Path("results"),
    runs: Path = Path("runs/reproduce"),
    worlds: tuple[str, ...] = (),
) -> None:
    """Show a table or figure of the paper beside ours, training what has not been trained yet.

    Data lie under results/; what is there is only shown. Without it, all four worlds and seeds take about three hours on one
    core, can be stopped at any time, and go on when started again. Baselines (half an hour per world, seed and core) and
    Crafter (hours) are trained only when asked for by --worlds.

    Args:
        what: Which; all shows every one.
        seeds: How many seeds to train, from 0; those already measured if not given, or four (two of baselines and in
            Crafter).
        results: The folder of data.
        runs: Where to train what is missing.
        worlds: Only train and measure these, and show nothing; to share the work among processes. Both "crafter --worlds
            crafter" and "baselines --worlds crafter" belong to Crafter's tables.
    """
    runtime.configure()
    from protoalign.experiments import reproduce as experiments

    data = experiments.Results(results, runs, seeds)
    if worlds:
        if what == "crafter":
            if [world.lower() for world in worlds] != ["crafter"]:
                raise UserError("this is of Crafter alone: use --worlds crafter")
            data.crafter(train=True)
        else:
            data.baselines(worlds) if what == "baselines" else data.all(worlds)
        return
    for name, show in experiments.EXPERIMENTS.items():
        if what in (name, "all"):
            print(show(data))


def bench(
    env: World = "hunter-z1c1",
    preset: Preset = "fast",
    repeats: int = 10,
    core: int | None = None,
    json: bool = False,
) -> None:
    """Measure the speed of the world alone, of collection and of training, and their compile times.

    Each is also given as a ratio to a calibration (matrix products) measured in the same run, because machines differ.

    Args:
        env: The world.
        preset: Whose network and settings.
        repeats: Timings of each; the shortest counts.
        core: Run on this processor core only; on all if not given.
        json: Print one line of JSON.
    """
    if repeats < 1:
        raise UserError(f"--repeats {repeats}: use at least 1")
    runtime.configure(core, cache=False)
    from protoalign.bench import bench as measure

    figures = measure(env, preset, repeats)
    if json:
        return print_json(figures)
    columns = ("", "steps/s", "steps per product", "compile s", "in products")
    table = Table(*columns, title=f"{figures['env']}, preset {preset}, {figures['device']}")
    for name, speed in figures["steps_per_second"].items():
        ratio, seconds = figures["steps_per_product"][name], figures["compile_seconds"][name]
        table.add_row(name, f"{speed:,}", f"{ratio:.2f}", f"{seconds:.1f}", f"{figures['compile_products'][name]:,}")
    Console().print(table)
    say(f"calibration: {figures['products_per_second']:,} products of two 256 x 256 matrices a second")


def play(env: World = "hunter-z1c1", look: str = "source", seed: int = 0) -> None:
    """Play a world yourself, in the terminal.

    Args:
        env: The world.
        look: What it looks like: source, target, random:<seed>, or a folder with floor.png, zombie.png, agent.png,
            cow.png and wall.png.
        seed: Of the first game.
    """
    runtime.configure()
    from protoalign import envs
    from protoalign.envs.hunter import Hunter
    from protoalign.play import play as start
    from protoalign.rng import check_seed

    check_seed(seed)
    world = envs.board(env)
    assert isinstance(world, Hunter)
    start(world.variant_name, look, seed, world.size)


def stages_of(run: Path) -> Any:
    """The stages of the world that a run folder was made for."""
    from protoalign import crafter_stages, stages
    from protoalign.runs import Run

    return crafter_stages if Run(run, create=False).config.get("env") == "crafter" else stages


def write_page(run: Path) -> Path:
    from protoalign.report import crafter_page, page

    return (crafter_page if stages_of(run).__name__.endswith("crafter_stages") else page).write(run)


def default_folder(env: str, seed: int) -> Path:
    return Path("runs") / f"{env.lower().replace('/', '+')}-s{seed}"


COMMANDS: dict[str, Callable[..., Any]] = {
    "run": run,
    "task": task,
    "infer": infer,
    "explore": explore,
    "transfer": transfer,
    "report": report,
    "evaluate": evaluate,
    "baseline": baseline,
    "reproduce": reproduce,
    "bench": bench,
    "play": play,
}


def main() -> None:
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="protoalign",
            description="Move a trained policy into a world that looks different but works the same. "
            "Start with: protoalign run hunter-z1c1",
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except UserError as error:
        fail(str(error))
    except OSError as error:  # a full disk, a folder that may not be written
        fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except KeyboardInterrupt:
        print("stopped; a training command started again goes on from its last checkpoint", file=sys.stderr)
        sys.exit(130)


def fail(text: str) -> NoReturn:
    Console(stderr=True).print(f"[red]protoalign:[/] {escape(text)}", highlight=False, soft_wrap=True)
    sys.exit(2)
