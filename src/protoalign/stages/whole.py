"""All stages, for one engine or for both, one after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from protoalign.agent import Agent
from protoalign.errors import UserError
from protoalign.runs import Memory, Run
from protoalign.settings import ENGINES, Engine
from protoalign.stages import hosted, hosted_opa
from protoalign.stages.bayes import dynamics, model, variants
from protoalign.stages.opa import explore, infer
from protoalign.stages.rehearsal import rehearse
from protoalign.stages.setup import Store, beside, settings_of
from protoalign.stages.source import task
from protoalign.stages.target import transfer
from protoalign.worlds import registry
from protoalign.worlds.base import World
from protoalign.worlds.gym import GymWorld

Engines = Engine | Literal["both"]
MAPPINGS: dict[Engine, str] = {"bayes": "mapping", "opa": "mapping-opa"}  # files of a run's own mappings


def train(
    world: World | str,
    seed: int = 0,
    out: str | Path | None = None,
    preset: str = "fast",
    steps: int | None = None,
    explore_steps: int | None = None,
    hide: tuple[str, ...] = (),
    engine: Engines = "bayes",
) -> Agent:
    """Learn in the source what an engine needs, or both; the agent.

    `world`: a world, or its name. `out`: a run folder; the same call goes on where it was stopped; None: in memory. `steps`,
    `explore_steps`: environment steps of pi_task and pi_exp, the preset's if not given. `hide`: kinds of things, out of the
    world's truth, that may look new in a target; the preset's if none is named. `engine`: "bayes", "opa" (the paper's) or
    "both".
    """
    store: Store = Memory() if out is None else Run(Path(out))
    world = registry.make(world) if isinstance(world, str) else world
    with store.lock(), learning(world, store, seed, preset, steps, explore_steps, hide, engine) as trained_for:
        agents = [trained_for(name) for name in engines_of(engine)]
        if engine != "opa":
            agents[0] = variants(world, store, agents[0])
    return replace(agents[0], model=agents[-1].model, explorer=agents[-1].explorer)


@contextmanager
def learning(
    world: World,
    store: Store,
    seed: int,
    preset: str,
    steps: int | None,
    explore_steps: int | None,
    hide: tuple[str, ...],
    engine: Engines,
) -> Iterator[Callable[[Engine], Agent]]:
    """The task policy, trained; then a function that gives the agent trained for an engine, of those asked for.

    For both engines bayes comes first. If the machine has a second core, a second thread compiles programs while the task
    policy is trained, then trains the world model, and then all that opa needs.
    """
    if engine not in (*ENGINES, "both"):
        raise UserError(f"there is no engine '{engine}': use {', '.join(ENGINES)} or both")
    settings = settings_of(world, preset, steps, None, explore_steps, hide)
    if isinstance(world, GymWorld):  # one after the other: games take all the cores there are
        agent = hosted.model(world, store, replace(hosted.task(world, store, seed, settings, preset), settings=settings))
        yield lambda name: agent if name == "bayes" else _for_opa(world, store, agent)
        return
    with beside(store) as later:
        ahead = None if engine == "opa" else lambda: later(lambda: rehearse(world, settings, seed, lambda: store.stopped))
        agent = replace(task(world, store, seed, settings, preset, ahead), settings=settings)
        if engine == "opa":
            yield lambda name: _for_opa(world, store, agent)
            return
        fitted = later(lambda: dynamics(world, store, agent))
        opa = later(lambda: _for_opa(world, store, agent)) if engine == "both" else None
        yield lambda name: opa() if name == "opa" and opa else model(world, store, agent, fitted=fitted)


def engines_of(engine: Engines) -> tuple[Engine, ...]:
    """The engines asked for."""
    return ENGINES if engine == "both" else (engine,)


def _for_opa(world: World, store: Store, agent: Agent) -> Agent:
    if isinstance(world, GymWorld):
        return hosted_opa.explore(world, store, hosted_opa.infer(world, store, agent))
    return explore(world, store, infer(world, store, agent))


def run(
    world: World,
    out: Path,
    seed: int,
    target: str,
    episodes: int,
    preset: str = "fast",
    steps: int | None = None,
    explore_steps: int | None = None,
    hide: tuple[str, ...] = (),
    engine: Engines = "bayes",
    show: Callable[[Engine, dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The whole method in a run folder: train in the source, then into one target look; with one engine, or with both.

    A folder may be run with one engine, then with the other. What the result says at its top is of `bayes`, if it has run;
    "engines" holds the figures of each. `show(engine, result)` is called as soon as an engine's figures are there.
    """
    world.make(target).close() if isinstance(world, GymWorld) else world.pictures(target)  # complain before the training
    if episodes < 1:
        raise UserError(f"--episodes {episodes}: use at least 1")
    store = Run(out)
    with store.lock(), learning(world, store, seed, preset, steps, explore_steps, hide, engine) as trained_for:
        store.configure("transfer", {"target": target, "episodes": episodes})  # other targets: the transfer command
        for name in engines_of(engine):
            agent = trained_for(name)
            engines = store.result().get("engines", {})
            if name not in engines:
                mapping, found = transfer(agent, world, target, episodes, seed, engine=name)
                seconds = {f"transfer {name}": found.pop("transfer_seconds")}
                with store.mutex:
                    mapping.save(out / MAPPINGS[name])
                    # "source" was the world it was trained in; from now on it is what is played through pictures.
                    result = store.result()
                    kept = {f"trained_{key[7:]}": value for key, value in result.items() if key.startswith("source_")}
                    kept = {key: value for key, value in kept.items() if key not in result}
                    top = found if name == "bayes" or not engines else {}
                    store.add_result(kept | top | {"seconds": seconds, "engines": {name: found}})
            if show is not None:
                show(name, store.result())
            if name == "bayes":  # for other targets
                variants(world, store, agent)
    return store.result()
