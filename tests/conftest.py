"""What tests share: compiled programs, and one agent that has learned a small Hunter, trained once for all workers."""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

# Before jax is imported: compiled programs are kept between tests, between the two workers and between runs.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# Nearly all programs run for a moment: compiling them well takes three to five times as long, and longer than it saves.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("XDG_RUNTIME_DIR", "/tmp")

import hypothesis
import jax
import pytest

from protoalign.perception import novelty
from protoalign.runtime import known
from protoalign.settings import PRESETS, ExploreConfig, InferConfig, JudgeConfig, ModelConfig, PPOConfig, Settings, TaskConfig

hypothesis.settings.register_profile("default", deadline=None, derandomize=True)
hypothesis.settings.load_profile("default")


# Before the first program is compiled: fusions by MLIR are slow to compile, and two workers have two cores.
for flag in ("xla_cpu_use_fusion_emitters", "xla_cpu_multi_thread_eigen"):
    if flag not in os.environ.get("XLA_FLAGS", "") and known(flag):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --{flag}=false".strip()

# Thousands of steps, in most files: always compiled well.
OPTIMISED = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
OPTIMISED |= {"xla_cpu_use_fusion_emitters": True}
options = {flag: value for flag, value in OPTIMISED.items() if known(flag)}
novelty._fit = jax.jit(novelty._fit.__wrapped__, static_argnums=2, compiler_options=options)

WORLD = "hunter-z1c1-6x6"
PPO = PPOConfig(envs=64, segment=32, minibatch=256, learning_rate=3e-3)
EXPLORE_PPO = replace(PPO, epochs=2, entropy_coef=0.02, final_entropy_coef=0.0)
SMALL = Settings(  # enough to play well and to be right nearly always after four episodes, in half a minute
    TaskConfig(width=32, steps=160_000, history=100_000, evaluation=512, ppo=PPO),
    InferConfig(updates=100, hide_all=1.0, twice=0.0),
    ExploreConfig(steps=49_152, rounds=2, refresh=50, episodes=256, hide_all=1.0, measured=256, ppo=EXPLORE_PPO),
    JudgeConfig(updates=160, period=20, games=256, measured=128),
    ModelConfig(radius=2, width=12, games=512, updates=150, batch=64),
    target_episodes=128,
)
# Where the folder is copied as a kill would leave it.
KILLED = {("task", 76), ("judge", 110), ("infer", 90), ("explore", 16)}


def pytest_configure(config: pytest.Config) -> None:
    # Two workers share the compiled programs: one may read what the other has half written, and then compiles it itself.
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent compilation cache:UserWarning")


@contextmanager
def well_compiled() -> Iterator[None]:
    """For programs that run for long."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.clear_caches()  # else what was compiled in the other way would be used
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", before)


@contextmanager
def small() -> Iterator[None]:
    """The preset `fast` is a small one, every logged update is saved, and programs are compiled well: training takes longer.

    All are compiled again, so that those of a whole run and of a resumed one are the same to the bit.
    """
    from protoalign import stages
    from protoalign.rl import train

    with pytest.MonkeyPatch.context() as patch, well_compiled():
        patch.setitem(PRESETS, "fast", SMALL)
        patch.setattr(train, "SAVE_SECONDS", 0.0)
        patch.setattr(train, "LOG_LINES", 20)
        patch.setattr(train, "WATCHED", 3)
        patch.setattr(stages.bayes, "PRACTICE", 128)
        patch.setattr(stages.bayes, "WATCHED", 64)
        patch.setattr(stages.bayes, "VARIED", 64)
        patch.setattr(stages.whole, "rehearse", lambda *args: None)  # tests keep compiled programs
        yield


class Trained(NamedTuple):
    """Folders of one training in `WORLD`, seed 0, never interrupted."""

    run: Path  # finished: the commands `task`, then `run` with bayes, then with both engines
    killed: dict[tuple[str, int], Path]  # (stage, update) -> the folder just before this checkpoint was written


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Made by the first worker that needs it. Do not write into it: copy it."""
    base = tmp_path_factory.getbasetemp()
    base = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained"
    base.mkdir(exist_ok=True)
    found = Trained(base / "run", {key: base / "-".join(map(str, key)) for key in KILLED})
    with (base / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not (base / "done").exists():
            _train(found)
            (base / "done").touch()
    return found


def _train(wanted: Trained) -> None:
    from protoalign.cli import main
    from protoalign.runs import Run

    save = Run.save

    def copy_and_save(self: Run, stage: str, step: int, tree: Any, info: dict[str, Any]) -> None:
        if (stage, step) in wanted.killed:
            shutil.copytree(self.path, wanted.killed[stage, step])
        save(self, stage, step, tree, info)

    with small(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "save", copy_and_save)
        for command in (["task"], ["run", "--engine", "bayes"], ["run"]):
            patch.setattr(sys, "argv", ["protoalign", command[0], WORLD, "--out", str(wanted.run), "--json", *command[1:]])
            main()
    assert all(path.exists() for path in wanted.killed.values())


@pytest.fixture(scope="session")
def agent(trained: Trained) -> Any:
    from protoalign.agent import Agent

    return Agent.load(trained.run)


@pytest.fixture(scope="session")
def world() -> Any:
    from protoalign.worlds import registry

    return registry.make(WORLD)


@pytest.fixture
def mapping(trained: Trained) -> Any:
    """What the run has found in the look `target`."""
    from protoalign.alignment.mapping import Mapping

    return Mapping.load(trained.run / "mapping")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    """`copied(folder)`: a copy to work in, or to damage."""

    def copy(folder: Path, *without: str) -> Path:
        return Path(shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns(*without)))

    return copy
