"""Hunter as a Gymnasium environment, alone and as a vector.

    import gymnasium, protoalign
    gymnasium.make("protoalign/Hunter-Z1C1-v0", appearance="target", obs="pixels", render_mode="rgb_array")
    gymnasium.make_vec("protoalign/Hunter-Z4C4-v0", num_envs=64, vectorization_mode="vector_entry_point")

`obs` is "pixels" (64 x 64 x 3) or "categories" (the 8 x 8 grid); `info["categories"]` always holds the true grid.
`appearance` is "source", "target", "random:<seed>" or a folder of PNGs. `noise` and `jitter` are standard deviations, as shares
of the full range: of every pixel by itself, and of each colour channel of a whole picture.
"""

import functools
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode

from protoalign.envs import appearance as looks
from protoalign.envs import hunter
from protoalign.envs.hunter import CATEGORY_NAMES, Hunter
from protoalign.errors import UserError

SCALE = 6  # screen pixels per pixel, where a person looks


@functools.cache
def _compiled(world: Hunter) -> tuple[Any, Any]:
    """A world's start and step, each with the grid that is seen; compiled once however many environments there are."""

    def begin(u: jax.Array) -> Any:
        state = world.begin(u)
        return state, world.observe(state)

    def step(state: hunter.State, action: jax.Array, u: jax.Array) -> Any:
        state, transition = world.transition(state, action, u)
        return state, transition, world.observe(state)

    return jax.jit(begin), jax.jit(step)


