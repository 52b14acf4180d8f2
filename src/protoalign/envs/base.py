"""What every world offers. Worlds are batched and functional: states in, states out, randomness as an argument."""

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array


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
    n = mask.shape[1]
    # A running count, exact in float32. The matrix product is faster than cumsum for grids of ordinary size.
    count = mask.astype(jnp.float32) @ np.triu(np.ones((n, n), np.float32))
    return (count[:, None, :] <= np.arange(k, dtype=np.float32)[:, None]).sum(-1, dtype=jnp.int32)
