"""An agent: everything learned in the source. It is trained (`stages.py`), saved, loaded, put into a target, and plays."""

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np
import safetensors
import safetensors.numpy

from protoalign.alignment.calibration import Weighing
from protoalign.alignment.exploration import Explorer, explorer_from
from protoalign.alignment.explored_transfer import align_explored
from protoalign.alignment.hosted_exploration import untrained_explorer
from protoalign.alignment.inference import InferenceModel
from protoalign.alignment.local_model import LocalModel
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.model_judge import MOST_ALIKE, Alike, ModelJudge, Weights
from protoalign.alignment.sampled_judge import Plays
from protoalign.alignment.sampled_transfer import align_sampled
from protoalign.alignment.training import build_model
from protoalign.alignment.transfer import align, check_environment, split
from protoalign.alignment.world_model import WorldModel
from protoalign.errors import UserError
from protoalign.files import read_json, write_atomic, write_json
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.board_net import BoardNet
from protoalign.rl.evaluate import Played, figures
from protoalign.rl.networks import ActorCritic, RelativeNet, Scene
from protoalign.rl.relation import RelationNet
from protoalign.rl.rollout import act
from protoalign.rng import check_seed, generator, gumbel
from protoalign.runs import Run
from protoalign.settings import ENGINES, Engine, Settings, parse, plain
from protoalign.worlds.base import Observation, Spec
from protoalign.worlds.probing import blame, one_line

FORMAT = "protoalign agent 5"
PARTS = ("task", "model", "explorer", "judge", "world_model", "local")  # networks
NETWORKS: dict[str, Callable[..., Any]] = {"relative": RelativeNet, "relation": RelationNet, "board": BoardNet}
ASKED = 8  # boards that a policy is asked about at once


