"""The stage `model`, for the engine bayes: a judge for its actor, a world model, how much to believe both."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from protoalign.agent import Agent
from protoalign.alignment import assignments, finding_out, imagined_games, training, type_by_type
from protoalign.alignment.actors import Thompson
from protoalign.alignment.calibration import Weighing, calibrate
from protoalign.alignment.imagined_games import Games
from protoalign.alignment.inference import InferenceModel
from protoalign.alignment.judge_training import train_judge
from protoalign.alignment.judges import Both, Judge, QTheta
from protoalign.alignment.mistaken_play import gather
from protoalign.alignment.model_judge import ModelJudge, Weights
from protoalign.alignment.model_judge import calibrate as calibrate_model
from protoalign.alignment.model_training import train_model
from protoalign.alignment.transfer import SHARPNESS
from protoalign.alignment.world_model import WorldModel
from protoalign.progress import warn
from protoalign.rl.history import Episodes
from protoalign.rng import stream
from protoalign.settings import plain
from protoalign.stages.setup import Store, beside, cores, keep, past, presence, source_of
from protoalign.worlds.base import World

WATCHED = 128  # games in disguise that the world model's own weights of evidence are fitted on
PRACTICE = 2048  # ... and how much it counts beside q_theta: a mistake in a thousand shows; fewer in long games
VARIED = 2048  # ... and the same in other variants of the world
LONG = 100  # steps
GAMES = 4  # in each imagined world, where prototypes are too many to compare all assignments
NETWORK = ("network", "width", "radius", "tiles", "longest")  # what the judge shares with opa's q_theta, out of InferConfig


class Dynamics(NamedTuple):
    """A world model that is trained, but not weighed yet."""

    model: WorldModel
    told: dict[str, Any]  # its figures
    seconds: float  # of its training before it was resumed, if it was


def finder(agent: Agent) -> Thompson:
    """The actor of the engine bayes."""
    return Thompson(agent.task, SHARPNESS)


def judge_of(agent: Agent, elsewhere: bool = False) -> Judge:
    """The judge of the engine bayes, in the source's own world or in another variant: q_theta, and the world model if there
    is one."""
    assert agent.judge is not None
    weighing = agent.weighing(elsewhere)
    world_judge = agent.world_judge(weighing.other)
    if world_judge is None:
        return QTheta(agent.judge, weighing.own, weighing.doubt)
    return Both(QTheta(agent.judge, weighing.own), world_judge, weighing.doubt)


def model(
    world: World,
    store: Store,
    agent: Agent,
    history: Episodes | None = None,
    fitted: Callable[[], Dynamics | None] | None = None,
) -> Agent:
    """Train what the engine bayes needs: a judge for its actor, a world model, how much to believe both; and measure it.

    `history`, in prototypes, is the store's own if it is not given. `fitted` waits for `dynamics` in another thread; if it is
    not given, the world model is trained here, beside the judge if the machine has a second core.
    """
    note_settings(store, agent)
    if finished(store, agent):
        return agent
    if fitted is None:
        with beside(store) as later:
            return _model(world, store, agent, history, later(lambda: dynamics(world, store, agent)))
    return _model(world, store, agent, history, fitted)


def note_settings(store: Store, agent: Agent) -> None:
    """Write the stage's settings down, or refuse if it was begun with others."""
    network = {name: value for name, value in plain(agent.settings.infer).items() if name in NETWORK}
    store.configure("judge", plain(agent.settings.judge) | network)
    store.configure("model", plain(agent.settings.model))


def finished(store: Store, agent: Agent) -> bool:
    """Whether there is nothing left to do."""
    return agent.judge is not None and "bayes" in store.result()


def dynamics(world: World, store: Store, agent: Agent) -> Dynamics | None:
    """The world model, trained on games of mistaken play; None where it is not wanted or prototypes are too many."""
    config, seed = agent.settings.model, agent.seed
    if not config.games or len(agent.hideable) > assignments.MOST or finished(store, agent):
        return None
    source, key = source_of(world, agent.vocabulary), stream(seed, "model/games")
    games = gather(source, agent.task, agent.scene.prototypes, agent.hideable, key, config.games, agent.longest)
    started = time.monotonic()
    learned, told, spent = train_model(store, config, agent.scene, agent.hideable, games, seed, world.spec.name, agent.names)
    for warning in told["warnings"]:
        warn(warning)
    return Dynamics(learned, told, max(spent - (time.monotonic() - started), 0.0))


