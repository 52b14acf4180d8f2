"""Hunter: an agent that shoots zombies and catches cows on a walled grid.

Everything that can happen is in `Hunter.begin` (an episode's start) and `Hunter.transition` (one step). Both are pure
functions of arrays, random numbers included, so a stored episode can be replayed exactly. All arrays carry a batch axis.

Two ideas keep a step cheap. An animal's choice of direction depends only on where it and the agent stand, so all animals
choose at once. Only "is another animal in my way?" depends on who moves first; with one bit per animal that question is
a few integer operations per animal (`_resolve`), whatever the size of the grid.
"""

import re
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.errors import UserError
from protoalign.rng import uniform
from protoalign.worlds import looks
from protoalign.worlds.base import Observation, Spec, Transition
from protoalign.worlds.env import WorldEnv

FLOOR, ZOMBIE, AGENT, COW, WALL = range(5)
KINDS = ("floor", "zombie", "agent", "cow", "wall")
ACTION_NAMES = ("none", "up", "down", "left", "right", "fire-up", "fire-down", "fire-left", "fire-right")
ROW_STEP = np.array([0, -1, 1, 0, 0, -1, 1, 0, 0], np.int32)  # by action
COL_STEP = np.array([0, 0, 0, -1, 1, 0, 0, -1, 1], np.int32)
REACH = 3  # how far a shot flies, and how far away animals notice the agent
TIME_LIMIT = 30
MAX_ANIMALS = 32  # one bit each in `_resolve`
MAX_SIZE = 64  # finding the objects of a larger grid takes a matrix of gigabytes
ART = looks.Art(
    kinds=KINDS,
    redrawn=KINDS,
    drawings={
        "floor": "pkppppkp kppppppp ppppkppp ppkppppp pppppppk ppppkppp kppppppp pppkpppp",  # night meadow
        "zombie": "pccccccp cwwccwwc cwkccwkc cccccccc cccccccc cccccccc cpccpccp cppccppc",  # ghost
        "agent": "pppyyppp ppyyyypp pyyyyyyp yyyrryyy yyyrryyy pyyyyyyp ppyyyypp pppyyppp",  # lantern
        "cow": "ppgggppp pgggggpp rrrrrrrr rwrrwrrw rrrrrrrr ppwwwwpp ppwwwwpp ppwwwwpp",  # toadstool
        "wall": "bbbobbbb bbbobbbb oooooooo bobbbbob bobbbbob oooooooo bbbobbbb bbbobbbb",  # tiles of blue glass
    },
    palette={
        "k": (16, 12, 28), "p": (58, 24, 84), "v": (142, 60, 196), "g": (30, 160, 96), "y": (240, 224, 70),
        "c": (40, 220, 230), "w": (245, 245, 250), "r": (226, 40, 88), "b": (36, 64, 180), "o": (246, 138, 30),
    },
    solid=("floor",),
    salt=0x7E57,
    ground="floor",
    files={"floor": "sand", "agent": "player", "wall": "stone"},
)  # fmt: skip


class State(NamedTuple):
    """A batch of B episodes in progress on H x W grids with N animal slots, zombies first. Tiles are numbered row by row."""

    walls: Array  # [B, H*W] bool
    agent: Array  # [B] int32, tile
    animals: Array  # [B, N] int32, tile
    alive: Array  # [B, N] bool
    time: Array  # [B] int32, steps taken
    ending: Array  # [B] bool, the next step returns done


