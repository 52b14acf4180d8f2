"""Training speed beside another trainer's, measured in one run: turn about, on one core, several times.

    python benchmarks/yardstick.py PATH/TO/yardstick.py --core 0

The other trainer is a script that takes --nz, --nc and --steps and prints lines ending in "ret R ... sps S" (steps per second
over its whole run so far, compiling aside). Ours is measured over the same number of steps, compiling aside, saving included.
Figures go to results/yardstick.json.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from protoalign.files import write_json
from protoalign.runtime import versions

RESULTS = Path(__file__).parent.parent / "results"


@dataclass
class Args:
    script: Annotated[Path, tyro.conf.Positional]
    """The other trainer."""
    steps: int = 2_000_000
    rounds: int = 3
    core: int = 0


def theirs(script: Path, animals: int, steps: int) -> dict[str, float]:
    command = [sys.executable, str(script), "--nz", str(animals), "--nc", str(animals), "--steps", str(steps)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    compile_seconds = float(re.search(r"compile ([\d.]+)", shown)[1])  # type: ignore[index]
    found = re.findall(r"ret ([-\d.]+).*sps (\d+)", shown)
    return {"steps_per_second": float(found[-1][1]), "return": float(found[-1][0]), "compile_seconds": compile_seconds}


def ours(animals: int, steps: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["task", f"hunter-z{animals}c{animals}", "--steps", str(steps), "--out", folder]
        environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
        subprocess.run([sys.executable, "-m", "protoalign", *command], check=True, capture_output=True, env=environment)
        rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    first, last = rows[0], rows[-1]
    speed = (last["steps"] - first["steps"]) / (last["seconds"] - first["seconds"])
    begun = first["seconds"] - first["steps"] / first["steps_per_second"]
    return {"steps_per_second": round(speed), "return": last["return"], "compile_seconds": round(begun, 2)}


def main(args: Args) -> None:
    os.sched_setaffinity(0, {args.core})
    rounds = []
    for _ in range(args.rounds):
        rounds.append(
            {
                "yardstick z1c1": theirs(args.script, 1, args.steps),
                "protoalign z1c1": ours(1, args.steps),
                "protoalign z4c4": ours(4, args.steps),
            }
        )
        print(json.dumps(rounds[-1]), flush=True)

    def ratio(a: str, b: str) -> float:
        return round(statistics.median(r[a]["steps_per_second"] / r[b]["steps_per_second"] for r in rounds), 3)

    ratios = {
        "protoalign z1c1 / yardstick z1c1": ratio("protoalign z1c1", "yardstick z1c1"),
        "protoalign z4c4 / protoalign z1c1": ratio("protoalign z4c4", "protoalign z1c1"),
    }
    print(ratios)
    RESULTS.mkdir(exist_ok=True)
    figures = {"steps": args.steps, "versions": versions(), "median ratios of steps per second": ratios, "rounds": rounds}
    write_json(RESULTS / "yardstick.json", figures)


if __name__ == "__main__":
    main(tyro.cli(Args))
