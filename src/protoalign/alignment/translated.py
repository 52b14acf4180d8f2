"""A target shown in the source's pictures, so that any policy that knows the source can play there.

env = Translated(target, mapping)          # what was found out before
env = Translated(target, agent=agent)      # live, while it is being found out; env.mapping is what is known so far
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from protoalign.alignment.local_model import categories
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.sampled_judge import Plays
from protoalign.alignment.sampled_transfer import Finding, Knowing, tile_of
from protoalign.alignment.transfer import check_environment, check_target, split
from protoalign.errors import UserError
from protoalign.perception.tiles import Tile, check_picture, cut
from protoalign.perception.vocabulary import Vocabulary

STALE = 3  # times that a board is seen in an episode before another assignment is drawn


class Translated(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A target whose pictures [H*h, W*w, 3] uint8, or those called "view" in a dict, are drawn in the source's look.

    target    an environment with the source's actions, in any look; its tiles may have another size
    mapping   what its tiles are. A tile that was never met is what the mapping makes of it
    agent     instead of a mapping: an agent of a hosted world. Every step is watched, and pictures are shown as an assignment
              has it that is drawn from what is believed so far (Thompson sampling). It is kept as long as it may be true and
              leads on: where a board comes back again and again in an episode, another one is drawn
    seed      of those draws

    Whoever plays chooses all actions. So nothing keeps a live one from what may be dangerous, or has it try what would tell
    most: `agent.align`, which plays itself, does both.
    """

    def __init__(self, target: gymnasium.Env[Any, Any], mapping: Mapping | None = None, agent: Any = None, seed: int = 0):
        check_environment(target)
        super().__init__(target)
        if mapping is not None and not isinstance(mapping, Mapping):
            raise UserError(
                f"{type(mapping).__name__} is not a mapping; an agent is given as agent=: Translated(target, agent=agent)"
            )
        if (mapping is None) == (agent is None):
            raise UserError("give either a mapping or agent=, which is to find one: Translated(target, mapping)")
        if agent is not None and getattr(agent, "local", None) is None:
            raise UserError("only an agent of a hosted world finds out live: use Translated(target, agent.align(target))")
        vocabulary: Vocabulary = agent.vocabulary if mapping is None else mapping.vocabulary
        self._shown: _Found | _Live
        if mapping is None:
            self._shown = _Live(target, agent, seed)
        else:
            self._shown = _Found(mapping)
        self.tile = vocabulary.tile  # of what is shown
        self.observation_space = _space(target.observation_space, self._shown.tile, self.tile)
        self._picture: np.ndarray | None = None

    @property
    def mapping(self) -> Mapping:
        """What tiles are, as far as it is known."""
        return self._shown.mapping

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._observation(observation, self._shown.begin(observation)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        picture = self._shown.after(int(action), float(reward), observation, bool(terminated), bool(terminated or truncated))
        return self._observation(observation, picture), reward, terminated, truncated, info

    def render(self) -> Any:
        """What was shown last; in a window (render_mode "human"), the target as it looks."""
        if self.render_mode == "human":
            return self.env.render()
        if self._picture is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        return self._picture.copy()

    def _observation(self, observation: Any, picture: np.ndarray) -> Any:
        self._picture = picture
        return {**observation, "view": picture.copy()} if isinstance(observation, dict) else picture.copy()


class _Found:
    """Pictures through a finished mapping."""

    def __init__(self, mapping: Mapping):
        self.mapping, self.tile = mapping, mapping.tile_types.tile
        self._drawn: dict[bytes, np.ndarray] = {}  # bytes of a tile -> the source's picture of what it is
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # a picture of the target, and what was shown for it

    def begin(self, observation: Any) -> np.ndarray:
        return self._translated(split(observation)[0])

    def after(self, action: int, reward: float, observation: Any, ended: bool, over: bool) -> np.ndarray:
        return self._translated(split(observation)[0])

    def _translated(self, picture: np.ndarray) -> np.ndarray:
        picture = check_picture(picture)
        if not self.mapping.tile_types.exact:  # what a tile is may depend on the light of the whole picture
            return self.mapping.translate(picture)
        tiles = cut(picture, self.tile)
        rows, columns, h, w, _ = tiles.shape
        if self._last is None or self._last[0].shape != picture.shape:
            changed = np.ones((rows, columns), bool)
            shown = np.empty((rows * self._size[0], columns * self._size[1], 3), np.uint8)
        else:
            changed = (picture != self._last[0]).reshape(rows, h, columns, w * 3).any((1, 3))
            shown = self._last[1].copy()
        drawn = cut(shown, self._size)
        for place in zip(*np.nonzero(changed), strict=True):
            mark = tiles[place].tobytes()
            if mark not in self._drawn:
                self._drawn[mark] = self.mapping.translate(np.ascontiguousarray(tiles[place]))
            drawn[place] = self._drawn[mark]
        self._last = picture.copy(), shown
        return shown

    @property
    def _size(self) -> Tile:
        return self.mapping.vocabulary.tile


class _Watching:
    """An agent that is not asked what to do."""

    def __init__(self, agent: Knowing):
        self._agent = agent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def plays(self) -> Plays:
        return lambda grids, numbers: np.zeros((len(grids), len(self._agent.spec.actions)))


class _Live:
    """Pictures as the assignment has it that is held while a target is being found out."""

    def __init__(self, target: gymnasium.Env, agent: Knowing, seed: int):
        self.target, self.agent, self.tile = target, agent, tile_of(target, agent.vocabulary)
        self.finding = Finding(_Watching(agent), self.tile, seed)
        self.visits: dict[bytes, int] = {}  # of boards, in this episode

    @property
    def mapping(self) -> Mapping:
        found, vocabulary = self.finding.mapping(), self.agent.vocabulary
        types = deepcopy(found.tile_types, {id(vocabulary): vocabulary})  # those that are being found will grow
        return replace(found, tile_types=types.freeze())

    def begin(self, observation: Any) -> np.ndarray:
        self.finding.begin(*self._checked(observation))
        self.visits = {}
        return self._translated()

    def after(self, action: int, reward: float, observation: Any, ended: bool, over: bool) -> np.ndarray:
        self.finding.learn(action, reward, *self._checked(observation), ended, over)
        return self._translated()

    def _checked(self, observation: Any) -> tuple[np.ndarray, np.ndarray]:
        check_target(self.target, self.agent.spec, self.tile, observation, any_size=True)
        return split(observation)

    def _translated(self) -> np.ndarray:
        judge, actor = self.finding.judge, self.finding.actor
        sampler = judge.sampler
        mark = judge.codes.tobytes() + judge.numbers.tobytes()
        self.visits[mark] = self.visits.get(mark, 0) + 1
        if self.visits[mark] > STALE:
            actor.before = {}  # as if none was held
        states, logs = judge.leading()
        actor._hold(states, np.exp(logs), judge.acted)
        held = actor.mine
        if (held == sampler.none).any():
            held = np.where(held == sampler.none, sampler.likeliest(), held)
        return self.agent.vocabulary.draw(categories(judge.model, held[None])[0, judge.codes])


def _space(space: gymnasium.Space[Any], tile: Tile, shown: Tile) -> gymnasium.Space[Any]:
    """The space of observations with tiles of another size."""
    if isinstance(space, gymnasium.spaces.Dict) and "view" in space.spaces:
        return gymnasium.spaces.Dict({**space.spaces, "view": _space(space["view"], tile, shown)})
    shape = space.shape if isinstance(space, gymnasium.spaces.Box) else None
    if shape is None or len(shape) != 3 or shape[2] != 3 or space.dtype != np.uint8:
        raise UserError(f"observations must be pictures [height, width, 3] uint8, or dicts with one as 'view', not {space}")
    if shape[0] % tile[0] or shape[1] % tile[1]:
        raise UserError(
            f"the target shows pictures of {shape[0]} x {shape[1]} pixels, not of tiles of {tile[0]} x {tile[1]}: give the "
            "environment an attribute `tile` (height, width), or use a mapping that was found there"
        )
    box: Any = gymnasium.spaces.Box
    return box(0, 255, (shape[0] // tile[0] * shown[0], shape[1] // tile[1] * shown[1], 3), np.uint8)
