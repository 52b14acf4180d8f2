"""The stages of the method, each working in a run folder and resumable."""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from protoalign import envs
from protoalign.config import TaskConfig, plain, task_config
from protoalign.envs.base import TileWorld
from protoalign.errors import UserError
from protoalign.rl.networks import NETWORKS, ActorCritic
from protoalign.rl.rollout import play_out
from protoalign.rl.train import train
from protoalign.rng import check_seed, generator, stream
from protoalign.runs import Run
from protoalign.runtime import versions

EVALUATION_EPISODES = 2048


def task(env: str, out: Path, seed: int, preset: str, steps: int | None = None) -> dict[str, Any]:
    """Train the task policy pi_task on true categories, keeping its history; then measure it. Returns the run's result."""
    world = envs.make(env)
    check_seed(seed)
    config = task_config(preset, steps)
    run = Run(out)
    with run.lock():
        run.configure("env", world.name)
        run.configure("seed", seed)
        run.configure("preset", preset)
        run.configure("task", plain(config))
        result = run.result()
        if "source_return" in result:
            return result
        net, figures = train(run, "task", config, world, build_network(config, world, seed), seed)
        started = time.monotonic()
        source = evaluate(world, net, stream(seed, "task/evaluate"), EVALUATION_EPISODES)
        seconds = {"task": figures["seconds"], "evaluate": round(time.monotonic() - started, 3)}
        return run.add_result(
            {
                "env": world.name,
                "seed": seed,
                "preset": preset,
                "task_steps": figures["steps"],
                **{f"source_{name}": value for name, value in source.items()},
                "seconds": result.get("seconds", {}) | seconds,
                "versions": versions(),
            }
        )


def build_network(config: TaskConfig, world: TileWorld, seed: int) -> ActorCritic:
    return NETWORKS[config.network](generator(seed, "task/network"), world, config.width)


def evaluate(world: TileWorld, net: ActorCritic, key: Array, episodes: int, greedy: bool = False) -> dict[str, Any]:
    """Mean return over whole episodes, with its standard error."""
    if episodes < 2:
        raise UserError(f"--episodes {episodes} is too few for a standard error: use at least 2")
    returns, lengths = jax.jit(play_out, static_argnums=(0, 3, 4))(world, net, key, episodes, greedy)
    returns = np.asarray(returns, np.float64)
    return {
        "return": round(float(returns.mean()), 5),
        "return_se": round(float(returns.std(ddof=1) / len(returns) ** 0.5), 5),
        "length": round(float(np.mean(lengths)), 3),
        "episodes": episodes,
    }


def load_task(path: Path, world: TileWorld | None = None) -> tuple[TileWorld, ActorCritic, dict[str, Any]]:
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
    saved = run.restore("task", {"net": net}, part=True)
    if saved is None:
        raise UserError(f"{path} has no checkpoint yet: run 'protoalign task' there first")
    return world, saved.tree["net"], {"trained_in": trained_in.name, "task_steps": saved.step * batch}
