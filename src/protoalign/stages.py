"""The stages of the method, each working in a run folder and resumable: task, infer, explore; then transfer, or all in one."""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from protoalign import envs
from protoalign.alignment import training, transfer
from protoalign.alignment.exploration import ImaginedWorld
from protoalign.alignment.inference import InferenceModel
from protoalign.config import EXPLORE, INFER, TaskConfig, explore_config, infer_config, plain, task_config
from protoalign.envs import appearance
from protoalign.envs.base import TileWorld
from protoalign.envs.crafter.world import Crafter
from protoalign.envs.gym import HunterEnv, HunterVectorEnv
from protoalign.envs.hunter import Hunter
from protoalign.errors import UserError
from protoalign.perception import novelty
from protoalign.rl import history
from protoalign.rl.networks import NETWORKS, ActorCritic
from protoalign.rl.rollout import play_out
from protoalign.rl.train import train
from protoalign.rng import check_seed, generator, stream
from protoalign.runs import Run
from protoalign.runtime import versions

EVALUATION_EPISODES = 2048
METHOD_STEPS = 3_000_000  # of the task policy, when the whole method is to be quick


def task(env: str, out: Path, seed: int, preset: str, steps: int | None = None) -> dict[str, Any]:
    """Train the task policy pi_task on true categories, keeping its history; then measure it. Returns the run's result."""
    world = envs.make(env)
    check_seed(seed)
    config = task_config(preset, steps, world.name)
    run = Run(out)
    with run.lock():
        run.configure("env", world.name)
        run.configure("seed", seed)
        run.configure("preset", preset)
        run.configure("task", plain(config))
        result = run.result()
        if "source_return" in result:
            return result
        net, _, figures = train(run, "task", config, world, build_network(config, world, seed), seed)
        started = time.monotonic()
        source = evaluate(world, net, stream(seed, "task/evaluate"), evaluation_episodes(world))
        return run.add_result(
            {
                "env": world.name,
                "seed": seed,
                "preset": preset,
                "task_steps": figures["steps"],
                **{f"source_{name}": value for name, value in source.items()},
                "seconds": {"task": figures["seconds"], "evaluate": round(time.monotonic() - started, 3)},
                "versions": versions(),
            }
        )


def evaluation_episodes(world: Any) -> int:
    """Crafter's are long."""
    return 512 if isinstance(world, Crafter) else EVALUATION_EPISODES


def build_network(config: TaskConfig, world: Any, seed: int) -> ActorCritic:
    return NETWORKS[config.network](generator(seed, "task/network"), world, config.width)


def evaluate(world: Any, net: ActorCritic, key: Array, episodes: int, greedy: bool = False) -> dict[str, Any]:
    """Mean return over whole episodes, with its standard error, and what else the world tells of them."""
    if episodes < 2:
        raise UserError(f"--episodes {episodes} is too few for a standard error: use at least 2")
    returns, lengths, state = jax.jit(play_out, static_argnums=(0, 3, 4))(world, net, key, episodes, greedy)
    returns = np.asarray(returns, np.float64)
    return {
        "return": round(float(returns.mean()), 5),
        "return_se": round(float(returns.std(ddof=1) / len(returns) ** 0.5), 5),
        "length": round(float(np.mean(lengths)), 3),
        "episodes": episodes,
        **(world.summary(jax.device_get(state)) if isinstance(world, Crafter) else {}),
    }


def load_task(path: Path, world: Any = None) -> tuple[Any, ActorCritic, dict[str, Any]]:
    """A run folder's world (or another one it can play in), its newest task policy, and where and how long it was trained."""
    run = Run(path, create=False)
    try:
        settings, trained_in = run.config["task"], envs.make(run.config["env"])
        network, width, batch = settings["network"], settings["width"], settings["ppo"]["envs"] * settings["ppo"]["segment"]
    except (KeyError, TypeError):
        raise UserError(f"{path} has no task policy: train one with 'protoalign task'") from None
    world = world or trained_in
    if world.shape != trained_in.shape:
        raise UserError(f"a policy trained in {trained_in.name} cannot see the grid of {world.name}")
    net = NETWORKS[network](generator(0, "shape"), world, width)
    saved = run.restore("task", {"ppo": {"net": net}}, part=True)
    if saved is None:
        raise UserError(f"{path} has no checkpoint yet: run 'protoalign task' there first")
    return world, saved.tree["ppo"]["net"], {"trained_in": trained_in.name, "task_steps": saved.step * batch}


