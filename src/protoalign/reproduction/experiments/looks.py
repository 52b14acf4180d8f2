"""Measurements in real targets, pixels and all: random looks, noise, looks that change in part, kinds that share a look.

All take the folder of a finished run, and play in the world that it was trained in.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from protoalign import stages
from protoalign.agent import Agent
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.verdict import judge
from protoalign.perception import novelty
from protoalign.rng import generator
from protoalign.worlds import registry
from protoalign.worlds.base import World
from protoalign.worlds.env import WorldVectorEnv

RANDOM_LOOKS = 50
LEVELS = (0.0, 0.05, 0.1, 0.15, 0.2)  # of noise and jitter
NOISY_LOOKS = 5  # per level
TWO_LOOKS = 8  # random ones in which a kind has two pictures, per kind
FRAMES = 256  # to judge a mapping's eyes by
NOISES = 40  # of each tile, to judge the detector by
SEEDS = 4  # of the detector


def load(path: Path) -> tuple[Agent, World]:
    """The agent in a run folder, and its world."""
    agent = Agent.load(path)
    return agent, registry.make(agent.spec.name)


def kinds(world: World) -> tuple[str, ...]:
    """What there is in a world."""
    return tuple(dict.fromkeys(world.spec.truth or ()))


def random_looks(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Looks that nobody has seen, and the drawn one."""
    agent, world = load(path)
    for i, look in enumerate(["target", *(f"random:{seed}" for seed in range(1000, 1000 + RANDOM_LOOKS))]):
        mapping = agent.align(world.make(look), episodes, seed=i, engine="opa")
        right = judge(mapping, world, look)["mapping_correct"]
        yield {"look": look, "right": right, "steps": mapping.steps, "sureness": round(mapping.sureness, 5)}


