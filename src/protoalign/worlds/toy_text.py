"""Gymnasium's FrozenLake and CliffWalking, seen as pictures, as Gymnasium 1.3 and as Gymnasium 1.4 draws them.

    from protoalign.worlds import toy_text
    env = toy_text.frozen_lake("gymnasium-1.4")  # or "gymnasium-1.3"

Gymnasium 1.4 drew these worlds anew and left their rules as they were. Both looks come out of one installed Gymnasium: rules,
rewards and random numbers are its own, pictures are those of the release's own wheel. Where another version is installed, the
wheel is fetched by pip on first use, checked, and unpacked into the user's cache; it is never installed or imported.

A frame is, byte by byte, what the release's own `render()` gives. It consists of tiles, drawn once: `read()` gives their ids
and `pictures()` the table of them, so that training may do without drawing frames (`draw=False`).
"""

import functools
import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.toy_text import frozen_lake as lake

from protoalign.errors import NotInstalled, UserError
from protoalign.files import cache_folder

RELEASES = {  # look -> version of Gymnasium, SHA-256 of its wheel
    "gymnasium-1.3": ("1.3.0", "6b8c159a8540dcbcb221722d7efda24d78ebbcbc3bd2ea1c2611aa2a34471fc2"),
    "gymnasium-1.4": ("1.4.0", "1cb947c59e7c72d8eabb2c2274c00cd20948e69f8452a9ef4092223be24fdf0e"),
}
IMAGES = "gymnasium/envs/toy_text/img/"  # where a wheel has its pictures
INSTALLED = Path(lake.__file__).parent / "img"
SIZES = range(2, 9)  # of a frozen lake: Gymnasium draws larger ones with smaller tiles
FROZEN = 0.8  # share of fields that are ice, in a random map
CLIFF = ("............", "............", "............", "SCCCCCCCCCCG")  # the board of CliffWalking
LETTERS = "FHGS.C"
CODES = np.array([max(LETTERS.find(chr(i)), 0) for i in range(256)], np.uint8)  # of letters

Layer = tuple[str, int, int]  # a picture file, and the row and the column where it is laid


def frozen_lake(
    look: str = "gymnasium-1.3",
    size: int = 8,
    slippery: bool = False,
    random_maps: bool = True,
    max_steps: int | None = None,
    draw: bool = True,
) -> "ToyText":
    """FrozenLake-v1 on `size` x `size` fields: a new random map in every episode, or Gymnasium's own (of size 4 or 8). Of at
    most 100 steps, or 200 if it is larger than 4 x 4, as FrozenLake8x8-v1 is."""
    if not isinstance(size, int | np.integer) or size not in SIZES:
        raise UserError(f"size={size!r}: a frozen lake has {SIZES[0]} to {SIZES[-1]} rows")
    if not random_maps and f"{size}x{size}" not in lake.MAPS:
        raise UserError(f"size={size!r}: Gymnasium's own maps are of size 4 and 8; use random_maps=True")
    board = lake.generate_random_map(size, seed=0) if random_maps else lake.MAPS[f"{size}x{size}"]
    game = gymnasium.make("FrozenLake-v1", desc=board, is_slippery=bool(slippery), disable_env_checker=True)
    maps = _Maps(type(game.unwrapped), size, bool(slippery)) if random_maps else None
    longest = (100 if size <= 4 else 200) if max_steps is None else max_steps
    return ToyText(game.unwrapped, "frozen-lake", look, (size, size), longest, draw, maps)


def cliff_walking(look: str = "gymnasium-1.3", max_steps: int = 200, draw: bool = True) -> "ToyText":
    """CliffWalking-v1, 4 x 12 fields; Gymnasium's own has no time limit."""
    return ToyText(_cliff_game(), "cliff-walking", look, (len(CLIFF), len(CLIFF[0])), max_steps, draw)


def _cliff_game() -> Any:
    name = "CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0"  # Gymnasium 1.1; the same rules
    return gymnasium.make(name, disable_env_checker=True).unwrapped


def truth(look: str, world: str) -> dict[bytes, str]:
    """What each tile picture [h, w, 3] of "frozen-lake" or "cliff-walking" shows, by its bytes; for judging only.

    The agent hides the start that it stands on ("agent"), and stands in a hole or at the goal in last frames only ("agent in
    hole", "agent at goal"). Gymnasium 1.4 does not draw it in a hole: that is "hole".
    """
    rows, columns = (8, 8) if world == "frozen-lake" else (len(CLIFF), len(CLIFF[0]))
    album = _album(world, look, rows, columns)
    return {picture.tobytes(): name for picture, name in zip(album.pictures, album.names, strict=True)}


