"""q_theta for an actor that plays the task policy while it finds out: trained on games of that actor, and on nothing else.

In the history of the task policy actions give away what things are, since pi_task knew it. The games here are played in
imagined worlds by the actor with the judge as it is by then, so what is learned is what such games show. The loss is that of
the whole assignment, not of slots one by one: all slots are judged together later, and so they are here. That makes the
posterior over assignments calibrated, not only what it says of each slot.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.alignment import assignments, imagined_games
from protoalign.alignment.actors import Actor
from protoalign.alignment.imagination import Imagined, imagine
from protoalign.alignment.inference import InferenceModel
from protoalign.alignment.judges import QTheta
from protoalign.alignment.training import DRAWN, OPTIMISER, Rows, each_in_a_row, lay, rate, remember, shares
from protoalign.alignment.training import loss as loss_by_type
from protoalign.rl.history import Episodes, join
from protoalign.rl.rollout import Learnable
from protoalign.rl.train import Store, fit
from protoalign.rng import generator, stream
from protoalign.settings import JudgeConfig
from protoalign.worlds.base import Observation

PART = 75  # steps of a part of a game
AT_ONCE = 32  # games that are cut into parts


class Lot(NamedTuple):
    """N games to learn from, or parts of games."""

    episodes: Episodes  # in prototypes
    hidden: Any  # [N, K] bool, what was hidden when they were played: what they show depends on it
    start: Any = None  # [N, K, F], the state of each prototype's slot at the start of parts of games


class Batch(NamedTuple):
    """Rows of games, or of parts of games, for one gradient step."""

    rows: Rows
    hidden: Any  # [R, K] bool, of all games in a row
    start: Any = None  # [R, K, F], as in `Lot`


def choose(lot: Lot, rng: np.random.Generator, rows: int) -> Batch:
    """Games drawn at random, with repetition, as many as fit into so many rows; of parts of games, one in each row."""
    chosen = rng.integers(0, len(lot.hidden), rows if lot.start is not None else DRAWN * rows)
    if lot.start is not None:
        episodes, hidden, start = jax.tree.map(lambda x: x[chosen], lot)
        return Batch(each_in_a_row(episodes), hidden, start)
    laid, game = lay(lot.episodes, chosen, rows, lot.hidden @ (1 << np.arange(lot.hidden.shape[1])))
    return Batch(laid, lot.hidden[game])


def loss(model: InferenceModel, rows: Rows, imagined: Imagined, start: Array | None = None) -> tuple[Array, dict[str, Array]]:
    """Minus the log-probability of the true assignment, at the start and after every step of the games in R rows.

    A slot beyond the first K, a second look, is judged by itself; and so are all where assignments are too many. `start` is as
    in `remember`.
    """
    kinds = len(model.hideable)
    if kinds > assignments.MOST:
        return loss_by_type(model, rows, imagined, start)
    score = jax.vmap(model.score, (0, None))(remember(model, rows, imagined, start), imagined)  # [1 + L, R, S, K]
    posterior = jax.nn.log_softmax(assignments.total(score[:, :, :kinds]))
    truth = assignments.index_of(imagined.truth[:, :kinds])
    given = jnp.take_along_axis(posterior, truth[None, :, None], -1)[..., 0]  # [1 + L, R]
    right = posterior.argmax(-1) == truth
    if score.shape[2] > kinds:
        second = jnp.take_along_axis(score[:, :, kinds], imagined.truth[None, :, kinds:], -1)[..., 0]
        given = given + second * imagined.hidden[:, kinds]
    every, final = shares(rows)
    total = -(every * given).sum()
    return total, {"loss": total, "final_loss": -(final * given).sum(), "episodes_right": (final * right).sum()}


@lru_cache(maxsize=8)
def make_fit(twice: float) -> Callable[..., Any]:
    """`fit(model, optimiser_state, batch, key, rate) -> ...`: one gradient step on a `Batch`, jitted, as in `training`."""

    @eqx.filter_jit
    def fit(model: Any, state: Any, batch: Batch, key: Array, rate: Array) -> Any:
        rows, hidden, start = batch
        second = 0.0 if model.scene.cell is not None else twice
        kinds = len(model.hideable)
        imagined = imagine(key, len(hidden), kinds, 1.0, second, model.scene.grid, hidden)
        if start is not None:  # by slots
            start = jnp.take_along_axis(start, imagined.truth[..., None], 1)
        grads, metrics = jax.grad(loss, has_aux=True)(model, rows, imagined, start)
        steps, state = OPTIMISER.update(grads, state)
        return optax.apply_updates(model, jax.tree.map(lambda x: -rate * x, steps)), state, metrics

    return fit


def train_judge(
    store: Store,
    config: JudgeConfig,
    world: Learnable,
    model: InferenceModel,
    actor: Actor,
    seed: int,
    longest: int,
    title: str = "",
) -> tuple[InferenceModel, float]:
    """q_theta trained on games that `actor` plays with it, new ones every `config.period` updates; the seconds that took."""
    gradient_step, rates = make_fit(config.twice), (config.updates, config.learning_rate, config.final_learning_rate)
    key, games_key = stream(seed, "judge/imagine"), stream(seed, "judge/games")
    played: dict[int, Lot] = {}  # by the update they were played before; the last ones only
    many = len(model.hideable) > assignments.MOST

    def games(player: InferenceModel, first: int) -> Lot:
        if first not in played:
            part = jax.random.fold_in(games_key, first)
            found = imagined_games.play(
                world, model.hideable, QTheta(player), actor, part, config.games, 1, longest, config.hide_all
            )
            played.clear()
            lot = Lot(jax.tree.map(lambda x: x[0], found.episodes), found.hidden)
            played[first] = parts(player, lot) if many else lot
        return played[first]

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        first = i - i % config.period
        player = state["model"] if i == first else state["player"]
        lot = games(player, first)
        batch = choose(lot, generator(seed, f"judge/{i}"), config.batch)
        fitted, moments, metrics = gradient_step(
            state["model"], state["optimiser"], batch, jax.random.fold_in(key, i), rate(i, *rates)
        )
        return {"model": fitted, "optimiser": moments, "player": player}, metrics

    shown = "loss {loss:.3f}  episodes right {episodes_right:.3f}"
    start = {"model": model, "optimiser": OPTIMISER.init(model), "player": model}
    state, seconds = fit(store, "judge", f"judge {title}".strip(), config.updates, start, update, shown)
    return state["model"], seconds


def parts(model: InferenceModel, lot: Lot) -> Lot:
    """Games in parts of about PART steps, with the states that `model` has when they begin.

    What is learned from the steps of one game is much the same, so a gradient is better spent on parts of many games. States
    are of the network before the last few updates.
    """
    longest, kinds = lot.episodes.action.shape[1], lot.hidden.shape[1]
    number = max(longest // PART, 1)
    size = longest // number
    found = []
    for first in range(0, len(lot.hidden), AT_ONCE):
        episodes, hidden, _ = jax.tree.map(lambda x, first=first: x[first : first + AT_ONCE], lot)
        names = np.tile(np.arange(kinds, dtype=np.int32), (len(hidden), 1))
        plain = Imagined(names, names, None, names, hidden)  # type: ignore[arg-type]
        states = np.asarray(_states(model, episodes, plain, size))
        for i in range(number):
            there, begin = np.flatnonzero(episodes.length > i * size), i * size
            (tiles, numbers), action, reward, length, over = jax.tree.map(lambda x, there=there: x[there], episodes)
            shown = Observation(tiles[:, begin : begin + size + 1], numbers[:, begin : begin + size + 1])
            steps = slice(begin, begin + size)
            part = Episodes(shown, action[:, steps], reward[:, steps], np.minimum(length - begin, size), over)
            found.append(Lot(part, hidden[there], states[i][there]))
    return join(found)


@eqx.filter_jit
def _states(model: InferenceModel, episodes: Episodes, plain: Imagined, size: int) -> Array:
    """Hidden states [parts, B, K, F] before every `size`-th step."""
    return remember(model, each_in_a_row(episodes), plain)[:-1:size]
