"""The paper's table of results on Crafter beside ours, achievements, and how soon the redrawn kinds are known.

Since the second edition `trained_*` is our world on maps that were never trained on, `source_*` and `target_*` are the original
game through pictures, and `*_own` its target on games of its own. The first edition called our world `world_*` and measured it
on the maps it was trained on.
"""

from typing import Any

import numpy as np

from protoalign.reproduction.experiments import paper
from protoalign.reproduction.experiments.tables import IDENTITY, first_edition, over_seeds, table
from protoalign.worlds.crafter.names import ACHIEVEMENTS
from protoalign.worlds.crafter.settings import CRAFTER_SETTINGS, REDRAWN

Results = list[dict[str, Any]]  # one per seed

# Our baselines, by name and by what was done in the target.
BASELINES = (
    ("ppo", "as it is", "PPO"),
    ("darla", "as it is", "DARLA"),
    ("lusr", "as it is", "LUSR"),
    ("unit4rl", "translated", "UNIT4RL, no fine-tuning"),
    ("unit4rl", "fine-tuned", "UNIT4RL"),
)


def show(runs: list[dict[str, Any]], baselines: dict[str, list[dict[str, Any]]]) -> str:
    """All that is measured in Crafter; `runs` are results of `protoalign run crafter`, one per seed, and baselines by name."""
    results = [run["result"] for run in runs]
    first = results[0]
    note = (
        f"Ours: {_seeds(results)}, {first['task_steps'] / 1e6:.1f} M steps of the task policy and "
        f"{first['explore_steps'] / 1e6:.1f} M of pi_exp in our Crafter; source and target are the original game, its own look "
        f"and {first['redrawn']} kinds redrawn, {first['games']} whole games per figure and seed, the same for every row. "
        f"{IDENTITY} The paper: 20 M steps; its code was never published."
    )
    old = [result for result in results if first_edition(result)]
    if old:
        which = "All" if len(old) == len(results) else f"Seed{'s' * (len(old) > 1)} {', '.join(str(r['seed']) for r in old)}"
        note += f" {which} of the first edition: 'our world' on the maps it was trained on, and no games of its own."
    there = {name: [run["result"] for run in group] for name, group in baselines.items() if group}
    if there:
        budgets = "; ".join(_budget(*pair) for pair in there.items())
        note += f" Our baselines, on pixels, trained in our Crafter: {budgets}."
        note += "".join(_shown(name, there[name]) for name in ("darla", "lusr") if name in there)
        note += _translated(there.get("unit4rl", []))
        missing = [name for name in baselines if name not in there]
        note += f" Not measured: {', '.join(missing)}." if missing else ""
    newest = [run for run in runs if not first_edition(run["result"])] or runs
    return "\n".join([_returns(results, there, note), _achievements(newest), _exploration(newest)])


def by_edition(results: Results) -> dict[str, Results]:
    """Results by what to add to a row's name: nothing, if all are of one edition."""
    old = [result for result in results if first_edition(result)]
    new = [result for result in results if not first_edition(result)]
    return {", first edition": old, "": new} if old and new else {"": results}


def _seeds(results: Results) -> str:
    return f"{len(results)} seed{'s' * (len(results) > 1)}"


def _budget(name: str, results: Results) -> str:
    used = results[0]["steps"].items()
    done = {"source": "learning", "frames": "pictures", "adapt": "fine-tuning"}
    parts = (f"{steps / 1e6:.2f} M steps of {done[what]} in the {domain}" for domain, by in used for what, steps in by.items())
    return f"{name}, {_seeds(results)}: {', '.join(parts)}"


def _shown(name: str, results: Results) -> str:
    """How much an autoencoder shows of what is redrawn. The first edition has figures by ground: the first one is taken."""
    shares: dict[str, list[float]] = {}
    for result in results:
        for kind in REDRAWN:
            found = [share for tile, share in result["shown"].items() if tile == kind or tile.startswith(f"{kind} on ")]
            shares.setdefault(kind, []).extend(found[:1])
    said = ", ".join(f"{kind} {np.mean(share):.2f}" for kind, share in shares.items() if share)
    return f" Tiles that reconstructions of {name} show in the source: {said}."


def _translated(results: Results) -> str:
    """How much UNIT4RL's translations get right."""
    right = ", ".join(str(sum(a == b for a, b in result["mapping"].items())) for result in results)
    return f" UNIT4RL paints {right} of {len(results[0]['mapping'])} pictures as what they are, by seed." if results else ""


def _column(results: Results, key: str, digits: int = 2, before: str | None = None) -> str:
    """A figure over seeds, where it was measured; of a single one, with its own standard error. `before`: its old name."""
    names = [name for name in (key, before) if name]
    found = [(name, r) for r in results if (name := next((name for name in names if name in r), ""))]
    if len(found) == 1 and f"{found[0][0]}_se" in found[0][1]:
        name, result = found[0]
        return f"{result[name]:.{digits}f} ± {result[f'{name}_se']:.{digits}f}"
    return over_seeds([result[name] for name, result in found], digits)


