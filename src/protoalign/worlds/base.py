"""What a world is: a grid of picture ids, some numbers, and a table of pictures for every look.

Worlds are batched and functional: states in, states out, randomness as an argument. No method knows which world it is in; all
it is told is the world's `Spec`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from jax import Array


class Transition(NamedTuple):
    """What a step gives besides the next state."""

    reward: Array  # [B] float32
    terminated: Array  # [B] bool, the episode is over and nothing of value can follow
    truncated: Array  # [B] bool, cut off by a time limit the agent does not see


class Observation(NamedTuple):
    """What the agent sees. NumPy or JAX arrays."""

    tiles: Any  # [B, H, W] uint8 or int32, picture ids
    numbers: Any  # [B, M] float32, what is known besides the picture; M may be 0


@dataclass(frozen=True)
class Spec:
    """What is known of a world before playing in it."""

    name: str
    grid: tuple[int, int]  # rows and columns of tiles
    actions: tuple[str, ...]
    max_steps: int  # no episode is longer
    agent: tuple[int, int] | None = None  # the agent's fixed cell in an egocentric view; None: somewhere on the board
    numbers: tuple[str, ...] = ()
    truth: tuple[str, ...] | None = None  # what each picture id truly shows: for judging and reports, never for finding out
    objects: int | None = None  # no more tiles than this ever differ from the commonest one; None: any number


class World(Protocol):
    """A world in batched JAX. A state is any pytree of arrays with leading batch axis B.

    Two methods more may be there: `fresh()`, the same world on maps that no policy is trained on, for measuring; and
    `varied()`, a world whose episodes are of this and of other variants, for calibrating what is to carry over to them.
    """

    @property
    def spec(self) -> Spec: ...

    def pictures(self, look: str) -> np.ndarray:
        """The look's table of pictures, [ids, h, w, 3] uint8."""
        ...

    def reset(self, key: Array, batch: int) -> Any:
        """`batch` fresh start states."""
        ...

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Transition]:
        """One step of every episode. A finished episode's next state means nothing: replace it."""
        ...

    def observe(self, state: Any) -> Observation:
        """What is seen, as picture ids."""
        ...

    def make(self, look: str = "source", **options: Any) -> gymnasium.Env:
        """A Gymnasium environment of this world, seen as pixels in a look."""
        ...
