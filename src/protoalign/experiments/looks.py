"""Measurements in real targets, pixels and all: random looks, noise, looks that change in part, kinds that share a look."""

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from protoalign import stages
from protoalign.alignment.transfer import Agent, Mapping, align
from protoalign.envs import appearance
from protoalign.envs.gym import HunterEnv, HunterVectorEnv
from protoalign.envs.hunter import CATEGORY_NAMES, Hunter
from protoalign.perception import novelty
from protoalign.rng import generator

RANDOM_LOOKS = 50
LEVELS = (0.0, 0.05, 0.1, 0.15, 0.2)  # of noise and jitter
NOISY_LOOKS = 5  # per level
FRAMES = 256  # to judge a mapping's eyes by


def env_of(agent: Agent, look: str, **changed: Any) -> HunterEnv:
    assert isinstance(agent.world, Hunter)
    return HunterEnv(agent.world.variant_name, appearance=look, size=agent.world.size, **changed)


def right(mapping: Mapping, look: str) -> bool:
    """All looks met were taken for what they are."""
    textures = appearance.load(look, mapping.agent.world.category_names)
    return bool((mapping.prototype == stages.true_prototypes(mapping, textures)).all())


def random_looks(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Fifty looks nobody has seen, and the drawn one."""
    agent = stages.load_agent(path)
    for i, look in enumerate(["target", *(f"random:{seed}" for seed in range(1000, 1000 + RANDOM_LOOKS))]):
        mapping = align(env_of(agent, look), agent, episodes, i)
        yield {"look": look, "right": right(mapping, look), "steps": mapping.steps, "sureness": round(mapping.sureness, 5)}


def noisy_looks(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Pixel noise and colour jitter, with categories by looks and by an oracle."""
    agent = stages.load_agent(path)
    for kind in ("noise", "jitter"):
        for level in LEVELS:
            for oracle in (False, True):
                rows: list[tuple[int, bool, float]] = []
                changed: dict[str, Any] = {kind: level}
                for i in range(NOISY_LOOKS):
                    look = "target" if i == 0 else f"random:{2000 + i}"
                    mapping = align(env_of(agent, look, **changed), agent, episodes, i, oracle=oracle)
                    games = HunterVectorEnv(FRAMES, appearance=look, **changed)
                    picture, info = games.reset(seed=i)
                    seen = (mapping(picture) == info["categories"]).mean()
                    rows.append((len(mapping.prototype), right(mapping, look), seen))
                found, mapped, seen = (np.array(x, float) for x in zip(*rows, strict=True))
                yield {
                    "kind": kind,
                    "level": level,
                    "categories": "oracle" if oracle else "looks",
                    "looks": NOISY_LOOKS,
                    "five_found": round(float((found == 5).mean()), 3),
                    "looks_found": round(float(found.mean()), 2),
                    "mapping_right": round(float(mapped.mean()), 3),
                    "tiles_right": round(float(seen.mean()), 5),
                }


def subsets(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Every set of kinds looks new while the others stay as they were."""
    agent = stages.load_agent(path)
    for size in range(6):
        for kinds in combinations(CATEGORY_NAMES, size):
            look = f"only:{','.join(kinds)}:target" if kinds else "source"
            mapping = align(env_of(agent, look), agent, episodes, 100 + size)
            names = [CATEGORY_NAMES[p] for p in mapping.prototype]
            unseen = {name for name, new in zip(names, mapping.unseen, strict=True) if new}
            yield {
                "changed": list(kinds),
                "right": right(mapping, look),
                "novelty_right": unseen == set(kinds),
                "steps": mapping.steps,
                "sureness": round(mapping.sureness, 5),
            }


def mixed(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Two kinds with one look, and one kind with two: what is found, what is said, what it is worth."""
    ways = [f"twins:{a},{b}:target" for a, b in combinations(CATEGORY_NAMES, 2)]
    ways += [f"two:{kind}:target" for kind in CATEGORY_NAMES]
    for look in ways:
        result = stages.move(path, look, episodes, 7)
        yield {
            "look": look,
            "mapping": {f"{i}: {row['true']}": row["found"] for i, row in enumerate(result["mapping"])},
            "says": result["doubts"],
            "ratio": [result["ratio"], result["ratio_se"]],
            "before": round(result["target_return_before"] / result["source_return"], 4),
        }


def other_variants(
    agent: Callable[[str, int], Path], home: str, seeds: int, worlds: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Policies trained in one variant moved to targets of others."""
    keep = ("env", "seed", "mapping_correct", "sureness", "target_steps", "source_return", "target_return", "ratio", "ratio_se")
    for seed in range(seeds):
        for env in worlds:
            result = stages.move(agent(home, seed), "target", 4, 11, env=env)
            yield {name: result[name] for name in keep}


def reconstruction() -> Iterator[dict[str, Any]]:
    """How badly the autoencoder draws tiles it has seen and tiles it has not; misses and false alarms, also under noise."""
    source = appearance.load("source", CATEGORY_NAMES)
    sets = {"source": source, "target": appearance.load("target", CATEGORY_NAMES)}
    sets |= {f"random:{seed}": appearance.load(f"random:{seed}", CATEGORY_NAMES) for seed in range(1000, 1000 + RANDOM_LOOKS)}
    for seed in range(4):
        detector = novelty.train(source, generator(seed, "novelty"))
        errors = {name: detector.errors(tiles) for name, tiles in sets.items()}
        new = np.concatenate([errors[name] for name in sets if name != "source"])
        yield {
            "seed": seed,
            "threshold": round(float(detector.threshold), 4),
            "source": _rounded(errors["source"]),
            "target": _rounded(errors["target"]),
            "random_least": round(float(new.min()), 4),
            "random_median": round(float(np.median(new)), 4),
            "tiles_new": len(new),
            "misses": int((new < detector.threshold).sum()),
            "false_alarms": int((errors["source"] >= detector.threshold).sum()),
            "under_noise": [_under_noise(detector, sets, level, seed) for level in LEVELS],
        }


def _under_noise(detector: novelty.NoveltyDetector, sets: dict[str, np.ndarray], level: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 3])

    def share(tiles: np.ndarray) -> float:
        noisy = np.repeat(tiles, 40, 0) + 255 * level * rng.standard_normal((40 * len(tiles), *tiles.shape[1:]))
        return float(detector.unseen(np.clip(np.round(noisy), 0, 255).astype(np.uint8)).mean())

    return {
        "noise": level,
        "false_alarms": round(share(sets["source"]), 4),
        "misses": round(1 - float(np.mean([share(tiles) for name, tiles in sets.items() if name != "source"])), 4),
    }


def _rounded(values: np.ndarray) -> dict[str, float]:
    return {name: round(float(v), 4) for name, v in zip(CATEGORY_NAMES, values, strict=True)}
