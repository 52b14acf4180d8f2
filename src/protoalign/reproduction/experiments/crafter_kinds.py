"""Crafter with random subsets of ALL its kinds redrawn: one agent that may find any kind new, in the original game.

The task policy is that of a finished run; the judge of the engine bayes is trained anew with everything hideable.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from protoalign import stages
from protoalign.agent import Agent
from protoalign.alignment.transfer import align
from protoalign.alignment.verdict import base, judge, redrawn
from protoalign.reproduction.experiments.looks import kinds as every_kind
from protoalign.reproduction.experiments.tables import table
from protoalign.rng import generator
from protoalign.runs import Run
from protoalign.settings import JudgeConfig
from protoalign.worlds import registry
from protoalign.worlds.base import World

SUBSETS, GAMES, STEPS = 12, 4, 300
WIDTH = 48  # of q_theta: 27 prototypes to tell apart, not six
JUDGE = JudgeConfig(updates=1000, period=100, games=256, batch=16, final_learning_rate=4e-4, twice=0.0, measured=128)
SURE = 0.99


def measure(path: Path, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Figures of imagined games; then a row for each of SUBSETS random sets of kinds, each in random pictures of its own."""
    world = registry.make("crafter")
    agent = learn(Agent.load(path), world, path)
    yield {"imagined": beside(path).result()["bayes"]}
    kinds = [kind for kind in every_kind(world) if kind in redrawn(world, "every:0")]  # what is outside has no picture
    rng = generator(seed, "crafter_kinds")
    for i in range(SUBSETS):
        size = int(rng.integers(1, len(kinds) + 1))
        some = sorted(rng.choice(kinds, size, replace=False).tolist())
        yield find_out(agent, world, some, 3000 + i, i)


def learn(agent: Agent, world: World, path: Path) -> Agent:
    """The agent with a judge to which any kind may be new; in a run folder beside its own."""
    settings = replace(agent.settings, infer=replace(agent.settings.infer, hide=(), width=WIDTH), judge=JUDGE)
    store = beside(path)
    with store.lock():
        if "bayes" in store.result():
            return Agent.load(store.path)
        history = stages.past(Run(path, create=False), agent)
        return stages.model(world, store, replace(agent, settings=settings, model=None, explorer=None), history)


def beside(path: Path) -> Run:
    return Run(path.with_name(f"{path.name}-kinds"))


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
    started = time.process_time()
    mapping = align(env, agent, GAMES, seed, None, False, STEPS)  # type: ignore[arg-type]
    seconds = time.process_time() - started
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
        "sure": sum(row["probability"] >= SURE for row in rows),
        "wrong_while_sure": sum(row["probability"] >= SURE for row in wrong),
        "steps": mapping.steps,
        "returns": [round(x, 3) for x in mapping.returns],
        "sureness": round(mapping.sureness, 5),
        "milliseconds": round(1000 * seconds / mapping.steps, 1),  # of the processor a step, the game included
    }


def _pictured(world: World, kinds: list[str]) -> list[str]:
    """Names of pictures of kinds: an arrow has four."""
    from protoalign.worlds.crafter.art import ARROWS

    return [name for kind in kinds for name in (ARROWS if kind == "arrow" else (kind,))]


def show(found: dict[str, Any]) -> str:
    played = [row for row in found["rows"] if "imagined" not in row]
    rows = [
        [
            str(len(row["kinds"])),
            str(row["met"]),
            f"{len(row['touched_right'])} of {len(row['touched'])}",
            f"{row['wrong_while_sure']} of {row['sure']}",
            str(row["steps"]),
            f"{np.mean(row['returns']):.1f}",
        ]
        for row in played
    ]
    touched = sum(len(row["touched"]) for row in played)
    right = sum(len(row["touched_right"]) for row in played)
    sure, wrong = (sum(row[name] for row in played) for name in ("sure", "wrong_while_sure"))
    note = (
        f"The original game, engine bayes, {GAMES} games of at most {STEPS} steps for each of {len(played)} random sets "
        f"of kinds in random pictures; seed {found['seed']}'s agent. Touched: on a tile next to the player, once. In all "
        f"{right} of {touched} touched kinds right ({right / max(touched, 1):.3f}), {wrong} of {sure} tile types wrong that "
        f"were {SURE} sure."
    )
    columns = ["kinds redrawn", "tile types met", "touched kinds right", f"wrong while {SURE} sure", "steps", "mean return"]
    shown = table("Crafter: any of its kinds redrawn", columns, rows, note)
    return "\n".join([shown, *(imagined(row["imagined"]) for row in found["rows"] if "imagined" in row)])


def imagined(figures: dict[str, Any]) -> str:
    rows = [
        [f"{low} to {high}", f"{said:.3f}", f"{right:.3f}", str(n)]
        for low, high, said, right, n in figures["types_calibration"]
    ]
    sure, wrong = figures["types_sure"]
    one, four = (
        [figures[f"{name}_{what}_right"] for what in ("types", "touched")] for name in ("one_episode", "four_episodes")
    )
    note = (
        f"{figures['measured_worlds']} imagined worlds, any share of kinds hidden, {GAMES} games of at most {STEPS} steps in "
        f"each: {one[0]:.3f} of the tile types met are right after one game, {four[0]:.3f} after {GAMES}; of those touched "
        f"{one[1]:.3f} and {four[1]:.3f}. Of {sure} that were {SURE} sure after {GAMES} games {wrong} are wrong. "
        f"Commonest mistakes: {', '.join(f'{what} ({n})' for what, n in figures['types_taken_for'].items())}."
    )
    return table(
        "... in imagined games: is what it says of a tile type right?",
        ["says", "on average", "right", "tile types"],
        rows,
        note,
    )
