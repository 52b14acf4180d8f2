"""Into the original Crafter (section 4.3 of the paper): explore some games there, decide what is what, then play.

The target is any Gymnasium environment whose observation has a picture, "view", and the player's "numbers".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment import decoding
from protoalign.alignment.assignment import log_marginals
from protoalign.alignment.transfer import Moment
from protoalign.alignment.view_exploration import Believed
from protoalign.alignment.view_inference import Glimpse, ViewInference
from protoalign.envs.crafter.names import ACHIEVEMENTS, CATEGORY_NAMES
from protoalign.envs.crafter.world import View
from protoalign.errors import UserError
from protoalign.perception.layers import Home, Looks
from protoalign.rl.networks import ActorCritic
from protoalign.rl.rollout import act
from protoalign.rng import gumbel

CATEGORIES = len(CATEGORY_NAMES)
RULED_OUT = -50.0  # log-probability


@dataclass(frozen=True)
class ViewAgent:
    """All that was learned in the source world."""

    task: ActorCritic
    model: ViewInference
    explorer: ActorCritic
    home: Home

    @property
    def kinds(self) -> tuple[int, ...]:
        return self.model.kinds


@dataclass
class Explored:
    """What one game of exploration told."""

    score: np.ndarray  # [K, K], of kinds, by type
    known: np.ndarray  # [K] bool, kinds that were met in their old look
    truth: np.ndarray  # [K, C], how often a type's tiles truly were of a category; to judge by, never to find out
    looks: int = 0  # new ones met by its end, in all games so far


@dataclass(frozen=True)
class ViewMapping:
    """What each new look is, and how it was found out."""

    looks: Looks
    kinds: tuple[int, ...]
    games: list[Explored]
    trace: list[Moment]

    def after(self, games: int) -> "ViewMapping":
        """What it was after the first games."""
        return replace(self, games=self.games[:games])

    @property
    def steps(self) -> int:
        """Used in the target."""
        return len(self.trace)

    @property
    def met(self) -> int:
        """New looks, while exploring."""
        return self.games[-1].looks

    @property
    def known(self) -> np.ndarray:
        """Kinds [K] that were met in their old look."""
        return np.any([game.known for game in self.games], 0)

    @property
    def truth(self) -> np.ndarray:
        return np.sum([game.truth for game in self.games], 0)

    @property
    def score(self) -> np.ndarray:
        """Of kinds, by type [K, K]. Kinds met in their old look are left to the last types, those that there are not."""
        score = decoding.combine(np.stack([game.score for game in self.games]))
        old = np.flatnonzero(self.known)
        new = len(self.kinds) - len(old)
        if self.met > new:  # then something is mistaken, and nothing is certain
            return score
        score[:new, old] = RULED_OUT
        score[new:] = RULED_OUT
        score[np.arange(new, len(self.kinds)), old] = 0
        return score

    @property
    def belief(self) -> np.ndarray:
        """Probabilities [K, K]."""
        return np.exp(np.asarray(log_marginals(self.score)))

    @property
    def sureness(self) -> float:
        return decoding.sureness(self.score)

    def categories(self) -> np.ndarray:
        """The category of every code. Looks that no exploration met get what is left over; there may be more than kinds."""
        kinds = np.array(self.kinds)[decoding.decode(self.score)]
        return np.concatenate([np.arange(CATEGORIES), kinds]).astype(np.uint8)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """A picture [8H, 8W, 3] to categories [H, W] uint8."""
        return self.categories()[np.minimum(self.looks(picture), CATEGORIES + len(self.kinds) - 1)]


@jax.jit
def _take_in(
    model: ViewInference, hidden: Array, before: Glimpse, after: Glimpse, action: Array, reward: Array
) -> tuple[Array, Array]:
    hidden = model.update(hidden, model.digest(model.look(before, after, action, reward)))
    return hidden, model.score(hidden)


@partial(jax.jit, static_argnums=3)
def _act(net: ActorCritic, seen: Believed, key: Array, actions: int) -> Array:
    return act(net, seen, gumbel(key, (1, actions)))[1]


def align(
    target: gymnasium.Env,
    agent: ViewAgent,
    games: int,
    longest: int,
    seed: int,
    sure: float | None = None,
    oracle: bool = False,
) -> ViewMapping:
    """Explore the target for some games of at most `longest` steps; with `sure`, until the mapping is that sure.

    With `oracle`, which tiles are of one type is taken from the target's labels, `info["categories"]`, not from their looks;
    what the labels mean is not looked at.
    """
    if games < 1:
        raise UserError(f"--episodes {games}: use at least 1")
    if sure is not None and not 0 < sure < 1:
        raise UserError(f"--sure {sure}: use a probability between 0 and 1, e.g. 0.99")
    kinds, actions = agent.kinds, agent.model.world.num_actions
    looks = Looks(agent.home, labels=[] if oracle else None)
    mapping = ViewMapping(looks, kinds, [], [])

    def see(observation: dict[str, Any], info: dict[str, Any]) -> Glimpse:
        now = mapping.games[-1]
        codes = looks(observation["view"], info.get("categories"))
        codes = np.where(codes < CATEGORIES + len(kinds), codes, 0)  # more looks than kinds: nothing is known of them
        now.known |= np.isin(kinds, codes)
        now.looks = len(looks)
        for code, category in zip(codes.flat, np.asarray(info.get("categories", codes)).flat, strict=True):
            if code >= CATEGORIES and category < CATEGORIES:
                now.truth[code - CATEGORIES, category] += 1
        return Glimpse(codes.reshape(1, -1).astype(np.uint8), observation["numbers"][None])  # type: ignore[arg-type]

    key = jax.random.key(seed)
    for game in range(games):
        hidden = agent.model.begin(1)
        score = np.asarray(agent.model.score(hidden))
        mapping.games.append(Explored(score[0], np.zeros(len(kinds), bool), np.zeros((len(kinds), CATEGORIES))))
        observation, info = target.reset(seed=seed) if game == 0 else target.reset()
        seen = see(observation, info)
        for _ in range(longest):
            # It goes by what this game has told, as it was trained; what all games tell is for the record.
            choice = _act(agent.explorer, Believed(*seen, jnp.exp(score)), jax.random.fold_in(key, len(mapping.trace)), actions)
            picture, belief = observation["view"], mapping.belief
            observation, reward, terminated, truncated, info = target.step(np.int64(choice[0]))
            mapping.trace.append(Moment(game, picture, belief, int(choice[0]), float(reward)))
            after = see(observation, info)
            hidden, score = _take_in(agent.model, hidden, seen, after, choice, np.array([reward], np.float32))
            mapping.games[-1].score = np.asarray(score)[0]
            seen = after
            if terminated or truncated or (sure is not None and mapping.sureness >= sure):
                break
        if sure is not None and mapping.sureness >= sure:
            break
    looks.labels = None  # from now on, new tiles are told by their looks
    return mapping


def play(
    make: Callable[[], gymnasium.Env], task: ActorCritic, see: Callable[[np.ndarray], np.ndarray], games: int, seed: int
) -> dict[str, Any]:
    """Whole games of pi_task, its eyes the function `see` from pictures to categories: returns, lengths, achievements by game.

    A game's world, and what chance does in it and to the policy, follow from the seed and its number: who sees the same plays
    the same.
    """
    side = min(games, 32)
    targets = [make() for _ in range(side)]
    step = jax.jit(lambda view, noise: act(task, view, noise)[1])
    actions = len(task.heads.policy.bias)  # type: ignore[attr-defined]
    key = jax.random.key(seed)
    noise = jax.jit(jax.vmap(lambda game, time: gumbel(jax.random.fold_in(jax.random.fold_in(key, game), time), (actions,))))
    returns, lengths, unlocked = np.zeros(games), np.zeros(games, int), np.zeros((games, len(ACHIEVEMENTS)), bool)
    number, started = np.arange(side), side  # of the game that each plays
    current = [env.reset(seed=seed + i)[0] for i, env in enumerate(targets)]
    going = np.ones(side, bool)
    while going.any():
        view = View(np.stack([see(o["view"]) for o in current]), np.stack([o["numbers"] for o in current]))  # type: ignore[arg-type]
        action = np.asarray(step(view, noise(number, lengths[number])))
        for i in np.flatnonzero(going):
            game = number[i]
            current[i], reward, terminated, truncated, info = targets[i].step(np.int64(action[i]))
            returns[game] += reward
            lengths[game] += 1
            if terminated or truncated:
                unlocked[game] = [info["achievements"][name] > 0 for name in ACHIEVEMENTS]
                going[i] = started < games
                if going[i]:
                    current[i], _ = targets[i].reset(seed=seed + started)
                    number[i], started = started, started + 1
    return {"returns": returns, "lengths": lengths, "unlocked": unlocked}
