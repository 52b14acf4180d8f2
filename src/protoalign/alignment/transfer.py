"""Into the target world (section 4.3): explore a few episodes, decide what is what, then play.

The target is any Gymnasium environment that shows pixels, reached through reset and step alone.
"""

from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment import decoding
from protoalign.alignment.exploration import ExplorerNet, View
from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import InferenceNet, look
from protoalign.envs import appearance
from protoalign.envs.base import TileWorld
from protoalign.errors import UserError
from protoalign.perception.categories import Categories
from protoalign.perception.classifier import TileClassifier
from protoalign.perception.novelty import NoveltyDetector
from protoalign.rl.networks import ActorCritic
from protoalign.rl.rollout import act
from protoalign.rng import gumbel


@dataclass(frozen=True)
class Agent:
    """All that was learned in the source world."""

    world: TileWorld
    task: ActorCritic
    model: InferenceNet
    explorer: ExplorerNet
    novelty: NoveltyDetector
    textures: np.ndarray  # [C, 8, 8, 3], the source's

    def nearest_seen(self, tiles: np.ndarray) -> np.ndarray:
        """f_proto|S: the prototype of the source texture a tile is most like."""
        x = np.asarray(tiles, np.float64).reshape(len(tiles), 1, -1)
        return ((x - self.textures.reshape(1, len(self.textures), -1).astype(np.float64)) ** 2).sum(-1).argmin(1)


@dataclass
class Mapping:
    """f_proto|T (eq. 9), and how it was found."""

    categories: Categories
    unseen: np.ndarray  # [P] bool
    prototype: np.ndarray  # [P]
    log_belief: np.ndarray  # [P, C], all episodes together
    steps: int  # used in the target
    episodes: int
    agent: Agent
    classifier: TileClassifier | None

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """Pictures [..., 8H, 8W, 3] to prototype grids [..., H, W] uint8."""
        tiles = appearance.cut(picture)
        flat = tiles.reshape(-1, *tiles.shape[-3:])
        grid = self.agent.nearest_seen(flat) if not self.unseen.all() else np.zeros(len(flat), int)
        if self.classifier is not None:
            new = self.agent.novelty.unseen(flat) if not self.unseen.all() else np.ones(len(flat), bool)
            if new.any():
                grid[new] = self.classifier(flat[new])
        return grid.reshape(tiles.shape[:-3]).astype(np.uint8)


@jax.jit
def _believe(model: InferenceNet, hidden: Array, known: Imagined) -> Array:
    return model.log_belief(hidden, known)


@jax.jit
def _take_in(
    model: InferenceNet, hidden: Array, known: Imagined, before: Array, after: Array, action: Array, reward: Array
) -> Array:
    seen = look(before, after, action, reward, hidden.shape[1])
    return model.update(hidden, model.log_belief(hidden, known), seen)


@jax.jit
def _act(net: ExplorerNet, types: Array, belief: Array, key: Array) -> Array:
    return act(net, View(types, belief), gumbel(key, (1, net.net.world.num_actions)))[1]