def _model(world: World, store: Store, agent: Agent, history: Episodes | None, fitted: Callable[[], Dynamics | None]) -> Agent:
    config, learned, seed = agent.settings.judge, agent.settings.model, agent.seed
    source, longest = source_of(world, agent.vocabulary), agent.longest
    started = time.monotonic()
    agent = replace(agent, presence=presence(history or past(store, agent), agent.hideable))
    fresh = training.build_model(seed, agent.scene, agent.hideable, agent.settings.infer)
    judge, spent = train_judge(store, config, source, fresh, finder(agent), seed, longest, world.spec.name)
    before = max(spent - (time.monotonic() - started), 0.0)  # if it was resumed

    def practise(judge: Judge, name: str, number: int, games: int = 1) -> Games:
        """Games in disguise, played by the actor with this judge."""
        key = stream(seed, f"judge/{name}")
        return imagined_games.play(source, agent.hideable, judge, finder(agent), key, number, games, longest)

    many = len(agent.hideable) > assignments.MOST
    practice = PRACTICE if longest <= LONG else PRACTICE // 4
    games = -(-config.updates // config.period) * config.games + practice
    told: dict[str, Any] = {}
    parts: dict[str, Any] = {"judge": judge, "presence": agent.presence}
    practised = practice_judge(judge, None)
    found = fitted()
    if found is not None:
        watched = jax.tree.map(lambda x: x[0], practise(practised, "watched", WATCHED).episodes)
        world_judge, weighed = calibrate_model(ModelJudge(found.model, Weights(), agent.hideable), [watched])
        told["world_model"] = found.told | {"weights": weighed}
        games += learned.games + WATCHED
        before = max(before, found.seconds) if cores() > 1 else before + found.seconds
        practised = practice_judge(judge, world_judge)
        believed = np.array(world_judge.weights, np.float32)
        parts |= {"world_model": world_judge.model, "weights": believed, "alike": world_judge.alike}
    if many:
        games += (GAMES // 2 - 1) * practice
        own = Weighing(type_by_type.calibrate(practise(practised, "practice", practice // 2, GAMES)), 0.0, 0.0)
    else:
        own = calibrate(practise(practised, "practice", practice))
    parts["weight"] = np.array([own, own], np.float32)
    seconds = round(before + time.monotonic() - started, 3)
    agent = keep(store, agent, **parts)
    unseen = source_of(world.fresh(), agent.vocabulary) if hasattr(world, "fresh") else source
    key = stream(seed, "judge/measure")
    shown = imagined_games.play(
        unseen, agent.hideable, judge_of(agent), finder(agent), key, config.measured, GAMES if many else 2, longest
    )
    figures = finding_out.figures(shown)
    if many:
        figures |= type_by_type.figures(shown, agent.names, agent.hideable, agent.scene)
    store.add_result(
        {"bayes": figures | told | weights_as_figures(own) | {"training_games": games}, "seconds": {"model": seconds}}
    )
    return agent


def variants(world: World, store: Store, agent: Agent) -> Agent:
    """The agent with weights of evidence for other variants of its world, where it has some and all assignments are compared:
    fitted on games in disguise there, played as those in the source were."""
    if (
        not hasattr(world, "varied")
        or agent.judge is None
        or len(agent.hideable) > assignments.MOST
        or "elsewhere" in store.result()["bayes"]
    ):
        return agent
    started = time.monotonic()
    varied = source_of(world.varied(), agent.vocabulary)
    key = stream(agent.seed, "judge/varied")
    assert agent.judge is not None
    judge = practice_judge(agent.judge, agent.world_judge())
    found = calibrate(imagined_games.play(varied, agent.hideable, judge, finder(agent), key, VARIED, 1, agent.longest))
    agent = keep(store, agent, weight=np.array([agent.weighing(), found], np.float32))
    spent = {"seconds": {"variants": round(time.monotonic() - started, 3)}}
    store.add_result({"bayes": {"elsewhere": weights_as_figures(found)}} | spent)
    return agent


def practice_judge(judge: InferenceModel, world_judge: ModelJudge | None) -> Judge:
    """Who watches the games that weights are fitted on: they are to be played as they will be, by both."""
    return QTheta(judge) if world_judge is None else Both(QTheta(judge, 0.5), world_judge)


def weights_as_figures(weighing: Weighing) -> dict[str, float]:
    """Weights as result.json has them."""
    return {
        "weight": round(weighing.own, 4),
        "weight_of_model": round(weighing.other, 4),
        "doubt": weighing.doubt,
    }
