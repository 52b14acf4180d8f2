"""FrozenLake and CliffWalking as worlds to learn in, in the pictures of one release of Gymnasium; the other's are a target."""

from collections.abc import Callable
from functools import partial

import numpy as np

from protoalign.worlds.gym import GymWorld
from protoalign.worlds.tile_dictionary import TileDictionary
from protoalign.worlds.toy_text import RELEASES, ToyText, cliff_walking, frozen_lake, truth


class Table:
    """A game of which the state is read instead of a picture."""

    def __init__(self, env: ToyText, dictionary: TileDictionary):
        self.env = env
        self.ids = np.array([dictionary.number(picture) for picture in env.pictures()], np.uint8)
        self.nothing = np.zeros(0, np.float32)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        self.env.reset(seed=seed)
        return self.ids[self.env.read()], self.nothing

    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        _, reward, terminated, truncated, _ = self.env.step(action)
        return self.ids[self.env.read()], self.nothing, float(reward), terminated, truncated


def lake_world(size: int = 8, slippery: bool = False, release: str = "1.3") -> GymWorld:
    """FrozenLake with a new map every episode, to learn in the pictures of a release of Gymnasium; the other's are a target."""
    name = f"frozenlake-{size}x{size}{'-slippery' if slippery else ''}"
    return _world(name, release, "frozen-lake", partial(frozen_lake, size=size, slippery=slippery))


def cliff_world(release: str = "1.3") -> GymWorld:
    """CliffWalking, the same way."""
    return _world("cliffwalking", release, "cliff-walking", cliff_walking)


def _world(name: str, release: str, kind: str, make: Callable[..., ToyText]) -> GymWorld:
    source = f"gymnasium-{release}"
    other = next(look for look in RELEASES if look != source)
    looks = {look: partial(make, look=look) for look in RELEASES} | {"target": partial(make, look=other)}
    env = make(look=source)
    return GymWorld(
        partial(make, look=source),
        env.tile,
        max_steps=env.max_steps,
        name=name if release == "1.3" else f"{name}-from-{release}",
        looks=looks,
        fast=lambda dictionary: Table(make(look=source, draw=False), dictionary),
        truth=lambda look, tile: truth({"source": source, "target": other}.get(look, look), kind).get(tile.tobytes()),
    )
