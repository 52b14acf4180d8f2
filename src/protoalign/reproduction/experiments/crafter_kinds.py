"""Crafter with random subsets of ALL its kinds redrawn: one agent that may find any kind new, in the original game.

The task policy is that of a finished run; the judge of the engine bayes is trained anew with everything hideable.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from protoalign import stages
from protoalign.agent import Agent
from protoalign.alignment.transfer import align
from protoalign.alignment.verdict import base, judge
from protoalign.reproduction.experiments.looks import kinds as every_kind
from protoalign.reproduction.experiments.tables import table
from protoalign.rng import generator
from protoalign.runs import Run
from protoalign.settings import JudgeConfig
from protoalign.worlds import registry
from protoalign.worlds.base import World

SUBSETS, GAMES, STEPS = 12, 4, 300
JUDGE = JudgeConfig(updates=400, period=40, games=256, batch=32, final_learning_rate=4e-4, twice=0.0)
SURE = 0.99


def measure(path: Path, seed: int = 0) -> Iterator[dict[str, Any]]:
    """A row for each of SUBSETS random sets of kinds, each in random pictures of its own."""
    world = registry.make("crafter")
    agent = learn(Agent.load(path), world, path)
    kinds = every_kind(world)
    rng = generator(seed, "crafter_kinds")
    for i in range(SUBSETS):
        size = int(rng.integers(1, len(kinds) + 1))
        some = sorted(rng.choice(kinds, size, replace=False).tolist())
        yield find_out(agent, world, some, 3000 + i, i)


def learn(agent: Agent, world: World, path: Path) -> Agent:
    """The agent with a judge to which any kind may be new; in a run folder beside its own."""
    settings = replace(agent.settings, infer=replace(agent.settings.infer, hide=()), judge=JUDGE)
    store = Run(path.with_name(f"{path.name}-kinds"))
    with store.lock():
        if "bayes" in store.result():
            return Agent.load(store.path)
        history = stages.past(Run(path, create=False), agent)
        return stages.model(world, store, replace(agent, settings=settings, model=None, explorer=None), history)


class Touching(gymnasium.Wrapper):
    """Notes which kinds were next to the player: for judging, from the true grid."""

    def __init__(self, env: gymnasium.Env, cell: tuple[int, int]):
        super().__init__(env)
        self.cell, self.touched = cell, set()  # type: tuple[int, int], set[int]

    def _note(self, info: dict[str, Any]) -> None:
        row, col = self.cell
        for r, c in ((0, 1), (1, 0), (0, -1), (-1, 0), (0, 0)):
            self.touched.add(int(info["categories"][row + r, col + c]))

    def reset(self, **options: Any) -> Any:
        observation, info = self.env.reset(**options)
        self._note(info)
        return observation, info

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self._note(found[4])
        return found


def find_out(agent: Agent, world: World, kinds: list[str], look_seed: int, seed: int) -> dict[str, Any]:
    """GAMES games of at most STEPS steps in a look that redraws `kinds`; what was touched, and what it was taken for."""
    names = _pictured(world, kinds)
    look = f"only:{','.join(names)}:every:{look_seed}"
    assert agent.spec.agent is not None
    env = Touching(world.make(look), agent.spec.agent)
    mapping = align(env, agent, GAMES, seed, None, False, STEPS)  # type: ignore[arg-type]
    truth = every_kind(world)
    touched = {truth[i] for i in env.touched if i < len(truth)} & set(kinds)
    rows = [row for row in judge(mapping, world, look)["mapping"] if row["unseen"] and row["true"] != "nothing"]
    right = {row["true"] for row in rows if base(row["found"]) == row["true"]}
    wrong = [row for row in rows if base(row["found"]) != row["true"]]
    return {
        "kinds": kinds,
        "look": look,
        "seed": seed,
        "met": len(rows),
        "touched": sorted(touched),
        "touched_right": sorted(touched & right - {row["true"] for row in wrong}),
        "wrong": [f"{row['true']} as {row['found']} ({row['probability']:.3f})" for row in wrong],
        "wrong_while_sure": sum(row["probability"] >= SURE for row in wrong),
        "steps": mapping.steps,
        "returns": [round(x, 3) for x in mapping.returns],
        "sureness": round(mapping.sureness, 5),
    }


def _pictured(world: World, kinds: list[str]) -> list[str]:
    """Names of pictures of kinds: an arrow has four."""
    from protoalign.worlds.crafter.art import ARROWS

    return [name for kind in kinds for name in (ARROWS if kind == "arrow" else (kind,))]


def show(found: dict[str, Any]) -> str:
    rows = [
        [
            str(len(row["kinds"])),
            str(row["met"]),
            f"{len(row['touched_right'])} of {len(row['touched'])}",
            str(row["wrong_while_sure"]),
            str(row["steps"]),
            f"{np.mean(row['returns']):.1f}",
        ]
        for row in found["rows"]
    ]
    touched = sum(len(row["touched"]) for row in found["rows"])
    right = sum(len(row["touched_right"]) for row in found["rows"])
    sure = sum(row["wrong_while_sure"] for row in found["rows"])
    note = (
        f"The original game, engine bayes, {GAMES} games of at most {STEPS} steps for each of {len(found['rows'])} random sets "
        f"of kinds in random pictures; seed {found['seed']}'s agent. Touched: on a tile next to the player, once. In all "
        f"{right} of {touched} touched kinds right ({right / max(touched, 1):.3f}), {sure} tile types wrong while {SURE} sure."
    )
    columns = ["kinds redrawn", "tile types met", "touched kinds right", f"wrong while {SURE} sure", "steps", "mean return"]
    return table("Crafter: any of its kinds redrawn", columns, rows, note)
