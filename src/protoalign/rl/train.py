"""The training loop around PPO: logs, saves, resumes, shows progress."""

import time
from typing import Any

import jax
import numpy as np

from protoalign.config import TaskConfig
from protoalign.envs.base import World
from protoalign.progress import Bar
from protoalign.rl import history, ppo
from protoalign.rl.rollout import Record
from protoalign.rng import stream
from protoalign.runs import Run

LOG_LINES = 400  # at most, in a whole run
SAVE_SECONDS = 10.0  # at least, between checkpoints


def train(run: Run, stage: str, config: TaskConfig, world: World, net: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Train `net` in `world` for `config.steps` steps, going on from the run's last checkpoint.

    Returns the trained network and {"steps": ..., "seconds": ...}.
    """
    total = config.updates
    state = ppo.init(config.ppo, world, net, stream(seed, f"{stage}/begin"), total)
    saved = run.restore(stage, state)
    done, seconds = 0, 0.0
    if saved:
        state, done, seconds = saved.tree, saved.step, saved.info["seconds"]
    figures = {"steps": total * config.ppo.batch, "seconds": seconds}
    if done == total:
        return state.net, figures

    key = stream(seed, f"{stage}/ppo")
    log_every = -(-total // LOG_LINES)
    records: list[Record] = []
    last_update = done  # of the last checkpoint
    started = time.monotonic() - seconds
    with Bar(f"{stage} {world.name}", total * config.ppo.batch, done * config.ppo.batch) as bar:
        update = ppo.make_update(config.ppo, world, total, config.recorded)
        update = jax.jit(update, donate_argnums=0).lower(state, key).compile()
        bar.begin()
        last_saved = time.monotonic()
        while done < total:
            before = time.monotonic()
            rows = []
            for _ in range(min(log_every, total - done)):
                state, metrics, record = update(state, key)
                rows.append(metrics)
                records.append(record)
            row = summarise(jax.device_get(rows))
            done += len(rows)
            now = time.monotonic()
            speed = len(rows) * config.ppo.batch / (now - before)
            line: dict[str, Any] = {"stage": stage, "update": done, "steps": done * config.ppo.batch, **row}
            run.log(line | {"seconds": round(now - started, 3), "steps_per_second": round(speed)})
            shown = "  (none)" if row["return"] is None else f"{row['return']:6.3f}"
            bar.advance(len(rows) * config.ppo.batch, f"return {shown}  {speed:8,.0f} steps/s")
            if done == total or now - last_saved > SAVE_SECONDS:
                if config.recorded:
                    history.save(run.path / "history", stage, last_update, done, jax.device_get(records))
                records, last_update = [], done
                figures["seconds"] = round(time.monotonic() - started, 3)
                run.save(stage, done, state, {"seconds": figures["seconds"]})
                last_saved = time.monotonic()
    return state.net, figures


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
