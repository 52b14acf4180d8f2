"""Measurements over thousands of imagined target worlds: what one finished run knows, without any picture being drawn.

An imagined world with everything hidden is the target as it is behind faultless perception; `looks` measures perception.
"""

import itertools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign import stages
from protoalign.alignment import decoding
from protoalign.alignment.assignment import log_joint, log_marginals
from protoalign.alignment.exploration import ExplorerNet, ImaginedWorld, View, explore, from_task
from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import follow
from protoalign.alignment.transfer import Agent
from protoalign.envs.base import TileWorld, Transition
from protoalign.envs.hunter import TIME_LIMIT
from protoalign.rl.networks import RandomNet, RelativeNet
from protoalign.rl.rollout import play_out
from protoalign.rng import stream

EPISODES = 8192
GAMES = 32768  # per return
LONGEST = TIME_LIMIT + 1
AFTER = (1, 2, 4, 16)  # episodes
SURE = (0.9, 0.95, 0.99, 0.995, 0.999)


class Unaligned(eqx.Module):
    """pi_task in a world it has not understood: it takes types for prototypes at random."""

    task: Any

    def encode(self, view: View) -> Any:
        return self.task.encode(view.types)

    def __call__(self, seen: Any) -> tuple[Array, Array]:
        return self.task(seen)


class MisreadWorld(eqx.Module):
    """A world seen through mappings that may be wrong: `taken` [B, C] is what each prototype is taken for."""

    taken: Array
    world: TileWorld = eqx.field(static=True)

    name = "misread"

    @property
    def num_actions(self) -> int:
        return self.world.num_actions

    def reset(self, key: Array, batch: int) -> Any:
        assert batch == len(self.taken)
        return self.world.reset(key, batch)

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Transition]:
        return self.world.step(state, action, key)

    def observe(self, state: Any) -> Array:
        grid = self.world.observe(state)
        flat = grid.reshape(len(grid), -1).astype(jnp.int32)
        return jnp.take_along_axis(self.taken, flat, 1).reshape(grid.shape).astype(grid.dtype)


def policies(agent: Agent) -> dict[str, Any]:
    """Who may explore: pi_exp, nobody in particular, and pi_task, blind and with beliefs for eyes."""
    assert isinstance(agent.task, RelativeNet)
    informed = from_task(np.random.default_rng(0), agent.task, 1.0)
    informed = ExplorerNet(informed.net, jax.tree.map(jnp.zeros_like, informed.doubt))
    return {
        "pi_exp": agent.explorer,
        "pi_random": RandomNet(agent.world.num_actions),
        "pi_task": Unaligned(agent.task),
        "pi_task on beliefs": informed,
    }


_explore = jax.jit(explore, static_argnums=(3, 4))
_follow = jax.jit(follow)


def measure(path: Path, seed: int) -> dict[str, Any]:
    """All figures of one finished run folder."""
    agent = stages.load_agent(path)
    figures: dict[str, Any] = {"episodes": EPISODES, "games": GAMES, "policies": {}}
    home = returns(agent, np.arange(len(agent.world.category_names))[None], seed)
    figures["source_return"] = mean_and_error(home)
    for name, net in policies(agent).items():
        world = ImaginedWorld(agent.model, agent.world, 1.0)
        done = jax.device_get(_explore(world, net, stream(seed, f"measure/{name}"), EPISODES, LONGEST))
        figures["policies"][name] = {
            "informative_interactions": mean_and_error((done.episodes.reward != 0).sum(1)),
            "steps": mean_and_error(done.episodes.length),
            "after": {str(k): after_episodes(agent, done, k, seed, home) for k in AFTER},
        }
        if name == "pi_exp":
            figures |= beliefs_over_time(agent, done)
    return figures


def after_episodes(agent: Agent, done: Any, episodes: int, seed: int, home: np.ndarray) -> dict[str, Any]:
    """Explore so many episodes, decode, play: how often all is right, and what the mappings are worth.

    `home` is what the right mapping is worth.
    """
    scores = decoding.by_prototype(done.score, done.imagined.truth)
    groups = len(scores) // episodes
    grouped = scores[: groups * episodes].reshape(groups, episodes, *scores.shape[1:])
    taken = decoding.decode(decoding.combine(grouped))
    return {
        "correct": round(decoding.share_right(scores, episodes), 5),
        "correct_type_by_type": round(decoding.share_right(scores, episodes, joint=False), 5),
        "correct_averaged": round(decoding.share_right(scores, episodes, "average"), 5),
        "correct_averaged_type_by_type": round(decoding.share_right(scores, episodes, "average", joint=False), 5),
        "groups": groups,
        "return": mean_and_error(home if (taken == np.arange(taken.shape[1])).all() else returns(agent, taken, seed)),
    }


