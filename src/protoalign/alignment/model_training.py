"""Training of the world model: maximum likelihood on games in the source, in prototypes."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.alignment.world_model import ANY_REWARD, LEAST_SPREAD, Moves, WorldModel
from protoalign.rl.history import Episodes
from protoalign.rl.networks import Scene
from protoalign.rl.train import Store, fit
from protoalign.rng import generator, stream, uniform
from protoalign.settings import ModelConfig

CHUNK = 10  # gradient steps in one compiled call
HELD_OUT = 0.1  # of the games
OPTIMISER = optax.chain(optax.clip_by_global_norm(5.0), optax.scale_by_adam(b2=0.99))
FEW = 100  # transitions: a prototype in fewer cannot be fitted


class Games(NamedTuple):
    """Games to learn from, on the device, and which transitions (game, step) there are."""

    tiles: Array  # [E, L + 1, N]
    numbers: Array  # [E, L + 1, M]
    action: Array  # [E, L]
    reward: Array  # [E, L]
    ended: Array  # [E, L] bool
    steps: Array  # [T, 2] int32
    eventful: Array  # [R, 2], those with a reward

    def moves(self, which: Array) -> Moves:
        e, t = which[:, 0], which[:, 1]
        grids, numbers = (self.tiles[e, t], self.tiles[e, t + 1]), (self.numbers[e, t], self.numbers[e, t + 1])
        return Moves(*grids, *numbers, self.action[e, t].astype(jnp.int32), self.reward[e, t], self.ended[e, t])


def games_of(episodes: Episodes) -> Games:
    tiles, numbers = (np.asarray(x) for x in episodes.observation)
    (number, longest), length = np.shape(episodes.action), np.asarray(episodes.length)
    time = np.arange(longest)
    ended = (time == length[:, None] - 1) & np.asarray(episodes.terminated)[:, None]
    going = time < length[:, None]
    reward = np.where(going, episodes.reward, 0).astype(np.float32)
    steps, eventful = (np.argwhere(x).astype(np.int32) for x in (going, reward != 0))
    tiles = tiles.reshape(number, longest + 1, -1)
    arrays = (tiles, numbers.astype(np.float32), episodes.action, reward, ended, steps, eventful)
    return Games(*(jnp.asarray(x) for x in arrays))


def train_model(
    store: Store,
    config: ModelConfig,
    scene: Scene,
    hideable: tuple[int, ...],
    episodes: Episodes,
    seed: int,
    title: str = "",
    names: tuple[str, ...] | None = None,
) -> tuple[WorldModel, dict[str, Any], float]:
    """A world model of games in prototypes; figures on a held-out tenth of them; and the seconds it took.

    `names` are those of all C prototypes. Figures: log-likelihoods per tile, per reward and per reward that is not 0 (event),
    of the model and of a baseline that says nothing ever changes; "warnings", in words, name hideable prototypes of which too
    little was seen.
    """
    order = generator(seed, "model/held-out").permutation(len(episodes.length))
    rest = order[: max(1, round(HELD_OUT * len(order)))]
    kept, held = (games_of(jax.tree.map(lambda x, i=i: np.asarray(x)[i], episodes)) for i in (order[len(rest) :], rest))
    rewards = np.asarray(kept.reward)[np.asarray(kept.reward) != 0]
    usual = float(np.sqrt((rewards**2).mean())) if len(rewards) else 1.0
    model = WorldModel(generator(seed, "model/network"), scene, config, usual)
    eventful = round(config.rewarded * config.batch) if len(kept.eventful) else 0
    step = _make_step(config, eventful)
    key, chunks = stream(seed, "model/batches"), -(-config.updates // CHUNK)

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        model, moments, metrics = step(
            state["model"], state["optimiser"], kept, jax.random.fold_in(key, i), jnp.float32(i / chunks)
        )
        return {"model": model, "optimiser": moments}, metrics

    start = {"model": model, "optimiser": OPTIMISER.init(model)}
    shown = "tiles {tiles:.3f}  reward {reward:.3f}"
    state, seconds = fit(store, "model", f"model {title}".strip(), chunks, start, update, shown)
    figures = _figures(state["model"], kept, held) | {"warnings": thin(episodes, hideable, names)}
    return state["model"], figures, seconds


@lru_cache(maxsize=4)  # compiled once for a process that trains or resumes several times
def _make_step(config: ModelConfig, eventful: int) -> Callable[..., Any]:
    """`step(model, optimiser_state, games, key, progress) -> ...`: some gradient steps, jitted; so many of a batch eventful."""

    def draw(key: Array, number: int, table: Array) -> Array:
        return table[(uniform(key, (CHUNK * number,)) * len(table)).astype(jnp.int32)].reshape(CHUNK, number, -1)

    def loss(model: WorldModel, move: Moves, first: Array) -> tuple[Array, dict[str, Array]]:
        like = model.moves(move)
        # Chosen for their reward, their tiles would be counted too often.
        weight = jnp.where(jnp.arange(config.batch) < config.batch - eventful, 1, 0.1)
        begin = model.starts(first).mean()
        tiles, reward = (weight * like.tiles).mean(), like.reward.mean()
        total = tiles + 2 * reward + 0.5 * like.end.mean() + like.numbers.mean() + begin / 4
        return -total, {"tiles": tiles, "reward": reward, "first": begin}

    def one(carry: Any, x: tuple[Moves, Array, Array]) -> Any:
        model, moments = carry
        move, first, rate = x
        grads, metrics = jax.grad(loss, has_aux=True)(model, move, first)
        grads = eqx.tree_at(lambda m: m.usual, grads, jnp.zeros(()))
        steps, moments = OPTIMISER.update(grads, moments)
        model = optax.apply_updates(model, jax.tree.map(lambda s: -rate * s, steps))

        def pull(x: Array) -> Array:
            kinds = x[:, :-1]
            return x.at[:, :-1].add(-rate * config.decay * (kinds - kinds.mean(1, keepdims=True)))

        pulled = pull(model.before), pull(model.after), pull(model.first)
        model = eqx.tree_at(lambda m: (m.before, m.after, m.first), model, pulled)
        return (model, moments), metrics

    @eqx.filter_jit
    def step(model: WorldModel, moments: Any, games: Games, key: Array, progress: Array) -> Any:
        plain_key, event_key, first_key = jax.random.split(key, 3)
        which = draw(plain_key, config.batch - eventful, games.steps)
        if eventful:
            which = jnp.concatenate([which, draw(event_key, eventful, games.eventful)], 1)
        first = draw(first_key, config.batch, games.tiles[:, 0])
        rate = config.learning_rate + (config.final_learning_rate - config.learning_rate) * progress
        rate = rate * jnp.minimum(1, 50 * progress + 0.1)  # a slow start
        # Batches are drawn before the loop: XLA would else fold the drawing into all that is made of them.
        batches = jax.lax.optimization_barrier((jax.vmap(games.moves)(which), first))
        (model, moments), metrics = jax.lax.scan(one, (model, moments), (*batches, jnp.broadcast_to(rate, CHUNK)))
        return model, moments, jax.tree.map(jnp.mean, metrics)

    return step


def _figures(model: WorldModel, kept: Games, held: Games, most: int = 4096) -> dict[str, Any]:
    """Log-likelihoods of held-out transitions, per tile that stayed in sight and per reward, and a baseline's."""
    move = held.moves(held.steps[:: -(-len(held.steps) // most)])
    like = eqx.filter_jit(model.moves)(move)
    kinds, tiles = model.scene.prototypes, model.scene.tiles
    past = kept.moves(kept.steps[:: -(-len(kept.steps) // most)])
    same, now = (np.asarray(m.before == m.after) for m in (past, move))
    change = (~same).mean() + 1e-4
    spread = max(float(past.reward.std() / model.usual), LEAST_SPREAD)
    normal = -0.5 * ((move.reward - past.reward.mean()) / model.usual / spread) ** 2 - np.log(spread) - 0.919
    plain = np.logaddexp(normal, np.log(ANY_REWARD / 10))
    event = np.asarray(move.reward != 0)
    told = {"reward": event | True, "event": event} if event.any() else {"reward": event | True}
    rewards = {f"{name}_log_likelihood": round(float(np.asarray(like.reward)[of].mean()), 5) for name, of in told.items()}
    rewards |= {f"{name}_baseline": round(float(np.asarray(plain)[of].mean()), 5) for name, of in told.items()}
    return {
        "tile_log_likelihood": round(float(like.tiles.mean() / tiles), 5),
        "tile_baseline": round(float(np.where(now, np.log1p(-change), np.log(change / max(kinds - 1, 1))).mean()), 5),
        **rewards,
        "transitions": len(kept.steps),
        "rewarded": len(kept.eventful),
    }


def thin(episodes: Episodes, hideable: tuple[int, ...], names: tuple[str, ...] | None = None) -> list[str]:
    """In words, which hideable prototypes are in too few transitions to learn what they do."""
    going = np.arange(np.shape(episodes.action)[1]) < np.asarray(episodes.length)[:, None]
    tiles = np.asarray(episodes.observation.tiles)[:, :-1][going].reshape(going.sum(), -1)
    found = {c: int((tiles == c).any(1).sum()) for c in hideable}
    return [
        f"{names[c] if names else f'prototype {c}'} was seen in {n} of {len(tiles)} transitions: too few to learn what it does"
        for c, n in found.items()
        if n < FEW
    ]
