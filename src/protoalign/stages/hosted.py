"""The stages of a hosted world: the task policy, then a world model of small patches, which judges targets."""

import time
from dataclasses import asdict, replace

import numpy as np

from protoalign.agent import Agent, untrained
from protoalign.alignment.local_training import train_local, transitions_of
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl import host_train
from protoalign.rl.board_net import BoardNet
from protoalign.rl.evaluate import figures
from protoalign.rl.history import Episodes, cut
from protoalign.rl.host_evaluate import nearest, play_hosted
from protoalign.rl.networks import Scene
from protoalign.rng import check_seed, generator
from protoalign.runs import Run
from protoalign.runtime import versions
from protoalign.settings import Settings, plain
from protoalign.stages.setup import Store, keep, presence
from protoalign.worlds.gym import GymWorld


def scene_of(world: GymWorld, prototypes: int) -> Scene:
    """What networks have to know."""
    spec = world.spec
    cell = None if spec.agent is None else spec.agent[0] * spec.grid[1] + spec.agent[1]
    return Scene(spec.grid, prototypes, len(spec.actions), len(spec.numbers), cell)


def task(world: GymWorld, store: Store, seed: int, settings: Settings, preset: str) -> Agent:
    """Train the task policy on pictures as they are met, keeping its history; then measure it. Every picture is a prototype."""
    check_seed(seed)
    name, config = world.spec.name, settings.task
    store.configure("env", name)
    store.configure("world", {"spec": asdict(world.spec), "tile": world.tile, "picture": world.picture, "crop": world.crop})
    store.configure("seed", seed)
    store.configure("preset", preset)
    store.configure("task", plain(config))
    if "source_return" in store.result() and isinstance(store, Run):
        return Agent.load(store.path)
    net = BoardNet(generator(seed, "task/network"), scene_of(world, 255), config.width)
    net, dictionary, spent = host_train.train(store, config, world, net, seed, name)
    record = store.recorded("task")
    counts = np.bincount(np.asarray(record.observation.tiles).reshape(-1), minlength=len(dictionary))
    vocabulary = Vocabulary.each(dictionary.pictures, counts)
    agent = untrained(world.spec, settings, seed, scene_of(world, len(dictionary)), vocabulary)
    agent = replace(agent, task=net, local=None)
    if world.truth is not None:
        agent = replace(agent, spec=replace(world.spec, truth=named(world, vocabulary)))
    measured = time.monotonic()
    eyes = nearest(vocabulary.pictures)
    played = play_hosted(world.make, world.tile, agent.plays(), eyes, config.evaluation, 900_000 + 1000 * seed)
    if isinstance(store, Run):
        agent.save(store.path)
    store.add_result(
        {
            "env": name,
            "seed": seed,
            "preset": preset,
            "task_steps": spent["steps"],
            **{f"source_{key}": value for key, value in figures(played).items()},
            "pictures_met": len(dictionary),
            "prototypes": vocabulary.num_prototypes,
            "seconds": {"task": spent["seconds"], "evaluate": round(time.monotonic() - measured, 3)},
            "share_in_games": round(spent["seconds_in_games"] / max(spent["seconds"], 1e-9), 3),
            "versions": versions(),
        }
    )
    return agent


def named(world: GymWorld, vocabulary: Vocabulary) -> tuple[str, ...]:
    """What the pictures show, as far as the world tells: for reports."""
    assert world.truth is not None
    found = [world.truth("source", picture) for picture in vocabulary.pictures]
    return tuple(name or f"picture {i}" for i, name in enumerate(found))


def model(world: GymWorld, store: Store, agent: Agent) -> Agent:
    """Fit the world model on the history."""
    config = agent.settings.local
    store.configure("local", plain(config))
    if agent.local is not None and "bayes" in store.result():
        return agent
    history = cut(store.recorded("task"), None)
    seen = presence(history, tuple(range(agent.scene.prototypes)))
    return fit_model(store, agent, history, seen)


def fit_model(store: Store, agent: Agent, history: Episodes, seen: np.ndarray) -> Agent:
    """The agent with a world model of episodes in prototypes; `seen` [2, K] as `presence`."""
    given = transitions_of(history, agent.scene)
    local, told, seconds = train_local(store, agent.settings.local, agent.scene, given, agent.seed, agent.spec.name)
    agent = keep(store, agent, local=local, presence=seen)
    store.add_result({"bayes": {"world_model": told}, "seconds": {"model": seconds}})
    return agent
