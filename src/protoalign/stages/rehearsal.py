"""A rehearsal: the programs that the engine bayes needs, run once with untrained networks, so that they are compiled by then.

Compiling takes a third of the time of a first short run, and while the task policy is trained a second core has nothing to do.
Nothing of this is kept but the compiled programs.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from protoalign.agent import untrained
from protoalign.alignment import training
from protoalign.alignment.imagined_games import SIDE_BY_SIDE
from protoalign.alignment.judge_training import train_judge
from protoalign.alignment.mistaken_play import SIDE_BY_SIDE as GATHERED
from protoalign.alignment.mistaken_play import gather
from protoalign.perception.vocabulary import Vocabulary
from protoalign.progress import silent
from protoalign.rl.evaluate import play, side_by_side
from protoalign.rl.source_world import survey
from protoalign.rng import stream
from protoalign.runs import Memory
from protoalign.settings import Settings
from protoalign.stages.bayes import LONG, finder
from protoalign.stages.setup import source_of
from protoalign.worlds.base import World
from protoalign.worlds.env import WorldEnv


def rehearse(world: World, settings: Settings, seed: int, stopped: Callable[[], bool] = lambda: False) -> None:
    """Compile programs of the stages `model` and `transfer`, until `stopped()` says so.

    Where games are long or the environment is not one of ours, these take longer than to compile them: nothing is rehearsed.
    What goes wrong here goes wrong there, and is said there.
    """
    if min(settings.infer.longest or world.spec.max_steps, world.spec.max_steps) > LONG:
        return
    with suppress(Exception), silent():
        for part in _parts(world, settings, seed):
            if stopped():
                return
            part()


def _parts(world: World, settings: Settings, seed: int) -> Iterator[Callable[[], Any]]:
    vocabulary = Vocabulary.fit(world.pictures("source"))
    source = source_of(world, vocabulary)
    agent = untrained(world.spec, settings, seed, survey(source, seed), vocabulary)
    few = replace(settings.judge, updates=1, games=SIDE_BY_SIDE)
    fresh = training.build_model(seed, agent.scene, agent.hideable, settings.infer)
    yield lambda: train_judge(Memory(), few, source, fresh, finder(agent), seed, agent.longest)
    if settings.model.games:
        key, number = stream(seed, "rehearsal"), min(settings.model.games, GATHERED)
        yield lambda: gather(source, agent.task, agent.scene.prototypes, agent.hideable, key, number, agent.longest)
    target = world.make("source")
    if not isinstance(target.unwrapped, WorldEnv):
        return
    met, weight = np.ones(len(vocabulary.pictures), bool), np.ones((2, 3), np.float32)
    taught = replace(agent, vocabulary=vocabulary.learn(met, np.random.default_rng(0)), weight=weight, world_model=None)
    taught = replace(taught, presence=np.ones((2, len(agent.hideable))))
    yield lambda: taught.align(target, episodes=1)
    games = side_by_side(world, settings.target_episodes, "source")
    yield lambda: play(games, taught.task, taught.vocabulary.read, len(taught.spec.actions), seed)