class Hunter(eqx.Module):
    """The world `ZxCy` with x zombies and y cows; with several variants, each episode draws one of them.

    A tile's picture id is its kind, an index into `KINDS`.
    """

    variants: tuple[tuple[int, int], ...] = eqx.field(static=True, default=((1, 1),))  # (zombies, cows)
    size: int = eqx.field(static=True, default=8)
    tile: int = eqx.field(static=True, default=8)  # pixels

    def __check_init__(self) -> None:
        if not 6 <= self.size <= MAX_SIZE:
            raise UserError(f"Hunter's grid is from 6 x 6 to {MAX_SIZE} x {MAX_SIZE}, not {self.size} x {self.size}")
        looks.check_tile(self.tile)
        room = self.size**2 - self.max_walls - 1
        for zombies, cows in self.variants:
            if min(zombies, cows) < 0 or not 0 < zombies + cows <= min(room, MAX_ANIMALS):
                raise UserError(
                    f"Z{zombies}C{cows} does not fit: a {self.size} x {self.size} Hunter holds 1 to "
                    f"{min(room, MAX_ANIMALS)} animals"
                )
        if self.num_animals > MAX_ANIMALS:
            raise UserError(f"{self.variant_name} needs {self.num_animals} animal slots and there are {MAX_ANIMALS}")

    @property
    def spec(self) -> Spec:
        grid = "" if self.size == 8 else f"-{self.size}x{self.size}"
        return Spec(
            name=f"hunter-{self.variant_name}{grid}",
            grid=(self.size, self.size),
            actions=ACTION_NAMES,
            max_steps=TIME_LIMIT + 1,
            truth=KINDS,
            objects=self.max_objects,
        )

    def pictures(self, look: str) -> np.ndarray:
        """[5, tile, tile, 3] uint8; [2, 5, tile, tile, 3] for a look `two:KIND:LOOK`."""
        return looks.pictures(look, ART, self.tile)

    def make(self, look: str = "source", **options: Any) -> WorldEnv:
        return WorldEnv(self, look, **options)

    def varied(self) -> "Hunter":
        """The same with more variants: what is learned in one is to carry over to the others."""
        room = min(self.size**2 - self.max_walls - 1, MAX_ANIMALS)
        found = self.variants
        for more in ((n, n) for n in range(1, 5)):
            slots = max(z for z, _ in (*found, more)) + max(c for _, c in (*found, more))
            found = (*found, more) if more not in found and slots <= room else found
        return replace(self, variants=found)

    @property
    def variant_name(self) -> str:
        return "/".join(f"z{z}c{c}" for z, c in self.variants)

    @property
    def max_walls(self) -> int:
        return 2 * (self.size - 1)

    @property
    def max_objects(self) -> int:
        """No more tiles than this can be other than floor."""
        return self.max_walls + 1 + self.num_animals

    @property
    def num_zombies(self) -> int:
        return max(z for z, _ in self.variants)

    @property
    def num_animals(self) -> int:
        return self.num_zombies + max(c for _, c in self.variants)

    @property
    def _is_zombie(self) -> np.ndarray:
        return np.arange(self.num_animals) < self.num_zombies

    # -- one episode's start ---------------------------------------------------------------------------------------

    @property
    def begin_draws(self) -> int:
        return 8 + self.num_animals

    def reset(self, key: Array, batch: int) -> State:
        return self.begin(uniform(key, (batch, self.begin_draws)))

    def begin(self, u: Array) -> State:
        """Start states from uniform numbers u [B, begin_draws]: anchors (4), directions (2), variant, agent, animals."""
        size = self.size
        row, col = np.divmod(np.arange(size * size, dtype=np.int32), size)
        near_corner = _pick(u[:, 0:2], 1, size // 4)  # anchor of wall 1: [B, 2] row and column
        far_corner = _pick(u[:, 2:4], size // 2, size - 2)
        direction = _pick(u[:, 4:6], 0, 3)
        r1, c1, r2, c2 = (x[:, None] for x in (*near_corner.T, *far_corner.T))
        d1, d2 = direction[:, :1], direction[:, 1:]
        wall1 = _segment(r1, c1, d1, row, col)
        wall2 = _segment(r2, c2, d2, row, col)
        # Two of the sixteen pairs of directions could close off a corner: the second wall gives way.
        wall2 &= ~((d1 == 0) & (d2 == 3) & (col < c1))
        wall2 &= ~((d1 == 2) & (d2 == 1) & (row < r1))
        walls = wall1 | wall2

        tile = jnp.arange(size * size)
        agent = _place(u[:, 7], ~walls)
        free = ~walls & (tile != agent[:, None])
        near = jnp.maximum(abs(row - agent[:, None] // size), abs(col - agent[:, None] % size)) <= REACH
        variant = _pick(u[:, 6], 0, len(self.variants) - 1)
        zombies, cows = jnp.array(self.variants)[variant].T
        slot = np.arange(self.num_animals)
        alive = jnp.where(self._is_zombie, slot < zombies[:, None], slot - self.num_zombies < cows[:, None])  # [B, N]
        animals = []
        for i in range(self.num_animals):
            far = free & ~near
            spot = _place(u[:, 8 + i], jnp.where(far.any(1, keepdims=True), far, free))
            free &= (tile != spot[:, None]) | ~alive[:, i, None]
            animals.append(spot)
        batch = u.shape[0]
        return State(walls, agent, jnp.stack(animals, 1), alive, jnp.zeros(batch, jnp.int32), jnp.zeros(batch, bool))

    # -- one step --------------------------------------------------------------------------------------------------

    @property
    def step_draws(self) -> int:
        return 1 + self.num_animals

    def step(self, state: State, action: Array, key: Array) -> tuple[State, Transition]:
        return self.transition(state, action, uniform(key, (action.shape[0], self.step_draws)))

    def transition(self, state: State, action: Array, u: Array) -> tuple[State, Transition]:
        """One step from actions [B] and uniform numbers u [B, step_draws]: who moves first, then one per animal."""
        size = self.size
        row, col = state.agent // size, state.agent % size  # before acting: animals flee from here
        dr, dc = jnp.asarray(ROW_STEP)[action], jnp.asarray(COL_STEP)[action]

        # The agent walks...
        blocked, ahead = self._look(state.walls, (row + dr)[:, None], (col + dc)[:, None])
        walks = (action >= 1) & (action <= 4) & ~blocked[:, 0]
        agent = jnp.where(walks, ahead[:, 0], state.agent)
        met = state.alive & walks[:, None] & (state.animals == agent[:, None])
        # ... or shoots, through walls and through everything it hits.
        off_r = state.animals // size - row[:, None]
        off_c = state.animals % size - col[:, None]
        along = off_r * dr[:, None] + off_c * dc[:, None]
        aligned = off_r * dc[:, None] == off_c * dr[:, None]
        shot = state.alive & (action >= 5)[:, None] & aligned & (along >= 1) & (along <= REACH)
        worth = np.where(self._is_zombie, 1.0, -1.0).astype(np.float32)  # of a shot; of walking into it, the opposite
        reward = (jnp.where(shot, worth, 0) - jnp.where(met, worth, 0)).sum(1)
        alive = state.alive & ~met & ~shot

        # Every second step the animals move.
        awake = alive & (state.time % 2 == 1)[:, None]
        step_r, step_c = self._choose(state.animals, off_r, off_c, u[:, 1:])
        blocked, target = self._look(state.walls, state.animals // size + step_r, state.animals % size + step_c)
        caught = awake & ~blocked & (target == agent[:, None])
        reward -= caught.sum(1)
        wants = awake & ~blocked & ~caught
        moved = self._resolve(state.animals, target, alive, wants, caught, zombies_first=u[:, 0] < 0.5)
        animals = jnp.where(moved, target, state.animals)
        alive &= ~caught

        time = state.time + 1
        cleared = ~alive.any(1)
        after = State(state.walls, agent, animals, alive, time, state.ending | (time >= TIME_LIMIT) | cleared)
        return after, Transition(reward, state.ending & cleared, state.ending & ~cleared)

    def _look(self, walls: Array, row: Array, col: Array) -> tuple[Array, Array]:
        """Whether wall or the edge stops a move to [B, N] places, and their tiles (clipped into the grid)."""
        inside = (row >= 0) & (row < self.size) & (col >= 0) & (col < self.size)
        tile = jnp.clip(row, 0, self.size - 1) * self.size + jnp.clip(col, 0, self.size - 1)
        return ~inside | jnp.take_along_axis(walls, tile, 1), tile

    def _choose(self, animals: Array, off_r: Array, off_c: Array, u: Array) -> tuple[Array, Array]:
        """Each animal's direction: away from an agent it notices four times as likely as any other."""
        notices = jnp.maximum(abs(off_r), abs(off_c)) <= REACH
        row, col = animals // self.size, animals % self.size
        flees = [  # up, down, left, right: inside the grid and farther from the agent
            (row > 0) & (off_r <= 0),
            (row < self.size - 1) & (off_r >= 0),
            (col > 0) & (off_c <= 0),
            (col < self.size - 1) & (off_c >= 0),
        ]
        up, down, left, right = (jnp.where(notices & f, 4.0, 1.0) for f in flees)
        dart = u * (up + down + left + right)
        goes_up, goes_down, goes_left = dart < up, dart < up + down, dart < up + down + left
        step_r = jnp.where(goes_up, -1, jnp.where(goes_down, 1, 0))
        step_c = jnp.where(goes_down, 0, jnp.where(goes_left, -1, 1))
        return step_r, step_c

    def _resolve(self, animals: Array, target: Array, alive: Array, wants: Array, caught: Array, zombies_first: Array) -> Array:
        """Which animals get to move, one after another; [B, N] bool.

        Bit j of a word stands for animal j. `here[i]` marks the animals standing where i wants to go, `there[i]` those
        heading for the same tile. An earlier animal is in i's way on its new tile if it moved and on its old one if not.
        """
        n = self.num_animals
        bit = np.left_shift(np.uint32(1), np.arange(n, dtype=np.uint32))

        def words(flags: Array) -> Array:
            return jnp.where(flags, bit, jnp.uint32(0)).sum(-1, dtype=jnp.uint32)

        here = words(target[:, :, None] == animals[:, None, :])  # [B, N]
        there = words(target[:, :, None] == target[:, None, :])

        def take_turns(order: list[int]) -> Array:
            left = words(~alive)  # no longer on their old tile
            moved = jnp.zeros_like(left)
            for i in order:
                in_way = (here[:, i] & ~left) | (there[:, i] & moved)
                moved |= jnp.where(wants[:, i] & (in_way == 0), bit[i], jnp.uint32(0))
                left |= (moved & bit[i]) | jnp.where(caught[:, i], bit[i], jnp.uint32(0))
            return moved

        zombies, cows = list(range(self.num_zombies)), list(range(self.num_zombies, n))
        moved = jnp.where(zombies_first, take_turns(zombies + cows), take_turns(cows + zombies))
        return (moved[:, None] & bit) != 0

    # -- what is seen ----------------------------------------------------------------------------------------------

    def observe(self, state: State) -> Observation:
        """The kind of every tile, [B, H, W] uint8, and no numbers, [B, 0]."""
        tile = jnp.arange(self.size**2)
        grid = jnp.where(state.walls, jnp.uint8(WALL), jnp.uint8(FLOOR))
        for i in range(self.num_animals):
            kind = jnp.uint8(ZOMBIE if self._is_zombie[i] else COW)
            grid = jnp.where((tile == state.animals[:, i, None]) & state.alive[:, i, None], kind, grid)
        grid = jnp.where(tile == state.agent[:, None], jnp.uint8(AGENT), grid)
        return Observation(grid.reshape(-1, self.size, self.size), jnp.zeros((len(grid), 0)))


def _pick(u: Array, low: int, high: int) -> Array:
    """Uniform numbers to uniform integers low..high."""
    return low + jnp.floor(u * (high - low + 1)).astype(jnp.int32)


def _place(u: Array, free: Array) -> Array:
    """A uniformly chosen free tile, [B]: the k-th free one is where the running count first passes k."""
    count = jnp.cumsum(free, 1, dtype=jnp.int32)
    k = jnp.floor(u * count[:, -1]).astype(jnp.int32)
    return (count <= k[:, None]).sum(1, dtype=jnp.int32)


def _segment(anchor_r: Array, anchor_c: Array, direction: Array, row: np.ndarray, col: np.ndarray) -> Array:
    """Tiles [B, H*W] of a wall from its anchor to the bottom (0), top (1), right (2) or left (3) edge."""
    same_col, same_row = col == anchor_c, row == anchor_r
    return jnp.select(
        [direction == 0, direction == 1, direction == 2],
        [same_col & (row >= anchor_r), same_col & (row <= anchor_r), same_row & (col >= anchor_c)],
        same_row & (col <= anchor_c),
    )


def parse(variant: str, size: int | str = 8, tile: int = 8) -> Hunter:
    """`z1c1`, `Z3C3` or `z1c1/z2c2` to a world."""
    parts = [re.fullmatch("z([0-9]{1,4})c([0-9]{1,4})", part) for part in variant.lower().split("/")]
    if not all(parts):
        raise UserError(f"no Hunter variant '{variant}': write ZxCy, e.g. Z1C1, or Z1C1/Z2C2 for one of them per episode")
    return Hunter(tuple((int(m[1]), int(m[2])) for m in parts if m), int(size), tile)
