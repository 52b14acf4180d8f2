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

from protoalign.alignment import assignments, imagined_games
from protoalign.alignment.actors import Actor
from protoalign.alignment.imagination import Imagined, imagine
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.inference import InferenceModel
from protoalign.alignment.judges import LEAST, QTheta
from protoalign.alignment.training import follow, make_optimiser
from protoalign.alignment.training import loss as type_by_type
from protoalign.rl.history import Episodes
from protoalign.rl.rollout import Learnable
from protoalign.rl.train import Store, fit
from protoalign.rng import generator, stream
from protoalign.settings import JudgeConfig

WEIGHTS = np.geomspace(0.25, 4.0, 17)  # that `calibrate` tries
SURE, MISTAKEN = 0.99, 25.0
OTHERS = (0.0, *np.geomspace(0.05, 1.6, 11).tolist())
DOUBTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # more would make it say less than it knows
ROUNDS = 4
AT_ONCE = 128  # games


def loss(model: InferenceModel, episodes: Episodes, imagined: Imagined) -> tuple[Array, dict[str, Array]]:
    """Minus the log-probability of the true assignment, at the start and after every step of B episodes.

    A slot beyond the first K, a second look, is judged by itself; and so are all where assignments are too many.
    """
    kinds = len(model.hideable)
    if kinds > assignments.MOST:
        return type_by_type(model, episodes, imagined)
    score = follow(model, episodes, imagined)  # [1 + L, B, S, K]
    posterior = jax.nn.log_softmax(assignments.total(score[:, :, :kinds]))
    truth = assignments.index_of(imagined.truth[:, :kinds])
    given = jnp.take_along_axis(posterior, truth[None, :, None], -1)[..., 0]  # [1 + L, B]
    right = (posterior[-1].argmax(-1) == truth).mean()
    if score.shape[2] > kinds:
        second = jnp.take_along_axis(score[:, :, kinds], imagined.truth[None, :, kinds:], -1)[..., 0]
        given = given + second * imagined.hidden[:, kinds]
    return -given.mean(), {"loss": -given.mean(), "final_loss": -given[-1].mean(), "episodes_right": right}


def make_fit(optimiser: optax.GradientTransformation, twice: float) -> Callable[..., Any]:
    """`fit(model, optimiser_state, episodes, hidden, key) -> model, optimiser_state, metrics`: one gradient step, jitted.

    `hidden` [B, K] tells what was hidden when the episodes were played: what they show depends on it.
    """

    @eqx.filter_jit
    def fit(model: Any, state: Any, episodes: Episodes, hidden: Array, key: Array) -> Any:
        second = 0.0 if model.scene.cell is not None else twice
        kinds = len(model.hideable)
        imagined = imagine(key, len(hidden), kinds, 1.0, second, model.scene.grid, hidden)
        grads, metrics = jax.grad(loss, has_aux=True)(model, episodes, imagined)
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
    played: dict[int, tuple[Episodes, np.ndarray]] = {}  # by the update they were played before; the last ones only

    def games(player: InferenceModel, first: int) -> tuple[Episodes, np.ndarray]:
        if first not in played:
            part = jax.random.fold_in(games_key, first)
            found = imagined_games.play(
                world, model.hideable, QTheta(player), actor, part, config.games, 1, longest, config.hide_all
            )
            played.clear()
            played[first] = jax.tree.map(lambda x: x[0], found.episodes), found.hidden
        return played[first]

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        first = i - i % config.period
        player = state["model"] if i == first else state["player"]
        episodes, hidden = games(player, first)
        chosen = generator(seed, f"judge/{i}").integers(0, len(hidden), config.batch)
        batch, which = jax.tree.map(lambda x: x[chosen], (episodes, hidden))
        fitted, moments, metrics = gradient_step(state["model"], state["optimiser"], batch, which, jax.random.fold_in(key, i))
        return {"model": fitted, "optimiser": moments, "player": player}, metrics

    shown = "loss {loss:.3f}  episodes right {episodes_right:.3f}"
    start = {"model": model, "optimiser": optimiser.init(model), "player": model}
    state, seconds = fit(store, "judge", f"judge {title}".strip(), config.updates, start, update, shown)
    return state["model"], seconds


class Weighing(NamedTuple):
    """How much evidence counts."""

    own: float  # q_theta's
    other: float  # the world model's, if there is one
    doubt: float  # nats: assignments within so many of the best are as good


def calibrate(played: Games) -> Weighing:
    """The weights of evidence under which the truth is most likely, over all steps of games in disguise, `told` kept.

    Everything is hidden in them: when it says 0.9 it is then right 9 times in 10. q_theta and the world model see the same, so
    together they count for less than each by itself. A game in which it was wrong when it was SURE for the first time costs
    MISTAKEN nats besides. One number after the other is chosen, and again, until nothing changes.
    """
    if played.hidden.shape[-1] > assignments.MOST:
        return Weighing(1.0, 0.0, 0.0)
    told: Any = jax.tree.map(lambda x: x[0], played.told)  # of the first games, [E, L, ...]
    scores, model = told if isinstance(told, tuple) else (told, None)
    grids: tuple[Any, ...] = (WEIGHTS, OTHERS if model is not None else (0.0,), DOUBTS)
    best = [1.0, 0.4 if model is not None else 0.0, 0.0]
    going = played.going[0]
    for _ in range(ROUNDS):
        before = list(best)
        for i, grid in enumerate(grids):
            tried = jnp.array([[*best[:i], value, *best[i + 1 :]] for value in grid], jnp.float32)
            worth = np.zeros(len(tried))
            for first in range(0, len(going), AT_ONCE):
                some = slice(first, first + AT_ONCE)
                said = None if model is None else model[some]
                worth += np.asarray(_worth(scores[some], said, going[some], played.truth[some], tried))
            best[i] = float(grid[int(worth.argmax())])
        if best == before:
            break
    return Weighing(*best)


@eqx.filter_jit
def _worth(scores: Array, model: Array | None, going: Array, truth: Array, tried: Array) -> Array:
    """The log-probability of the truth over all steps, less what sure mistakes cost, [W] for weighings [W, 3]; scores are
    [E, L, K, K], what the model said [E, L, H]."""
    total = assignments.total(scores)

    def of(weights: Array) -> Array:
        said = jnp.maximum(jax.nn.log_softmax(weights[0] * total), LEAST)
        if model is not None:
            said = said + weights[1] * model
        posterior = assignments.doubted(said, weights[2])
        given = jnp.take_along_axis(posterior, truth[:, None, None], 2)[..., 0]  # [E, L]
        sure = (posterior.max(-1) >= np.log(SURE)) & going
        first = jnp.argmax(sure, 1)[:, None]
        wrong = jnp.take_along_axis(given < posterior.max(-1), first, 1)[:, 0] & sure.any(1)
        return (given * going).sum() - MISTAKEN * wrong.sum()

    return jax.lax.map(of, tried)