@eqx.filter_jit
def _play(world: MisreadWorld, net: Any, key: Array) -> Array:
    return play_out(world, net, key, len(world.taken))[0]


def returns(agent: Agent, taken: np.ndarray, seed: int) -> np.ndarray:
    """Returns [GAMES] of pi_task when prototypes are taken for others, [M, C]; each of the M mappings plays as often.

    The games are the same whatever the mappings, so that differences are theirs and not of luck.
    """
    taken = np.resize(taken, (GAMES, taken.shape[1]))
    world = MisreadWorld(jnp.asarray(taken, jnp.int32), agent.world)
    return np.asarray(_play(world, agent.task, stream(seed, "play")), np.float64)


def mean_and_error(values: np.ndarray) -> list[float]:
    """Mean and standard error."""
    values = np.asarray(values, np.float64)
    return [round(float(values.mean()), 5), round(float(values.std(ddof=1) / len(values) ** 0.5), 5)]


def beliefs_over_time(agent: Agent, done: Any) -> dict[str, Any]:
    """Calibration at every step, and how soon one can stop."""
    score = []
    for part in range(0, EPISODES, 1024):
        some = jax.tree.map(lambda x, part=part: jnp.asarray(x[part : part + 1024]), (done.episodes, done.imagined))
        score.append(np.asarray(_follow(agent.model, some[0], Imagined(*some[1])), np.float32))
    scores = np.concatenate(score, 1)  # [L, E, P, C]
    going = np.arange(1, LONGEST + 1)[:, None] <= done.episodes.length  # [L, E]
    best = decoding.decode(scores)
    sure = np.exp(np.asarray(log_joint(scores, best)))
    right = (best == done.imagined.truth).all(-1)
    marginal = np.exp(np.asarray(log_marginals(scores)))
    alone = marginal.max(-1)
    alone_right = marginal.argmax(-1) == done.imagined.truth
    return {
        "calibration": {
            "whole mapping": reliability(sure[going], right[going]),
            "one type": reliability(alone[going].ravel(), alone_right[going].ravel()),
            "whole mapping, at the end": reliability(sure[-1], right[-1]),
        },
        "stopping": {str(level): stop_early(scores, done, level) for level in SURE},
    }


def reliability(said: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """By how sure it said it was: how sure on average, how often right, how many; and the mean gap between the two."""
    edges = np.array([0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0001])
    rows = []
    for low, high in itertools.pairwise(edges):
        chosen = (said >= low) & (said < high)
        if chosen.any():
            rows.append([round(float(said[chosen].mean()), 4), round(float(right[chosen].mean()), 4), int(chosen.sum())])
    gap = sum(abs(a - b) * n for a, b, n in rows) / len(said)
    return {"bins": rows, "expected_calibration_error": round(float(gap), 5)}


def stop_early(scores: np.ndarray, done: Any, level: float, most: int = 4) -> dict[str, Any]:
    """Explore until the mapping is this sure, for at most four episodes: steps used and how often all is right."""
    groups = EPISODES // most
    length = done.episodes.length.reshape(groups, most)
    # Groups of episodes share no injection: number types by what they truly are.
    order = np.argsort(done.imagined.truth, 1)[None, ..., None]
    scores = np.take_along_axis(scores, order, 2).reshape(LONGEST, groups, most, *scores.shape[2:])
    steps, right, stopped = np.zeros(groups, int), np.zeros(groups, bool), np.zeros(groups, bool)
    before = np.zeros((groups, 0, *scores.shape[3:]), np.float32)
    for episode in range(most):
        for time in range(LONGEST):
            active = ~stopped & (time < length[:, episode])
            if not active.any():
                continue
            combined = decoding.combine(np.concatenate([before, scores[time, :, episode : episode + 1]], 1))
            best = decoding.decode(combined)
            sure = np.exp(np.asarray(log_joint(combined, best)))
            steps += active
            right = np.where(active, (best == np.arange(best.shape[1])).all(1), right)
            stopped |= active & (sure >= level)
        before = np.concatenate([before, scores[-1, :, episode : episode + 1]], 1)
    return {
        "correct": round(float(right.mean()), 5),
        "steps": mean_and_error(steps),
        "most_steps": int(steps.max()),
        "stopped": round(float(stopped.mean()), 5),
        "groups": groups,
    }
