"""How long a step in a target takes while finding out: everything but the environment's own step, in milliseconds.

    .venv/bin/python benchmarks/inference_speed.py runs/hunter-z1c1 [--look random:7] [--steps 300] [--engine bayes]

The first steps, in which programs are compiled, do not count. The ratio is to one product of two 256 x 256 matrices on the same
machine, since machines differ.
"""

import contextlib
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import tyro

from protoalign import runtime
from protoalign.settings import Engine

WARM = 20  # steps


class Timed(gymnasium.Wrapper):
    """Notes when a step was asked for and when it was given."""

    def __init__(self, env: gymnasium.Env, most: int):
        super().__init__(env)
        self.most, self.given, self.between = most, 0.0, []  # type: tuple[int, float, list[float]]

    def step(self, action: Any) -> Any:
        asked = time.perf_counter()
        if self.given:
            self.between.append(asked - self.given)
        if len(self.between) >= self.most:
            raise StopIteration
        done = self.env.step(action)
        self.given = time.perf_counter()
        return done

    def reset(self, **options: Any) -> Any:
        self.given = 0.0
        return self.env.reset(**options)


def main(run: tyro.conf.Positional[Path], look: str = "random:7", steps: int = 300, engine: Engine = "bayes") -> None:
    runtime.configure()
    from protoalign.agent import Agent
    from protoalign.worlds import registry

    agent = Agent.load(run)
    env = Timed(registry.make(agent.spec.name).make(look), steps + WARM)
    with contextlib.suppress(StopIteration):
        agent.align(env, episodes=1000, engine=engine)
    spent = 1000 * np.array(env.between[WARM:])
    a = np.ones((256, 256), np.float32)
    products = []
    for _ in range(200):
        begun = time.perf_counter()
        a @ a
        products.append(1000 * (time.perf_counter() - begun))
    product = float(np.median(products))
    print(
        f"{agent.spec.name}, {engine}: median {np.median(spent):.2f} ms a step, 90 % below {np.quantile(spent, 0.9):.2f} ms "
        f"({len(spent)} steps); one product takes {product:.3f} ms: ratio {np.median(spent) / product:.0f}"
    )


if __name__ == "__main__":
    tyro.cli(main)
