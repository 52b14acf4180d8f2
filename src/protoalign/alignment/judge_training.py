"""q_theta for an actor that plays the task policy while it finds out: trained on games of that actor, and on nothing else.

In the history of the task policy actions give away what things are, since pi_task knew it. The games here are played in
imagined worlds by the actor with the judge as it is by then, so what is learned is what such games show. The loss is that of
the whole assignment, not of slots one by one: all slots are judged together later, and so they are here. That makes the
posterior over assignments calibrated, not only what it says of each slot.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from scipy.special import log_softmax

from protoalign.alignment import assignments, imagined_games
from protoalign.alignment.actors import Actor
from protoalign.alignment.imagination import Imagined, imagine
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.inference import InferenceModel
from protoalign.alignment.judges import LEAST, QTheta
from protoalign.alignment.training import follow, make_optimiser, remember
from protoalign.alignment.training import loss as loss_by_type
from protoalign.rl.history import Episodes, join
from protoalign.rl.rollout import Learnable
from protoalign.rl.train import Store, fit
from protoalign.rng import generator, stream
from protoalign.settings import JudgeConfig
from protoalign.worlds.base import Observation

PART = 75  # steps of a part of a game
AT_ONCE = 32  # games that are cut into parts
# What `calibrate` tries, and what mistakes cost in nats.
WEIGHTS = tuple(np.geomspace(0.25, 4.0, 9).tolist())
OTHERS = (0.0, *np.geomspace(0.05, 1.6, 11).tolist())
DOUBTS = (0.0, 0.1, 0.3, 0.5)  # more would make it say less than it knows
ROUNDS = 2
SURE, MISTAKEN = 0.99, 25.0
BINS, ENOUGH, TOLERATED, OVERSTATED = (0.7, 0.85, 0.95, 0.99), 30, 0.03, 0.15
LEADERS = 31  # assignments that are looked at beside the truth: all others are ruled out by the first step or two


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
        return loss_by_type(model, episodes, imagined, start)
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


class Weighing(NamedTuple):
    """How much evidence counts."""

    own: float  # q_theta's
    other: float  # the world model's, if there is one
    doubt: float  # nats: assignments within so many of the best are as good


def calibrate(played: Games) -> Weighing:
    """The weights of evidence under which the truth is most likely, over all steps of games in disguise, `told` kept.

    Everything is hidden in them: when it says 0.9 it is then right 9 times in 10. q_theta and the world model see the same, so
    together they count for less than each by itself. A game in which it was wrong when it was SURE for the first time costs
    MISTAKEN nats besides; and so does saying more than is true where it is half sure (BINS), which are few steps, that the
    likelihood alone would not mind: OVERSTATED nats a game, times by how much.
    """
    said = _said(played)
    others = OTHERS if said.other is not None else (0.0,)
    tried: dict[Weighing, float] = {}

    def worth(weights: Weighing) -> float:
        if weights not in tried:
            tried[weights] = _worth(said, weights)
        return tried[weights]

    for doubt in DOUBTS:  # for each, one weight after the other
        best = Weighing(1.0, others[len(others) // 2], doubt)
        for _ in range(ROUNDS):
            best = max((best._replace(own=w) for w in WEIGHTS), key=worth)
            best = max((best._replace(other=w) for w in others), key=worth)
    return max(tried, key=worth)


class _Said(NamedTuple):
    """What judges said of the truth (column 0) and of the LEADERS best other assignments, at N steps of all games in order."""

    own: np.ndarray  # [N, 1 + LEADERS]
    other: np.ndarray | None
    first: np.ndarray  # [games], the number of every game's first step


def _said(played: Games) -> _Said:
    told: Any = jax.tree.map(lambda x: x[0], played.told)  # of the first games, [E, L, ...]
    scores, model = told if isinstance(told, tuple) else (told, None)
    going, marks = played.going[0], assignments.marks(scores.shape[-1])
    own, other = [], []
    for game, truth in enumerate(played.truth):
        steps = np.flatnonzero(going[game])
        total = scores[game, steps].reshape(len(steps), -1) @ marks.T  # [steps, H]
        more = 0.0 if model is None else model[game, steps]
        ranked = total + np.float32(0.4) * more
        ranked[:, truth] = -np.inf  # it has a column of its own
        number = min(LEADERS, ranked.shape[1] - 1)
        leaders = np.argpartition(-ranked, number - 1, 1)[:, :number]
        which = np.concatenate([np.full((len(steps), 1), truth), leaders], 1)
        own.append(np.take_along_axis(total, which, 1))
        if model is not None:
            other.append(np.take_along_axis(more, which, 1))
    first = np.concatenate([[0], going.sum(1).cumsum()[:-1]])
    return _Said(np.concatenate(own), np.concatenate(other) if other else None, first)


def _worth(said: _Said, weights: Weighing) -> float:
    """The log-probability of the truth over all steps, less what sure mistakes cost."""
    total = np.maximum(log_softmax(weights.own * said.own, axis=1), LEAST)
    if said.other is not None:
        total = total + weights.other * said.other
    posterior = log_softmax(-np.maximum(total.max(1, keepdims=True) - total - weights.doubt, 0), axis=1)
    sure = posterior.max(1) >= np.log(SURE)
    wrong = sure & (posterior[:, 0] < posterior.max(1))
    # Of every game, the first step at which it was sure.
    number = np.arange(len(sure))
    when = np.minimum.reduceat(np.where(sure, number, len(sure)), said.first)
    mistaken = wrong[when[when < len(sure)]].sum()
    best, right = np.exp(posterior.max(1)), posterior[:, 0] >= posterior.max(1)
    over = 0.0
    for low, high in pairwise(BINS):
        there = (best >= low) & (best < high)
        if there.sum() >= ENOUGH:
            over += max(0.0, float(best[there].mean() - right[there].mean()) - TOLERATED)
    return float(posterior[:, 0].sum() - MISTAKEN * mistaken - OVERSTATED * len(said.first) * over)
