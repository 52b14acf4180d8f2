"""Speed of our Crafter against craftax's own Craftax-Classic, turn about on one core, in one run.

    python benchmarks/crafter_speed.py [--batch 256] [--rounds 3] [--steps 100] [--out results/crafter_speed.json]

It needs craftax, which protoalign does not: `pip install craftax`. Random actions, symbolic views. "no reset" is craftax's step
without world generation; "auto reset" is what it does by itself, with a new world generated for every game in every step. Ours
draws new games from its pool of maps as they end. The original game is stepped one game at a time, without pictures.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from protoalign import runtime

runtime.configure(core=0, cache=False)

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from protoalign.arrays import select  # noqa: E402
from protoalign.files import write_json  # noqa: E402
from protoalign.runtime import versions  # noqa: E402
from protoalign.worlds.crafter.original import CrafterEnv  # noqa: E402
from protoalign.worlds.crafter.world import Crafter  # noqa: E402

try:
    from craftax.craftax_classic.envs.craftax_symbolic_env import (
        CraftaxClassicSymbolicEnv,
        CraftaxClassicSymbolicEnvNoAutoReset,
    )
except ImportError:
    raise SystemExit("this compares with craftax: pip install craftax") from None


def ours(batch: int, steps: int) -> Callable[[int], Any]:
    world = Crafter()
    start = eqx.filter_jit(world.reset)(jax.random.key(0), batch), jnp.zeros(batch, bool)

    @eqx.filter_jit
    def run(world: Crafter, start: Any, key: Any) -> Any:
        fresh = world.reset(key, batch)

        def step(carry: Any, key: Any) -> Any:
            state, over = carry
            act, go = jax.random.split(key)
            state = jax.lax.cond(over.any(), lambda s: select(over, fresh, s), lambda s: s, state)
            state, (reward, terminated, truncated) = world.step(state, jax.random.randint(act, (batch,), 0, 17), go)
            view = world.observe(state)
            return (state, terminated | truncated), reward.sum() + 0.0 * (view.tiles.sum() + view.numbers.sum())

        return jax.lax.scan(step, start, jax.random.split(key, steps))

    return lambda i: run(world, start, jax.random.key(i))


def craftax(batch: int, steps: int, reset: bool) -> Callable[[int], Any]:
    env = (CraftaxClassicSymbolicEnv if reset else CraftaxClassicSymbolicEnvNoAutoReset)()
    params = env.default_params
    keys = jax.random.split(jax.random.key(0), batch)
    _, state = jax.jit(lambda ks: jax.lax.map(lambda k: env.reset(k, params), ks, batch_size=16))(keys)

    @jax.jit
    def run(state: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            act, go = jax.random.split(key)
            action = jax.random.randint(act, (batch,), 0, 17)
            view, state, reward, _, _ = jax.vmap(env.step, (0, 0, 0, None))(jax.random.split(go, batch), state, action, params)
            return state, reward.sum() + 0 * view.sum()

        return jax.lax.scan(step, state, jax.random.split(key, steps))

    return lambda i: run(state, jax.random.key(i))


def original(steps: int) -> float:
    env = CrafterEnv(obs="categories")
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    done, spent = 0, 0.0
    while done < steps:
        start = time.process_time()
        _, _, terminated, truncated, _ = env.step(int(rng.integers(17)))
        spent += time.process_time() - start
        done += 1
        if terminated or truncated:
            env.reset()
    return done / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="of every game, per timing")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    few = max(1, args.steps // 25)
    runs = {
        "protoalign": (ours(args.batch, args.steps), args.steps),
        "craftax, no reset": (craftax(args.batch, args.steps, False), args.steps),
        "craftax, auto reset": (craftax(args.batch, few, True), few),
    }
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(args.rounds + 1):
        for name, (run, steps) in runs.items():
            start = time.process_time()
            jax.block_until_ready(run(i))
            if i:  # the first compiles
                speeds[name].append(steps * args.batch / (time.process_time() - start))
    speeds["the original"] = [original(2000)]
    found = {name: round(float(np.median(x))) for name, x in speeds.items()}
    for name, speed in found.items():
        ratio = np.median(np.array(speeds["protoalign"]) / np.array(speeds[name][: len(speeds["protoalign"])]))
        print(f"{name:22} {speed:10,} steps per second of one core;  protoalign / this: {ratio:.1f}")
    if args.out:
        write_json(args.out, {"batch": args.batch, "steps_per_second": found, "rounds": speeds, "versions": versions()})


if __name__ == "__main__":
    main()