def infer(path: Path, updates: int | None = None) -> dict[str, Any]:
    """Train the inference model q_theta on the history of the task policy."""
    world, _, _ = load_task(path)
    run = Run(path, create=False)
    with run.lock():
        config = infer_config(run.config["preset"], updates)
        if "source_return" not in run.result():
            raise UserError(f"the task policy in {path} is not finished: run its 'protoalign task' command again")
        run.configure("infer", plain(config))
        past = history.load(path / "history", "task")
        _, figures = training.train_inference(run, config, world, past, run.config["seed"])
        return add_figures(run, "infer", figures["seconds"])


def explore(path: Path, steps: int | None = None) -> dict[str, Any]:
    """Train the exploration policy pi_exp, and measure how often one, two and four episodes tell everything."""
    world, task, _ = load_task(path)
    run = Run(path, create=False)
    with run.lock():
        config = explore_config(run.config["preset"], steps)
        run.configure("explore", plain(config))
        if "one_episode_correct" in run.result():
            return run.result()
        seed, past = run.config["seed"], history.load(path / "history", "task")
        net, model, figures = training.train_exploration(run, config, world, load_model(run, world), task, past, seed)
        found = training.measure(world, model, net, seed, EVALUATION_EPISODES, past.action.shape[1])
        return add_figures(run, "explore", figures["seconds"], {**found, "explore_steps": figures["steps"]})


def load_model(run: Run, world: TileWorld) -> InferenceModel:
    """q_theta as the infer stage left it."""
    if "infer" not in run.config:
        raise UserError(f"{run.path} has no inference model: train one with 'protoalign infer {run.path}'")
    build = training.MODELS[INFER[run.config["preset"]].network]
    like = build(generator(0, "shape"), world, run.config["infer"]["width"])
    saved = run.restore("infer", {"model": like}, part=True)
    if saved is None or saved.step < run.config["infer"]["updates"]:
        raise UserError(f"the inference model is not finished: run 'protoalign infer {run.path}' again")
    return saved.tree["model"]


def load_agent(path: Path, world: TileWorld | None = None) -> transfer.Agent:
    """All that a finished run folder has learned."""
    world, task, _ = load_task(path, world)
    run = Run(path, create=False)
    model = load_model(run, world)
    if "one_episode_correct" not in run.result():
        raise UserError(f"{path} has no finished exploration policy: train it with 'protoalign explore {path}'")
    build = training.EXPLORERS[EXPLORE[run.config["preset"]].network]
    net = build(generator(0, "shape"), world, run.config["task"]["width"])
    like = {"ppo": {"net": net}, "world": ImaginedWorld(model, world)}
    saved = run.restore("explore", like, part=True)
    if saved is None:
        raise UserError(f"{path} has no exploration policy yet: run 'protoalign explore {path}' first")
    textures = appearance.load("source", world.category_names)
    detector = novelty.train(textures, generator(run.config["seed"], "novelty"))
    return transfer.Agent(world, task, saved.tree["world"].model, saved.tree["ppo"]["net"], detector, textures)


