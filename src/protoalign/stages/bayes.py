"""The stage `model`, for the engine bayes: a judge for its actor, a world model, how much to believe both."""

import time
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from protoalign.agent import Agent
from protoalign.alignment import assignments, finding_out, imagined_games, training, type_by_type
from protoalign.alignment.actors import Thompson
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.judge_training import calibrate, train_judge
from protoalign.alignment.judges import Both, Judge, QTheta
from protoalign.alignment.mistaken_play import gather
from protoalign.alignment.model_judge import ModelJudge, Weights
from protoalign.alignment.model_judge import calibrate as calibrate_model
from protoalign.alignment.model_training import train_model
from protoalign.alignment.transfer import SHARPNESS
from protoalign.progress import warn
from protoalign.rl.history import Episodes
from protoalign.rng import stream
from protoalign.settings import plain
from protoalign.stages.setup import Store, history_of, keep, presence, source_of
from protoalign.worlds.base import World

WATCHED = 256  # games in disguise that the world model's own weights of evidence are fitted on
PRACTICE = 2048  # ... and how much it counts beside q_theta: a mistake in a thousand shows; fewer in long games
LONG = 100  # steps
GAMES = 4  # in each imagined world, where prototypes are too many to compare all assignments
NETWORK = ("network", "width", "radius", "tiles", "longest")  # what the judge shares with opa's q_theta, out of InferConfig


def finder(agent: Agent) -> Thompson:
    """The actor of the engine bayes."""
    return Thompson(agent.task, SHARPNESS)


def judge_of(agent: Agent) -> Judge:
    """The judge of the engine bayes: q_theta, and the world model if there is one."""
    assert agent.judge is not None
    assert agent.weight is not None
    weight, doubt = map(jnp.float32, agent.weight)  # arrays: programs are compiled once for all weights
    if agent.world_judge is None:
        return QTheta(agent.judge, weight, doubt)
    return Both(QTheta(agent.judge, weight), agent.world_judge, doubt)


def model(world: World, store: Store, agent: Agent, history: Episodes | None = None) -> Agent:
    """Train what the engine bayes needs: a judge for its actor, a world model, how much to believe both; and measure it.

    `history`, in prototypes, is the store's own if it is not given.
    """
    config, learned = agent.settings.judge, agent.settings.model
    network = {name: value for name, value in plain(agent.settings.infer).items() if name in NETWORK}
    store.configure("judge", plain(config) | network)
    store.configure("model", plain(learned))
    if agent.judge is not None and "bayes" in store.result():
        return agent
    source, seed, longest = source_of(world, agent.vocabulary), agent.seed, agent.longest
    agent = replace(agent, presence=presence(history or history_of(store, agent), agent.hideable))
    fresh = training.build_model(seed, agent.scene, agent.hideable, agent.settings.infer)
    judge, seconds = train_judge(store, config, source, fresh, finder(agent), seed, longest, world.spec.name)
    started = time.monotonic()

    def practise(judge: Judge, name: str, number: int, games: int = 1) -> Games:
        """Games in disguise, played by the actor with this judge."""
        key = stream(seed, f"judge/{name}")
        return imagined_games.play(source, agent.hideable, judge, finder(agent), key, number, games, longest)

    practice = PRACTICE if longest <= LONG else PRACTICE // 4
    games = -(-config.updates // config.period) * config.games + practice
    told: dict[str, Any] = {}
    world_judge, practised = None, QTheta(judge)  # type: ModelJudge | None, Judge
    if learned.games and len(agent.hideable) <= assignments.MOST:
        watched = jax.tree.map(lambda x: x[0], practise(practised, "watched", WATCHED).episodes)
        world_judge, told, before = dynamics(world, store, agent, watched)
        seconds += before
        games += learned.games + WATCHED
        practised = Both(
            QTheta(judge, jnp.float32(0.5)), world_judge, jnp.float32(0)
        )  # games are to be played as they will be: by both
    many = len(agent.hideable) > assignments.MOST
    if many:
        played = practise(practised, "practice", practice // 2, GAMES)
        games += (GAMES // 2 - 1) * practice
        weight, share, doubt = type_by_type.calibrate(played), 0.0, 0.0
    else:
        weight, share, doubt = calibrate(practise(practised, "practice", practice))
    parts: dict[str, Any] = {"judge": judge, "weight": np.array([weight, doubt], np.float32), "presence": agent.presence}
    if world_judge is not None and share:
        tile, reward, start, slack, cap = world_judge.weights
        believed = np.array([share * tile, share * reward, share * start, slack, share * cap], np.float32)
        parts |= {"world_model": world_judge.model, "weights": believed, "alike": world_judge.alike}
    seconds = round(seconds + time.monotonic() - started, 3)
    agent = keep(store, agent, **parts)
    unseen = source_of(world.fresh(), agent.vocabulary) if hasattr(world, "fresh") else source
    key = stream(seed, "judge/measure")
    shown = imagined_games.play(
        unseen, agent.hideable, judge_of(agent), finder(agent), key, config.measured, GAMES if many else 2, longest
    )
    found = finding_out.figures(shown)
    if many:
        found |= type_by_type.figures(shown, agent.names, agent.hideable, agent.scene)
    spent = {"weight": round(weight, 4), "weight_of_model": round(share, 4), "doubt": doubt, "training_games": games}
    store.add_result({"bayes": found | told | spent, "seconds": {"model": seconds}})
    return agent


def dynamics(world: World, store: Store, agent: Agent, disguised: Episodes) -> tuple[ModelJudge, dict[str, Any], float]:
    """The world model, trained on games of mistaken play, as a judge that is calibrated on games in disguise; its figures; and
    the seconds that its training took before it was resumed, if it was."""
    config, seed = agent.settings.model, agent.seed
    source, hideable = source_of(world, agent.vocabulary), agent.hideable
    games = gather(
        source, agent.task, agent.scene.prototypes, hideable, stream(seed, "model/games"), config.games, agent.longest
    )
    started = time.monotonic()
    learned, told, spent = train_model(store, config, agent.scene, hideable, games, seed, world.spec.name, agent.names)
    before = max(spent - (time.monotonic() - started), 0.0)
    for warning in told["warnings"]:
        warn(warning)
    judge, weighed = calibrate_model(ModelJudge(learned, Weights(), hideable), [disguised])
    return judge, {"world_model": told | {"weights": weighed}}, before
