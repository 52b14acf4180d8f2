"""Into the target world (section 4.3): explore a few episodes, decide what is what, then play.

The target is any Gymnasium environment that shows pixels, reached through reset and step alone.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment import decoding
from protoalign.alignment.assignment import log_marginals
from protoalign.alignment.exploration import View
from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import InferenceModel
from protoalign.envs import appearance
from protoalign.envs.base import TileWorld
from protoalign.errors import UserError
from protoalign.perception.categories import Categories, Clusters, Labelled, as_tiles
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
    model: InferenceModel
    explorer: ActorCritic
    novelty: NoveltyDetector
    textures: np.ndarray  # [C, 8, 8, 3], the source's

    def nearest_seen(self, tiles: np.ndarray) -> np.ndarray:
        """f_proto|S: the prototype of the source texture a tile is most like."""
        flat = np.asarray(tiles, np.float32).reshape(len(tiles), -1)
        seen = self.textures.reshape(len(self.textures), -1).astype(np.float32)
        return ((seen**2).sum(1) - 2 * flat @ seen.T).argmin(1)

    def before(self, picture: np.ndarray) -> np.ndarray:
        """How pictures [..., 8H, 8W, 3] look to one who knows the source only: prototype grids [..., H, W] uint8."""
        tiles = appearance.cut(picture)
        different, which = _different(tiles)
        return self.nearest_seen(different)[which].reshape(tiles.shape[:-3]).astype(np.uint8)


@dataclass(frozen=True)
class Moment:
    """A step of exploration in the target, as it was before the action."""

    episode: int
    picture: np.ndarray
    belief: np.ndarray  # [P, C], in this episode alone
    action: int
    reward: float


@dataclass(frozen=True)
class Mapping:
    """f_proto|T (eq. 9), and how it was found."""

    categories: Categories
    unseen: np.ndarray  # [P] bool
    prototype: np.ndarray  # [P]
    score: np.ndarray  # [P, C], all episodes together
    trace: list[Moment]
    episodes: int
    agent: Agent
    classifier: TileClassifier | None

    @property
    def steps(self) -> int:
        """Used in the target."""
        return len(self.trace)

    @property
    def belief(self) -> np.ndarray:
        """Probabilities [P, C]."""
        return np.exp(np.asarray(log_marginals(self.score)))

    @property
    def sureness(self) -> float:
        """The probability that all of it is right."""
        return decoding.sureness(self.score)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """Pictures [..., 8H, 8W, 3] to prototype grids [..., H, W] uint8."""
        tiles = appearance.cut(picture)
        different, which = _different(tiles)
        if not self.categories.fits(different).all():  # the light may have changed
            by_picture = tiles.reshape(-1, tiles.shape[-5] * tiles.shape[-4], *tiles.shape[-3:])
            different, which = _different(as_tiles(self.categories.level(by_picture)))
        return self._prototypes(different)[which].reshape(tiles.shape[:-3]).astype(np.uint8)

    def _prototypes(self, tiles: np.ndarray) -> np.ndarray:
        if self.classifier is None:
            return self.agent.nearest_seen(tiles)
        if self.unseen.all():
            return self.classifier(tiles)
        new = self.agent.novelty.unseen(tiles)
        prototype = self.agent.nearest_seen(tiles)
        if new.any():
            prototype[new] = self.classifier(tiles[new])
        return prototype

    def doubts(self) -> list[str]:
        """What is odd about this target, in words; nothing if looks and prototypes match one to one."""
        names, counts = (
            self.agent.world.category_names,
            np.bincount(self.prototype, minlength=len(self.agent.world.category_names)),
        )
        found = []
        if len(self.prototype) > len(names):
            found.append(f"{len(self.prototype)} looks for {len(names)} kinds: each look was decided by itself")
        found += [f"{counts[c]} looks were taken for {names[c]}" for c in np.flatnonzero(counts > 1)]
        missing = [names[c] for c in np.flatnonzero(counts == 0)]
        if missing:
            found.append(f"no look was left for {', '.join(missing)}: not met, or it shares a look with another kind")
        if self.sureness < 0.9:
            found.append(f"the mapping is only {self.sureness:.2f} sure: explore for more episodes")
        return found


@jax.jit
def _believe(model: InferenceModel, hidden: Array, known: Imagined) -> tuple[Array, Array]:
    score = model.score(hidden, known)
    return score, jnp.exp(score)


@jax.jit
def _take_in(
    model: InferenceModel, hidden: Array, known: Imagined, before: Array, after: Array, action: Array, reward: Array
) -> Array:
    return model.update(hidden, known, model.look(before, after, action, reward, hidden.shape[1]))


@partial(jax.jit, static_argnums=4)
def _act(net: ActorCritic, types: Array, belief: Array, key: Array, actions: int) -> Array:
    return act(net, View(types, belief), gumbel(key, (1, actions)))[1]


def align(
    target: gymnasium.Env, agent: Agent, episodes: int, seed: int, sure: float | None = None, oracle: bool = False
) -> Mapping:
    """Explore the target for some episodes and find the mapping.

    With `sure`, stop once the mapping is that sure. Tiles are put into categories by their looks or, with `oracle`, by the grid
    of labels the target gives as `info["categories"]`; what the labels mean is not looked at.
    """
    if episodes < 1:
        raise UserError(f"--episodes {episodes}: use at least 1")
    if sure is not None and not 0 < sure < 1:
        raise UserError(f"--sure {sure}: use a probability between 0 and 1, e.g. 0.99")
    picture, info = target.reset(seed=seed)
    height, width = agent.world.shape
    if np.shape(picture) != (height * appearance.TILE, width * appearance.TILE, 3):
        raise UserError(
            f"the target shows {np.shape(picture)}, not pictures of {height} x {width} tiles of {appearance.TILE} pixels"
        )
    if oracle and "categories" not in info:
        raise UserError("the target gives no info['categories']: use categories found by their looks")
    categories: Categories = Labelled() if oracle else Clusters(_tiles(picture))

    def see(picture: Any, info: dict[str, Any]) -> np.ndarray:
        return categories.assign(_tiles(picture), info.get("categories")).reshape(1, height, width).astype(np.uint8)

    types = see(picture, info)
    unseen, known = _recognise(agent, categories)
    scores: list[np.ndarray] = []
    trace: list[Moment] = []
    key = jax.random.key(seed)
    stop = False
    while len(scores) < episodes and not stop:
        if scores:
            picture, info = target.reset()
            types = see(picture, info)
            unseen, known = _recognise(agent, categories)
        hidden = agent.model.begin(1, len(unseen))
        over = False
        while not (over or stop):
            _, belief = _believe(agent.model, hidden, known)
            noise_key = jax.random.fold_in(key, len(trace))
            action = int(_act(agent.explorer, types, belief, noise_key, agent.world.num_actions)[0])
            before, shown = types, np.asarray(picture)
            picture, reward, terminated, truncated, info = target.step(np.int64(action))
            types = see(picture, info)
            if len(categories) > len(unseen):  # a look that was not there before: it starts like all others
                unseen, known = _recognise(agent, categories)
                hidden = jnp.concatenate([hidden, agent.model.begin(1, len(unseen) - hidden.shape[1])], 1)
            hidden = _take_in(agent.model, hidden, known, before, types, np.array([action]), np.array([reward], np.float32))
            trace.append(Moment(len(scores), shown, np.asarray(belief)[0], action, float(reward)))
            over = bool(terminated or truncated)
            score = np.asarray(_believe(agent.model, hidden, known)[0])[0]
            stop = sure is not None and decoding.sureness(decoding.combine(_stack([*scores, score]))) >= sure
        scores.append(score)
    combined = decoding.combine(_stack(scores))
    prototype = decoding.decode(combined)
    classifier = None
    if unseen.any():
        examples = [(tile, prototype[i]) for i in np.flatnonzero(unseen) for tile in categories.examples[i]]
        classifier = TileClassifier(np.stack([t for t, _ in examples]), np.array([p for _, p in examples]))
    return Mapping(categories, unseen, prototype, combined, trace, len(scores), agent, classifier)


def _tiles(picture: Any) -> np.ndarray:
    tiles = appearance.cut(np.asarray(picture))
    return tiles.reshape(-1, *tiles.shape[-3:])


def _different(tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different ones [D, 8, 8, 3] among many tiles [..., 8, 8, 3], and which of them each is: clean worlds have few."""
    flat = np.ascontiguousarray(tiles.reshape(-1, *tiles.shape[-3:]))
    words = flat.reshape(len(flat), -1).view(np.uint64)
    with np.errstate(over="ignore"):
        marks = (words * np.random.default_rng(0).integers(1, 2**63, words.shape[1], np.uint64)).sum(1)
    _, first, which = np.unique(marks, return_index=True, return_inverse=True)
    return flat[first], which


def _recognise(agent: Agent, categories: Categories) -> tuple[np.ndarray, Imagined]:
    """Which categories are unseen, and what is known of the others (f_ND, eq. 4)."""
    unseen = np.array([agent.novelty.unseen(tiles).mean() >= 0.5 for tiles in categories.examples])
    prototype = agent.nearest_seen(as_tiles(categories.centres))
    return unseen, Imagined(prototype[None], prototype[None].astype(np.int32), unseen[None])  # type: ignore[arg-type]


def _stack(scores: list[np.ndarray]) -> np.ndarray:
    """Scores of episodes that knew fewer categories are filled up with not knowing."""
    most = max(len(b) for b in scores)
    flat = -np.log(scores[0].shape[1])
    return np.stack([np.concatenate([b, np.full((most - len(b), b.shape[1]), flat)]) for b in scores])


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
