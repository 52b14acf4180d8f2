"""The engine bayes in the original game of Crafter: what the first game in a look never seen earns, and what is known then."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from protoalign.alignment.transfer import align
from protoalign.alignment.verdict import judge
from protoalign.reproduction.experiments.looks import load
from protoalign.reproduction.experiments.tables import table
from protoalign.runs import Run

LOOKS = 30
STEPS = 300


def measure(path: Path) -> Iterator[dict[str, Any]]:
    """A row for each of LOOKS random looks: one whole game, and what was right after STEPS steps of the same game."""
    agent, world = load(path)
    source = Run(path, create=False).result()["source_return"]
    for i in range(LOOKS):
        look = f"random:{5000 + i}"
        whole = agent.align(world.make(look), 1, seed=500 + i)
        early = align(world.make(look), agent, 1, 500 + i, longest=STEPS)  # type: ignore[arg-type]
        found = judge(early, world, look)
        yield {
            "look": look,
            "return": whole.returns[0],
            "source_return": source,
            "steps": whole.steps,
            "sure_after": whole.sure_after(),
            "right_after_300": found["mapping_correct"],
            "kinds_right_after_300": found["kinds_right"],
            "kinds_not_met_after_300": found["kinds_not_met"],
            "redrawn": found["redrawn"],
            "wrong_while_sure": bool(early.sureness >= 0.99 and not found["mapping_correct"]),
            "right": judge(whole, world, look)["mapping_correct"],
        }


def show(found: dict[str, Any]) -> str:
    rows = found["rows"]
    returns = np.array([row["return"] for row in rows])
    source = rows[0]["source_return"]
    error = returns.std(ddof=1) / len(returns) ** 0.5
    kinds, right = (sum(row[key] for row in rows) for key in ("redrawn", "kinds_right_after_300"))
    met = kinds - sum(len(row["kinds_not_met_after_300"]) for row in rows)
    cells = [
        str(len(rows)),
        f"{returns.mean():.2f} ± {error:.2f}",
        f"{source:.2f}",
        f"{returns.mean() / source:.3f} ± {error / source:.3f}",
        f"{right} of {met}",
        f"{sum(row['right_after_300'] for row in rows)} of {len(rows)}",
        str(sum(row["wrong_while_sure"] for row in rows)),
    ]
    columns = ["looks", "return of the first game", "source", "ratio", f"kinds right of those met in {STEPS} steps"]
    columns += ["all met and right by then", "wrong while 0.99 sure"]
    note = "The original game, engine bayes, another random look and another game in every row; seed 0's agent."
    return table("Crafter: the first game", columns, [cells], note)
