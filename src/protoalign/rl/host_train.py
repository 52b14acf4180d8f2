"""The training loop around PPO in worlds that are stepped on the host: it logs, saves, resumes and shows progress."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.errors import TooManyTiles, UserError
from protoalign.progress import Bar
from protoalign.rl import ppo
from protoalign.rl.host_rollout import HostVector, collect, play_with_slips
from protoalign.rl.rollout import Record, Segment
from protoalign.rl.train import Store, summarise
from protoalign.rng import generator, stream
from protoalign.runtime import compile_well
from protoalign.settings import PPOConfig, TaskConfig
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.tile_dictionary import MOST, TileDictionary

LEG = 10  # updates at least after which games begin anew, and a checkpoint is saved; more where episodes are long
LOOKED = 100  # steps of random play of every game before the first leg
LEAST_FEAR, FEARLESS = 0.1, 0.3  # what losses that end an episode count at first, and of the training until they count in full
SHORT_SIGHTED = 0.25  # share of games in which only what is near is seen, so that a policy can play on boards of other sizes
SLIPS = 0.2  # of the size of the history is played by the trained policy with random actions, and added to it
FADED = 0.6  # of the training after which what is new is worth nothing


def train(
    store: Store,
    config: TaskConfig,
    world: GymWorld,
    net: Any,
    seed: int,
    title: str = "",
    stage: str = "task",
    known: np.ndarray | None = None,
    shown: np.ndarray | None = None,
) -> tuple[Any, TileDictionary, dict[str, Any]]:
    """Train a `BoardNet` for `config.steps` steps, going on from the store's last checkpoint.

    With pictures that are `known` already [ids, h, w, 3], and the id [256] by which each is `shown`, a network that is trained
    goes on. Returns the network, all tile pictures that were met, and {"steps": ..., "seconds": ..., "seconds_in_games": ...}.
    """
    total = config.updates
    net = _seeing(jax.tree.map(jnp.copy, net), SHORT_SIGHTED)
    state = ppo.PPOState(net, ppo.make_optimiser(config.ppo, total).init(net), None, jnp.int32(0))  # type: ignore[arg-type]
    album = np.zeros((MOST, *world.tile, 3), np.uint8)
    counts = np.zeros((6, 256), np.int64)
    saved = store.restore(stage, {"ppo": state, "pictures": album, "counts": counts})
    done, seconds, met, in_games = 0, 0.0, 0, 0.0
    if saved:
        state, done, seconds, in_games = saved.tree["ppo"], saved.step, saved.info["seconds"], saved.info["seconds_in_games"]
        album, counts, met = np.array(saved.tree["pictures"]), np.array(saved.tree["counts"], np.int64), saved.info["pictures"]
    elif known is not None:
        album[: len(known)], met = known, len(known)
    dictionary = TileDictionary(world.tile, album[:met])
    scale = Scale(config.ppo.discount, saved.info["scale"] if saved else 1.0)
    figures = {"steps": total * config.ppo.batch, "seconds": seconds, "seconds_in_games": in_games}
    if done == total:
        return _seeing(state.net, 0.0), dictionary, figures
    key = stream(seed, f"{stage}/ppo")
    records: list[Record] = []
    last_update, learn = done, None
    leg = max(LEG, -(-2 * world.spec.max_steps // config.ppo.segment))
    bar = Bar(f"{stage} {title}".strip(), total * config.ppo.batch, done * config.ppo.batch)
    with (
        _going_on(world, store, lambda: done * config.ppo.batch),
        HostVector(world, config.ppo.envs, dictionary, shown) as games,
        bar,
    ):
        if not done:
            _look_round(games, generator(seed, f"{stage}/look round"), len(world.spec.actions), scale)
            counts = games.counts.copy()
        games.counts = counts
        started = time.monotonic() - seconds
        while done < total:
            games.begin(int(generator(seed, f"{stage}/leg {done}").integers(2**31)))
            if shown is None:
                state = state._replace(net=eqx.tree_at(lambda n: n.scores, state.net, jnp.asarray(games.scores)))
            before, rows = time.monotonic(), []
            end = min(done + leg, total)
            for update in range(done, end):
                collect_key, shuffle_key = jax.random.split(jax.random.fold_in(key, update))
                novelty = config.novelty * max(0.0, 1 - update / (FADED * total))
                fear = min(1.0, LEAST_FEAR + update / (FEARLESS * total)) if shown is None else 1.0
                since = time.monotonic()
                closing = update == end - 1
                segment, last, sums, record = collect(
                    games, state.net, collect_key, config.ppo.segment, config.recorded, novelty, scale.value, fear, closing
                )
                in_games += time.monotonic() - since
                if learn is None:
                    learn = learning_program(config.ppo, total, state, segment, last, shuffle_key)
                    bar.begin()
                state, metrics = jax.block_until_ready(learn(state, segment, last, shuffle_key))  # else games seem to take long
                rows.append(metrics | sums)
                records.append(record)
                scale.watch(record.reward, record.reset)
            scale.renew()
            row = summarise(jax.device_get(rows))
            done += len(rows)
            now = time.monotonic()
            speed = len(rows) * config.ppo.batch / (now - before)
            line = {"stage": stage, "update": done, "steps": done * config.ppo.batch, **row, "pictures": len(dictionary)}
            store.log(line | {"seconds": round(now - started, 3), "steps_per_second": round(speed)})
            earned = "  (none)" if row["return"] is None else f"{row['return']:6.3f}"
            bar.advance(len(rows) * config.ppo.batch, f"return {earned}  {speed:8,.0f} steps/s")
            if done == total and shown is None:
                slips = generator(seed, f"{stage}/slips"), round(SLIPS * config.history), config.recorded
                slipped = play_with_slips(games, state.net, *slips)
                records += [] if slipped is None else [slipped]
            if config.recorded:
                store.record(stage, last_update, done, records)
            records, last_update = [], done
            figures |= {"seconds": round(time.monotonic() - started, 3), "seconds_in_games": round(in_games, 3)}
            album[: len(dictionary)] = dictionary.pictures
            tree = {"ppo": state, "pictures": album, "counts": games.counts}
            about = {"pictures": len(dictionary), "scale": scale.value} | {
                name: figures[name] for name in ("seconds", "seconds_in_games")
            }
            store.save(stage, done, tree, about)
    return _seeing(state.net, 0.0), dictionary, figures


class Scale:
    """What rewards are multiplied with, so that returns are of the order of 1 at most: anew after every leg, by what was earned
    in it. What nothing is known of stays as it is."""

    def __init__(self, discount: float, value: float):
        self.discount, self.value = discount, value
        self.returns: list[np.ndarray] = []
        self.largest = 0.0

    def watch(self, rewards: np.ndarray, resets: np.ndarray) -> None:
        """Rewards and resets [T, B] of some steps."""
        sums = np.zeros(rewards.shape[1])
        for reward, reset in zip(rewards, resets, strict=True):
            sums = np.where(reset, 0.0, self.discount * sums + reward)
            self.returns.append(sums)
        self.largest = max(self.largest, float(abs(rewards).max()))

    def renew(self) -> None:
        if self.largest:
            self.value = min(1 / max(float(np.std(self.returns)), 1e-6), 1 / self.largest)
        self.returns, self.largest = [], 0.0


def _seeing(net: Any, short_sighted: float) -> Any:
    return eqx.tree_at(lambda n: n.short_sighted, net, jnp.float32(short_sighted))


@contextmanager
def _going_on(world: GymWorld, store: Store, done: Callable[[], int]) -> Iterator[None]:
    """An error that stops the training says from which step it can go on, if it may pass, or what the tile size has to do
    with it."""
    try:
        yield
    except TooManyTiles as error:
        raise TooManyTiles(f"{error}{world.origin}") from None
    except UserError as error:
        if not done() or getattr(store, "path", None) is None:
            raise
        raise UserError(f"{error}; started again, it goes on from step {done():,}") from error.__cause__


def _look_round(games: HostVector, rng: np.random.Generator, actions: int, scale: Scale) -> None:
    """Play at random, to see what changes, and how large rewards are."""
    games.begin(int(rng.integers(2**31)))
    steps = [games.step(rng.integers(actions, size=games.number)) for _ in range(LOOKED)]
    scale.watch(np.stack([step[0] for step in steps]), np.stack([step[3] for step in steps]))
    scale.renew()


def learning_program(config: PPOConfig, total: int, state: Any, segment: Segment, last: Array, key: Array) -> Any:
    """PPO's learning from a segment, compiled: `program(state, segment, last, key)`; it writes over the state."""

    def program(state: Any, segment: Segment, last: Array, key: Array) -> Any:
        return ppo.learn(config, total, state, segment, last, key)

    return compile_well(jax.jit(program, donate_argnums=0).lower(state, segment, last, key))
