"""All pairs of a judge and an actor on the same imagined games; the engine bayes in worlds other than its own; and tables.

A judge is q_theta (refreshed on games of the actor that uses it: pi_exp's or Thompson sampling's), the world model, or both
added up; an actor is pi_exp, Thompson sampling or the most likely assignment. bayes is both with Thompson sampling, opa is
q_theta with pi_exp.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from protoalign.agent import Agent
from protoalign.alignment import finding_out
from protoalign.alignment.actors import Actor, Exploring, MostLikely
from protoalign.alignment.judges import Both, Judge, QTheta
from protoalign.errors import UserError
from protoalign.reproduction.experiments.imagined import mean_and_error
from protoalign.rl.evaluate import evaluate
from protoalign.rng import stream
from protoalign.runs import Run
from protoalign.stages import finder, judge_of, source_of
from protoalign.worlds import registry

Runs = dict[str, list[dict[str, Any]]]  # by world, one for each seed
WORLDS = 2048  # imagined worlds per pair
FEWER = 512  # ... where games are long and only some prototypes may be hidden
MODELLED = 512  # ... where the world model judges: it takes longer
GAMES = 4  # in each
OTHER = 512  # imagined worlds in another world
PAIRS = [(judge, actor) for judge in ("q_theta", "world model", "both") for actor in ("pi_exp", "Thompson", "most likely")]
HIGHER = {0.7: 0.85, 0.85: 0.95, 0.95: 0.99}  # bins of what was said
PAPERS = "everything right after ONE episode (the paper: 0.86 on Z1C1, above 0.8 elsewhere)"
FIRST = "**return of the FIRST episode in the target / source**"
NAMES = {("q_theta", "pi_exp"): "opa", ("both", "Thompson"): "bayes"}


def pair(agent: Agent, judge: str, actor: str) -> tuple[Judge, Actor] | None:
    """A judge and an actor of an agent; None if it has not been trained for that.

    The world model by itself has its own weights, and q_theta counts as it was trained; together they count for less.
    """
    if agent.judge is None or agent.weight is None or (actor == "pi_exp" and agent.explorer is None):
        return None
    weight, share, doubt = agent.weighing()
    together = agent.world_judge(share)
    explored = QTheta(agent.model) if agent.model is not None and actor == "pi_exp" else None
    own = explored or QTheta(agent.judge, 1.0 if together is not None else weight, doubt)
    judges: dict[str, Any] = {"q_theta": own, "world model": None, "both": None}
    if together is not None:
        judges["world model"] = agent.world_judge()
        judges["both"] = Both(explored or QTheta(agent.judge, weight), together, doubt)
    actors: dict[str, Any] = {"pi_exp": agent.explorer and Exploring(agent.explorer), "Thompson": finder(agent)}
    actors["most likely"] = MostLikely(agent.task)
    return None if judges[judge] is None else (judges[judge], actors[actor])


def measure(folder: Path, seed: int, others: tuple[str, ...] = ()) -> dict[str, Any]:
    """The engine bayes of a run folder: in its own world, as its training has measured it, and in `others`, worlds by name."""
    agent, result = _load(folder)
    world = registry.make(agent.spec.name)
    source = source_of(world.fresh() if hasattr(world, "fresh") else world, agent.vocabulary)
    worlds = WORLDS if len(agent.hideable) == agent.scene.prototypes else FEWER
    key, judge = stream(agent.seed, "judge/measure"), judge_of(agent)
    figures = finding_out.measure(source, agent.hideable, judge, finder(agent), key, worlds, agent.longest)
    found: dict[str, Any] = {"bayes": result["bayes"] | figures, "seconds": result["seconds"]}
    found["source_return"] = _source_return(agent, agent.spec.name, seed)
    found["others"] = {}
    for name in others:
        other = source_of(registry.make(name), agent.vocabulary)
        key = stream(seed, f"engines/{name}")
        judge = judge_of(agent, elsewhere=name != agent.spec.name)
        figures = finding_out.measure(other, agent.hideable, judge, finder(agent), key, OTHER, agent.longest)
        found["others"][name] = {"source_return": _source_return(agent, name, seed), **figures}
    return found


def measure_pairs(folder: Path, seed: int) -> dict[str, Any]:
    """All pairs that the agent of a run folder is trained for."""
    agent, result = _load(folder)
    world = registry.make(agent.spec.name)
    source = source_of(world.fresh() if hasattr(world, "fresh") else world, agent.vocabulary)
    found: dict[str, Any] = {"source_return": _source_return(agent, agent.spec.name, seed), "pairs": {}}
    found["seconds"], found["explore_steps"] = result["seconds"], result.get("explore_steps")
    for judge, actor in PAIRS:
        chosen = pair(agent, judge, actor)
        if chosen is None:
            continue
        worlds = WORLDS if judge == "q_theta" else MODELLED
        worlds = worlds if len(agent.hideable) == agent.scene.prototypes else min(worlds, FEWER)
        key = stream(seed, "engines/games")
        figures = finding_out.measure(source, agent.hideable, *chosen, key, worlds, agent.longest, GAMES)
        found["pairs"][f"{judge} + {actor}"] = figures
    return found


def _load(folder: Path) -> tuple[Agent, dict[str, Any]]:
    agent, result = Agent.load(folder), Run(folder, create=False).result()
    if agent.judge is None or "bayes" not in result:
        raise UserError(f"the agent in {folder} is not trained for the engine bayes: 'protoalign model {folder}'")
    return agent, result


def _source_return(agent: Agent, name: str, seed: int) -> list[float]:
    """What pi_task earns in a world if it knows everything: mean and standard error."""
    world = registry.make(name)
    source = source_of(world.fresh() if hasattr(world, "fresh") else world, agent.vocabulary)
    number = 2 * agent.settings.task.evaluation
    return mean_and_error(evaluate(source, agent.task, stream(seed, "engines/source"), number).returns)


def show(runs: Runs, pairs: Runs) -> str:
    """Tables of what `measure` and `measure_pairs` found, by world and seed."""
    return "\n".join([_headline(runs), *([_pairs(pairs)] if pairs else []), _calibration(runs), _others(runs)])


def summary(runs: Runs) -> str:
    """What the README says of bayes in worlds in which everything is hidden, and of going from the first of them to the others;
    a test compares it with the README."""
    boards = {world: found for world, found in runs.items() if found[0]["bayes"]["measured_worlds"] == WORLDS}

    def row(label: str, figure: Callable[[dict[str, Any]], float | None], digits: int) -> str:
        values = ([x for run in found if (x := figure(run)) is not None] for found in boards.values())
        return f"| {label} | {' | '.join(_mean(v, digits) for v in values)} |"

    def said(low: float) -> str:
        cells = (reliable([run["bayes"]["calibration"] for run in found], low).partition(" (")[0] for found in boards.values())
        return f"| when it says {low} to {HIGHER[low]}: said on average -> right | {' | '.join(cells)} |"

    def then(run: dict[str, Any], name: str) -> Any:
        return run["bayes"][name]

    short = [world.partition("-")[2].upper() for world in boards]
    lines = [
        f"| `bayes`, Hunter variant | {' | '.join(short)} |",
        f"|---|{'---|' * len(short)}",
        row(PAPERS, lambda run: then(run, "one_episode_correct"), 4),
        row("... after two", lambda run: then(run, "two_episodes_correct"), 4),
        row(FIRST, lambda run: then(run, "returns")[0][0] / run["source_return"][0], 3),
        row("return of the second / source", lambda run: then(run, "returns")[1][0] / run["source_return"][0], 3),
        row("steps until it is 0.99 sure", lambda run: (then(run, "sure_steps") or [None])[0], 2),
        row("... and right then", lambda run: then(run, "sure_right"), 4),
        *(said(low) for low in HIGHER),
        f"| seeds, imagined worlds each | {' | '.join(f'{len(found)}, {WORLDS:,}' for found in boards.values())} |",
    ]
    return "\n".join(lines)


def _headline(runs: Runs) -> str:
    lines = [
        "### The engine bayes: finding out while playing",
        "",
        "Means over seeds with standard errors over them; preset fast; imagined worlds with everything hidden. Ratios are to",
        "the source's return. Seconds are of one core besides pi_task, compiling included, other work beside.",
        "",
        "| world | seeds | worlds a seed | right after 1 | after 2 | return 1 / source | return 2 / source | steps to 0.99 | "
        "right then | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for world, found in runs.items():
        figures = [run["bayes"] for run in found]
        source = [run["source_return"][0] for run in found]
        cells = [
            _mean([f["one_episode_correct"] for f in figures], 4),
            _mean([f["two_episodes_correct"] for f in figures], 4),
            *(_mean([f["returns"][g][0] / s for f, s in zip(figures, source, strict=True)], 3) for g in range(2)),
            _mean([f["sure_steps"][0] for f in figures if f["sure_steps"]], 2),
            _mean([f["sure_right"] for f in figures if f["sure_right"] is not None], 4),
            _mean([run["seconds"]["model"] for run in found], 0),
        ]
        lines.append(f"| {world} | {len(found)} | {figures[0]['measured_worlds']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _pairs(runs: Runs) -> str:
    lines = [
        "### All pairs of judge and actor, on the same games",
        "",
        "| world | judge + actor | seeds x worlds | right after 1 / 2 / 4 | return 1 / 2 / 4, to the source's | "
        "steps to 0.99 | right then |",
        "|---|---|---|---|---|---|---|",
    ]
    for world, found in runs.items():
        for judge, actor in PAIRS:
            name = f"{judge} + {actor}"
            there = [(run["pairs"][name], run["source_return"][0]) for run in found if name in run["pairs"]]
            if not there:
                continue
            right = (_mean([f[f"{n}_correct"] for f, _ in there], 4) for n in ("one_episode", "two_episodes", "four_episodes"))
            earned = (_mean([f["returns"][g][0] / s for f, s in there], 3) for g in (0, 1, 3))
            sure = [f for f, _ in there if f["sure_steps"]]
            steps = _mean([f["sure_steps"][0] for f in sure], 2) if sure else "never"
            then = _mean([f["sure_right"] for f in sure], 4) if sure else ""
            label = f"{name} (**{NAMES[judge, actor]}**)" if (judge, actor) in NAMES else name
            size = f"{len(there)} x {there[0][0]['measured_worlds']}"
            lines.append(f"| {world} | {label} | {size} | {' / '.join(right)} | {' / '.join(earned)} | {steps} | {then} |")
    lines += ["", *(_cost(world, found) for world, found in runs.items())]
    return "\n".join(lines) + "\n"


def _cost(world: str, found: list[dict[str, Any]]) -> str:
    """What the training for each engine took, besides pi_task."""
    bayes = _mean([run["seconds"]["model"] for run in found], 0)
    told = f"{world}, training besides pi_task: bayes {bayes} s"
    both = [run for run in found if "explore" in run["seconds"]]
    if not both:
        return f"{told}."
    opa = _mean([run["seconds"]["infer"] + run["seconds"]["explore"] for run in both], 0)
    return f"{told}; opa {opa} s, with {both[0]['explore_steps']:,} environment steps of exploration; beside other work."


def _calibration(runs: Runs) -> str:
    lines = [
        "### Is bayes right as often as it says?",
        "",
        "All steps of all games and seeds: what it said on average -> how often it was right (steps).",
        "",
        "| world | 0.5 to 0.7 | 0.7 to 0.85 | 0.85 to 0.95 | 0.95 to 0.99 | 0.99 to 1 |",
        "|---|---|---|---|---|---|",
    ]
    rows = {world: [run["bayes"] for run in found] for world, found in runs.items()}
    for world, found in runs.items():
        for other in dict.fromkeys(name for run in found for name in run["others"]):
            rows[f"{world} in {other}"] = [run["others"][other] for run in found if other in run["others"]]
    for name, figures in rows.items():
        cells = [reliable([f["calibration"] for f in figures], low) for low in (0.5, 0.7, 0.85, 0.95, 0.99)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def reliable(tables: list[list[list[float]]], low: float) -> str:
    """One bin, from `low` on, of several reliability tables together."""
    rows = np.array([row for table in tables for row in table if row[0] == low]).reshape(-1, 5)
    if not rows[:, 4].sum():
        return "none"
    said, right = (np.average(rows[:, i], weights=rows[:, 4]) for i in (2, 3))
    return f"{said:.3f} -> {right:.3f} ({int(rows[:, 4].sum()):,})"


def _others(runs: Runs) -> str:
    lines = [
        "### Trained in one world, put into another",
        "",
        f"The engine bayes; {OTHER} imagined worlds a seed. Ratios are to what the policy earns there if it knows everything.",
        "",
        "| trained in | target | seeds | right after 1 | after 2 | return 1 / source | return 2 / source | "
        "steps to 0.99 | right then |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for world, found in runs.items():
        for name in dict.fromkeys(name for run in found for name in run["others"]):
            there = [run["others"][name] for run in found if name in run["others"]]
            cells = [
                _mean([f["one_episode_correct"] for f in there], 4),
                _mean([f["two_episodes_correct"] for f in there], 4),
                *(_mean([f["returns"][g][0] / f["source_return"][0] for f in there], 3) for g in range(2)),
                _mean([f["sure_steps"][0] for f in there if f["sure_steps"]], 2),
                _mean([f["sure_right"] for f in there if f["sure_right"] is not None], 4),
            ]
            lines.append(f"| {world} | {name} | {len(there)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean(values: list[float], digits: int) -> str:
    """Mean over seeds, and its standard error if there are several."""
    if not values:
        return "never"
    error = f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{error}"