def move(
    path: Path,
    target: str,
    episodes: int,
    seed: int,
    env: str | None = None,
    sure: float | None = None,
    oracle: bool = False,
    noise: float = 0.0,
    jitter: float = 0.0,
) -> dict[str, Any]:
    """Move a finished run into a target look: explore there, find the mapping, and play before and after."""
    check_seed(seed)
    agent = load_agent(path, envs.board(env) if env else None)
    if not isinstance(agent.world, Hunter):
        raise UserError(f"there is no target of {agent.world.name} to move to")
    name, size = agent.world.variant_name, agent.world.size
    textures = appearance.load(target, agent.world.category_names)
    started = time.monotonic()
    changed: dict[str, Any] = {"variant": name, "appearance": target, "size": size, "noise": noise, "jitter": jitter}
    mapping = transfer.align(HunterEnv(**changed), agent, episodes, seed, sure, oracle)
    games = HunterVectorEnv(EVALUATION_EPISODES, **changed)
    home = HunterVectorEnv(EVALUATION_EPISODES, name, size=size, obs="categories")
    returns = {
        "source_return": transfer.play(home, agent, lambda grid: grid, EVALUATION_EPISODES, seed),
        "target_return_before": transfer.play(games, agent, agent.before, EVALUATION_EPISODES, seed),
        "target_return": transfer.play(games, agent, mapping, EVALUATION_EPISODES, seed + 1),
    }
    done = Run(path, create=False).result()
    kept = ("seed", "preset", "task_steps", "explore_steps", "one_episode_correct", "versions")
    figures: dict[str, Any] = {name: done[name] for name in kept if name in done}
    figures |= {"env": agent.world.name, "target": target, "transfer_seed": seed, "noise": noise, "jitter": jitter}
    for label, values in returns.items():
        figures[label] = round(float(values.mean()), 5)
        figures[f"{label}_se"] = round(float(values.std(ddof=1) / len(values) ** 0.5), 5)
    home_return = figures["source_return"] or 1e-9  # an untrained policy may score exactly nothing
    ratio = figures["target_return"] / home_return
    # The spread of a quotient of two independent means, to first order.
    error = np.hypot(figures["target_return_se"], ratio * figures["source_return_se"]) / abs(home_return)
    truth = true_prototypes(mapping, textures)
    return figures | {
        "ratio": round(ratio, 4),
        "ratio_se": round(float(error), 4),
        "explore_episodes": mapping.episodes,
        "target_steps": mapping.steps,
        "mapping": [
            {
                "true": agent.world.category_names[truth[i]],
                "found": agent.world.category_names[mapping.prototype[i]],
                "probability": round(float(mapping.belief[i, mapping.prototype[i]]), 5),
                "unseen": bool(mapping.unseen[i]),
            }
            for i in range(len(mapping.prototype))
        ],
        "mapping_correct": bool((mapping.prototype == truth).all()),
        "sureness": round(mapping.sureness, 5),
        "doubts": mapping.doubts(),
        "seconds": done["seconds"] | {"transfer": round(time.monotonic() - started, 3)},
    }


def true_prototypes(mapping: transfer.Mapping, textures: np.ndarray) -> np.ndarray:
    """What each look found in the target truly is; to judge the mapping by, never to find it."""
    centres = mapping.categories.centres[: len(mapping.prototype)]
    flat = textures.reshape(-1, centres.shape[1]) / 255
    return ((centres[:, None] - flat) ** 2).sum(-1).argmin(1) % textures.shape[-4]


def add_figures(run: Run, stage: str, seconds: float, figures: dict[str, Any] | None = None) -> dict[str, Any]:
    """A stage's figures and its time, in one write: it is done or it is not."""
    return run.add_result((figures or {}) | {"seconds": run.result().get("seconds", {}) | {stage: seconds}})


def whole(
    env: str,
    out: Path,
    seed: int,
    steps: int | None,
    explore_steps: int | None,
    target: str,
    episodes: int,
    preset: str = "fast",
) -> dict[str, Any]:
    """The whole method in one world: task, infer, explore, transfer."""
    appearance.load(target, envs.make(env).category_names)  # complain before the training, not after it
    task(env, out, seed, preset, METHOD_STEPS if steps is None and preset == "fast" else steps)
    infer(out)
    explore(out, explore_steps)
    run = Run(out)
    with run.lock():
        run.configure("transfer", {"target": target, "episodes": episodes})  # other targets: the transfer command
        if "target_return" not in run.result():
            run.add_result(move(out, target, episodes, seed))
        return run.result()
