"""The stages of a hosted world: the task policy, then a world model of small patches, which judges targets."""

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from protoalign.agent import Agent, untrained
from protoalign.alignment.foresight import dangers
from protoalign.alignment.joint_merging import jointly_merged
from protoalign.alignment.local_model import LocalModel
from protoalign.alignment.local_training import Transitions, outcomes_of, train_local, transitions_of
from protoalign.alignment.merging import merged
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl import host_train
from protoalign.rl.board_net import BoardNet
from protoalign.rl.evaluate import figures
from protoalign.rl.history import Episodes, cut
from protoalign.rl.host_evaluate import nearest, play_hosted
from protoalign.rl.host_rollout import AGENT
from protoalign.rl.networks import Scene
from protoalign.rng import check_seed, generator
from protoalign.runs import Run
from protoalign.runtime import versions
from protoalign.settings import Settings, plain
from protoalign.stages.setup import Store, keep, presence
from protoalign.worlds.gym import GymWorld

MORE, GOING_ON = 0.3, 5e-4  # steps, of those of the task policy, and the learning rate of a policy that goes on on prototypes
STEPS = 1000  # in the source, to see what is dangerous


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
    agent = replace(agent, task=net, local=None, model=None, explorer=None)
    if world.truth is not None:
        agent = replace(agent, spec=replace(world.spec, truth=named(world, vocabulary)))
    measured = time.monotonic()
    played = _played(world, agent)
    if isinstance(store, Run):
        agent.save(store.path)
    store.add_result(
        {
            "env": name,
            "seed": seed,
            "preset": preset,
            "task_steps": spent["steps"],
            **played,
            "pictures_met": len(dictionary),
            "prototypes": vocabulary.num_prototypes,
            "seconds": {"task": spent["seconds"], "evaluate": round(time.monotonic() - measured, 3)},
            "share_in_games": round(spent["seconds_in_games"] / max(spent["seconds"], 1e-9), 3),
            "versions": versions(),
        }
    )
    return agent


def _played(world: GymWorld, agent: Agent) -> dict[str, Any]:
    """What the policy earns in the source, for its result."""
    eyes = nearest(agent.vocabulary.pictures, agent.vocabulary.prototype_of)
    games = agent.settings.task.evaluation
    played = play_hosted(world.make, world.tile, agent.plays(), eyes, games, 900_000 + 1000 * agent.seed)
    return {f"source_{key}": value for key, value in figures(played).items()}


def named(world: GymWorld, vocabulary: Vocabulary) -> tuple[str, ...]:
    """What the pictures show, as far as the world tells: for reports."""
    assert world.truth is not None
    found = [world.truth("source", picture) for picture in vocabulary.pictures]
    return tuple(name or f"picture {i}" for i, name in enumerate(found))


def model(world: GymWorld, store: Store, agent: Agent) -> Agent:
    """Fit the world model on the history. Where pictures were found to be one kind, the policy then goes on learning with each
    kind shown as one picture, as it will see a target."""
    store.configure("local", plain(agent.settings.local))
    if agent.local is None or "bayes" not in store.result():
        agent = fit_model(store, agent, cut(store.recorded("task"), None))
    vocabulary = agent.vocabulary
    if agent.task is None or vocabulary.num_prototypes == len(vocabulary.pictures):
        return agent  # somebody else's policy stays as it is
    if "on_prototypes" in store.result().get("seconds", {}):
        return agent
    config = agent.settings.task
    ppo = replace(config.ppo, learning_rate=GOING_ON)
    config = replace(config, steps=max(round(MORE * config.steps), ppo.batch), history=1, novelty=0.0, ppo=ppo)
    shown = np.arange(256, dtype=np.uint8)
    shown[: len(vocabulary.pictures)] = vocabulary.canonical[vocabulary.prototype_of]
    net, _, spent = host_train.train(
        store, config, world, agent.task, agent.seed, agent.spec.name, "on_prototypes", vocabulary.pictures, shown
    )
    agent = keep(store, agent, task=net)
    steps = store.result()["task_steps"] + spent["steps"]
    store.add_result({"task_steps": steps, **_played(world, agent), "seconds": {"on_prototypes": spent["seconds"]}})
    return agent


def danger_of(local: LocalModel, given: Transitions, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """How dangerous each prototype is, [C] float32; `scores` [C] tell what is like an agent."""
    some = rng.permutation(len(given.action))[:STEPS]
    before, cell = given.before[some], local.scene.cell
    flat = before.reshape(len(before), -1)
    anchor = scores[flat].argmax(1) if cell is None else np.full(len(flat), cell)
    found = dangers(local.on_host(), before, given.action[some], given.numbers[some], anchor)
    found[scores > AGENT] = 0.0  # it is not stepped on
    return found.astype(np.float32)


def likeness(given: Transitions, kinds: int) -> np.ndarray:
    """How much each prototype [C] is like an agent's: how often a tile of it changes in a step, and is the only one."""
    boards = np.stack([(given.before == c).sum((1, 2)) for c in range(kinds)], 1)
    changed = np.bincount(given.before[given.before != given.after], minlength=kinds)[:kinds]
    return (boards == 1).sum(0) / np.maximum((boards > 0).sum(0), 1) * changed / (boards.sum(0) + 10)


def _as_kinds(given: Transitions, group: np.ndarray, scene: Scene) -> tuple[Transitions, Scene]:
    """Steps with prototypes [C] as the kinds that they are in a group, and what networks have to know."""
    kinds = int(group.max()) + 1
    table = np.append(group, [kinds, kinds + 1]).astype(given.before.dtype)
    return given._replace(before=table[given.before], after=table[given.after]), scene._replace(prototypes=kinds)


def fit_model(store: Store, agent: Agent, history: Episodes) -> Agent:
    """The agent with a world model of episodes in picture ids. Pictures that act alike become one prototype; then it is fitted
    once more."""
    config, seed, name = agent.settings.local, agent.seed, agent.spec.name
    scene = agent.scene._replace(prototypes=len(agent.vocabulary.pictures))  # whatever was merged before a kill
    given = transitions_of(history, scene)
    agents = likeness(given, scene.prototypes) > AGENT
    group = jointly_merged(given, outcomes_of(given), agents, generator(seed, "joint merging"))
    given, scene = _as_kinds(given, group, scene)
    local, told, seconds = train_local(store, config, scene, given, seed, name)
    more = merged(local.on_host(), given, generator(seed, "merging"))
    if more.max() + 1 < scene.prototypes:
        given, scene = _as_kinds(given, more, scene)
        local, told, again = train_local(store, config, scene, given, seed, f"{name}, kinds that act alike as one", "merged")
        group, seconds = more[group], round(seconds + again, 3)
    kinds = scene.prototypes
    vocabulary = replace(agent.vocabulary, prototype_of=group.astype(np.int32))
    tiles = group.astype(np.int32)[np.asarray(history.observation.tiles)]
    seen = presence(history._replace(observation=history.observation._replace(tiles=tiles)), tuple(range(kinds)))
    danger = danger_of(local, given, likeness(given, kinds), generator(seed, "danger"))
    agent = keep(store, agent, local=local, presence=seen, danger=danger, scene=scene, vocabulary=vocabulary)
    store.add_result({"bayes": {"world_model": told}, "prototypes": kinds, "seconds": {"model": seconds}})
    return agent
