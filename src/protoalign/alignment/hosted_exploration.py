"""pi_exp of hosted worlds (eqs. 6 to 8): a `BoardNet` that sees what q_theta believes, trained by PPO in imagined games.

It begins as the task policy, less decided. In between q_theta is refreshed on what pi_exp has just played.
"""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment import hypotheses
from protoalign.alignment.hosted_imagination import ImaginedGames
from protoalign.alignment.inference import InferenceModel
from protoalign.alignment.target_judge import believe
from protoalign.alignment.training import OPTIMISER, make_fit, rate, some
from protoalign.arrays import select
from protoalign.perception.vocabulary import Vocabulary
from protoalign.progress import Bar
from protoalign.rl import ppo
from protoalign.rl.board_net import OUTSIDE, BoardNet
from protoalign.rl.history import Episodes, join
from protoalign.rl.host_rollout import choose, collect
from protoalign.rl.host_train import learning_program
from protoalign.rl.networks import MARKS, Dense, Scene
from protoalign.rl.train import Store, summarise
from protoalign.rng import generator, stream
from protoalign.settings import ExploreConfig, InferConfig
from protoalign.worlds.gym import GymWorld

LEG = 10  # updates after which games begin anew, and a checkpoint is saved
AT_ONCE = 64  # games that are measured side by side
DOUBTFUL, UNKNOWN = 0.5, 0.05  # how much tiles in doubt, and those unknown, are like an agent's, as a share of what is certain


def untrained_explorer(rng: np.random.Generator, scene: Scene, width: int) -> BoardNet:
    """A network for what `show` shows of a scene."""
    return BoardNet(rng, scene._replace(numbers=scene.numbers + scene.prototypes), width)


def explorer_from(task: BoardNet, scene: Scene, canonical: np.ndarray, rng: np.random.Generator, scale: float) -> BoardNet:
    """An explorer that begins as the task policy, which knows prototypes by the pictures `canonical` [K], with its logits times
    `scale`; what is in doubt is to it what it may be. With a scale of 0 it begins from nothing, but for what an agent is like.
    """
    width, kinds = task.heads.policy.weight.shape[0], scene.prototypes
    net = untrained_explorer(rng, scene, width)

    def ids(table: Array, doubtful: float = 1.0) -> Array:
        known, rest = table[canonical], jnp.zeros((255 - 2 * kinds, *table.shape[1:])) + table[canonical].mean(0)
        return jnp.concatenate([known, doubtful * known, rest, table[OUTSIDE:]])

    likeness = task.scores[canonical]
    scores = ids(task.scores, DOUBTFUL).at[2 * kinds].set(UNKNOWN * likeness.max())
    if not scale:
        return eqx.tree_at(lambda n: n.scores, net, scores)
    tables = [ids(getattr(task, name)) for name in ("embedding", "presence", "worth", "passage")]
    told, more = scene.numbers, scene.numbers + kinds  # numbers that the task policy is given, and the explorer
    first = len(task.near.weight) - len(MARKS) * told
    near = 0.1 * net.near.weight
    near = near.at[:first].set(task.near.weight[:first])
    for i in range(len(MARKS)):
        near = near.at[first + i * more : first + i * more + told].set(task.near.weight[first + i * told :][:told])
    policy = jax.tree.map(lambda x: scale * x, task.heads.policy)
    return eqx.tree_at(
        lambda n: (
            *(n.embedding, n.presence, n.worth, n.passage, n.reach, n.scores),
            *(n.near.weight, n.near.bias, n.far, n.hidden, n.heads.policy, n.heads.value),
        ),
        net,
        (
            *(*tables, task.reach, scores),
            *(near, task.near.bias, task.far, task.hidden, policy, Dense(rng, width, 1, 1.0)),
        ),
    )