def _paper_rows() -> list[list[str]]:
    rows = []
    for name, source, target, ratio in paper.CRAFTER:
        said = f"{ratio:.2f}"
        if source and abs(target / source - ratio) > 0.01:
            said = f"{ratio:.2f} as printed, {target / source:.2f} by its returns"
        rows.append([f"the paper: {name}", "", f"{source:.2f}" if source else "", f"{target:.2f}", said, "", "", ""])
    return rows


def _returns(results: Results, baselines: dict[str, Results], note: str) -> str:
    rows = _paper_rows()
    for name, label, shown in BASELINES:
        for_seeds = [
            (result["source"]["return"], row["return"], row["steps"] + result["steps"].get("target", {}).get("frames", 0))
            for result in baselines.get(name, [])
            for row in result["target"]
            if row["label"] == label
        ]
        if for_seeds:
            source, target, used = (list(column) for column in zip(*for_seeds, strict=True))
            ratio = over_seeds([b / a for a, b in zip(source, target, strict=True)], 2)
            rows.append([f"ours: {shown}", "", over_seeds(source, 2), over_seeds(target, 2), ratio, "", "", f"{used[0]:,}"])
    for edition, group in by_edition(results).items():
        world, played = _column(group, "trained_return", before="world_return"), _column(group, "source_return")
        before = over_seeds([result["target_return_before"] / result["source_return"] for result in group], 2)
        nothing = _column(group, "target_return_before")
        rows.append([f"**protoalign**, nothing done{edition}", world, played, nothing, before, "", "", ""])
        right = f"{sum(result['mapping_correct'] for result in group)} of {len(group)}"
        steps = f"{np.mean([result['target_steps'] for result in group]):.0f}"
        ratios = (_column(group, "ratio", 3), _column(group, "ratio_own", 3))
        name = f"**protoalign**, {group[0]['explore_episodes']} episodes{edition}"
        rows.append([name, world, played, _column(group, "target_return"), *ratios, right, steps])
    columns = [
        "method", "our world", "source", "target", "target / source", "... on games of its own", "mappings right",
        "steps in the target",
    ]  # fmt: skip
    return table("Crafter: returns", columns, rows, note)


STAGES = {"trained": "our world", "source": "source", "target_before": "target, nothing done", "target": "target"}


def achieved(result: dict[str, Any], stage: str) -> dict[str, Any]:
    """Score and achievements at one of the `STAGES`; nothing where they were not measured."""
    if first_edition(result):
        old = {"score": result.get("world_score"), "achievements": result.get("world_achievements")}
        return old if stage == "trained" else result.get(f"{stage}_achieved", {})
    return {name: result.get(f"{stage}_{name}") for name in ("score", "achievements")}


def _achievements(runs: list[dict[str, Any]]) -> str:
    results = [run["result"] for run in runs]

    def mean(values: list[float]) -> str:
        return f"{np.mean(values):.1f}" if values else ""

    every = {stage: [achieved(result, stage) for result in results] for stage in STAGES}
    rows = []
    for name in ACHIEVEMENTS:
        rates = ([100 * x["achievements"][name] for x in found if x.get("achievements")] for found in every.values())
        rows.append([name.replace("_", " "), *(mean(values) for values in rates)])
    scores = ([x["score"] for x in found if x.get("score") is not None] for found in every.values())
    rows.append(["**score**", *(mean(values) for values in scores)])
    columns = ["unlocked in a game, %", *STAGES.values()]
    note = (
        f"{_seeds(results)}. Source and target are the original game. The score is Crafter's: the geometric mean of all rates "
        "in percent, after one percent is added to each."
    )
    return table("Crafter: achievements", columns, rows, note)


def _exploration(runs: list[dict[str, Any]]) -> str:
    results = [run["result"] for run in runs]
    kinds = list(results[0]["one_episode_by_kind"])
    counts = ((1, "one_episode_correct"), (2, "two_episodes_correct"), (4, "four_episodes_correct"))
    rows = [[f"all {len(kinds)} right after {n}", over_seeds([r[key] for r in results]), ""] for n, key in counts]
    for kind in kinds:
        met = over_seeds([r["one_episode_met"][kind] for r in results])
        rows.append([f"{kind} right after 1", over_seeds([r["one_episode_by_kind"][kind] for r in results]), met])
    longest = runs[0]["config"]["infer"].get("longest", CRAFTER_SETTINGS["fast"].infer.longest)
    note = (
        f"{_seeds(results)}, {results[0]['measured_episodes']:,} imagined games of at most {longest} steps each, all "
        f"{len(kinds)} kinds hidden. A single kind that was never met may be told by what is left over; if there are two, not "
        "all are right. By kind: each by itself, wrong if not met."
    )
    return table("Crafter: which kind is which", ["games explored", "share", "met"], rows, note)
