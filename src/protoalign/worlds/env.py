"""Any JAX world as a Gymnasium environment, alone and as a vector.

    import protoalign as pa
    env = pa.make("hunter-z1c1").make("target", render_mode="rgb_array")

`obs` is "pixels" (H * h x W * w x 3) or "categories" (H x W): indices into the distinct names of `Spec.truth`. Where the world
has numbers, an observation is a dictionary of "view" and "numbers". `info["categories"]` always holds the true grid. `noise`
and `jitter` are standard deviations, as shares of the full range: of every pixel by itself, and of each channel of a picture.
"""

import importlib.util
import math
from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jax.typing import ArrayLike

from protoalign.arrays import select
from protoalign.errors import UserError
from protoalign.worlds import looks
from protoalign.worlds.base import Observation, Transition, World

MOST = float(np.finfo(np.float32).max)
SCALE = 6  # screen pixels per pixel, where a person looks


@eqx.filter_jit
def _begin(world: World, key: ArrayLike, games: int) -> tuple[Any, Observation]:
    state = world.reset(_key(key), games)
    return state, world.observe(state)


@eqx.filter_jit
def _step(world: World, state: Any, action: Any, key: ArrayLike, time: ArrayLike) -> tuple[Any, Transition, Observation]:
    state, transition = world.step(state, action, jax.random.fold_in(_key(key), time))
    return state, transition, world.observe(state)


@eqx.filter_jit
def _renew(world: World, state: Any, seen: Observation, over: Any, key: ArrayLike, time: ArrayLike) -> tuple[Any, Observation]:
    """New games in place of those that are over [B]."""
    fresh = world.reset(jax.random.fold_in(_key(key), time), len(over))
    return select(over, (fresh, world.observe(fresh)), (state, seen))


class _Screen:
    """What is shown of a world."""

    def __init__(self, world: World, look: str, obs: str, noise: float, jitter: float):
        if obs not in ("pixels", "categories"):
            raise UserError(f"obs='{obs}' is not known: use 'pixels' or 'categories'")
        for name, value in (("noise", noise), ("jitter", jitter)):
            if not isinstance(value, int | float | np.number) or not math.isfinite(value) or value < 0:
                raise UserError(f"{name}={value!r} is not a number from 0 up")
        spec = world.spec
        self.pictures = world.pictures(look)
        self.pixels, self.noise, self.jitter = obs == "pixels", float(noise), float(jitter)
        names = spec.truth or tuple(map(str, range(self.pictures.shape[-4])))
        distinct = list(dict.fromkeys(names))
        kind: type[np.integer] = np.uint8 if len(distinct) <= 256 else np.int32
        self.category_of = np.array([distinct.index(name) for name in names], kind)
        self.rng = np.random.default_rng()
        rows, columns = spec.grid
        height, width = self.pictures.shape[-3:-1]
        box: Any = gymnasium.spaces.Box
        shown = box(0, 255, (rows * height, columns * width, 3), np.uint8)
        view = shown if self.pixels else box(0, len(distinct) - 1, spec.grid, kind)
        numbers = box(-MOST, MOST, (len(spec.numbers),), np.float32)
        self.space: gymnasium.Space = gymnasium.spaces.Dict({"view": view, "numbers": numbers}) if spec.numbers else view

    def seed(self, seed: int | None) -> None:
        """Noise has random numbers of its own: it does not change what happens."""
        if seed is not None:
            self.rng = np.random.default_rng([seed, 1])

    def show(self, seen: Observation) -> tuple[Any, np.ndarray]:
        """An observation of one or of many games, and the true categories."""
        categories = self.category_of[seen.tiles]
        view = self._noisy(self.draw(seen)) if self.pixels else categories.copy()
        return ({"view": view, "numbers": np.array(seen.numbers)} if seen.numbers.shape[-1] else view), categories

    def draw(self, seen: Observation) -> np.ndarray:
        return looks.render(self.pictures, seen.tiles)

    def _noisy(self, picture: np.ndarray) -> np.ndarray:
        if not (self.noise or self.jitter):
            return picture
        shift = self.jitter * self.rng.standard_normal((*picture.shape[:-3], 1, 1, 3), np.float32)
        shift = shift + self.noise * self.rng.standard_normal(picture.shape, np.float32)
        return np.clip(np.round(picture + 255 * shift), 0, 255).astype(np.uint8)


