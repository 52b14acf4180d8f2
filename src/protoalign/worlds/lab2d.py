"""DeepMind Lab2D's levels pushbox and chase_eat (Beattie et al., 2020), the whole board seen from above.

pushbox    push every box onto a goal, in a new room every episode. 1 for a box that comes onto a goal, -1 for one that leaves
           it, 10 when all are there, which ends the episode, -0.1 a step.
chase_eat  eat what lies in a maze, and flee the foe, which ends the episode; after a pill it is the foe that flees, for 20
           steps. Food 1, a pill 2, a foe 5. When all is eaten the maze is filled anew, with a faster foe. There is one foe
           however often that happens, not two and more: with several, dmlab2d 1.0.2 crashes now and then when one is eaten.

The levels' action 0 is left out: it does nothing in pushbox, and goes on in the same direction in chase_eat.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from protoalign.errors import NotInstalled, UserError
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.looks import cut
from protoalign.worlds.tile_dictionary import TileDictionary

TILE = {"pushbox": 8, "chase_eat": 16}  # pixels that sprites are drawn in; in other sizes they blur
SETTINGS: dict[str, dict[str, int]] = {"pushbox": {}, "chase_eat": {"foe.numIncrease": 0}}  # that differ from the levels' own
SPRITES = 25  # numbers of sprites in a level, four headings each, and of none
COLOURS = {  # that only one kind of thing has; things on top first
    "pushbox": {"wall": (80, 25, 33), "player": (0, 0, 255), "box": (233, 157, 56), "goal": (255, 0, 0)},
    "chase_eat": {
        "foe": (255, 0, 0),
        "edible foe": (255, 255, 0),
        "player": (64, 200, 64),
        "wall": (80, 25, 33),
        "food": (0, 0, 255),
        "pill": (0, 255, 255),
    },
}
HEADED = {"player": 1, "foe": -1, "edible foe": -1}  # this colour of a player is in front, a foe is broad at its back
Move = IntEnum("Move", ["north", "east", "south", "west"], start=0)


def pushbox(boxes: int = 4, size: int = 10, max_steps: int = 120) -> GymWorld:
    """`boxes` to push on a board of `size` x `size` tiles, walls included; the level's own are 4 on 10 x 10."""
    if not (1 <= boxes <= 4 and 6 <= size <= 10):
        raise UserError(f"boxes={boxes}, size={size}: use 1 to 4 boxes, and 6 to 10 rows and columns")
    variant = f"{'' if boxes == 4 else f'-b{boxes}'}{'' if size == 10 else f'-{size}x{size}'}"
    settings = {"gridShape.width": size, "gridShape.height": size, "numBoxes": boxes}
    return _world("pushbox", f"lab2d-pushbox{variant}", max_steps, settings)


def chase_eat(max_steps: int = 200) -> GymWorld:
    """Of 200 steps at most; the level's own limit is 3,000."""
    return _world("chase_eat", "lab2d-chase-eat", max_steps, {})


def _world(level: str, name: str, max_steps: int, settings: Mapping[str, int]) -> GymWorld:
    make = partial(Lab2d, level, max_steps, settings)
    return GymWorld(
        make,
        TILE[level],
        max_steps=max_steps,
        name=name,
        fast=lambda dictionary: Board(make(), dictionary),
        truth=lambda look, tile: _name(level, tile),
    )


class Lab2d(gymnasium.Env):
    """A level that shows its board, [H*h, W*w, 3] uint8. `settings`: more of the level's own. An episode follows from the state
    of `np_random` before its reset, whatever was played before."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  as in Gymnasium
    actions = Move

    def __init__(self, level: str, max_steps: int, settings: Mapping[str, int] | None = None):
        try:
            import dmlab2d
            from dmlab2d.runfiles_helper import find
        except ImportError:
            raise NotInstalled("DeepMind Lab2D is not installed: pip install 'protoalign[lab2d]'") from None
        if max_steps < 1:
            raise UserError(f"max_steps={max_steps}: use at least 1")
        # A level does not tell its time limit from an end: it gets one that is never reached.
        given = {"spriteSize": TILE[level], "episodeLengthFrames": max_steps + 1, **SETTINGS[level], **(settings or {})}
        self.game = dmlab2d.Lab2d(find(), {"levelName": level, **{key: str(value) for key, value in given.items()}})
        self.running = dmlab2d.RUNNING
        self.max_steps, self.time, self.over, self.render_mode = max_steps, 0, True, "rgb_array"
        self.action_space = gymnasium.spaces.Discrete(len(Move))
        shape = tuple(map(int, self.game.observation_spec("WORLD.RGB")["shape"]))
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.begin(seed)
        return self.render(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        given = self.act(action)
        return self.render(), *given, {}

    def render(self) -> np.ndarray:
        return np.array(self.game.observation("WORLD.RGB"))

    def begin(self, seed: int | None) -> None:
        """As `reset`, without drawing."""
        super().reset(seed=seed)
        self.game.start(0, int(self.np_random.integers(2**31)))
        self.time, self.over = 0, False

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """As `step`, without drawing."""
        if self.over:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is in progress")
        if not self.action_space.contains(action):
            raise UserError(f"action {action!r} is not one of 0 to {len(Move) - 1}")
        self.game.act_discrete(np.array([int(action) + 1], np.int32))
        status, reward = self.game.advance()
        self.time += 1
        terminated = bool(status != self.running)
        truncated = not terminated and self.time >= self.max_steps
        self.over = terminated or truncated
        return float(reward), terminated, truncated

    def sprites(self) -> np.ndarray:
        """The numbers of the sprites that lie on each other, [H, W, layers] int32, the lowest first; 0 is none."""
        return np.asarray(self.game.observation("WORLD.LAYER"))


class Board:
    """A game of which the sprites are read instead of a picture; what is new among them is looked up in the picture."""

    def __init__(self, env: Lab2d, dictionary: TileDictionary):
        self.env, self.dictionary = env, dictionary
        self.ids = np.full(SPRITES**3, -1, np.int16)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        self.env.begin(seed)
        return self._read()

    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        given = self.env.act(action)
        return *self._read(), *given

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        sprites = self.env.sprites()
        stacks = sprites @ SPRITES ** np.arange(sprites.shape[-1])
        found = self.ids[stacks]
        if found.min() < 0:
            tiles = cut(self.env.render(), self.dictionary.tile)
            for place in zip(*np.nonzero(found < 0), strict=True):
                self.ids[stacks[place]] = self.dictionary.number(tiles[place])
            found = self.ids[stacks]
        return found.astype(np.uint8), np.zeros(0, np.float32)


def _name(level: str, tile: np.ndarray) -> str | None:
    """What a tile picture [h, w, 3] shows, by its colours, e.g. `box on goal` or `foe > on food`."""
    found: list[str] = []
    for thing, colour in COLOURS[level].items():
        where = np.argwhere((tile == colour).all(-1))
        if len(where):
            headed = level == "chase_eat" and thing in HEADED and not found  # the heading of what lies beneath is hidden
            found.append(f"{thing} {_heading(where - (len(tile) - 1) / 2, HEADED[thing])}" if headed else thing)
    return " on ".join(found) or (None if tile.any() else "empty")


def _heading(where: np.ndarray, sign: int) -> str:
    down, right = where.mean(0) * sign
    return ("v" if down > 0 else "^") if abs(down) > abs(right) else (">" if right > 0 else "<")
