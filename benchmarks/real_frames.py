"""Frames that a release of Gymnasium draws itself, byte by byte against how `protoalign.worlds.toy_text` draws them.

    python benchmarks/real_frames.py                             # Gymnasium 1.3; --look gymnasium-1.4

Games are played here at random, in the look of the release. The release itself, installed into a virtual environment in a
temporary folder, then plays the same: the same maps, seeds and actions. Frames, rewards and ends are compared, and counts are
printed; the exit status tells whether all were the same.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from protoalign.worlds import toy_text

TO_GOAL = [0, *[1] * 11, 2]  # in CliffWalking
PART = """
import json, sys
from pathlib import Path
import gymnasium, numpy as np

folder = Path(sys.argv[1])
for number, game in enumerate(json.loads((folder / "games.json").read_text())):
    env = gymnasium.make(game["name"], render_mode="rgb_array", max_episode_steps=10**6, **game["options"])
    env.reset(seed=game["seed"])
    frames, given = [env.render()], []
    for action in game["actions"]:
        _, reward, terminated, _, _ = env.step(action)
        frames.append(env.render())
        given.append((float(reward), bool(terminated)))
    np.savez_compressed(folder / f"{number}.npz", frames=np.stack(frames), given=np.array(given, float).reshape(-1, 2))
print(gymnasium.__version__)
"""


@dataclass
class Args:
    look: str = "gymnasium-1.3"
    """The release, as a look."""
    episodes: int = 30
    """Of each of five worlds."""
    seed: int = 0


def play(
    env: toy_text.ToyText, seed: int | None, actions: list[int]
) -> tuple[dict[str, Any], np.ndarray, np.ndarray, set[int]]:
    """One episode: how to play it again, frames [T + 1, H * h, W * w, 3], rewards and ends [T, 2], picture ids seen."""
    frames: list[np.ndarray] = [env.reset(seed=seed)[0]]
    given: list[tuple[float, bool]] = []
    ids = set(env.read().ravel().tolist())
    while not env.over and len(given) < len(actions):
        frame, reward, terminated, _, _ = env.step(actions[len(given)])
        frames.append(frame)
        given.append((reward, terminated))
        ids |= set(env.read().ravel().tolist())
    again = {"seed": env.game.np_random_seed, "actions": actions[: len(given)]}
    return again, np.stack(frames), np.array(given, float).reshape(-1, 2), ids


def install(folder: Path, version: str) -> Path:
    """An interpreter with this Gymnasium."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", f"gymnasium[toy-text]=={version}"], check=True)
    return python


def main(args: Args) -> None:
    rng = np.random.default_rng(args.seed)
    worlds: dict[str, tuple[toy_text.ToyText, bool]] = {
        "FrozenLake 8 x 8": (toy_text.frozen_lake(args.look), False),
        "FrozenLake 8 x 8, slippery": (toy_text.frozen_lake(args.look, slippery=True), True),
        "FrozenLake 3 x 3": (toy_text.frozen_lake(args.look, 3), False),
        "FrozenLake 3 x 3, slippery": (toy_text.frozen_lake(args.look, 3, slippery=True), True),
        "CliffWalking": (toy_text.cliff_walking(args.look), False),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = install(folder / "environment", toy_text.RELEASES[args.look][0])
        same = True
        for title, (env, slippery) in worlds.items():
            lake = env.world == "frozen-lake"
            games, ours, seen = [], [], set()
            for number in range(args.episodes):
                actions = rng.choice(4, 40, p=(0.15, 0.35, 0.35, 0.15) if lake else (0.4, 0.25, 0.2, 0.15)).tolist()
                if not lake and number % 2:
                    actions = TO_GOAL
                again, *rest, ids = play(env, args.seed if number == 0 else None, actions)
                options = {"desc": [row.tobytes().decode() for row in env.game.desc], "is_slippery": slippery} if lake else {}
                games.append(again | {"name": "FrozenLake-v1" if lake else "CliffWalking-v1", "options": options})
                ours.append(rest)
                seen |= ids
            (folder / "games.json").write_text(json.dumps(games))
            quiet = os.environ | {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
            command = [str(python), "-W", "ignore", "-c", PART, str(folder)]
            done = subprocess.run(command, env=quiet, check=True, stdout=subprocess.PIPE, text=True)
            frames = equal = steps = alike = 0
            for number, (drawn, given) in enumerate(ours):
                with np.load(folder / f"{number}.npz") as real:
                    frames, steps = frames + len(drawn), steps + len(given)
                    equal += sum(np.array_equal(one, other) for one, other in zip(drawn, real["frames"], strict=True))
                    alike += int((given == real["given"]).all(1).sum())
            same &= equal == frames and alike == steps
            row = {"world": title, "gymnasium": done.stdout.strip(), "frames": frames, "frames_same": equal}
            row |= {"steps": steps, "rewards_and_ends_same": alike, "ends": int(sum(given[:, 1].sum() for _, given in ours))}
            print(json.dumps(row | {"pictures": len(env.pictures()), "pictures_seen": len(seen)}), flush=True)
    if not same:
        sys.exit("not all are the same")


if __name__ == "__main__":
    main(tyro.cli(Args))
