"""protoalign: a policy learned in one world keeps working when the world is redrawn.

import protoalign as pa

source = pa.make("hunter-z1c1")                    # a world; `protoalign worlds` lists them
agent = pa.train(source, seed=0, out="runs/z1")    # everything there is to learn in the source; out=None: in memory
mapping = agent.align(source.make("target"), episodes=4)   # play in another look, find out what is what
print(mapping)
policy = agent.policy(mapping)                     # observation -> action
print(pa.evaluate(policy, source.make("target"), episodes=100))
mapping.save("redrawn"); mapping = pa.Mapping.load("redrawn"); agent = pa.load("runs/z1")
"""

from typing import TYPE_CHECKING, Any

from protoalign.errors import UserError
from protoalign.registration import register

if TYPE_CHECKING:
    from protoalign.agent import Agent, evaluate
    from protoalign.agent import load as load
    from protoalign.alignment.mapping import Mapping
    from protoalign.alignment.translated import Translated
    from protoalign.stages import train
    from protoalign.stages.adopt import adopt
    from protoalign.worlds.base import Observation, Spec, Transition, World
    from protoalign.worlds.gym import GymWorld
    from protoalign.worlds.registry import make
    from protoalign.worlds.reskin import Reskin

__version__ = "0.2.0"
__all__ = [
    "Agent",
    "GymWorld",
    "Mapping",
    "Observation",
    "Reskin",
    "Spec",
    "Transition",
    "Translated",
    "UserError",
    "World",
    "__version__",
    "adopt",
    "evaluate",
    "load",
    "make",
    "train",
]

_WHERE = {
    "Agent": "agent",
    "evaluate": "agent",
    "load": "agent",
    "Mapping": "alignment.mapping",
    "Translated": "alignment.translated",
    "adopt": "stages.adopt",
    "train": "stages",
    "Observation": "worlds.base",
    "Spec": "worlds.base",
    "Transition": "worlds.base",
    "World": "worlds.base",
    "GymWorld": "worlds.gym",
    "Reskin": "worlds.reskin",
    "make": "worlds.registry",
}


def __getattr__(name: str) -> Any:
    """What is listed above is imported when it is first asked for: JAX takes a second, and --help needs none of it."""
    if name not in _WHERE:
        raise AttributeError(f"module 'protoalign' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"protoalign.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__


register()
