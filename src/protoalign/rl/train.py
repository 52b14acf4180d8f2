"""The training loops, around PPO and around supervised updates: they log, save, resume and show progress."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.progress import Bar
from protoalign.rl import ppo
from protoalign.rl.rollout import Learnable, Record
from protoalign.rng import stream
from protoalign.runtime import compile_well
from protoalign.settings import ExploreConfig, TaskConfig

LOG_LINES = 400  # about, in a whole run
WATCHED = 10  # times
FIT_LOG_EVERY = 10  # updates
SAVE_SECONDS = 10.0  # at least, between checkpoints


class Store(Protocol):
    """Where training keeps what it does: a run folder, or memory."""

    def restore(self, stage: str, like: Any) -> Any:
        """The newest checkpoint (step, tree, info) of a stage, in the shape of `like`; None if there is none."""
        ...

    def save(self, stage: str, step: int, tree: Any, info: dict[str, Any]) -> None: ...
    def log(self, row: dict[str, Any]) -> None: ...
    def record(self, stage: str, first: int, last: int, records: list[Record]) -> None:
        """Keep the segments recorded after update `first` up to update `last`."""
        ...


def train(
    store: Store,
    stage: str,
    config: TaskConfig | ExploreConfig,
    world: Learnable,
    net: Any,
    seed: int,
    refresh: Callable[[Any, Any, int], Any] | None = None,
    watch: Callable[[Any, Any], dict[str, float]] | None = None,
    auxiliary: ppo.Auxiliary | None = None,
    title: str = "",
) -> tuple[Any, Any, dict[str, Any]]:
    """Train `net` in `world` for `config.steps` steps, going on from the store's last checkpoint.

    A world may hold arrays (maps, or a model that is part of it). After each of `config.rounds` parts of the training,
    `refresh(world, net, update)` may return it with new ones; only worlds that are refreshed are saved. `watch(world, net)`
    tells ten times on the way what to log besides. An `auxiliary` loss is added to PPO's. Returns the network, the world and
    {"steps": ..., "seconds": ...}.
    """
    total = config.updates
    arrays, rest = eqx.partition(world, eqx.is_array)
    net = jax.tree.map(jnp.copy, net)  # the caller's stays: updates write over theirs
    state = ppo.init(config.ppo, world, net, stream(seed, f"{stage}/begin"), total)
    saved = store.restore(stage, {"ppo": state, "world": arrays if refresh else None})
    done, seconds = 0, 0.0
    if saved:
        state, done, seconds = saved.tree["ppo"], saved.step, saved.info["seconds"]
        arrays = saved.tree["world"] if refresh else arrays
    figures = {"steps": total * config.ppo.batch, "seconds": seconds}
    if done == total:
        return state.net, eqx.combine(arrays, rest), figures

    def program(state: ppo.PPOState, key: Array, arrays: Any) -> Any:
        return ppo.make_update(config.ppo, eqx.combine(arrays, rest), total, config.recorded, auxiliary)(state, key)

    key = stream(seed, f"{stage}/ppo")
    log_every = -(-total // LOG_LINES)
    ends = {round(total * ((i + 1) / config.rounds) ** 2) for i in range(config.rounds)}  # of the rounds: short ones first
    watched = {round(total * (i + 1) / WATCHED) for i in range(WATCHED)} if watch else set()
    stops = sorted(ends | watched)
    records: list[Record] = []
    last_update = done  # of the last checkpoint
    started = time.monotonic() - seconds
    with Bar(f"{stage} {title}".strip(), total * config.ppo.batch, done * config.ppo.batch) as bar:
        update = compile_well(jax.jit(program, donate_argnums=0).lower(state, key, arrays))
        bar.begin()
        last_saved = time.monotonic()
        while done < total:
            before = time.monotonic()
            rows = []
            for _ in range(min(log_every, next(stop for stop in stops if stop > done) - done)):
                state, metrics, record = update(state, key, arrays)
                rows.append(metrics)
                records.append(record)
            row = summarise(jax.device_get(rows))
            done += len(rows)
            now = time.monotonic()
            speed = len(rows) * config.ppo.batch / (now - before)
            line: dict[str, Any] = {"stage": stage, "update": done, "steps": done * config.ppo.batch, **row}
            if watch and done in watched:
                line |= watch(eqx.combine(arrays, rest), state.net)
            store.log(line | {"seconds": round(now - started, 3), "steps_per_second": round(speed)})
            shown = "  (none)" if row["return"] is None else f"{row['return']:6.3f}"
            bar.advance(len(rows) * config.ppo.batch, f"return {shown}  {speed:8,.0f} steps/s")
            if refresh and done in ends:
                bar.note("refreshing the inference model ...")
                arrays, _ = eqx.partition(refresh(eqx.combine(arrays, rest), state.net, done), eqx.is_array)
            if done == total or now - last_saved > SAVE_SECONDS:
                if config.recorded:
                    store.record(stage, last_update, done, jax.device_get(records))
                records, last_update = [], done
                figures["seconds"] = round(time.monotonic() - started, 3)
                tree = {"ppo": state, "world": arrays if refresh else None}
                store.save(stage, done, tree, {"seconds": figures["seconds"]})
                last_saved = time.monotonic()
    return state.net, eqx.combine(arrays, rest), figures


def fit(
    store: Store,
    stage: str,
    title: str,
    updates: int,
    state: Any,
    update: Callable[[Any, int], tuple[Any, dict[str, Any]]],
    show: str,
) -> tuple[Any, float]:
    """Supervised training: `update(state, i) -> state, metrics`, so many times, going on from the store's last checkpoint.

    `show` is how metrics are shown, as for str.format. Returns the state and the seconds it took.
    """
    saved = store.restore(stage, state)
    done, seconds = 0, 0.0
    if saved:
        state, done, seconds = saved.tree, saved.step, saved.info["seconds"]
    started, last_saved = time.monotonic() - seconds, time.monotonic()
    with Bar(title, updates, done) as bar:
        while done < updates:
            rows = []
            for _ in range(min(FIT_LOG_EVERY, updates - done)):
                state, metrics = update(state, done)
                rows.append(metrics)
                done += 1
            row = {name: round(float(np.mean([r[name] for r in rows])), 5) for name in rows[0]}
            seconds = round(time.monotonic() - started, 3)
            store.log({"stage": stage, "update": done, **row, "seconds": seconds})
            bar.advance(len(rows), show.format(**row))
            if done == updates or time.monotonic() - last_saved > SAVE_SECONDS:
                store.save(stage, done, state, {"seconds": seconds})
                last_saved = time.monotonic()
    return state, seconds


def summarise(rows: list[dict[str, np.ndarray]]) -> dict[str, float | None]:
    """Metrics of some updates as one row: means of losses, and mean return and length over the episodes that ended."""
    total = {name: np.sum([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    episodes = int(total.pop("episodes"))
    ret, length = total.pop("return_sum"), total.pop("length_sum")
    means = {name: round(float(value) / len(rows), 6) for name, value in total.items()}
    return {
        "episodes": episodes,
        "return": round(float(ret) / episodes, 5) if episodes else None,
        "length": round(float(length) / episodes, 3) if episodes else None,
        **means,
    }
