"""What all baselines share: a run folder, two looks, training, counting and judging."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax import Array

from protoalign.reproduction.baselines.pixels import Screen, load_look, screen_of
from protoalign.reproduction.settings import BaselineConfig, Sizes
from protoalign.rl.evaluate import evaluate, figures, play, side_by_side
from protoalign.rl.networks import RandomNet
from protoalign.rl.ppo import Auxiliary
from protoalign.rl.rollout import begin, collect
from protoalign.rl.source_world import SourceWorld
from protoalign.rl.train import train
from protoalign.rng import generator, stream
from protoalign.runs import Run
from protoalign.settings import PPOConfig, TaskConfig, plain
from protoalign.worlds.base import World
from protoalign.worlds.env import WorldEnv
from protoalign.worlds.looks import Reader

WATCHED = 128  # environments that a random policy plays in, side by side


class Adapted(NamedTuple):
    """A policy in the target world, after some steps there."""

    label: str  # of what was done
    net: Any
    stage: str = ""  # of fine-tuning, if any


@dataclass(frozen=True)
class Job:
    """One baseline, world, target look and seed."""

    name: str
    run: Run
    world: World
    config: BaselineConfig
    sizes: Sizes
    seed: int
    look: str  # the target's
    games: int  # played per figure

    @cached_property
    def source(self) -> Array:
        """The source's table of pictures, [ids, pixels]."""
        return load_look("source", self.world)

    @cached_property
    def target(self) -> Array:
        """The target's table of pictures, [ids, pixels]."""
        return load_look(self.look, self.world)

    @cached_property
    def screen(self) -> Screen:
        return screen_of(self.world)

    @cached_property
    def learnable(self) -> SourceWorld:
        """The world as policies see it: every picture id by itself."""
        return SourceWorld(self.world, tuple(range(len(self.source))))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of picture ids, each of its own: a kind with several pictures is counted up, `cow`, `cow 2`, ..."""
        kinds = [self.kinds[k] for k in self.kind_of]
        return tuple(f"{kind} {n}" if (n := kinds[: i + 1].count(kind)) > 1 else kind for i, kind in enumerate(kinds))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """What there is in the world, by name."""
        return tuple(dict.fromkeys(self.world.spec.truth or map(str, range(len(self.source)))))

    @cached_property
    def kind_of(self) -> np.ndarray:
        """The kind of each picture id, [ids]."""
        return np.array([self.kinds.index(name) for name in self.world.spec.truth or self.kinds])

    def learn(
        self, stage: str, net: Any, steps: int, domain: str, auxiliary: Auxiliary | None = None, ppo: PPOConfig | None = None
    ) -> Any:
        """Train a policy by PPO."""
        config = TaskConfig(steps=steps, history=0, ppo=ppo or self.config.ppo)
        self.run.configure(stage, plain(config))
        title = f"{self.name} {self.world.spec.name}"
        net, _, spent = train(self.run, stage, config, self.learnable, net, self.seed, auxiliary=auxiliary, title=title)
        self.count(domain, stage, spent["steps"])
        self.spent(stage, spent["seconds"])
        return net

    def count(self, domain: str, stage: str, steps: int) -> None:
        """Write down the steps a stage has used."""
        used = self.run.result().get("steps", {})
        self.run.add_result({"steps": used | {domain: used.get(domain, {}) | {stage: steps}}})

    def spent(self, stage: str, seconds: float) -> None:
        self.run.add_result({"seconds": self.run.result().get("seconds", {}) | {stage: seconds}})

    def watch(self, domain: str) -> np.ndarray:
        """Grids [F, N] that a random policy comes across, `config.frames` of them; what they look like is up to the caller."""
        steps = -(-self.config.frames // WATCHED)
        start, key = jax.random.split(stream(self.seed, f"frames/{domain}"))
        running = eqx.filter_jit(begin)(self.learnable, start, WATCHED)
        net = RandomNet(self.screen.actions)
        *_, record = eqx.filter_jit(collect)(self.learnable, net, running, key, steps, WATCHED * steps // 8, WATCHED)
        assert record is not None
        grids = np.asarray(record.observation.tiles).reshape(WATCHED * steps, -1)[: self.config.frames]
        self.count(domain, "frames", WATCHED * steps)
        return generator(self.seed, f"frames/{domain}").permutation(grids)

    def judge(self, trained: Any, adapted: list[Adapted]) -> dict[str, Any]:
        """Returns in the source and in the target, over whole episodes."""
        source = self._play(trained, "source", "source")
        used = {stage: steps for by in self.run.result()["steps"].values() for stage, steps in by.items()}
        rows = [
            {"label": a.label, "steps": used.get(a.stage, 0), **self._play(a.net, self.look, f"target/{a.label}")}
            for a in adapted
        ]
        ratios = [round(row["return"] / source["return"], 4) if source["return"] > 0 else None for row in rows]
        return {"source": source, "target": [row | {"ratio": ratio} for row, ratio in zip(rows, ratios, strict=True)]}

    def _play(self, net: Any, look: str, name: str) -> dict[str, Any]:
        """Figures of a network that has the pictures of a look.

        Where a world's environments are the world itself, its ids are all there is to see. Where they are another program, as
        the original Crafter, it is judged there: through pictures, every tile read as the id that it shows.
        """
        if isinstance(self.world.make(look), WorldEnv):
            return figures(evaluate(self.learnable, net, stream(self.seed, f"judge/{name}"), self.games))
        reader = Reader(self.world.pictures(look))
        told = getattr(self.world, "summary_of_games", None)
        games = side_by_side(self.world, self.games, look)

        def see(pictures: np.ndarray) -> np.ndarray:
            return np.stack([reader(picture) for picture in pictures])

        return figures(play(games, net, see, self.screen.actions, 1_000_000 + 1000 * self.seed, summary=told))
