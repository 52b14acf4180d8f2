"""What all baselines share: a run folder, two looks, training, counting and judging."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from protoalign import crafter_stages
from protoalign.baselines.pixels import Pictured
from protoalign.config import BaselineConfig, PPOConfig, TaskConfig, plain
from protoalign.envs.crafter.pictured import PicturedCrafter, Reader
from protoalign.rl.networks import RandomNet
from protoalign.rl.ppo import Auxiliary
from protoalign.rl.rollout import begin, collect
from protoalign.rl.train import train
from protoalign.rng import generator, stream
from protoalign.runs import Run
from protoalign.stages import EVALUATION_EPISODES, evaluate


class Adapted(NamedTuple):
    """A policy in the target world, after some steps there."""

    label: str  # of what was done
    net: Any
    stage: str = ""  # of fine-tuning, if any


@dataclass(frozen=True)
class Job:
    """One baseline, world and seed."""

    name: str
    run: Run
    world: Pictured
    config: BaselineConfig
    seed: int
    source: Array  # looks, [C, PIXELS]
    target: Array

    def learn(
        self, stage: str, net: Any, steps: int, domain: str, auxiliary: Auxiliary | None = None, ppo: PPOConfig | None = None
    ) -> Any:
        """Train a policy by PPO."""
        config = TaskConfig(steps=steps, history=0, ppo=ppo or self.config.ppo)
        self.run.configure(stage, plain(config))
        net, _, figures = train(self.run, stage, config, self.world, net, self.seed, auxiliary=auxiliary)
        self.count(domain, stage, figures["steps"])
        self.spent(stage, figures["seconds"])
        return net

    def count(self, domain: str, stage: str, steps: int) -> None:
        """Write down the steps a stage has used."""
        used = self.run.result().get("steps", {})
        self.run.add_result({"steps": used | {domain: used.get(domain, {}) | {stage: steps}}})

    def spent(self, stage: str, seconds: float) -> None:
        self.run.add_result({"seconds": self.run.result().get("seconds", {}) | {stage: seconds}})

    def watch(self, domain: str) -> np.ndarray:
        """Grids [F, N] that a random policy comes across, `config.frames` of them; what they look like is up to the caller."""
        envs, steps = 128, -(-self.config.frames // 128)
        start, play = jax.random.split(stream(self.seed, f"frames/{domain}"))
        net = RandomNet(self.world.num_actions)
        running = begin(self.world, start, envs)
        roll = jax.jit(collect, static_argnums=(0, 4, 5, 6))
        *_, record = roll(self.world, net, running, play, steps, envs * steps // 8, envs)
        grids = np.asarray(getattr(record.observation, "tiles", record.observation))
        grids = grids.reshape(envs * steps, -1)[: self.config.frames]
        self.count(domain, "frames", envs * steps)
        return generator(self.seed, f"frames/{domain}").permutation(grids)

    def judge(self, trained: Any, adapted: list[Adapted]) -> dict[str, Any]:
        """Returns at home and in the target, over whole episodes."""

        def play(net: Any, name: str) -> dict[str, Any]:
            if isinstance(self.world, PicturedCrafter):  # in the original game
                look = "source" if name == "source" else self.run.config["baseline"]["target"]
                return crafter_stages.play_original(net, look, Reader(look), crafter_stages.GAMES, self.seed)[1]
            return evaluate(self.world, net, stream(self.seed, f"judge/{name}"), EVALUATION_EPISODES)

        home = play(trained, "source")
        used = {stage: steps for by in self.run.result()["steps"].values() for stage, steps in by.items()}
        rows = [{"label": a.label, "steps": used.get(a.stage, 0), **play(a.net, f"target/{a.label}")} for a in adapted]
        ratios = [round(row["return"] / home["return"], 4) if home["return"] > 0 else None for row in rows]
        return {"source": home, "target": [row | {"ratio": ratio} for row, ratio in zip(rows, ratios, strict=True)]}
