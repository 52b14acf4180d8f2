"""How time and memory grow with the number of environments and with the grid.

    python benchmarks/scaling.py --core 0

For 16 to 4,096 environments on 8 x 8, and for grids of 8, 16 and 32 at 256 environments: speed of the world alone and of
training, and the memory XLA plans for the training update. Hunter-Z4C4. Figures go to results/scaling.json.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from protoalign import runtime
from protoalign.files import write_json

RESULTS = Path(__file__).parent.parent / "results"


@dataclass
class Args:
    env: str = "hunter-z4c4"
    core: int = 0
    repeats: int = 5


def measure(env: str, size: int, boards: int, repeats: int) -> dict[str, Any]:
    from protoalign.agent import untrained
    from protoalign.bench import STEPS, best_seconds, compiled, world_alone
    from protoalign.perception.vocabulary import Vocabulary
    from protoalign.rl import ppo
    from protoalign.rl.source_world import survey
    from protoalign.rng import stream
    from protoalign.stages import settings_of, source_of
    from protoalign.worlds import registry

    world = registry.make(env if size == 8 else f"{env}-{size}x{size}")
    settings, vocabulary = settings_of(world, "fast"), Vocabulary.fit(world.pictures("source"))
    source, task = source_of(world, vocabulary), settings.task
    config = replace(task, ppo=replace(task.ppo, envs=boards, minibatch=min(task.ppo.minibatch, boards * 32)))
    key = stream(0, "bench")
    alone, _ = compiled(world_alone(source, boards), key)
    net = untrained(world.spec, settings, 0, survey(source, 0), vocabulary).task
    state = ppo.init(config.ppo, source, net, key, config.updates)
    training, compile_seconds = compiled(ppo.make_update(config.ppo, source, config.updates), state, key)
    plan = training.memory_analysis()
    return {
        "grid": size,
        "envs": boards,
        "world_steps_per_second": round(boards * STEPS / best_seconds(lambda: alone(key), repeats)),
        "training_steps_per_second": round(config.ppo.batch / best_seconds(lambda: training(state, key), repeats)),
        "training_megabytes": round((plan.argument_size_in_bytes + plan.temp_size_in_bytes) / 1e6, 1),
        "compile_seconds": round(compile_seconds, 1),
    }


def main(args: Args) -> None:
    runtime.configure(args.core, cache=False)
    cases = [(8, n) for n in (16, 64, 256, 1024, 4096)] + [(16, 256), (32, 256)]
    rows = []
    for size, boards in cases:
        rows.append(measure(args.env, size, boards, args.repeats))
        print(json.dumps(rows[-1]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    write_json(RESULTS / "scaling.json", {"env": args.env, "versions": runtime.versions(), "rows": rows})


if __name__ == "__main__":
    main(tyro.cli(Args))
