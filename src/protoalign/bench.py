"""How fast this machine runs the world, the collection and the training, and how that compares with plain arithmetic on it.

Shared machines differ from hour to hour, so every speed is also given as a ratio to a calibration measured in the same run:
products of two 256 x 256 float32 matrices. A ratio says how many steps are done in the time of one such product.
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from protoalign.agent import untrained
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl import ppo
from protoalign.rl.rollout import Learnable, begin, collect
from protoalign.rl.source_world import survey
from protoalign.rng import stream, uniform
from protoalign.runtime import compile_well
from protoalign.stages import settings_of, source_of
from protoalign.worlds import registry

BOARDS = 4096  # episodes side by side when the world runs alone
STEPS = 64


def best_seconds(run: Callable[[], Any], repeats: int) -> float:
    """The shortest of several timings: whatever else the machine does can only add."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - started)
    return min(times)


def compiled(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """A compiled function and the seconds that took (the command switches the cache of compiled programs off)."""
    started = time.perf_counter()
    program = compile_well(jax.jit(function).lower(*args))
    return program, time.perf_counter() - started


def products_per_second(repeats: int) -> float:
    chain = 64
    x = jnp.eye(256) * 0.999 + 0.001

    def run(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, chain, lambda _, y: y @ x, x)

    program = jax.jit(run)
    return chain / best_seconds(lambda: program(x), repeats)


def world_alone(world: Learnable, boards: int, steps: int = STEPS) -> Callable[..., Any]:
    """`steps` steps of random actions in `boards` episodes, every grid drawn up; ended episodes start again from a pool."""

    def run(key: jax.Array) -> jax.Array:
        action_key, reset_key, step_key = jax.random.split(key, 3)
        fresh = world.reset(reset_key, boards)
        actions = (uniform(action_key, (steps, boards)) * world.num_actions).astype(jnp.int32)

        def step(state: Any, x: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            action, key = x
            state, transition = world.step(state, action, key)
            over = transition.terminated | transition.truncated
            state = jax.tree.map(lambda a, b: jnp.where(over.reshape((-1,) + (1,) * (a.ndim - 1)), a, b), fresh, state)
            return state, transition.reward.sum() + jax.tree.leaves(world.observe(state))[0].max()

        _, reward = jax.lax.scan(step, fresh, (actions, jax.random.split(step_key, steps)))
        return reward.sum()

    return run


def bench(env: str, preset: str, repeats: int) -> dict[str, Any]:
    """Speeds of a world with the network and settings of a preset."""
    world = registry.make(env)
    settings = settings_of(world, preset)
    config, vocabulary = settings.task, Vocabulary.fit(world.pictures("source"))
    source = source_of(world, vocabulary)
    net = untrained(world.spec, settings, 0, survey(source, 0), vocabulary).task
    key = stream(0, "bench")
    state = ppo.init(config.ppo, source, net, key, config.updates)
    running = begin(source, key, config.ppo.envs)
    arrays, rest = eqx.partition(source, eqx.is_array)

    def collect_only(arrays: Any, net: Any, running: Any, key: jax.Array) -> Any:
        return collect(eqx.combine(arrays, rest), net, running, key, config.ppo.segment, config.ppo.starts)

    def learn_too(arrays: Any, state: Any, key: jax.Array) -> Any:
        return ppo.make_update(config.ppo, eqx.combine(arrays, rest), config.updates, config.recorded)(state, key)

    alone, alone_compile = compiled(lambda arrays, key: world_alone(eqx.combine(arrays, rest), BOARDS)(key), arrays, key)
    collecting, collect_compile = compiled(collect_only, arrays, net, running, key)
    training, train_compile = compiled(learn_too, arrays, state, key)

    products = products_per_second(repeats)
    speeds = {
        "world alone": BOARDS * STEPS / best_seconds(lambda: alone(arrays, key), repeats),
        "collection": config.ppo.batch / best_seconds(lambda: collecting(arrays, net, running, key), repeats),
        "training": config.ppo.batch / best_seconds(lambda: training(arrays, state, key), repeats),
    }
    products = max(products, products_per_second(repeats))
    compile_seconds = {"world alone": alone_compile, "collection": collect_compile, "training": train_compile}
    return {
        "env": world.spec.name,
        "preset": preset,
        "device": jax.devices()[0].platform,
        "products_per_second": round(products),
        "steps_per_second": {name: round(value) for name, value in speeds.items()},
        "steps_per_product": {name: round(value / products, 3) for name, value in speeds.items()},
        "compile_seconds": {name: round(value, 2) for name, value in compile_seconds.items()},
        "compile_products": {name: round(value * products) for name, value in compile_seconds.items()},
    }
