"""q_theta (section 4.2, appendix B.1): which prototype is each type, judged by what has happened to it.

Every type has a hidden state, the same for all at the start. After each transition it takes in what happened around a few
tiles of that type: the cells next to it and those up to three away in its row and column, before and after, each written as
the current belief about its type and whether it is of the same type as the middle, with action and reward. Nothing depends
on a type's number, so renaming types renames beliefs and changes nothing else.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.alignment.imagination import Imagined, disguise, imagine
from protoalign.envs.base import TileWorld
from protoalign.rl.history import Episodes
from protoalign.rl.networks import Dense

RADIUS = 3
AROUND = [
    (r, c) for r in range(-RADIUS, RADIUS + 1) for c in range(-RADIUS, RADIUS + 1) if max(abs(r), abs(c)) <= 1 or r * c == 0
]
CELLS = len(AROUND)
TILES = 3  # of each type, those with most change around them


class Seen(NamedTuple):
    """What a transition shows of each of P types, before any belief enters; N transitions."""

    patch: Array  # [N, P, TILES, 2, CELLS] int8, types around a tile before and after; P outside the grid
    valid: Array  # [N, P, TILES] bool, the type has that many tiles
    number: Array  # [N, P, 2] int32, its tiles before and after
    action: Array  # [N] int32
    reward: Array  # [N] float32


def look(before: Array, after: Array, action: Array, reward: Array, types: int) -> Seen:
    """Cut out what matters of transitions between type grids [N, H, W]."""
    n, height, width = before.shape
    rows, cols = np.divmod(np.arange(height * width), width)
    window = (abs(rows[:, None] - rows) <= RADIUS) & (abs(cols[:, None] - cols) <= RADIUS)
    flat = before.reshape(n, -1)
    change = (flat != after.reshape(n, -1)).astype(jnp.float32) @ window.astype(np.float32)  # [N, HW], changes around a tile
    of_type = flat[:, None, :] == np.arange(types, dtype=np.uint8)[:, None]  # [N, P, HW]
    score = jnp.where(of_type, 1 + change[:, None, :], 0)
    tiles, valid = [], []
    for _ in range(TILES):
        best = jnp.argmax(score, -1)  # [N, P]
        valid.append(jnp.take_along_axis(score, best[..., None], -1)[..., 0] > 0)
        tiles.append(best)
        score = jnp.where(np.arange(height * width) == best[..., None], 0, score)
    tile = jnp.stack(tiles, -1)  # [N, P, TILES]
    wide = width + 2 * RADIUS
    corner = (tile // width) * wide + tile % width
    offset = np.array([(r + RADIUS) * wide + c + RADIUS for r, c in AROUND])
    place = (corner[..., None] + offset).reshape(n, -1)  # [N, P * TILES * CELLS]

    def patches(grid: Array) -> Array:
        padding = ((0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS))
        padded = jnp.pad(grid.astype(jnp.int8), padding, constant_values=types).reshape(n, -1)
        return jnp.take_along_axis(padded, place, 1).reshape(n, types, TILES, CELLS)

    number = jnp.stack([of_type.sum(-1), (after.reshape(n, 1, -1) == np.arange(types, dtype=np.uint8)[:, None]).sum(-1)], -1)
    return Seen(jnp.stack([patches(before), patches(after)], 3), jnp.stack(valid, -1), number, action, reward)


class InferenceModel(Protocol):
    """What the rest of the method asks of q_theta."""

    prototypes: int

    def begin(self, batch: int, types: int | None = None) -> Array:
        """Hidden states [B, P, F] at an episode's start, the same for all types; as many types as prototypes if not given."""
        ...

    def look(self, before: Array, after: Array, action: Array, reward: Array, types: int) -> Any:
        """What matters of N transitions between type grids [N, H, W]; a pytree with leading axis N."""
        ...

    def update(self, hidden: Array, imagined: Imagined, seen: Any) -> Array:
        """Hidden states after a transition."""
        ...

    def score(self, hidden: Array, imagined: Imagined) -> Array:
        """How well each prototype fits each type, [B, P, C], in logs over C; certain for types that are known."""
        ...


def fix_known(score: Array, imagined: Imagined) -> Array:
    """Scores [B, P, C], certain (0 and -30) for types that are known."""
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


