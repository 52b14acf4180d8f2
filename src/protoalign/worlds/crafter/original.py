"""The original Crafter (Hafner, 2021; the package crafter) as a Gymnasium environment that looks as one likes.

    import gymnasium, protoalign
    gymnasium.make("protoalign/Crafter-v0", appearance="target", obs="pixels", render_mode="rgb_array")

The rules are the package's own. An observation is a dictionary: "view", what surrounds the player, as pixels (56 x 72 x 3) or
as categories (7 x 9), and "numbers", the sixteen items and the daylight. `info["categories"]` always holds the true grid.

Two things differ from the package. The same seed and actions give the same game in every process: the package picks creatures
to remove out of sets, whose order is chance. And the view shows neither night nor sleep, which would hide what things look
like, unless `night` is set; the daylight is among the numbers.
"""

from typing import Any

import gymnasium
import numpy as np
from crafter import Env, constants, engine, objects, worldgen

from protoalign.errors import UserError
from protoalign.worlds import looks
from protoalign.worlds.crafter.art import ART, CATEGORY_OF, FILES, ID_OF, THINGS
from protoalign.worlds.crafter.names import CATEGORY_NAMES, ITEMS, MATERIALS, NUMBER_NAMES, VIEW

SCALE = 6  # screen pixels per pixel, where a person looks
THING_OF = {FILES.get(name, name): i for i, name in enumerate(THINGS)}  # by the original's names


