"""A world model of small patches, in prototypes: for worlds with any number of kinds, of which nothing is told.

Next tile   p(tile | 3 x 3 patch before, action, which prototypes are on the board, numbers)
Masked tile p(tile | its 8 neighbours, which prototypes are elsewhere on the board, whether an episode begins): what a still
            picture tells
Outcome     p(reward level and end; which numbers fall or rise | patches before, action, numbers): a sum over all tiles of what
            is read off each patch. It needs no picture after the step, so it foresees.

Besides C prototypes there are two more categories: C, none of these, and C + 1, what lies outside the grid. The model
learns what to expect around what it does not know: in a share of its examples some prototypes are renamed to C. That is what
lets a search tell types one by one. It is no model of kinds that the source never showed.

First layers are sums of one row per cell, by where it lies and what it is. The same code runs in JAX while it is trained, and
in NumPy on the host, where hypotheses about what things are ask for different rows of it every time (`on_host`).
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.rl.networks import MARKS, Scene

OFFSETS = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)]
MIDDLE = 4
PAIRS = (
    (0, 1),
    (2, 3),
    (5, 6),
    (7, 8),
)  # all but the middle; of categories up to MOST_PAIRED, each pair's rows are summed once
MOST_PAIRED = 96
CLASSES = 6  # of outcomes: reward below, at or above the usual one; and the same with the end of the episode
USUAL = 1


class Context(NamedTuple):
    """What is known besides the patch, of R rows."""

    action: Any  # [R] int; for masked tiles 1 in an episode's first picture, else 0
    present: Any  # [R, C + 1] 0 or 1, which categories are on the board; for masked tiles, elsewhere on it
    numbers: Any  # [R, M]


class Net(eqx.Module):
    """Patches to `outputs` numbers. C prototypes, F hidden units."""

    rows: Array  # [9, C + 2, F]
    present: Array  # [C + 1, F]
    action: Array  # [A, F]
    numbers: Array  # [4 M, F]
    bias: Array  # [F]
    hidden: Array  # [F, F]
    hidden_bias: Array  # [F]
    out: Array  # [F, outputs]
    out_bias: Array  # [outputs]

    def __init__(self, rng: np.random.Generator, scene: Scene, width: int, outputs: int):
        def normal(scale: float, *shape: int) -> Array:
            return jnp.asarray(scale * rng.standard_normal(shape), jnp.float32)

        # All prototypes begin alike: random weights would else count as evidence between two that behave the same.
        alike, outside = normal(0.25, 9, 1, width), normal(0.25, 9, 1, width)
        self.rows = jnp.concatenate([jnp.repeat(alike, scene.prototypes + 1, 1), outside], 1)
        self.present = jnp.zeros((scene.prototypes + 1, width))
        self.action, self.numbers = normal(0.4, scene.actions, width), normal(0.2, 4 * scene.numbers, width)
        self.bias, self.hidden_bias = jnp.zeros(width), jnp.zeros(width)
        self.hidden = normal(width**-0.5, width, width)
        self.out, self.out_bias = normal(0.05, width, outputs), jnp.zeros(outputs)


class LocalModel(eqx.Module):
    """The three networks, and what rewards were in the source. C: prototypes."""

    tile: Net  # C + 1 outputs
    masked: Net  # C + 1
    outcome: Net  # CLASSES + 3 M
    stay: Array  # [], how much likelier it is by itself that a tile stays what it is, in nats
    usual: Array  # [3]: the commonest reward, how far from it another one is, the size of good returns; not trained
    loss: Array  # [CLASSES]: how much less is earned by such an outcome than by the usual one in a good episode; not trained
    often: Array  # [C, H * W + 1]: logs of how likely so many tiles of a prototype are in a first picture; not trained
    again: Array  # []: how often the board that comes back most is seen in a good episode; not trained
    scene: Scene = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, scene: Scene, width: int):
        kinds = scene.prototypes
        self.tile = Net(rng, scene, width, kinds + 1)
        self.masked = Net(rng, scene, width, kinds + 1)
        self.outcome = Net(rng, scene, width, CLASSES + 3 * scene.numbers)
        self.stay, self.usual, self.loss = jnp.float32(3.0), jnp.zeros(3), jnp.zeros(CLASSES)
        self.again = jnp.float32(1.0)
        self.often = jnp.zeros((kinds, scene.grid[0] * scene.grid[1] + 1))
        self.scene = scene

    @property
    def bad(self) -> np.ndarray:
        """Outcome classes [CLASSES] bool by which much is lost: what to be cautious of."""
        return np.asarray(self.loss) > 0.5 * float(np.asarray(self.usual)[2])

    def on_host(self) -> Any:
        """The same in NumPy, for the functions below: plain attributes, since those of a module are slow to look up."""
        nets = {name: SimpleNamespace(**_arrays(getattr(self, name))) for name in ("tile", "masked", "outcome")}
        for net in nets.values():
            paired = PAIRS if net.rows.shape[1] <= MOST_PAIRED else ()
            net.pairs = [(net.rows[a][:, None] + net.rows[b]).reshape(-1, net.rows.shape[-1]) for a, b in paired]
        rest = {
            "stay": np.asarray(self.stay),
            "scene": self.scene,
            "bad": self.bad,
            "usual": np.asarray(self.usual, np.float64),
            "often": np.asarray(self.often, np.float64),
            "again": float(self.again),
        }
        return SimpleNamespace(**nets, **rest)


# -- what follows: `model` is a LocalModel, or the same on the host; R patches [R, 9] of categories --------------------------


def about(net: Any, context: Context) -> Any:
    """What all but the patch adds to the first layer of a network, [R, F]."""
    x = net.bias + net.action[context.action] + context.present @ net.present
    if net.numbers.shape[0]:
        x = x + _toward_marks(context.numbers) @ net.numbers
    return x


def patch_sum(net: Any, cells: Any, middle: bool = True) -> Any:
    """What patches [R, 9] add to the first layer, [R, F]; without the tile in the middle if it is not to be known."""
    places = [k for k in range(9) if middle or k != MIDDLE]
    if isinstance(cells, np.ndarray):
        if net.pairs:
            found = (
                both.take(cells[:, a] * net.rows.shape[1] + cells[:, b], 0)
                for (a, b), both in zip(PAIRS, net.pairs, strict=True)
            )
        else:
            found = (net.rows[k].take(cells[:, k], 0) for k in places if k != MIDDLE)
        x = next(found)
        for more in found:
            x += more
        if middle:
            x += net.rows[MIDDLE].take(cells[:, MIDDLE], 0)
        return x
    lies = (cells[:, np.array(places), None] == np.arange(net.rows.shape[1])).astype(jnp.float32)
    return lies.reshape(len(cells), -1) @ net.rows[np.array(places)].reshape(-1, net.rows.shape[-1])


def next_tile(model: Any, cells: Any, besides: Any) -> Any:
    """Log-probabilities [R, C + 1] of the tile in the middle after the step; `besides` [R, F] is `about(model.tile, ...)`."""
    first = patch_sum(model.tile, cells)
    first += besides
    found = _head(model.tile, first)
    if isinstance(found, np.ndarray):
        found[np.arange(len(cells)), cells[:, MIDDLE]] += model.stay
    else:
        found += (cells[:, MIDDLE, None] == np.arange(model.scene.prototypes + 1)) * model.stay
    return _log_softmax(found)


def masked_tile(model: Any, cells: Any, besides: Any) -> Any:
    """The same of the tile in the middle, given its neighbours alone; `besides` [R, F] is `about(model.masked, ...)`."""
    first = patch_sum(model.masked, cells, middle=False)
    first += besides
    return _log_softmax(_head(model.masked, first))


def contribution(model: Any, first: Any) -> Any:
    """What first layers [..., F] of the network for outcomes add to its outputs [..., CLASSES + 3 M]: summed over tiles."""
    x = _relu(first)
    flat = x.reshape(-1, x.shape[-1])
    flat = _relu(flat + flat @ model.outcome.hidden + model.outcome.hidden_bias)
    return (flat @ model.outcome.out).reshape(*x.shape[:-1], -1)


def outcomes(model: Any, summed: Any) -> tuple[Any, Any]:
    """Of sums over boards [..., CLASSES + 3 M]: log-probabilities of classes [..., CLASSES] and of numbers that fall, stay or
    rise [..., M, 3]."""
    x = summed + model.outcome.out_bias
    return _log_softmax(x[..., :CLASSES]), _log_softmax(x[..., CLASSES:].reshape(*x.shape[:-1], model.scene.numbers, 3))


def outcome_class(model: Any, reward: Any, ended: Any) -> np.ndarray:
    """The class [...] of rewards [...] and ends [...] bool: 0 to 2 below, at, above the usual reward, 3 more at an end."""
    usual, apart, _ = np.asarray(model.usual, np.float64)
    level = np.sign(np.where(abs(reward - usual) > apart, reward - usual, 0)).astype(int) + 1
    return level + 3 * np.asarray(ended, int)


def patches(grid: np.ndarray, outside: int) -> np.ndarray:
    """Patches [..., H * W, 9] of grids [..., H, W]; beyond the edge lies `outside`."""
    height, width = grid.shape[-2:]
    padded = np.pad(grid, [(0, 0)] * (grid.ndim - 2) + [(1, 1), (1, 1)], constant_values=outside)
    cells = [padded[..., 1 + r : 1 + r + height, 1 + c : 1 + c + width] for r, c in OFFSETS]
    return np.stack(cells, -1).reshape(*grid.shape[:-2], height * width, len(OFFSETS))


def categories(model: Any, assignments: np.ndarray) -> np.ndarray:
    """The category of every code, [D, C + T + 1], under assignments [D, T] of tile types; the last one, which is also number
    -1, is what lies outside."""
    kinds, number = model.scene.prototypes, len(assignments)
    known = np.broadcast_to(np.arange(kinds), (number, kinds))
    return np.concatenate([known, assignments, np.full((number, 1), kinds + 1)], 1)


def in_place(before: np.ndarray, after: np.ndarray, scene: Scene, outside: int) -> np.ndarray:
    """Grids after a step [N, H, W], each tile where it lay before it; `outside` for what is not in sight any more.

    Whether a view that goes with the agent has moved or turned is not known: of staying, four shifts and two quarter turns
    around the agent's cell, the one under which the largest share of tiles agree, of those that stay in sight. Few do in a
    turn, so each also has to explain these better than staying does.
    """
    if scene.cell is None:
        return after
    height, width = scene.grid
    flat, shown = before.reshape(len(before), -1), after.reshape(len(after), -1)
    later = np.pad(shown, ((0, 0), (0, 1)), constant_values=outside)
    down, right = np.divmod(np.arange(height * width), width) - np.array(divmod(scene.cell, width))[:, None]
    best = np.full(len(flat), -1.0)
    for rows, columns in (
        (down, right),
        *((down + r, right + c) for r, c in ((0, 1), (0, -1), (1, 0), (-1, 0))),
        *((right, -down), (-right, down)),
    ):
        rows, columns = rows + scene.cell // width, columns + scene.cell % width
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        moved = later[:, np.where(inside, rows * width + columns, height * width)]
        agree = (moved == flat)[:, inside].mean(1)
        stayed = (later[:, :-1] == flat)[:, inside].mean(1)
        better = (agree > best) & ((best < 0) | (agree > stayed))
        best, shown = np.where(better, agree, best), np.where(better[:, None], moved, shown)
    return shown.reshape(after.shape)


def _arrays(net: Net) -> dict[str, np.ndarray]:
    return {name: np.asarray(getattr(net, name)) for name in Net.__annotations__}


def _head(net: Any, x: Any) -> Any:
    """Outputs [R, outputs] of first layers [R, F]; on the host, these are written over."""
    if not isinstance(x, np.ndarray):
        x = _relu(x)
        x = _relu(x + x @ net.hidden + net.hidden_bias)
        return x @ net.out + net.out_bias
    np.maximum(x, 0, out=x)
    hidden = x @ net.hidden
    hidden += x
    hidden += net.hidden_bias
    np.maximum(hidden, 0, out=hidden)
    found = hidden @ net.out
    found += net.out_bias
    return found


def _toward_marks(numbers: Any) -> Any:
    xp = np if isinstance(numbers, np.ndarray) else jnp
    return xp.concatenate([xp.minimum(numbers / mark, 1) for mark in MARKS], -1)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0) if isinstance(x, np.ndarray) else jax.nn.relu(x)


def _log_softmax(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return jax.nn.log_softmax(x)
    if not x.size:
        return x
    x = np.ascontiguousarray(np.moveaxis(x, -1, 0))  # of few columns and many rows, that is three times as fast
    x -= x.max(0)
    x -= np.log(np.exp(x).sum(0))
    return np.moveaxis(x, 0, -1)
