"""The two training stages of the method after the task policy: `infer` (q_theta) and `explore` (pi_exp)."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from protoalign.alignment import inference
from protoalign.alignment.broadcast import BroadcastNet
from protoalign.alignment.decoding import by_prototype, share_right
from protoalign.alignment.exploration import ExplorerNet, ImaginedWorld, RelationExplorer, explore, from_task
from protoalign.alignment.inference import InferenceModel, InferenceNet
from protoalign.config import ExploreConfig, InferConfig
from protoalign.envs.base import TileWorld, World
from protoalign.rl.history import Episodes
from protoalign.rl.networks import ActorCritic, RelativeNet
from protoalign.rl.train import fit, train
from protoalign.rng import generator, stream
from protoalign.runs import Run

WATCHED_EPISODES = 1024
_explore = jax.jit(explore, static_argnums=(3, 4))

MODELS: dict[str, Callable[..., InferenceModel]] = {"patches": InferenceNet, "broadcast": BroadcastNet}
EXPLORERS: dict[str, Callable[..., ActorCritic]] = {"relative": ExplorerNet.fresh, "relation": RelationExplorer.fresh}


def train_inference(
    run: Run, config: InferConfig, world: TileWorld, history: Episodes, seed: int
) -> tuple[InferenceModel, dict[str, Any]]:
    """Train q_theta on the history (algorithm 1, pre-training)."""
    model = MODELS[config.network](generator(seed, "infer/network"), world, config.width)
    optimiser = inference.make_optimiser(config.updates, config.learning_rate, config.final_learning_rate)
    gradient_step = inference.make_fit(optimiser)
    key = stream(seed, "infer/imagine")

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        batch = inference.choose(history, generator(seed, f"infer/{i}"), config.batch)
        model, moments, metrics = gradient_step(state["model"], state["optimiser"], batch, jax.random.fold_in(key, i))
        return {"model": model, "optimiser": moments}, metrics

    shown = "loss {loss:.3f}  episodes right {episodes_right:.3f}"
    start = {"model": model, "optimiser": optimiser.init(model)}
    state, seconds = fit(run, "infer", f"infer {world.name}", config.updates, start, update, shown)
    return state["model"], {"seconds": seconds}


def train_exploration(
    run: Run,
    config: ExploreConfig,
    world: TileWorld,
    model: InferenceModel,
    task: ActorCritic,
    history: Episodes,
    seed: int,
) -> tuple[Any, InferenceModel, dict[str, Any]]:
    """Train pi_exp in imagined worlds, refreshing q_theta on its episodes; the explorer and the model it ended with."""
    longest = history.action.shape[1]
    optimiser = inference.make_optimiser(config.refresh, config.refresh_rate, 0.1 * config.refresh_rate)
    gradient_step = inference.make_fit(optimiser)
    rng = generator(seed, "explore/network")
    if config.from_task:
        assert isinstance(task, RelativeNet)
        net: ActorCritic = from_task(rng, task, config.from_task)
    else:
        net = EXPLORERS[config.network](rng, world, run.config["task"]["width"])

    def refresh(imagined_world: World, net: Any, update: int) -> World:
        assert isinstance(imagined_world, ImaginedWorld)
        key = jax.random.fold_in(stream(seed, "explore/refresh"), update)
        fresh: Episodes = jax.device_get(_explore(imagined_world, net, key, config.episodes, longest).episodes)
        model = imagined_world.model
        state = optimiser.init(model)
        for i in range(config.refresh):
            rng = generator(seed, f"explore/refresh/{update}/{i}")
            halves = [inference.choose(part, rng, config.batch // 2) for part in (history, fresh)]
            batch = Episodes(*(np.concatenate(pair) for pair in zip(*halves, strict=True)))
            model, state, _ = gradient_step(model, state, batch, jax.random.fold_in(key, i))
        return ImaginedWorld(model, imagined_world.world, imagined_world.hide_all)

    def watch(imagined_world: World, net: Any) -> dict[str, float]:
        assert isinstance(imagined_world, ImaginedWorld)
        found = measure(world, imagined_world.model, net, seed, WATCHED_EPISODES, longest)
        return {name: found[name] for name in ("one_episode_correct", "information")}

    start = ImaginedWorld(model, world, config.hide_all)
    net, last, figures = train(run, "explore", config, start, net, seed, refresh if config.refresh else None, watch)
    assert isinstance(last, ImaginedWorld)
    return net, last.model, figures


def measure(world: TileWorld, model: InferenceModel, net: Any, seed: int, number: int, longest: int) -> dict[str, Any]:
    """How often one, two and four episodes suffice when everything is hidden, over `number` imagined episodes.

    Also the information gained in one, in nats: what the truth is given at the end, less what it was given at the start.
    """
    everything = ImaginedWorld(model, world, 1.0)
    done = jax.device_get(_explore(everything, net, stream(seed, "explore/measure"), number, longest))
    start = everything.model.score(everything.model.begin(number), done.imagined)
    given = [np.take_along_axis(np.asarray(x), done.imagined.truth[..., None], 2).sum((1, 2)) for x in (start, done.score)]
    scores = by_prototype(done.score, done.imagined.truth)
    return {
        "one_episode_correct": round(share_right(scores, 1), 4),
        "one_episode_correct_type_by_type": round(share_right(scores, 1, joint=False), 4),
        "two_episodes_correct": round(share_right(scores, 2), 4),
        "four_episodes_correct": round(share_right(scores, 4), 4),
        "information": round(float(np.mean(given[-1] - given[0])), 4),
        "measured_episodes": number,
        "episode_steps": round(float(done.episodes.length.mean()), 2),
    }
