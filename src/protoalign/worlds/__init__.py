"""Worlds: grids of picture ids with rules, and what they look like."""

from protoalign.worlds.base import Observation, Spec, Transition, World
from protoalign.worlds.registry import make

__all__ = ["Observation", "Spec", "Transition", "World", "make"]
