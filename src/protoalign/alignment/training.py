"""Algorithm 1: training of q_theta on the history, and of pi_exp in imagined worlds."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.alignment import assignments, hypotheses
from protoalign.alignment.broadcast import BroadcastNet
from protoalign.alignment.exploration import Explorer, ImaginedWorld, explore, explorer_from
from protoalign.alignment.focus import FocusNet
from protoalign.alignment.imagination import Imagined, hide, imagine
from protoalign.alignment.inference import InferenceModel, PatchNet, Step
from protoalign.rl.history import Episodes, join
from protoalign.rl.networks import Scene
from protoalign.rl.rollout import Learnable
from protoalign.rl.train import Store, fit, train
from protoalign.rng import generator, stream
from protoalign.settings import ExploreConfig, InferConfig
from protoalign.worlds.base import Observation

WATCHED_EPISODES = 1024
AT_ONCE = 1024  # imagined episodes in one compiled program

explore_jit = eqx.filter_jit(explore)


def build_model(seed: int, scene: Scene, hideable: tuple[int, ...], config: InferConfig) -> InferenceModel:
    """An untrained q_theta."""
    patches = PatchNet if len(hideable) <= assignments.MOST else FocusNet
    build: dict[str, Callable[..., InferenceModel]] = {"patches": patches, "broadcast": BroadcastNet}
    return build[config.network](generator(seed, "infer/network"), scene, hideable, config)


def follow(model: InferenceModel, episodes: Episodes, imagined: Imagined, start: Array | None = None) -> Array:
    """Scores before the first and after every step of B episodes of prototypes, [1 + L, B, S, K]; at the end they stay."""
    return jax.vmap(model.score, (0, None))(remember(model, episodes, imagined, start), imagined)


def remember(model: InferenceModel, episodes: Episodes, imagined: Imagined, start: Array | None = None) -> Array:
    """The same as hidden states [1 + L, B, S, F]; `start` [B, S, F] if the episodes are parts of longer ones."""
    batch, length = episodes.action.shape
    slots = imagined.truth.shape[1]
    tiles, numbers = episodes.observation
    codes = hide(imagined, tiles, model.scene.prototypes, model.hideable)

    def flat(x: Array) -> Array:
        return x.reshape(batch * length, *x.shape[2:])

    numbers = numbers.astype(jnp.float32)
    step = Step(
        flat(codes[:, :-1]),
        flat(codes[:, 1:]),
        flat(numbers[:, :-1]),
        flat(numbers[:, 1:]),
        flat(episodes.action).astype(jnp.int32),
        flat(episodes.reward),
    )
    digested = model.digest(step, slots)
    digested = jax.tree.map(lambda x: x.reshape(batch, length, *x.shape[1:]).swapaxes(0, 1), digested)

    def advance(hidden: Array, x: tuple[Any, Array]) -> tuple[Array, Array]:
        digested, time = x
        # Kept for the way back are hidden states alone; what lies around tiles is made again, which is faster than storing it.
        after = eqx.filter_checkpoint(type(model).update)(model, hidden, imagined, digested)
        hidden = jnp.where((time < episodes.length)[:, None, None], after, hidden)
        return hidden, hidden

    start = model.begin(batch, slots) if start is None else start
    _, hidden = jax.lax.scan(advance, start, (digested, jnp.arange(length)))
    return jnp.concatenate([start[None], hidden])


def loss(
    model: InferenceModel, episodes: Episodes, imagined: Imagined, start: Array | None = None
) -> tuple[Array, dict[str, Array]]:
    """Eq. 7: minus the log-probability of the truth, per hidden slot, at the start and after every step of the episode."""
    score = follow(model, episodes, imagined, start)
    truth = jnp.broadcast_to(imagined.truth[..., None], (*score.shape[:-1], 1))
    given = jnp.take_along_axis(score, truth, -1)[..., 0] * imagined.hidden  # [1 + L, B, S]
    per_step = -given.sum((1, 2)) / jnp.maximum(imagined.hidden.sum(), 1)
    right = (score[-1].argmax(-1) == imagined.truth) | ~imagined.hidden
    return per_step.mean(), {"loss": per_step.mean(), "final_loss": per_step[-1], "episodes_right": right.all(-1).mean()}


def make_optimiser(updates: int, first_rate: float, last_rate: float) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.linear_schedule(first_rate, last_rate, updates)))


def make_fit(optimiser: optax.GradientTransformation, config: InferConfig) -> Callable[..., Any]:
    """`fit(model, optimiser_state, episodes, key) -> model, optimiser_state, metrics`: one gradient step, jitted."""

    @eqx.filter_jit
    def fit(model: Any, state: Any, episodes: Episodes, key: Array) -> Any:
        twice = 0.0 if model.scene.cell is not None else config.twice
        imagined = imagine(key, len(episodes.length), len(model.hideable), config.hide_all, twice, model.scene.grid)
        grads, metrics = jax.grad(loss, has_aux=True)(model, episodes, imagined)
        steps, state = optimiser.update(grads, state)
        return optax.apply_updates(model, steps), state, metrics

    return fit


def train_inference(
    store: Store, config: InferConfig, model: InferenceModel, history: Episodes, seed: int, title: str = ""
) -> tuple[InferenceModel, float]:
    """q_theta trained on the history (pre-training); and the seconds that took."""
    optimiser = make_optimiser(config.updates, config.learning_rate, config.final_learning_rate)
    gradient_step = make_fit(optimiser, config)
    key = stream(seed, "infer/imagine")

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        batch = history.some(generator(seed, f"infer/{i}"), config.batch)
        model, moments, metrics = gradient_step(state["model"], state["optimiser"], batch, jax.random.fold_in(key, i))
        return {"model": model, "optimiser": moments}, metrics

    shown = "loss {loss:.3f}  episodes right {episodes_right:.3f}"
    start = {"model": model, "optimiser": optimiser.init(model)}
    state, seconds = fit(store, "infer", f"infer {title}".strip(), config.updates, start, update, shown)
    return state["model"], seconds


def train_exploration(
    store: Store,
    config: ExploreConfig,
    infer: InferConfig,
    world: Learnable,
    model: InferenceModel,
    task: Any,
    history: Episodes,
    seed: int,
    longest: int,
    title: str = "",
) -> tuple[Explorer, InferenceModel, dict[str, Any]]:
    """pi_exp trained in imagined worlds, q_theta refreshed on its episodes; the explorer and the model it ended with."""
    optimiser = make_optimiser(config.refresh, config.refresh_rate, 0.1 * config.refresh_rate)
    gradient_step = make_fit(optimiser, infer)
    net = explorer_from(task, model.hideable, generator(seed, "explore/network"), config.from_task)

    def refresh(imagined_world: ImaginedWorld, net: Explorer, update: int) -> ImaginedWorld:
        key = jax.random.fold_in(stream(seed, "explore/refresh"), update)
        keys = jax.random.split(key, -(-config.episodes // AT_ONCE))
        number = min(AT_ONCE, config.episodes)
        fresh = join([jax.device_get(explore_jit(imagined_world, net, k, number).episodes) for k in keys])
        model: Any = imagined_world.model
        state = optimiser.init(model)
        for i in range(config.refresh):
            rng = generator(seed, f"explore/refresh/{update}/{i}")
            batch = join([part.some(rng, config.batch // 2) for part in (history, fresh)])
            model, state, _ = gradient_step(model, state, batch, jax.random.fold_in(key, i))
        return eqx.tree_at(lambda w: w.model, imagined_world, model)

    def watch(imagined_world: ImaginedWorld, net: Explorer) -> dict[str, float]:
        found = measure(world, imagined_world.model, net, seed, min(WATCHED_EPISODES, config.measured), longest)
        return {name: found[name] for name in ("one_episode_correct", "information")}

    start = ImaginedWorld(model, world, longest, config.hide_all)
    net, last, figures = train(
        store, "explore", config, start, net, seed, refresh if config.refresh else None, watch, title=title
    )
    return net, last.model, figures


def measure(
    world: Learnable, model: InferenceModel, net: Any, seed: int, number: int, longest: int, names: tuple[str, ...] = ()
) -> dict[str, Any]:
    """How often one, two and four episodes suffice when everything that may be is hidden, over `number` imagined episodes.

    A prototype that was not met in them can be told by elimination if it is the only one; `..._met` counts only episodes in
    which all were met. Also the information gained in one, in nats: what the truth is given at the end, less what at the start.
    With `names` of the hideable prototypes, figures for each of them.
    """
    everything = ImaginedWorld(model, world, longest, 1.0)
    keys = jax.random.split(stream(seed, "explore/measure"), -(-number // AT_ONCE))
    parts = [jax.device_get(explore_jit(everything, net, key, min(AT_ONCE, number))) for key in keys]
    done = join(parts)
    truth = done.imagined.truth
    first = jax.tree.map(lambda x: x[:1], done.imagined)
    start = np.asarray(model.score(model.begin(1, truth.shape[1]), first))[0]
    score = hypotheses.by_prototype(done.score, truth)
    at_first = hypotheses.by_prototype(np.broadcast_to(start, done.score.shape), truth)
    own = np.arange(score.shape[1])
    tiles, length = done.episodes.observation.tiles, done.episodes.length
    shown = np.arange(tiles.shape[1]) <= length[:, None]
    met = np.stack([((tiles == c).any((2, 3)) & shown).any(1) for c in model.hideable], 1)  # [E, K]
    told = {
        "one_episode_correct": hypotheses.share_right(score, 1, met=met),
        "one_episode_correct_type_by_type": hypotheses.share_right(score, 1, joint=False),
        "two_episodes_correct": hypotheses.share_right(score, 2, met=met),
        "four_episodes_correct": hypotheses.share_right(score, 4, met=met),
        "one_episode_all_met": float(met.all(1).mean()),
        "information": float((score - at_first)[:, own, own].sum(1).mean()),
        "episode_steps": float(length.mean()),
    }
    found: dict[str, Any] = {name: round(value, 4) for name, value in told.items()} | {"measured_episodes": len(score)}
    if names:
        right = met & (score.argmax(-1) == own)
        found["one_episode_by_kind"] = {name: round(float(x), 4) for name, x in zip(names, right.mean(0), strict=True)}
        found["one_episode_met"] = {name: round(float(x), 4) for name, x in zip(names, met.mean(0), strict=True)}
    return found


def as_prototypes(episodes: Episodes, prototype_of: np.ndarray) -> Episodes:
    """Episodes of picture ids as episodes of prototypes."""
    tiles = prototype_of[episodes.observation.tiles].astype(np.uint8 if prototype_of.max() < 255 else np.int32)
    return episodes._replace(observation=Observation(tiles, episodes.observation.numbers))