class _Engine:
    """Episodes of Hunter, stepped on demand. Random numbers depend on the seed and the number of draws so far only."""

    def __init__(self, variant: str, appearance: str, obs: str, size: int, noise: float, jitter: float):
        if obs not in ("pixels", "categories"):
            raise UserError(f"obs='{obs}' is not known: use 'pixels' or 'categories'")
        self.world: Hunter = hunter.parse(variant, size)
        self.textures = looks.load(appearance, CATEGORY_NAMES)
        self.pixels = obs == "pixels"
        if min(noise, jitter) < 0:
            raise UserError("noise and jitter cannot be negative")
        self.noise, self.jitter = noise, jitter
        self.rng = self.pixel_rng = np.random.default_rng()
        self._begin, self._step = _compiled(self.world)
        height, width = self.world.shape
        tile = looks.TILE
        self.space: gymnasium.spaces.Box = (
            gymnasium.spaces.Box(0, 255, (height * tile, width * tile, 3), np.uint8)
            if self.pixels
            else gymnasium.spaces.Box(0, len(CATEGORY_NAMES) - 1, (height, width), np.uint8)
        )

    def begin(self, games: int) -> tuple[hunter.State, np.ndarray]:
        """Start states and their grids."""
        return jax.device_get(self._begin(self.rng.random((games, self.world.begin_draws), np.float32)))

    def step(
        self, state: hunter.State, action: np.ndarray
    ) -> tuple[hunter.State, tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
        """The next states, what the step gave, and the grids after it; NumPy arrays all."""
        draws = self.rng.random((len(action), self.world.step_draws), np.float32)
        return jax.device_get(self._step(state, action.astype(np.int32), draws))

    def seed(self, seed: int | None) -> None:
        if seed is not None:
            if not isinstance(seed, int | np.integer) or seed < 0:
                raise UserError(f"seed={seed!r} is not a whole number from 0 up")
            self.rng = np.random.default_rng(seed)
            self.pixel_rng = np.random.default_rng([seed, 1])  # noise does not change what happens

    def show(self, grid: np.ndarray) -> np.ndarray:
        if not self.pixels:
            return grid
        picture = looks.render(self.textures, grid)
        if not (self.noise or self.jitter):
            return picture
        shift = self.jitter * self.pixel_rng.standard_normal((*picture.shape[:-3], 1, 1, 3), np.float32)
        shift = shift + self.noise * self.pixel_rng.standard_normal(picture.shape, np.float32)
        return np.clip(np.round(picture + 255 * shift), 0, 255).astype(np.uint8)


class HunterEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One game of Hunter."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 6}  # noqa: RUF012

    def __init__(
        self,
        variant: str = "Z1C1",
        appearance: str = "source",
        obs: str = "pixels",
        size: int = 8,
        noise: float = 0.0,
        jitter: float = 0.0,
        render_mode: str | None = None,
    ):
        if render_mode not in (None, "human", "rgb_array"):
            raise UserError(f"render_mode='{render_mode}' is not known: use 'human' or 'rgb_array'")
        self.engine = _Engine(variant, appearance, obs, size, noise, jitter)
        self.observation_space = self.engine.space
        self.action_space = gymnasium.spaces.Discrete(self.engine.world.num_actions)
        self.render_mode = render_mode
        self.state: hunter.State | None = None
        self.over = False
        self.window: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.engine.seed(seed)
        super().reset(seed=seed)
        self.state, grids = self.engine.begin(1)
        self.over = False
        return self._seen(grids)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.state is None or self.over:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is in progress")
        if not self.action_space.contains(action):
            raise UserError(f"action {action!r} is not one of 0 to {self.engine.world.num_actions - 1}")
        self.state, (reward, terminated, truncated), grids = self.engine.step(self.state, np.array([action]))
        self.over = bool(terminated[0] or truncated[0])
        observation, info = self._seen(grids)
        return observation, float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def _seen(self, grids: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        self.grid = grids[0]
        if self.render_mode == "human":
            self.render()
        return self.engine.show(self.grid).copy(), {"categories": self.grid.copy()}

    def render(self) -> Any:
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode: pass render_mode='rgb_array' or 'human' to make()"
            )
            return None
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        picture = looks.render(self.engine.textures, self.grid)
        if self.render_mode == "rgb_array":
            return picture
        self._draw(picture)
        return None

    def _draw(self, picture: np.ndarray) -> None:
        import pygame

        height, width, _ = picture.shape
        if self.window is None:
            pygame.display.init()
            pygame.display.set_caption(self.engine.world.name)
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


class HunterVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many games of Hunter in one compiled step. A finished game restarts on its next step."""

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        variant: str = "Z1C1",
        appearance: str = "source",
        obs: str = "pixels",
        size: int = 8,
        noise: float = 0.0,
        jitter: float = 0.0,
        render_mode: str | None = None,
    ):
        if num_envs < 1:
            raise UserError(f"num_envs={num_envs}: use at least 1")
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"render_mode='{render_mode}' is not known for a vector: use 'rgb_array'")
        self.engine = _Engine(variant, appearance, obs, size, noise, jitter)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = self.engine.space
        self.single_action_space = gymnasium.spaces.Discrete(self.engine.world.num_actions)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.state: hunter.State | None = None
        self.over = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if isinstance(seed, list):
            raise UserError("a list of seeds is not supported: give one seed for the whole vector")
        self.engine.seed(seed)
        self.state, grids = self.engine.begin(self.num_envs)
        self.over = np.zeros(self.num_envs, bool)
        return self._seen(grids)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        actions = np.asarray(actions)
        low, high = 0, self.engine.world.num_actions - 1
        if (
            actions.shape != (self.num_envs,)
            or actions.dtype.kind not in "iu"
            or (actions < low).any()
            or (actions > high).any()
        ):
            raise UserError(f"actions must be {self.num_envs} whole numbers from {low} to {high}")
        reset = self.over
        state, (reward, terminated, truncated), grids = self.engine.step(self.state, actions)
        if reset.any():
            fresh, fresh_grids = self.engine.begin(self.num_envs)
            state = jax.tree.map(lambda f, s: np.where(reset.reshape((-1,) + (1,) * (s.ndim - 1)), f, s), fresh, state)
            grids = np.where(reset[:, None, None], fresh_grids, grids)
        self.state = state
        terminated, truncated = terminated & ~reset, truncated & ~reset
        self.over = terminated | truncated
        observation, info = self._seen(grids)
        return observation, np.where(reset, 0.0, reward).astype(np.float64), terminated, truncated, info

    def _seen(self, grids: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        self.grid = grids
        return self.engine.show(self.grid).copy(), {"categories": self.grid.copy(), "_categories": np.ones(self.num_envs, bool)}

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        return tuple(looks.render(self.engine.textures, self.grid))
