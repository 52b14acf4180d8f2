"""Training q_theta and pi_exp in worlds seen from the player's place (Crafter)."""

from typing import Any

import jax
import numpy as np

from protoalign.alignment import view_inference
from protoalign.alignment.decoding import by_prototype, share_right
from protoalign.alignment.inference import make_optimiser
from protoalign.alignment.view_exploration import Blend, ImaginedView, ViewExplorer, play
from protoalign.alignment.view_inference import Games, ViewInference
from protoalign.config import ExploreConfig, InferConfig
from protoalign.envs.base import World
from protoalign.envs.crafter.world import Crafter
from protoalign.rl.networks import ViewNet
from protoalign.rl.train import fit, train
from protoalign.rng import generator, stream
from protoalign.runs import Run

LONGEST = 300  # steps of a game of exploration
WATCHED_GAMES = 256
_play = jax.jit(play, static_argnums=(3, 4))


def make_fit(optimiser: Any) -> Any:
    """`fit(model, optimiser_state, games, key) -> model, optimiser_state, metrics`: one gradient step, jitted."""

    @jax.jit
    def fit(model: ViewInference, state: Any, games: Games, key: Any) -> Any:
        grads, metrics = jax.grad(view_inference.loss, has_aux=True)(model, games, key)
        steps, state = optimiser.update(grads, state)
        return jax.tree.map(lambda a, b: a + b, model, steps), state, metrics

    return fit


def choose(games: Games, rng: np.random.Generator, number: int) -> Games:
    chosen = rng.integers(0, len(games.length), number)
    return Games(*(x[chosen] for x in games))


def past_games(model: ViewInference, task: ViewNet, seed: int, number: int) -> Games:
    """Experience in the source world from random play to pi_task's, in place of a history kept while it learned."""
    world, net = ImaginedView(model, LONGEST), Blend(task)
    side = min(number, 256)
    keys = jax.random.split(stream(seed, "infer/games"), number // side)
    parts = [jax.device_get(_play(world, net, key, side, False).games) for key in keys]
    return Games(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def train_inference(
    run: Run, config: InferConfig, world: Crafter, kinds: tuple[int, ...], task: ViewNet, seed: int
) -> tuple[ViewInference, dict[str, Any]]:
    """q_theta on games of every sort."""
    model = ViewInference(generator(seed, "infer/network"), world, kinds, config.width)
    optimiser = make_optimiser(config.updates, config.learning_rate, config.final_learning_rate)
    gradient_step = make_fit(optimiser)
    key = stream(seed, "infer/disguise")
    games: list[Games] = []  # played when first needed: not if all is done already

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        if not games:
            games.append(past_games(model, task, seed, config.games))
        batch = choose(games[0], generator(seed, f"infer/{i}"), config.batch)
        fitted, moments, metrics = gradient_step(state["model"], state["optimiser"], batch, jax.random.fold_in(key, i))
        return {"model": fitted, "optimiser": moments}, metrics

    shown = "loss {loss:.3f}  types right {types_right:.3f}"
    start = {"model": model, "optimiser": optimiser.init(model)}
    state, seconds = fit(run, "infer", f"infer {world.name}", config.updates, start, update, shown)
    return state["model"], {"seconds": seconds}


def train_exploration(
    run: Run, config: ExploreConfig, model: ViewInference, task: ViewNet, seed: int
) -> tuple[Any, ViewInference, dict[str, Any]]:
    """pi_exp in imagined worlds, refreshing q_theta on its games; the explorer and the model it ended with."""
    optimiser = make_optimiser(config.refresh, config.refresh_rate, 0.1 * config.refresh_rate)
    gradient_step = make_fit(optimiser)
    past: list[Games] = []

    def refresh(world: World, net: Any, update: int) -> World:
        assert isinstance(world, ImaginedView)
        if not past:
            past.append(past_games(model, task, seed, config.episodes))
        key = jax.random.fold_in(stream(seed, "explore/refresh"), update)
        parts = [_play(world, net, k, 256).games for k in jax.random.split(key, config.episodes // 256)]
        fresh = Games(*(np.concatenate(x) for x in zip(*jax.device_get(parts), strict=True)))
        fitted = world.model
        state = optimiser.init(fitted)
        for i in range(config.refresh):
            rng = generator(seed, f"explore/refresh/{update}/{i}")
            halves = [choose(games, rng, config.batch // 2) for games in (past[0], fresh)]
            batch = Games(*(np.concatenate(pair) for pair in zip(*halves, strict=True)))
            fitted, state, _ = gradient_step(fitted, state, batch, jax.random.fold_in(key, i))
        return ImaginedView(fitted, world.longest, world.hide_all)

    def watch(world: World, net: Any) -> dict[str, float]:
        assert isinstance(world, ImaginedView)
        found = measure(ImaginedView(world.model, world.longest), net, seed, WATCHED_GAMES)
        return {name: found[name] for name in ("one_episode_correct", "information")}

    net = ViewExplorer.from_task(generator(seed, "explore/network"), task, model.kinds, config.from_task)
    start = ImaginedView(model, LONGEST, config.hide_all)
    net, last, figures = train(run, "explore", config, start, net, seed, refresh if config.refresh else None, watch)
    assert isinstance(last, ImaginedView)
    return net, last.model, figures


def measure(world: ImaginedView, net: Any, seed: int, number: int) -> dict[str, Any]:
    """How often one, two and four games suffice to tell all kinds, and what is found out in one of each.

    Nothing may be known in `world` that is not hidden: all kinds are.
    """
    keys = jax.random.split(stream(seed, "explore/measure"), number // WATCHED_GAMES)
    parts = jax.device_get([_play(world, net, key, WATCHED_GAMES) for key in keys])
    score = np.concatenate([part.score for part in parts])
    truth = np.concatenate([part.imagined.truth for part in parts])
    start = np.asarray(world.model.score(world.model.begin(1)))[0]
    given = np.take_along_axis(score, truth[..., None], 2)[..., 0]
    at_first = start[np.arange(len(start)), truth]
    ordered = by_prototype(score, truth)
    names = world.world.category_names
    lengths = np.concatenate([part.games.length for part in parts])
    tiles = np.concatenate([part.games.tiles for part in parts])  # [E, L + 1, N]
    tiles = np.where((np.arange(tiles.shape[1]) <= lengths[:, None])[..., None], tiles, 0)
    met = np.stack([(tiles == kind).any((1, 2)) for kind in world.model.kinds], 1)  # [E, K]
    right = (met & (ordered.argmax(-1) == np.arange(ordered.shape[1]))).mean(0)

    def by_kind(share: np.ndarray) -> dict[str, float]:
        return {names[kind]: round(float(x), 4) for kind, x in zip(world.model.kinds, share, strict=True)}

    return {
        "one_episode_correct": round(share_right(ordered, 1, met=met), 4),
        "two_episodes_correct": round(share_right(ordered, 2, met=met), 4),
        "four_episodes_correct": round(share_right(ordered, 4, met=met), 4),
        "one_episode_by_kind": by_kind(right),
        "one_episode_met": by_kind(met.mean(0)),
        "information": round(float((given - at_first).sum(1).mean()), 4),
        "measured_episodes": number,
        "episode_steps": round(float(lengths.mean()), 2),
    }