@dataclass(frozen=True)
class Agent:
    """All that was learned in the source. After the task stage alone there is no q_theta and no pi_exp yet.

    The engine `opa` needs `model` and `explorer`, in hosted worlds `local` too; `bayes` needs `judge`, or in hosted worlds
    `local`.
    """

    spec: Spec  # of the source
    settings: Settings
    seed: int
    scene: Scene
    vocabulary: Vocabulary
    task: Any  # pi_task, an ActorCritic; None: somebody else's policy, which is `adopted`
    model: InferenceModel | None = None  # q_theta
    explorer: Explorer | BoardNet | None = None  # pi_exp
    judge: InferenceModel | None = None  # q_theta as `bayes` uses it: trained on games of its actor
    weight: np.ndarray | None = None  # [2, 3] float32, `calibration.Weighing` in the source's world, and in another variant
    world_model: WorldModel | None = None  # for the engine bayes, if the world has few enough prototypes to compare all
    weights: np.ndarray | None = None  # [6] float32, of the world model's evidence (`model_judge.Weights`)
    alike: Alike = ()  # prototypes that its tiles do not tell apart
    presence: np.ndarray | None = None  # [2, K], how often prototypes are in an episode's first picture, and in one at all
    local: LocalModel | None = None  # the world model of a hosted world
    danger: np.ndarray | None = None  # [C] float32, of prototypes in a hosted world
    adopted: Any = None  # a policy from observations in the source's look to actions, as in `adopt`; it is not saved

    @property
    def names(self) -> tuple[str, ...]:
        """Of the prototypes."""
        return self.vocabulary.names(self.spec.truth)

    @property
    def hideable(self) -> tuple[int, ...]:
        """Prototypes that may look new in a target."""
        return hideable(self.vocabulary, self.spec, self.settings.infer.hide)

    @property
    def longest(self) -> int:
        """Steps of an episode of exploration, at most."""
        return min(self.settings.infer.longest or self.spec.max_steps, self.spec.max_steps)

    def weighing(self, elsewhere: bool = False) -> Weighing:
        """How much evidence counts for the engine bayes, in the source's own world or `elsewhere`, in a variant of it."""
        assert self.weight is not None
        return Weighing(*map(float, self.weight[int(elsewhere)]))

    def world_judge(self, share: float = 1.0) -> ModelJudge | None:
        """The world model as a judge, if there is one, its evidence counting `share` times as much as it is worth alone."""
        if self.world_model is None or self.weights is None or not share:
            return None
        tile, reward, start, slack, cap, usual = map(float, self.weights)
        counts = Weights(*map(jax.numpy.float32, (share * tile, share * reward, share * start, slack, share * cap, usual)))
        return ModelJudge(self.world_model, counts, self.hideable, self.alike)

    def align(
        self,
        target: gymnasium.Env,
        episodes: int = 4,
        sure: float | None = None,
        seed: int = 0,
        oracle: bool = False,
        engine: Engine = "bayes",
    ) -> Mapping:
        """Play at most `episodes` episodes in a target and find out what its tile types are.

        `target` is a Gymnasium environment with the source's actions, whose observation is a picture [height, width, 3] uint8
        of the source's grid, or a dict of such a "view" and "numbers" [M]. `sure`: stop as soon as the mapping is that probable
        to be right. `oracle`: which tiles are of one type is read from `info["categories"]`. `engine`: "bayes" plays the task
        policy meanwhile, and what it earns counts; "opa", the paper's, explores.
        """
        check_environment(target)
        check_seed(seed)
        self.check_engine(engine)
        self._check_policy()
        if self.local is not None:
            if oracle:
                raise UserError("tiles of a hosted world are told apart byte by byte: there is no need of an oracle")
            into = align_explored if engine == "opa" else align_sampled
            return into(target, self, episodes, seed, sure)  # type: ignore[arg-type]
        longest = self.longest if engine == "opa" else None
        return align(target, self, episodes, seed, sure, oracle, longest, engine)  # type: ignore[arg-type]

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The engines that all is trained for."""
        ready: dict[Engine, bool] = {
            "bayes": self.judge is not None or self.local is not None,
            "opa": self.explorer is not None,
        }
        return tuple(name for name, done in ready.items() if done and self.presence is not None)

    def check_engine(self, engine: str) -> None:
        """Refuse an engine that is none, or that this agent is not trained for."""
        if engine not in ENGINES:
            raise UserError(f"there is no engine '{engine}': use {' or '.join(ENGINES)}")
        if engine not in self.engines:
            stages = {"bayes": "'protoalign model'", "opa": "'protoalign infer' and 'protoalign explore'"}
            raise UserError(
                f"this agent is not trained for the engine '{engine}' yet: finish its training with {stages[engine]}"
            )

    def policy(self, mapping: Mapping | None = None, greedy: bool = False, seed: int = 0) -> "Policy":
        """The task policy, its eyes a mapping, or the source's vocabulary if there is none."""
        self._check_policy()
        if mapping is not None:
            self.check(mapping)
        if self.adopted is not None:
            translate = None if mapping is None else mapping.translate
            return Adopted(self.adopted, translate)  # type: ignore[return-value]
        see: Callable[[np.ndarray], np.ndarray] = mapping or self.vocabulary.read
        drawn = self.vocabulary.canonical
        eyes = see if self.local is None else lambda picture: drawn[see(picture)]  # a hosted world's network knows pictures
        return Policy(self.task, eyes, len(self.spec.actions), greedy, seed)

    def plays(self) -> Plays:
        """The policy on prototypes: grids [D, H, W] and numbers [D, M] to probabilities of actions [D, A]."""
        self._check_policy()
        if self.adopted is not None:
            return Adopted(self.adopted).plays(self.vocabulary, len(self.spec.actions))
        net, drawn = self.task, self.vocabulary.canonical  # the network knows pictures

        def plays(grids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            room = 1 if len(grids) == 1 else -len(grids) % ASKED + len(grids)  # few shapes, few programs
            filled = [np.concatenate([x, np.repeat(x[:1], room - len(x), 0)]) for x in (drawn[grids].astype(np.uint8), numbers)]
            return np.asarray(_chances(net, Observation(*filled)), np.float64)[: len(grids)]

        return plays

    def _check_policy(self) -> None:
        if self.task is None and self.adopted is None:
            raise UserError(
                "this agent plays somebody else's policy, which is not in its files: give it to load(path, policy=...)"
            )

    def check(self, mapping: Mapping) -> None:
        """Refuse a mapping that belongs to another agent."""
        ours, theirs = self.vocabulary, mapping.vocabulary
        same = np.array_equal(ours.pictures, theirs.pictures) and np.array_equal(ours.prototype_of, theirs.prototype_of)
        if mapping.names != self.names or not same:
            raise UserError(
                f"that mapping belongs to {mapping.world} with other prototypes, not to this agent of {self.spec.name}"
            )

    def save(self, path: str | Path) -> None:
        """Write agent.json and agent.safetensors into a folder."""
        folder = Path(path)
        arrays, words = self.vocabulary.save()
        named = {f"vocabulary.{name}": value for name, value in arrays.items()}
        for part in (*PARTS, "weight", "weights", "presence", "danger"):
            if getattr(self, part) is not None:
                named |= named_leaves(getattr(self, part), part)
        about = {
            "format": FORMAT,
            "spec": asdict(self.spec),
            "settings": plain(self.settings),
            "seed": self.seed,
            "scene": self.scene._asdict(),
            "parts": [part for part in PARTS if getattr(self, part) is not None],
            "alike": self.alike,
            "vocabulary": words,
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / "agent.safetensors", safetensors.numpy.save(named))
            write_json(folder / "agent.json", about)
        except OSError as error:
            raise UserError(f"cannot write {error.filename or folder}: {error.strerror}") from None

    @staticmethod
    def load(path: str | Path, policy: Any = None) -> "Agent":
        """What `save` wrote, or training with `out`. A `UserError` says in one line what is wrong with the folder.

        `policy`: the one that was adopted, which is not saved.
        """
        folder = Path(path)
        if not (folder / "agent.json").is_file():
            if (folder / "config.json").is_file():
                Run(folder, create=False)  # says so if it is of another edition
            raise UserError(f"{folder} has no trained agent: train one with 'protoalign task' or 'protoalign run'")
        about = read_json(folder / "agent.json")
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise UserError(f"{folder / 'agent.json'} is not an agent that this version of protoalign can read")
        try:
            arrays = safetensors.numpy.load((folder / "agent.safetensors").read_bytes())
            settings = parse(Settings, about["settings"])
            spec = _spec(about["spec"])
            scene = _scene(about["scene"])
            words = about["vocabulary"]
            named = {name.removeprefix("vocabulary."): x for name, x in arrays.items() if name.startswith("vocabulary.")}
            vocabulary = Vocabulary.load(named, words)
            facts = (spec.grid, len(spec.actions), len(spec.numbers), vocabulary.num_prototypes)
            if facts != (scene.grid, scene.actions, scene.numbers, scene.prototypes):
                raise ValueError
            agent = untrained(spec, settings, int(about["seed"]), scene, vocabulary)
            for part in about["parts"]:
                if part not in PARTS:
                    raise ValueError
            parts = {part: _filled(getattr(agent, part), arrays, part) for part in about["parts"]}
            # A kill between the two files may leave arrays of a part that the first does not list yet.
            presence, danger = arrays.get("presence"), arrays.get("danger")
            weight = arrays.get("weight") if "judge" in parts else None
            weights = arrays.get("weights") if "world_model" in parts else None
            alike = tuple(tuple(int(c) for c in row) for row in about["alike"])
            if any(sorted(row) != list(range(scene.prototypes)) for row in alike) or len(alike) > MOST_ALIKE:
                raise ValueError
            each = ((2, len(agent.hideable)), (2, 3), (len(Weights._fields),), (scene.prototypes,))
            for x, shape in zip((presence, weight, weights, danger), each, strict=True):
                if x is not None and (x.shape != shape or not np.isfinite(x).all()):
                    raise ValueError
            if (weight is None) != ("judge" not in parts) or (weights is None) != ("world_model" not in parts):
                raise ValueError
        except OSError as error:
            raise UserError(f"cannot read {error.filename}: {error.strerror}") from None
        except UserError as error:
            raise UserError(f"{folder / 'agent.json'}: {error}") from None
        except (
            KeyError,
            TypeError,
            ValueError,
            IndexError,
            AttributeError,
            OverflowError,
            MemoryError,
            safetensors.SafetensorError,
        ):
            raise UserError(f"the agent in {folder} is damaged: restore its files, or train anew in another folder") from None
        if policy is not None and "task" in parts:
            raise UserError(f"the agent in {folder} has a policy of its own: load it without policy=")
        found = replace(
            agent, **dict.fromkeys(PARTS) | parts, presence=presence, danger=danger, weight=weight, weights=weights, alike=alike
        )
        return replace(found, adopted=policy)


def load(path: str | Path, policy: Any = None) -> Agent:
    """The agent in a folder: a run folder, or one that `Agent.save` has written.

    `policy`: if the agent has adopted somebody else's (`adopt`), that one; it is not saved.
    """
    return Agent.load(path, policy)


class Policy:
    """`policy(observation) -> action`: the task policy with its eyes. Observations as in `Agent.align`, one at a time."""

    def __init__(
        self, net: ActorCritic, see: Callable[[np.ndarray], np.ndarray], actions: int, greedy: bool = False, seed: int = 0
    ):
        check_seed(seed)
        self.net, self.see, self.actions, self.greedy, self.seed = net, see, actions, greedy, seed
        self.time = 0
        self._act = jax.jit(lambda net, seen, noise: act(net, seen, noise)[1])

    def __call__(self, observation: Any) -> int:
        picture, numbers = split(observation)
        key = jax.random.fold_in(jax.random.key(self.seed), self.time)
        noise = np.zeros((1, self.actions), np.float32) if self.greedy else gumbel(key, (1, self.actions))
        self.time += 1
        return int(self._act(self.net, Observation(self.see(picture)[None], numbers[None]), noise)[0])


class Adopted:
    """Somebody else's policy, from observations to actions; shown a target through `translate`, in the source's pictures.

    `policy`: a function, or an object with `predict(observation)`, which may give a tuple of an action and something else.
    """

    def __init__(self, policy: Any, translate: Callable[[np.ndarray], np.ndarray] | None = None):
        self.policy, self.translate = _asked(policy), translate

    def __call__(self, observation: Any) -> int:
        if self.translate is not None:
            picture, numbers = split(observation)
            picture = self.translate(picture)
            observation = {"view": picture, "numbers": numbers} if isinstance(observation, dict) else picture
        try:
            found = np.asarray(self.policy(observation)).reshape(-1)
        except Exception as error:
            blame("the policy", "policy", error)
        if not len(found) or not np.issubdtype(found.dtype, np.integer):
            raise UserError(f"the policy answered {one_line(found)}: an action is a whole number")
        return int(found[0])

    def plays(self, vocabulary: Vocabulary, actions: int) -> Plays:
        """The policy on grids of prototypes [D, H, W] and numbers [D, M]: what it does, as probabilities [D, A]."""

        def plays(grids: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            found = np.zeros((len(grids), actions))
            for i, picture in enumerate(vocabulary.draw(grids)):
                found[i, self({"view": picture, "numbers": numbers[i]} if numbers.shape[1] else picture)] = 1
            return found

        return plays


def _asked(policy: Any) -> Callable[[Any], Any]:
    """A policy as a function: `predict` of an object that has one, deterministic if it can be told so."""
    predict = getattr(policy, "predict", None)
    if predict is None:
        if not callable(policy):
            raise UserError(f"a policy is a function from observations to actions, or has predict(observation), not {policy!r}")
        return policy
    try:
        told = {"deterministic": True} if "deterministic" in inspect.signature(predict).parameters else {}
    except (TypeError, ValueError):  # not written in Python
        told = {}

    def asked(observation: Any) -> Any:
        found = predict(observation, **told)
        return found[0] if isinstance(found, tuple) else found

    return asked


def evaluate(policy: Callable[[Any], int], env: gymnasium.Env, episodes: int = 100, seed: int = 0) -> dict[str, Any]:
    """Any policy (observation -> action) over whole episodes of a Gymnasium environment.

    Returns {"return": mean, "return_se": its standard error, "length": mean, "episodes": how many}.
    """
    check_environment(env)
    if episodes < 2:
        raise UserError(f"{episodes} episodes are too few for a standard error: use at least 2")
    returns, lengths = np.zeros(episodes), np.zeros(episodes, int)
    for i in range(episodes):
        observation, _ = env.reset(seed=seed + i)
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(np.int64(policy(observation)))
            returns[i] += float(reward)
            lengths[i] += 1
            over = bool(terminated or truncated)
    return figures(Played(returns, lengths, {}))


@eqx.filter_jit
def _chances(net: ActorCritic, seen: Observation) -> jax.Array:
    return jax.nn.softmax(net(net.encode(seen))[0])


def hideable(vocabulary: Vocabulary, spec: Spec, kinds: tuple[str, ...]) -> tuple[int, ...]:
    """The prototypes of the kinds named, all if none is."""
    every = tuple(range(vocabulary.num_prototypes))
    if not kinds:
        return every
    true = spec.truth or ()
    unknown = [kind for kind in kinds if kind not in true]
    if unknown:
        raise UserError(f"{spec.name} has no kind '{unknown[0]}': there are {', '.join(dict.fromkeys(true))}")
    chosen = {int(c) for c, name in zip(vocabulary.prototype_of, true, strict=True) if name in kinds}
    return tuple(c for c in every if c in chosen)


def untrained(spec: Spec, settings: Settings, seed: int, scene: Scene, vocabulary: Vocabulary) -> Agent:
    """An agent with networks as they are before training."""
    which = hideable(vocabulary, spec, settings.infer.hide)
    if settings.task.network == "board":
        net = BoardNet(generator(seed, "task/network"), scene, settings.task.width)
        local = LocalModel(generator(seed, "local/network"), scene, settings.local.width)
        model = build_model(seed, scene, which, settings.infer)
        pi_exp = untrained_explorer(generator(seed, "explore/network"), scene, settings.task.width)
        return Agent(spec, settings, seed, scene, vocabulary, net, model, pi_exp, local=local)
    task = NETWORKS[settings.task.network](generator(seed, "task/network"), scene, settings.task.width, which)
    explorer = explorer_from(task, which, generator(seed, "explore/network"), settings.explore.from_task)
    model = build_model(seed, scene, which, settings.infer)
    dynamics = WorldModel(generator(seed, "model/network"), scene, settings.model)
    return Agent(spec, settings, seed, scene, vocabulary, task, model, explorer, model, world_model=dynamics)


def named_leaves(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """Arrays by their path in a tree, e.g. `task.hidden.weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    dots = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return {f"{prefix}.{dot}" if dot else prefix: np.asarray(x, order="C") for dot, (_, x) in zip(dots, leaves, strict=True)}


def _filled(like: Any, arrays: dict[str, np.ndarray], part: str) -> Any:
    """A network of the shape of `like` with saved weights, all of them finite."""
    expected = named_leaves(like, part)
    for name, value in expected.items():
        found = arrays[name]
        if found.shape != value.shape or found.dtype != value.dtype or not np.isfinite(found).all():
            raise ValueError(name)
    return jax.tree.unflatten(jax.tree.structure(like), [jax.numpy.asarray(arrays[name]) for name in expected])


def _spec(values: dict[str, Any]) -> Spec:
    lists: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in values.items()}
    spec = Spec(**lists)
    words = all(isinstance(x, str) for x in (spec.name, *spec.actions, *spec.numbers, *(spec.truth or ())))
    sizes = (*spec.grid, spec.max_steps, *(spec.agent or ()))
    if not words or len(spec.grid) != 2 or not all(type(n) is int and 0 <= n < 10**9 for n in sizes):
        raise ValueError
    return spec


def _scene(values: dict[str, Any]) -> Scene:
    lists: dict[str, Any] = {key: tuple(x) if isinstance(x, list) else x for key, x in values.items()}
    scene = Scene(**lists)
    sizes = (*scene.grid, scene.prototypes, scene.actions, *(scene.agent))
    if not all(isinstance(n, int) and 0 <= n < 100_000 for n in sizes) or scene.tiles > 1_000_000:
        raise ValueError
    return scene
