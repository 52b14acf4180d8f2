"""Seconds from starting the command to a mean return of 1.6 on Hunter-Z1C1: one core, imports and compiling included, no cache.

    python benchmarks/seconds_to_return.py --core 0        # four seeds, one after another

The runs are of 1 M steps. The return is the mean over the last 1,000 or more episodes that ended while learning.
Figures go to results/seconds_to_return.json.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from protoalign.files import write_json

RESULTS = Path(__file__).parent.parent / "results"


@dataclass
class Args:
    goal: float = 1.6
    steps: int = 1_000_000
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    core: int = 0


def recent_return(rows: list[dict], least: int = 1000) -> float:
    """Mean return of the last `least` episodes or a few more; minus infinity before there are so many."""
    episodes, total = 0, 0.0
    for row in reversed(rows):
        if row["episodes"]:
            episodes += row["episodes"]
            total += row["episodes"] * row["return"]
        if episodes >= least:
            return total / episodes
    return float("-inf")


def main(args: Args) -> None:
    os.sched_setaffinity(0, {args.core})
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    figures = []
    for seed in args.seeds:
        with tempfile.TemporaryDirectory() as folder:
            command = ["task", "hunter-z1c1", "--seed", str(seed), "--steps", str(args.steps), "--out", folder]
            started = time.time()
            subprocess.run([sys.executable, "-m", "protoalign", *command], check=True, capture_output=True, env=environment)
            total = time.time() - started
            rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
            result = json.loads((Path(folder) / "result.json").read_text())
        # Imports come before the run's own clock starts, evaluation after it stops.
        before = total - rows[-1]["seconds"] - result["seconds"]["evaluate"]
        reached = next((row for i, row in enumerate(rows) if recent_return(rows[: i + 1]) >= args.goal), None)
        figures.append(
            {
                "seed": seed,
                "seconds": round(before + reached["seconds"], 1) if reached else None,
                "steps": reached["steps"] if reached else None,
                "final_return": result["source_return"],
                "whole_command_seconds": round(total, 1),
            }
        )
        print(figures[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    write_json(
        RESULTS / "seconds_to_return.json", {"env": "hunter-z1c1", "goal": args.goal, "steps": args.steps, "runs": figures}
    )


if __name__ == "__main__":
    main(tyro.cli(Args))