def noisy_looks(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Pixel noise and colour jitter, with tile types by their pictures and by an oracle."""
    agent, world = load(path)
    for kind in ("noise", "jitter"):
        for level in LEVELS:
            for oracle in (False, True):
                rows = [_noisy(agent, world, i, episodes, oracle, {kind: level}) for i in range(NOISY_LOOKS)]
                found, mapped, seen = (np.array(x, float) for x in zip(*rows, strict=True))
                yield {
                    "kind": kind,
                    "level": level,
                    "categories": "oracle" if oracle else "looks",
                    "looks": NOISY_LOOKS,
                    "all_found": round(float((found == len(kinds(world))).mean()), 3),
                    "looks_found": round(float(found.mean()), 2),
                    "mapping_right": round(float(mapped.mean()), 3),
                    "tiles_right": round(float(seen.mean()), 5),
                }


def _noisy(
    agent: Agent, world: World, number: int, episodes: int, oracle: bool, changed: dict[str, Any]
) -> tuple[int, bool, float]:
    """In one look: tile types found, whether the mapping is right, and the share of tiles that are read right."""
    look = f"random:{2000 + number}" if number else "target"
    mapping = agent.align(world.make(look, **changed), episodes, seed=number, oracle=oracle, engine="opa")
    picture, info = WorldVectorEnv(FRAMES, world, look, **changed).reset(seed=number)
    seen = (kind_of(mapping, world)[mapping(picture)] == info["categories"]).mean()
    return len(mapping.prototypes), judge(mapping, world, look)["mapping_correct"], float(seen)


def kind_of(mapping: Mapping, world: World) -> np.ndarray:
    """What each prototype is, [C]: an index into `kinds`, as in `info["categories"]`."""
    names = [kinds(world).index(name) for name in world.spec.truth or ()]
    return np.array(names)[mapping.vocabulary.canonical]


def subsets(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Every set of kinds looks new while the others stay as they were."""
    agent, world = load(path)
    for size in range(len(kinds(world)) + 1):
        for some in combinations(kinds(world), size):
            look = f"only:{','.join(some)}:target" if some else "source"
            mapping = agent.align(world.make(look), episodes, seed=100 + size, engine="opa")
            found = judge(mapping, world, look)
            yield {
                "changed": list(some),
                "right": found["mapping_correct"],
                "novelty_right": {row["true"] for row in found["mapping"] if row["unseen"]} == set(some),
                "steps": mapping.steps,
                "sureness": round(mapping.sureness, 5),
            }


def mixed(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """Two kinds with one picture, and one kind with two: what is found, what is said, what it is worth."""
    agent, world = load(path)
    ways = [f"twins:{a},{b}:target" for a, b in combinations(kinds(world), 2)]
    ways += [f"two:{kind}:random:{seed}" for kind in kinds(world) for seed in range(3000, 3000 + TWO_LOOKS)]
    for i, look in enumerate(ways):  # other games for every look: pictures alone make no difference
        _, result = stages.transfer(agent, world, look, episodes, 7 + i, engine="opa")
        yield {
            "look": look,
            "mapping": {f"{i}: {row['true']}": row["found"] for i, row in enumerate(result["mapping"])},
            "right": result["mapping_correct"],
            "says": result["doubts"],
            "ratio": [result["ratio"], result["ratio_se"]],
            "before": round(result["target_return_before"] / (result["source_return"] or 1e-9), 4),
        }


def played_looks(path: Path, episodes: int = 4) -> Iterator[dict[str, Any]]:
    """The engine bayes in random looks, in looks that change in part, and where kinds share a picture or one has two."""
    agent, world = load(path)
    every = kinds(world)
    ways = {
        "random looks": ["target", *(f"random:{seed}" for seed in range(1000, 1000 + RANDOM_LOOKS))],
        "some kinds new": [f"only:{','.join(x)}:target" for n in range(1, len(every)) for x in combinations(every, n)],
        "one kind with two pictures": [f"two:{kind}:random:{s}" for kind in every for s in range(3000, 3000 + TWO_LOOKS)],
        "two kinds with one picture": [f"twins:{a},{b}:target" for a, b in combinations(every, 2)],
    }
    for i, (group, look) in enumerate((group, look) for group, some in ways.items() for look in some):
        mapping = agent.align(world.make(look), episodes, seed=i, engine="bayes")
        yield {
            "group": group,
            "look": look,
            "right": judge(mapping, world, look)["mapping_correct"],
            "sureness": round(mapping.sureness, 5),
            "sure_after": mapping.sure_after(),
            "returns": [round(x, 3) for x in mapping.returns],
        }


VARIANT = (
    "env", "mapping_correct", "sureness", "target_steps", "source_return", "target_return", "target_return_own", "ratio",
    "ratio_se", "ratio_own", "ratio_own_se",
)  # fmt: skip


def other_variants(
    agent: Callable[[str, int], Path], trained_in: str, seeds: int, worlds: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Policies trained in one variant moved to targets of others; `agent(world, seed)` is the folder of a finished run."""
    for seed in range(seeds):
        for env in worlds:
            _, result = stages.transfer(Agent.load(agent(trained_in, seed)), registry.make(env), "target", 4, 11, engine="opa")
            yield {"seed": seed, **{name: result[name] for name in VARIANT}}


def reconstruction(env: str) -> Iterator[dict[str, Any]]:
    """How badly the autoencoder draws tiles it has seen and tiles it has not; misses and false alarms, also under noise."""
    world = registry.make(env)
    sets = {look: world.pictures(look) for look in ("source", "target")}
    sets |= {f"random:{seed}": world.pictures(f"random:{seed}") for seed in range(1000, 1000 + RANDOM_LOOKS)}
    for seed in range(SEEDS):
        detector = novelty.train(sets["source"], generator(seed, "novelty"))
        errors = {name: detector.errors(tiles) for name, tiles in sets.items()}
        new = np.concatenate([errors[name] for name in sets if name != "source"])

        def rounded(look: str, errors: dict[str, np.ndarray] = errors) -> dict[str, float]:
            return {name: round(float(x), 4) for name, x in zip(world.spec.truth or (), errors[look], strict=True)}

        yield {
            "seed": seed,
            "threshold": round(float(detector.threshold), 4),
            "source": rounded("source"),
            "target": rounded("target"),
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
        noisy = np.repeat(tiles, NOISES, 0) + 255 * level * rng.standard_normal((NOISES * len(tiles), *tiles.shape[1:]))
        return float(detector.unseen(np.clip(np.round(noisy), 0, 255).astype(np.uint8)).mean())

    return {
        "noise": level,
        "false_alarms": round(share(sets["source"]), 4),
        "misses": round(1 - float(np.mean([share(tiles) for name, tiles in sets.items() if name != "source"])), 4),
    }
