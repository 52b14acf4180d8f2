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

ROOT = Path(__file__).parent.parent
# The best mean return of a task policy in the source domain in the paper's table of all results, after 25 M steps.
PAPER = {"hunter-z1c1": 1.73, "hunter-z2c2": 3.22, "hunter-z3c3": 4.40, "hunter-z4c4": 5.61}
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


def main() -> None:
    fast = load("task_fast")
    returns_table(fast)
    curves_figure(fast)
    if (ROOT / "results" / "task_paper.json").exists():
        print("\n| steps, preset paper | return | seconds |\n|---|---|---|")
        for run in load("task_paper"):
            for row in run["curve"][:: max(1, len(run["curve"]) // 12)]:
                print(f"| {row['steps'] / 1e6:.2f} M | {row['return']:.3f} | {row['seconds']:.0f} |")
    print("\n| grid | environments | world alone, steps/s | training, steps/s | training, MB | compile, s |")
    print("|---|---|---|---|---|---|")
    for row in load("scaling")["rows"]:
        print(
            f"| {row['grid']} x {row['grid']} | {row['envs']:,} | {row['world_steps_per_second']:,} "
            f"| {row['training_steps_per_second']:,} | {row['training_megabytes']} | {row['compile_seconds']} |"
        )


if __name__ == "__main__":
    main()
