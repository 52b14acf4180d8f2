"""Is it worth refreshing q_theta while pi_exp learns? The paper leaves it as the history made it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from protoalign import stages
from protoalign.alignment import training
from protoalign.config import EXPLORE, plain
from protoalign.rl import history
from protoalign.runs import Run

KEPT = ("one_episode_correct", "one_episode_correct_type_by_type", "two_episodes_correct", "four_episodes_correct")


def compare(path: Path) -> Iterator[dict[str, Any]]:
    """A finished run, and its pi_exp trained again from the same start with q_theta frozen."""
    done = Run(path, create=False)
    world, task, _ = stages.load_task(path)
    seed, past = done.config["seed"], history.load(path / "history", "task")
    yield row("refreshed", done, done.result())
    config = replace(EXPLORE["fast"], refresh=0, rounds=1, steps=done.config["explore"]["steps"])
    run = Run(path.with_name(f"{path.name}-frozen"))
    with run.lock():
        for section in ("env", "seed", "preset", "task"):
            run.configure(section, done.config[section])
        run.configure("explore", plain(config))
        net, model, _ = training.train_exploration(run, config, world, stages.load_model(done, world), task, past, seed)
        found = training.measure(world, model, net, seed, stages.EVALUATION_EPISODES, past.action.shape[1])
        yield row("frozen", run, found)


def row(name: str, run: Run, figures: dict[str, Any]) -> dict[str, Any]:
    watched = [line for line in run.metrics("explore") if "information" in line]
    return {
        "q_theta": name,
        "steps": watched[-1]["steps"],
        "halfway": watched[len(watched) // 2 - 1]["one_episode_correct"],
        **{key: figures[key] for key in KEPT},
    }
