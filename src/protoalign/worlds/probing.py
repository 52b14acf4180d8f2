"""Whether an environment is one to learn in: what it shows, gives and raises, in words for the user."""

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import numpy as np

from protoalign.errors import UserError
from protoalign.worlds.looks import cut
from protoalign.worlds.tile_dictionary import MOST
from protoalign.worlds.tile_size import LARGEST, SMALLEST

PROBED = 60  # pictures of random play by which an environment is judged before training
SHORT = 5  # steps of each game in which the tile size is looked for: pictures of one game are much alike
MOST_SINGLE = 0.35  # share of tiles that no other tile equals; above, the picture is not made of tiles
MOST_FIXED = 0.5  # ... that are like no tile at any other place, in boards of at least FEW tiles
MOST_PASSING = 0.25  # share of different pictures that are in one frame only, if there are at least FEW of them
MOST_VARIOUS = 0.5  # ... of a picture's tiles that differ, where smaller tiles would be fewer by half
FEW = 9


def probe(env: gymnasium.Env, tile: tuple[int, int], origin: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Play a little at random; the first picture and numbers. A UserError says what is wrong with an environment, and the
    `origin` of the tile size if it is wrong with that."""
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    first: Any = None
    met, over = _Met(tile), False
    actions = int(env.action_space.n)  # type: ignore[attr-defined]
    for _ in range(PROBED):
        numbers = observation["numbers"] if isinstance(observation, dict) else np.zeros(0, np.float32)
        picture = observation["view"] if isinstance(observation, dict) else observation
        if picture.shape[0] % tile[0] or picture.shape[1] % tile[1] or not picture.size:
            raise UserError(
                f"a picture of {size(picture.shape)} pixels is not made of tiles of {tile[0]} x {tile[1]}: give the right "
                "tile size, or cut a border off with crop"
            )
        if picture.size > LARGEST * 3 * tile[0] * tile[1]:
            raise UserError(f"a picture of {size(picture.shape)} pixels has more than {LARGEST} tiles: give a larger tile size")
        first = (picture, numbers) if first is None else first
        if len(numbers) != len(first[1]):
            raise UserError(f"there were {len(first[1])} numbers first, then {len(numbers)}: name only keys that stay as long")
        met.see(picture)
        if over:
            (observation, _), over = env.reset(), False
        else:
            observation, _, terminated, truncated, _ = env.step(int(rng.integers(actions)))
            over = terminated or truncated
    try:
        met.check()
    except UserError as error:
        raise UserError(f"{error}{origin}") from None
    return first


def pictures_of(env: gymnasium.Env) -> list[np.ndarray]:
    """Pictures [H*h, W*w, 3] uint8 of short random games, to find out what they are made of."""
    rng, found, over = np.random.default_rng(0), list[np.ndarray](), True
    for time in range(PROBED):
        if over or time % SHORT == 0:
            observation, _ = env.reset(seed=0) if time == 0 else env.reset()
            over = False
        else:
            observation, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))  # type: ignore[attr-defined]
            over = terminated or truncated
        found.append(observation["view"] if isinstance(observation, dict) else observation)
    return found


def repeats(make: Callable[[], gymnasium.Env]) -> bool:
    """Whether two environments that are begun from one seed show the same, and earn the same by the same actions."""
    rng, envs = np.random.default_rng(0), [make(), make()]
    seen: list[Any] = [(*env.reset(seed=0)[:1], 0.0, False, False) for env in envs]
    for _ in range(PROBED):
        one, other = ((x[0]["view"] if isinstance(x[0], dict) else x[0]) for x in seen)
        if not np.array_equal(one, other) or seen[0][1:] != seen[1][1:]:
            return False
        if seen[0][2] or seen[0][3]:
            break
        action = int(rng.integers(envs[0].action_space.n))  # type: ignore[attr-defined]
        seen = [env.step(action)[:4] for env in envs]
    for env in envs:
        env.close()
    return True


class _Met:
    """The tiles of some pictures, to judge whether the pictures are made of them."""

    def __init__(self, tile: tuple[int, int]):
        self.tile, self.frames = tile, 0
        self.count: dict[bytes, int] = {}  # of each different tile
        self.place: dict[bytes, int | None] = {}  # where it is; None: not always there
        self.frame: dict[bytes, int | None] = {}  # when it was; None: not only then
        self.various = 0  # different tiles in each picture, summed up
        self.others: dict[tuple[int, int], set[bytes]] = {}  # tiles that are so many times as large, or as small

    def see(self, picture: np.ndarray) -> None:
        """A picture [H*h, W*w, 3] uint8."""
        h, w = self.tile
        rows, columns = picture.shape[0] // h, picture.shape[1] // w
        marks = _marks(picture, self.tile)
        for i, mark in enumerate(marks):
            self.count[mark] = self.count.get(mark, 0) + 1
            self.place[mark] = i if self.place.setdefault(mark, i) == i else None
            self.frame[mark] = self.frames if self.frame.setdefault(mark, self.frames) == self.frames else None
        larger = [(n * h, n * w) for n in range(2, min(rows, columns) // 3 + 1) if rows % n == 0 and columns % n == 0]
        smaller = [(h // n, w // n) for n in range(2, 5) if h % n == 0 and w % n == 0 and min(h, w) >= n * SMALLEST]
        for tile in larger + smaller:
            self.others.setdefault(tile, set()).update(_marks(picture, tile))
        self.various += len(set(marks))
        self.cells, self.frames = len(marks), self.frames + 1

    def check(self) -> None:
        """Refuse what is not made of tiles of this size."""
        h, w = self.tile
        kinds, total = len(self.count), sum(self.count.values())
        if kinds == 1:
            raise UserError("all tiles of the first pictures are the same: is this the right picture, and the right tile size?")
        single = sum(n == 1 for n in self.count.values())
        passing = sum(frame is not None for frame in self.frame.values())
        fixed = sum(n for mark, n in self.count.items() if self.place[mark] is not None)
        seen = f"{kinds} different tiles of {h} x {w} pixels were in {self.frames} pictures of {self.cells} tiles"
        told = "these pictures are not made of tiles of that size that look the same everywhere and every time"
        if self.various > MOST_VARIOUS * total:
            self._suggest(larger=False, seen=seen)
        if kinds > MOST or single > MOST_SINGLE * total or (passing >= FEW and passing > MOST_PASSING * kinds):
            raise UserError(f"{seen}, {passing} of them in one picture only: {told}")
        if self.cells >= FEW and fixed > MOST_FIXED * total:
            raise UserError(f"{seen}, and {fixed / total:.0%} of all tiles are like none at another place: {told}")
        self._suggest(larger=True, seen=seen)

    def _suggest(self, larger: bool, seen: str) -> None:
        """Name another tile size if tiles would be far fewer."""
        kinds, (h, _) = len(self.count), self.tile
        for tile, marks in sorted(self.others.items(), reverse=True):
            if (tile[0] > h) == larger and len(marks) * (tile[0] if larger else 2 * h) < kinds * h:
                raise UserError(f"{seen}, but only {len(marks)} of {size(tile)}: give that as the tile size")


def _marks(picture: np.ndarray, tile: tuple[int, int]) -> list[bytes]:
    """What tells the tiles of a picture apart."""
    return [square.tobytes() for square in cut(picture, tile).reshape(-1, *tile, 3)]


def blame(name: str, what: str, error: Exception) -> NoReturn:
    """Tell what an environment has raised, in one line. What is for the user, or is the caller's mistake, goes on as it is."""
    if isinstance(error, UserError | gymnasium.error.ResetNeeded):
        raise error
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    said = f"{type(error).__name__} in {what}(): {one_line(error) or 'no message'}"
    raise UserError(f"{name} raised {said} ({where})") from error


def check_reward(name: str, reward: Any) -> None:
    """Refuse what is no finite number."""
    try:
        good = bool(np.isfinite(float(reward)))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise UserError(f"{name} gave the reward {one_line(reward)}: it must be a finite number")


def checked(raw: Any) -> np.ndarray:
    """What is shown, if it is a picture [height, width, 3] uint8."""
    if isinstance(raw, Mapping):
        has = ", ".join(map(str, raw))
        raise UserError(f"the observation is a dictionary of {has}: say which is the picture with picture=")
    try:
        picture = np.asarray(raw)
    except ValueError:  # parts of different sizes
        raise UserError(f"the observation is a {type(raw).__name__} of parts, not a picture [height, width, 3] uint8") from None
    if picture.ndim != 3 or picture.shape[-1] != 3 or picture.dtype != np.uint8:
        raise UserError(
            f"the picture is an array of shape {list(picture.shape)} of {picture.dtype}, not [height, width, 3] uint8: say "
            'where it is with picture="render" or a key of the observation, or convert it in a gymnasium.ObservationWrapper'
        )
    return picture


def size(shape: tuple[int, ...]) -> str:
    """Rows and columns, in words."""
    return f"{shape[0]} x {shape[1]}"


def one_line(said: Any) -> str:
    """The beginning of what was said."""
    return " ".join(str(said).split())[:200]
