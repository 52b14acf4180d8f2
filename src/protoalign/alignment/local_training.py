"""Training of the world model of small patches: maximum likelihood on games in the source, in prototypes.

Most patches are the same wall again and again. So it learns from different examples, each drawn with a weight of
N(x, y) / sqrt(N(x)): N(x, y) times y was seen after x, and x was seen N(x) times. Rare situations count for more than their
share, and the shares of what may follow from one situation stay as they are.
"""

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.alignment.local_model import (
    CLASSES,
    MIDDLE,
    USUAL,
    Context,
    LocalModel,
    about,
    contribution,
    in_place,
    masked_tile,
    next_tile,
    outcome_class,
    outcomes,
    patch_sum,
    patches,
)
from protoalign.rl.history import Episodes
from protoalign.rl.networks import Scene
from protoalign.rl.train import Store, fit
from protoalign.rng import generator
from protoalign.settings import LocalConfig

CHUNK = 10  # gradient steps in one compiled call
HELD_OUT = 0.1  # of the transitions
SLOWER = 0.02  # the last learning rate, of the first
DECAY = 1e-3
MEASURED = 20_000  # held-out examples
UNLIKE = 0.02  # how likely it is that a first picture has any number of tiles of a prototype


class Transitions(NamedTuple):
    """N steps in prototypes. NumPy arrays."""

    before: np.ndarray  # [N, H, W]
    after: np.ndarray  # [N, H, W], where it lay before; prototypes + 1: not in sight any more
    numbers: np.ndarray  # [N, M], before
    change: np.ndarray  # [N, M] 0, 1, 2: a number falls, stays, rises
    action: np.ndarray  # [N]
    reward: np.ndarray  # [N]
    ended: np.ndarray  # [N] bool
    worth: np.ndarray  # [N], the return from this step on
    first: np.ndarray  # [N] bool, the first step of an episode


def transitions_of(episodes: Episodes, scene: Scene) -> Transitions:
    """All steps of episodes in prototypes."""
    tiles, numbers = (np.asarray(x) for x in episodes.observation)
    length, reward = np.asarray(episodes.length), np.asarray(episodes.reward, np.float32)
    time = np.arange(reward.shape[1])
    going = time < length[:, None]
    reward = np.where(going, reward, 0)
    ended = (time == length[:, None] - 1) & np.asarray(episodes.terminated)[:, None]
    worth = np.cumsum(reward[:, ::-1], 1)[:, ::-1]
    before, after = tiles[:, :-1][going], in_place(tiles[:, :-1][going], tiles[:, 1:][going], scene, scene.prototypes + 1)
    change = np.sign(numbers[:, 1:] - numbers[:, :-1])[going].astype(int) + 1
    known = numbers[:, :-1][going].astype(np.float32)
    first = np.broadcast_to(time == 0, going.shape)[going]
    action = np.asarray(episodes.action)[going]
    return Transitions(before, after, known, change, action, reward[going], ended[going], worth[going], first)


class Examples(NamedTuple):
    """Different examples: E patches of transitions, with what follows and the weight that each is drawn with, summed up."""

    cells: np.ndarray  # [E, 9]
    result: np.ndarray  # [E]
    of: np.ndarray  # [E], the transition
    upto: np.ndarray  # [E]

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        return np.minimum(np.searchsorted(self.upto, rng.random(number) * self.upto[-1]), len(self.upto) - 1)


