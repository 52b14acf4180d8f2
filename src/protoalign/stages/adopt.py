"""An agent that plays somebody else's policy: what it needs besides is learned by watching that policy in the source."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from protoalign.agent import Adopted, Agent, evaluate, untrained
from protoalign.errors import UserError
from protoalign.perception.tiles import join
from protoalign.perception.vocabulary import Vocabulary
from protoalign.progress import Bar
from protoalign.rl.rollout import Record
from protoalign.rng import check_seed, generator
from protoalign.runs import Memory, Run
from protoalign.runtime import versions
from protoalign.stages.hosted import model, named, scene_of
from protoalign.stages.setup import Store, settings_of
from protoalign.worlds import registry
from protoalign.worlds.base import Observation
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.tile_dictionary import TileDictionary

CHANCES = np.arange(1, 11) / 10  # one of these is how often an action is random, in episodes with random actions
MISTAKEN = 0.2  # of the other episodes are played by the policy with two kinds of tiles exchanged in what it sees
SLIPS = 0.1  # how often an action is random there
STALE = 12  # times that a board is seen in an episode with few random actions before that is left: play has stalled
EVALUATED = 100  # episodes of the policy alone, to measure what it earns


def adopt(
    policy: Any, world: GymWorld | str, steps: int = 200_000, seed: int = 0, random: float = 0.3, out: str | Path | None = None
) -> Agent:
    """Watch a policy in the source, learn how that world works, and return an agent that plays this policy in other looks.

    `policy`: a function from an observation of `world.make()` to an action, or an object with `predict(observation)`, such as a
    model of Stable-Baselines3. It is never trained, and must choose by what it sees now: one with a memory of the episode is
    not for this. `world`: a hosted world, or its name. `steps`: to watch, in whole episodes. `random`: the share of episodes
    in which some or all actions are random, so that mistakes are seen, too; in some of the others two kinds of tiles are
    exchanged in what the policy sees. `out`: a run folder; the same call again loads what is done there, for this policy.
    """
    source: Any = registry.make(world) if isinstance(world, str) else world
    if not isinstance(source, GymWorld):
        name = getattr(getattr(source, "spec", None), "name", None) or type(source).__name__
        raise UserError(f"{name} is not a hosted world: adopt a policy in a GymWorld, e.g. GymWorld(world.make, tile=8)")
    check_seed(seed)
    if steps < 1000:
        raise UserError(f"steps={steps}: watch the policy for at least 1000")
    if not 0 <= random <= 1:
        raise UserError(f"random={random}: use a share of episodes from 0 to 1, e.g. 0.3")
    Adopted(policy)  # complain before anything is played
    store: Store = Memory() if out is None else Run(Path(out))
    with store.lock():
        return model(source, store, _watched(policy, source, store, steps, seed, random))


def _watched(policy: Any, world: GymWorld, store: Store, steps: int, seed: int, random: float) -> Agent:
    """The agent without a world model; the history of what was watched is kept."""
    settings, name = settings_of(world, "fast"), world.spec.name  # type: ignore[arg-type]
    store.configure("env", name)
    store.configure("world", {"spec": asdict(world.spec), "tile": world.tile, "picture": world.picture, "crop": world.crop})
    store.configure("seed", seed)
    store.configure("preset", "adopted")
    store.configure("adopt", {"steps": steps, "random": random})
    if isinstance(store, Run) and "source_return" in store.result():
        return Agent.load(store.path, policy)
    started, play = time.monotonic(), Adopted(policy)
    dictionary = TileDictionary(world.tile)
    record = watch(play, world, dictionary, steps, seed, random)
    store.record("task", 0, 1, [record])  # whatever another one left there before it was killed
    watched = time.monotonic()
    counts = np.bincount(record.observation.tiles.reshape(-1), minlength=len(dictionary))
    vocabulary = Vocabulary.each(dictionary.pictures, counts)
    agent = untrained(world.spec, settings, seed, scene_of(world, len(dictionary)), vocabulary)
    spec = world.spec if world.truth is None else replace(world.spec, truth=named(world, vocabulary))
    agent = replace(agent, spec=spec, task=None, local=None, model=None, explorer=None, adopted=policy)
    earned = evaluate(play, world.make(), EVALUATED, 900_000 + 1000 * seed)
    if isinstance(store, Run):
        agent.save(store.path)
    spent = {"watch": round(watched - started, 3), "evaluate": round(time.monotonic() - watched, 3)}
    store.add_result(
        {
            "env": name,
            "seed": seed,
            "preset": "adopted",
            "task_steps": int((~record.reset).sum()),
            **{f"source_{key}": value for key, value in earned.items()},
            "pictures_met": len(dictionary),
            "prototypes": vocabulary.num_prototypes,
            "seconds": spent,
            "versions": versions(),
        }
    )
    return agent


def watch(
    play: Callable[[Any], int], world: GymWorld, dictionary: TileDictionary, steps: int, seed: int, random: float
) -> Record:
    """At least so many steps in whole episodes, [T, 1, ...]: observations in ids of the dictionary, which grows."""
    game, rng = world.game(dictionary), generator(seed, "adopt")
    pictures = dictionary.pictures
    rows: list[tuple[np.ndarray, np.ndarray, int, float, bool, bool, bool]] = []
    done, returns, actions = 0, list[float](), len(world.spec.actions)
    with Bar(f"watch {world.spec.name}", steps) as bar:
        bar.begin()
        while done < steps:
            ids, numbers = game.reset(seed=int(rng.integers(2**31)))
            chance, table, before = 0.0, np.arange(256), len(rows)
            if rng.random() < random:
                chance = float(rng.choice(CHANCES))
            elif len(dictionary) > 1 and rng.random() < MISTAKEN:
                one = int(rng.choice(np.unique(ids)))
                other = int(rng.choice(np.delete(np.arange(len(dictionary)), one)))
                chance, table[[one, other]] = SLIPS, [other, one]
            visits: dict[bytes, int] = {}
            over, earned = False, 0.0
            while not over:
                if rng.random() < chance:
                    action = int(rng.integers(actions))
                else:
                    if len(dictionary) > len(pictures):
                        pictures = dictionary.pictures
                    picture = join(pictures[table[ids]])
                    action = play({"view": picture, "numbers": numbers} if len(world.spec.numbers) else picture)
                    if not 0 <= action < actions:
                        raise UserError(f"the policy chose action {action}: {world.spec.name} has actions 0 to {actions - 1}")
                after, later, reward, terminated, truncated = game.step(action)
                rows.append((ids, numbers, action, reward, terminated, truncated and not terminated, False))
                ids, numbers = after, later
                mark = ids.tobytes() + numbers.tobytes()
                visits[mark] = visits.get(mark, 0) + 1
                over = terminated or truncated or (chance <= SLIPS and visits[mark] >= STALE)
                earned += reward
            done += len(rows) - before
            rows.append((ids, numbers, 0, 0.0, False, False, True))  # the last picture
            if not chance:
                returns.append(earned)
            note = f"its own return {np.mean(returns[-100:]):6.3f}" if returns else ""
            bar.advance(min(done, steps) - bar.done, note)
    kinds = np.uint8, np.float32, np.uint8, np.float32, bool, bool, bool
    columns = [np.array(x, kind)[:, None] for x, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return Record(Observation(columns[0], columns[1]), *columns[2:])
