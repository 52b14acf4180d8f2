"""q_theta for an actor that plays the task policy while it finds out: trained on games of that actor, and on nothing else.

In the history of the task policy actions give away what things are, since pi_task knew it. The games here are played in
imagined worlds by the actor with the judge as it is by then, so what is learned is what such games show. The loss is that of
the whole assignment, not of slots one by one: all slots are judged together later, and so they are here. That makes the
posterior over assignments calibrated, not only what it says of each slot.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.alignment import assignments, imagined_games, model_judge
from protoalign.alignment.actors import Actor
from protoalign.alignment.imagination import Imagined, imagine
from protoalign.alignment.inference import InferenceModel
from protoalign.alignment.judges import QTheta
from protoalign.alignment.model_judge import ModelJudge
from protoalign.alignment.training import follow, make_optimiser, remember
from protoalign.alignment.training import loss as type_by_type
from protoalign.rl.history import Episodes, join
from protoalign.rl.rollout import Learnable
from protoalign.rl.train import Store, fit
from protoalign.rng import generator, stream
from protoalign.settings import JudgeConfig
from protoalign.worlds.base import Observation

WEIGHTS = np.geomspace(0.25, 4.0, 17)  # that `calibrate` tries
SURE, MISTAKEN = 0.99, 25.0
PART = 75  # steps of a part of a game
AT_ONCE = 32  # games that are cut into parts
OTHERS = (0.0, *np.geomspace(0.05, 1.6, 11).tolist())


class Lot(NamedTuple):
    """N games to learn from, or parts of games."""

    episodes: Episodes  # in prototypes
    hidden: Any  # [N, K] bool, what was hidden when they were played: what they show depends on it
    start: Any = None  # [N, K, F], the state of each prototype's slot at the start of parts of games


def loss(
    model: InferenceModel, episodes: Episodes, imagined: Imagined, start: Array | None = None
) -> tuple[Array, dict[str, Array]]:
    """Minus the log-probability of the true assignment, at the start and after every step of B episodes.

    A slot beyond the first K, a second look, is judged by itself; and so are all where assignments are too many. `start` is as
    in `follow`.
    """
    kinds = len(model.hideable)
    if kinds > assignments.MOST:
        return type_by_type(model, episodes, imagined, start)
    score = follow(model, episodes, imagined, start)  # [1 + L, B, S, K]
    posterior = jax.nn.log_softmax(assignments.total(score[:, :, :kinds]))
    truth = assignments.index_of(imagined.truth[:, :kinds])
    given = jnp.take_along_axis(posterior, truth[None, :, None], -1)[..., 0]  # [1 + L, B]
    right = (posterior[-1].argmax(-1) == truth).mean()
    if score.shape[2] > kinds:
        second = jnp.take_along_axis(score[:, :, kinds], imagined.truth[None, :, kinds:], -1)[..., 0]
        given = given + second * imagined.hidden[:, kinds]
    return -given.mean(), {"loss": -given.mean(), "final_loss": -given[-1].mean(), "episodes_right": right}


def make_fit(optimiser: optax.GradientTransformation, twice: float) -> Callable[..., Any]:
    """`fit(model, optimiser_state, lot, key) -> model, optimiser_state, metrics`: one gradient step on a `Lot`, jitted."""

    @eqx.filter_jit
    def fit(model: Any, state: Any, lot: Lot, key: Array) -> Any:
        episodes, hidden, start = lot
        second = 0.0 if model.scene.cell is not None else twice
        kinds = len(model.hideable)
        imagined = imagine(key, len(hidden), kinds, 1.0, second, model.scene.grid, hidden)
        if start is not None:  # by slots
            start = jnp.take_along_axis(start, imagined.truth[..., None], 1)
        grads, metrics = jax.grad(loss, has_aux=True)(model, episodes, imagined, start)
        steps, state = optimiser.update(grads, state)
        return optax.apply_updates(model, steps), state, metrics

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
    optimiser = make_optimiser(config.updates, config.learning_rate, config.final_learning_rate)
    gradient_step = make_fit(optimiser, config.twice)
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
        chosen = generator(seed, f"judge/{i}").integers(0, len(lot.hidden), config.batch)
        batch = jax.tree.map(lambda x: x[chosen], lot)
        fitted, moments, metrics = gradient_step(state["model"], state["optimiser"], batch, jax.random.fold_in(key, i))
        return {"model": fitted, "optimiser": moments, "player": player}, metrics

    shown = "loss {loss:.3f}  episodes right {episodes_right:.3f}"
    start = {"model": model, "optimiser": optimiser.init(model), "player": model}
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
    return remember(model, episodes, plain)[:-1:size]


def calibrate(model: InferenceModel, episodes: Episodes, config: JudgeConfig, other: ModelJudge | None = None) -> Any:
    """Weights (own, other) of the evidence of q_theta and of another judge, under which the truth is most likely.

    They are fitted over all steps of N games played in disguise with everything hidden: when it says 0.9 it is then right 9
    times in 10. Both see the same, so together they count for less than each by itself. A game in which it was wrong when it
    was SURE for the first time costs MISTAKEN nats besides.
    """
    kinds = len(model.hideable)
    names = np.tile(np.arange(kinds, dtype=np.int32), (config.batch, 1))
    plain = Imagined(names, names, None, names, np.ones(names.shape, bool))  # type: ignore[arg-type]
    shares = OTHERS if other is not None else (0.0,)
    total = np.zeros((len(WEIGHTS), len(shares)))
    for first in range(0, len(episodes.length) - config.batch + 1, config.batch):
        some = jax.tree.map(lambda x, first=first: x[first : first + config.batch], episodes)
        total += np.asarray(_given(model, other, some, plain, shares))
    own, share = np.unravel_index(np.argmax(total), total.shape)
    return float(WEIGHTS[own]), float(shares[share])


@eqx.filter_jit
def _given(
    model: InferenceModel, other: ModelJudge | None, episodes: Episodes, plain: Imagined, shares: tuple[float, ...]
) -> Array:
    """The log-probability of the truth, assignment 0, over all steps, less what sure mistakes cost; by weights, [W, O]."""
    score = assignments.total(follow(model, episodes, plain))[1:]  # [L, B, H]
    going = (jnp.arange(len(score))[:, None] < episodes.length).astype(jnp.float32)
    told = jnp.zeros_like(score)
    if other is not None:
        evidence, start = model_judge.follow(other, episodes)
        told = other.weights.start * start + jnp.cumsum(model_judge.weigh(other.weights, evidence), 0)

    def of(weights: Array) -> Array:
        posterior = jax.nn.log_softmax(weights[0] * score + weights[1] * told)
        sure = (posterior.max(-1) >= np.log(SURE)) & (going > 0)  # [L, B]
        wrong = jnp.take_along_axis(posterior[..., 0] < posterior.max(-1), jnp.argmax(sure, 0)[None], 0)[0] & sure.any(0)
        return (posterior[..., 0] * going).sum() - MISTAKEN * wrong.sum()

    pairs = np.stack(np.meshgrid(WEIGHTS, shares, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)
    return jax.lax.map(of, jnp.asarray(pairs)).reshape(len(WEIGHTS), len(shares))
