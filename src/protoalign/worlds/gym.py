"""Any Gymnasium environment with discrete actions that shows a picture made of tiles, as a world. It is stepped on the host.

    world = GymWorld("MyPackage/MyWorld-v0", tile=16)
    env = world.make()               # shows the picture: [H*h, W*w, 3] uint8, or a dict of "view" and "numbers"
    env = world.make("random:7")     # the same in another look

Nothing is told of the world but where its picture is and how large a tile is. A picture is a grid of ids of a `TileDictionary`,
which grows while tiles are met.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

import gymnasium
import numpy as np

from protoalign.errors import UserError
from protoalign.progress import warn
from protoalign.worlds.base import Spec
from protoalign.worlds.looks import cut
from protoalign.worlds.reskin import Reskin
from protoalign.worlds.tile_dictionary import Reader, TileDictionary

LIMIT = 1000  # steps of an episode where the environment has no limit
CHECKED = 400  # steps in which a fast reader is compared with the picture
PROBED = 40  # steps of random play by which an environment is judged before training
MOST_MET = 0.35  # of a picture's tiles, those that no other tile of the probing equals, if it is not made of tiles
Make = str | Callable[[], gymnasium.Env]


class Game(Protocol):
    """One game, seen as ids: [H, W] uint8, and numbers [M]."""

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]: ...
    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float, bool, bool]: ...


Fast = Callable[[TileDictionary], Game]


class GymWorld:
    """`make`: the id of a Gymnasium environment, or a function that makes one. `tile`: the size of a tile in pixels.

    `picture`: where the picture is: "obs", the observation itself; the key of a dictionary of observations; or "render".
    `numbers`: keys of observations that are numbers. `crop`: rows and columns of pixels (top, bottom, left, right) that are cut
    off. `agent`: the agent's fixed cell (row, column) in a view that moves with it. `max_steps`: episodes are cut off there.
    `limit_ends`: the environment says `terminated` when its own time limit, `max_steps`, is reached. `looks`: functions that
    make the environment in other looks, by name. `fast`: makes games that give ids without drawing; used only if they agree
    with the picture. `truth(look, tile)`: what a tile picture shows, for judging only.
    """

    def __init__(
        self,
        make: Make,
        tile: int | tuple[int, int],
        agent: tuple[int, int] | None = None,
        picture: str = "obs",
        numbers: tuple[str, ...] = (),
        crop: tuple[int, int, int, int] = (0, 0, 0, 0),
        max_steps: int | None = None,
        limit_ends: bool = False,
        name: str | None = None,
        looks: Mapping[str, Callable[[], gymnasium.Env]] | None = None,
        fast: Fast | None = None,
        truth: Callable[[str, np.ndarray], str | None] | None = None,
    ):
        self.maker, self.picture, self.number_keys, self.crop = make, picture, tuple(numbers), tuple(crop)
        self.tile = (tile, tile) if isinstance(tile, int) else (int(tile[0]), int(tile[1]))
        if min(self.tile) < 1:
            raise UserError(f"tile={tile}: the size of a tile is at least 1 pixel")
        if len(self.crop) != 4 or min(self.crop) < 0:
            raise UserError(f"crop={crop}: use four numbers of pixels from 0 up: top, bottom, left, right")
        self.looks, self.fast, self.truth, self.limit_ends = dict(looks or {}), fast, truth, limit_ends
        self._fast_agrees: bool | None = None
        env = self._plain(make)
        self.max_steps = max_steps or _limit_of(env) or LIMIT
        picture_, numbers_ = probe(Pictured(env, self), self.tile)
        rows, columns = picture_.shape[0] // self.tile[0], picture_.shape[1] // self.tile[1]
        actions = env.action_space
        assert isinstance(actions, gymnasium.spaces.Discrete)
        self.spec = Spec(
            str(name or (make if isinstance(make, str) else getattr(make, "__name__", "world"))),
            (rows, columns),
            _action_names(env, int(actions.n)),
            self.max_steps,
            agent,
            tuple(f"number {i}" for i in range(len(numbers_))),
        )
        env.close()

    def make(self, look: str = "source", **options: Any) -> gymnasium.Env:
        """The environment as it is ("source"), in one of its `looks`, redrawn at random ("random:SEED") or by the PNG files of
        a folder; or another environment ("gym:ID")."""
        if options:
            raise UserError(f"{self.spec.name} cannot be made with {', '.join(options)}")
        name = "random:0" if look == "target" and "target" not in self.looks else look
        if name == "source":
            return Pictured(self._plain(self.maker), self)
        if name in self.looks:
            return Pictured(self._plain(self.looks[name]), self)
        if name.startswith("gym:"):
            return self._other(name.removeprefix("gym:"))
        if name.startswith("random:"):
            seed = name.removeprefix("random:")
            if not seed.isdecimal():
                raise UserError(f"look '{look}' is not understood: use random:SEED with a whole number, e.g. random:7")
            return Reskin(Pictured(self._plain(self.maker), self), self.tile, seed=int(seed))
        return Reskin(Pictured(self._plain(self.maker), self), self.tile, look=name)

    def _other(self, name: str) -> gymnasium.Env:
        """Another environment as a target: with the same actions, and as many tiles, of any size."""
        env = self._plain(by_id(name))
        shown = Pictured(env, self)
        rows, columns = self.spec.grid
        first = shown.reset(seed=0)[0]
        height, width = (first["view"] if isinstance(first, dict) else first).shape[:2]
        if height % rows or width % columns:
            raise UserError(
                f"'{name}' shows {height} x {width} pixels, which are not {rows} x {columns} tiles as in the source"
            )
        if getattr(env.action_space, "n", None) != len(self.spec.actions):
            raise UserError(f"'{name}' has the actions {env.action_space}, {self.spec.name} has {len(self.spec.actions)}")
        shown.resize((height // rows, width // columns))
        return shown

    def game(self, dictionary: TileDictionary) -> Game:
        """A game in the source's look, seen as ids of a dictionary: by the fast reader if it agrees with the picture."""
        if self.fast is not None and self._fast_agrees is None:
            self._fast_agrees = agrees(self.fast, lambda own: Seen(self.make(), own), self.tile, len(self.spec.actions))
            if not self._fast_agrees:
                warn(f"the fast reader of {self.spec.name} does not show what its picture shows: it is not used")
        if self.fast is not None and self._fast_agrees:
            return self.fast(dictionary)
        return Seen(self.make(), dictionary)

    def _plain(self, make: Make) -> gymnasium.Env:
        if callable(make):
            return make()
        wanted: dict[str, Any] = {"render_mode": "rgb_array"} if self.picture == "render" else {}
        try:
            return gymnasium.make(make, disable_env_checker=True, **wanted)
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise UserError(f"Gymnasium cannot make '{make}': {_one_line(error)}") from None


