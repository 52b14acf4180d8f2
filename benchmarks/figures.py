"""Tables and figures of docs/benchmarks.md from results/*.json, in seconds and without training.

python benchmarks/figures.py         # prints the tables, writes docs/task_curves.png
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from protoalign.reproduction.experiments.paper import SOURCE_RETURN as PAPER

ROOT = Path(__file__).parent.parent
COLOURS = dict(zip(PAPER, ("#1b9e77", "#d95f02", "#7570b3", "#e7298a"), strict=True))


def load(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def by_env(runs: list[dict]) -> dict[str, list[dict]]:
    groups = defaultdict(list)
    for run in runs:
        groups[run["env"]].append(run)
    return groups


def passes(curve: list[dict], goal: float) -> dict | None:
    return next((row for row in curve if row["return"] is not None and row["return"] >= goal), None)


def returns_table(runs: list[dict]) -> None:
    print(
        "\n| world | seeds | return, mean over seeds ± standard error | lowest seed | paper, 25 M | steps to pass the paper |"
    )
    print("|---|---|---|---|---|---|")
    for env, group in by_env(runs).items():
        finals = np.array([run["source_return"] for run in group])
        error = finals.std(ddof=1) / len(finals) ** 0.5 if len(finals) > 1 else group[0]["source_return_se"]
        crossed = [passes(run["curve"], PAPER[env]) for run in group]
        steps = [f"{row['steps'] / 1e6:.2f} M" if row else "not reached" for row in crossed]
        print(
            f"| {env} | {len(group)} | {finals.mean():.3f} ± {error:.3f} | {finals.min():.3f} | {PAPER[env]:.2f} "
            f"| {', '.join(steps)} |"
        )


def curves_figure(runs: list[dict]) -> None:
    figure, axis = plt.subplots(figsize=(7.5, 4), dpi=130)
    for env, group in by_env(runs).items():
        for i, run in enumerate(group):
            x = [row["steps"] / 1e6 for row in run["curve"]]
            y = [row["return"] for row in run["curve"]]
            axis.plot(x, y, color=COLOURS[env], lw=1.1, alpha=0.8, label=env if i == 0 else None)
        axis.axhline(PAPER[env], color=COLOURS[env], ls=":", lw=1)
    axis.set(xlabel="million environment steps", ylabel="mean return of the sampled policy", xlim=(0, 6))
    axis.set_title("Task policies in the source world, four seeds each; dotted: the paper after 25 million steps", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "task_curves.png")


def networks_figure(fast: list[dict], paper: list[dict]) -> None:
    """Both networks on Hunter-Z1C1, against steps and against seconds."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), dpi=130, sharey=True)
    sets = [("relative network, preset fast", fast, "#1b9e77"), ("relation network, preset paper", paper, "#444444")]
    for name, runs, colour in sets:
        for i, run in enumerate(run for run in runs if run["env"] == "hunter-z1c1"):
            rows = [row for row in run["curve"] if row["return"] is not None]
            for axis, unit in zip(axes, ("steps", "seconds"), strict=True):
                axis.plot(
                    [row[unit] for row in rows], [row["return"] for row in rows], color=colour, lw=1, label=None if i else name
                )
    for axis, unit in zip(axes, ("environment steps", "seconds by the run's clock, on a shared core"), strict=True):
        axis.set(xscale="log", xlabel=unit)
        axis.spines[["top", "right"]].set_visible(False)
        axis.axhline(PAPER["hunter-z1c1"], color="black", ls=":", lw=1)
    axes[0].set_ylabel("mean return, Hunter-Z1C1")
    axes[0].legend(frameon=False, fontsize=8, loc="center left")
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "networks.png")


def table(header: str, rows: list[list[Any]]) -> None:
    print(f"\n| {header} |\n|{'---|' * (header.count('|') + 1)}")
    for row in rows:
        print("| " + " | ".join(f"{x:,}" if isinstance(x, int) else str(x) for x in row) + " |")


def main() -> None:
    fast, paper = load("task_fast"), load("task_paper")
    returns_table(fast)
    curves_figure(fast)
    networks_figure(fast, paper)
    picked = [row for run in paper for row in run["curve"][:: max(1, len(run["curve"]) // 12)]]
    table("steps, preset paper | return | seconds", [[r["steps"], f"{r['return']:.3f}", round(r["seconds"])] for r in picked])
    seconds = load("seconds_to_return")["runs"]
    table(
        "seed | seconds to 1.6 | steps | final return",
        [[r["seed"], r["seconds"], r["steps"], r["final_return"]] for r in seconds],
    )
    yardstick = load("yardstick")
    table("ratio of steps per second | median", [list(x) for x in yardstick["median ratios of steps per second"].items()])
    names = list(yardstick["rounds"][0])
    table(
        f"round | {' | '.join(names)}",
        [[i, *(round(r[n]["steps_per_second"]) for n in names)] for i, r in enumerate(yardstick["rounds"])],
    )
    benches = load("bench")
    rows = [
        [
            b["env"],
            part,
            b["steps_per_second"][part],
            b["steps_per_product"][part],
            b["compile_seconds"][part],
            b["compile_products"][part],
        ]
        for b in benches
        for part in b["steps_per_second"]
    ]
    table("world | part | steps/s | steps per product | compile, s | compile, products", rows)
    columns = ("grid", "envs", "world_steps_per_second", "training_steps_per_second", "training_megabytes", "compile_seconds")
    header = "grid | environments | world alone, steps/s | training, steps/s | training, MB | compile, s"
    table(header, [[row[name] for name in columns] for row in load("scaling")["rows"]])


if __name__ == "__main__":
    main()