def train_explorer(
    store: Store,
    config: ExploreConfig,
    infer: InferConfig,
    world: GymWorld,
    vocabulary: Vocabulary,
    model: InferenceModel,
    net: BoardNet,
    history: Episodes,
    seed: int,
    longest: int,
    title: str = "",
) -> tuple[BoardNet, InferenceModel, dict[str, Any]]:
    """pi_exp trained, q_theta refreshed on its games after each of `config.rounds` parts, going on from the last checkpoint.

    `history` is in ids of pictures. Returns both, and {"steps": ..., "seconds": ...}.
    """
    total, kind_of = config.updates, tuple(int(c) for c in vocabulary.prototype_of)
    net = jax.tree.map(jnp.copy, net)
    state = ppo.PPOState(net, ppo.make_optimiser(config.ppo, total).init(net), None, jnp.int32(0))  # type: ignore[arg-type]
    saved = store.restore("explore", {"ppo": state, "model": model})
    done, seconds = 0, 0.0
    if saved:
        state, model, done, seconds = saved.tree["ppo"], saved.tree["model"], saved.step, saved.info["seconds"]
    figures = {"steps": total * config.ppo.batch, "seconds": seconds}
    if done == total:
        return state.net, model, figures
    key, learn = stream(seed, "explore/ppo"), None
    ends = {round(total * ((i + 1) / config.rounds) ** 2) for i in range(config.rounds)}  # short rounds first
    kinds = len(model.hideable)
    scale = 1 / max(kinds * np.log(kinds), 1.0)  # all that there is to know is worth about 1
    bar = Bar(f"explore {title}".strip(), total * config.ppo.batch, done * config.ppo.batch)
    with ImaginedGames(world, config.ppo.envs, vocabulary, model, longest, config.hide_all) as games, bar:
        started = time.monotonic() - seconds
        while done < total:
            games.begin(int(generator(seed, f"explore/leg {done}").integers(2**31)))
            before, rows = time.monotonic(), []
            for update in range(done, min(done + LEG, next(end for end in sorted(ends) if end > done))):
                collect_key, shuffle_key = jax.random.split(jax.random.fold_in(key, update))
                segment, last, sums, _ = collect(games, state.net, collect_key, config.ppo.segment, 0, scale=scale)
                if learn is None:
                    learn = learning_program(config.ppo, total, state, segment, last, shuffle_key)
                    bar.begin()
                state, metrics = jax.block_until_ready(learn(state, segment, last, shuffle_key))
                rows.append(metrics | sums)
            row = summarise(jax.device_get(rows))
            done += len(rows)
            speed = len(rows) * config.ppo.batch / (time.monotonic() - before)
            told = "  (none)" if row["return"] is None else f"{row['return']:6.3f}"
            bar.advance(len(rows) * config.ppo.batch, f"return {told}  {speed:8,.0f} steps/s")
            if done in ends and config.refresh:
                bar.note("refreshing the inference model ...")
                model = games.model = _refreshed(config, infer, kind_of, model, history, games.episodes(), seed, done)
            figures["seconds"] = round(time.monotonic() - started, 3)
            line = {"stage": "explore", "update": done, "steps": done * config.ppo.batch, **row}
            store.log(line | {"seconds": figures["seconds"], "steps_per_second": round(speed)})
            store.save("explore", done, {"ppo": state, "model": model}, {"seconds": figures["seconds"]})
    return state.net, model, figures


def _refreshed(
    config: ExploreConfig,
    infer: InferConfig,
    kind_of: tuple[int, ...],
    model: Any,
    history: Episodes,
    fresh: Episodes,
    seed: int,
    update: int,
) -> InferenceModel:
    """q_theta after more training, half on the history, half on fresh episodes."""
    gradient_step = make_fit(infer.hide_all, infer.twice, kind_of)
    rates = config.refresh, config.refresh_rate, 0.1 * config.refresh_rate
    key, moments = jax.random.fold_in(stream(seed, "explore/refresh"), update), OPTIMISER.init(model)
    for i in range(config.refresh):
        batch = some(generator(seed, f"explore/refresh/{update}/{i}"), config.batch, history, fresh)
        model, moments, _ = gradient_step(model, moments, batch, jax.random.fold_in(key, i), rate(i, *rates))
    return model


class Explored(NamedTuple):
    """E episodes of exploration with everything hidden, from start to end. NumPy arrays."""

    score: np.ndarray  # [E, P, K], of each picture
    met: np.ndarray  # [E, P] bool, pictures that were in sight when an action was chosen
    information: np.ndarray  # [E], nats
    length: np.ndarray  # [E]


