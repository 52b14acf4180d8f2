"""Settings of every stage, and the two presets.

`fast` is sized for two CPU cores. `paper` is the paper's network, hyper-parameters (its table of PPO settings and the
published code) and step count.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from protoalign.errors import UserError
from protoalign.rl.ppo import PPOConfig

Preset = Literal["fast", "paper"]


@dataclass(frozen=True)
class TaskConfig:
    """Training of the task policy."""

    network: Literal["relative", "relation"] = "relative"
    width: int = 64
    steps: int = 6_000_000
    history: int = 500_000
    """Steps of whole episodes kept for the inference model, spread evenly from the first policy to the last."""
    ppo: PPOConfig = field(default_factory=PPOConfig)

    @property
    def updates(self) -> int:
        return -(-self.steps // self.ppo.batch)

    @property
    def recorded(self) -> int:
        """How many environments to record so that the history has the size asked for."""
        return min(self.ppo.envs, -(-self.history * self.ppo.envs // (self.updates * self.ppo.batch)))


TASK: dict[str, TaskConfig] = {
    "fast": TaskConfig(),
    "paper": TaskConfig(
        network="relation",
        width=32,
        steps=25_000_000,
        ppo=PPOConfig(
            envs=16,
            segment=256,
            minibatch=256,
            learning_rate=5e-4,
            final_learning_rate=5e-4,
            discount=0.9,
            gae_lambda=0.95,
        ),
    ),
}


def task_config(preset: str, steps: int | None) -> TaskConfig:
    config = TASK[preset]
    if steps is None:
        return config
    if steps < config.ppo.batch:
        raise UserError(f"--steps {steps} is less than one update; use at least {config.ppo.batch}")
    return replace(config, steps=steps)


def plain(config: Any) -> dict[str, Any]:
    """A config as JSON types."""
    return asdict(config)
