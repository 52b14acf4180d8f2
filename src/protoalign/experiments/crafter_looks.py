"""One agent of Crafter in many looks of the original game: what is seen as new, and what it is taken for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from protoalign.alignment.view_training import LONGEST
from protoalign.alignment.view_transfer import ViewAgent, align
from protoalign.crafter_stages import judge, load_agent, redrawn
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.pictured import pictures
from protoalign.experiments.tables import table
from protoalign.rng import generator

LOOKS = 10  # drawn at random, besides the target's
GAMES = 4
GROUPS = {
    "looks": "all six kinds new, tiles told apart by their looks",
    "oracle": "all six kinds new, tiles told apart by an oracle",
    "subsets": "a random set of the six new, by their looks",
}


def measure(path: Path) -> Iterator[dict[str, Any]]:
    """The drawn look and random ones, with categories by looks and by an oracle; and looks of which only some kinds are new."""
    agent = load_agent(path)
    for group, oracle in (("looks", False), ("oracle", True)):
        for i, look in enumerate(["target", *(f"random:{seed}" for seed in range(1000, 1000 + LOOKS))]):
            yield {"group": group, **_explore(agent, look, i, oracle)}
    rng = generator(0, "crafter_looks")
    for i in range(LOOKS):
        some = [name for name, new in zip(sprites.REDRAWN, rng.permutation(6) <= rng.integers(0, 5), strict=True) if new]
        yield {"group": "subsets", **_explore(agent, f"only:{','.join(some)}:random:{2000 + i}", 100 + i, False)}


def _explore(agent: ViewAgent, look: str, seed: int, oracle: bool) -> dict[str, Any]:
    from protoalign.envs.crafter.original import CrafterEnv

    source, tiles = pictures("source"), pictures(look)
    new, unseen = (tiles != source).any((1, 2, 3)), agent.home.detector.unseen(tiles)
    mapping = align(CrafterEnv(look), agent, GAMES, LONGEST, seed, oracle=oracle)
    kinds = redrawn(look)
    after = {n: judge(mapping.after(n), kinds) for n in (1, 2, GAMES)}
    return {
        "look": look,
        "seed": seed,
        "redrawn": len(kinds),
        "right": {n: found["kinds_right"] for n, found in after.items()},
        "mapping_correct": after[GAMES]["mapping_correct"],
        "looks_met": mapping.met,
        "steps": mapping.steps,
        "sureness": round(mapping.sureness, 5),
        "tiles": {"new": int(new.sum()), "missed": int((new & ~unseen).sum()), "false_alarms": int((~new & unseen).sum())},
    }


def show(found: dict[str, Any]) -> str:
    rows = []
    for group, label in GROUPS.items():
        some = [row for row in found["rows"] if row["group"] == group]
        redrawn = sum(row["redrawn"] for row in some)
        rows.append(
            [
                label,
                str(len(some)),
                *(f"{sum(row['right'][n] for row in some)} of {redrawn}" for n in ("1", "2", str(GAMES))),
                f"{sum(row['mapping_correct'] for row in some)} of {len(some)}",
                f"{np.mean([row['steps'] for row in some]):.0f}",
                f"{np.mean([row['sureness'] for row in some]):.3f}",
            ]
        )
    tiles = [row["tiles"] for row in found["rows"] if row["group"] != "oracle"]
    new, missed, false = (sum(row[name] for row in tiles) for name in ("new", "missed", "false_alarms"))
    columns = ["looks", "number", "kinds right after 1 game", "2 games", "4 games", "mappings right", "steps", "sureness"]
    note = (
        f"In the original game, seed {found['seed']}'s agent: the target's look and random ones, {GAMES} games each of at most "
        f"{LONGEST} steps. A kind that was not met counts as right only if it is the one that is left over. Of the {new:,} "
        f"tiles, a thing on a ground each, that look new in these looks the novelty detector missed {missed}; of the "
        f"{len(tiles) * len(pictures('source')) - new:,} that do not it took {false} for new."
    )
    return table("Crafter: any look", columns, rows, note)
