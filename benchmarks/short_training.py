"""How soon bayes is right in 0.99 of all first episodes: q_theta alone, trained for fewer updates; seconds besides pi_task.

python benchmarks/short_training.py --core 0      # all four variants of Hunter, seed 0; prints a table, writes JSON
"""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import tyro

from protoalign import runtime


def main(
    worlds: tuple[str, ...] = ("hunter-z1c1", "hunter-z2c2", "hunter-z3c3", "hunter-z4c4"),
    seeds: Annotated[int, tyro.conf.arg(help="from 0")] = 1,
    updates: int = 240,
    measured: int = 2048,
    core: int | None = None,
    out: Path = Path("results/short_training.json"),
) -> None:
    runtime.configure(core, cache=False)  # compiling counts
    import jax

    from protoalign import stages
    from protoalign.files import write_json
    from protoalign.runs import Memory
    from protoalign.worlds import registry

    rows = []
    print("| world | seed | seconds besides pi_task | right after 1 | after 2 | steps to 0.99 | right then |")
    print("|---|---|---|---|---|---|---|")
    for name in worlds:
        for seed in range(seeds):
            jax.clear_caches()
            world, store = registry.make(name), Memory()
            settings = stages.settings_of(world, "fast")
            judge = dataclasses.replace(settings.judge, updates=updates, measured=measured)
            settings = dataclasses.replace(settings, judge=judge, model=dataclasses.replace(settings.model, games=0))
            stages.model(world, store, stages.task(world, store, seed, settings, "fast"))
            found, seconds = store.result()["bayes"], store.result()["seconds"]["model"]
            one, two, right = (found[k] for k in ("one_episode_correct", "two_episodes_correct", "sure_right"))
            steps = found["sure_steps"][0] if found["sure_steps"] else "never"
            print(f"| {name} | {seed} | {seconds:.0f} | {one} | {two} | {steps} | {right} |", flush=True)
            rows.append({"world": name, "seed": seed, "updates": updates, "seconds": seconds, "bayes": found})
            write_json(out, {"versions": runtime.versions(), "rows": rows})
    print(json.dumps({"written": str(out)}))


if __name__ == "__main__":
    tyro.cli(main)
