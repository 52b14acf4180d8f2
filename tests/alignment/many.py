"""A small world with many kinds, in NumPy, on a board: to check what is done with more prototypes than can be compared at once.

The agent is one of four arrows: it turns, or goes on. Walls stop it, gold is worth 1 and is gone, lava ends the game, a stone
breaks, a locked door stays, a closed one opens when the agent bumps into it.
"""

from functools import cache

import numpy as np

from protoalign.alignment.local_model import LocalModel
from protoalign.alignment.local_training import LocalConfig, Transitions, train_local
from protoalign.alignment.sampled_judge import CautiousThompson, SampledJudge
from protoalign.rl.networks import Scene
from protoalign.runs import Memory

KINDS = ("floor", "wall", "gold", "lava", "stone", "open", "closed", "locked", "up", "right", "down", "left")
FLOOR, WALL, GOLD, LAVA, STONE, OPEN, CLOSED, LOCKED, UP = range(9)
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))
SIZE = 6
TURN_LEFT, TURN_RIGHT, GO = range(3)
NUMBERS = np.zeros((1, 0), np.float32)
RANDOM = (0.2, 0.2, 0.6)
SEED = 0
SCENE = Scene((SIZE, SIZE), len(KINDS), 3)


class Cave:
    """One board. `tiles` [6, 6] as prototypes."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng

    def reset(self) -> np.ndarray:
        inner = self.rng.choice(9, (SIZE - 2, SIZE - 2), p=[0.52, 0.08, 0.1, 0.08, 0.1, 0.0, 0.06, 0.06, 0.0])
        self.ground = np.full((SIZE, SIZE), WALL)
        self.ground[1:-1, 1:-1] = inner
        self.row, self.col, self.facing = *self.rng.integers(1, SIZE - 1, 2), int(self.rng.integers(4))
        self.ground[self.row, self.col] = FLOOR
        return self.tiles

    @property
    def tiles(self) -> np.ndarray:
        shown = self.ground.copy()
        shown[self.row, self.col] = UP + self.facing
        return shown

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        if action != GO:
            self.facing = (self.facing + (1 if action == TURN_RIGHT else -1)) % 4
            return self.tiles, 0.0, False
        row, col = self.row + STEPS[self.facing][0], self.col + STEPS[self.facing][1]
        there, reward = self.ground[row, col], 0.0
        if there == CLOSED:
            self.ground[row, col] = OPEN
        elif there == STONE:
            self.ground[row, col] = FLOOR
        elif there in (FLOOR, GOLD, OPEN):
            reward = float(there == GOLD)
            if there != OPEN:
                self.ground[row, col] = FLOOR
            self.row, self.col = row, col
        return self.tiles, reward, bool(there == LAVA)


def transitions(number: int, seed: int = 0) -> Transitions:
    """Steps of random play, in prototypes."""
    rng = np.random.default_rng(seed)
    cave, rows, time = Cave(rng), [], 0
    before = cave.reset()
    while len(rows) < number:
        action = int(rng.choice(3, p=RANDOM))
        after, reward, ended = cave.step(action)
        rows.append((before, after, action, reward, ended, 0.0 if ended else 1.0, time == 0))
        before, time = after, time + 1
        if ended or time == 30:
            before, time = cave.reset(), 0
    before, after, action, reward, ended, worth, first = map(np.array, zip(*rows, strict=True))
    nothing = np.zeros((number, 0))
    return Transitions(before, after, nothing.astype(np.float32), nothing.astype(int), action, reward, ended, worth, first)


@cache
def model() -> tuple[LocalModel, dict]:
    """A model of the cave, and its figures on held-out steps."""
    config = LocalConfig(width=24, updates=1500, batch=512, boards=32, learning_rate=1e-2)
    return train_local(Memory(), config, SCENE, transitions(20_000, SEED), SEED)[:2]


class Target:
    """A cave whose kinds look new, but for `known` ones, and its judge. `look(tiles)` [6, 6] are looks, any numbers."""

    def __init__(self, seed: int, look=lambda tiles: tiles, cave: Cave | None = None, known: tuple[int, ...] = ()):
        self.rng = np.random.default_rng(SEED + seed)
        self.cave, self.look, self.known = cave or Cave(np.random.default_rng(SEED + seed)), look, known
        self.met: list[int] = []  # looks, numbered as met
        self.judge = SampledJudge(model()[0], tuple(range(len(KINDS))), self.rng)

    def codes(self, tiles: np.ndarray) -> np.ndarray:
        looks = self.look(tiles)
        self.met += [int(x) for x in np.unique(looks) if x not in self.met and x not in self.known]
        return np.array([[x if x in self.known else len(KINDS) + self.met.index(x) for x in row] for row in looks])

    def play(self, steps: int, actor: CautiousThompson | None = None, episode: int = 30) -> list[int]:
        """Play so many steps, at random or by an actor; the actions taken."""
        actions: list[int] = []
        while len(actions) < steps:
            self.judge.begin(self.codes(self.cave.reset()), len(self.met), NUMBERS)
            if actor is not None:
                actor.begin()
            for _ in range(min(episode, steps - len(actions))):
                actions.append(int(self.rng.choice(3, p=RANDOM)) if actor is None else actor(self.judge))
                tiles, reward, ended = self.cave.step(actions[-1])
                self.judge.watch(actions[-1], reward, self.codes(tiles), len(self.met), NUMBERS, ended)
                if ended:
                    break
        return actions

    @property
    def right(self) -> np.ndarray:
        """Which types [T] are taken for what they are, if looks are numbered as prototypes are."""
        return self.judge.sampler.best == np.array(self.met)
