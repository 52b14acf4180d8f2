"""What every world offers. Worlds are batched and functional: states in, states out, randomness as an argument."""

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

BLOCK = 16


class Transition(NamedTuple):
    """What a step gives besides the next state."""

    reward: Array  # [B] float32
    terminated: Array  # [B] bool, the episode is over and nothing of value can follow
    truncated: Array  # [B] bool, cut off by a time limit the agent does not see


class World(Protocol):
    """Anything an agent can learn in. A state is any pytree of arrays with leading batch axis B."""

    @property
    def name(self) -> str: ...
    @property
    def num_actions(self) -> int: ...

    def reset(self, key: Array, batch: int) -> Any:
        """`batch` fresh start states."""
        ...

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Transition]:
        """One step of every episode. A finished episode's next state means nothing: replace it."""
        ...

    def observe(self, state: Any) -> Any:
        """What the agent sees: arrays [B, ...]."""
        ...


class TileWorld(World, Protocol):
    """A world seen as a grid of tiles: `observe` gives the category of every tile, [B, H, W] uint8."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def category_names(self) -> tuple[str, ...]: ...
    @property
    def action_names(self) -> tuple[str, ...]: ...
    @property
    def num_numbers(self) -> int:
        """What is known besides the grid, in numbers."""
        ...

    @property
    def floor(self) -> int:
        """The category of empty tiles."""
        ...

    @property
    def agent(self) -> int:
        """The category of the one tile the agent stands on."""
        ...

    @property
    def max_objects(self) -> int:
        """No more tiles than this are ever other than floor."""
        ...


def first_marked(mask: Array, k: int) -> Array:
    """The first k marked tiles of each row of mask [B, N], as [B, k] int32; N where there are fewer."""
    count = running_count(mask)
    return (count[:, None, :] <= np.arange(k, dtype=np.float32)[:, None]).sum(-1, dtype=jnp.int32)


def running_count(mask: Array) -> Array:
    """How many tiles of each row of mask [B, N] are marked up to and including each, [B, N] float32, exact.

    By matrix products within and over blocks, which are faster than cumsum.
    """
    batch, n = mask.shape
    marked = jnp.pad(mask, ((0, 0), (0, -n % BLOCK))).reshape(batch, -1, BLOCK).astype(jnp.float32)
    within = marked @ np.triu(np.ones((BLOCK, BLOCK), np.float32))
    blocks = marked.shape[1]
    before = within[..., -1] @ np.triu(np.ones((blocks, blocks), np.float32), 1)
    return (within + before[..., None]).reshape(batch, -1)[:, :n]
