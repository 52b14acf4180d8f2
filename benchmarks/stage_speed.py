"""Speed of every training stage against another checkout of protoalign, turn about on one core, in one run.

    python benchmarks/stage_speed.py OTHER_PYTHON --core 0       # the interpreter in which the other version is installed

For Hunter-Z1C1 and Crafter: seconds of one PPO update of the task policy, of one gradient step of q_theta, and of one PPO
update of the exploration policy, untrained networks, compiling aside; medians over rounds. Both versions run the same script
below, which knows how each of them spells things. Ratios go to results/stage_speed.json.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import tyro

RESULTS = Path(__file__).parent.parent / "results"
PART = Path(__file__).with_name("stage_speed_part.py")


@dataclass
class Args:
    other: Annotated[str, tyro.conf.Positional]
    """A Python interpreter with the other version of protoalign."""
    core: int = 0
    rounds: int = 3


def measure(python: str, world: str, core: int) -> dict[str, float]:
    """Seconds by stage."""
    os.sched_setaffinity(0, {core})
    done = subprocess.run([python, str(PART), world], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{python} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main(args: Args) -> None:
    rows = []
    for world in ("hunter-z1c1", "crafter"):
        rounds = [
            (measure(sys.executable, world, args.core), measure(args.other, world, args.core)) for _ in range(args.rounds)
        ]
        for stage in rounds[0][0]:
            ratios = [other[stage] / ours[stage] for ours, other in rounds]
            seconds = [round(median(pair[i][stage] for pair in rounds), 4) for i in (0, 1)]
            row = {
                "world": world,
                "stage": stage,
                "speed_ratio": round(median(ratios), 3),
                "rounds": [round(x, 3) for x in ratios],
            }
            rows.append(row | {"seconds": seconds[0], "other_seconds": seconds[1]})
            print(json.dumps(rows[-1]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "stage_speed.json").write_text(json.dumps({"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
