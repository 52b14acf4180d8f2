"""Settings of every stage, and the two presets.

`fast` is sized for two CPU cores. `paper` is the paper's networks, step counts and table of PPO settings; what the table leaves
open (entropy bonus, 16 environments, width 32) is as in the published code. How long q_theta trains is open too: chosen here.
A world may have settings of its own for a preset: a row of the registry holds them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from protoalign.errors import UserError

Preset = Literal["fast", "paper"]
Engine = Literal["bayes", "opa"]  # how to find out in a target: playing the task policy meanwhile, or exploring as in the paper
ENGINES: tuple[Engine, ...] = ("bayes", "opa")
LARGEST = {"width": 4096, "radius": 64, "tiles": 64}  # sizes of networks, where settings are read from a file


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
    """Training of the task policy pi_task."""

    network: Literal["relative", "relation", "board"] = "relative"
    width: int = 64
    steps: int = 3_000_000
    history: int = 500_000
    """Steps of whole episodes kept for the inference model, spread evenly from the first policy to the last; in hosted worlds a
    fifth more, of games in which the last policy slips."""
    evaluation: int = 2048
    """Episodes played to measure it."""
    novelty: float = 0.0
    """Reward for a board that is new in an episode, in hosted worlds; it falls to 0 within the first 60 % of training."""
    ppo: PPOConfig = field(default_factory=PPOConfig)

    rounds = 1

    @property
    def updates(self) -> int:
        """No more steps than asked for."""
        return self.steps // self.ppo.batch

    @property
    def recorded(self) -> int:
        """How many environments to record so that the history has the size asked for."""
        return min(self.ppo.envs, -(-self.history * self.ppo.envs // (self.updates * self.ppo.batch)))


@dataclass(frozen=True)
class InferConfig:
    """Training of the inference model q_theta on the history, and what is hidden from it."""

    network: Literal["patches", "broadcast"] = "patches"
    width: int = 32
    updates: int = 200
    batch: int = 36
    """Rows of episodes, laid end to end, per update."""
    learning_rate: float = 4e-3
    final_learning_rate: float = 1e-3
    radius: int = 3
    """How far q_theta looks around a tile, in its row and column; diagonally one tile at most."""
    tiles: int = 3
    """Tiles of each type that it looks at in a step."""
    longest: int | None = None
    """Steps of an exploration episode at most; None: until it ends by itself."""
    hide: tuple[str, ...] = ()
    """Kinds of things (of the world's truth) that may look new; none named: all."""
    hide_all: float = 0.5
    """How often all of those are hidden at once while q_theta learns; else a random subset."""
    twice: float = 0.25
    """How often a hidden prototype has two types."""


@dataclass(frozen=True)
class ExploreConfig:
    """Training of the exploration policy pi_exp."""

    steps: int = 3_000_000
    rounds: int = 4
    """After each of these parts q_theta is refreshed on episodes of pi_exp; the first part is short, each next one longer."""
    refresh: int = 120
    """Updates of q_theta per refreshment; 0 leaves it frozen, as in the paper."""
    batch: int = 36
    """Rows of episodes per update, half of those from the history."""
    episodes: int = 4096
    """Episodes of pi_exp per refreshment; in hosted worlds all those of the last updates instead, however many."""
    refresh_rate: float = 2e-3
    hide_all: float = 0.8
    """How often everything that may be hidden is hidden at once while pi_exp learns; else a random subset."""
    from_task: float = 0.5
    """pi_exp starts from pi_task with its logits scaled by this; 0: from scratch."""
    measured: int = 2048
    """Imagined episodes played to measure how often everything is right."""
    ppo: PPOConfig = field(default_factory=lambda: PPOConfig(entropy_coef=0.04, final_entropy_coef=0.0))

    recorded = 0

    @property
    def updates(self) -> int:
        return self.steps // self.ppo.batch


@dataclass(frozen=True)
class JudgeConfig:
    """Training of q_theta on games of the actor that will use it, for the engine `bayes`. Its network is as in `infer`."""

    updates: int = 400
    period: int = 40
    """Updates between two lots of new games."""
    games: int = 512
    """Games in each lot."""
    batch: int = 40
    """Rows of games, laid end to end, per update."""
    learning_rate: float = 4e-3
    final_learning_rate: float = 2e-4
    hide_all: float = 0.8
    """How often everything that may be hidden is hidden at once; else a random subset."""
    twice: float = 0.25
    """How often a hidden prototype has two types."""
    measured: int = 256
    """Imagined worlds played in to measure how often everything is right; `reproduce` takes more."""


@dataclass(frozen=True)
class ModelConfig:
    """Training of the world model, for the engine `bayes`."""

    radius: int = 3
    """How far around a tile it looks, in its row and column; diagonally one tile at most, for the agent everywhere."""
    width: int = 24
    """Hidden units for tiles; two thirds of it for outcomes and for first pictures."""
    games: int = 12288
    """Games of mistaken play in the source to learn from; 0: no world model."""
    updates: int = 1400
    """Gradient steps."""
    batch: int = 128
    """Transitions per gradient step."""
    rewarded: float = 1 / 3
    """Share of them in which something was gained or lost."""
    learning_rate: float = 8e-3
    final_learning_rate: float = 2e-4
    decay: float = 0.1
    """How strongly weights of different prototypes are pulled together, per unit of learning rate."""


@dataclass(frozen=True)
class LocalConfig:
    """Training of the world model of small patches."""

    width: int = 40
    """Hidden units of each of its three networks."""
    transitions: int = 100_000
    """Of the games in the source, so many at most are learned from."""
    updates: int = 2000
    """Gradient steps."""
    batch: int = 1024
    """Different patches per gradient step, for next tiles and for masked ones."""
    boards: int = 96
    """Boards per gradient step, for outcomes; half of them with one that is not the usual."""
    renamed: float = 0.5
    """How often some prototypes in an example, few or many, are renamed to the category that says nothing."""
    learning_rate: float = 8e-3


@dataclass(frozen=True)
class Settings:
    """All stages of one preset."""

    task: TaskConfig = field(default_factory=TaskConfig)
    infer: InferConfig = field(default_factory=InferConfig)
    explore: ExploreConfig = field(default_factory=ExploreConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    local: LocalConfig = field(default_factory=LocalConfig)
    target_episodes: int = 2048
    """Episodes of the target per measured return."""


_PAPER_PPO = PPOConfig(
    envs=16, segment=256, minibatch=256, learning_rate=5e-4, final_learning_rate=5e-4, discount=0.9, gae_lambda=0.95
)
PRESETS: dict[str, Settings] = {
    "fast": Settings(),
    "paper": Settings(
        TaskConfig(network="relation", width=32, steps=25_000_000, ppo=_PAPER_PPO),
        InferConfig(
            network="broadcast", updates=2000, batch=18, learning_rate=2e-3, final_learning_rate=2e-4, hide_all=1.0, twice=0.0
        ),
        ExploreConfig(steps=10_000_000, rounds=1, refresh=0, hide_all=1.0, from_task=0.0, ppo=_PAPER_PPO),
    ),
}

_HOSTED_PPO = PPOConfig(
    envs=32, segment=64, epochs=4, learning_rate=1.5e-3, discount=0.99, gae_lambda=0.95, final_entropy_coef=0.001
)
HOSTED = Settings(  # any world that is stepped on the host
    TaskConfig("board", 128, 500_000, 150_000, 200, 0.02, _HOSTED_PPO),
    InferConfig(longest=64, hide_all=0.8),
    ExploreConfig(
        250_000,
        rounds=3,
        refresh=60,
        hide_all=0.9,
        measured=256,
        ppo=replace(_HOSTED_PPO, envs=64, segment=32, discount=0.97, entropy_coef=0.03),
    ),
    target_episodes=200,
)
HOSTED_SHORTER = replace(HOSTED, task=replace(HOSTED.task, steps=150_000))
HOSTED_LONGER = replace(HOSTED, task=replace(HOSTED.task, steps=1_000_000))
HOSTED_LONGEST = replace(HOSTED, task=replace(HOSTED.task, steps=3_000_000))


def of(own: Mapping[str, Settings], preset: str) -> Settings:
    """A preset of a world that has settings of its own, or of any other."""
    presets = own or PRESETS
    if preset not in presets:
        raise UserError(f"there is no preset '{preset}' here: use {' or '.join(presets)}")
    return presets[preset]


def shorten(
    settings: Settings,
    steps: int | None = None,
    updates: int | None = None,
    explore_steps: int | None = None,
    judge_updates: int | None = None,
) -> Settings:
    """The same with other budgets, where they are given."""
    task, infer, explore, judge = settings.task, settings.infer, settings.explore, settings.judge
    if steps is not None:
        if steps < task.ppo.batch:
            raise UserError(f"--steps {steps} is less than one update; use at least {task.ppo.batch}")
        task = replace(task, steps=steps)
    if updates is not None:
        if updates < 1:
            raise UserError(f"--updates {updates} is too few: use at least 1")
        infer = replace(infer, updates=updates)
    if explore_steps is not None:
        least = explore.rounds**2 * explore.ppo.batch
        if explore_steps < least:
            raise UserError(f"{explore_steps} steps of exploration are too few: use at least {least}")
        explore = replace(explore, steps=explore_steps)
    if judge_updates is not None:
        if judge_updates < 1:
            raise UserError(f"--updates {judge_updates} is too few: use at least 1")
        judge = replace(judge, updates=judge_updates)
    return replace(settings, task=task, infer=infer, explore=explore, judge=judge)


def plain(config: Any) -> dict[str, Any]:
    """A config as JSON types."""
    return asdict(config)


def parse(kind: type, values: Any, name: str = "settings") -> Any:
    """The config of class `kind` from JSON types, every field checked; a `UserError` says which one is wrong."""
    if not isinstance(values, dict):
        raise UserError(f"{name} is not a table of settings")
    hints = get_type_hints(kind)
    unknown = values.keys() - {f.name for f in fields(kind)}
    missing = {f.name for f in fields(kind)} - values.keys()
    if unknown or missing:
        raise UserError(f"{name} has {'no' if missing else 'an unknown'} setting '{min(missing or unknown)}'")
    return kind(**{key: _parse(hints[key], value, f"{name}.{key}") for key, value in values.items()})


def _parse(hint: Any, value: Any, name: str) -> Any:
    if is_dataclass(hint):
        return parse(hint, value, name)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(x, str) for x in value):
            raise UserError(f"{name} = {value!r} is not a list of words")
        return tuple(value)
    options = get_args(hint)
    if get_origin(hint) is Literal:
        good = value in options
    elif options:  # ... | None
        good = value is None or (type(value) in options)
    elif hint is float:
        good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
    else:
        most = LARGEST.get(name.rpartition(".")[2], 2**40)
        good = type(value) is hint and (hint is not int or 0 <= value < most)
    if not good:
        raise UserError(f"{name} = {value!r} is not understood")
    return value
