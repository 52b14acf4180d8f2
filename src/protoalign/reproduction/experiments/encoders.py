"""PPO on pixels with both kinds of first layers: how fast they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from protoalign.reproduction.baselines.run import run as baseline
from protoalign.reproduction.experiments import paper
from protoalign.reproduction.experiments.tables import table
from protoalign.reproduction.settings import Encoder

FEW = 100_000  # steps


def measure(runs: Path, world: str) -> Iterator[dict[str, Any]]:
    """PPO on pixels with both kinds of first layers, for the same few steps."""
    for encoder in get_args(Encoder):
        out = runs / f"ppo-{encoder}-{world}-s0"
        result = baseline(name="ppo", env=world, out=out, seed=0, preset="fast", target="target", steps=FEW, encoder=encoder)
        (seconds,) = result["seconds"].values()
        yield {"encoder": encoder, "steps": result["steps"]["source"]["source"], "seconds": seconds, **result["source"]}


def show(found: dict[str, Any]) -> str:
    rows = [
        [
            row["encoder"],
            f"{row['steps']:,}",
            f"{row['return']:.3f} ± {row['return_se']:.3f}",
            f"{row['seconds']:.0f}",
            f"{row['steps'] / row['seconds']:,.0f}",
        ]
        for row in found["rows"]
    ]
    columns = ["encoder", "steps", "return in the source", "seconds", "steps/s"]
    note = (
        f"PPO on pixels in {paper.WORLDS[0]}, seed 0: one layer of a whole tile (8 x 8 pixels), or three convolutions of 4 x 4 "
        "with stride 2, the same body behind both. Seconds include compiling (some twenty), beside other work. So few steps "
        "compare speeds, not what can be learned."
    )
    return table("Encoders of pixels", columns, rows, note)