class Pictured(gymnasium.Wrapper):
    """An environment that shows the picture of its tiles, or a dict of "view" and "numbers", with a time limit that is told
    apart from an end."""

    def __init__(self, env: gymnasium.Env, world: GymWorld):
        super().__init__(env)
        self.world = world
        self.time = 0
        self._sized: tuple[int, ...] | None = None
        actions = env.action_space
        if not isinstance(actions, gymnasium.spaces.Discrete) or actions.start != 0 or actions.n < 2:
            raise UserError(f"the actions of this environment are {actions}: use one with Discrete(n) actions, n at least 2")
        self.resize(getattr(env, "tile", world.tile))

    def resize(self, tile: tuple[int, int]) -> None:
        """Another look may have tiles of another size."""
        self.tile = tile
        spec: Spec | None = getattr(self.world, "spec", None)  # there is none yet while the world is probed
        if spec is not None:
            shape = (spec.grid[0] * self.tile[0], spec.grid[1] * self.tile[1], 3)
            view: gymnasium.Space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
            many: Any = gymnasium.spaces.Box(-np.inf, np.inf, (len(spec.numbers),), np.float32)
            self.observation_space = gymnasium.spaces.Dict({"view": view, "numbers": many}) if spec.numbers else view

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        observation, info = self.env.reset(seed=seed, options=options)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        self.time += 1
        late = self.time >= self.world.max_steps
        if late and self.world.limit_ends:
            terminated = False
        return self._shown(observation), float(reward), bool(terminated), bool(truncated or (late and not terminated)), info

    def render(self) -> Any:
        return self.shown

    def _shown(self, observation: Any) -> Any:
        world = self.world
        raw = self.env.render() if world.picture == "render" else observation
        if world.picture not in ("obs", "render"):
            if not isinstance(observation, dict) or world.picture not in observation:
                has = ", ".join(map(str, observation)) if isinstance(observation, dict) else "a plain array"
                raise UserError(f"the observation has no '{world.picture}', only {has}: say where the picture is with picture=")
            raw = observation[world.picture]
        if isinstance(raw, dict):
            raise UserError(f"the observation is a dictionary of {', '.join(map(str, raw))}: say which is the picture")
        picture = _checked(raw)
        top, bottom, left, right = world.crop
        picture = picture[top : picture.shape[0] - bottom, left : picture.shape[1] - right]
        if self._sized is not None and picture.shape != self._sized:
            raise UserError(f"the picture has changed its size, from {_size(self._sized)} to {_size(picture.shape)} pixels")
        self._sized = picture.shape
        self.shown = picture
        if not world.number_keys:
            return picture
        values = [np.asarray(observation[key], np.float32).reshape(-1) for key in world.number_keys]
        return {"view": picture, "numbers": np.concatenate(values)}


