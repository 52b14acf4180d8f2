"""The stages of the method, each resumable in a run folder, or done in memory: task; model, or infer and explore; transfer.

store = Run(folder) or Memory()
agent = task(world, store, seed, settings)
agent = model(world, store, agent)  # for the engine bayes
agent = explore(world, store, infer(world, store, agent))  # for the engine opa
"""

import hashlib
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np

from protoalign.agent import Agent, hideable, untrained
from protoalign.alignment import assignments, finding_out, imagined_games, training, type_by_type
from protoalign.alignment.actors import Thompson
from protoalign.alignment.judge_training import calibrate, train_judge
from protoalign.alignment.judges import Both, Judge, QTheta
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.mistaken_play import gather
from protoalign.alignment.model_judge import ModelJudge, Weights
from protoalign.alignment.model_judge import calibrate as calibrate_model
from protoalign.alignment.model_training import train_model
from protoalign.alignment.transfer import SHARPNESS
from protoalign.alignment.verdict import judge as verdict
from protoalign.errors import UserError
from protoalign.perception.vocabulary import Vocabulary
from protoalign.progress import warn
from protoalign.rl.evaluate import evaluate, figures, play, side_by_side
from protoalign.rl.history import Episodes, cut
from protoalign.rl.source_world import SourceWorld, survey
from protoalign.rl.train import train as train_policy
from protoalign.rng import check_seed, generator, stream
from protoalign.runs import Memory, Run
from protoalign.runtime import versions
from protoalign.settings import ENGINES, Engine, Settings, of, plain, shorten
from protoalign.worlds import registry
from protoalign.worlds.base import World

Store = Run | Memory
MAPPINGS: dict[Engine, str] = {"bayes": "mapping", "opa": "mapping-opa"}  # files of a run's own mappings
PRACTICE = 512  # games in disguise that weights of evidence are fitted on
NETWORK = ("network", "width", "radius", "tiles", "longest")  # what the judge shares with opa's q_theta, out of InferConfig
WEIGHED = 192  # ... of which for the world model's own
GAMES = 4  # in each imagined world, where prototypes are too many to compare all assignments


def settings_of(
    world: World,
    preset: str,
    steps: int | None = None,
    updates: int | None = None,
    explore_steps: int | None = None,
    hide: tuple[str, ...] = (),
) -> Settings:
    """A world's settings for a preset, with other budgets, and kinds that may look new, where they are given."""
    settings = shorten(of(registry.own_settings(world.spec.name), preset), steps, updates, explore_steps)
    return replace(settings, infer=replace(settings.infer, hide=hide)) if hide else settings


def source_of(world: World, vocabulary: Vocabulary) -> SourceWorld:
    """The source as policies see it."""
    return SourceWorld(world, tuple(int(c) for c in vocabulary.prototype_of))


def check_world(world: World) -> None:
    """Refuse a world without what the method needs, with the reason, before any training."""
    spec = world.spec
    if not hasattr(world, "pictures"):
        raise UserError(f"{spec.name} has no pictures: the method needs a table of them, pictures('source')")
    pictures = np.asarray(world.pictures("source"))
    if pictures.ndim != 4 or pictures.shape[-1] != 3 or pictures.dtype != np.uint8:
        raise UserError(f"{spec.name} has no pictures: pictures('source') must be [ids, h, w, 3] uint8, not {pictures.shape}")
    if len(spec.grid) != 2 or min(spec.grid) < 1 or len(spec.actions) < 2:
        raise UserError(f"{spec.name} needs a grid of rows and columns and at least two actions")
    if spec.truth is not None and len(spec.truth) != len(pictures):
        raise UserError(f"{spec.name} names {len(spec.truth)} pictures and shows {len(pictures)}")
    if spec.agent is not None and not all(0 <= a < n for a, n in zip(spec.agent, spec.grid, strict=True)):
        raise UserError(f"{spec.name}'s agent is outside its grid")
    seen = eqx.filter_eval_shape(lambda key: world.observe(world.reset(key, 2)), jax.random.key(0))
    shapes = tuple(seen.tiles.shape), tuple(seen.numbers.shape)
    if shapes != ((2, *spec.grid), (2, len(spec.numbers))):
        raise UserError(f"{spec.name} shows grids and numbers of shape {shapes} for 2 games: they do not fit its spec")


