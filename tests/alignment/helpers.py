"""A small Hunter, models of it with random weights, and games played in it."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from protoalign.alignment import training
from protoalign.alignment.exploration import Explored, ImaginedWorld, explorer_from
from protoalign.alignment.imagination import Imagined
from protoalign.rl.networks import RelativeNet, Scene
from protoalign.rl.source_world import SourceWorld, survey
from protoalign.settings import InferConfig
from protoalign.worlds import registry

ALL = tuple(range(5))


@cache
def source() -> SourceWorld:
    return SourceWorld(registry.make("hunter-z1c1-6x6"), ALL)


@cache
def scene() -> Scene:
    return survey(source(), 0)


def model(network: str = "patches", width: int = 16):
    """q_theta with random weights that are not small."""
    net = training.build_model(0, scene(), ALL, InferConfig(network=network, width=width))  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda x: x + jnp.asarray(0.1 * rng.normal(size=x.shape), jnp.float32), net)


@cache
def explored(network: str = "patches", number: int = 64) -> tuple[ImaginedWorld, Explored]:
    """Games of an untrained explorer in imagined worlds."""
    world = ImaginedWorld(model(network), source(), 31, 0.5)
    task = RelativeNet(np.random.default_rng(0), scene(), 16)
    net = explorer_from(task, ALL, np.random.default_rng(0), 0.5)
    return world, jax.device_get(training.explore_jit(world, net, jax.random.key(0), number))


def plainly(number: int, hidden: np.ndarray | bool = True) -> Imagined:
    """Imagined worlds in which slot and prototype are the same number."""
    names = np.tile(np.arange(5, dtype=np.int32), (number, 1))
    return Imagined(names, names, None, names, np.broadcast_to(hidden, (number, 5)))  # type: ignore[arg-type]
