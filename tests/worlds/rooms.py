"""A small tile world in NumPy, as somebody brings it: walk to the gold, not into the lava, around walls; and what may be wrong
with such a world."""

import time
from typing import Any

import gymnasium
import numpy as np

FLOOR, WALL, GOLD, LAVA, AGENT, AGENT_ON_GOLD, AGENT_IN_LAVA = range(7)
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])


class Rooms(gymnasium.Env):
    """A new board every episode. The picture is drawn into the same array again and again."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, look: int = 0, tile: int = 4, size: int = 5, render_mode: str | None = None):
        self.pictures = np.random.default_rng(look).integers(0, 256, (7, tile, tile, 3), np.uint8)
        self.size, self.render_mode = size, render_mode
        self.action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(4)
        self.observation_space = gymnasium.spaces.Box(0, 255, (size * tile, size * tile, 3), np.uint8)
        self.canvas = np.zeros((size * tile, size * tile, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        cells = self.np_random.permutation(self.size**2)
        self.grid = np.full(self.size**2, FLOOR)
        self.grid[cells[1:6]] = WALL, WALL, WALL, GOLD, LAVA
        self.grid = self.grid.reshape(self.size, self.size)
        self.place = np.array(divmod(int(cells[0]), self.size))
        self.steps = 0
        return self.show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        there = np.clip(self.place + MOVES[int(action)], 0, self.size - 1)
        if self.grid[tuple(there)] != WALL:
            self.place = there
        self.steps += 1
        here = self.grid[tuple(self.place)]
        return self.show(), float(here == GOLD), bool(here in (GOLD, LAVA)), False, {}

    def ids(self) -> np.ndarray:
        """What is to be seen, [size, size]."""
        ids = self.grid.copy()
        ids[tuple(self.place)] = {FLOOR: AGENT, GOLD: AGENT_ON_GOLD, LAVA: AGENT_IN_LAVA}[int(ids[tuple(self.place)])]
        return ids

    def show(self) -> Any:
        side = len(self.canvas)
        self.canvas[:] = self.pictures[self.ids()].swapaxes(1, 2).reshape(side, side, 3)
        return self.canvas

    def render(self) -> Any:
        return self.canvas.copy() if self.render_mode == "rgb_array" else None


class Trouble(Rooms):
    """Fails at a step of its life."""

    def __init__(self, after: int, how: str):
        super().__init__()
        self.after, self.how, self.life = after, how, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.life += 1
        if self.life > self.after:
            if self.how == "hang":
                time.sleep(600)
            if self.how == "exit":
                raise SystemExit(3)
            raise RuntimeError("the floor\n  gave way")
        return super().step(action)


class Fraying(Rooms):
    """After so many pictures of its life no tile is as any was before."""

    def __init__(self, after: int):
        super().__init__()
        self.after, self.life = after, 0

    def show(self) -> Any:
        self.life += 1
        if self.life <= self.after:
            return super().show()
        return self.np_random.integers(0, 256, self.canvas.shape, np.uint8)


class Late(Rooms):
    """A game that was begun from an odd seed takes its time."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.late = self.late if seed is None else seed % 2
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(0.01 * self.late)
        return super().step(action)


class Stuck(Rooms):
    """Hangs when it is begun from the seed 1."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        time.sleep(600 if seed == 1 else 0)
        return super().reset(seed=seed, options=options)


class Careless(Rooms):
    """Takes no notice of seeds."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=None, options=options)


class Bag(Rooms):
    """Observations are dictionaries: the picture, what is carried, and where one is."""

    def show(self) -> Any:
        return {"image": super().show(), "steps": self.steps, "place": self.place, "name": "bag"}