def train_local(
    store: Store, config: LocalConfig, scene: Scene, given: Transitions, seed: int, title: str = "", stage: str = "local"
) -> tuple[LocalModel, dict[str, Any], float]:
    """A model of transitions in prototypes; figures on a held-out tenth; and the seconds it took."""
    order = generator(seed, "local/held-out").permutation(len(given.action))[: config.transitions]
    rest = max(1, round(HELD_OUT * len(order)))
    held, kept = (Transitions(*(x[i] for x in given)) for i in (order[:rest], order[rest:]))
    model = knowing_boards(knowing_rewards(LocalModel(generator(seed, "local/network"), scene, config.width), given), given)
    data = _Data(model, kept)
    optimiser = _optimiser(config)
    step = _make_step(config)

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        rng = generator(seed, f"local/{i}")
        batches = [data.batch(rng, config) for _ in range(CHUNK)]
        model, moments, metrics = step(state["model"], state["optimiser"], jax.tree.map(lambda *x: np.stack(x), *batches))
        return {"model": model, "optimiser": moments}, metrics

    start = {"model": model, "optimiser": optimiser.init(eqx.filter(model, eqx.is_array))}
    shown = "tiles {tile:.3f}  masked {masked:.3f}  outcome {outcome:.3f}"
    state, seconds = fit(store, stage, f"world model {title}".strip(), -(-config.updates // CHUNK), start, update, shown)
    return state["model"], _figures(state["model"], held) | {"transitions": len(kept.action)}, seconds


def knowing_rewards(model: LocalModel, given: Transitions) -> LocalModel:
    """The model with what rewards are usual, and what is lost by outcomes: against the usual reward, and with an episode's end
    all that would have followed in a good one."""
    good = _good(given)
    size = float(np.sqrt((given.worth[good].astype(np.float64) ** 2).mean()))
    commonest, apart = _usual(given)
    model = eqx.tree_at(lambda m: m.usual, model, jnp.array([commonest, apart, size], jnp.float32))
    kinds = outcome_class(model, given.reward, given.ended)
    follows = given.worth[good].mean()
    met = [(kinds == k).any() for k in range(CLASSES)]
    loss = [commonest - given.reward[kinds == k].mean() + follows * (k >= 3) if met[k] else 0.0 for k in range(CLASSES)]
    return eqx.tree_at(lambda m: m.loss, model, jnp.array(loss, jnp.float32))


def _usual(given: Transitions) -> tuple[float, float]:
    """The commonest reward, and how far from it another one is."""
    values, counts = np.unique(np.round(given.reward, 6), return_counts=True)
    commonest = float(values[counts.argmax()])
    return commonest, 0.01 * float(np.sqrt(((given.reward - commonest) ** 2).mean())) + 1e-6


def outcomes_of(given: Transitions) -> np.ndarray:
    """The outcome classes [N] of steps."""
    return outcome_class(SimpleNamespace(usual=(*_usual(given), 0.0)), given.reward, given.ended)


def _good(given: Transitions) -> np.ndarray:
    """Steps [N] bool of the better half of the episodes."""
    earned = given.worth[given.first]
    return np.asarray((earned >= np.median(earned))[np.cumsum(given.first) - 1])


def knowing_boards(model: LocalModel, given: Transitions) -> LocalModel:
    """The model with how many tiles of each prototype first pictures have, and how often boards come back in the better half of
    the episodes."""
    boards = given.before[given.first]
    kinds, most = model.often.shape
    found = np.zeros((kinds, most))
    for c in range(kinds):
        found[c] = np.bincount((boards == c).sum((1, 2)), minlength=most)
    near = np.pad(found, ((0, 0), (1, 1)))
    found = 0.5 * found + 0.25 * (near[:, :-2] + near[:, 2:])  # a number that was never met may be by chance
    chance = (1 - UNLIKE) * found / np.maximum(found.sum(1, keepdims=True), 1) + UNLIKE / most
    episode, good = np.cumsum(given.first) - 1, _good(given)[given.first]
    boards, numbers = given.before.reshape(len(episode), -1), np.ascontiguousarray(given.numbers, np.float32).view(np.int32)
    marks = _summed(boards, multipliers(boards.shape[1])) + _summed(numbers, multipliers(numbers.shape[1] + 1)[1:])
    seen, visits = np.unique(np.stack([episode, marks], 1), axis=0, return_counts=True)
    largest = np.zeros(len(good))
    np.maximum.at(largest, seen[:, 0], visits)
    again = np.median(largest[good])
    return eqx.tree_at(lambda m: (m.often, m.again), model, (jnp.asarray(np.log(chance), jnp.float32), jnp.float32(again)))


class _Data:
    """What batches are drawn from."""

    def __init__(self, model: LocalModel, given: Transitions):
        self.given, self.kinds = given, model.scene.prototypes
        outside = self.kinds + 1
        around = patches(given.before, outside)  # [N, HW, 9]
        self.around = around
        self.counts = np.stack([(given.before == c).sum((1, 2)) for c in range(self.kinds)], 1).astype(np.int16)
        result = given.after.reshape(len(around), -1)
        seen = [
            given.action,
            (self.counts > 0) @ multipliers(self.kinds),
            given.numbers.astype(np.int64) @ multipliers(given.numbers.shape[1]),
        ]
        self.next = _different(around, result, np.stack(seen, 1), result < outside)
        middle = around[..., MIDDLE]
        one = np.take_along_axis(self.counts, middle, 1) == 1  # of its kind: it is not elsewhere
        mark = np.stack([(self.counts > 0) @ multipliers(self.kinds), given.first], 1)
        hidden = around.copy()
        hidden[..., MIDDLE] = one
        found = _different(hidden, middle, mark, np.ones_like(one))
        found.cells[:, MIDDLE] = found.result
        self.still = found
        self.outcome = outcome_class(model, given.reward, given.ended)
        self.eventful = np.flatnonzero(self.outcome != USUAL)

    def batch(self, rng: np.random.Generator, config: LocalConfig) -> dict[str, Any]:
        """One batch: cells, results, presence and what else the loss needs of next tiles, masked tiles and boards."""
        i, j = self.next.draw(rng, config.batch), self.still.draw(rng, config.batch)
        half = config.boards // 2
        k = rng.integers(len(self.outcome), size=config.boards)
        if len(self.eventful):
            k[:half] = rng.choice(self.eventful, half)
        counts = self.counts[self.still.of[j]].copy()
        counts[np.arange(len(j)), self.still.cells[j, MIDDLE]] -= 1
        given = self.given
        cells, result, of = self.next.cells[i], self.next.result[i], self.next.of[i]
        after = (
            *self._renamed(rng, config, cells, result, self.counts[of]),
            given.action[of].astype(np.int32),
            given.numbers[of],
        )
        cells, result, of = self.still.cells[j], self.still.result[j], self.still.of[j]
        still = *self._renamed(rng, config, cells, result, counts), given.first[of].astype(np.int32), given.numbers[of]
        board = self._renamed(rng, config, self.around[k], np.zeros(len(k), np.int64), self.counts[k])
        followed = given.action[k].astype(np.int32), given.numbers[k], self.outcome[k].astype(np.int32), given.change[k]
        return {"next": after, "still": still, "board": (*board, *followed)}

    def _renamed(
        self, rng: np.random.Generator, config: LocalConfig, cells: np.ndarray, result: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Cells [R, ..., 9], results [R] and presence [R, C + 1]; in some rows a few or many prototypes are renamed to C."""
        number, none = len(cells), self.kinds
        share = np.where(rng.random(number) < config.renamed, rng.random(number), 0.0)
        lost = rng.random((number, none)) < share[:, None]  # [R, C]
        names = np.concatenate(
            [np.where(lost, none, np.arange(none)), np.full((number, 1), none), np.full((number, 1), none + 1)], 1
        )
        cells = np.take_along_axis(names, cells.reshape(number, -1), 1).reshape(cells.shape)
        result = np.take_along_axis(names, result[:, None], 1)[:, 0]
        present = np.zeros((number, none + 1), np.float32)
        present[:, :none] = (counts > 0) & ~lost
        present[:, none] = ((counts > 0) & lost).any(1)
        return cells.astype(np.uint8 if none < 254 else np.int32), result.astype(np.int32), present


def multipliers(number: int) -> np.ndarray:
    return generator(number, "local/multipliers").integers(1, 2**62, number)


def _summed(rows: np.ndarray, many: np.ndarray) -> np.ndarray:
    """A mark [N] of each of N rows of whole numbers, column by column: no larger copy is made."""
    found = np.zeros(len(rows), np.int64)
    with np.errstate(over="ignore"):
        for column, one in zip(rows.T, many, strict=True):
            found += column.astype(np.int64) * one
    return found


def _different(cells: np.ndarray, result: np.ndarray, also: np.ndarray, use: np.ndarray) -> Examples:
    """The different ones of N x HW examples: cells [N, HW, 9], results [N, HW], and numbers [N, k] that belong to them."""
    with np.errstate(over="ignore"):
        mark = np.repeat(also.astype(np.int64) @ multipliers(also.shape[1] + 100)[: also.shape[1]], cells.shape[1])
        many = multipliers(10)
        for k in range(9):
            mark = mark + cells[..., k].reshape(-1).astype(np.int64) * many[k]
        both = mark + result.reshape(-1).astype(np.int64) * many[9]
    chosen = np.flatnonzero(use.reshape(-1))
    _, first, count = np.unique(both[chosen], return_index=True, return_counts=True)
    first = chosen[first]
    _, which = np.unique(mark[first], return_inverse=True)
    total = np.bincount(which, count)
    weight = count / np.sqrt(total[which])
    flat = cells.reshape(-1, 9)
    return Examples(
        flat[first].astype(np.int64), result.reshape(-1)[first].astype(np.int64), first // cells.shape[1], np.cumsum(weight)
    )


def _optimiser(config: LocalConfig) -> optax.GradientTransformation:
    rate = optax.cosine_decay_schedule(config.learning_rate, config.updates, SLOWER)
    return optax.chain(optax.clip_by_global_norm(5.0), optax.adamw(rate, weight_decay=DECAY))


@lru_cache(maxsize=4)
def _make_step(config: LocalConfig) -> Callable[..., Any]:
    """`step(model, optimiser_state, batches) -> ...`: CHUNK gradient steps, jitted."""
    optimiser = _optimiser(config)

    def loss(model: LocalModel, batch: dict[str, Any]) -> tuple[Array, dict[str, Array]]:
        cells, result, present, action, numbers = batch["next"]
        tile = _of(next_tile(model, cells, about(model.tile, Context(action, present, numbers))), result).mean()
        cells, result, present, action, numbers = batch["still"]
        masked = _of(masked_tile(model, cells, about(model.masked, Context(action, present, numbers))), result).mean()
        cells, _, present, action, numbers, kind, change = batch["board"]
        besides = about(model.outcome, Context(action, jnp.zeros_like(present), numbers))
        first = patch_sum(model.outcome, cells.reshape(-1, 9)).reshape(*cells.shape[:2], -1) + besides[:, None]
        classes, changes = outcomes(model, contribution(model, first).sum(1))
        outcome = _of(classes, kind).mean() + _of(changes, change).sum(-1).mean()
        return -(tile + masked + outcome), {"tile": tile, "masked": masked, "outcome": outcome}

    def one(carry: Any, batch: dict[str, Any]) -> Any:
        model, moments = carry
        grads, metrics = jax.grad(loss, has_aux=True)(model, batch)
        grads = _only_trained(grads)
        steps, moments = optimiser.update(grads, moments, model)
        steps = _only_trained(steps)
        return (optax.apply_updates(model, steps), moments), metrics

    @eqx.filter_jit
    def step(model: LocalModel, moments: Any, batches: dict[str, Any]) -> Any:
        (model, moments), metrics = jax.lax.scan(one, (model, moments), batches)
        return model, moments, jax.tree.map(jnp.mean, metrics)

    return step


def _only_trained(change: LocalModel) -> LocalModel:
    """Gradients or steps, none for what is not trained."""
    fixed = change.usual, change.loss, change.often, change.again
    return eqx.tree_at(lambda m: (m.usual, m.loss, m.often, m.again), change, jax.tree.map(jnp.zeros_like, fixed))


def _of(logs: Array, index: Any) -> Array:
    return jnp.take_along_axis(logs, jnp.asarray(index)[..., None], -1)[..., 0]


def _figures(model: LocalModel, held: Transitions) -> dict[str, Any]:
    """On held-out transitions: how often the likeliest next tile is right, also where it changes; the same of masked tiles and
    of outcomes, also of those that are not the usual."""
    data, host = _Data(model, held), model.on_host()
    none = model.scene.prototypes

    def right(examples: Examples, masked: bool) -> np.ndarray:
        rng = np.random.default_rng(0)
        some = rng.permutation(len(examples.of))[:MEASURED]
        cells, result, of = examples.cells[some], examples.result[some], examples.of[some]
        counts = data.counts[of].copy()
        if masked:
            counts[np.arange(len(of)), result] -= 1
        present = np.concatenate([counts > 0, np.zeros((len(of), 1), bool)], 1).astype(np.float32)
        context = Context(held.first[of].astype(int) if masked else held.action[of], present, held.numbers[of])
        if masked:
            logs = masked_tile(host, cells, about(host.masked, context))
        else:
            logs = next_tile(host, cells, about(host.tile, context))
        return np.stack([logs.argmax(-1) == result, cells[:, MIDDLE] != result, logs[np.arange(len(of)), result]], 1)

    tile, masked = right(data.next, False), right(data.still, True)
    changed = tile[:, 1] > 0
    boards = np.concatenate([data.eventful[:500], np.flatnonzero(data.outcome == USUAL)[:500]])
    context = Context(held.action[boards], np.zeros((len(boards), none + 1), np.float32), held.numbers[boards])
    first = patch_sum(host.outcome, data.around[boards].reshape(-1, 9).astype(np.int64)).reshape(
        len(boards), -1, host.outcome.bias.shape[0]
    )
    summed = contribution(host, first + about(host.outcome, context)[:, None]).sum(1)
    said = outcomes(host, summed)[0].argmax(-1) == data.outcome[boards]
    eventful = data.outcome[boards] != USUAL
    return {
        "tile_right": round(float(tile[:, 0].mean()), 5),
        "change_right": round(float(tile[changed, 0].mean()), 5) if changed.any() else None,
        "tile_log_likelihood": round(float(tile[:, 2].mean()), 5),
        "masked_right": round(float(masked[:, 0].mean()), 5),
        "masked_log_likelihood": round(float(masked[:, 2].mean()), 5),
        "outcome_right": round(float(said[~eventful].mean()), 5) if (~eventful).any() else None,
        "event_right": round(float(said[eventful].mean()), 5) if eventful.any() else None,
    }
