"""Measurements in looks, with noise, in other variants and on novelty as tables: what `looks` and `frozen` have measured."""

from typing import Any

import numpy as np

from protoalign.reproduction.experiments import paper
from protoalign.reproduction.experiments.tables import over_seeds, table


def reconstruction(data: dict[str, Any]) -> str:
    names = list(data["rows"][0]["source"])
    rows = []
    for row in data["rows"]:
        source, target = (", ".join(f"{row[look][name]:.3f}" for name in names) for look in ("source", "target"))
        rows.append([str(row["seed"]), source, target, f"{row['threshold']:.3f}", f"{row['random_least']:.2f}"])
        rows[-1] += [f"{row['misses']} of {row['tiles_new']}", f"{row['false_alarms']} of {len(names)}"]
    note = (
        f"Kinds in the order {', '.join(names)}. The paper: {', '.join(map(str, paper.RECONSTRUCTION['source']))} in the "
        f"source, {', '.join(map(str, paper.RECONSTRUCTION['target']))} in the target."
    )
    looks = data["rows"][0]["tiles_new"] // len(names)
    columns = ["seed", "source", "drawn target", "threshold", f"least, {looks} new looks", "misses", "false alarms"]
    first = table("Reconstruction errors", columns, rows, note)
    noisy = []
    for i, entry in enumerate(data["rows"][0]["under_noise"]):
        alarms, misses = (np.mean([row["under_noise"][i][key] for row in data["rows"]]) for key in ("false_alarms", "misses"))
        noisy.append([f"{entry['noise']:.2f}", f"{alarms:.3f}", f"{misses:.4f}"])
    return first + "\n" + table("Novelty under pixel noise", ["noise", "old tiles called new", "new tiles missed"], noisy)


def frozen(data: dict[str, Any]) -> str:
    columns = {
        "halfway": "1 episode, halfway",
        "one_episode_correct": "1 episode",
        "one_episode_correct_type_by_type": "... type by type",
        "two_episodes_correct": "2 episodes",
        "four_episodes_correct": "4 episodes",
    }
    rows = [[row["q_theta"], *(f"{row[key]:.4f}" for key in columns)] for row in data["rows"]]
    steps = data["rows"][0]["steps"] / 1e6
    title = (
        f"q_theta refreshed or frozen: {data['world']}, seed {data['seed']}, everything right, {steps:.1f} M steps of pi_exp"
    )
    return table(title, ["q_theta", *columns.values()], rows)


def random_looks(data: dict[str, Any]) -> str:
    rows = data["rows"]
    right, steps = sum(row["right"] for row in rows), np.mean([row["steps"] for row in rows])
    wrong = ", ".join(row["look"] for row in rows if not row["right"]) or "none"
    cells = [[data["world"], f"{right} of {len(rows)}", wrong, f"{steps:.0f}", f"{min(row['sureness'] for row in rows):.4f}"]]
    columns = ["world", "fully right", "wrong", "target steps, mean", "least sure"]
    return table(f"Random looks and the drawn one, 4 episodes, pixels, seed {data['seed']}", columns, cells)


def played_looks(data: dict[str, Any]) -> str:
    """The engine bayes, by what was done to the look."""
    rows = []
    for group in dict.fromkeys(row["group"] for row in data["rows"]):
        some = [row for row in data["rows"] if row["group"] == group]
        sure = [row for row in some if row["sure_after"] is not None]
        steps = f"{np.mean([row['sure_after'] for row in sure]):.1f}" if sure else "never"
        mistaken = sum(row["sureness"] >= 0.99 and not row["right"] for row in some)
        returns = np.array([row["returns"] for row in some])
        earned = " / ".join(f"{x:.2f}" for x in returns.mean(0))
        right = sum(row["right"] for row in some)
        rows.append([group, str(len(some)), str(right), str(mistaken), f"{len(sure)}", steps, earned])
    columns = ["looks", "number", "mapping right", "wrong while 0.99 sure", "ever 0.99 sure", "steps until then"]
    columns.append("returns of episodes 1 to 4")
    note = "Through pictures; other games for every look. Kinds that share a picture cannot be told apart: none is to be right."
    return table(f"The engine bayes in any look: {data['world']}, 4 episodes, seed {data['seed']}", columns, rows, note)