class _Game(Env):
    """The original's game, without its pictures. It counts columns before rows; nothing outside this file does."""

    def __init__(self, length: int):
        super().__init__(length=length, seed=0)
        self._seed: int | None = None  # until one is given
        self._sem_view = dict  # nothing, in place of a map of the whole world after every step

    def begin(self, world: np.ndarray | None, creatures: bool) -> None:
        """What `reset` does, where a world may be given or creatures left out."""
        self.creatures = creatures
        self._episode += 1
        self._step = 0
        self._world.reset(seed=hash((self._seed, self._episode)) % (2**31 - 1))  # of whole numbers: the same everywhere
        self._update_time()
        self._player = objects.Player(self._world, (self._area[0] // 2, self._area[1] // 2))
        self._last_health = self._player.health
        self._world.add(self._player)
        self._unlocked: set[str] = set()
        if world is not None:
            self._world._mat_map[:] = world.T
            return
        worldgen.generate_world(self._world, self._player)
        if not creatures:
            for thing in self._world.objects[1:]:  # the first is the player
                self._world.remove(thing)

    def _obs(self) -> None:
        """The original's own picture, which takes most of a step's time."""

    def _balance_chunk(self, chunk: Any, objs: Any) -> None:
        if self.creatures:
            super()._balance_chunk(chunk, objs)

    def _balance_object(self, chunk: Any, objs: Any, *how: Any) -> None:
        super()._balance_object(chunk, sorted(objs, key=lambda thing: tuple(thing.pos)), *how)


class _Pictures:
    """A look's sprites where the original expects its textures."""

    def __init__(self, sprites: looks.Sprites):
        self.pictures = {FILES.get(name, name): sprite.swapaxes(0, 1) for name, sprite in sprites.items()}

    def get(self, name: str, _size: Any) -> np.ndarray:
        return self.pictures[name]


class _View(engine.LocalView):
    """The original's view, by day or as it is. Its noise at night has random numbers of its own, not the game's."""

    def __init__(self, world: Any, sprites: looks.Sprites, night: bool):
        super().__init__(world, _Pictures(sprites), VIEW[::-1])
        self.night = night
        self.unit = np.array(sprites["outside"].shape[:2])
        self.random = np.random.default_rng()

    def draw(self, player: Any) -> np.ndarray:
        """[7 * tile, 9 * tile, 3] uint8."""
        return self(player, self.unit).astype(np.uint8).swapaxes(0, 1).copy()

    def _light(self, canvas: np.ndarray, daylight: float) -> np.ndarray:
        return super()._light(canvas, daylight) if self.night else canvas

    def _sleep(self, canvas: np.ndarray) -> np.ndarray:
        return super()._sleep(canvas) if self.night else canvas

    def _noise(self, canvas: np.ndarray, amount: float, stddev: float) -> np.ndarray:
        noise = self.random.uniform(32, 127, canvas.shape[:2])[..., None]
        mask = amount * self._vignette(canvas.shape, stddev)[..., None]
        return (1 - mask) * canvas + mask * noise


class CrafterEnv(gymnasium.Env[dict[str, Any], np.int64]):
    """One game of the original Crafter."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 6}  # noqa: RUF012

    def __init__(
        self,
        appearance: str = "source",
        obs: str = "pixels",
        night: bool = False,
        length: int = 10000,
        render_mode: str | None = None,
        tile: int = 8,
    ):
        if obs not in ("pixels", "categories"):
            raise UserError(f"obs='{obs}' is not known: use 'pixels' or 'categories'")
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode='{render_mode}' is not known: use 'rgb_array'")
        if not isinstance(length, int | np.integer) or length < 1:
            raise UserError(f"length={length!r} is not a whole number of steps from 1 up")
        self.pixels, self.tile = obs == "pixels", tile
        self.render_mode = render_mode
        self.game = _Game(int(length))
        self.view = _View(self.game._world, looks.load(appearance, ART, tile), night)
        spaces = gymnasium.spaces
        height, width = VIEW
        self.observation_space = spaces.Dict(
            {
                "view": spaces.Box(0, 255, (height * tile, width * tile, 3), np.uint8)
                if self.pixels
                else spaces.Box(0, len(CATEGORY_NAMES) - 1, VIEW, np.uint8),
                "numbers": spaces.Box(0, np.array([*(9 for _ in ITEMS), 1], np.float32), (len(NUMBER_NAMES),), np.float32),
            }
        )
        self.action_space = spaces.Discrete(len(constants.actions))
        self.over = True  # no episode is in progress

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new episode: the first of a seed, or without one the next.

        Options: "world", the materials [64, 64] to play on, as indices into MATERIALS, with the player in the middle and no
        creatures; "creatures", False for the seed's own world without creatures. Then none ever come.
        """
        world, creatures = _options(options or {})
        if seed is None and self.game._seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        if seed is not None:
            if not isinstance(seed, int | np.integer) or seed < 0:
                raise UserError(f"seed={seed!r} is not a whole number from 0 up")
            self.game._seed, self.game._episode = int(seed), 0
        super().reset(seed=seed)
        self.game.begin(world, creatures)
        self.view.random = np.random.default_rng([self.game._seed, self.game._episode])
        self.over = False
        return self._seen()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        if self.over:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is in progress")
        if not self.action_space.contains(action):
            raise UserError(f"action {action!r} is not one of 0 to {len(constants.actions) - 1}")
        _, reward, over, happened = self.game.step(int(action))
        self.over = bool(over)
        dead = happened["discount"] == 0
        observation, info = self._seen()
        return observation, float(reward), dead, self.over and not dead, info

    def ids(self) -> np.ndarray:
        """The picture ids of what is seen, [7, 9] uint8."""
        return ID_OF[self.things()]

    def things(self) -> tuple[np.ndarray, np.ndarray]:
        """The thing on each tile of the view, an index into THINGS, and the material under it; [7, 9] uint8 both."""
        world, (x, y), (height, width) = self.game._world, self.game._player.pos, VIEW
        top, left = y - height // 2, x - width // 2
        part = np.s_[max(top, 0) : top + height, max(left, 0) : left + width]  # of the world that is in view
        materials, things = world._mat_map.T[part], world._obj_map.T[part]
        row, column = max(-top, 0), max(-left, 0)  # where in the view that part begins
        ground = np.full(VIEW, MATERIALS.index("outside"), np.uint8)
        ground[row : row + materials.shape[0], column : column + materials.shape[1]] = materials
        grid = ground.copy()
        for i, j in np.argwhere(things):
            grid[row + i, column + j] = THING_OF[world._objects[things[i, j]].texture]
        return grid, ground

    def _seen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        player = self.game._player
        categories = CATEGORY_OF[self.things()[0]]
        self.picture = self.view.draw(player) if self.pixels else None
        observation = {
            "view": categories.copy() if self.picture is None else self.picture.copy(),
            "numbers": np.array([*(player.inventory[item] for item in ITEMS), self.game._world.daylight], np.float32),
        }
        x, y = player.pos
        return observation, {
            "categories": categories,
            "achievements": dict(player.achievements),
            "player": (int(y), int(x)),  # row and column
        }

    def render(self) -> Any:
        """The view above the original's rows of items, enlarged."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() does nothing without a render_mode: pass render_mode='rgb_array' to make()")
            return None
        player = self.game._player
        if player is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        picture = self.view.draw(player) if self.picture is None else self.picture
        items = self.game._item_view(player.inventory, (SCALE * self.tile,) * 2).swapaxes(0, 1)
        return np.concatenate([picture.repeat(SCALE, 0).repeat(SCALE, 1), items])


def _options(options: dict[str, Any]) -> tuple[np.ndarray | None, bool]:
    unknown = [name for name in options if name not in ("world", "creatures")]
    if unknown:
        raise UserError(f"reset has no option '{unknown[0]}': use 'world' or 'creatures'")
    if options.get("world") is None:
        return None, bool(options.get("creatures", True))
    world = np.asarray(options["world"])
    if world.shape != (64, 64) or world.dtype.kind not in "iu" or world.min() < 1 or world.max() >= len(MATERIALS):
        raise UserError(f"a world is 64 x 64 whole numbers from 1 to {len(MATERIALS) - 1}, numbered as in MATERIALS")
    return world, False
