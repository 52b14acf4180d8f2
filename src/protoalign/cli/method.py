"""The commands of the method: run, task, model, infer, explore, transfer, evaluate. Each sets JAX up before it is imported."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from protoalign import runtime
from protoalign.console import open_page, print_json, say, show_engines, show_task, show_transfer
from protoalign.errors import UserError
from protoalign.progress import beside_bars
from protoalign.settings import Engine, Preset

World = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WORLD")]
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]


def default_folder(env: str, seed: int) -> Path:
    return Path("runs") / f"{env.lower().replace('/', '+').replace(':', '-')}-s{seed}"


def run(
    env: World,
    seed: int = 0,
    steps: int | None = None,
    explore_steps: int | None = None,
    target: str = "target",
    episodes: int = 4,
    engine: Literal["both", "bayes", "opa"] | None = None,
    hide: tuple[str, ...] = (),
    tile: int | None = None,
    picture: str | None = None,
    workers: int | None = None,
    out: Path | None = None,
    preset: Preset = "fast",
    json: bool = False,
) -> None:
    """The whole method in one world: train everything in the source, then find out what is what in a target look.

    First with the engine bayes, which plays the task policy while it finds out; then with opa, the paper's, which trains a
    policy of its own to explore. The same command again goes on where it was stopped, or shows the result when done.

    Args:
        env: The world, see 'protoalign worlds': hunter-z1c1, ..., crafter (hours; its target is the original game).
        seed: Everything random follows from it.
        steps: Environment steps of the task policy; the preset's number if not given. In a hosted
            world in which several pictures are one kind, 30 % more follow.
        explore_steps: Environment steps of opa's exploration policy; the preset's number if not given.
        target: The target's look: target, random:<seed>, a folder of PNG files, or for gym:ID another gym:ID.
        episodes: Episodes in the target while finding out.
        engine: bayes, opa, or both; if not given, both in Hunter and Crafter, bayes in worlds that are stepped on the host.
        hide: Kinds of things that may look new in a target; the preset's if none is named.
        tile: Size of a tile in pixels, for worlds called gym:ID; found from pictures if not given.
        picture: Where such a world's picture is: obs, render, or a key of the observation; obs if not given.
        workers: Processes that step the games of a world of Gymnasium while its policy is trained; none if not given.
        out: The run folder; runs/WORLD-sSEED if not given.
        preset: fast (two CPU cores, minutes) or paper (the paper's networks and settings, many hours).
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    from protoalign import stages
    from protoalign.report import page
    from protoalign.stages.whole import Engines, engines_of
    from protoalign.worlds import registry
    from protoalign.worlds.gym import GymWorld

    out = out or default_folder(env, seed)
    world = registry.make(env, **_options(tile=tile, picture=picture, workers=workers))
    engines: Engines = engine or ("bayes" if isinstance(world, GymWorld) else "both")

    def show(name: Engine, result: dict[str, Any]) -> None:
        with beside_bars():
            show_transfer(result | result["engines"][name], False)
            if name == "bayes" and "opa" in engines_of(engines) and "opa" not in result["engines"]:
                say("That was bayes. Next: opa, the paper's way, whose policy to explore is being trained.")

    shown = None if json else show
    result = stages.run(world, out, seed, target, episodes, preset, steps, explore_steps, hide, engines, shown)
    report = out / "report.html"
    if not report.exists() or report.stat().st_mtime < (out / "result.json").stat().st_mtime:
        page.write(out)
    if json:
        return print_json(result)
    if len(result["engines"]) > 1:
        show_engines(result)
    say(f"Everything is in {out}: the agent, its mapping, result.json.")
    open_page(report)


def task(
    env: World,
    seed: int = 0,
    steps: int | None = None,
    hide: tuple[str, ...] = (),
    tile: int | None = None,
    picture: str | None = None,
    workers: int | None = None,
    out: Path | None = None,
    preset: Preset = "fast",
    json: bool = False,
) -> None:
    """Train the task policy in a world and measure it.

    The same command again goes on where it was stopped, or shows the result when done.

    Args:
        env: The world; 'protoalign worlds' lists them.
        seed: Everything random follows from it.
        steps: Environment steps to train for; the preset's number if not given.
        hide: Kinds of things that may look new in a target, e.g. --hide water grass; the preset's if none is named.
        tile: Size of a tile in pixels, for worlds called gym:ID; found from pictures if not given.
        picture: Where such a world's picture is: obs, render, or a key of the observation; obs if not given.
        workers: Processes that step the games of a world of Gymnasium while its policy is trained; none if not given.
        out: The run folder; runs/WORLD-sSEED if not given.
        preset: fast (two CPU cores, minutes) or paper (the paper's network and settings).
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    from protoalign import stages
    from protoalign.runs import Run
    from protoalign.worlds import registry

    out = out or default_folder(env, seed)
    world = registry.make(env, **_options(tile=tile, picture=picture, workers=workers))
    settings = stages.settings_of(world, preset, steps, hide=hide)
    store = Run(out)
    with store.lock():
        stages.task(world, store, seed, settings, preset)
    show_task(out, store.result(), json)


def model(run: Folder, updates: int | None = None, json: bool = False) -> None:
    """Train what the engine bayes needs, a judge for its actor and a world model, and measure how it finds out.

    Where the world has variants, how much evidence counts in them is fitted too.

    Args:
        run: The run folder, with a task policy.
        updates: Gradient steps of the judge q_theta; the preset's number if not given. The world model's stay the preset's.
        json: Print the result as one line of JSON.
    """
    result = _stage(run, "model", "variants", judge_updates=updates)
    if json:
        return print_json(result)
    found = result["bayes"]
    if "one_episode_correct" not in found:  # a hosted world
        return say(f"the world model is fitted. Next: protoalign transfer {run}, or protoalign infer {run} for opa")
    one, two = found["one_episode_correct"], found["two_episodes_correct"]
    say(f"everything right after one, two episodes: {one:.4f}, {two:.4f}. Next: protoalign transfer {run}")


def infer(run: Folder, updates: int | None = None, json: bool = False) -> None:
    """Train the inference model q_theta on a run folder's history, for the engine opa, with the preset of its task policy.

    Args:
        run: The run folder, with a task policy.
        updates: Gradient steps; the preset's number if not given.
        json: Print the result as one line of JSON.
    """
    result = _stage(run, "infer", updates=updates)
    print_json(result) if json else say(f"q_theta is trained. Next: protoalign explore {run}")


def explore(run: Folder, steps: int | None = None, json: bool = False) -> None:
    """Train the exploration policy pi_exp, for the engine opa, and measure how often one episode tells everything;
    in a hosted world, all that it met.

    The preset is that of the task policy.

    Args:
        run: The run folder, with a task policy and an inference model.
        steps: Environment steps; the preset's number if not given.
        json: Print the result as one line of JSON.
    """
    result = _stage(run, "explore", explore_steps=steps)
    if json:
        return print_json(result)
    met = "one_episode_met_correct" in result  # a hosted world
    one, two, four = (result[f"{n}{'_met' * met}_correct"] for n in ("one_episode", "two_episodes", "four_episodes"))
    what = "all that was met is right" if met else "everything right"
    say(f"{what} after one, two, four episodes: {one:.3f}, {two:.3f}, {four:.3f}. Next: protoalign transfer {run}")


def _options(**given: Any) -> dict[str, Any]:
    """What was given."""
    return {name: value for name, value in given.items() if value is not None}


def world_of(store: Any, name: str) -> Any:
    """The world called so, made as that of a run folder was, if it is one."""
    from protoalign.worlds import registry

    made = store.config.get("world", {})
    if not name.startswith("gym:") or not isinstance(made, dict):
        return registry.make(name)
    return registry.make(name, **{key: made[key] for key in ("tile", "picture", "crop") if key in made})


def _stage(run: Path, *names: str, **budget: int | None) -> dict[str, Any]:
    """Train stages of the agent in a run folder, one after the other; the folder's result."""
    runtime.configure()
    from protoalign import stages
    from protoalign.agent import Agent
    from protoalign.runs import Run
    from protoalign.settings import shorten

    store = Run(run, create=False)
    with store.lock():
        agent = Agent.load(run)
        agent = replace(agent, settings=shorten(agent.settings, **budget))
        world = world_of(store, agent.spec.name)
        if agent.local is not None or agent.settings.task.network == "board":
            names = (f"hosted_{names[0]}",)
        for name in names:
            agent = getattr(stages, name)(world, store, agent)
    return store.result()


def transfer(
    run: Folder,
    target: str = "target",
    episodes: int = 4,
    seed: int = 0,
    env: str | None = None,
    sure: float | None = None,
    oracle: bool = False,
    engine: Engine = "bayes",
    noise: float = 0.0,
    jitter: float = 0.0,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Put a finished run's agent into another look, and measure it there before and after.

    The mapping is saved as two files, *.json and *.safetensors, in the run folder.

    Args:
        run: The run folder, all stages of the engine trained.
        target: The look: target, random:<seed>, or a folder of PNG files; only:cow,wall:LOOK changes only these kinds,
            twins:zombie,cow:LOOK makes them look alike, two:wall:LOOK gives one a second look.
        episodes: Episodes there while finding out, at most.
        seed: Of the target world and of what is done there.
        env: Another world to play in, with the same grid and actions, e.g. another variant.
        sure: Stop as soon as the mapping is this sure, e.g. 0.99; bayes plays that episode to its end.
        oracle: Take tile types from the target's labels (which tiles are of one kind, not what kind).
        engine: bayes plays the task policy while it finds out; opa, the paper's, explores.
        noise: Pixel noise in the target, standard deviation as a share of the full range. From 0.05 on everything counts as
            new, also what looks as in the source.
        jitter: The same for the colour of whole pictures.
        out: Where to save the mapping; DIR/mappings/WORLD-LOOK-SEED if not given.
        json: Print the result as one line of JSON.
    """
    runtime.configure()
    import re

    from protoalign import stages
    from protoalign.agent import Agent
    from protoalign.runs import Run

    store = Run(run, create=False)
    agent = Agent.load(run)
    world = world_of(store, env or agent.spec.name)
    mapping, found = stages.transfer(
        agent, world, target, episodes, seed, sure, oracle, engine=engine, noise=noise, jitter=jitter
    )
    options = [f"{name}{value:g}" for name, value in (("noise", noise), ("jitter", jitter)) if value] + ["oracle"] * oracle
    options += ["opa"] * (engine == "opa")
    name = "-".join([world.spec.name, target, *options, str(seed)])
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-80:].strip("-.")
    out = out or run / "mappings" / name
    mapping.save(out)
    done = store.result()
    kept = ("seed", "preset", "task_steps", "explore_steps", "versions")
    seconds = {"transfer": found.pop("transfer_seconds")}
    result = {name: done[name] for name in kept if name in done} | found | {"seconds": seconds}
    show_transfer(result, json)
    if not json:
        say(f"The mapping is saved: {out}.json and {out}.safetensors.")


def evaluate(
    run: Folder,
    env: str | None = None,
    episodes: int | None = None,
    seed: int = 1,
    greedy: bool = False,
    target: str | None = None,
    mapping: Path | None = None,
    original: bool = False,
    json: bool = False,
) -> None:
    """Measure the task policy of a run folder over whole episodes.

    Args:
        run: The run folder.
        env: Another world to play in, with the same grid and actions; the one it was trained in if not given.
        episodes: How many episodes; as many as the preset has if not given.
        seed: Of the evaluation.
        greedy: Take the likeliest action instead of sampling.
        target: Play through pictures, in this look, with a mapping that was found before.
        mapping: That mapping; the run's own if not given.
        original: Play through pictures in the source's look, in what the world makes for Gymnasium: an original game, if any.
        json: Print one line of JSON.
    """
    runtime.configure()
    from protoalign.agent import Agent
    from protoalign.alignment.mapping import Mapping
    from protoalign.rl.evaluate import check_episodes, figures, play, side_by_side
    from protoalign.rl.evaluate import evaluate as measure
    from protoalign.rng import check_seed, stream
    from protoalign.runs import Run
    from protoalign.stages import MAPPINGS, source_of

    check_seed(seed)
    store = Run(run, create=False)
    agent = Agent.load(run)
    world = world_of(store, env or agent.spec.name)
    if agent.local is not None:
        raise UserError(
            f"evaluate is for worlds that are compiled, not for {agent.spec.name}: 'protoalign transfer {run}' measures its "
            "policy in the source and in a target, or protoalign.evaluate in Python"
        )
    if world.spec.grid != agent.spec.grid or world.spec.actions != agent.spec.actions:
        raise UserError(f"a policy trained in {agent.spec.name} cannot play in {world.spec.name}: other grid or actions")
    if episodes is not None:
        check_episodes(episodes)
    if target is not None or original:
        eyes = agent.vocabulary.read
        if target is not None:
            found_by = store.result().get("engine", "bayes")
            eyes = Mapping.load(mapping or run / MAPPINGS.get(found_by, "mapping"))
            agent.check(eyes)
            if eyes.about.get("target") != target:
                raise UserError(f"that mapping was found in the look '{eyes.about.get('target')}', not in '{target}'")
        games = side_by_side(world, episodes or agent.settings.target_episodes, target or "source")
        told = getattr(world, "summary_of_games", None)
        actions = len(agent.spec.actions)
        found = figures(play(games, agent.task, eyes, actions, 1_000_000 + 1000 * seed, greedy, told))
    else:
        fresh = world.fresh() if hasattr(world, "fresh") else world
        number = episodes or agent.settings.task.evaluation
        found = figures(measure(source_of(fresh, agent.vocabulary), agent.task, stream(seed, "evaluate"), number, greedy))
    trained = {"trained_in": agent.spec.name, "task_steps": agent.settings.task.updates * agent.settings.task.ppo.batch}
    if json:
        look = {"target": target} if target else {}
        return print_json({"env": world.spec.name, **look, **trained, "seed": seed, "greedy": greedy, **found})
    say(
        f"{world.spec.name}: return {found['return']:.3f} ± {found['return_se']:.3f} (standard error, {found['episodes']} "
        f"episodes, {'greedy' if greedy else 'sampled'}), mean length {found['length']:.1f}, "
        f"trained for {trained['task_steps']:,} steps in {trained['trained_in']}"
    )
