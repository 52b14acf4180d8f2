"""The first stage, for both engines: the task policy pi_task, in the source."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from protoalign.agent import Agent, hideable, untrained
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.evaluate import evaluate, figures
from protoalign.rl.source_world import survey
from protoalign.rl.train import train as train_policy
from protoalign.rng import check_seed, generator, stream
from protoalign.runs import Run
from protoalign.runtime import versions
from protoalign.settings import Settings, plain
from protoalign.stages import hosted
from protoalign.stages.setup import Store, check_world, source_of
from protoalign.worlds.base import World
from protoalign.worlds.gym import GymWorld


def task(
    world: World, store: Store, seed: int, settings: Settings, preset: str, meanwhile: Callable[[], Any] | None = None
) -> Agent:
    """Train the task policy pi_task on prototypes, keeping its history, then measure it; the agent as far as it goes.

    `meanwhile` is called when all is checked and training begins.
    """
    if isinstance(world, GymWorld):
        return hosted.task(world, store, seed, settings, preset)
    check_world(world)
    check_seed(seed)
    config, name = settings.task, world.spec.name
    hideable(Vocabulary.fit(world.pictures("source")), world.spec, settings.infer.hide)  # complain about kinds there are not
    store.configure("env", name)
    pictures = np.ascontiguousarray(world.pictures("source"))
    store.configure("world", {"spec": asdict(world.spec), "pictures": hashlib.sha256(pictures.tobytes()).hexdigest()})
    store.configure("hide", settings.infer.hide)
    store.configure("seed", seed)
    store.configure("preset", preset)
    store.configure("task", plain(config))
    if "source_return" in store.result() and isinstance(store, Run):
        return Agent.load(store.path)
    if meanwhile is not None:
        meanwhile()
    vocabulary = Vocabulary.fit(world.pictures("source"))
    source = source_of(world, vocabulary)
    agent = untrained(world.spec, settings, seed, survey(source, seed), vocabulary)
    net, _, spent = train_policy(store, "task", config, source, agent.task, seed, title=name)
    record = store.recorded("task") if config.recorded else None
    met = np.ones(len(vocabulary.pictures), bool)
    if record is not None:
        counts = np.bincount(np.asarray(record.observation.tiles).reshape(-1), minlength=len(met))
        met = counts > 0
        vocabulary = vocabulary.learn(met, generator(seed, "novelty"), counts)
    else:
        vocabulary = vocabulary.learn(met, generator(seed, "novelty"))
    agent = replace(agent, vocabulary=vocabulary, task=net, model=None, explorer=None, judge=None, world_model=None)
    measured = time.monotonic()
    fresh = world.fresh() if hasattr(world, "fresh") else world
    played = evaluate(source_of(fresh, vocabulary), net, stream(seed, "task/evaluate"), config.evaluation)
    if isinstance(store, Run):
        agent.save(store.path)
    done = time.monotonic()
    store.add_result(
        {
            "env": name,
            "seed": seed,
            "preset": preset,
            "task_steps": spent["steps"],
            **{f"source_{key}": value for key, value in figures(played).items()},
            "pictures_met": int(met.sum()),
            "prototypes": vocabulary.num_prototypes,
            "seconds": {"task": spent["seconds"], "evaluate": round(done - measured, 3)},
            "versions": versions(),
        }
    )
    return agent
