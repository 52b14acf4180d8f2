"""A rehearsal: the programs that the engine bayes needs, run once with untrained networks, so that they are compiled by then.

Compiling takes a third of the time of a first short run, and while the task policy is trained a second core has nothing to do.
Nothing of this is kept but the compiled programs.
"""

from contextlib import suppress
from dataclasses import replace

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


def rehearse(world: World, settings: Settings, seed: int) -> None:
    """Compile programs of the stages `model` and `transfer`; where games are long, these take longer than to compile them.

    What goes wrong here goes wrong there, and is said there.
    """
    if min(settings.infer.longest or world.spec.max_steps, world.spec.max_steps) > LONG:
        return
    with suppress(Exception), silent():
        vocabulary = Vocabulary.fit(world.pictures("source"))
        source = source_of(world, vocabulary)
        agent = untrained(world.spec, settings, seed, survey(source, seed), vocabulary)
        few = replace(settings.judge, updates=1, games=SIDE_BY_SIDE)
        fresh = training.build_model(seed, agent.scene, agent.hideable, settings.infer)
        train_judge(Memory(), few, source, fresh, finder(agent), seed, agent.longest)
        if settings.model.games:
            key, number = stream(seed, "rehearsal"), min(settings.model.games, GATHERED)
            gather(source, agent.task, agent.scene.prototypes, agent.hideable, key, number, agent.longest)
        met = np.ones(len(vocabulary.pictures), bool)
        agent = replace(agent, vocabulary=vocabulary.learn(met, np.random.default_rng(0)), weight=np.ones((2, 3), np.float32))
        agent = replace(agent, presence=np.ones((2, len(agent.hideable))), world_model=None)
        mapping = agent.align(world.make("source"), episodes=1)
        games = side_by_side(world, settings.target_episodes, "source")
        play(games, agent.task, mapping, len(agent.spec.actions), seed)