def noise(data: dict[str, Any]) -> str:
    def cells(row: dict[str, Any]) -> list[str]:
        told = "pictures" if row["categories"] == "looks" else row["categories"]
        every = row.get("all_found", row.get("five_found"))  # as the first edition called it
        return [row["kind"], row["level"], told, every, row["looks_found"], row["mapping_right"], row["tiles_right"]]

    rows = [list(map(str, cells(row))) for row in data["rows"]]
    columns = ["kind", "sigma", "tile types by", "as many types as kinds", "types, mean", "mapping right", "tiles read right"]
    return table(f"Noise in the target: {data['world']}, {data['rows'][0]['looks']} looks each, 4 episodes", columns, rows)


def subsets(data: dict[str, Any]) -> str:
    rows = []
    for size in sorted({len(row["changed"]) for row in data["rows"]}):
        group = [row for row in data["rows"] if len(row["changed"]) == size]
        right, novel = (sum(row[key] for row in group) for key in ("right", "novelty_right"))
        wrong = "; ".join(",".join(row["changed"]) for row in group if not row["right"]) or "none"
        rows.append([str(size), str(len(group)), str(novel), str(right), wrong])
    columns = ["kinds that look new", "targets", "novelty right", "mapping right", "wrong"]
    return table(f"Targets that changed in part: {data['world']}, 4 episodes", columns, rows)


def mixed(data: dict[str, Any]) -> str:
    """Kinds that share a picture, one by one; kinds that have two, over all looks measured."""
    twins = [
        [
            row["look"],
            _found(row),
            f"{row['ratio'][0]:.2f} ± {row['ratio'][1]:.2f}",
            f"{row['before']:.2f}",
            "; ".join(row["says"]),
        ]
        for row in data["rows"]
        if row["look"].startswith("twins:")
    ]
    columns = ["target", "tile types, taken as", "ratio", "ratio before", "what it says"]
    first = table(f"Kinds that share a picture: {data['world']}, 4 episodes", columns, twins)
    two: dict[str, list[dict[str, Any]]] = {}
    for row in data["rows"]:
        way, kind, *_ = row["look"].split(":")
        if way == "two":
            two.setdefault(kind, []).append(row)
    rows = []
    for kind, group in two.items():
        wrong = [row for row in group if not _right(row)]
        ratio, before = ([row[key] for row in some] for key, some in (("ratio", group), ("before", group)))
        rows.append(
            [
                kind,
                str(len(group)),
                f"{len(group) - len(wrong)} of {len(group)}",
                over_seeds([value for value, _ in ratio], 2),
                over_seeds(before, 2),
                "; ".join(f"{row['look'].split(':', 2)[2]}: {_wrong(row)}" for row in wrong) or "nothing",
            ]
        )
    looks = sorted({row["look"].split(":", 2)[2] for group in two.values() for row in group})
    columns = ["kind with two pictures", "looks", "mapping right", "ratio", "ratio before", "wrong"]
    named = ", ".join("the drawn one" if look == "target" else look for look in looks)
    note = f"Looks: {named}. Ratios: means over looks ± standard error."
    return first + "\n" + table(f"Kinds that have two pictures: {data['world']}, 4 episodes", columns, rows, note)


def _pairs(row: dict[str, Any]) -> list[tuple[str, str]]:
    """What each tile type is, and what it was taken for."""
    return [(name.split(": ")[1], found) for name, found in row["mapping"].items()]


def _found(row: dict[str, Any]) -> str:
    return ", ".join(f"{true} as {found}" for true, found in _pairs(row))


def _wrong(row: dict[str, Any]) -> str:
    return ", ".join(f"{true} as {found}" for true, found in _pairs(row) if true != found) or "not all met"


def _right(row: dict[str, Any]) -> bool:
    return row.get("right", all(true == found for true, found in _pairs(row)))


def variants(data: dict[str, Any]) -> str:
    rows = []
    for env in dict.fromkeys(row["env"] for row in data["rows"]):
        group = [row for row in data["rows"] if row["env"] == env]
        right = [row for row in group if row["mapping_correct"]]
        rows.append(
            [
                env,
                f"{len(right)} of {len(group)}",
                ", ".join(f"{row['sureness']:.2f}{'' if row['mapping_correct'] else ' (wrong)'}" for row in group),
                over_seeds([row["source_return"] for row in group]),
                ", ".join(f"{row.get('ratio_own', row['ratio']):.3f}" for row in right) or "none",
            ]
        )
    columns = [
        "moved to",
        "mappings right",
        "how sure, by seed",
        "same policy, source look",
        "ratio where right, own games",
    ]
    note = f"Trained in {paper.WORLDS[0]}, moved to another variant and the drawn look; 4 episodes, one transfer per seed."
    return table("To another variant", columns, rows, note)
