"""Is it worth refreshing q_theta while pi_exp learns? The paper leaves it as the history made it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from protoalign import stages
from protoalign.agent import Agent
from protoalign.alignment import training
from protoalign.runs import Run
from protoalign.settings import plain
from protoalign.worlds import registry

KEPT = ("one_episode_correct", "one_episode_correct_type_by_type", "two_episodes_correct", "four_episodes_correct")


def compare(path: Path) -> Iterator[dict[str, Any]]:
    """A finished run, and its pi_exp trained again from the same start with q_theta frozen."""
    done, agent = Run(path, create=False), Agent.load(path)
    yield row("refreshed", done, done.result())
    infer, seed = agent.settings.infer, agent.seed
    world = stages.source_of(registry.make(agent.spec.name), agent.vocabulary)
    history = stages.past(done, agent)
    # The agent has the refreshed q_theta. What it was before is the last checkpoint of the stage infer: nothing is trained.
    model = training.build_model(seed, agent.scene, agent.hideable, infer)
    model, _ = training.train_inference(done, infer, model, history, seed)
    config = replace(agent.settings.explore, refresh=0, rounds=1)
    run = Run(path.with_name(f"{path.name}-frozen"))
    with run.lock():
        for section in ("env", "seed", "preset", "task"):
            run.configure(section, done.config[section])
        run.configure("explore", plain(config))
        explorer, model, _ = training.train_exploration(
            run, config, infer, world, model, agent.task, history, seed, agent.longest, agent.spec.name
        )
        yield row("frozen", run, training.measure(world, model, explorer, seed, config.measured, agent.longest))


def row(name: str, run: Run, figures: dict[str, Any]) -> dict[str, Any]:
    watched = [line for line in run.metrics("explore") if "information" in line]
    return {
        "q_theta": name,
        "steps": watched[-1]["steps"],
        "halfway": watched[len(watched) // 2 - 1]["one_episode_correct"],
        **{key: figures[key] for key in KEPT},
    }
