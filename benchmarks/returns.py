"""Returns of the task policy against steps and seconds: four Hunter variants, four seeds each (docs/benchmarks.md).

    python benchmarks/returns.py --out runs/returns            # 16 runs of 6 M steps, one after another, on one core
    python benchmarks/returns.py --out runs/returns --preset paper --envs hunter-z1c1 --seeds 0 --steps 3000000

Runs that are finished are not repeated. The figures go to results/task_PRESET.json: per run its result and a thinned curve.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from protoalign.files import read_json, write_json

RESULTS = Path(__file__).parent.parent / "results"


@dataclass
class Args:
    out: Path = Path("runs/returns")
    """Where the run folders go."""
    envs: tuple[str, ...] = ("hunter-z1c1", "hunter-z2c2", "hunter-z3c3", "hunter-z4c4")
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    steps: int = 6_000_000
    preset: str = "fast"
    core: int = 0
    """The processor core to run on."""


def thin(curve: list[dict], most: int = 100) -> list[dict]:
    keep = curve[:: -(-len(curve) // most)]
    return [{name: row[name] for name in ("steps", "seconds", "return")} for row in keep]


def main(args: Args) -> None:
    RESULTS.mkdir(exist_ok=True)
    os.sched_setaffinity(0, {args.core})
    runs = []
    for env in args.envs:
        for seed in args.seeds:
            folder = args.out / args.preset / f"{env}-s{seed}"
            command = ["task", env, "--seed", seed, "--steps", args.steps, "--preset", args.preset, "--out", folder]
            subprocess.run([sys.executable, "-m", "protoalign", *map(str, command)], check=True)
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            runs.append(read_json(folder / "result.json") | {"curve": thin(rows)})
            write_json(RESULTS / f"task_{args.preset}.json", runs)


if __name__ == "__main__":
    main(tyro.cli(Args))
