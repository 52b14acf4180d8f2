"""One agent of Crafter in many looks of the original game: what is seen as new, and what it is taken for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from protoalign.agent import Agent
from protoalign.alignment.verdict import judge
from protoalign.reproduction.experiments.looks import kinds as every_kind
from protoalign.reproduction.experiments.looks import load
from protoalign.reproduction.experiments.tables import table
from protoalign.rng import generator
from protoalign.worlds.base import World
from protoalign.worlds.crafter import art
from protoalign.worlds.crafter.settings import CRAFTER_SETTINGS

LOOKS = 10  # drawn at random, besides the target's
GAMES = 4
AFTER = (1, 2, GAMES)
GROUPS = {
    "looks": "all {} kinds new, tile types by their pictures",
    "oracle": "all {} kinds new, tile types by an oracle",
    "subsets": "a random set of the {} new, by their pictures",
}


def measure(path: Path) -> Iterator[dict[str, Any]]:
    """The drawn look and random ones, tile types by pictures and by an oracle; and looks in which only some kinds are new."""
    agent, world = load(path)
    for group, oracle in (("looks", False), ("oracle", True)):
        for i, look in enumerate(["target", *(f"random:{seed}" for seed in range(1000, 1000 + LOOKS))]):
            yield {"group": group, **_explore(agent, world, look, i, oracle)}
    rng = generator(0, "crafter_looks")
    kinds = agent.settings.infer.hide or every_kind(world)
    for i in range(LOOKS):
        new = rng.permutation(len(kinds)) <= rng.integers(0, len(kinds) - 1)
        some = ",".join(name for name, chosen in zip(kinds, new, strict=True) if chosen)
        yield {"group": "subsets", **_explore(agent, world, f"only:{some}:random:{2000 + i}", 100 + i, False)}


def _explore(agent: Agent, world: World, look: str, seed: int, oracle: bool) -> dict[str, Any]:
    source, tiles = world.pictures("source"), world.pictures(look)
    new, unseen = (tiles != source).any((1, 2, 3)), agent.vocabulary.unseen(tiles)
    # The same seed plays the same games: what is found after some of them is what would be found if there were no more.
    mappings = {n: agent.align(world.make(look), n, seed=seed, oracle=oracle, engine="opa") for n in AFTER}
    after = {n: judge(mapping, world, look) for n, mapping in mappings.items()}
    last = mappings[GAMES]
    return {
        "look": look,
        "seed": seed,
        "redrawn": after[GAMES]["redrawn"],
        "right": {str(n): found["kinds_right"] for n, found in after.items()},
        "mapping_correct": after[GAMES]["mapping_correct"],
        "looks_met": len(last.prototypes),
        "steps": last.steps,
        "sureness": round(last.sureness, 5),
        "tiles": {
            "new": int(new.sum()),
            "old": int((~new).sum()),
            "missed": int((new & ~unseen).sum()),
            "false_alarms": int((~new & unseen).sum()),
        },
    }


def show(found: dict[str, Any]) -> str:
    rows = []
    kinds = max(row["redrawn"] for row in found["rows"])
    for group, label in GROUPS.items():
        some = [row for row in found["rows"] if row["group"] == group]
        redrawn = sum(row["redrawn"] for row in some)
        rows.append(
            [
                label.format(kinds),
                str(len(some)),
                *(f"{sum(row['right'][str(n)] for row in some)} of {redrawn}" for n in AFTER),
                f"{sum(row['mapping_correct'] for row in some)} of {len(some)}",
                f"{np.mean([row['steps'] for row in some]):.0f}",
                f"{np.mean([row['sureness'] for row in some]):.3f}",
            ]
        )
    tiles = [row["tiles"] for row in found["rows"] if row["group"] != "oracle"]
    new, missed, false = (sum(row[name] for row in tiles) for name in ("new", "missed", "false_alarms"))
    old = sum(row.get("old", len(art.PAIRS) - row["new"]) for row in tiles)
    first_edition = "old" not in tiles[0]
    counted = "counts as right only if it is the one that is left over (first edition)" if first_edition else "is not right"
    columns = ["looks", "number", "kinds right after 1 game", *(f"{n} games" for n in AFTER[1:])]
    columns += ["mappings right", "steps", "sureness"]
    note = (
        f"In the original game, seed {found['seed']}'s agent: the target's look and random ones, {GAMES} games each of at most "
        f"{CRAFTER_SETTINGS['fast'].infer.longest} steps. A kind that was not met {counted}. Of the {new:,} pictures, a thing "
        f"on a ground each, that look new in these looks the novelty detector missed {missed}; of the {old:,} that do not it "
        f"took {false} for new."
    )
    return table("Crafter: any look", columns, rows, note)
