"""A policy of Stable-Baselines3, trained on pictures of MiniGrid's DoorKey, plays on in looks that it has never seen.

It is trained as usual and never changed after that. What it is shown of another look are the source's pictures.

pip install 'protoalign[minigrid,sb3]'
python examples/sb3_policy.py            # about ten minutes on one core; PROTOALIGN_QUICK=1: less, and it learns nothing
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

import protoalign as pa

try:
    import stable_baselines3
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor
except ImportError:
    raise SystemExit("Stable-Baselines3 is not installed: pip install 'protoalign[minigrid,sb3]'") from None

WORLD, TILE = "minigrid-doorkey-5x5", 8  # pixels


class Tiles(BaseFeaturesExtractor):
    """Pictures [B, 3, H*8, W*8] to features [B, 128]: a convolution over each tile, then one over neighbours."""

    def __init__(self, space: Any, width: int = 128):
        super().__init__(space, width)
        channels, height, columns = space.shape
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(channels, 32, TILE, TILE),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 32, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(32 * (height // TILE) * (columns // TILE), width),
            torch.nn.ReLU(),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.net(pictures)


def trained(source: pa.GymWorld, seed: int, steps: int) -> PPO:
    """What anybody would do with Stable-Baselines3; nothing here is of protoalign but the world that makes pictures."""
    games = VecMonitor(DummyVecEnv([source.make for _ in range(16)]))
    network = {"features_extractor_class": Tiles, "net_arch": []}
    options: dict[str, Any] = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "ent_coef": 0.01, "policy_kwargs": network}
    model = PPO("CnnPolicy", games, learning_rate=lambda left: 1e-4 + 9e-4 * left, seed=seed, device="cpu", **options)
    return model.learn(steps)


def fewer(episodes: int) -> int:
    """For what takes longer: the first of the same games."""
    return max(episodes // 5, 2)


def in_look(agent: pa.Agent, source: pa.GymWorld, look: int, episodes: int) -> dict[str, Any]:
    """The policy in one random look: shown it as it is, through what was found there, and live, while finding out."""
    target, policy = pa.Reskin(source.make(), seed=look), agent.policy()
    before = pa.evaluate(policy, target, fewer(episodes), seed=1)
    began = time.process_time()
    mapping = agent.align(target, episodes=4, seed=look)
    spent = time.process_time() - began
    after = pa.evaluate(policy, pa.Translated(target, mapping), episodes, seed=1)
    live = pa.evaluate(policy, pa.Translated(target, agent=agent, seed=look), fewer(episodes), seed=1)
    print(
        f"look {look}: before {before['return']:.3f}, while finding out {' '.join(f'{x:.2f}' for x in mapping.returns)}, "
        f"after {after['return']:.3f}, live from the first step {live['return']:.3f}",
        flush=True,
    )
    found = {"sureness": round(mapping.sureness, 4), "steps": mapping.steps, "returns": [round(x, 4) for x in mapping.returns]}
    return {
        "look": look,
        "before": before,
        "found": found | {"processor_seconds": round(spent, 1)},
        "after": after,
        "live": live,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All figures of the policies so far, with means over them and their looks."""
    means = {name: float(np.mean([row[name]["return"] for row in rows])) for name in ("source", "source_first")}
    for name in ("before", "after", "live"):
        means[name] = float(np.mean([look[name]["return"] for row in rows for look in row["looks"]]))
    versions = {"python": platform.python_version(), "numpy": np.__version__, "protoalign": pa.__version__}
    versions |= {"stable-baselines3": stable_baselines3.__version__, "torch": torch.__version__}
    returns = {name: round(value, 5) for name, value in means.items()}
    return {"world": WORLD, "returns": returns, "seeds": rows, "versions": versions}


def main() -> None:
    quick = bool(os.environ.get("PROTOALIGN_QUICK"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="policies to train")
    parser.add_argument("--looks", type=int, default=1 if quick else 5, help="random looks for each of them")
    parser.add_argument("--out", type=Path, help="a file for all figures, JSON")
    chosen = parser.parse_args()
    episodes = 5 if quick else 100
    torch.set_num_threads(1)
    source = pa.make(WORLD)
    rows: list[dict[str, Any]] = []
    for seed in range(chosen.seeds):
        times = [(time.monotonic(), time.process_time())]
        model = trained(source, seed, 4096 if quick else 150_000)
        times.append((time.monotonic(), time.process_time()))
        agent = pa.adopt(model, source, steps=2000 if quick else 100_000, seed=seed)
        times.append((time.monotonic(), time.process_time()))
        earned = pa.evaluate(agent.policy(), source.make(), episodes, seed=1)
        first = pa.evaluate(agent.policy(), source.make(), fewer(episodes), seed=1)
        print(
            f"seed {seed}: in the source {earned['return']:.3f} ± {earned['return_se']:.3f}, "
            f"{first['return']:.3f} in the first {first['episodes']} games, which are played live below",
            flush=True,
        )
        looks = [in_look(agent, source, 100 * seed + i, episodes) for i in range(1, chosen.looks + 1)]
        spent, busy = (dict(zip(("train", "adopt"), x, strict=True)) for x in np.diff(times, axis=0).round(1).T.tolist())
        row = {"seed": seed, "source": earned, "source_first": first, "seconds": spent, "processor_seconds": busy}
        rows.append(row | {"looks": looks})
        figures = summary(rows)
        print("mean returns: " + ", ".join(f"{name} {value:.3f}" for name, value in figures["returns"].items()), flush=True)
        if chosen.out:
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
