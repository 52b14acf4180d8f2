"""One measurement of `stage_speed.py`: seconds of an update of each stage in one world, as one line of JSON."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

import protoalign
from protoalign.rl import ppo
from protoalign.rng import generator, stream

REPEATS = {"hunter-z1c1": 20, "crafter": 4}


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """The shortest of several timings, after one that compiles."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - started)
    return min(times)


def update_seconds(world: Any, net: Any, config: Any, updates: int, recorded: int, repeats: int) -> float:
    """Of one PPO update."""
    arrays, rest = eqx.partition(world, eqx.is_array)
    state = ppo.init(config, world, net, stream(0, "speed"), updates)
    step = jax.jit(lambda s, a, k: ppo.make_update(config, eqx.combine(a, rest), updates, recorded)(s, k))
    return seconds(lambda: step(state, arrays, jax.random.key(1)), repeats)


def second_edition(name: str) -> dict[str, float]:
    from protoalign.agent import untrained
    from protoalign.alignment import training
    from protoalign.alignment.exploration import ImaginedWorld
    from protoalign.perception.vocabulary import Vocabulary
    from protoalign.rl.source_world import survey
    from protoalign.stages import settings_of, source_of
    from protoalign.worlds import registry

    world = registry.make(name)
    settings, vocabulary = settings_of(world, "fast"), Vocabulary.fit(world.pictures("source"))
    source = source_of(world, vocabulary)
    agent = untrained(world.spec, settings, 0, survey(source, 0), vocabulary)
    task, infer, explore = settings.task, settings.infer, settings.explore
    assert agent.model is not None
    assert agent.explorer is not None
    imagined = ImaginedWorld(agent.model, source, agent.longest, explore.hide_all)
    played = jax.device_get(training.explore_jit(imagined, agent.explorer, stream(0, "play"), 64).episodes)
    fit, batch = training.make_fit(infer.hide_all, infer.twice), training.some(generator(0, "batch"), infer.batch, played)
    moments, repeats = training.OPTIMISER.init(agent.model), REPEATS[name]
    return {
        "task": update_seconds(source, agent.task, task.ppo, task.updates, task.recorded, repeats),
        "infer": seconds(lambda: fit(agent.model, moments, batch, jax.random.key(2), 1e-3), repeats),
        "explore": update_seconds(imagined, agent.explorer, explore.ppo, explore.updates, 0, repeats),
    }


def first_edition(name: str) -> dict[str, float]:
    from importlib import import_module

    config, envs, stages = (import_module(f"protoalign.{x}") for x in ("config", "envs", "stages"))
    exploration, inference = (import_module(f"protoalign.alignment.{x}") for x in ("exploration", "inference"))

    world = envs.make(name)
    task = config.task_config("fast", None, name)
    infer, explore = config.infer_config("fast", None, name), config.explore_config("fast", None, name)
    net, repeats = stages.build_network(task, world, 0), REPEATS[name]
    if name == "crafter":
        parts = (f"protoalign.alignment.view_{x}" for x in ("exploration", "inference", "training"))
        view_exploration, view_inference, view_training = map(import_module, parts)
        kinds = import_module("protoalign.crafter_stages").KINDS

        model = view_inference.ViewInference(generator(0, "m"), world, kinds, infer.width)
        imagined = view_exploration.ImaginedView(model, view_training.LONGEST, explore.hide_all)
        explorer = view_exploration.ViewExplorer.from_task(generator(0, "e"), net, kinds, explore.from_task)
        played = jax.device_get(view_training._play(imagined, explorer, stream(0, "play"), 64).games)
        choose, make_fit = view_training.choose, view_training.make_fit
    else:
        model = inference.InferenceNet(generator(0, "m"), world, infer.width)
        imagined = exploration.ImaginedWorld(model, world, explore.hide_all)
        explorer = exploration.from_task(generator(0, "e"), net, explore.from_task)
        explored = jax.jit(exploration.explore, static_argnums=(3, 4))(imagined, explorer, stream(0, "play"), 64, 31)
        played = jax.device_get(explored.episodes)
        choose, make_fit = inference.choose, inference.make_fit
    optimiser = inference.make_optimiser(infer.updates, infer.learning_rate, infer.final_learning_rate)
    fit, batch = make_fit(optimiser), choose(played, np.random.default_rng(0), infer.batch)
    moments = optimiser.init(model)
    return {
        "task": update_seconds(world, net, task.ppo, task.updates, task.recorded, repeats),
        "infer": seconds(lambda: fit(model, moments, batch, jax.random.key(2)), repeats),
        "explore": update_seconds(imagined, explorer, explore.ppo, explore.updates, 0, repeats),
    }


if __name__ == "__main__":
    chosen = first_edition if protoalign.__version__ == "0.1.0" else second_edition
    print(json.dumps(chosen(sys.argv[1])))