class InferenceNet(eqx.Module):
    """The default: looks at small patches."""

    start: Array  # [F]
    around: Dense
    action: Array  # [A, F]
    happened: Dense
    summary: Dense
    gru_in: Dense
    gru_hidden: Dense
    read: Dense
    prototypes: int = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, world: TileWorld, width: int = 32):
        self.prototypes = len(world.category_names)
        self.start = jnp.asarray(0.1 * rng.standard_normal(width), jnp.float32)
        self.around = Dense(rng, 2 * CELLS * (self.prototypes + 1), width)
        self.action = jnp.asarray(0.5 * rng.standard_normal((world.num_actions, width)), jnp.float32)
        self.happened = Dense(rng, 3, width)
        self.summary = Dense(rng, width + 3, width)
        self.gru_in = Dense(rng, width, 3 * width, 1.0)
        self.gru_hidden = Dense(rng, width, 3 * width, 1.0)
        self.read = Dense(rng, width, self.prototypes, 0.1)

    def begin(self, batch: int, types: int | None = None) -> Array:
        return jnp.broadcast_to(self.start, (batch, types or self.prototypes, len(self.start)))

    def look(self, before: Array, after: Array, action: Array, reward: Array, types: int) -> Seen:
        return look(before, after, action, reward, types)

    def score(self, hidden: Array, imagined: Imagined) -> Array:
        return fix_known(jax.nn.log_softmax(self.read(hidden)), imagined)

    def update(self, hidden: Array, imagined: Imagined, seen: Seen) -> Array:
        batch, types = hidden.shape[:2]
        # No gradient passes through the beliefs that colour the patches.
        code = jnp.exp(jax.lax.stop_gradient(self.score(hidden, imagined)))
        patch = seen.patch.reshape(batch, types, TILES, 2 * CELLS)
        each = np.arange(types, dtype=np.int8)
        # Cells get what the network makes of a belief, not the belief: the same sum, with one product instead of a gather.
        weight = self.around.weight.reshape(self.prototypes + 1, 2 * CELLS, -1)
        worth = code.reshape(-1, self.prototypes) @ weight[:-1].reshape(self.prototypes, -1)
        lies = patch.reshape(batch, types * TILES, 1, -1) == each[:, None]  # [B, P * TILES, P, 2 * CELLS]
        x = lies.astype(jnp.float32).reshape(batch, types * TILES, -1) @ worth.reshape(batch, types * 2 * CELLS, -1)
        same = (patch == each[:, None, None]).astype(jnp.float32).reshape(-1, 2 * CELLS) @ weight[-1]
        x = x.reshape(batch, types, TILES, -1) + same.reshape(batch, types, TILES, -1) + self.around.bias
        context = self.action[seen.action] + self.happened(signs(seen.reward))
        x = jax.nn.relu(x + context[:, None, None])  # [B, P, TILES, F]
        valid = seen.valid[..., None].astype(jnp.float32)
        x = (x * valid).sum(2) / jnp.maximum(valid.sum(2), 1)
        # How many tiles a type has differs between worlds that work the same; that it is the ground they lie on does not.
        count = seen.number.astype(jnp.float32)
        ground = count[..., 0] > 0.25 * count[..., 0].sum(1, keepdims=True)
        told = jnp.stack([ground, count[..., 1] - count[..., 0], count[..., 1] == 0], -1)
        x = jax.nn.relu(self.summary(jnp.concatenate([x, told], -1)))
        updated = gru(self.gru_in(x), self.gru_hidden(hidden), hidden)
        present = seen.number[..., :1] > 0
        return jnp.where(present, updated, hidden)


# -- training ------------------------------------------------------------------------------------------------------------


def follow(model: InferenceModel, episodes: Episodes, imagined: Imagined) -> Array:
    """Scores after every step of B episodes, [L, B, P, C]; an ended episode's stay as they are."""
    batch, length = episodes.action.shape
    types = disguise(imagined, episodes.observation)

    def flat(x: Array) -> Array:
        return x.reshape(-1, *x.shape[2:])

    seen = model.look(
        flat(types[:, :-1]),
        flat(types[:, 1:]),
        flat(episodes.action).astype(jnp.int32),
        flat(episodes.reward),
        model.prototypes,
    )
    seen = jax.tree.map(lambda x: x.reshape(batch, length, *x.shape[1:]).swapaxes(0, 1), seen)

    def step(hidden: Array, x: tuple[Any, Array]) -> tuple[Array, Array]:
        seen, time = x
        after = model.update(hidden, imagined, seen)
        hidden = jnp.where((time < episodes.length)[:, None, None], after, hidden)
        return hidden, model.score(hidden, imagined)

    _, score = jax.lax.scan(step, model.begin(batch), (seen, jnp.arange(length)))
    return score


def loss(model: InferenceModel, episodes: Episodes, key: Array) -> tuple[Array, dict[str, Array]]:
    """Eq. 7: minus the log-probability of the truth, per hidden type, at the start and after every step of the episode."""
    imagined = imagine(key, len(episodes.length), model.prototypes)
    start = model.score(model.begin(len(episodes.length)), imagined)
    score = jnp.concatenate([start[None], follow(model, episodes, imagined)])
    truth = jnp.broadcast_to(imagined.truth[..., None], (*score.shape[:-1], 1))
    given = jnp.take_along_axis(score, truth, -1)[..., 0] * imagined.hidden  # [1 + L, B, P]
    per_step = -given.sum((1, 2)) / jnp.maximum(imagined.hidden.sum(), 1)
    right = (score[-1].argmax(-1) == imagined.truth).all(-1)
    return per_step.mean(), {"loss": per_step.mean(), "final_loss": per_step[-1], "episodes_right": right.mean()}


def make_optimiser(updates: int, first_rate: float, last_rate: float) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.linear_schedule(first_rate, last_rate, updates)))


def make_fit(optimiser: optax.GradientTransformation) -> Callable[..., Any]:
    """`fit(model, optimiser_state, episodes, key) -> model, optimiser_state, metrics`: one gradient step, jitted."""

    @jax.jit
    def fit(model: Any, state: Any, episodes: Episodes, key: Array) -> Any:
        grads, metrics = jax.grad(loss, has_aux=True)(model, episodes, key)
        steps, state = optimiser.update(grads, state)
        return optax.apply_updates(model, steps), state, metrics

    return fit


def choose(episodes: Episodes, rng: np.random.Generator, number: int) -> Episodes:
    """Some episodes at random."""
    chosen = rng.integers(0, len(episodes.length), number)
    return Episodes(*(x[chosen] for x in episodes))
