"""The stages of the method in Crafter, after `stages.task`: infer, explore, transfer into the original game; or all in one."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from protoalign.alignment import view_training
from protoalign.alignment.view_exploration import ImaginedView, ViewExplorer
from protoalign.alignment.view_inference import ViewInference
from protoalign.alignment.view_training import LONGEST
from protoalign.alignment.view_transfer import ViewAgent, ViewMapping, align, play
from protoalign.config import explore_config, infer_config, plain
from protoalign.envs import appearance
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import CATEGORY_NAMES
from protoalign.envs.crafter.world import Crafter, report
from protoalign.errors import UserError
from protoalign.perception.layers import Home
from protoalign.rl.networks import ViewNet
from protoalign.rng import check_seed, generator
from protoalign.runs import Run
from protoalign.stages import add_figures, load_task, task

GAMES = 200  # of the original, per figure
MEASURED = 1024  # imagined games of pi_exp
KINDS = tuple(CATEGORY_NAMES.index(name) for name in sprites.REDRAWN)


def infer(path: Path, updates: int | None = None) -> dict[str, Any]:
    """Train the inference model q_theta on games of every sort in the source world."""
    world, net = _task(path)
    run = Run(path, create=False)
    with run.lock():
        if "source_return" not in run.result():
            raise UserError(f"the task policy in {path} is not finished: run its 'protoalign task' command again")
        config = infer_config(run.config["preset"], updates, "crafter")
        run.configure("infer", plain(config))
        _, figures = view_training.train_inference(run, config, world, KINDS, net, run.config["seed"])
        return add_figures(run, "infer", figures["seconds"])


def explore(path: Path, steps: int | None = None) -> dict[str, Any]:
    """Train the exploration policy pi_exp, and measure how often one, two and four games tell everything."""
    world, net = _task(path)
    run = Run(path, create=False)
    with run.lock():
        config = explore_config(run.config["preset"], steps, "crafter")
        run.configure("explore", plain(config))
        if "one_episode_correct" in run.result():
            return run.result()
        seed = run.config["seed"]
        explorer, model, figures = view_training.train_exploration(run, config, _model(run, world), net, seed)
        found = view_training.measure(ImaginedView(model, LONGEST), explorer, seed, MEASURED)
        return add_figures(run, "explore", figures["seconds"], {**found, "explore_steps": figures["steps"]})


def move(
    path: Path,
    target: str,
    episodes: int,
    seed: int,
    sure: float | None = None,
    oracle: bool = False,
    games: int | None = None,
) -> dict[str, Any]:
    """Move a finished run into the original game in another look: explore, find the mapping, play before and after."""
    from protoalign.envs.crafter.original import CrafterEnv  # the only thing here that needs the package crafter

    check_seed(seed)
    check_look(target)
    games = games or GAMES
    agent = load_agent(path)
    started = time.monotonic()
    mapping = align(CrafterEnv(target), agent, episodes, LONGEST, seed, sure, oracle)
    eyes = {
        "source_return": ("source", before(agent)),
        "target_return_before": (target, before(agent)),
        "target_return": (target, mapping),
    }
    done = Run(path, create=False).result()
    kept = ("seed", "preset", "task_steps", "explore_steps", "one_episode_correct", "versions")
    figures: dict[str, Any] = {name: done[name] for name in kept if name in done}
    # The task stage has measured the policy in our world; from now on "source" is the original game in its own look.
    for name in ("return", "return_se", "length", "episodes", "score", "achievements"):
        figures[f"world_{name}"] = done.get(f"world_{name}", done[f"source_{name}"])
    figures |= {"env": "crafter", "target": target, "transfer_seed": seed, "games": games}
    each = {}
    for label, (look, see) in eyes.items():
        each[label], found = play_original(agent.task, look, see, games, seed)
        figures |= {label: found["return"], f"{label}_se": found["return_se"]}
        figures[f"{label.replace('_return', '')}_achieved"] = {key: found[key] for key in ("score", "achievements", "length")}
    home = figures["source_return"] or 1e-9
    ratio = figures["target_return"] / home
    # All three play the same games, so what counts is how they differ, game by game.
    error = (each["target_return"] - ratio * each["source_return"]).std(ddof=1) / games**0.5 / abs(home)
    return figures | {
        "ratio": round(ratio, 4),
        "ratio_se": round(float(error), 4),
        "explore_episodes": len(mapping.games),
        "target_steps": mapping.steps,
        **judge(mapping, redrawn(target)),
        "sureness": round(mapping.sureness, 5),
        "doubts": _doubts(mapping),
        "seconds": done["seconds"] | {"transfer": round(time.monotonic() - started, 3)},
    }


def evaluate(path: Path, games: int, seed: int) -> dict[str, Any]:
    """The task policy in the original game, which it sees as categories."""
    _, net = _task(path)
    return play_original(net, "source", lambda view: view, games, seed, "categories")[1]


def play_original(
    net: Any, look: str, see: Any, games: int, seed: int, obs: str = "pixels"
) -> tuple[np.ndarray, dict[str, Any]]:
    """Returns of whole games of the original, of which `see` makes what the policy knows, and figures of them."""
    from protoalign.envs.crafter.original import CrafterEnv

    if games < 2:
        raise UserError(f"--episodes {games} is too few for a standard error: use at least 2")
    found = play(lambda: CrafterEnv(look, obs), net, see, games, 1_000_000 + 1000 * seed)
    return found["returns"], {
        "return": round(float(found["returns"].mean()), 5),
        "return_se": round(float(found["returns"].std(ddof=1) / games**0.5), 5),
        "length": round(float(found["lengths"].mean()), 3),
        "episodes": games,
        **report(found["unlocked"].mean(0)),
    }


def redrawn(look: str) -> list[int]:
    """The categories that do not look as in the source."""
    source, target = sprites.load("source"), sprites.load(look)
    return sorted({sprites.CATEGORY_OF[sprites.PICTURES.index(k)] for k in sprites.KINDS if (source[k] != target[k]).any()})


def check_look(look: str) -> None:
    """Is the look one that the method can find its way in?"""
    others = [CATEGORY_NAMES[category] for category in redrawn(look) if category not in KINDS]
    if others:
        raise UserError(f"'{look}' also redraws {', '.join(others)}: only {', '.join(sprites.REDRAWN)} may look new")


def judge(mapping: ViewMapping, redrawn: list[int]) -> dict[str, Any]:
    """What each look met while exploring was taken for, and what it truly is."""
    met = np.flatnonzero(mapping.truth.sum(1))
    truth, found, belief = mapping.truth.argmax(1), mapping.categories()[len(CATEGORY_NAMES) :], mapping.belief
    rows = [
        {
            "true": CATEGORY_NAMES[truth[i]],
            "found": CATEGORY_NAMES[found[i]],
            "probability": round(float(belief[i, mapping.kinds.index(int(found[i]))]), 5),
            "unseen": True,
        }
        for i in met
    ]
    # The first look that was not met gets what is left over, and may be right so; of more than one nothing is known.
    missing = [category for category in redrawn if category not in truth[met]]
    guessed = len(missing) == 1 and len(met) < len(found) and found[len(met)] == missing[0]
    right = sum(row["true"] == row["found"] for row in rows) + (len(missing) if guessed else 0)
    return {"mapping": rows, "mapping_correct": right == len(redrawn), "redrawn": len(redrawn), "kinds_right": int(right)}


def _doubts(mapping: ViewMapping) -> list[str]:
    found = []
    missing = len(mapping.kinds) - min(mapping.met, len(mapping.kinds)) - int(mapping.known.sum())
    if missing > 0:
        found.append(f"{missing} of {len(mapping.kinds)} kinds were not met while exploring: if they look new, that is guessed")
    if mapping.met > len(mapping.kinds):
        found.append(f"{mapping.met} new looks for {len(mapping.kinds)} kinds")
    if mapping.sureness < 0.9:
        found.append(f"the mapping is only {mapping.sureness:.2f} sure: explore for more episodes")
    return found


def before(agent: ViewAgent) -> Any:
    """Eyes that know the source only: a tile is what it is most like there."""
    seen: dict[bytes, int] = {}

    def see(picture: np.ndarray) -> np.ndarray:
        tiles = appearance.cut(picture)
        flat = tiles.reshape(-1, *tiles.shape[2:])
        for tile in flat:
            if (mark := tile.tobytes()) not in seen:
                seen[mark] = int(agent.home.nearest(tile[None])[0])
        return np.array([seen[tile.tobytes()] for tile in flat], np.uint8).reshape(tiles.shape[:2])

    return see


def whole(
    out: Path, seed: int, steps: int | None, explore_steps: int | None, target: str, episodes: int, preset: str = "fast"
) -> dict[str, Any]:
    """The whole method in Crafter: task, infer, explore, transfer."""
    check_look(target)  # complain before the training, not after it
    task("crafter", out, seed, preset, steps)
    infer(out)
    explore(out, explore_steps)
    run = Run(out)
    with run.lock():
        run.configure("transfer", {"target": target, "episodes": episodes})
        if "target_return" not in run.result():
            run.add_result(move(out, target, episodes, seed))
        return run.result()


def _task(path: Path) -> tuple[Crafter, ViewNet]:
    world, net, _ = load_task(path)
    assert isinstance(world, Crafter)
    assert isinstance(net, ViewNet)
    return world, net


def _model(run: Run, world: Crafter) -> ViewInference:
    """q_theta as the infer stage left it."""
    if "infer" not in run.config:
        raise UserError(f"{run.path} has no inference model: train one with 'protoalign infer {run.path}'")
    like = ViewInference(generator(0, "shape"), world, KINDS, run.config["infer"]["width"])
    saved = run.restore("infer", {"model": like}, part=True)
    if saved is None or saved.step < run.config["infer"]["updates"]:
        raise UserError(f"the inference model is not finished: run 'protoalign infer {run.path}' again")
    return saved.tree["model"]


def load_agent(path: Path) -> ViewAgent:
    """All that a finished run folder has learned."""
    world, task = _task(path)
    run = Run(path, create=False)
    model = _model(run, world)
    if "one_episode_correct" not in run.result():
        raise UserError(f"{path} has no finished exploration policy: train it with 'protoalign explore {path}'")
    net = ViewExplorer.from_task(generator(0, "shape"), task, KINDS, 1.0)
    like = ImaginedView(model, LONGEST, run.config["explore"]["hide_all"])
    saved = run.restore("explore", {"ppo": {"net": net}, "world": like}, part=True)
    if saved is None:
        raise UserError(f"{path} has no exploration policy yet: run 'protoalign explore {path}' first")
    home = Home(generator(run.config["seed"], "novelty"))
    return ViewAgent(task, saved.tree["world"].model, saved.tree["ppo"]["net"], home)
