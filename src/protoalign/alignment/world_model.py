"""A world model: what follows from what, learned in the source by maximum likelihood, in prototypes.

Next tiles    p(tile | cells around it before, action, where the agent is, what is on the board, numbers, and the cells around
              it after the step that come earlier): a chain in reading order, so the product over tiles is a likelihood.
Outcome       reward, end of the episode and which numbers rise or fall, from a sum over tiles of what happens around each.
First picture p(tile | cells around it that come earlier), again a chain.

All first layers are sums of one row per cell, by where it lies and what it is. So hypotheses about what things are can be
compared cheaply (`WorldModel.under`): each is another sum of the same few pieces. All prototypes begin alike: random weights
would else count as evidence between two that behave the same.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.inference import align_views
from protoalign.rl.networks import Dense, Scene, toward_marks
from protoalign.settings import ModelConfig

ANY_TILE = 1e-4  # of every tile's probability is spread over all prototypes
ANY_REWARD = 1e-3  # ... and of every reward's over a range of ten times the usual
LEAST_SPREAD = 0.15  # of a reward around what is expected, of the usual reward


class Moves(NamedTuple):
    """B transitions in prototypes, or with codes; grids are flat."""

    before: Array  # [B, N]
    after: Array  # [B, N]
    numbers_before: Array  # [B, M]
    numbers_after: Array  # [B, M]
    action: Array  # [B] int32
    reward: Array  # [B]
    ended: Array  # [B] bool: by itself, not cut off


class Likelihood(NamedTuple):
    """Logs, of B transitions or under H hypotheses."""

    tiles: Array
    reward: Array
    end: Array
    numbers: Array


class WorldModel(eqx.Module):
    """C prototypes, O offsets of cells around a tile, Q offsets of the agent; F hidden units for tiles, G for outcomes.

    Category C of a cell is what lies outside the grid, or has left the view.
    """

    before: Array  # [O, C + 1, F + G]
    after: Array  # [O, C + 1, F + G]
    present: Array  # [C, F + G]
    action: Array  # [A, F + G]
    agent: Array  # [A, Q, F + G], of the action, by where the agent is; in views Q = N, by the tile's place
    numbers: Dense | None
    bias: Array  # [F + G]
    hidden: Dense
    tile: Dense
    stay: Array  # [C, C]
    outcome: Dense  # of reward, end, and falls, stays the same, rises for each number
    spread: Array  # log, of rewards
    usual: Array  # reward; not trained
    first: Array  # [O, C + 1, G]
    first_bias: Array  # [G]
    first_tile: Dense
    scene: Scene = eqx.field(static=True)
    radius: int = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, scene: Scene, config: ModelConfig, usual: float = 1.0):
        self.scene, self.radius = scene, config.radius
        f, g, kinds = config.width, max(config.width * 2 // 3, 1), scene.prototypes

        def normal(*shape: int) -> Array:
            return jnp.asarray(0.15 * rng.standard_normal(shape), jnp.float32)

        def alike(width: int) -> Array:
            one, outside = normal(len(self.cells), 1, width), normal(len(self.cells), 1, width)
            return jnp.concatenate([jnp.repeat(one, kinds, 1), outside], 1)

        self.before, self.after, self.first = alike(f + g), alike(f + g), alike(g)
        self.present = jnp.zeros((kinds, f + g))
        self.action = normal(scene.actions, f + g)
        places = scene.tiles if scene.cell is not None else (2 * config.radius + 1) ** 2 if scene.agent else 0
        self.agent = normal(scene.actions, places, f + g)
        self.numbers = Dense(rng, 4 * scene.numbers, f + g, 0.3) if scene.numbers else None
        self.bias, self.first_bias = jnp.zeros(f + g), jnp.zeros(g)
        self.hidden, self.tile, self.first_tile = Dense(rng, f, f), Dense(rng, f, kinds, 0.0), Dense(rng, g, kinds, 0.0)
        self.stay = 3 * jnp.eye(kinds)
        self.outcome = Dense(rng, g, 2 + 3 * scene.numbers, 0.0)
        self.spread, self.usual = jnp.zeros(()), jnp.float32(usual)

    # -- where things lie ----------------------------------------------------------------------------------------------------

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Offsets of the cells that are looked at."""
        reach = range(-self.radius, self.radius + 1)
        return [(r, c) for r in reach for c in reach if max(abs(r), abs(c)) <= 1 or r * c == 0]

    def _around(self, grid: Array, offsets: list[tuple[int, int]], outside: int) -> Array:
        """Cells [..., N, offsets] around every tile of flat grids [..., N]."""
        height, width = self.scene.grid
        row, col = np.divmod(np.arange(self.scene.tiles), width)
        r, c = (x[:, None] + np.array([o[i] for o in offsets]) for i, x in enumerate((row, col)))
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        index = np.where(inside, r * width + c, self.scene.tiles)
        padded = jnp.concatenate([grid, jnp.full((*grid.shape[:-1], 1), outside, grid.dtype)], -1)
        return padded[..., index]

    def _inner(self) -> np.ndarray:
        """Which of the agent's offsets are its own tile and those next to it."""
        return np.flatnonzero([max(abs(r), abs(c)) <= 1 for r, c in self._square()])

    def _beside(self) -> Any:
        """Tiles [N] next to the agent where that is always the same; all, where it is not known."""
        if self.scene.cell is None:
            return not self.scene.agent
        row, col = np.divmod(np.arange(self.scene.tiles), self.scene.grid[1])
        return np.maximum(abs(row - row[self.scene.cell]), abs(col - col[self.scene.cell])) <= 1

    def _square(self) -> list[tuple[int, int]]:
        reach = range(-self.radius, self.radius + 1)
        return [(r, c) for r in reach for c in reach]

    def _pieces(self) -> Array:
        """Rows [2 O, C + 1, F + G] of cells before and after.

        Tiles look only at cells after that come earlier; outcomes only at the nearest cells, before and after.
        """
        earlier = np.array([o < (0, 0) for o in self.cells])[:, None, None]
        nearest = np.array([max(abs(r), abs(c)) <= 1 for r, c in self.cells])[:, None, None]
        tiles = np.arange(self.before.shape[-1]) < self.hidden.bias.shape[0]
        return jnp.concatenate([self.before * (tiles | nearest), self.after * np.where(tiles, earlier, nearest)])

    def _always(self, action: Array, numbers: Array) -> Array:
        """What does not depend on what things are, [B, 1 or N, F + G]."""
        x = (self.bias + self.action[action])[:, None]
        if self.scene.cell is not None:
            x = x + self.agent[action]
        if self.numbers is not None:
            x = x + self.numbers(toward_marks(numbers))[:, None]
        return x

    @property
    def _sees_agent(self) -> bool:
        return self.scene.cell is None and bool(self.scene.agent)

    # -- heads ---------------------------------------------------------------------------------------------------------------

    def _judge(self, x: Array, middle: Array, after: Array, touched: Array | bool, move: Any) -> Likelihood:
        """Of hidden sums x [..., N, F + G] and prototypes before and after [..., N]; `move` broadcasts against [...].

        An outcome is due to tiles that changed, or that are `touched` [..., N] by the agent: what lies elsewhere says nothing,
        however much of it there is.
        """
        f = self.hidden.bias.shape[0]
        logits = self.tile(jax.nn.relu(self.hidden(jax.nn.relu(x[..., :f])))) + self.stay[middle]
        tiles = _pick(logits, after)
        tiles = jnp.where(after < self.scene.prototypes, tiles, 0).sum(-1)
        counts = ((middle != after) & (after < self.scene.prototypes)) | touched
        out = self.outcome((jax.nn.relu(x[..., f:]) * counts[..., None]).sum(-2))
        spread = jnp.maximum(jnp.exp(self.spread), LEAST_SPREAD)
        normal = -0.5 * ((move.reward / self.usual - out[..., 0]) / spread) ** 2 - jnp.log(spread) - 0.919
        reward = jnp.logaddexp(normal + np.log1p(-ANY_REWARD), np.log(ANY_REWARD / 10))
        end = jax.nn.log_sigmoid(jnp.where(move.ended, 1, -1) * out[..., 1])
        change = jnp.sign(move.numbers_after - move.numbers_before).astype(jnp.int32) + 1  # [..., M]
        gains = out[..., 2:].reshape(*out.shape[:-1], self.scene.numbers, 3)
        change = jnp.broadcast_to(change, gains.shape[:-1])
        return Likelihood(tiles, reward, end, _pick(gains, change).sum(-1) if self.scene.numbers else jnp.zeros_like(reward))

    # -- in prototypes -------------------------------------------------------------------------------------------------------

    def moves(self, move: Moves) -> Likelihood:
        """Log-likelihoods [B] of transitions in prototypes."""
        kinds, batch, tiles = self.scene.prototypes, len(move.action), self.scene.tiles
        after = self._aligned(move.before, move.after, kinds)
        cells = jnp.concatenate([self._around(g, self.cells, kinds) for g in (move.before, after)], -1)  # [B, N, 2 O]
        lies = (cells[..., None] == np.arange(kinds + 1, dtype=cells.dtype)).astype(jnp.float32)
        pieces = self._pieces()
        x = (lies.reshape(batch * tiles, -1) @ pieces.reshape(-1, pieces.shape[-1])).reshape(batch, tiles, -1)
        x = x + self._always(move.action, move.numbers_before)
        touched = self._beside()
        if self._sees_agent:
            near = jnp.isin(self._around(move.before, self._square(), kinds), np.array(self.scene.agent, move.before.dtype))
            x = x + near.astype(jnp.float32) @ self.agent[move.action]
            touched = near[..., self._inner()].any(-1)
        shown = (move.before[:, None] == np.arange(kinds, dtype=move.before.dtype)[:, None]).any(-1)  # [B, C]
        x = x + (shown.astype(jnp.float32) @ self.present)[:, None]
        return self._judge(x, move.before.astype(jnp.int32), after.astype(jnp.int32), touched, move)

    def starts(self, first: Array) -> Array:
        """Log-likelihoods [B] of first pictures [B, N] in prototypes."""
        cells = self._around(first, self._earlier(), self.scene.prototypes)
        lies = (cells[..., None] == np.arange(self.scene.prototypes + 1, dtype=first.dtype)).astype(jnp.float32)
        rows = self.first[: len(self._earlier())]
        x = lies.reshape(first.size, -1) @ rows.reshape(-1, rows.shape[-1]) + self.first_bias
        logits = self.first_tile(jax.nn.relu(x)).reshape(*first.shape, -1)
        return _pick(logits, first.astype(jnp.int32)).sum(-1)

    def _earlier(self) -> list[tuple[int, int]]:
        return [o for o in self.cells if o < (0, 0)]  # they are the first ones

    def _aligned(self, before: Array, after: Array, outside: int) -> Array:
        return after if self.scene.cell is None else align_views(before, after, self.scene.grid, outside)

    # -- under hypotheses ----------------------------------------------------------------------------------------------------

    def under(self, tables: Array, move: Moves) -> Likelihood:
        """Log-likelihoods [H] of ONE transition in codes (`move` without leading axis) under hypotheses.

        `tables` [H, C + S] int32 says which prototype every code is; a code below C is always itself.
        """
        kinds, tiles, codes = self.scene.prototypes, self.scene.tiles, tables.shape[1]
        before, after = (x.astype(jnp.int32) for x in (move.before, move.after))
        after = self._aligned(before[None], after[None], codes)[0]
        pieces = self._pieces()
        slots = kinds + np.arange(codes - kinds)
        where = jnp.stack([before == slots[:, None], after == slots[:, None]]).astype(jnp.float32)  # [2, S, N]
        near = jnp.concatenate(list(self._around(where, self.cells, 0)), -1)  # [S, N, 2 O]
        # What each slot adds to every tile if it is each prototype; a hypothesis is a sum of S of these.
        parts = jnp.einsum("sno,ocf->scnf", near, pieces[:, :kinds])
        cells = jnp.concatenate([self._around(g, self.cells, codes) for g in (before, after)], -1)  # [N, 2 O]
        known = np.append(np.arange(kinds), codes)
        lies = (cells[..., None] == known).astype(jnp.float32)
        base = lies.reshape(tiles, -1) @ pieces.reshape(-1, pieces.shape[-1])
        base = base + self._always(move.action[None], move.numbers_before[None])[0]
        touched = self._beside()
        if self._sees_agent:
            is_agent = np.isin(np.arange(kinds), self.scene.agent)
            square = self._around(where[0], self._square(), 0)  # [S, N, Q]
            parts = parts + is_agent[:, None, None] * (square @ self.agent[move.action])[:, None]
            there = self._around(jnp.isin(before, np.array(self.scene.agent)), self._square(), False)
            base = base + there.astype(jnp.float32) @ self.agent[move.action]
            agents = jnp.asarray(is_agent)[tables[:, kinds:]].astype(jnp.float32)  # [H, S]
            touched = (agents @ square[..., self._inner()].sum(-1) > 0) | there[:, self._inner()].any(-1)
        mark = (tables[:, kinds:, None] == np.arange(kinds)).astype(jnp.float32)  # [H, S, C]
        x = mark.reshape(len(tables), -1) @ parts.reshape(len(slots) * kinds, -1)
        shown = jnp.concatenate([(before == np.arange(kinds)[:, None]).any(-1), where[0].any(-1)])  # [C + S]
        shown = ((tables[..., None] == np.arange(kinds)) & shown[:, None]).any(1)  # [H, C]
        x = x.reshape(len(tables), tiles, -1) + base + (shown.astype(jnp.float32) @ self.present)[:, None]
        tables = jnp.pad(tables, ((0, 0), (0, 1)), constant_values=kinds)  # what has left the view
        return self._judge(x, tables[:, before], tables[:, after], touched, move)

    def starts_under(self, tables: Array, first: Array) -> Array:
        """Log-likelihoods [H] of ONE first picture [N] in codes; `tables` as for `under`."""
        kinds, codes = self.scene.prototypes, tables.shape[1]
        earlier, rows = self._earlier(), self.first[: len(self._earlier())]
        first = first.astype(jnp.int32)
        where = (first == np.arange(codes)[:, None]).astype(jnp.float32)
        parts = jnp.einsum("sno,ocf->scnf", self._around(where, earlier, 0), rows[:, :kinds])
        outside = self._around(jnp.zeros(len(first)), earlier, 1) @ rows[:, kinds]
        mark = (tables[..., None] == np.arange(kinds)).astype(jnp.float32).reshape(len(tables), -1)
        x = (mark @ parts.reshape(codes * kinds, -1)).reshape(len(tables), len(first), -1) + outside + self.first_bias
        return _pick(self.first_tile(jax.nn.relu(x)), tables[:, first]).sum(-1)


def _pick(logits: Array, index: Array) -> Array:
    """The log-probability of what happened, with a little of anything; logits [..., C], index [...]."""
    kinds = logits.shape[-1]
    chosen = jnp.where(index[..., None] == np.arange(kinds), logits, 0).sum(-1) - jax.nn.logsumexp(logits, -1)
    return jnp.logaddexp(chosen + np.log1p(-ANY_TILE), np.log(ANY_TILE / kinds))
