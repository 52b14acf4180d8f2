"""q_theta (section 4.2, appendix B.1): which prototype is each slot, judged by what has happened to it.

Every slot has a hidden state, the same for all at the start. After each transition it takes in what happened around a few tiles
of that slot: the cells next to it and those some way off in its row and column, before and after. A cell is a prototype that is
never hidden, or a slot, written as the current belief about it and whether it is the slot in the middle. To that come action,
reward and what the step did to the numbers, if there are any. Nothing depends on a slot's number, so renaming slots renames
beliefs and changes nothing else.

In an egocentric view the picture moves with the agent: views before and after a step are aligned first, and where in the view a
tile lies, which is where it lies from the agent, counts too.
"""

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined
from protoalign.rl.networks import Dense, Scene, embed_sum
from protoalign.settings import InferConfig

GROUND = 0.25  # a slot that covers more of the grid than this is what others lie on
NEXT_TO_AGENT = 20.0  # how much more a tile matters that the agent could touch


class Step(NamedTuple):
    """N transitions as they are seen."""

    before: Array  # [N, H, W] codes
    after: Array  # [N, H, W]
    numbers_before: Array  # [N, M]
    numbers_after: Array  # [N, M]
    action: Array  # [N] int32
    reward: Array  # [N] float32


class InferenceModel(Protocol):
    """What the rest of the method asks of q_theta."""

    scene: Scene
    hideable: tuple[int, ...]

    def begin(self, batch: int, slots: int) -> Array:
        """Hidden states [B, S, F] at an episode's start, the same for all slots."""
        ...

    def digest(self, step: Step, slots: int) -> Any:
        """What transitions show before any memory enters; a pytree with leading axis N."""
        ...

    def update(self, hidden: Array, imagined: Imagined, digested: Any, prior: Array | float = 0.0) -> Array:
        """Hidden states after a transition; `prior` [B, S, K], logs, is what is known of other slots besides this episode."""
        ...

    def score(self, hidden: Array, imagined: Imagined) -> Array:
        """How well each hideable prototype fits each slot, [B, S, K], in logs over K; certain for slots that are known."""
        ...


def fix_known(score: Array, imagined: Imagined) -> Array:
    """Scores [B, S, K], certain (0 and -30) for slots that are known."""
    known = jnp.where(imagined.truth[..., None] == np.arange(score.shape[-1]), 0.0, -30.0)
    return jnp.where(imagined.hidden[..., None], score, known)


def signs(reward: Array) -> Array:
    """Rewards [B] as numbers, and whether they are gains or losses, [B, 3]."""
    reward = reward[:, None]
    return jnp.concatenate([reward, reward > 0, reward < 0], 1)


def gru(x: Array, h: Array, hidden: Array) -> Array:
    """A gated step of hidden states [..., F]; `x` and `h` [..., 3F] are what input and state say of the gates."""
    reset_x, keep_x, new_x = jnp.split(x, 3, -1)
    reset_h, keep_h, new_h = jnp.split(h, 3, -1)
    keep = jax.nn.sigmoid(keep_x + keep_h + 1)  # at the start, remember
    new = jnp.tanh(new_x + jax.nn.sigmoid(reset_x + reset_h) * new_h)
    return keep * hidden + (1 - keep) * new


def align_views(before: Array, after: Array, grid: tuple[int, int], outside: int) -> Array:
    """Codes after a step [N, H * W] where they lie in the view before it; `outside` for what has left the view.

    Whether and where the view has moved is not known: of staying and four shifts, the one under which most cells agree.
    """
    height, width = grid
    rows, cols = np.divmod(np.arange(height * width), width)
    best, shown = (after == before).mean(1), after
    padded = jnp.pad(after, ((0, 0), (0, 1)), constant_values=outside)
    for down, right in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        r, c = rows - down, cols - right
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        moved = padded[:, np.where(inside, r * width + c, height * width)]
        agree = (moved == before)[:, inside].mean(1)
        better = agree > best
        best, shown = jnp.where(better, agree, best), jnp.where(better[:, None], moved, shown)
    return shown


class Digest(NamedTuple):
    """What transitions show of each of S slots at up to T of its tiles, before beliefs enter; N transitions."""

    slots: Array  # [N, S, T, 2 * cells] int8 or int32, the slot of each cell around a tile before and after; S where it is none
    told: Array  # [N, 1 or S, 1 or T, F], what all that is certain adds up to
    valid: Array  # [N, S, T] bool, the slot has that many tiles
    number: Array  # [N, S, 2] int32, its tiles before and after


