"""A run folder of an agent that never learned anything, but was put into its target by both engines, in the real way."""

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from protoalign.report import pictures, plots, replay
from protoalign.rng import generator
from protoalign.runs import Run
from protoalign.runtime import versions
from protoalign.settings import ENGINES, PRESETS
from protoalign.worlds import registry
from protoalign.worlds.base import Spec
from protoalign.worlds.hunter import Hunter

SMALL = replace(PRESETS["fast"], target_episodes=8)
SEED = 3
BAYES = {  # as `finding_out.measure` and the stage `model` tell it
    "one_episode_correct": 0.875, "two_episodes_correct": 0.96, "returns": [[1.0, 0.02], [1.2, 0.01]],
    "sure_steps": [17.25, 0.5], "sure_right": 0.985, "sure_share": 0.75,
    "calibration": [[0.0, 0.3, 0.18, 0.21, 400], [0.5, 0.7, 0.61, 0.55, 90], [0.99, 1.0, 0.998, 0.997, 1500]],
    "steps": 21.0, "measured_worlds": 512, "weight": 1.1, "training_games": 4096,
    "elsewhere": {"weight": 0.9, "weight_of_model": 0.0, "doubt": 0.0},
}  # fmt: skip


class Tiny(Hunter):
    """A world by another name, with tiles of 12 pixels and settings of its own."""

    @property
    def spec(self) -> Spec:
        return replace(super().spec, name="tiny")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished run folder; its world is in the registry meanwhile."""
    from protoalign import stages
    from protoalign.agent import untrained
    from protoalign.perception.vocabulary import Vocabulary
    from protoalign.rl.source_world import survey

    path, before = tmp_path_factory.mktemp("report") / "run", list(registry.WORLDS)
    registry.register("tiny", lambda: Tiny(tile=12), "for tests", {"fast": SMALL})
    world = registry.make("tiny")
    # An agent as it is before training, and figures as if it had been trained: `run` finds nothing left to do but the transfer.
    vocabulary = Vocabulary.fit(world.pictures("source")).learn(np.ones(5, bool), generator(SEED, "novelty"))
    agent = untrained(world.spec, SMALL, SEED, survey(stages.source_of(world, vocabulary), SEED), vocabulary)
    replace(agent, world_model=None, presence=np.full((2, 5), 0.9), weight=np.array([[1, 0, 0]] * 2, np.float32)).save(path)
    run = Run(path)
    measured = {"source_return": 1.234, "source_return_se": 0.0123, "source_length": 21.5, "source_episodes": 64}
    run.add_result(
        {"env": "tiny", "seed": SEED, "preset": "fast", "task_steps": 4096, **measured, "pictures_met": 5, "prototypes": 5}
        | {"one_episode_correct": 0.4321, "two_episodes_correct": 0.5, "explore_steps": 8192, "versions": versions()}
        | {"seconds": {"task": 61.0, "model": 12.5, "infer": 20.5, "explore": 38.5}, "bayes": BAYES}
    )
    for i in range(1, 51):
        done = {"update": i, "steps": 4096 * i}
        run.log({"stage": "task", **done, "return": math.tanh(i / 9) if i > 2 else None, "length": 31 - i / 5})
        for stage in ("judge", "infer"):
            run.log({"stage": stage, "update": i, "loss": 1 / i, "episodes_right": 1 - 1 / i})
        run.log({"stage": "explore", **done, "return": float(i)} | ({"one_episode_correct": i / 50} if i % 10 == 0 else {}))
    for engine in ENGINES:
        stages.run(world, path, SEED, "target", 2, engine=engine)
    yield path
    registry.WORLDS[:] = before


@pytest.fixture
def _short_films(monkeypatch: pytest.MonkeyPatch) -> None:
    """Films take most of a page's time: for tests of other things."""
    monkeypatch.setattr(pictures, "MOST_FRAMES", 12)
    monkeypatch.setattr(replay, "watch", partial(replay.watch, most=5))


@pytest.fixture
def _no_curves(_short_films: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so do plots of figures."""
    for name in ("curve", "returns", "episodes", "ratios", "calibration", "sureness"):
        monkeypatch.setattr(plots, name, lambda *_: b"<svg/>")


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    path = tmp_path / "run"
    shutil.copytree(finished, path, ignore=shutil.ignore_patterns("checkpoints", "history", "report.html"))
    return path
