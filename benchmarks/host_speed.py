"""Speed of worlds that are stepped on the host: the environments alone, and training in them, turn about in one run.

    .venv/bin/python benchmarks/host_speed.py [WORLD] [--games 16] [--workers 2] [--rounds 3]

Alone: random actions, nobody learns. Training: PPO with the settings of hosted worlds, compiling aside; who takes how much of
the time says what limits it. Medians over rounds; every speed is also given as a ratio to the first row, since machines differ.
A way to see that a world does not have (a fast reader) is left out.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Annotated, Any

import numpy as np
import tyro

from protoalign import runtime

STEPS = 400  # of every game alone, in a round
LEGS = 3  # of training in a round; the first, in which programs are compiled, does not count


def alone(world: Any, games: int) -> float:
    """Steps a second of environments that play at random."""
    from protoalign.rl.host_rollout import HostVector
    from protoalign.worlds.tile_dictionary import TileDictionary

    rng = np.random.default_rng(0)
    with HostVector(world, games, TileDictionary(world.tile)) as vector:
        stepped = vector.games
        stepped.begin(np.arange(games))
        over = np.zeros(games, bool)
        begun = time.perf_counter()
        for _ in range(STEPS):
            done = stepped.step(rng.integers(len(world.spec.actions), size=games), over)
            over = done.terminated | done.truncated
        return STEPS * games / (time.perf_counter() - begun)


@contextmanager
def timed(place: Any, name: str, spent: dict[str, float]) -> Iterator[None]:
    """Adds up the time that a function takes."""
    plain: Callable[..., Any] = getattr(place, name)

    def longer(*arguments: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        found = plain(*arguments, **options)
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - begun
        return found

    setattr(place, name, longer)
    try:
        yield
    finally:
        setattr(place, name, plain)


def training(world: Any, games: int) -> tuple[float, dict[str, float]]:
    """Steps a second of PPO, and the shares of time of the environments, of choosing actions, and of learning."""
    from protoalign.rl import host_rollout, host_train
    from protoalign.rl.board_net import BoardNet
    from protoalign.runs import Memory
    from protoalign.settings import HOSTED
    from protoalign.stages.hosted import scene_of

    spent: dict[str, float] = {}
    marks: list[tuple[float, dict[str, float]]] = []

    class Watched(Memory):
        def log(self, row: dict[str, Any]) -> None:
            marks.append((time.perf_counter(), dict(spent)))

    ppo = replace(HOSTED.task.ppo, envs=games)
    leg = max(host_train.LEG, -(-2 * world.spec.max_steps // ppo.segment))
    config = replace(HOSTED.task, steps=LEGS * leg * ppo.batch, ppo=ppo)
    net = BoardNet(np.random.default_rng(0), scene_of(world, 255), config.width)
    with timed(host_rollout.HostVector, "step", spent), timed(host_train, "collect", spent):
        host_train.train(Watched(), config, world, net, 0)
    (since, before), (until, after) = marks[0], marks[-1]
    whole = until - since
    stepping, collecting = (after[name] - before[name] for name in ("step", "collect"))
    shares = {"environment": stepping, "choosing": collecting - stepping, "learning": whole - collecting}
    return (LEGS - 1) * leg * ppo.batch / whole, {name: seconds / whole for name, seconds in shares.items()}


def main(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[WORLD]")] = "minigrid-doorkey-6x6",
    games: int = 16,
    workers: int = 2,
    rounds: int = 3,
) -> None:
    runtime.configure()
    from protoalign.worlds import registry

    worlds: dict[str, Any] = {}
    plain: Any = registry.make(env)
    for seen in ("fast reader", "pictures") if plain.reads_fast() else ("pictures",):
        for processes in (0, workers):
            world: Any = registry.make(env, workers=processes)
            world.reads_fast(told=seen == "fast reader")
            worlds[f"{seen}, {f'{processes} workers' if processes else 'in process'}"] = world
    speeds: dict[str, list[float]] = {}
    shares: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for name, world in worlds.items():
            speeds.setdefault(f"alone, {name}", []).append(alone(world, games))
        for name, world in worlds.items():
            speed, parts = training(world, games)
            speeds.setdefault(f"training, {name}", []).append(speed)
            shares.setdefault(name, []).append(parts)
    first = next(iter(speeds.values()))
    print(f"{env}, {games} games; ratios to the first row, round by round")
    for name, some in speeds.items():
        ratios = [one / other for one, other in zip(some, first, strict=True)]
        told = f"ratio {median(ratios):6.3f}   ({min(ratios):.3f} to {max(ratios):.3f})"
        print(f"  {name:38} {median(some):9,.0f} steps/s   {told}")
    for name, parts_of in shares.items():
        parts = {part: median(row[part] for row in parts_of) for part in parts_of[0]}
        told = ", ".join(f"{part} {share:.2f}" for part, share in parts.items())
        most = "the environment" if parts["environment"] > 0.5 else "the learner (choosing and learning)"
        pairs = zip(speeds[f"training, {name}"], speeds[f"alone, {name}"], strict=True)
        ratio = median(one / other for one, other in pairs)
        print(f"  training, {name}: {told} of the time; {ratio:.2f} of the speed of the environment alone; {most} limits it")


if __name__ == "__main__":
    tyro.cli(main)
