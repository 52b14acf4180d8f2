"""Hosted worlds: one configuration in all of them, each redrawn many times at random; and the real case, FrozenLake and
CliffWalking as another release of Gymnasium draws them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from protoalign import stages
from protoalign.agent import Agent
from protoalign.alignment.hosted_verdict import judge, true_prototypes
from protoalign.alignment.local_training import transitions_of
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.sampled_transfer import align_sampled
from protoalign.reproduction.experiments.tables import table
from protoalign.rl.history import cut
from protoalign.rl.host_evaluate import nearest, play_hosted
from protoalign.runs import Run
from protoalign.runtime import versions
from protoalign.worlds import registry
from protoalign.worlds.gym import GymWorld

RANDOM = (
    "minigrid-doorkey-5x5",
    "minigrid-doorkey-5x5-view",
    "minigrid-doorkey-6x6",
    "minigrid-doorkey-8x8",
    "minigrid-lavagap-s6",
    "minigrid-lavagap-s7",
    "minigrid-dynamic-obstacles-6x6",
    "minigrid-unlock",
    "minigrid-keycorridor-s3r1",
    "lab2d-pushbox-b1-7x7",
    "lab2d-pushbox",
    "lab2d-chase-eat",
    "minihack-room-monster-5x5",
    "minihack-keyroom-s5",
)
REAL = (
    "frozenlake-8x8",
    "frozenlake-8x8-from-1.4",
    "frozenlake-8x8-slippery",
    "frozenlake-8x8-slippery-from-1.4",
    "cliffwalking",
    "cliffwalking-from-1.4",
)
WORLDS = (*RANDOM, *REAL)
LOOKS = {world: 20 if world.startswith(("lab2d", "minihack")) else 50 for world in WORLDS}  # targets; these take longer
FIRST = 3000  # number of the first random look; none of them was used for any choice
EPISODES = {world: 5 if world in REAL else 4 for world in WORLDS}
AFTER = (10, 30, 100)  # steps
BY_FUNCTION = {"minigrid-doorkey-6x6": 25, "minigrid-lavagap-s6": 25}  # targets found out by what happens alone
BLIND = 50  # games of one who takes everything for what it looks most like


def measure(world_name: str, folder: Path, seed: int) -> dict[str, Any]:
    """Train in a world and transfer into many targets: figures, and a row for each target."""
    world: Any = registry.make(world_name)
    agent = stages.train(world, seed, folder)
    store = Run(folder, create=False)
    result = store.result()
    rows = list(transfers(agent, world, store, LOOKS[world_name]))
    by_function = list(transfers(agent, world, store, BY_FUNCTION.get(world_name, 0), still=False))
    look = _look(world_name, 0)
    target = world.make(look)
    eyes = nearest(agent.vocabulary.pictures, agent.vocabulary.prototype_of)
    blind = play_hosted(lambda: world.make(look), target.get_wrapper_attr("tile"), agent.plays(), eyes, BLIND, 70_000)
    kept = ("source_return", "source_return_se", "source_episodes", "task_steps", "pictures_met", "prototypes", "seconds")
    return {
        "world": world_name,
        "seed": seed,
        "preset": "fast",
        **{key: result[key] for key in kept},
        "before": round(float(blind.returns.mean()), 5),
        "versions": versions(),
        "rows": rows,
        "rows_by_function": by_function,
    }


def _look(world: str, i: int) -> str:
    return "target" if world in REAL else f"random:{FIRST + i}"


def transfers(agent: Agent, world: GymWorld, store: Run, number: int, still: bool = True) -> Iterator[dict[str, Any]]:
    """A row for each target: random looks, or the real one again and again, from other seeds. Without `still`, what lies where
    tells nothing."""
    assert agent.local is not None
    tiles = np.asarray(agent.vocabulary.prototype_of)
    history = cut(store.recorded("task"), None)
    history = history._replace(observation=history.observation._replace(tiles=tiles[np.asarray(history.observation.tiles)]))
    given, model = transitions_of(history, agent.scene), agent.local.on_host()
    name = world.spec.name
    for i in range(number):
        look = _look(name, i)
        target = world.make(look)
        started = time.process_time()
        mapping = align_sampled(target, agent, EPISODES.get(name, 4), FIRST + i, still=still)  # type: ignore[arg-type]
        spent = time.process_time() - started
        found = judge(mapping, target, world, look, model, given)
        yield {
            "look": look,
            "returns": [round(x, 5) for x in mapping.returns],
            "steps": mapping.steps,
            "right_after": right_after(mapping, target, world, look),
            "right": found["mapping_correct"],
            "right_exactly": found["right_exactly"],
            "right_alike": found["right_alike"],
            "wrong": [[r["true"], r["found"]] for r in found["mapping"] if not r["right"]],
            "sureness": round(mapping.sureness, 5),
            "strangeness": round(mapping.strangeness, 5),
            "milliseconds": round(1000 * spent / max(mapping.steps, 1), 3),
        }
        if i == 0 and still:
            sheet(mapping, target, world, look, store.path / "contact-sheet.png")


def right_after(mapping: Mapping, target: Any, world: GymWorld, look: str) -> dict[str, bool]:
    """Whether all tile types that were met after some steps, and acted on in the end, were taken for what they are."""
    assert mapping.trace is not None
    assert mapping.draws is not None
    true = true_prototypes(mapping, target, world, look) or []
    acted = np.flatnonzero(mapping.draws.acted)
    belief = mapping.trace.belief
    found = {}
    for steps in AFTER:
        if steps < len(belief):
            now = belief[steps]
            met = [t for t in acted if np.ptp(now[t]) > 1e-6]
            found[str(steps)] = all(int(now[t].argmax()) in true[t] for t in met)
        else:
            found[str(steps)] = all(int(mapping.prototypes[t]) in true[t] for t in acted)
    return found


def sheet(mapping: Mapping, target: Any, world: GymWorld, look: str, path: Path, size: int = 48) -> None:
    """A contact sheet: every tile type above what it was taken for, with a bar of its probability, red if that is wrong."""
    true = true_prototypes(mapping, target, world, look)
    rows = [row for row in mapping.types if row.unseen]
    picture = np.full((2 * size + 12, max(len(rows), 1) * (size + 4), 3), 255, np.uint8)
    for i, row in enumerate(rows):
        left = i * (size + 4) + 2
        found = mapping.vocabulary.draw(np.array([[row.prototype]]))
        for top, tile in ((2, row.picture), (size + 4, found)):
            shown = Image.fromarray(np.asarray(tile)).resize((size, size), Image.Resampling.NEAREST)
            picture[top : top + size, left : left + size] = np.asarray(shown)
        right = true is None or row.prototype in true[i]
        wide = max(round(size * row.probability), 1)
        picture[2 * size + 6 : 2 * size + 10, left : left + wide] = (40, 120, 60) if right else (200, 40, 40)
    Image.fromarray(picture).save(path)


# -- tables ------------------------------------------------------------------------------------------------------------------


def show(found: dict[str, list[dict[str, Any]]]) -> str:
    """Two tables: random looks, and the real one."""
    parts = []
    for title, names in (("Redrawn at random", RANDOM), ("Redrawn by Gymnasium", REAL)):
        there = [name for name in names if name in found]
        if there:
            episodes = EPISODES[there[0]]
            columns = ["world", "seeds x targets", "pictures, kinds", "source return", "before"]
            columns += [f"episode {i + 1}" for i in range(episodes)]
            columns += [f"right after {n} steps" for n in AFTER]
            columns += ["right at the end", "exactly", "but for what is alike", "said sure", "ms a step", "seconds to train"]
            lines = [line(name, found[name], episodes) for name in there]
            episodes_each = found[there[0]][0]["source_episodes"]
            note = (
                "Preset fast, engine bayes; standard errors over targets. Episodes: return as a ratio to the source's, or the "
                f"return itself where that is negative; source return over {episodes_each} episodes a seed. Right: all tile "
                "types in sight of which an action was chosen. Before: everything taken for the source picture that it looks "
                "most like. Seconds: task policy and world model, as measured, with other work on the machine."
            )
            parts.append(table(title, columns, lines, note))
    alone = {name: [row for run in runs for row in run.get("rows_by_function", ())] for name, runs in found.items()}
    alone = {name: rows for name, rows in alone.items() if rows}
    if alone:
        columns = ["world", "targets", "right at the end", "exactly", "but for what is alike"]
        lines = [
            [
                name,
                str(len(rows)),
                *(f"{np.mean([r[key] for r in rows]):.2f}" for key in ("right", "right_exactly", "right_alike")),
            ]
            for name, rows in alone.items()
        ]
        note = "Nothing is known of what lies where, nor of how many tiles there are of each kind: only what happens tells."
        parts.append(table("By function alone", columns, lines, note))
    return "\n".join(parts)


def line(name: str, runs: list[dict[str, Any]], episodes: int) -> list[str]:
    """The cells of a world's row: its name, seeds x targets, pictures and kinds, source return, before, then the episodes."""
    rows = [row for run in runs for row in run["rows"]]
    source = np.mean([run["source_return"] for run in runs])
    cells = [name, f"{len(runs)} x {len(runs[0]['rows'])}"]
    cells += [f"{runs[0]['pictures_met']}, {runs[0]['prototypes']}", f"{source:.3f}"]
    cells.append(f"{np.mean([run['before'] for run in runs]):.3f}")
    for i in range(episodes):
        pairs = [(row["returns"][i], run["source_return"]) for run in runs for row in run["rows"] if len(row["returns"]) > i]
        earned = np.array([x / y if y > 0 else x for x, y in pairs])
        cells.append(f"{earned.mean():.3f} ± {earned.std(ddof=1) / len(earned) ** 0.5:.3f}" if len(earned) > 1 else "-")
    cells += [f"{np.mean([row['right_after'][str(n)] for row in rows]):.2f}" for n in AFTER]
    cells += [f"{np.mean([row[key] for row in rows]):.2f}" for key in ("right", "right_exactly", "right_alike")]
    cells.append(f"{np.mean([row['sureness'] for row in rows]):.2f}")
    cells.append(f"{np.mean([row['milliseconds'] for row in rows]):.0f}")
    seconds = [sum(run["seconds"].get(stage, 0.0) for stage in ("task", "model", "on_prototypes")) for run in runs]
    return [*cells, f"{np.mean(seconds):.0f}"]