class ToyText(gymnasium.Env[np.ndarray, np.int64]):
    """One game. The n-th episode after `reset(seed=...)` starts the same whatever was done before it.

    An observation is the picture [H * h, W * w, 3] uint8. With draw=False it is not drawn: all observations are one read-only
    array of zeros that takes no memory, and `read()` tells what there is to see.

    game: Gymnasium's own environment, which plays
    tile: (h, w), rows and columns of a tile in pixels
    names: of the pictures, in their order, as in `truth`
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        game: Any,
        world: str,
        look: str,
        grid: tuple[int, int],
        max_steps: int,
        draw: bool = True,
        maps: "_Maps | None" = None,
    ):
        if not isinstance(max_steps, int | np.integer) or max_steps < 1:
            raise UserError(f"max_steps={max_steps!r} is not a whole number from 1 up")
        self.game, self.world, self.look, self.max_steps, self.draw = game, world, look, int(max_steps), bool(draw)
        self._album, self._maps = _album(world, look, *grid), maps
        self.tile: tuple[int, int] = self._album.pictures.shape[1:3]
        self.names = self._album.names
        shape = (grid[0] * self.tile[0], grid[1] * self.tile[1], 3)
        self.observation_space: gymnasium.spaces.Box = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.action_space: gymnasium.spaces.Discrete = gymnasium.spaces.Discrete(4)
        self.render_mode = "rgb_array"
        self.over = True
        self._nothing = np.broadcast_to(np.uint8(0), shape)
        self._ground: np.ndarray | None = None  # [H, W] picture ids, without the agent
        self._agent = np.zeros(0)  # [H * W, 4] picture ids of a field with the agent, by the last action

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        of_map, of_play = self.np_random.integers(2**31, size=2).tolist()
        if self._maps is not None:
            self._maps.renew(self.game, of_map)
        if self._maps is not None or self._ground is None:
            self._ground, self._agent = self._album.board(getattr(self.game, "desc", CLIFF))
        _, info = self.game.reset(seed=of_play)
        self.time, self.over = 0, False
        return self._observation(), info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is in progress")
        if not self.action_space.contains(action):
            raise UserError(f"action {action!r} is not one of 0 to 3")
        _, reward, ended, _, info = self.game.step(int(action))
        self.time += 1
        terminated = bool(ended)
        truncated = not terminated and self.time >= self.max_steps
        self.over = terminated or truncated
        return self._observation(), float(reward), terminated, truncated, info

    def read(self) -> np.ndarray:
        """The current state as picture ids, [H, W] int32."""
        if self._ground is None:
            raise gymnasium.error.ResetNeeded("call reset() first: there is nothing to see")
        grid = self._ground.copy()
        state, last = int(self.game.s), self.game.lastaction
        grid[divmod(state, grid.shape[1])] = self._agent[state, self._album.start_heading if last is None else last]
        return grid

    def pictures(self) -> np.ndarray:
        """All tile pictures of the look, each once, [ids, h, w, 3] uint8, read-only: laid out by `read()`, the frame."""
        return self._album.pictures

    def render(self) -> Any:
        """The picture of the current state, drawn also with draw=False."""
        return self._album.frame(self.read())

    def _observation(self) -> np.ndarray:
        return self._album.frame(self.read()) if self.draw else self._nothing


class _Maps:
    """New boards for one FrozenLake environment, each with the transitions that Gymnasium computes for it.

    Gymnasium takes 0.4 ms for these (slippery: 0.9), three times as long as a short episode. What can happen on a field depends
    on its letter and on those of its four neighbours: where all five are as on an earlier board, it is taken from there.
    """

    def __init__(self, kind: Callable[..., Any], size: int, slippery: bool):
        self.kind, self.size, self.slippery = kind, size, slippery
        self.known = _known(size, slippery)

    def renew(self, game: Any, seed: int) -> None:
        board = np.asarray(lake.generate_random_map(self.size, p=FROZEN, seed=seed), dtype="c")
        around = np.full((self.size + 2, self.size + 2), len(LETTERS), np.int64)
        around[1:-1, 1:-1] = CODES[board.view(np.uint8)]
        five = [around[1:-1, 1:-1], around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]]
        marks = np.arange(self.size**2)
        for letters in five:
            marks = marks * (len(LETTERS) + 1) + letters.ravel()
        keys = marks.tolist()
        try:
            game.P = dict(enumerate(map(self.known.__getitem__, keys)))
        except KeyError:
            game.P = self.kind(desc=board, is_slippery=self.slippery).P
            self.known.update(zip(keys, map(game.P.__getitem__, range(len(keys))), strict=True))
        game.desc = board


@functools.cache
def _known(size: int, slippery: bool) -> dict[int, Any]:
    """Transitions out of a field, by its place and the letters around it; filled by `_Maps` and shared."""
    return {}


# -- drawing ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Style:
    """How a release draws a world."""

    tile: int  # pixels in a row and in a column
    stretched: bool  # pictures are scaled to the size of a tile; else they keep their own
    ground: Callable[[str, int, int], tuple[Layer, ...]]  # letter, row, column -> layers
    agent: Callable[[str, int], tuple[Layer, ...]]  # letter, last action -> layers
    edge: tuple[int, int, int] | None  # colour of a line around a tile, under the agent


def _lake_13(letter: str, row: int, column: int) -> tuple[Layer, ...]:
    things = {"H": "hole", "G": "goal", "S": "stool"}
    return ("ice.png", 0, 0), *((f"{things[letter]}.png", 0, 0) for _ in range(letter in things))


def _lake_elf(letter: str, action: int) -> tuple[Layer, ...]:
    name = "cracked_hole" if letter == "H" else "elf_" + ("left", "down", "right", "up")[action]
    return ((f"{name}.png", 0, 0),)


def _lake_14(letter: str, row: int, column: int) -> tuple[Layer, ...]:
    crack = (3 * column + 5 * row) % 7
    if letter == "H":
        return (("tile_hole.png", 0, 0),)
    over: dict[str, tuple[Layer, ...]] = {
        "F": ((f"tile_ice_crack_{'ab'[crack]}.png", 0, 0),) if crack < 2 else (),
        "S": (("letter_s.png", 4, 4),),
        "G": (("goal_flag.png", 24, 20), ("letter_g.png", 4, 4)),
    }
    return ("tile_ice.png", 0, 0), *over[letter]


def _lake_robot(letter: str, action: int) -> tuple[Layer, ...]:
    return () if letter == "H" else (("agent.png", 14, 12),)


def _cliff_13(letter: str, row: int, column: int) -> tuple[Layer, ...]:
    shade = 1 + (row + column) % 2
    layers: list[Layer] = [(f"mountain_bg{shade}.png", 0, 0)]
    if row + 1 < len(CLIFF) and CLIFF[row + 1][column] == "C":
        layers.append((f"mountain_near-cliff{shade}.png", 0, 0))
    if letter != ".":
        layers.append(({"C": "mountain_cliff.png", "S": "stool.png", "G": "cookie.png"}[letter], 0, 0))
    return tuple(layers)


def _cliff_elf(letter: str, action: int) -> tuple[Layer, ...]:
    return ((f"elf_{('up', 'right', 'down', 'left')[action]}.png", -6, 0),)  # what is cut off at the top is transparent


def _cliff_14(letter: str, row: int, column: int) -> tuple[Layer, ...]:
    edges = {1: "left", len(CLIFF[0]) - 2: "right"}
    over: dict[str, tuple[Layer, ...]] = {
        ".": (),
        "C": ((f"cliff_walking/tile_cliff_{edges.get(column, ('mid_a', 'mid_b')[column % 2])}.png", 0, 0),),
        "S": (("cliff_walking/letter_s.png", 8, 8),),
        "G": (("cliff_walking/letter_g.png", 8, 8), ("cliff_walking/goal_flag.png", 16, 28)),
    }
    return ("cliff_walking/tile_ground.png", 0, 0), *over[letter]


def _cliff_robot(letter: str, action: int) -> tuple[Layer, ...]:
    return (("cliff_walking/agent.png", 20, 20),)


STYLES = {
    ("frozen-lake", "gymnasium-1.3"): _Style(64, True, _lake_13, _lake_elf, (180, 200, 230)),
    ("frozen-lake", "gymnasium-1.4"): _Style(64, False, _lake_14, _lake_robot, (180, 200, 230)),
    ("cliff-walking", "gymnasium-1.3"): _Style(60, True, _cliff_13, _cliff_elf, None),
    ("cliff-walking", "gymnasium-1.4"): _Style(64, False, _cliff_14, _cliff_robot, None),
}
START_HEADING = {"frozen-lake": 1, "cliff-walking": 2}  # down: the agent's, before its first action
NAMES = {"F": "ice", "H": "hole", "G": "goal", "S": "start", ".": "ground", "C": "cliff"}
NAMES_WITH_AGENT = {"H": "agent in hole", "G": "agent at goal"}


class _Album:
    """All tiles of a world in a look: their pictures, and which of them is shown where."""

    def __init__(self, style: _Style, folder: Path, start_heading: int, places: set[tuple[int, int, str]], agents: set[Any]):
        """places: (row, column, letter) that there may be; agents: (row, column, letter, last action) that there may be."""
        self.start_heading = start_heading
        painter = _Painter(style, folder)
        rows, columns = 1 + max(row for row, _, _ in places), 1 + max(column for _, column, _ in places)
        self.ground_id = np.full((rows, columns, len(LETTERS)), -1, np.int32)
        self.agent_id = np.full((rows, columns, len(LETTERS), 4), -1, np.int32)  # -1: never to be seen
        ids: dict[bytes, int] = {}
        pictures, self.names = [], []
        for row, column, letter, *action in (*sorted(places), *sorted(agents)):
            above = style.agent(letter, *action) if action else ()
            picture = painter(style.ground(letter, row, column), above)
            mark = picture.tobytes()
            if mark not in ids:
                ids[mark] = len(ids)
                pictures.append(picture)
                self.names.append(NAMES_WITH_AGENT.get(letter, "agent") if action else NAMES[letter])
            index = (row, column, LETTERS.index(letter))
            if action:
                self.agent_id[(*index, *action)] = ids[mark]
            else:
                self.ground_id[index] = ids[mark]
        self.pictures = np.stack(pictures)  # [ids, h, w, 3]
        self.pictures.flags.writeable = False
        count, height, width, _ = self.pictures.shape
        self.strips = np.ascontiguousarray(self.pictures.reshape(count, height, 3 * width).swapaxes(0, 1))  # [h, ids, w * 3]

    def board(self, letters: Any) -> tuple[np.ndarray, np.ndarray]:
        """Picture ids of a board without the agent [H, W], and of each field with it [H * W, 4], by the last action."""
        codes = CODES[np.asarray(letters, dtype="c").view(np.uint8)]
        place = (*np.indices(codes.shape, sparse=True), codes)
        return self.ground_id[place], self.agent_id[place].reshape(-1, 4)

    def frame(self, grid: np.ndarray) -> np.ndarray:
        """Picture ids [H, W] to a picture [H * h, W * w, 3]."""
        height, _, width = self.strips.shape
        rows, columns = grid.shape
        frame = np.empty((rows, height, columns, width), np.uint8)
        for row, ids in zip(frame, grid, strict=True):
            np.take(self.strips, ids, 1, out=row, mode="clip")  # twenty times as fast as one gather, which copies twice
        return frame.reshape(rows * height, -1, 3)


class _Painter:
    """Lays pictures over each other. Needs no display: nothing of pygame is initialised."""

    def __init__(self, style: _Style, folder: Path):
        self.pygame, self.style, self.folder = _pygame(), style, folder
        self.sprites: dict[str, Any] = {}
        self.done: dict[Any, np.ndarray] = {}

    def __call__(self, ground: tuple[Layer, ...], above: tuple[Layer, ...]) -> np.ndarray:
        """A tile [h, w, 3] uint8."""
        if (ground, above) not in self.done:
            size = (self.style.tile, self.style.tile)
            surface = self.pygame.Surface(size, 0, 32)
            for name, row, column in ground:
                surface.blit(self._sprite(name), (column, row))
            if self.style.edge is not None:
                self.pygame.draw.rect(surface, self.style.edge, (0, 0, *size), 1)
            for name, row, column in above:
                surface.blit(self._sprite(name), (column, row))
            self.done[ground, above] = self.pygame.surfarray.array3d(surface).swapaxes(0, 1).copy()
        return self.done[ground, above]

    def _sprite(self, name: str) -> Any:
        if name not in self.sprites:
            path = self.folder / name
            try:
                sprite = self.pygame.image.load(path)
            except (OSError, self.pygame.error):
                cure = "install Gymnasium anew" if self.folder == INSTALLED else f"remove {self.folder} and try again"
                raise UserError(f"{path} is missing or damaged: {cure}") from None
            size = (self.style.tile, self.style.tile)
            self.sprites[name] = self.pygame.transform.scale(sprite, size) if self.style.stretched else sprite
        return self.sprites[name]


def _pygame() -> Any:
    try:
        import pygame
    except ImportError:
        raise NotInstalled("this world needs the extra toy-text: pip install 'protoalign[toy-text]'") from None
    return pygame


@functools.cache
def _album(world: str, look: str, rows: int, columns: int) -> _Album:
    if world not in START_HEADING:
        raise UserError(f"no world is called '{world}' here: use {' or '.join(START_HEADING)}")
    _pygame()  # before anything is fetched
    folder = picture_folder(look)
    heading = START_HEADING[world]
    if world == "frozen-lake":
        corners = {(0, 0): "S", (rows - 1, columns - 1): "G"}
        places = {(y, x, letter) for y in range(rows) for x in range(columns) for letter in corners.get((y, x), "FH")}
        agents = {(*place, action) for place in places for action in range(4)}
    else:
        places = {(y, x, CLIFF[y][x]) for y in range(rows) for x in range(columns)}
        ways = _ways(_cliff_game(), heading)
        agents = {(*divmod(s, columns), CLIFF[s // columns][s % columns], action) for s, action in ways}
    return _Album(STYLES[world, look], folder, heading, places, agents)


def _ways(game: Any, heading: int) -> set[tuple[int, int]]:
    """All (state, last action) that can come up in a game."""
    game.reset(seed=0)
    found, open_states, seen = {(int(game.s), heading)}, [int(game.s)], {int(game.s)}
    while open_states:
        for action, outcomes in game.P[open_states.pop()].items():
            for _, state, _, ended in outcomes:
                found.add((int(state), action))
                if not ended and int(state) not in seen:
                    seen.add(int(state))
                    open_states.append(int(state))
    return found


# -- picture files ---------------------------------------------------------------------------------------------------------


def picture_folder(look: str) -> Path:
    """The folder with the pictures of the release that a look is named after; fetched on first use if need be."""
    if look not in RELEASES:
        raise UserError(f"'{look}' is not a look of this world: use {' or '.join(RELEASES)}")
    version, checksum = RELEASES[look]
    if gymnasium.__version__ == version:
        return INSTALLED
    try:
        folder = cache_folder() / f"gymnasium-{version}"
        if not folder.is_dir():
            _unpack(version, checksum, folder)
    except OSError as error:
        raise UserError(f"cannot keep pictures: {error}; set XDG_CACHE_HOME to a folder that can be written to") from None
    return folder


def _unpack(version: str, checksum: str, folder: Path) -> None:
    """Put a release's pictures into `folder`, which appears whole or not at all. Several processes may do so at once."""
    given = folder.parent / f"gymnasium-{version}-py3-none-any.whl"
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
        wheel = given if given.is_file() else download(version, Path(work), given)
        data = wheel.read_bytes()
        if hashlib.sha256(data).hexdigest() != checksum:
            cure = f"remove {given}" if wheel == given else "check which package index pip uses"
            raise UserError(
                f"{wheel.name} is not the file that Gymnasium released, its checksum differs: {cure}, and try again"
            )
        made = Path(work) / "img"
        made.mkdir()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                inner = name.removeprefix(IMAGES)
                if name.startswith(IMAGES) and re.fullmatch(r"([\w-]+/)*[\w-]+\.png", inner):
                    (made / inner).parent.mkdir(parents=True, exist_ok=True)
                    (made / inner).write_bytes(archive.read(name))
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


def download(version: str, folder: Path, instead: Path) -> Path:
    """Fetch Gymnasium's wheel into a folder; `instead` is where a user without network may put it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "-d", str(folder), f"gymnasium=={version}"], capture_output=True, text=True, check=False, errors="replace"
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = lines[-1][:200] if lines else "pip found nothing"
        raise UserError(
            f"cannot fetch the pictures of Gymnasium {version} ({why}): go online once, or put the wheel at {instead}"
        )
    return wheels[0]