class PatchNet(eqx.Module):
    """The default q_theta: looks at small patches."""

    start: Array  # [F]
    around: Dense  # of slots: beliefs and a mark of being the one in the middle, for each cell before and after
    fixed: Array | None  # [2 * cells * (C + 1), F], of prototypes that are never hidden, and of what is outside
    place: Array | None  # [H * W, F], in egocentric views
    action: Array  # [A, F]
    happened: Dense
    summary: Dense
    gru_in: Dense
    gru_hidden: Dense
    read: Dense
    scene: Scene = eqx.field(static=True)
    hideable: tuple[int, ...] = eqx.field(static=True)
    radius: int = eqx.field(static=True)
    tiles: int = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, scene: Scene, hideable: tuple[int, ...], config: InferConfig):
        self.scene, self.hideable, self.radius, self.tiles = scene, hideable, config.radius, config.tiles
        width, cells, kinds = config.width, len(self.cells), len(hideable)
        self.start = jnp.asarray(0.1 * rng.standard_normal(width), jnp.float32)
        self.around = Dense(rng, 2 * cells * (kinds + 1), width)
        self.action = jnp.asarray(0.5 * rng.standard_normal((scene.actions, width)), jnp.float32)
        self.happened = Dense(rng, 3 + 3 * scene.numbers, width)
        self.summary = Dense(rng, width + 3, width)
        self.gru_in = Dense(rng, width, 3 * width, 1.0)
        self.gru_hidden = Dense(rng, width, 3 * width, 1.0)
        self.read = Dense(rng, width, kinds, 0.1)
        self.fixed = self.place = None
        if kinds < scene.prototypes:
            rows = 2 * cells * (scene.prototypes + 1)
            self.fixed = jnp.asarray(0.3 * rng.standard_normal((rows, width)), jnp.float32)
        if scene.cell is not None:
            self.place = jnp.asarray(0.3 * rng.standard_normal((scene.tiles, width)), jnp.float32)

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Offsets of the cells that are looked at."""
        reach = range(-self.radius, self.radius + 1)
        return [(r, c) for r in reach for c in reach if max(abs(r), abs(c)) <= 1 or r * c == 0]

    def begin(self, batch: int, slots: int) -> Array:
        return jnp.broadcast_to(self.start, (batch, slots, len(self.start)))

    def score(self, hidden: Array, imagined: Imagined) -> Array:
        return fix_known(jax.nn.log_softmax(self.read(hidden)), imagined)

    def digest(self, step: Step, slots: int) -> Digest:
        scene = self.scene
        n, first, outside = len(step.action), scene.prototypes, scene.prototypes + slots
        before, after = (x.reshape(n, scene.tiles) for x in (step.before, step.after))
        if scene.cell is not None:
            after = align_views(before, after, scene.grid, outside)
        tile, valid, number = self._choose(before, after, slots, outside)
        around = jnp.concatenate([self._cells(x, tile, outside) for x in (before, after)], -1)  # [N, S, T, 2 * cells]
        told = self._told(step)[:, None, None]
        if self.place is not None:
            told = told + self.place[tile]
        if self.fixed is not None:
            told = told + self._fixed(around, outside)
        slot = jnp.where((around >= first) & (around < outside), around - first, slots)
        return Digest(slot.astype(np.int8 if slots < 127 else np.int32), told, valid, number)

    def _told(self, step: Step) -> Array:
        """What actions, rewards and numbers add up to, [N, F]."""
        return self.action[step.action] + self.happened(self._happened(step)) + self.around.bias

    def _fixed(self, around: Array, outside: int) -> Array:
        """What prototypes that are never hidden add up to, [..., F], for codes [..., 2 * cells]."""
        assert self.fixed is not None
        first = self.scene.prototypes
        code = jnp.where(around < first, around, jnp.where(around == outside, first, len(self.fixed)))
        rows = jnp.minimum(np.arange(around.shape[-1]) * (first + 1) + code, len(self.fixed))
        return embed_sum(self.fixed, rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], -1)

    def _happened(self, step: Step) -> Array:
        if not self.scene.numbers:
            return signs(step.reward)
        gained = step.numbers_after - step.numbers_before
        return jnp.concatenate([signs(step.reward), gained > 0, gained < 0, jnp.minimum(step.numbers_before, 1)], 1)

    def _interest(self, before: Array, after: Array, outside: int) -> Array:
        """How much changes around tiles, and how near the agent they are, [N, HW]."""
        scene = self.scene
        rows, cols = np.divmod(np.arange(scene.tiles), scene.grid[1])
        window = (abs(rows[:, None] - rows) <= self.radius) & (abs(cols[:, None] - cols) <= self.radius)
        change = ((before != after) & (after != outside)).astype(jnp.float32) @ window.astype(np.float32)
        if scene.cell is not None:
            distance = abs(rows - rows[scene.cell]) + abs(cols - cols[scene.cell])
            change = change + (1 / (1 + distance) + NEXT_TO_AGENT * (distance == 1)).astype(np.float32)
        return change

    def _choose(self, before: Array, after: Array, slots: int, outside: int) -> tuple[Array, Array, Array]:
        """Of each slot the tiles [N, S, T] with most change around them, or near the agent; whether they are any; and how many
        tiles it has before and after, [N, S, 2]."""
        scene = self.scene
        change = self._interest(before, after, outside)
        each = (scene.prototypes + np.arange(slots))[:, None].astype(before.dtype)
        of_slot = before[:, None, :] == each  # [N, S, HW]
        score = jnp.where(of_slot, 1 + change[:, None, :], 0)
        tiles, valid = [], []
        for _ in range(self.tiles):
            best = jnp.argmax(score, -1)  # [N, S]
            valid.append(jnp.take_along_axis(score, best[..., None], -1)[..., 0] > 0)
            tiles.append(best)
            score = jnp.where(np.arange(scene.tiles) == best[..., None], 0, score)
        number = jnp.stack([of_slot.sum(-1), (after[:, None, :] == each).sum(-1)], -1)
        return jnp.stack(tiles, -1), jnp.stack(valid, -1), number

    def _cells(self, grid: Array, tile: Array, outside: int) -> Array:
        """Codes [N, S, T, cells] around tiles [N, S, T] of grids [N, H * W]."""
        (height, width), radius = self.scene.grid, self.radius
        wide = width + 2 * radius
        padded = jnp.pad(grid.reshape(-1, height, width), ((0, 0), (radius, radius), (radius, radius)), constant_values=outside)
        offset = np.array([(r + radius) * wide + c + radius for r, c in self.cells])
        corner = (tile // width) * wide + tile % width
        spots = (corner[..., None] + offset).reshape(len(grid), -1)
        found = jnp.take_along_axis(padded.reshape(len(grid), -1), spots, 1)
        return found.reshape(*tile.shape, len(offset)).astype(jnp.int32)

    def update(self, hidden: Array, imagined: Imagined, digested: Digest, prior: Array | float = 0.0) -> Array:
        batch, slots = hidden.shape[:2]
        kinds, cells, tiles = len(self.hideable), 2 * len(self.cells), self.tiles
        belief = self._coloured(hidden, imagined, prior)
        each = np.arange(slots, dtype=digested.slots.dtype)
        # Cells get what the network makes of a belief, not the belief: the same sum, with one product instead of a gather.
        weight = self.around.weight.reshape(kinds + 1, cells, -1)
        worth = belief.reshape(-1, kinds) @ weight[:-1].reshape(kinds, -1)
        lies = digested.slots.reshape(batch, slots * tiles, 1, cells) == each[:, None]  # [B, S * T, S, 2 * cells]
        x = lies.astype(jnp.float32).reshape(batch, slots * tiles, -1) @ worth.reshape(batch, slots * cells, -1)
        same = (digested.slots == each[:, None, None]).astype(jnp.float32).reshape(-1, cells) @ weight[-1]
        x = jax.nn.relu(x.reshape(batch, slots, tiles, -1) + same.reshape(batch, slots, tiles, -1) + digested.told)
        valid = digested.valid[..., None].astype(jnp.float32)
        x = (x * valid).sum(2) / jnp.maximum(valid.sum(2), 1)
        return self._remember(hidden, x, digested.number)

    def _coloured(self, hidden: Array, imagined: Imagined, prior: Array | float) -> Array:
        """Beliefs [B, S, K] that colour the patches; no gradient passes through them."""
        belief = jnp.exp(jax.lax.stop_gradient(self.score(hidden, imagined)))
        return belief if isinstance(prior, float) else jax.nn.softmax(jnp.log(belief + 1e-9) + prior)

    def _remember(self, hidden: Array, x: Array, number: Array) -> Array:
        """Hidden states of slots after what their patches show on average, x [B, S, F]; `number` [B, S, 2] of their tiles."""
        # How many tiles a slot has differs between worlds that work the same; that it is the ground they lie on does not.
        count = number.astype(jnp.float32)
        ground = count[..., 0] > GROUND * self.scene.tiles
        told = jnp.stack([ground, jnp.clip(count[..., 1] - count[..., 0], -3, 3), count[..., 1] == 0], -1)
        x = jax.nn.relu(self.summary(jnp.concatenate([x, told], -1)))
        updated = gru(self.gru_in(x), self.gru_hidden(hidden), hidden)
        return jnp.where(count[..., :1] > 0, updated, hidden)
