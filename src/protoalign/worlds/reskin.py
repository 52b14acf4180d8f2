"""Any Gymnasium environment whose picture is made of tiles, in another look.

    from protoalign.worlds.reskin import Reskin
    env = Reskin(env, tile=8, seed=3)

What happens is as before; only the pictures differ. Tiles are told apart by their exact bytes, and every one of them ever met
is kept: pictures with noise, of which no two tiles are alike, are not for this.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from PIL import Image

from protoalign.errors import UserError
from protoalign.perception.tiles import Tile, check_picture
from protoalign.worlds import looks

BLOCKS = 4  # rows and columns of a random picture, at most
GROUND_CELLS = 4  # of a frame that a ground covers, at least
SHOWN = (0.15, 0.85)  # share of a ground's pixels that show under a thing, at least and at most


def mark(tile: np.ndarray) -> str:
    """What the file of a tile picture [h, w, 3] uint8 is called in a folder, without .png: 16 hex digits."""
    return _mark(check_picture(tile).tobytes())


class Reskin(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment whose observations are pictures [H * h, W * w, 3] uint8, or dicts with one as "view", in another look.

    tile         pixels of a tile, h = w or (h, w); None: the environment's attribute `tile`
    seed         of the look "random"
    look         "random": every tile has a random picture of its own, told by the seed and its bytes alone;
                 a folder: a tile looks as in the file MARK.png, black where that is transparent, or as it did if there is none;
                 a mapping: from the bytes of tiles to pictures [h', w', 3] uint8, in which no tile may be missing
    over_ground  with "random": one thing on two grounds has one sprite, with gaps through which the new grounds show.
                 Grounds are told from what was met so far: this look depends on the order in which tiles are met.

    A render_mode "human" shows the old look.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        tile: int | Tile | None = None,
        seed: int = 0,
        look: str | Path | Mapping[bytes, Any] = "random",
        over_ground: bool = False,
    ):
        RecordConstructorArgs.__init__(self, tile=tile, seed=seed, look=look, over_ground=over_ground)
        super().__init__(env)
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise UserError(f"seed={seed!r} is not a whole number from 0 up")
        self._random = isinstance(look, str) and look == "random"
        if over_ground and not self._random:
            raise UserError("over_ground=True is for look='random' only")
        self._old_tile = _tile(env, tile)
        self.tile = self._old_tile  # rows and columns of a new picture
        self._seed, self._over_ground = int(seed), over_ground
        self._given: dict[str, np.ndarray] = {}  # mark -> new picture, of a folder or a mapping
        self._complete = isinstance(look, Mapping)  # every tile must be among these
        if isinstance(look, Mapping):
            self._given = _mapped(look, self._old_tile)
            height, width, _ = next(iter(self._given.values())).shape
            self.tile = (height, width)
        elif not self._random:
            self._given = _folder(look, self._old_tile)
        self.looks: dict[bytes, np.ndarray] = {}  # bytes of a tile that was met -> its new picture [h', w', 3]
        self._origins: dict[bytes, bytes] = {}  # and back
        self._grounds: list[bytes] = []
        self._old: np.ndarray | None = None  # the last picture
        self._new: np.ndarray | None = None  # and what it was redrawn as
        self.observation_space = self._space(env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._observation(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._observation(observation), reward, terminated, truncated, info

    def render(self) -> Any:
        """The environment's picture in the new look; if that is of another size than observations, the last observation."""
        if self.render_mode != "rgb_array":
            return self.env.render()
        if self._old is None or self._new is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        picture: Any = self.env.render()
        return self._redrawn(picture) if np.shape(picture) == self._old.shape else self._new.copy()

    def origin(self, picture: np.ndarray) -> np.ndarray | None:
        """The tile [h, w, 3] that a new picture [h', w', 3] stands for, among those met; None if it is not known."""
        new = check_picture(picture)
        old = self._origins.get(new.tobytes()) if new.shape == (*self.tile, 3) else None
        return None if old is None else self._array(old).copy()

    def _space(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        """The space of observations in the new look."""
        if isinstance(space, gymnasium.spaces.Dict) and "view" in space.spaces:
            return gymnasium.spaces.Dict({**space.spaces, "view": self._space(space["view"])})
        shape = space.shape if isinstance(space, gymnasium.spaces.Box) else None
        if shape is None or len(shape) != 3 or shape[2] != 3 or space.dtype != np.uint8:
            raise UserError(f"observations must be pictures [height, width, 3] uint8, or dicts with one as 'view', not {space}")
        rows, columns = looks.cut(np.empty(shape, np.uint8), self._old_tile).shape[:2]
        box: Any = gymnasium.spaces.Box
        return box(0, 255, (rows * self.tile[0], columns * self.tile[1], 3), np.uint8)

    def _observation(self, observation: Any) -> Any:
        if isinstance(observation, Mapping):
            return {**observation, "view": self._redrawn(observation["view"])}
        return self._redrawn(observation)

    def _redrawn(self, picture: Any) -> np.ndarray:
        """A picture [H * h, W * w, 3] as [H * h', W * w', 3]. Only tiles that have changed since the last one are looked up."""
        picture = check_picture(picture)
        if picture.ndim != 3:
            raise UserError(f"a picture must have shape [height, width, 3], not {list(picture.shape)}")
        tiles = looks.cut(picture, self._old_tile)
        rows, columns, h, w, _ = tiles.shape
        if self._old is None or self._new is None or self._old.shape != picture.shape:
            changed = np.arange(rows * columns)
            new = np.empty((rows * self.tile[0], columns * self.tile[1], 3), np.uint8)
        else:
            changed = _changed(picture, self._old, h, w)
            new = self._new.copy()
        where = [divmod(cell, columns) for cell in changed.tolist()]
        names = [tiles[place].tobytes() for place in where]
        if any(name not in self.looks for name in names):
            self._meet(tiles)
        drawn = looks.cut(new, self.tile)
        for place, name in zip(where, names, strict=True):
            drawn[place] = self.looks[name]
        self._old, self._new = picture.copy(), new
        return new.copy()

    def _meet(self, tiles: np.ndarray) -> None:
        """Give looks to the tiles [H, W, h, w, 3] of a frame that have none yet: first to those that cover most cells."""
        cells = Counter(tile.tobytes() for row in tiles for tile in row)
        for name, count in sorted(cells.items(), key=lambda item: (-item[1], item[0])):
            ground = self._under(name) if self._over_ground else None
            if name not in self.looks:
                new = self._draw(name, ground) if self._random else self._lookup(name)
                new.flags.writeable = False
                self.looks[name] = new
                self._origins.setdefault(new.tobytes(), name)
            if self._over_ground and ground is None and count >= GROUND_CELLS and name not in self._grounds:
                self._grounds.append(name)

    def _lookup(self, name: bytes) -> np.ndarray:
        new = self._given.get(_mark(name))
        if new is None and self._complete:
            raise UserError(f"the mapping has no picture for the tile with the mark {_mark(name)}: it must have all tiles")
        return self._array(name).copy() if new is None else new

    def _draw(self, name: bytes, ground: bytes | None) -> np.ndarray:
        """A random picture [h, w, 3] that no other tile has."""
        thing = name
        if ground is not None:
            tile = self._array(name)
            differs = (tile != self._array(ground)).any(-1)
            thing = b"thing" + differs.tobytes() + tile[differs].tobytes()
        draw = 0
        while True:
            colours, opaque = _blocks(thing, self._seed, draw, self.tile)
            new = colours if ground is None else np.where(opaque[..., None], colours, self.looks[ground])
            if new.tobytes() not in self._origins:
                return new
            draw += 1

    def _under(self, name: bytes) -> bytes | None:
        """The ground that a tile shows a thing on, if it does."""
        if name in self._grounds or not self._grounds:
            return None
        tile = self._array(name)
        shown = [float((tile == self._array(ground)).all(-1).mean()) for ground in self._grounds]
        most = max(shown)
        return self._grounds[shown.index(most)] if SHOWN[0] <= most <= SHOWN[1] else None

    def _array(self, name: bytes) -> np.ndarray:
        return np.frombuffer(name, np.uint8).reshape(*self._old_tile, 3)


def _changed(one: np.ndarray, other: np.ndarray, h: int, w: int) -> np.ndarray:
    """The numbers of the cells in which two pictures [H * h, W * w, 3] differ, in order, [n] int."""
    row, column = np.divmod(np.flatnonzero(one != other), one.shape[1] * 3)
    columns = one.shape[1] // w
    differs = np.zeros(one.shape[0] // h * columns, bool)
    differs[row // h * columns + column // (3 * w)] = True
    return np.flatnonzero(differs)


def _blocks(name: bytes, seed: int, draw: int, tile: Tile) -> tuple[np.ndarray, np.ndarray]:
    """Random blocks of colour [h, w, 3] uint8, and whether they are opaque, [h, w] bool: half of the blocks are.

    All 64 bytes of a hash are used: three for the colour of each of 16 blocks, and one for its rank among the opaque ones.
    """
    rows, columns = (min(BLOCKS, size) for size in tile)
    numbers = np.frombuffer(hashlib.blake2b(f"{seed} {draw} ".encode() + name).digest(), np.uint8)
    count = rows * columns
    colours = numbers[: 3 * count].reshape(rows, columns, 3)
    opaque = np.zeros(count, bool)
    opaque[np.argsort(numbers[-count:], kind="stable")[: count // 2]] = True
    at = np.ix_(*(np.arange(size) * number // size for size, number in zip(tile, (rows, columns), strict=True)))
    return colours[at], opaque.reshape(rows, columns)[at]


def _mark(name: bytes) -> str:
    return hashlib.blake2b(name, digest_size=8).hexdigest()


def _tile(env: gymnasium.Env[Any, Any], tile: Any) -> Tile:
    """Rows and columns of a tile in pixels."""
    if tile is None:
        try:
            tile = env.get_wrapper_attr("tile")
        except AttributeError:
            raise UserError("the environment does not say how large its tiles are: pass tile=, in pixels") from None
    pair = tuple(tile) if isinstance(tile, tuple | list | np.ndarray) and np.ndim(tile) == 1 else (tile, tile)
    if len(pair) != 2 or not all(isinstance(size, int | np.integer) and size >= 1 for size in pair):
        raise UserError(f"tile={tile!r} is not a whole number of pixels from 1 up, or two of them: pass tile=8 or tile=(8, 6)")
    return int(pair[0]), int(pair[1])


def _mapped(look: Mapping[bytes, Any], tile: Tile) -> dict[str, np.ndarray]:
    """The pictures of a mapping, by the marks of the tiles they stand for."""
    h, w = tile
    if not look:
        raise UserError("the mapping is empty: it must have a picture for every tile")
    if any(not isinstance(name, bytes) or len(name) != h * w * 3 for name in look):
        raise UserError(f"the keys of a mapping must be the bytes of tiles of {h} x {w} pixels: use tile.tobytes()")
    given = {_mark(name): check_picture(picture).copy() for name, picture in look.items()}
    sizes = sorted({picture.shape for picture in given.values()})
    if len(sizes) > 1 or len(sizes[0]) != 3:
        raise UserError(f"the pictures of a mapping must be of one size [h, w, 3], not {' and '.join(map(str, sizes[:3]))}")
    if min(sizes[0]) < 1:
        raise UserError(f"the pictures of a mapping have no pixels: their shape is {list(sizes[0])}")
    return given


def _folder(look: Any, tile: Tile) -> dict[str, np.ndarray]:
    """The pictures of a folder, by their marks."""
    known = isinstance(look, str | Path) and str(look) != ""
    try:
        folder = Path(look).expanduser() if known else Path()
        paths = sorted(folder.iterdir()) if known and folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # no such user, a name that is too long, no permission
        paths = None
    if paths is None:
        raise UserError(f"no look is called '{looks._short(look)}': use random, a folder of PNG files, or a mapping")
    given = {path.stem: _read(path, tile) for path in paths if re.fullmatch(r"[0-9a-f]{16}\.png", path.name)}
    if not given:
        raise UserError(f"{looks._short(folder)} has no picture of any tile: put PNG files there, named mark(tile).png")
    return given


def _read(path: Path, tile: Tile) -> np.ndarray:
    """A PNG of the size of a tile, [h, w, 3] uint8."""
    h, w = tile
    sprite = None
    try:
        with Image.open(path, formats=["PNG"]) as image:
            width, height = image.size
            if image.mode.startswith("I"):  # grey of 16 bits, which `convert` would cut off at 255
                raise ValueError
            if (height, width) == tile:
                sprite = np.array(image.convert("RGBA"))
    except Exception:  # damaged files can end in almost anything
        raise UserError(f"{looks._short(path)} is not a readable picture: use PNG files in RGB or RGBA") from None
    if sprite is None:
        raise UserError(f"{looks._short(path)} has {height} x {width} pixels: a tile has {h} x {w}")
    return looks.over(sprite, np.zeros_like(sprite))[..., :3].copy()
