"""Algorithm 1: training of q_theta on the history, and of pi_exp in imagined worlds."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

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
from protoalign.alignment.imagination import Imagined, hide, imagine, of_kinds
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
DRAWN = 8  # episodes for each row of a batch: more than fit, mostly

OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())

explore_jit = eqx.filter_jit(explore)


def build_model(seed: int, scene: Scene, hideable: tuple[int, ...], config: InferConfig) -> InferenceModel:
    """An untrained q_theta."""
    patches = PatchNet if len(hideable) <= assignments.MOST else FocusNet
    build: dict[str, Callable[..., InferenceModel]] = {"patches": patches, "broadcast": BroadcastNet}
    return build[config.network](generator(seed, "infer/network"), scene, hideable, config)


class Rows(NamedTuple):
    """Games laid end to end in R rows of L steps, so that little of a batch is empty. NumPy or JAX arrays."""

    before: Observation  # tiles [R, L, H, W] and numbers [R, L, M]
    after: Observation
    action: Any  # [R, L]
    reward: Any  # [R, L]
    first: Any  # [R, L] bool, where games begin
    counts: Any  # [R, L] float32, how often what is believed after a step counts: once; after a game's last step once more for
    # every step by which the game is shorter than a row; 0: nothing is there


def lay(episodes: Episodes, chosen: np.ndarray, rows: int, apart: np.ndarray | None = None) -> tuple[Rows, np.ndarray]:
    """The `chosen` episodes one after another, as many as fit into so many rows, each where there is room first; and for every
    row an episode that is in it, [R] (an empty row's is meaningless).

    Episodes with different labels `apart` [E] do not come into one row.
    """
    longest, length = episodes.action.shape[1], np.asarray(episodes.length)
    game, time = np.zeros((2, rows, longest), np.int64)
    first, counts = np.zeros((rows, longest), bool), np.zeros((rows, longest), np.float32)
    room, labels, of_row = np.full(rows, longest), [None] * rows, np.zeros(rows, np.int64)
    for e in chosen[length[chosen] > 0]:
        steps, label = int(length[e]), None if apart is None else apart[e]
        fits = (r for r in range(rows) if room[r] >= steps and (room[r] == longest or labels[r] == label))
        row = next(fits, None)
        if row is None:
            break
        place = slice(longest - room[row], longest - room[row] + steps)
        game[row, place], time[row, place] = e, np.arange(steps)
        first[row, place.start], counts[row, place] = True, 1
        counts[row, place.stop - 1] += longest - steps
        room[row], labels[row], of_row[row] = room[row] - steps, label, e
    before, after = (jax.tree.map(lambda x, t=t: np.asarray(x)[game, t], episodes.observation) for t in (time, time + 1))
    action, reward = (np.asarray(x)[game, time] for x in (episodes.action, episodes.reward))
    return Rows(before, after, action, reward, first, counts), of_row


def each_in_a_row(episodes: Episodes) -> Rows:
    """Every episode in a row of its own."""
    longest = episodes.action.shape[1]
    left = episodes.length[:, None] - jnp.arange(longest)  # steps that are left, this one included
    counts = jnp.where(left == 1, 1 + longest - episodes.length[:, None], left > 0)
    before, after = (jax.tree.map(lambda x, s=s: x[:, s], episodes.observation) for s in (slice(None, -1), slice(1, None)))
    first = jnp.broadcast_to(jnp.arange(longest) == 0, episodes.action.shape)
    return Rows(before, after, episodes.action, episodes.reward, first, counts.astype(jnp.float32))


def follow(model: InferenceModel, episodes: Episodes, imagined: Imagined, start: Array | None = None) -> Array:
    """Scores before the first and after every step of B episodes of prototypes, [1 + L, B, S, K]; at the end they stay."""
    return jax.vmap(model.score, (0, None))(remember(model, each_in_a_row(episodes), imagined, start), imagined)


def remember(model: InferenceModel, rows: Rows, imagined: Imagined, start: Array | None = None) -> Array:
    """Hidden states at the start and after every step of rows, [1 + L, R, S, F]; where there is nothing they stay.

    `start` [R, S, F]: the states before the first steps, if those are not of new games.
    """
    batch, length = rows.action.shape
    slots = imagined.truth.shape[1]

    def flat(x: Array) -> Array:
        return x.reshape(batch * length, *x.shape[2:])

    def codes(seen: Observation) -> Array:
        return flat(hide(imagined, seen.tiles, model.scene.prototypes, model.hideable))

    step = Step(
        codes(rows.before),
        codes(rows.after),
        flat(rows.before.numbers).astype(jnp.float32),
        flat(rows.after.numbers).astype(jnp.float32),
        flat(rows.action).astype(jnp.int32),
        flat(rows.reward),
    )
    digested = model.digest(step, slots)
    digested = jax.tree.map(lambda x: x.reshape(batch, length, *x.shape[1:]).swapaxes(0, 1), digested)
    fresh = model.begin(batch, slots)

    def advance(hidden: Array, x: tuple[Any, Array, Array]) -> tuple[Array, Array]:
        digested, first, there = x
        hidden = jnp.where(first[:, None, None], fresh, hidden)
        # Kept for the way back are hidden states alone; what lies around tiles is made again, which is faster than storing it.
        after = eqx.filter_checkpoint(type(model).update)(model, hidden, imagined, digested)
        hidden = jnp.where(there[:, None, None], after, hidden)
        return hidden, hidden

    first = rows.first if start is None else jnp.zeros_like(rows.first)
    start = fresh if start is None else start
    _, hidden = jax.lax.scan(advance, start, (digested, first.T, rows.counts.T > 0))
    return jnp.concatenate([start[None], hidden])


def shares(rows: Rows) -> tuple[Array, Array]:
    """How often scores at the start and after every step of rows count, [1 + L, R], in all 1; and of final ones only.

    The first row is of the start, once for every game.
    """
    counts, first = rows.counts.T, rows.first.T
    following = jnp.concatenate([first[1:] | (counts[1:] == 0), jnp.ones_like(first[:1])])
    final = jnp.concatenate([jnp.zeros_like(counts[:1]), (counts > 0) & following])
    every = jnp.concatenate([first.sum(0, keepdims=True), counts])
    return every / every.sum(), final / final.sum()


def loss(model: InferenceModel, rows: Rows, imagined: Imagined, start: Array | None = None) -> tuple[Array, dict[str, Array]]:
    """Eq. 7: minus the log-probability of the truth, per hidden slot, at the start and after every step of the episodes."""
    score = jax.vmap(model.score, (0, None))(remember(model, rows, imagined, start), imagined)
    truth = jnp.broadcast_to(imagined.truth[..., None], (*score.shape[:-1], 1))
    given = jnp.take_along_axis(score, truth, -1)[..., 0] * imagined.hidden  # [1 + L, R, S]
    every, final = shares(rows)

    def mean(weight: Array) -> Array:
        return -(weight * given.sum(-1)).sum() / jnp.maximum((weight * imagined.hidden.sum(-1)).sum(), 1e-9)

    right = ((score.argmax(-1) == imagined.truth) | ~imagined.hidden).all(-1)
    return mean(every), {"loss": mean(every), "final_loss": mean(final), "episodes_right": (final * right).sum()}


def some(rng: np.random.Generator, rows: int, *parts: Episodes) -> Rows:
    """Rows of episodes drawn at random, with repetition, from each of `parts` as many."""
    drawn = join([part.some(rng, DRAWN * rows // len(parts)) for part in parts])
    mixed = np.arange(len(drawn.length)).reshape(len(parts), -1).T.reshape(-1)
    return lay(drawn, mixed, rows)[0]


def rate(i: int, updates: int, first: float, last: float) -> Array:
    """The learning rate of update i: it falls linearly."""
    return jnp.float32(first + (last - first) * i / updates)


@lru_cache(maxsize=8)  # one compiled program for training and refreshing
def make_fit(hide_all: float, twice: float, kind_of: tuple[int, ...] = ()) -> Callable[..., Any]:
    """`fit(model, optimiser_state, rows, key, rate) -> model, optimiser_state, metrics`: one gradient step, jitted.

    `kind_of`: rows show pictures, each a tile type of its own, and this is which prototype each of them is.
    """

    @eqx.filter_jit
    def fit(model: Any, state: Any, rows: Rows, key: Array, rate: Array) -> Any:
        second = 0.0 if model.scene.cell is not None else twice
        imagined = imagine(key, len(rows.action), len(kind_of or model.hideable), hide_all, second, model.scene.grid)
        imagined = of_kinds(imagined, kind_of) if kind_of else imagined
        grads, metrics = jax.grad(loss, has_aux=True)(model, rows, imagined)
        steps, state = OPTIMISER.update(grads, state)
        return optax.apply_updates(model, jax.tree.map(lambda x: -rate * x, steps)), state, metrics

    return fit


def train_inference(
    store: Store,
    config: InferConfig,
    model: InferenceModel,
    history: Episodes,
    seed: int,
    title: str = "",
    kind_of: tuple[int, ...] = (),
) -> tuple[InferenceModel, float]:
    """q_theta trained on the history (pre-training), `kind_of` as for `make_fit`; and the seconds that took."""
    gradient_step = make_fit(config.hide_all, config.twice, kind_of)
    key, rates = stream(seed, "infer/imagine"), (config.updates, config.learning_rate, config.final_learning_rate)

    def update(state: dict[str, Any], i: int) -> tuple[dict[str, Any], dict[str, Any]]:
        batch = some(generator(seed, f"infer/{i}"), config.batch, history)
        model, moments, metrics = gradient_step(
            state["model"], state["optimiser"], batch, jax.random.fold_in(key, i), rate(i, *rates)
        )
        return {"model": model, "optimiser": moments}, metrics

    shown = "loss {loss:.3f}  episodes right {episodes_right:.3f}"
    start = {"model": model, "optimiser": OPTIMISER.init(model)}
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
    gradient_step = make_fit(infer.hide_all, infer.twice)
    rates = config.refresh, config.refresh_rate, 0.1 * config.refresh_rate
    net = explorer_from(task, model.hideable, generator(seed, "explore/network"), config.from_task)

    def refresh(imagined_world: ImaginedWorld, net: Explorer, update: int) -> ImaginedWorld:
        key = jax.random.fold_in(stream(seed, "explore/refresh"), update)
        keys = jax.random.split(key, -(-config.episodes // AT_ONCE))
        number = min(AT_ONCE, config.episodes)
        fresh = join([jax.device_get(explore_jit(imagined_world, net, k, number).episodes) for k in keys])
        model: Any = imagined_world.model
        state = OPTIMISER.init(model)
        for i in range(config.refresh):
            rng = generator(seed, f"explore/refresh/{update}/{i}")
            batch = some(rng, config.batch, history, fresh)
            model, state, _ = gradient_step(model, state, batch, jax.random.fold_in(key, i), rate(i, *rates))
        return eqx.tree_at(lambda w: w.model, imagined_world, model)

    def watch(imagined_world: ImaginedWorld, net: Explorer) -> dict[str, float]:
        found = measure(world, imagined_world.model, net, seed, min(WATCHED_EPISODES, config.measured), longest)
        return {name: found[name] for name in ("one_episode_correct", "information")}

    start = ImaginedWorld(model, world, longest, jnp.float32(config.hide_all))
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
    everything = ImaginedWorld(model, world, longest, jnp.float32(1.0))
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