def explore(games: ImaginedGames, net: BoardNet, key: Array, seed: int) -> Explored:
    """One episode of each of B games."""
    games.begin(seed)
    going, kept = np.ones(games.number, bool), games.watching
    told, length = np.zeros((2, games.number))
    for step in range(games.longest):
        _, action, _, _ = choose(net, games.seen(), key, np.uint32(step))
        games.step(np.asarray(action))
        kept = select(jnp.asarray(going), games.watching, kept)
        told, length = np.where(going, games.returns, told), np.where(going, games.lengths, length)
        going = going & ~games.over
    slot_of = np.asarray(kept.imagined.slot_of)
    score, met = np.asarray(believe(games.model, kept.hidden, kept.imagined)), np.asarray(kept.met)
    own = np.take_along_axis(score, slot_of[..., None], 1), np.take_along_axis(met, slot_of, 1)
    return Explored(*own, told, length)


def measure(
    world: GymWorld,
    vocabulary: Vocabulary,
    model: InferenceModel,
    net: BoardNet,
    seed: int,
    number: int,
    longest: int,
    names: tuple[str, ...] = (),
) -> dict[str, Any]:
    """How often all that was in sight when actions were chosen, and so was met, is right after one, two and four episodes with
    everything hidden; `number` episodes in all, rounded up. What is never met does not count: whoever meets nothing is right.
    Then which share of pictures one episode meets, and tells of these; with `names`, of prototypes by their names."""
    at_once = min(AT_ONCE, number)
    parts = []
    with ImaginedGames(world, at_once, vocabulary, model, longest) as games:
        for part in range(-(-number // at_once)):
            start = int(generator(seed, f"explore/measure {part}").integers(2**31))
            parts.append(explore(games, net, jax.random.fold_in(stream(seed, "explore/measure"), part), start))
    done: Explored = join(parts)
    kind_of = np.asarray(vocabulary.prototype_of)
    found: dict[str, Any] = {}
    for word, episodes in (("one_episode", 1), ("two_episodes", 2), ("four_episodes", 4)):
        right, met = told_right(done, kind_of, episodes)
        found[f"{word}_met_correct"] = round(float((right | ~met).all(1).mean()), 4)
        if episodes == 1:
            found["one_episode_pictures_met"] = round(float(met.mean()), 4)
            found["one_episode_pictures_right"] = round(float(right[met].mean()), 4)
            each = [kind_of == c for c in range(len(names))]
            found["one_episode_by_kind"] = {
                n: round(float((right & met)[:, e].any(1).mean()), 4) for n, e in zip(names, each, strict=True)
            }
            found["one_episode_met"] = {n: round(float(met[:, e].any(1).mean()), 4) for n, e in zip(names, each, strict=True)}
    told = {"information": round(float(done.information.mean()), 4), "episode_steps": round(float(done.length.mean()), 4)}
    return found | told | {"measured_episodes": len(done.length)}


def told_right(done: Explored, kind_of: np.ndarray, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Which pictures are right and which were met after so many episodes, [groups, P] bool, of many single ones."""
    groups, pictures = len(done.score) // episodes, len(kind_of)
    score, met = (x[: groups * episodes].reshape(groups, episodes, *x.shape[1:]) for x in (done.score, done.met))
    evidence, met = by_picture(combined(score, met), kind_of), np.asarray(met.any(1))
    # Of equals the first is chosen: in the order of the truth that would be right.
    mixed = np.random.default_rng(0).permuted(np.tile(np.arange(pictures), (groups, 1)), axis=1)
    choice = hypotheses.decode(np.take_along_axis(evidence, mixed[..., None], 1), one_to_one=True)
    right = np.zeros((groups, pictures), bool)
    np.put_along_axis(right, mixed, kind_of[choice] == kind_of[mixed], 1)
    return right, met


def combined(score: np.ndarray, met: np.ndarray) -> np.ndarray:
    """Scores of episodes [..., E, T, K] as one [..., T, K]; those in which a type was not `met` [..., E, T] do not count."""
    return hypotheses.combine(np.where(met[..., None], score, -np.log(score.shape[-1])))


def by_picture(score: np.ndarray, kind_of: np.ndarray) -> np.ndarray:
    """Scores [..., K] of prototypes as scores [..., P] of the source's pictures, which share what their prototype has."""
    number = np.bincount(kind_of, minlength=score.shape[-1])
    return score[..., kind_of] - np.log(number[kind_of])
