"""MiniHack's rooms (Samvelyan et al., 2021), levels of NetHack, as 9 x 9 tiles around the player.

room-monster-5x5  reach the stairs down in a room with a monster, a random one, that may kill. 1 at the stairs.
keyroom-s5        step onto a key, pick it up, apply it beside a locked door, and reach the stairs behind. 1 at the stairs.

An action that takes no time, e.g. a step into a wall, costs 0.01, or nothing where a room is `free`. What is carried is not in
the picture.
"""

import warnings
from enum import IntEnum
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np

from protoalign.errors import NotInstalled, UserError
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.tile_dictionary import TileDictionary

TILE, SIZE = 16, 9  # pixels of a tile; tiles
WORLDS = {"keyroom-s5": "MiniHack-KeyRoom-S5-v0", "room-monster-5x5": "MiniHack-Room-Monster-5x5-v0"}


def minihack(name: str, free: str = "") -> GymWorld:
    """A room by its short name; `free` "-free": actions that take no time cost nothing."""
    return GymWorld(
        partial(MiniHack, name, bool(free)),
        TILE,
        agent=(SIZE // 2, SIZE // 2),
        name=f"minihack-{name}{free}",
        fast=lambda dictionary: Glyphs(MiniHack(name, bool(free), draw=False), dictionary),
        truth=lambda look, tile: _names().get(tile.tobytes()),
    )


class MiniHack(gymnasium.Env):
    """A room that shows the tiles around the player, [9*16, 9*16, 3] uint8. An episode follows from the state of `np_random`
    before its reset, whatever was played before. Without `draw` there are only glyphs, NetHack's numbers of what is seen."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012  as in Gymnasium

    def __init__(self, name: str, free: bool = False, draw: bool = True):
        _installed()
        keys = ("glyphs_crop", "pixel_crop") if draw else ("glyphs_crop",)
        options: dict[str, Any] = {"fix_moon_phase": True} | ({"penalty_step": 0.0} if free else {})
        self.game = gymnasium.make(WORLDS[name], disable_env_checker=True, observation_keys=keys, **options)
        inner: Any = self.game.unwrapped
        self.inner, self.draw, self.over, self.render_mode = inner, draw, True, "rgb_array"
        self.actions = IntEnum("actions", [action.name.lower() for action in inner.actions], start=0)  # type: ignore[misc]
        self.action_space = gymnasium.spaces.Discrete(len(inner.actions))
        self.observation_space = gymnasium.spaces.Box(0, 255, (SIZE * TILE, SIZE * TILE, 3), np.uint8)
        self.max_steps = int(inner._max_episode_steps)
        self.seen: dict[str, np.ndarray] = {}
        self._quit = inner._quit_game
        inner._quit_game = self._leave

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        core, display, level = (int(number) for number in self.np_random.integers(2**31, size=3))
        self.inner.seed(core, display, reseed=False, lgen=level)
        self.seen, _ = self.game.reset()
        self.over = False
        return self.render(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise gymnasium.error.ResetNeeded("call reset() before step(): no episode is in progress")
        if not self.action_space.contains(action):
            raise UserError(f"action {action!r} is not one of 0 to {len(self.actions) - 1}")
        seen, reward, self.over, _, info = self.game.step(int(action))
        self.seen = self.seen if self.over else seen  # a game that is over shows nothing: the last that was seen stays
        truncated = info["end_status"] == self.inner.StepStatus.ABORTED  # which MiniHack calls an end
        return self.render(), float(reward), self.over and not truncated, truncated, {}

    def render(self) -> Any:
        return self.seen["pixel_crop"] if self.draw else None

    def close(self) -> None:
        self.game.close()

    def _leave(self, observation: Any, done: bool) -> None:
        """NetHack is left when the stairs are reached or time is up: this is what was seen there."""
        self.seen = self.inner._get_observation(observation)
        self._quit(observation, done)


class Glyphs:
    """A game of which glyphs are read instead of a picture; the picture of each is looked up once."""

    def __init__(self, env: MiniHack, dictionary: TileDictionary):
        self.env, self.dictionary, self.pictures, self.nothing = env, dictionary, _pictures(), np.zeros(0, np.float32)
        self.ids = np.full(len(self.pictures), -1, np.int16)

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        self.env.reset(seed=seed)
        return self._read(), self.nothing

    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        _, reward, terminated, truncated, _ = self.env.step(action)
        return self._read(), self.nothing, reward, terminated, truncated

    def _read(self) -> np.ndarray:
        glyphs = self.env.seen["glyphs_crop"]
        for glyph in glyphs[self.ids[glyphs] < 0].tolist():
            self.ids[glyph] = self.dictionary.number(self.pictures[glyph])
        return self.ids[glyphs].astype(np.uint8)


def _installed() -> None:
    """Import MiniHack, which registers its environments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it uses what setuptools will drop
            import minihack  # noqa: F401
    except ImportError:
        told = "pip install 'protoalign[minihack]' in an environment of its own (it needs Gymnasium 1.2)"
        raise NotInstalled(f"MiniHack is not installed: {told}") from None


@cache
def _pictures() -> np.ndarray:
    """The tile picture of every glyph, [glyphs, 16, 16, 3] uint8."""
    _installed()
    from minihack.tiles import GlyphMapper
    from nle.nethack import MAX_GLYPH

    return np.stack(list(map(GlyphMapper().glyph_id_to_rgb, range(MAX_GLYPH))))


@cache
def _names() -> dict[bytes, str]:
    """What tile pictures show, by NetHack's names."""
    from nle import nethack

    found: dict[bytes, str] = {}
    for glyph, picture in enumerate(_pictures()):
        if nethack.glyph_is_cmap(glyph):
            place = nethack.glyph_to_cmap(glyph)
            name = nethack.symdef.from_idx(place).explanation if place else "stone"
        elif nethack.glyph_is_monster(glyph):
            name = nethack.permonst(nethack.glyph_to_mon(glyph)).mname
        elif nethack.glyph_is_normal_object(glyph):
            name = nethack.objdescr.from_idx(nethack.glyph_to_obj(glyph)).oc_name
        else:
            name = "corpse" if nethack.glyph_is_body(glyph) else f"glyph {glyph}"
        found.setdefault(picture.tobytes(), name)
    return found