def task(world: World, store: Store, seed: int, settings: Settings, preset: str) -> Agent:
    """Train the task policy pi_task on prototypes, keeping its history, then measure it; the agent as far as it goes."""
    check_world(world)
    check_seed(seed)
    config, name = settings.task, world.spec.name
    hideable(Vocabulary.fit(world.pictures("source")), world.spec, settings.infer.hide)  # complain about kinds there are not
    store.configure("env", name)
    pictures = np.ascontiguousarray(world.pictures("source"))
    store.configure("world", {"spec": asdict(world.spec), "pictures": hashlib.sha256(pictures.tobytes()).hexdigest()})
    store.configure("hide", settings.infer.hide)
    store.configure("seed", seed)
    store.configure("preset", preset)
    store.configure("task", plain(config))
    if "source_return" in store.result() and isinstance(store, Run):
        return Agent.load(store.path)
    vocabulary = Vocabulary.fit(world.pictures("source"))
    source = source_of(world, vocabulary)
    agent = untrained(world.spec, settings, seed, survey(source, seed), vocabulary)
    net, _, spent = train_policy(store, "task", config, source, agent.task, seed, title=name)
    record = store.recorded("task") if config.recorded else None
    met = np.ones(len(vocabulary.pictures), bool)
    if record is not None:
        counts = np.bincount(np.asarray(record.observation.tiles).reshape(-1), minlength=len(met))
        met = counts > 0
        vocabulary = vocabulary.learn(met, generator(seed, "novelty"), counts)
    else:
        vocabulary = vocabulary.learn(met, generator(seed, "novelty"))
    agent = replace(agent, vocabulary=vocabulary, task=net, model=None, explorer=None, judge=None, world_model=None)
    measured = time.monotonic()
    fresh = world.fresh() if hasattr(world, "fresh") else world
    played = evaluate(source_of(fresh, vocabulary), net, stream(seed, "task/evaluate"), config.evaluation)
    if isinstance(store, Run):
        agent.save(store.path)
    done = time.monotonic()
    store.add_result(
        {
            "env": name,
            "seed": seed,
            "preset": preset,
            "task_steps": spent["steps"],
            **{f"source_{key}": value for key, value in figures(played).items()},
            "pictures_met": int(met.sum()),
            "prototypes": vocabulary.num_prototypes,
            "seconds": {"task": spent["seconds"], "evaluate": round(done - measured, 3)},
            "versions": versions(),
        }
    )
    return agent


def past(store: Store, agent: Agent) -> Episodes:
    """The history in prototypes, every episode as long as one of exploration may be."""
    return training.as_prototypes(cut(store.recorded("task"), agent.longest), np.asarray(agent.vocabulary.prototype_of))


def presence(history: Episodes, which: tuple[int, ...]) -> np.ndarray:
    """How often each of K prototypes is in an episode's first picture, and in an episode at all: [2, K]."""
    tiles = history.observation.tiles
    shown = np.arange(tiles.shape[1]) <= history.length[:, None]
    seen = np.stack([(tiles == c).any((2, 3)) for c in which], -1) & shown[..., None]  # [E, L + 1, K]
    return np.stack([seen[:, 0].mean(0), seen.any(1).mean(0)])


def history_of(store: Store, agent: Agent) -> Episodes:
    """The history in prototypes, with at least one episode."""
    history = past(store, agent)
    if not len(history.length):
        raise UserError("no episode has ended while the task policy learned: train it for more steps")
    return history


def finder(agent: Agent) -> Thompson:
    """The actor of the engine bayes."""
    return Thompson(agent.task, SHARPNESS)