class Seen:
    """A game of an environment that shows pictures, as ids."""

    def __init__(self, env: gymnasium.Env, dictionary: TileDictionary):
        self.env, self.reader = env, Reader(dictionary)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        return self._read(self.env.reset(seed=seed)[0])

    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return *self._read(observation), float(reward), bool(terminated), bool(truncated)

    def _read(self, observation: Any) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(observation, dict):
            return self.reader(observation["view"]), observation["numbers"]
        return self.reader(observation), np.zeros(0, np.float32)


def by_id(name: str) -> str:
    """The id of an environment out of ID or PACKAGE:ID; the package, which registers it, is imported."""
    package, _, rest = name.rpartition(":")
    if package:
        try:
            import_module(package)
        except ImportError as error:
            raise UserError(f"the package '{package}' cannot be imported: {_one_line(error)}") from None
    return rest


def probe(env: Pictured, tile: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Play a little at random; the first picture and numbers. A UserError says what is wrong with an environment."""
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    first: Any = None
    marks: dict[bytes, int] = {}
    frames, actions = 0, int(env.action_space.n)  # type: ignore[attr-defined]
    for _ in range(PROBED):
        numbers = observation["numbers"] if isinstance(observation, dict) else np.zeros(0, np.float32)
        picture = observation["view"] if isinstance(observation, dict) else observation
        if picture.shape[0] % tile[0] or picture.shape[1] % tile[1] or not picture.size:
            raise UserError(
                f"a picture of {_size(picture.shape)} pixels is not made of tiles of {tile[0]} x {tile[1]}: give the right "
                "tile size, or cut a border off with crop"
            )
        first = (picture.copy(), numbers) if first is None else first
        for square in cut(picture, tile).reshape(-1, *tile, 3):
            marks[square.tobytes()] = marks.get(square.tobytes(), 0) + 1
        frames += 1
        observation, _, terminated, truncated, _ = env.step(int(rng.integers(actions)))
        if terminated or truncated:
            observation, _ = env.reset()
    total = sum(marks.values())
    single = sum(n for n in marks.values() if n == 1)
    if len(marks) == 1:
        raise UserError("all tiles of the first pictures are the same: is this the right picture, and the right tile size?")
    if single > MOST_MET * total or len(marks) > 255:
        raise UserError(
            f"in {frames} pictures there are {len(marks)} different tiles of {tile[0]} x {tile[1]} pixels among {total}, "
            f"{single} of them seen only once: the picture is not made of tiles of that size that look the same every time"
        )
    return first


def agrees(fast: Fast, slow: Fast, tile: tuple[int, int], actions: int) -> bool:
    """Whether two ways to see a world show the same ids, numbers, rewards and ends in random play."""
    dictionary, rng = TileDictionary(tile), np.random.default_rng(0)
    games = [fast(dictionary), slow(dictionary)]
    seen: list[Any] = [game.reset(seed=1) for game in games]
    for time in range(CHECKED):
        if not all(np.array_equal(one, other) for one, other in zip(seen[0], seen[1], strict=True)):
            return False
        action = int(rng.integers(actions))
        seen = [game.step(action) for game in games]
        if seen[0][3] or seen[0][4]:
            if not all(np.array_equal(one, other) for one, other in zip(seen[0], seen[1], strict=True)):
                return False
            seen = [game.reset(seed=2 + time) for game in games]
    return True


def _limit_of(env: gymnasium.Env) -> int | None:
    """The environment's own time limit, if it says."""
    found = env.spec.max_episode_steps if env.spec is not None else None
    found = found or getattr(env.unwrapped, "max_steps", None)
    return int(found) if isinstance(found, int | np.integer) and found > 0 else None


def _action_names(env: gymnasium.Env, number: int) -> tuple[str, ...]:
    named = getattr(env.unwrapped, "actions", None)
    try:
        names = [str(named(i).name) for i in range(number)]  # type: ignore[misc]
    except (TypeError, ValueError, AttributeError):
        return tuple(f"action {i}" for i in range(number))
    return tuple(names)


def _checked(raw: Any) -> np.ndarray:
    picture = np.asarray(raw)
    if picture.ndim != 3 or picture.shape[-1] != 3 or picture.dtype != np.uint8:
        raise UserError(
            f"the picture is an array of shape {list(picture.shape)} of {picture.dtype}: a picture is [height, width, 3] "
            'uint8; say where it is with picture="render" or the key of the observation'
        )
    return picture


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} x {shape[1]}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