def align(target: gymnasium.Env, agent: Agent, episodes: int, seed: int, sure: float | None = None) -> Mapping:
    """Explore the target for some episodes and find the mapping; with `sure`, stop once the joint posterior is that sure."""
    if episodes < 1:
        raise UserError(f"--episodes {episodes}: use at least 1")
    picture, _ = target.reset(seed=seed)
    height, width = agent.world.shape
    if np.shape(picture) != (height * appearance.TILE, width * appearance.TILE, 3):
        raise UserError(
            f"the target shows {np.shape(picture)}, not pictures of {height} x {width} tiles of {appearance.TILE} pixels"
        )
    tiles = _tiles(picture)
    categories = Categories(tiles)
    unseen, known = _recognise(agent, categories)
    beliefs: list[np.ndarray] = []
    steps, finished, key = 0, 0, jax.random.key(seed)
    while finished < episodes:
        if finished:
            picture, _ = target.reset()
        types = categories.assign(_tiles(picture)).reshape(1, height, width).astype(np.uint8)
        hidden = agent.model.begin(1, len(categories))
        over = False
        while not over:
            belief = jnp.exp(_believe(agent.model, hidden, known))
            action = int(_act(agent.explorer, types, belief, jax.random.fold_in(key, steps))[0])
            picture, reward, terminated, truncated, _ = target.step(np.int64(action))
            steps += 1
            after = categories.assign(_tiles(picture)).reshape(1, height, width).astype(np.uint8)
            if len(categories) > len(unseen):  # a look that was not there before: it starts like all others
                unseen, known = _recognise(agent, categories)
                extra = agent.model.begin(1, len(categories) - hidden.shape[1])
                hidden = jnp.concatenate([hidden, extra], 1)
            hidden = _take_in(agent.model, hidden, known, types, after, np.array([action]), np.array([reward], np.float32))
            types, over = after, terminated or truncated
            if sure is not None and _sureness([*beliefs, np.asarray(_believe(agent.model, hidden, known))[0]]) >= sure:
                over = True
                finished = episodes
        beliefs.append(np.asarray(_believe(agent.model, hidden, known))[0])
        finished += 1
    log_belief = decoding.combine(_stack(beliefs))
    prototype = decoding.decode(log_belief)
    classifier = None
    if unseen.any():
        examples = [(tile, prototype[i]) for i in np.flatnonzero(unseen) for tile in categories.examples[i]]
        classifier = TileClassifier(np.stack([t for t, _ in examples]), np.array([p for _, p in examples]))
    return Mapping(categories, unseen, prototype, log_belief, steps, len(beliefs), agent, classifier)


def _tiles(picture: Any) -> np.ndarray:
    tiles = appearance.cut(np.asarray(picture))
    return tiles.reshape(-1, *tiles.shape[-3:])


def _recognise(agent: Agent, categories: Categories) -> tuple[np.ndarray, Imagined]:
    """Which categories are unseen, and what is known of the others (f_ND, eq. 4)."""
    unseen = np.array([agent.novelty.unseen(tiles).mean() >= 0.5 for tiles in categories.examples])
    centres = np.clip(np.round(categories.centres * 255), 0, 255).reshape(-1, appearance.TILE, appearance.TILE, 3)
    prototype = agent.nearest_seen(centres)
    return unseen, Imagined(prototype[None], prototype[None].astype(np.int32), unseen[None])  # type: ignore[arg-type]


def _stack(beliefs: list[np.ndarray]) -> np.ndarray:
    """Beliefs of episodes that knew fewer categories are filled up with not knowing."""
    most = max(len(b) for b in beliefs)
    flat = -np.log(beliefs[0].shape[1])
    return np.stack([np.concatenate([b, np.full((most - len(b), b.shape[1]), flat)]) for b in beliefs])


def _sureness(beliefs: list[np.ndarray]) -> float:
    """The posterior probability of the best one-to-one mapping, under independent types."""
    log_belief = decoding.combine(_stack(beliefs))
    best = decoding.decode(log_belief)
    return float(np.exp(log_belief[np.arange(len(best)), best].sum()))


def play(target: Any, agent: Agent, see: Any, episodes: int, seed: int) -> np.ndarray:
    """Returns [episodes] of pi_task in a vector environment of that many games, its eyes the function `see`."""
    step = jax.jit(lambda grid, noise: act(agent.task, grid, noise)[1])
    key = jax.random.key(seed)
    picture, _ = target.reset(seed=seed)
    total, over, time = np.zeros(episodes), np.zeros(episodes, bool), 0
    while not over.all():
        noise = gumbel(jax.random.fold_in(key, time), (episodes, agent.world.num_actions))
        picture, reward, terminated, truncated, _ = target.step(np.asarray(step(see(picture), noise)))
        total += np.where(over, 0, reward)
        over |= terminated | truncated
        time += 1
    return total
