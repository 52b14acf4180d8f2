"""MiniGrid's worlds (Chevalier-Boisvert et al., 2023), seen from above, without the shading of what the agent sees; or as the
agent's own view of 7 x 7 tiles, which turns with it."""

from typing import Any

import gymnasium
import numpy as np

from protoalign.errors import NotInstalled, UserError
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.tile_dictionary import TileDictionary

TILE = 8
WORLDS = {
    "doorkey-5x5": "DoorKey-5x5-v0",
    "doorkey-6x6": "DoorKey-6x6-v0",
    "doorkey-8x8": "DoorKey-8x8-v0",
    "lavagap-s5": "LavaGapS5-v0",
    "lavagap-s6": "LavaGapS6-v0",
    "lavagap-s7": "LavaGapS7-v0",
    "dynamic-obstacles-5x5": "Dynamic-Obstacles-5x5-v0",
    "dynamic-obstacles-6x6": "Dynamic-Obstacles-6x6-v0",
    "unlock": "Unlock-v0",
    "keycorridor-s3r1": "KeyCorridorS3R1-v0",
}


def minigrid(name: str, view: str = "", tile: int = TILE) -> GymWorld:
    """A world of MiniGrid by its short name; `view` "-view": the agent's own."""
    try:
        import minigrid  # noqa: F401  it registers its environments
    except ImportError:
        raise NotInstalled("MiniGrid is not installed: pip install 'protoalign[minigrid]'") from None
    if name not in WORLDS:
        raise UserError(f"no world is called 'minigrid-{name}': there are {', '.join(f'minigrid-{n}' for n in WORLDS)}")
    full = f"MiniGrid-{WORLDS[name]}"

    def make() -> gymnasium.Env:
        return Above(gymnasium.make(full, disable_env_checker=True), tile, bool(view))

    agent = (6, 3) if view else None
    fast = None if view else lambda dictionary: Grid(gymnasium.make(full, disable_env_checker=True), dictionary)
    return GymWorld(make, tile, agent, name=f"minigrid-{name}{view}", fast=fast, truth=lambda look, tile: _names(tile))


class Above(gymnasium.ObservationWrapper):
    """The whole grid as a picture, or the agent's view."""

    def __init__(self, env: gymnasium.Env, tile: int, own: bool):
        super().__init__(env)
        self.size, self.own = tile, own
        inner: Any = env.unwrapped
        rows, columns = (inner.agent_view_size,) * 2 if own else (inner.height, inner.width)
        self.observation_space = gymnasium.spaces.Box(0, 255, (rows * tile, columns * tile, 3), np.uint8)

    def observation(self, observation: Any) -> np.ndarray:
        inner: Any = self.env.unwrapped
        if self.own:
            return inner.get_frame(highlight=False, tile_size=self.size, agent_pov=True)
        return inner.grid.render(self.size, inner.agent_pos, inner.agent_dir, highlight_mask=None)


class Grid:
    """A game of which the grid is read instead of a picture; the picture of every thing is drawn once."""

    def __init__(self, env: gymnasium.Env, dictionary: TileDictionary):
        self.env, self.dictionary = env, dictionary
        inner: Any = env.unwrapped
        inner.gen_obs = dict  # nobody looks at the agent's view
        self.inner = inner
        self.ids: dict[Any, int] = {}

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        self.env.reset(seed=seed)
        return self._read()

    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        _, reward, terminated, truncated, _ = self.env.step(action)
        return *self._read(), float(reward), bool(terminated), bool(truncated)

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        inner, ids = self.inner, self.ids
        x, y = inner.agent_pos
        own = y * inner.width + x
        found = []
        for i, thing in enumerate(inner.grid.grid):
            key: Any = None if thing is None else thing.encode()
            if i == own:
                key = (inner.agent_dir, key)
            number = ids.get(key)
            if number is None:
                number = ids[key] = self._draw(thing, inner.agent_dir if i == own else None)
            found.append(number)
        return np.array(found, np.uint8).reshape(inner.height, inner.width), np.zeros(0, np.float32)

    def _draw(self, thing: Any, heading: int | None) -> int:
        from minigrid.core.grid import Grid as Drawn

        h, _ = self.dictionary.tile
        picture = Drawn.render_tile(thing, heading, highlight=False, tile_size=h)
        return self.dictionary.number(np.asarray(picture, np.uint8))


def _names(tile: np.ndarray) -> str | None:
    """What a tile picture shows, e.g. `locked yellow door` or `agent > on open yellow door`."""
    return _all_names(tile.shape[0]).get(tile.tobytes())


_known: dict[int, dict[bytes, str]] = {}


def _all_names(size: int) -> dict[bytes, str]:
    from minigrid.core.constants import COLOR_NAMES
    from minigrid.core.grid import Grid as Drawn
    from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall

    if size not in _known:
        things: dict[str, Any] = {"empty": None, "wall": Wall(), "goal": Goal(), "lava": Lava()}
        for colour in COLOR_NAMES:
            things |= {f"{colour} key": Key(colour), f"{colour} ball": Ball(colour), f"{colour} box": Box(colour)}
            things |= {f"open {colour} door": Door(colour, is_open=True), f"closed {colour} door": Door(colour)}
            things |= {f"locked {colour} door": Door(colour, is_locked=True), f"{colour} floor": Floor(colour)}
        found: dict[bytes, str] = {}
        for heading in (None, 0, 1, 2, 3):
            for name, thing in things.items():
                agent = "" if heading is None else f"agent {'>v<^'[heading]}" + ("" if thing is None else " on ")
                picture = np.asarray(Drawn.render_tile(thing, heading, highlight=False, tile_size=size), np.uint8)
                found.setdefault(picture.tobytes(), agent + (name if heading is None or thing is not None else ""))
        _known[size] = found
    return _known[size]
