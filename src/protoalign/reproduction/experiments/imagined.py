"""Measurements over thousands of imagined target worlds: what one finished agent knows, without any picture being drawn.

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

from protoalign.agent import Agent
from protoalign.alignment import hypotheses
from protoalign.alignment.exploration import Explored, Explorer, ImaginedWorld, explorer_from
from protoalign.alignment.training import explore_jit, follow
from protoalign.errors import UserError
from protoalign.rl.networks import Believed, RandomNet
from protoalign.rl.rollout import play_out
from protoalign.rl.source_world import SourceWorld
from protoalign.rng import generator, stream
from protoalign.stages import source_of
from protoalign.worlds import registry
from protoalign.worlds.base import Observation, Transition

EPISODES = 8192
GAMES = 32768  # per return
AFTER = (1, 2, 4, 16)  # episodes
SURE = (0.9, 0.95, 0.99, 0.995, 0.999)
MOST = 4  # episodes until one must have stopped
AT_ONCE = 1024  # episodes followed in one compiled program
EDGES = (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0001)  # of bins of probabilities


class Unaligned(eqx.Module):
    """pi_task in a world that it has not understood: it takes slots for the hideable prototypes of the same number."""

    task: Any
    prototypes: int = eqx.field(static=True)
    hideable: tuple[int, ...] = eqx.field(static=True)

    def encode(self, seen: Believed) -> Any:
        taken = np.array([*range(self.prototypes), *self.hideable])
        return self.task.encode(Observation(jnp.asarray(taken)[seen.codes.astype(jnp.int32)], seen.numbers))

    def __call__(self, seen: Any) -> tuple[Array, Array]:
        return self.task(seen)


class MisreadWorld(eqx.Module):
    """A source seen through mappings that may be wrong: `taken` [B, C] is what each prototype is taken for."""

    taken: Array
    world: SourceWorld

    @property
    def num_actions(self) -> int:
        return self.world.num_actions

    def reset(self, key: Array, batch: int) -> Any:
        assert batch == len(self.taken)
        return self.world.reset(key, batch)

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Transition]:
        return self.world.step(state, action, key)

    def observe(self, state: Any) -> Observation:
        tiles, numbers = self.world.observe(state)
        flat = tiles.reshape(len(tiles), -1).astype(jnp.int32)
        return Observation(jnp.take_along_axis(self.taken, flat, 1).reshape(tiles.shape).astype(tiles.dtype), numbers)

    def record(self, state: Any) -> Observation:
        return self.world.record(state)


def policies(agent: Agent) -> dict[str, Any]:
    """Who may explore: pi_exp, nobody in particular, and pi_task, blind and with beliefs for eyes."""
    task: Any = agent.task
    informed = explorer_from(task, agent.hideable, generator(0, "informed"), 1.0)
    return {
        "pi_exp": agent.explorer,
        "pi_random": RandomNet(len(agent.spec.actions)),
        "pi_task": Unaligned(task, agent.scene.prototypes, agent.hideable),
        "pi_task on beliefs": Explorer(informed.net, None),
    }


def measure(path: Path, seed: int) -> dict[str, Any]:
    """All figures of one finished run folder."""
    agent = Agent.load(path)
    if agent.model is None or agent.explorer is None:
        raise UserError(f"the agent in {path} is not finished: run its 'protoalign run' command again")
    world = source_of(registry.make(agent.spec.name), agent.vocabulary)
    found: dict[str, Any] = {"episodes": EPISODES, "games": GAMES, "policies": {}}
    source = returns(agent, world, np.arange(agent.scene.prototypes)[None], seed)
    found["source_return"] = mean_and_error(source)
    imagined = ImaginedWorld(agent.model, world, agent.longest, 1.0)
    for name, net in policies(agent).items():
        done = jax.device_get(explore_jit(imagined, net, stream(seed, f"measure/{name}"), EPISODES))
        found["policies"][name] = {
            "informative_interactions": mean_and_error((done.episodes.reward != 0).sum(1)),
            "steps": mean_and_error(done.episodes.length),
            "after": {str(k): after_episodes(agent, world, done, k, seed, source) for k in AFTER},
        }
        if name == "pi_exp":
            found |= beliefs_over_time(agent, done)
    return found


def after_episodes(
    agent: Agent, world: SourceWorld, done: Explored, episodes: int, seed: int, source: np.ndarray
) -> dict[str, Any]:
    """Explore so many episodes, decode, play: how often all is right, and what the mappings are worth.

    `source` [GAMES] is what the right mapping is worth.
    """
    score = hypotheses.by_prototype(np.asarray(done.score), np.asarray(done.imagined.truth))
    groups = len(score) // episodes
    grouped = score[: groups * episodes].reshape(groups, episodes, *score.shape[1:])
    chosen = hypotheses.decode(hypotheses.combine(grouped), one_to_one=True)  # [groups, K]
    hideable = np.array(agent.hideable)
    taken = np.tile(np.arange(agent.scene.prototypes), (groups, 1))
    taken[:, hideable] = hideable[chosen]
    right = (chosen == np.arange(chosen.shape[1])).all()
    return {
        "correct": round(hypotheses.share_right(score, episodes), 5),
        "correct_type_by_type": round(hypotheses.share_right(score, episodes, joint=False), 5),
        "correct_averaged": round(hypotheses.share_right(score, episodes, "average"), 5),
        "correct_averaged_type_by_type": round(hypotheses.share_right(score, episodes, "average", joint=False), 5),
        "groups": groups,
        "return": mean_and_error(source if right else returns(agent, world, taken, seed)),
    }


@eqx.filter_jit
def _play(world: MisreadWorld, net: Any, key: Array) -> Array:
    return play_out(world, net, key, len(world.taken))[0]


def returns(agent: Agent, world: SourceWorld, taken: np.ndarray, seed: int) -> np.ndarray:
    """Returns [GAMES] of pi_task when prototypes are taken for others, [M, C]; each of the M mappings plays as often.

    The games are the same whatever the mappings, so that differences are theirs and not of luck.
    """
    taken = np.resize(taken, (GAMES, taken.shape[1]))
    misread = MisreadWorld(jnp.asarray(taken, jnp.int32), world)
    return np.asarray(_play(misread, agent.task, stream(seed, "play")), np.float64)


def mean_and_error(values: Any) -> list[float]:
    """Mean and standard error."""
    values = np.asarray(values, np.float64)
    return [round(float(values.mean()), 5), round(float(values.std(ddof=1) / len(values) ** 0.5), 5)]


_follow = eqx.filter_jit(follow)


def beliefs_over_time(agent: Agent, done: Explored) -> dict[str, Any]:
    """Calibration after every step, and how soon one can stop. All is hidden, so types and prototypes match one to one."""
    assert agent.model is not None
    score = []
    for part in range(0, len(done.score), AT_ONCE):
        some = jax.tree.map(lambda x, part=part: x[part : part + AT_ONCE], (done.episodes, done.imagined))
        score.append(np.asarray(_follow(agent.model, *some), np.float32)[1:])
    scores = np.concatenate(score, 1)  # [L, E, S, K]
    truth, length = np.asarray(done.imagined.truth), np.asarray(done.episodes.length)
    going = np.arange(1, len(scores) + 1)[:, None] <= length  # [L, E]
    best = hypotheses.decode(scores, one_to_one=True)
    sure = hypotheses.probability(scores, best, one_to_one=True)
    right = (best == truth).all(-1)
    marginal = hypotheses.marginals(scores, one_to_one=True)
    alone, alone_right = marginal.max(-1), marginal.argmax(-1) == truth
    return {
        "calibration": {
            "whole mapping": reliability(sure[going], right[going]),
            "one type": reliability(alone[going].ravel(), alone_right[going].ravel()),
            "whole mapping, at the end": reliability(sure[-1], right[-1]),
        },
        "stopping": stop_early(scores, truth, length),
    }


def reliability(said: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """By how sure it said it was: how sure on average, how often right, how many; and the mean gap between the two."""
    rows = []
    for low, high in itertools.pairwise(EDGES):
        chosen = (said >= low) & (said < high)
        if chosen.any():
            rows.append([round(float(said[chosen].mean()), 4), round(float(right[chosen].mean()), 4), int(chosen.sum())])
    gap = sum(abs(a - b) * n for a, b, n in rows) / len(said)
    return {"bins": rows, "expected_calibration_error": round(float(gap), 5)}


def _in_order(x: np.ndarray) -> Any:
    """What is [L, G, episodes], one step of an episode after another: [episodes * L, G]."""
    return x.transpose(2, 0, 1).reshape(-1, x.shape[1])


def stop_early(scores: np.ndarray, truth: np.ndarray, length: np.ndarray) -> dict[str, Any]:
    """Explore until the mapping is so sure, by level, for at most MOST episodes: steps used and how often all is right.

    Scores [L, E, S, K] after every step of E episodes of `length` [E], of slots that truly are `truth` [E, S].
    """
    longest, groups = len(scores), scores.shape[1] // MOST
    # Episodes of a group share no injection: number slots by what they truly are.
    order = np.argsort(truth, 1)[None, ..., None]
    scores = np.take_along_axis(scores, order, 2)[:, : groups * MOST].reshape(longest, groups, MOST, *scores.shape[2:])
    going = np.arange(longest)[:, None, None] < length[: groups * MOST].reshape(groups, MOST)  # [L, G, MOST]
    sure, right = np.zeros(going.shape), np.zeros(going.shape, bool)
    for episode in range(MOST):
        before = np.broadcast_to(scores[-1, :, :episode], (longest, groups, episode, *scores.shape[3:]))
        combined = hypotheses.combine(np.concatenate([before, scores[:, :, episode : episode + 1]], 2))
        best = hypotheses.decode(combined, one_to_one=True)
        sure[..., episode] = hypotheses.probability(combined, best, one_to_one=True)
        right[..., episode] = (best == np.arange(best.shape[-1])).all(-1)
    played, said, true = (_in_order(x) for x in (going, sure, right))
    found = {}
    for level in SURE:
        stops = played & (said >= level)
        last = np.where(stops.any(0), stops.argmax(0), len(played) - 1 - played[::-1].argmax(0))  # [G]
        steps = (played & (np.arange(len(played))[:, None] <= last)).sum(0)
        found[str(level)] = {
            "correct": round(float(true[last, np.arange(groups)].mean()), 5),
            "steps": mean_and_error(steps),
            "most_steps": int(steps.max()),
            "stopped": round(float(stops.any(0).mean()), 5),
            "groups": groups,
        }
    return found
