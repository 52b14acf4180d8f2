"""Settings of every stage, and the two presets.

`fast` is sized for two CPU cores. `paper` is the paper's networks, step counts and table of PPO settings; what the table leaves
open (entropy bonus, 16 environments, width 32) is as in the published code. How long q_theta trains is open too: chosen here.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeVar

from protoalign.errors import UserError

Preset = Literal["fast", "paper"]
Encoder = Literal["tiles", "conv"]
C = TypeVar("C")


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO."""

    envs: int = 128
    """Environments run side by side."""
    segment: int = 32
    """Steps of each environment per update."""
    minibatch: int = 512
    """Steps per gradient step."""
    epochs: int = 3
    """Passes over the collected steps."""
    learning_rate: float = 2e-3
    """Adam's learning rate at the start."""
    final_learning_rate: float = 1e-4
    """... and at the end; it falls linearly."""
    discount: float = 0.95
    gae_lambda: float = 0.9
    clip: float = 0.2
    """How far a probability ratio may move before its gradient is cut."""
    value_coef: float = 0.5
    entropy_coef: float = 0.01
    """Bonus for undecided policies at the start."""
    final_entropy_coef: float = 0.01
    """... and at the end; it changes linearly."""
    max_grad_norm: float = 0.5

    def __post_init__(self) -> None:
        if min(self.envs, self.segment, self.minibatch, self.epochs) < 1:
            raise UserError("envs, segment, minibatch and epochs must be at least 1")
        if self.batch % self.minibatch:
            raise UserError(f"minibatch {self.minibatch} does not divide envs x segment = {self.batch}")

    @property
    def batch(self) -> int:
        """Steps per update."""
        return self.envs * self.segment

    @property
    def starts(self) -> int:
        """Start states drawn per update: enough for episodes of eight steps on average."""
        return max(self.envs * self.segment // 8, self.envs)


@dataclass(frozen=True)
class TaskConfig:
    """Training of the task policy."""

    network: Literal["relative", "relation", "view"] = "relative"
    width: int = 64
    steps: int = 6_000_000
    history: int = 500_000
    """Steps of whole episodes kept for the inference model, spread evenly from the first policy to the last."""
    ppo: PPOConfig = field(default_factory=PPOConfig)

    @property
    def updates(self) -> int:
        """No more steps than asked for."""
        return self.steps // self.ppo.batch

    rounds = 1

    @property
    def recorded(self) -> int:
        """How many environments to record so that the history has the size asked for."""
        return min(self.ppo.envs, -(-self.history * self.ppo.envs // (self.updates * self.ppo.batch)))


@dataclass(frozen=True)
class InferConfig:
    """Training of the inference model q_theta on the history."""

    network: Literal["patches", "broadcast"] = "patches"
    width: int = 32
    updates: int = 200
    batch: int = 64
    """Episodes per update."""
    learning_rate: float = 4e-3
    final_learning_rate: float = 1e-3
    games: int = 0
    """In worlds that keep no history: games to play and learn from, by policies from random to pi_task."""


@dataclass(frozen=True)
class ExploreConfig:
    """Training of the exploration policy pi_exp."""

    network: Literal["relative", "relation"] = "relative"
    """As pi_task's, which gives the width too."""
    steps: int = 3_000_000
    rounds: int = 4
    """After each of these parts q_theta is refreshed on episodes of pi_exp; the first part is short, each next one longer."""
    refresh: int = 120
    """Updates of q_theta per refreshment; 0 leaves it frozen, as in the paper."""
    batch: int = 64
    """Episodes per update, half of them from the history."""
    episodes: int = 4096
    """Episodes of pi_exp per refreshment."""
    refresh_rate: float = 2e-3
    hide_all: float = 0.8
    """How often everything is hidden; else a random subset."""
    from_task: float = 0.5
    """pi_exp starts from pi_task with its logits scaled by this; 0: from scratch."""
    ppo: PPOConfig = field(default_factory=lambda: PPOConfig(entropy_coef=0.04, final_entropy_coef=0.0))

    recorded = 0

    @property
    def updates(self) -> int:
        return self.steps // self.ppo.batch


@dataclass(frozen=True)
class BaselineConfig:
    """The paper's baselines, all on pixels."""

    encoder: Encoder = "tiles"
    """First layer of 8 x 8 pixels with stride 8, or a plain stack of convolutions."""
    source_steps: int = 2_000_000
    """Of the task policy in the source world."""
    latent_steps: int = 20_000_000
    """... where it sees a frozen code (DARLA, LUSR) and learns more slowly."""
    target_steps: int = 1_000_000
    """Of fine-tuning in the target (UNIT4RL, LTMBR)."""
    frames: int = 50_000
    """By a random policy, per domain: for autoencoders and translation."""
    code_updates: int = 6000
    """Of the autoencoders."""
    beta: float = 0.1
    """Weight of KL (sum over latents) against squared error (sum over the picture's values from 0 to 1), DARLA and LUSR."""
    perceptual: bool = False
    """DARLA's reconstruction error in the features of a denoising autoencoder instead of pixels."""
    reverse: float = 0.5
    """Weight of LUSR's reverse loss (sum over latents) against squared error (sum over the picture's values from 0 to 1)."""
    translation_updates: int = 8000
    """Of UNIT4RL's translation."""
    source_model: float = 1.0
    """Weight of LTMBR's model losses in the source: mean squared errors of latents of length one, and of rewards."""
    model: float = 4.0
    """... and in the target, of the model given."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    latent_ppo: PPOConfig = field(default_factory=lambda: PPOConfig(envs=512, minibatch=2048, learning_rate=1e-3))
    """... where the policy sees a frozen code: what it learns from is rarer, so it averages over more."""


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

CRAFTER_TASK = TaskConfig(
    network="view",
    width=256,
    steps=20_000_000,
    history=0,
    ppo=PPOConfig(
        envs=256,
        minibatch=1024,
        learning_rate=5e-4,
        final_learning_rate=5e-5,
        discount=0.99,
    ),
)


INFER: dict[str, InferConfig] = {
    "fast": InferConfig(),
    "paper": InferConfig(network="broadcast", updates=2000, batch=32, learning_rate=2e-3, final_learning_rate=2e-4),
}
CRAFTER_INFER = InferConfig(updates=300, batch=32, games=1024)

EXPLORE: dict[str, ExploreConfig] = {
    "fast": ExploreConfig(),
    "paper": ExploreConfig(
        network="relation", steps=10_000_000, rounds=1, refresh=0, hide_all=1.0, from_task=0.0, ppo=TASK["paper"].ppo
    ),
}
CRAFTER_EXPLORE = ExploreConfig(
    refresh=100,
    batch=32,
    episodes=1024,
    ppo=replace(CRAFTER_TASK.ppo, discount=0.97, entropy_coef=0.02, final_entropy_coef=0.0),
)


BASELINE: dict[str, BaselineConfig] = {
    "fast": BaselineConfig(),
    "paper": BaselineConfig(
        encoder="conv",
        source_steps=25_000_000,
        latent_steps=100_000_000,
        target_steps=5_000_000,
        frames=500_000,
        code_updates=100_000,
        translation_updates=100_000,
        ppo=TASK["paper"].ppo,
        latent_ppo=TASK["paper"].ppo,
    ),
}

CRAFTER_BASELINE = BaselineConfig(
    source_steps=3_000_000,
    latent_steps=3_000_000,
    target_steps=1_500_000,
    translation_updates=4000,
    ppo=CRAFTER_TASK.ppo,
    latent_ppo=CRAFTER_TASK.ppo,
)


def _of(presets: dict[str, C], preset: str) -> C:
    if preset not in presets:
        raise UserError(f"there is no preset '{preset}' here: use {' or '.join(presets)}")
    return presets[preset]


def task_config(preset: str, steps: int | None, env: str = "hunter") -> TaskConfig:
    config = _of({"fast": CRAFTER_TASK} if env == "crafter" else TASK, preset)
    if steps is None:
        return config
    if steps < config.ppo.batch:
        raise UserError(f"--steps {steps} is less than one update; use at least {config.ppo.batch}")
    return replace(config, steps=steps)


def infer_config(preset: str, updates: int | None, env: str = "hunter") -> InferConfig:
    config = _of({"fast": CRAFTER_INFER} if env == "crafter" else INFER, preset)
    if updates is None:
        return config
    if updates < 1:
        raise UserError(f"--updates {updates} is too few: use at least 1")
    return replace(config, updates=updates)


def explore_config(preset: str, steps: int | None, env: str = "hunter") -> ExploreConfig:
    config = _of({"fast": CRAFTER_EXPLORE} if env == "crafter" else EXPLORE, preset)
    if steps is None:
        return config
    least = config.rounds**2 * config.ppo.batch
    if steps < least:
        raise UserError(f"--steps {steps} is too few: use at least {least}")
    return replace(config, steps=steps)


def baseline_config(
    preset: str, steps: int | None, encoder: Encoder | None = None, perceptual: bool = False, env: str = "hunter"
) -> BaselineConfig:
    config = replace(_of({"fast": CRAFTER_BASELINE} if env == "crafter" else BASELINE, preset), perceptual=perceptual)
    if encoder is not None:
        config = replace(config, encoder=encoder)
    return config if steps is None else replace(config, source_steps=steps, latent_steps=steps, target_steps=steps)


def plain(config: Any) -> dict[str, Any]:
    """A config as JSON types."""
    return asdict(config)