def judge_of(agent: Agent) -> Judge:
    """The judge of the engine bayes: q_theta, and the world model if there is one."""
    assert agent.judge is not None
    assert agent.weight is not None
    own = QTheta(agent.judge, float(agent.weight[0]))
    return own if agent.world_judge is None else Both(own, agent.world_judge)


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

    def practise(judge: Judge, name: str, number: int) -> Episodes:
        """Games in disguise, played by the actor with this judge."""
        key = stream(seed, f"judge/{name}")
        played = imagined_games.play(source, agent.hideable, judge, finder(agent), key, number, 1, longest)
        return jax.tree.map(lambda x: x[0], played.episodes)

    games = -(-config.updates // config.period) * config.games + PRACTICE
    told: dict[str, Any] = {}
    world_judge, practised = None, QTheta(judge)  # type: ModelJudge | None, Judge
    if learned.games and len(agent.hideable) <= assignments.MOST:
        world_judge, told = dynamics(world, store, agent, practise(practised, "watched", WEIGHED))
        games += learned.games + WEIGHED
        practised = Both(QTheta(judge, 0.5), world_judge)  # games are to be played as they will be: by both
    many = len(agent.hideable) > assignments.MOST
    if many:
        key = stream(seed, "judge/practice")
        played = imagined_games.play(source, agent.hideable, practised, finder(agent), key, PRACTICE // 2, GAMES, longest)
        games += (GAMES // 2 - 1) * PRACTICE
        weight, share = type_by_type.calibrate(played), 0.0
    else:
        weight, share = calibrate(judge, practise(practised, "practice", PRACTICE), config, world_judge)
    agent = replace(agent, judge=judge, weight=np.array([weight], np.float32))
    if world_judge is not None and share:
        tile, reward, start, slack, cap = world_judge.weights
        believed = np.array([share * tile, share * reward, share * start, slack, share * cap], np.float32)
        agent = replace(agent, world_model=world_judge.model, weights=believed, alike=world_judge.alike)
    seconds = round(seconds + time.monotonic() - started, 3)
    if isinstance(store, Run):
        agent.save(store.path)
    unseen = source_of(world.fresh(), agent.vocabulary) if hasattr(world, "fresh") else source
    key = stream(seed, "judge/measure")
    shown = imagined_games.play(
        unseen, agent.hideable, judge_of(agent), finder(agent), key, config.measured, GAMES if many else 2, longest
    )
    found = finding_out.figures(shown)
    if many:
        found |= type_by_type.figures(shown, agent.names, agent.hideable, agent.scene)
    spent = {"weight": round(weight, 4), "weight_of_model": round(share, 4), "training_games": games}
    store.add_result({"bayes": found | told | spent, "seconds": store.result().get("seconds", {}) | {"model": seconds}})
    return agent


def dynamics(world: World, store: Store, agent: Agent, disguised: Episodes) -> tuple[ModelJudge, dict[str, Any]]:
    """The world model, trained on games of mistaken play, as a judge that is calibrated on games in disguise; its figures."""
    config, seed = agent.settings.model, agent.seed
    source, hideable = source_of(world, agent.vocabulary), agent.hideable
    games = gather(
        source, agent.task, agent.scene.prototypes, hideable, stream(seed, "model/games"), config.games, agent.longest
    )
    learned, told, _ = train_model(store, config, agent.scene, hideable, games, seed, world.spec.name, agent.names)
    for warning in told["warnings"]:
        warn(warning)
    judge, weighed = calibrate_model(ModelJudge(learned, Weights(), hideable), [disguised])
    return judge, {"world_model": told | {"weights": weighed}}


def infer(world: World, store: Store, agent: Agent) -> Agent:
    """Train the inference model q_theta on the history of the task policy, for the engine opa."""
    config = agent.settings.infer
    store.configure("infer", plain(config))
    if agent.model is not None and "infer" in store.result().get("seconds", {}):
        return agent
    history = history_of(store, agent)
    model = training.build_model(agent.seed, agent.scene, agent.hideable, config)
    model, seconds = training.train_inference(store, config, model, history, agent.seed, world.spec.name)
    agent = replace(agent, model=model, presence=presence(history, agent.hideable))
    if isinstance(store, Run):
        agent.save(store.path)
    store.add_result({"seconds": store.result().get("seconds", {}) | {"infer": seconds}})
    return agent


def explore(world: World, store: Store, agent: Agent) -> Agent:
    """Train the exploration policy pi_exp, and measure how often one, two and four episodes tell everything."""
    config = agent.settings.explore
    if agent.model is None:
        raise UserError("there is no inference model yet: train one with 'protoalign infer' first")
    store.configure("explore", plain(config))
    if agent.explorer is not None and "one_episode_correct" in store.result():
        return agent
    source, seed = source_of(world, agent.vocabulary), agent.seed
    history = past(store, agent)
    explorer, model, spent = training.train_exploration(
        store, config, agent.settings.infer, source, agent.model, agent.task, history, seed, agent.longest, world.spec.name
    )
    fresh = source_of(world.fresh(), agent.vocabulary) if hasattr(world, "fresh") else source
    names = tuple(agent.names[c] for c in agent.hideable)
    found = training.measure(fresh, model, explorer, seed, config.measured, agent.longest, names)
    agent = replace(agent, model=model, explorer=explorer)
    if isinstance(store, Run):
        agent.save(store.path)
    seconds = store.result().get("seconds", {}) | {"explore": spent["seconds"]}
    store.add_result({**found, "explore_steps": spent["steps"], "seconds": seconds})
    return agent


def train(
    world: World | str,
    seed: int = 0,
    out: str | Path | None = None,
    preset: str = "fast",
    steps: int | None = None,
    explore_steps: int | None = None,
    hide: tuple[str, ...] = (),
    engine: Engine | Literal["both"] = "bayes",
) -> Agent:
    """Learn in the source what an engine needs, or both; the agent.

    `world`: a world, or its name. `out`: a run folder; the same call goes on where it was stopped; None: in memory. `steps`,
    `explore_steps`: environment steps of pi_task and pi_exp, the preset's if not given. `hide`: kinds of things, out of the
    world's truth, that may look new in a target; the preset's if none is named. `engine`: "bayes", "opa" (the paper's) or
    "both".
    """
    if engine not in (*ENGINES, "both"):
        raise UserError(f"there is no engine '{engine}': use {', '.join(ENGINES)} or both")
    world = registry.make(world) if isinstance(world, str) else world
    settings = settings_of(world, preset, steps, None, explore_steps, hide)
    store: Store = Memory() if out is None else Run(Path(out))
    with store.lock():
        agent = task(world, store, seed, settings, preset)
        agent = replace(agent, settings=settings)
        if engine != "opa":
            agent = model(world, store, agent)
        return agent if engine == "bayes" else explore(world, store, infer(world, store, agent))


def measure(
    agent: Agent, world: World, look: str, mapping: Mapping, seed: int, episodes: int | None = None, **options: Any
) -> dict[str, Any]:
    """The task policy through pictures: in the source, in the target before and after, and there on games of its own.

    The first three play the same games: where everything is taken for what it is, the very same is played. So the error of the
    ratio is that of differences, game by game.
    """
    number, actions = episodes or agent.settings.target_episodes, len(agent.spec.actions)
    told = getattr(world, "summary_of_games", None)
    eyes: dict[str, tuple[str, dict[str, Any], Any, int]] = {
        "source_return": ("source", {}, agent.vocabulary.read, seed),
        "target_return_before": (look, options, agent.vocabulary.read, seed),
        "target_return": (look, options, mapping, seed),
        "target_return_own": (look, options, mapping, seed + 1),
    }
    found: dict[str, Any] = {}
    returns = {}
    for label, (shown, nuisance, see, games_seed) in eyes.items():
        games = side_by_side(world, number, shown, **nuisance)
        played = play(games, agent.task, see, actions, 1_000_000 + 1000 * games_seed, summary=told)
        returns[label], named = played.returns, figures(played)
        found |= {label: named.pop("return"), f"{label}_se": named.pop("return_se")}
        found |= {f"{label.replace('_return', '')}_{key}": value for key, value in named.items()}
    base = float(returns["source_return"].mean()) or 1e-9  # an untrained policy may score exactly nothing
    ratio = float(returns["target_return"].mean()) / base
    error = (returns["target_return"] - ratio * returns["source_return"]).std(ddof=1) / number**0.5 / abs(base)
    own = float(returns["target_return_own"].mean()) / base
    own_error = np.hypot(found["target_return_own_se"], own * found["source_return_se"]) / abs(base)
    return found | {
        "games": number,
        "ratio": round(ratio, 4),
        "ratio_se": round(float(error), 4),
        "ratio_own": round(own, 4),
        "ratio_own_se": round(float(own_error), 4),
    }


def transfer(
    agent: Agent,
    world: World,
    look: str,
    episodes: int = 4,
    seed: int = 0,
    sure: float | None = None,
    oracle: bool = False,
    games: int | None = None,
    engine: Engine = "bayes",
    **options: Any,
) -> tuple[Mapping, dict[str, Any]]:
    """Put an agent into a world in another look: find the mapping, judge it, and measure play before and after.

    `options` go to `world.make`, e.g. `noise`. Returns the mapping and figures for result.json.
    """
    check_seed(seed)
    if world.spec.grid != agent.spec.grid or world.spec.actions != agent.spec.actions:
        raise UserError(f"an agent trained in {agent.spec.name} cannot play in {world.spec.name}: other grid or actions")
    world.pictures(look)  # complain about the look first
    options = {name: value for name, value in options.items() if value}
    started = time.monotonic()
    try:
        target = world.make(look, **options)
    except TypeError:
        raise UserError(f"{world.spec.name} cannot be made with {', '.join(options)}") from None
    agent.check_engine(engine)
    mapping = agent.align(target, episodes, sure, seed, oracle, engine)
    mapping.about = {"env": world.spec.name, "target": look, "transfer_seed": seed, "oracle": oracle, **options}
    found = {
        "env": world.spec.name,
        "target": look,
        "engine": engine,
        "transfer_seed": seed,
        **{name: options.get(name, 0.0) for name in ("noise", "jitter")},
        **measure(agent, world, look, mapping, seed, games, **options),
        "explore_episodes": len(mapping.returns),
        "target_steps": mapping.steps,
        "explore_returns": [round(x, 5) for x in mapping.returns],
        **verdict(mapping, world, look),
        "sureness": round(mapping.sureness, 5),
        "doubts": mapping.doubts,
        "sure_after": mapping.sure_after(),
        "transfer_seconds": round(time.monotonic() - started, 3),
    }
    return mapping, found


def run(
    world: World,
    out: Path,
    seed: int,
    target: str,
    episodes: int,
    preset: str = "fast",
    steps: int | None = None,
    explore_steps: int | None = None,
    hide: tuple[str, ...] = (),
    engine: Engine = "bayes",
) -> dict[str, Any]:
    """The whole method with one engine in a run folder: train in the source, then into one target look.

    A folder may be run with one engine, then with the other. What the result says at its top is of `bayes`, if it has run;
    "engines" holds the figures of each.
    """
    world.pictures(target)  # complain before the training, not after it
    if episodes < 1:
        raise UserError(f"--episodes {episodes}: use at least 1")
    agent = train(world, seed, out, preset, steps, explore_steps, hide, engine)
    store = Run(out)
    with store.lock():
        store.configure("transfer", {"target": target, "episodes": episodes})  # other targets: the transfer command
        result = store.result()
        engines = result.get("engines", {})
        if engine not in engines:
            mapping, found = transfer(agent, world, target, episodes, seed, engine=engine)
            mapping.save(out / MAPPINGS[engine])
            seconds = result["seconds"] | {f"transfer {engine}": found.pop("transfer_seconds")}
            # "source" was the world it was trained in; from now on it is what is played through pictures.
            kept = {f"trained_{key[7:]}": value for key, value in result.items() if key.startswith("source_")}
            kept = {key: value for key, value in kept.items() if key not in result}
            top = found if engine == "bayes" or not engines else {}
            store.add_result(kept | top | {"seconds": seconds, "engines": engines | {engine: found}})
        return store.result()
