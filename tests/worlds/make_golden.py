"""Write data/hunter_traces.json: whole episodes, played by the reference, that together show every rule.

python -m tests.worlds.make_golden
"""

import json
from pathlib import Path

import numpy as np

from tests.worlds import hunter_reference as reference

PATH = Path(__file__).parents[1] / "data" / "hunter_traces.json"
RULES = {
    "second wall cut at its left", "second wall cut at its top", "no room outside the square",
    "walking into a wall or the edge", "agent walks into z", "agent walks into c", "shot z", "shot c",
    "shot through a wall", "shot that hits two", "z move first", "c move first", "z walks into the agent",
    "c walks into the agent", "animal in an animal's way", "delayed end, all gone", "delayed end, time is up",
    "reward in the last step",
}  # fmt: skip
VARIANTS = [[(1, 1)], [(4, 4)], [(8, 8)], [(1, 1), (2, 2)]]


def episode(rng: np.random.Generator, variants: list[tuple[int, int]]) -> tuple[dict, set[str]]:
    animals = max(z for z, _ in variants) + max(c for _, c in variants)
    u_begin = rng.random(8 + animals, np.float32)
    game = reference.begin(u_begin, variants)
    trace: dict = {"variants": variants, "u_begin": u_begin.tolist(), "start": game.text(), "steps": []}
    over = False
    while not over:
        action, u = int(rng.integers(9)), rng.random(1 + animals, np.float32)
        reward, terminated, truncated = reference.step(game, action, u)
        over = terminated or truncated
        trace["steps"].append(
            {"action": action, "u": u.tolist(), "grid": game.text(), "reward": reward}
            | {"terminated": terminated, "truncated": truncated}
        )
    trace["shows"] = sorted(game.shown)
    return trace, game.shown


def main() -> None:
    rng = np.random.default_rng(0)
    traces, missing = [], set(RULES)
    while missing:
        trace, shown = episode(rng, VARIANTS[int(rng.integers(len(VARIANTS)))])
        if missing & shown:  # keep only episodes that show something new
            traces.append(trace)
            missing -= shown
    PATH.write_text(json.dumps(traces))
    print(f"{len(traces)} episodes, {sum(len(t['steps']) for t in traces)} steps, {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