class WorldEnv(gymnasium.Env[Any, np.int64]):
    """One game. The n-th episode after `reset(seed=...)` starts the same whatever was done before it."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 6}  # noqa: RUF012

    def __init__(
        self,
        world: World,
        look: str = "source",
        obs: str = "pixels",
        noise: float = 0.0,
        jitter: float = 0.0,
        render_mode: str | None = None,
    ):
        window = importlib.util.find_spec("pygame") is not None
        if render_mode not in (None, "human", "rgb_array"):
            raise UserError(f"render_mode='{render_mode}' is not known: use 'rgb_array' or 'human'")
        if render_mode == "human" and not window:
            raise UserError("a window needs the package pygame: pip install 'protoalign[window]'")
        if not window:
            self.metadata = self.metadata | {"render_modes": ["rgb_array"]}
        self.world = world
        self.screen = _Screen(world, look, obs, noise, jitter)
        self.render_mode = render_mode
        self.observation_space = self.screen.space
        self.action_space: gymnasium.spaces.Discrete = gymnasium.spaces.Discrete(len(world.spec.actions))
        self.state: Any = None
        self.over = True
        self.window: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        _check_seed(seed)
        super().reset(seed=seed)
        self.screen.seed(seed)
        self.key, self.time, self.over = _draw_key(self.np_random), 0, False
        self.state, seen = _begin(self.world, self.key, 1)
        return self._seen(jax.device_get(seen))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is in progress")
        if not self.action_space.contains(action):
            raise UserError(f"action {action!r} is not one of 0 to {self.action_space.n - 1}")
        self.time += 1
        actions = np.array([action], np.int32)
        self.state, *result = _step(self.world, self.state, actions, self.key, np.uint32(self.time))
        (reward, terminated, truncated), seen = jax.device_get(result)
        self.over = bool(terminated[0] or truncated[0])
        observation, info = self._seen(seen)
        return observation, float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def _seen(self, seen: Observation) -> tuple[Any, dict[str, Any]]:
        self.seen = Observation(seen.tiles[0], seen.numbers[0])
        if self.render_mode == "human":
            self.render()
        observation, categories = self.screen.show(self.seen)
        return observation, {"categories": categories}

    def render(self) -> Any:
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode: pass render_mode='rgb_array' or 'human' to make()"
            )
            return None
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        picture = self.screen.draw(self.seen)
        if self.render_mode == "rgb_array":
            return picture
        self._show_window(picture)
        return None

    def _show_window(self, picture: np.ndarray) -> None:
        import pygame

        height, width, _ = picture.shape
        if self.window is None:
            pygame.display.init()
            pygame.display.set_caption(self.world.spec.name)
            self.window = pygame.display.set_mode((width * SCALE, height * SCALE))
            self.clock = pygame.time.Clock()
        surface = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
        self.window.blit(pygame.transform.scale(surface, self.window.get_size()), (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self.clock.tick(self.metadata["render_fps"])

    def close(self) -> None:
        if self.window is not None:
            import pygame

            pygame.display.quit()
            self.window = None


class WorldVectorEnv(gymnasium.vector.VectorEnv[Any, np.ndarray, np.ndarray]):
    """Many games in one compiled step. A finished game restarts on its next step."""

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int,
        world: World,
        look: str = "source",
        obs: str = "pixels",
        noise: float = 0.0,
        jitter: float = 0.0,
        render_mode: str | None = None,
    ):
        if num_envs < 1:
            raise UserError(f"num_envs={num_envs}: use at least 1")
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode='{render_mode}' is not known for a vector: use 'rgb_array'")
        self.world = world
        self.screen = _Screen(world, look, obs, noise, jitter)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self.screen.space
        self.single_action_space: gymnasium.spaces.Discrete = gymnasium.spaces.Discrete(len(world.spec.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.state: Any = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if isinstance(seed, list):
            raise UserError("a list of seeds is not supported: give one seed for the whole vector")
        _check_seed(seed)
        super().reset(seed=seed)
        self.screen.seed(seed)
        self.key, self.time, self.over = _draw_key(self.np_random), 0, np.zeros(self.num_envs, bool)
        self.state, seen = _begin(self.world, self.key, self.num_envs)
        return self._seen(jax.device_get(seen))

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        actions = np.asarray(actions)
        most = self.single_action_space.n - 1
        whole = actions.shape == (self.num_envs,) and actions.dtype.kind in "iu"
        if not whole or actions.min() < 0 or actions.max() > most:
            raise UserError(f"actions must be {self.num_envs} whole numbers from 0 to {most}")
        self.time += 2  # one draw for the step, one for new games
        self.state, given, seen = _step(self.world, self.state, actions.astype(np.int32), self.key, np.uint32(self.time))
        if self.over.any():
            self.state, seen = _renew(self.world, self.state, seen, self.over, self.key, np.uint32(self.time + 1))
        (reward, terminated, truncated), seen = jax.device_get((given, seen))
        reward = np.where(self.over, 0.0, reward).astype(np.float64)
        terminated, truncated = terminated & ~self.over, truncated & ~self.over
        self.over = terminated | truncated
        observation, info = self._seen(seen)
        return observation, reward, terminated, truncated, info

    def _seen(self, seen: Observation) -> tuple[Any, dict[str, Any]]:
        self.seen = seen
        observation, categories = self.screen.show(seen)
        return observation, {"categories": categories, "_categories": np.ones(self.num_envs, bool)}

    def render(self) -> Any:
        if self.render_mode is None or self.state is None:
            return None
        return tuple(self.screen.draw(self.seen))


def _check_seed(seed: Any) -> None:
    if seed is not None and (not isinstance(seed, int | np.integer) or seed < 0):
        raise UserError(f"seed={seed!r} is not a whole number from 0 up")


def _draw_key(rng: np.random.Generator) -> np.ndarray:
    """The data of a JAX key, [2] uint32."""
    return rng.integers(0, 2**32, 2, np.uint32)


def _key(data: Any) -> jax.Array:
    return jax.random.wrap_key_data(data, impl="threefry2x32")
