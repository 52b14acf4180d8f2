"""Any Gymnasium environment with discrete actions that shows a picture made of tiles, as a world. It is stepped on the host.

    world = GymWorld("MyPackage/MyWorld-v0", tile=16)       # without a tile size, it is found
    env = world.make()               # shows the picture: [H*h, W*w, 3] uint8, or a dict of "view" and "numbers"
    env = world.make("random:7")     # the same in another look

Nothing is told of the world but where its picture is. A picture is a grid of ids of a `TileDictionary`,
which grows while tiles are met.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import gymnasium
import numpy as np

from protoalign.errors import UserError
from protoalign.progress import note, warn
from protoalign.worlds.base import Spec
from protoalign.worlds.probing import blame, check_reward, checked, one_line, pictures_of, probe, size
from protoalign.worlds.reskin import Reskin
from protoalign.worlds.tile_dictionary import Reader, TileDictionary
from protoalign.worlds.tile_size import find_tile

LIMIT = 1000  # steps of an episode where the environment has no limit
CHECKED = 400  # steps in which a fast reader is compared with the picture
PATIENCE = 60.0  # seconds that workers may take for a step
Make = str | Callable[[], gymnasium.Env]


class Game(Protocol):
    """One game, seen as ids: [H, W] uint8, and numbers [M]."""

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]: ...
    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float, bool, bool]: ...


Fast = Callable[[TileDictionary], Game]


class GymWorld:
    """`make`: the id of a Gymnasium environment, or a function that makes one. `tile`: the size of a tile in pixels; "auto": it
    is found from pictures of random play (`tile_size`).

    `picture`: where the picture is: "obs", the observation itself; the key of a dictionary of observations; or "render".
    `numbers`: keys of observations that are numbers. `crop`: rows and columns of pixels (top, bottom, left, right) that are cut
    off. `agent`: the agent's fixed cell (row, column) in a view that moves with it. `max_steps`: episodes are cut off there.
    `limit_ends`: the environment says `terminated` when its own time limit, `max_steps`, is reached. `looks`: functions that
    make the environment in other looks, by name. `fast`: makes games that give ids without drawing; used only if they agree
    with the picture. `truth(look, tile)`: what a tile picture shows, for judging only. `workers`: processes that games are
    stepped in while a policy is trained, 0: none; one that has not answered for `patience` seconds has failed.
    """

    def __init__(
        self,
        make: Make,
        tile: int | tuple[int, int] | str = "auto",
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
        workers: int = 0,
        patience: float = PATIENCE,
    ):
        if isinstance(make, gymnasium.Env):
            raise UserError("give a function that makes the environment, e.g. lambda: MyWorld(), or its id: not an environment")
        self.maker, self.picture, self.number_keys, self.crop = make, picture, _keys(numbers), tuple(crop)
        self.name = str(name or (make if isinstance(make, str) else getattr(make, "__name__", "world")))
        self.found = isinstance(tile, str) and tile == "auto"  # the tile size, from pictures
        given: Any = (1, 1) if self.found else tile.tolist() if isinstance(tile, np.ndarray) else tile
        pair = tuple(given) if isinstance(given, tuple | list) else (given, given)
        if len(pair) != 2 or not all(isinstance(size, int | np.integer) and size >= 1 for size in pair):
            raise UserError(
                f"tile={tile}: use the size of a tile in pixels, e.g. 16, rows and columns, e.g. (16, 12), or 'auto'"
            )
        self.tile = (int(pair[0]), int(pair[1]))
        if len(self.crop) != 4 or min(self.crop) < 0:
            raise UserError(f"crop={crop}: use four numbers of pixels from 0 up: top, bottom, left, right")
        if max_steps is not None and max_steps < 1:
            raise UserError(f"max_steps={max_steps}: use at least 1")
        self.looks, self.fast, self.truth, self.limit_ends = dict(looks or {}), fast, truth, limit_ends
        self._fast_agrees: bool | None = None
        self._tiles: dict[str, tuple[int, int]] = {}  # of environments that were found to fit as targets
        self.run_in(workers, patience)
        env = self._plain(make)
        limit = max_steps or _limit_of(env)
        if limit_ends and limit is None:
            raise UserError(f"{self.name} does not say when its time is up: give max_steps= with limit_ends=True")
        self.max_steps = limit or LIMIT
        if self.found:
            self.tile = find_tile(pictures_of(Pictured(env, self)))
        picture_, numbers_ = probe(Pictured(env, self), self.tile, self.origin)
        rows, columns = picture_.shape[0] // self.tile[0], picture_.shape[1] // self.tile[1]
        if agent is not None and not (0 <= agent[0] < rows and 0 <= agent[1] < columns):
            raise UserError(f"agent={agent}: {self.name} shows {rows} x {columns} tiles, counted from (0, 0){self.origin}")
        if self.found:
            told = f"{rows} x {columns} tiles of {size(self.tile)} pixels were found"
            note(f"{self.name}: {told}; if that is wrong, give the size with tile= (--tile)")
        actions = env.action_space
        assert isinstance(actions, gymnasium.spaces.Discrete)
        self.spec = Spec(
            self.name,
            (rows, columns),
            _action_names(env, int(actions.n)),
            self.max_steps,
            agent,
            tuple(f"number {i}" for i in range(len(numbers_))),
        )
        env.close()
        known = gymnasium.registry.get(make) if isinstance(make, str) else None
        self.remake: Callable[[], GymWorld] = partial(
            _again,
            known,
            make=make,
            tile=self.tile,
            agent=agent,
            picture=picture,
            numbers=self.number_keys,
            crop=self.crop,
            max_steps=max_steps,
            limit_ends=limit_ends,
            name=self.name,
            fast=fast,
        )

    @property
    def origin(self) -> str:
        """What an error that comes from the tile size says besides."""
        return f"; the size {size(self.tile)} was found: if it is wrong, give another with tile= (--tile)" if self.found else ""

    def run_in(self, workers: int, patience: float = PATIENCE) -> None:
        """Step games in so many processes while a policy is trained; 0: in this one."""
        if not isinstance(workers, int | np.integer) or workers < 0:
            raise UserError(f"workers={workers!r}: use a whole number of processes, 0 for none")
        if not patience > 0:
            raise UserError(f"patience={patience!r}: use a number of seconds above 0")
        self.workers, self.patience = int(workers), float(patience)

    def make(self, look: str = "source", **options: Any) -> gymnasium.Env:
        """The environment as it is ("source"), in one of its `looks`, redrawn at random ("random:SEED") or by the PNG files of
        a folder; or another environment ("gym:ID")."""
        if options:
            raise UserError(f"{self.spec.name} cannot be made with {', '.join(options)}")
        name = "random:0" if look == "target" and "target" not in self.looks else look
        if name == "source":
            return Pictured(self._plain(self.maker), self)
        if name in self.looks:
            return self._other(name, self.looks[name])
        if name.startswith("gym:"):
            return self._other(name, by_id(name.removeprefix("gym:")))
        if name.startswith("random:"):
            seed = name.removeprefix("random:")
            if not seed.isdecimal():
                raise UserError(f"look '{look}' is not understood: use random:SEED with a whole number, e.g. random:7")
            return Reskin(Pictured(self._plain(self.maker), self), self.tile, seed=int(seed))
        return Reskin(Pictured(self._plain(self.maker), self), self.tile, look=name)

    def _other(self, name: str, make: Make) -> gymnasium.Env:
        """Another environment as a target: with the same actions, and as many tiles, of any size."""
        if name not in self._tiles:
            try:
                self._tiles[name] = self._fitting(make)
            except UserError as error:
                raise UserError(f"'{name}' is no target for {self.name}: {error}") from None
        found = Pictured(self._plain(make), self)
        found.resize(self._tiles[name])
        return found

    def _fitting(self, make: Make) -> tuple[int, int]:
        """The size of another environment's tiles, if it fits."""
        spec, shown = self.spec, Pictured(self._plain(make), self)
        if getattr(shown.action_space, "n", None) != len(spec.actions):
            raise UserError(f"its actions are {shown.action_space}, in the source there are {len(spec.actions)}: use as many")
        first = shown.reset(seed=0)[0]
        height, width = (first["view"] if isinstance(first, dict) else first).shape[:2]
        if height % spec.grid[0] or width % spec.grid[1]:
            raise UserError(
                f"it shows {height} x {width} pixels, which are not {size(spec.grid)} tiles as in the source{self.origin}"
            )
        tile = height // spec.grid[0], width // spec.grid[1]
        numbers = probe(shown, tile)[1]
        if len(numbers) != len(spec.numbers):
            raise UserError(f"it shows {len(numbers)} numbers, the source {len(spec.numbers)}")
        shown.close()
        return tile

    def game(self, dictionary: TileDictionary) -> Game:
        """A game in the source's look, seen as ids of a dictionary: by the fast reader if it agrees with the picture."""
        if self.fast is not None and self.reads_fast():
            return self.fast(dictionary)
        return Seen(self.make(), dictionary)

    def reads_fast(self, told: bool | None = None) -> bool:
        """Whether there is a fast reader that agrees with the picture: found out once, or `told`."""
        if told is not None:
            self._fast_agrees = told
        if self._fast_agrees is None:
            self._fast_agrees = False
            if self.fast is not None:
                slow = lambda own: Seen(self.make(), own)  # noqa: E731
                self._fast_agrees = agrees(self.fast, slow, self.tile, len(self.spec.actions))
                if not self._fast_agrees:
                    warn(f"the fast reader of {self.name} does not show what its picture shows: it is not used")
        return self._fast_agrees

    def _plain(self, make: Make) -> gymnasium.Env:
        wanted: dict[str, Any] = {"render_mode": "rgb_array"} if self.picture == "render" else {}
        try:
            return make() if callable(make) else gymnasium.make(make, disable_env_checker=True, **wanted)
        except UserError:
            raise
        except gymnasium.error.UnregisteredEnv as error:
            told = "if a package registers it, name that too, PACKAGE:ID"
            raise UserError(f"Gymnasium cannot make '{make}': {one_line(error)} ({told})") from None
        except Exception as error:
            raise UserError(f"{self.name} cannot be made: {type(error).__name__}: {one_line(error)}") from error


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
        self.resize(world.tile)

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
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            blame(self.world.name, "reset", error)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        try:
            observation, reward, terminated, truncated, info = self.env.step(int(action))
        except Exception as error:
            blame(self.world.name, "step", error)
        check_reward(self.world.name, reward)
        self.time += 1
        late = self.time >= self.world.max_steps
        if late and self.world.limit_ends:
            terminated = False
        return self._shown(observation), float(reward), bool(terminated), bool(truncated or (late and not terminated)), info

    def render(self) -> Any:
        return self.shown

    def _shown(self, observation: Any) -> Any:
        world = self.world
        raw = observation
        if world.picture == "render":
            try:
                raw = self.env.render()
            except Exception as error:
                blame(world.name, "render", error)
            if raw is None:
                raise UserError(f"{world.name} renders nothing: make it with render_mode='rgb_array'")
        elif world.picture != "obs":
            if not isinstance(observation, Mapping) or world.picture not in observation:
                has = ", ".join(map(str, observation)) if isinstance(observation, Mapping) else "is no dictionary"
                raise UserError(f"the observation has no '{world.picture}' ({has}): say where the picture is with picture=")
            raw = observation[world.picture]
        picture = checked(raw)
        top, bottom, left, right = world.crop
        if top + bottom >= picture.shape[0] or left + right >= picture.shape[1]:
            raise UserError(f"crop={world.crop} leaves nothing of a picture of {size(picture.shape)} pixels: cut off less")
        picture = picture[top : picture.shape[0] - bottom, left : picture.shape[1] - right].copy()
        if self._sized is not None and picture.shape != self._sized:
            raise UserError(
                f"the picture has changed its size, from {size(self._sized)} to {size(picture.shape)} pixels: use an "
                "environment that always shows as much"
            )
        self._sized = picture.shape
        self.shown = picture
        return {"view": picture, "numbers": self._numbers(observation)} if world.number_keys else picture

    def _numbers(self, observation: Any) -> np.ndarray:
        """[M] float32."""
        found = []
        for key in self.world.number_keys:
            if not isinstance(observation, Mapping) or key not in observation:
                has = ", ".join(map(str, observation)) if isinstance(observation, Mapping) else "is no dictionary"
                raise UserError(f"the observation has no '{key}' ({has}): name keys of it as numbers")
            try:
                found.append(np.asarray(observation[key], np.float32).reshape(-1))
            except (TypeError, ValueError):
                raise UserError(f"'{key}' of the observation is no number, or array of numbers: leave it out") from None
            if not np.isfinite(found[-1]).all():
                raise UserError(f"'{key}' of the observation is {found[-1].tolist()}: numbers must be finite")
        return np.concatenate(found)


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
        here = str(Path.cwd())
        if not {here, ""} & set(sys.path):
            sys.path.append(here)  # a file in the current folder will do
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            told = "install it, or call this where it lies" if error.name == package.partition(".")[0] else "install that, too"
            raise UserError(f"the package '{package}' cannot be imported: {one_line(error)}; {told}") from None
        except Exception as error:
            said = f"{type(error).__name__}: {one_line(error)}"
            raise UserError(f"the package '{package}' cannot be imported: {said}") from error
    return rest


def _again(known: Any, **arguments: Any) -> GymWorld:
    """A world made anew, in another process; `known`: how Gymnasium makes its environment, if that is told by an id."""
    if known is not None:
        gymnasium.registry.setdefault(known.id, known)
    return GymWorld(**arguments)


def agrees(fast: Fast, slow: Fast, tile: tuple[int, int], actions: int) -> bool:
    """Whether two ways to see a world show the same ids, numbers, rewards and ends in random play."""
    dictionary, rng = TileDictionary(tile), np.random.default_rng(0)
    games = [fast(dictionary), slow(dictionary)]
    seen: list[Any] = [game.reset(seed=1) for game in games]
    for time in range(CHECKED):
        if not all(np.array_equal(one, other) for one, other in zip(seen[0], seen[1], strict=True)):
            return False
        if len(seen[0]) > 2 and (seen[0][3] or seen[0][4]):
            seen = [game.reset(seed=1 + time) for game in games]
        else:
            action = int(rng.integers(actions))
            seen = [game.step(action) for game in games]
    return True


def _keys(numbers: str | tuple[str, ...]) -> tuple[str, ...]:
    return (numbers,) if isinstance(numbers, str) else tuple(numbers)


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
