"""Environments of Gymnasium as worlds: what is refused, and why; what is shown; what is taken for what."""

import inspect
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import protoalign
from protoalign import GymWorld, UserError
from protoalign.errors import NotInstalled
from protoalign.worlds import registry
from protoalign.worlds.gym import LIMIT, Pictured, Seen, by_id
from protoalign.worlds.looks import cut
from protoalign.worlds.probing import pictures_of
from protoalign.worlds.tile_dictionary import MOST, Reader, TileDictionary
from protoalign.worlds.tile_size import find_tile
from tests.worlds.rooms import AGENT, AGENT_IN_LAVA, AGENT_ON_GOLD, GOLD, LAVA, WALL, Bag, Rooms, Trouble


class Shown(gymnasium.ObservationWrapper):
    """Rooms with another picture: `draw(picture, env)`."""

    def __init__(self, draw, env=None):
        super().__init__(env or Rooms())
        self.draw, self.time = draw, 0

    def observation(self, observation):
        self.time += 1
        return self.draw(observation, self)


def shown(draw, env=None):
    return lambda: Shown(draw, env)


def gradient(side=20):
    rows, columns = np.mgrid[:side, :side] * 255 // side
    return np.stack([rows, columns, (rows + columns) // 2], -1).astype(np.uint8)


def scrolled(picture, env):
    """A texture that is moved by a share of a pixel with the agent."""
    texture = np.kron(np.random.default_rng(0).integers(0, 256, (12, 12, 3)), np.ones((4, 4, 1)))
    (row, column), share = env.unwrapped.place * 3, 0.3 * env.time % 1
    one, other = (texture[row + i : row + i + 20, column : column + 20] for i in (0, 1))
    return ((1 - share) * one + share * other).astype(np.uint8)


def clock(picture, env):
    """A tile that is never the same."""
    new = picture.copy()
    new[:4, :4] = np.random.default_rng(env.time).integers(0, 256, (4, 4, 3))
    return new


def off_grid(picture, env):
    """A plain ground with something that moves by single pixels."""
    new = np.zeros((80, 80, 3), np.uint8)
    row, column = np.random.default_rng(env.time).integers(0, 64, 2)
    new[row : row + 16, column : column + 16] = 255
    return new


# -- the tile size -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tile", "size"), [(4, 5), (4, 6), (6, 8), (16, 5), (30, 6)])
def test_the_tile_size_is_found(tile, size):
    for look in range(3):
        assert GymWorld(partial(Rooms, look=look, size=size, tile=tile)).tile == (tile, tile)


class Sparse(Rooms):
    """Mostly floor, on any number of tiles of any shape, random or with a plain shape on a plain ground."""

    def __init__(self, tile, rows, columns, plain=False):
        super().__init__()
        self.rows, self.columns, (h, w), rng = rows, columns, tile, np.random.default_rng(0)
        self.pictures = rng.integers(0, 256, (7, h, w, 3), np.uint8)
        if plain:
            self.pictures[:] = rng.integers(0, 256, (7, 1, 1, 3))
            self.pictures[1:, h // 4 : h * 3 // 4, w // 4 : w * 3 // 4] = rng.integers(0, 256, (6, 1, 1, 3))

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        cells = self.np_random.permutation(self.rows * self.columns)
        self.grid = np.zeros(len(cells), int)
        self.grid[cells[:6]] = AGENT, WALL, WALL, WALL, GOLD, LAVA
        return self.show(), {}

    def step(self, action):
        at = int(np.flatnonzero(self.grid == AGENT)[0])
        to = (at + (1, -1, self.columns, -self.columns)[action]) % len(self.grid)
        self.grid[[at, to]] = self.grid[[to, at]]
        return self.show(), 0.0, False, False, {}

    def show(self):
        tiles = self.pictures[self.grid.reshape(self.rows, self.columns)].swapaxes(1, 2)
        return tiles.reshape(tiles.shape[0] * tiles.shape[1], -1, 3)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("tile", "rows", "columns"),
    [
        *[((8, 12), 5, 5), ((6, 9), 5, 5), ((16, 8), 5, 5), ((16, 24), 5, 5), ((24, 36), 5, 5), ((10, 15), 5, 5)],
        *[((16, 16), 1, 10), ((10, 20), 16, 1), ((5, 7), 12, 12), ((6, 9), 8, 10), ((8, 8), 20, 30), ((4, 4), 30, 30)],
    ],
)
def test_tiles_need_not_be_square_nor_boards_crowded(tile, rows, columns, plain):
    assert find_tile(pictures_of(Sparse(tile, rows, columns, plain))) == tile


@pytest.mark.parametrize("name", ["minigrid-lavagap-s6", "cliffwalking-from-1.4", "frozenlake-2x2", "lab2d-chase-eat"])
def test_the_tile_size_of_listed_worlds_is_found(name):
    """Where rows, or pairs of tiles, are often the same."""
    try:
        world = registry.make(name)
    except NotInstalled as error:
        pytest.skip(str(error))
    for look in ("source", "random:1"):
        assert find_tile(pictures_of(world.make(look))) == world.tile


def test_the_size_that_was_found_is_told(capfd):
    """Not where results are printed; and in errors that may come of it, not in others."""
    GymWorld(Rooms, 4, name="mine")
    assert capfd.readouterr() == ("", "")
    world = GymWorld(Rooms, name="mine")
    said = "protoalign: mine: 5 x 5 tiles of 4 x 4 pixels were found; if that is wrong, give the size with tile= (--tile)\n"
    assert capfd.readouterr() == ("", said)
    found = r"; the size 4 x 4 was found: if it is wrong, give another with tile= \(--tile\)$"
    with pytest.raises(UserError, match=rf"counted from \(0, 0\){found}"):
        GymWorld(Rooms, agent=(5, 0))
    with pytest.raises(UserError, match=rf"it shows 26 x 26 pixels, .* as in the source{found}"):
        world._other("other", shown(lambda p, e: np.pad(p, ((3, 3), (3, 3), (0, 0)))))
    with pytest.raises(UserError, match=rf"not made of tiles .* every time{found}"):
        GymWorld(shown(clock))
    with pytest.raises(UserError, match="floor gave way") as caught:
        GymWorld(partial(Trouble, 70, "raise"))
    assert "found" not in str(caught.value)


def test_a_size_may_be_an_array():
    assert GymWorld(Rooms, np.array([4, 4])).tile == GymWorld(Rooms, np.array(4)).tile == (4, 4)


@pytest.mark.parametrize("tile", [8, 16, 32])
@pytest.mark.parametrize("name", ["minigrid-doorkey-6x6", "minigrid-lavagap-s6", "minigrid-doorkey-5x5-view"])
def test_the_tile_size_of_minigrid_is_found(name, tile):
    made = registry.make(name, tile=tile)
    for look in ("source", "random:1"):
        assert GymWorld(lambda: made.make(look)).tile == (tile, tile)  # noqa: B023  it is made at once


@pytest.mark.parametrize(
    "draw", [lambda p, e: np.random.default_rng(e.time).integers(0, 256, p.shape, np.uint8), scrolled, off_grid]
)
def test_no_tile_size_is_found_where_there_are_no_tiles(draw):
    with pytest.raises(UserError, match=r"no tile size was found|not made of tiles|things move by pixels"):
        GymWorld(shown(draw))


# -- what is refused, before any training ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (shown(lambda p, e: np.random.default_rng(e.time).integers(0, 256, p.shape, np.uint8)), {}, "not made of tiles"),
        (shown(lambda p, e: gradient()), {}, "100% of all tiles are like none at another place"),
        (shown(lambda p, e: np.maximum(gradient(), p // 200 * 255)), {}, "not made of tiles"),
        (shown(scrolled), {}, "not made of tiles"),
        (shown(off_grid), {"tile": 16}, "in one picture only: .* not made of tiles"),
        (shown(lambda p, e: p * 0), {}, "all tiles of the first pictures are the same"),
        (Rooms, {"tile": 3}, "20 x 20 pixels is not made of tiles of 3 x 3: give the right tile size, or .* crop"),
        (Rooms, {"tile": 5}, "not made of tiles"),
        (partial(Rooms, size=6), {"tile": 8}, "only [67] of 4 x 4: give that as the tile size"),
        (partial(Rooms, size=6), {"tile": 12}, "only [67] of 4 x 4: give that as the tile size"),
        (partial(Rooms, size=6), {"tile": 2}, "only .* of 4 x 4: give that as the tile size"),
        (partial(Rooms, size=6, tile=6), {"tile": (3, 3)}, "only .* of 6 x 6: give that as the tile size"),
        (partial(Rooms, tile=30), {"tile": 1}, "more than 4096 tiles: give a larger tile size"),
        (shown(lambda p, e: p[: 20 - 4 * (e.time > 5)]), {}, "changed its size, from 20 x 20 to 16 x 20 pixels: use"),
        (shown(lambda p, e: p / 255), {}, r"shape \[20, 20, 3\] of float64, not .* uint8: say where it is .*, or convert"),
        (shown(lambda p, e: p.astype(np.float32)), {}, "of float32"),
        (shown(lambda p, e: p[..., 0]), {}, r"shape \[20, 20\] of uint8"),
        (shown(lambda p, e: p[..., :1]), {}, r"shape \[20, 20, 1\] of uint8"),
        (shown(lambda p, e: np.concatenate([p, p[..., :1]], -1)), {}, r"shape \[20, 20, 4\] of uint8"),
        (shown(lambda p, e: 7), {}, r"shape \[\] of int64"),
        (shown(lambda p, e: (p, [1])), {}, "a tuple of parts"),
        (Rooms, {"picture": "image"}, r"no 'image' \(is no dictionary\): say where the picture is"),
        (Bag, {}, "a dictionary of image, steps, place, name: say which is the picture with picture="),
        (Bag, {"picture": "view"}, r"no 'view' \(image, steps, place, name\): say where the picture is"),
        (Bag, {"picture": "image", "numbers": ("time",)}, r"no 'time' \(image, .*: name keys of it as numbers"),
        (Bag, {"picture": "image", "numbers": ("name",)}, "'name' of the observation is no number"),
        (Rooms, {"numbers": ("steps",)}, r"no 'steps' \(is no dictionary\)"),
        (Rooms, {"picture": "render"}, "renders nothing: make it with render_mode='rgb_array'"),
        (Rooms, {"crop": (10, 10, 0, 0)}, "leaves nothing of a picture of 20 x 20 pixels: cut off less"),
        (Rooms, {"crop": (1, 0, 0, 0)}, "19 x 20 pixels is not made of tiles of 4 x 4: .*crop"),
        (Rooms, {"crop": (1, 0)}, "use four numbers of pixels"),
        (Rooms, {"tile": 0}, "tile=0: use the size of a tile in pixels"),
        (Rooms, {"tile": "16"}, "tile=16: use the size"),
        (Rooms, {"tile": 1.5}, "tile=1.5: use the size"),
        (Rooms, {"tile": (4, 4, 4)}, "use the size"),
        (Rooms, {"agent": (5, 0)}, r"agent=\(5, 0\): Rooms shows 5 x 5 tiles, counted from \(0, 0\)"),
        (Rooms, {"max_steps": -1}, "max_steps=-1: use at least 1"),
        (Rooms, {"limit_ends": True}, "Rooms does not say when its time is up: give max_steps="),
        (Rooms, {"workers": -1}, "workers=-1: use a whole number"),
        (Rooms, {"patience": 0}, "patience=0: use a number of seconds"),
        (
            partial(Trouble, 3, "raise"),
            {"name": "trap"},
            r"trap raised RuntimeError in step\(\): the floor gave way \(rooms.py",
        ),
    ],
)
def test_refused_with_what_was_seen_and_what_to_do(make, options, said):
    with pytest.raises(UserError, match=said) as caught:
        GymWorld(make, **{"tile": 4} | options)
    assert "\n" not in str(caught.value)


class Changed(gymnasium.Wrapper):
    """Rooms with something else about it."""

    def __init__(self, reward=None, actions=None, broken=False):
        super().__init__(Rooms())
        self.reward, self.broken = reward, broken
        if actions is not None:
            self.action_space = actions

    def reset(self, **options):
        if self.broken:
            raise FileNotFoundError("no such map: castle.txt")
        return super().reset(**options)

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward if self.reward is None else self.reward, *rest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"actions": gymnasium.spaces.Box(-1, 1, (2,))}, r"actions of this environment are Box.*: use one with Discrete\(n\)"),
        ({"actions": gymnasium.spaces.MultiDiscrete([2, 2])}, "actions of this environment are MultiDiscrete"),
        ({"actions": gymnasium.spaces.Discrete(4, start=1)}, r"Discrete\(4, start=1\)"),
        ({"actions": gymnasium.spaces.Discrete(1)}, r"Discrete\(1\): use one with .* n at least 2"),
        ({"reward": float("nan")}, "gave the reward nan: it must be a finite number"),
        ({"reward": np.inf}, "gave the reward inf"),
        ({"reward": None, "broken": True}, r"raised FileNotFoundError in reset\(\): no such map: castle.txt"),
        ({"reward": "much"}, "gave the reward much"),
    ],
)
def test_actions_rewards_and_errors(change, said):
    with pytest.raises(UserError, match=said) as caught:
        GymWorld(partial(Changed, **change), 4, name="castle")
    assert "\n" not in str(caught.value)
    assert "castle" in str(caught.value) or "actions" in change


def test_what_cannot_be_made(tmp_path, monkeypatch):
    def broken():
        raise KeyError("level 7")

    with pytest.raises(UserError, match="broken cannot be made: KeyError: 'level 7'"):
        GymWorld(broken, 4)
    with pytest.raises(UserError, match=r"Gymnasium cannot make 'Nothing-v0': .*doesn't exist.*PACKAGE:ID"):
        GymWorld("Nothing-v0", 4)
    with pytest.raises(UserError, match=r"the package 'nothing_here' cannot be imported: .*; install it, or call this where"):
        registry.make("gym:nothing_here:Nothing-v0", tile=4)
    with pytest.raises(UserError, match="cannot be made so: a GymWorld has no option colour"):
        registry.make("gym:Nothing-v0", tile=4, colour=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "half_a_world.py").write_text("import nothing_there\n")
    (tmp_path / "odd_world.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match=r"'half_a_world' cannot be imported: No module named 'nothing_there'; install that"):
        by_id("half_a_world:X-v0")
    with pytest.raises(UserError, match="'odd_world' cannot be imported: ZeroDivisionError: division by zero"):
        by_id("odd_world:X-v0")
    (tmp_path / "my_rooms.py").write_text(
        "import gymnasium\ngymnasium.register('MyRooms-v0', 'tests.worlds.rooms:Rooms', max_episode_steps=9)\n"
    )
    world = registry.make("gym:my_rooms:MyRooms-v0", tile=4)
    assert (world.spec.name, world.spec.grid, world.spec.max_steps) == ("gym:my_rooms:MyRooms-v0", (5, 5), 9)
    del gymnasium.registry["MyRooms-v0"]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("name", "tile", "crop"), [("Taxi-v4", 50, (3, 3, 0, 36)), ("CartPole-v1", 50, 4 * (0,))])
def test_gymnasiums_own_that_are_not_made_of_tiles(name, tile, crop):
    pytest.importorskip("pygame")
    if name not in gymnasium.registry:
        pytest.skip(f"this Gymnasium has no {name}")
    with pytest.raises(UserError, match="not made of tiles of that size"):
        GymWorld(name, tile, picture="render", crop=crop)
    with pytest.raises(UserError, match=r"picture is an array of shape|tuple of parts"):
        GymWorld(name, tile)


def test_more_tiles_than_a_world_may_have():
    dictionary = TileDictionary((1, 1))
    for i in range(MOST):
        assert dictionary.number(np.full((1, 1, 3), i, np.uint8)) == i
    assert dictionary.number(np.full((1, 1, 3), 7, np.uint8)) == 7
    with pytest.raises(UserError, match=r"more than 255 different tiles of 1 x 1 pixels .*: the tile size is wrong, or"):
        dictionary.number(np.array([[[1, 2, 3]]], np.uint8))


def test_the_world_of_the_docs(tmp_path, monkeypatch):
    """docs/bring-your-own-world.md: its file is pasted, its fast reader is used, its names and options are there."""
    text = (Path(__file__).parents[2] / "docs" / "bring-your-own-world.md").read_text()
    package, script, reader, row = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my_package.py").write_text(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "WORLDS", [*registry.WORLDS])
    worlds = re.findall(r"protoalign (?:run|task) (gym:\S+)", text)
    assert worlds
    for name in worlds:
        assert registry.make(name).make("gym:my_package:MyWorldNew-v0").tile == (16, 16)
    names: dict[str, Any] = {}
    exec(reader + row.partition("agent =")[0], names)
    assert names["source"].reads_fast()
    assert protoalign.make("my-world", workers=2).spec.grid == (6, 6)
    compile(script, "mine.py", "exec")
    assert set(re.findall(r"pa\.(\w+)", text)) <= set(protoalign.__all__)
    table = text[text.index("## Options") : text.index("## What is refused")]
    options = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = [name for row in options for name in re.findall(r"`(\w+)", row)]
    assert set(named) == inspect.signature(GymWorld).parameters.keys() - {"name"}
    for name in ("MyWorld-v0", "MyWorldNew-v0"):
        del gymnasium.registry[name]


# -- targets ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def registered():
    """Environments under names of Gymnasium, for a while."""
    names = []

    def register(name, make, **options):
        gymnasium.register(name, make, **options)
        names.append(name)

    yield register
    for name in names:
        del gymnasium.registry[name]


def test_targets_of_other_sizes_and_targets_that_do_not_fit(registered):
    registered("Large-v0", partial(Rooms, look=1, tile=6))
    registered("Six-v0", partial(Rooms, size=6))
    registered("More-v0", partial(Changed, actions=gymnasium.spaces.Discrete(5)))
    registered("Smooth-v0", partial(Changed, actions=gymnasium.spaces.Box(-1, 1, (2,))))
    registered("Noise-v0", shown(lambda p, e: np.random.default_rng(e.time).integers(0, 256, p.shape, np.uint8)))
    world = GymWorld(Rooms, 4, looks={"bag": Bag})
    env = world.make("gym:Large-v0")
    assert (env.tile, env.observation_space.shape) == ((6, 6), (30, 30, 3))
    picture, _ = env.reset(seed=3)
    plain, _ = world.make().reset(seed=3)
    table = [TileDictionary((n, n)) for n in (4, 6)]
    np.testing.assert_array_equal(Reader(table[0])(plain), Reader(table[1])(picture), err_msg="the same game")
    for name, said in {
        "gym:More-v0": r"its actions are Discrete\(5\), in the source there are 4: use as many",
        "gym:Smooth-v0": "actions of this environment are Box",
        "gym:Six-v0": "it shows 24 x 24 pixels, which are not 5 x 5 tiles",
        "gym:Noise-v0": "not made of tiles",
        "gym:Nothing-v0": "Gymnasium cannot make",
        "bag": "dictionary of image",
        "random:x": "use random:SEED",
        "nowhere": "no look is called 'nowhere'",
    }.items():
        with pytest.raises(UserError, match=said) as caught:
            world.make(name)
        assert name in str(caught.value)
    with pytest.raises(UserError, match="cannot be made with noise"):
        world.make(noise=0.1)


def test_a_target_without_its_numbers(registered):
    registered("Plain-v0", Rooms)
    world = GymWorld(Bag, 4, picture="image", numbers=("steps", "place"))
    assert world.spec.numbers == ("number 0", "number 1", "number 2")
    with pytest.raises(UserError, match=r"'gym:Plain-v0' is no target for Bag: .* has no 'image'"):
        world.make("gym:Plain-v0")


# -- what is shown ---------------------------------------------------------------------------------------------------------


def test_pictures_from_everywhere_are_the_same():
    def framed(picture, env):
        return np.pad(picture, ((3, 1), (2, 5), (0, 0)))

    worlds = [
        GymWorld(Rooms, 4),
        GymWorld(partial(Rooms, render_mode="rgb_array"), (4, 4), picture="render"),
        GymWorld(Bag, 4, picture="image"),
        GymWorld(shown(framed), 4, crop=(3, 1, 2, 5)),
    ]
    envs = [world.make() for world in worlds]
    first = [env.reset(seed=5)[0] for env in envs]
    after = [env.step(3)[0] for env in envs]
    for env, one, two in zip(envs, first, after, strict=True):
        assert env.observation_space.contains(one)
        np.testing.assert_array_equal(one, first[0], err_msg="of its own: the environment draws over its array")
        np.testing.assert_array_equal(two, after[0])
        np.testing.assert_array_equal(env.render(), two)
    assert not np.array_equal(first[0], after[0])
    assert {world.spec.grid for world in worlds} == {(5, 5)}


def test_numbers():
    world = GymWorld(Bag, 4, picture="image", numbers=("steps", "place"))
    assert GymWorld(Bag, 4, picture="image", numbers="steps").spec.numbers == ("number 0",)
    env = world.make()
    observation, _ = env.reset(seed=5)
    assert env.observation_space.contains(observation)
    assert observation["numbers"].tolist() == [0, *env.unwrapped.place]
    assert env.step(0)[0]["numbers"].tolist() == [1, *env.unwrapped.place]
    ids, numbers = Seen(world.make("random:3"), TileDictionary(world.tile)).reset(seed=5)
    assert (ids.shape, numbers.shape) == ((5, 5), (3,))


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes")
@pytest.mark.filterwarnings("ignore:.*Box observation space (minimum|maximum) value is")
@pytest.mark.parametrize("look", ["source", "random:3"])
@pytest.mark.parametrize(("make", "options"), [(Rooms, {}), (Bag, {"picture": "image", "numbers": ("steps", "place")})])
def test_gymnasiums_own_checks(make, options, look):
    world = GymWorld(partial(make, render_mode="rgb_array"), 4, **options)
    check_env(world.make(look))


def endless(env, action=0):
    """Steps until an episode is over; a wall of the board is on the way."""
    env.reset(seed=1)
    for time in range(1, LIMIT + 2):
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            return time, terminated, truncated
    raise AssertionError


def test_time_limits(registered):
    registered("Timed-v0", Rooms, max_episode_steps=7)
    assert endless(GymWorld(Rooms, 4).make()) == (LIMIT, False, True), "it has none of its own"
    assert endless(GymWorld(Rooms, 4, max_steps=12).make()) == (12, False, True)
    timed = GymWorld("Timed-v0", 4)
    assert timed.spec.max_steps == 7
    assert endless(timed.make()) == (7, False, True)
    assert endless(GymWorld("Timed-v0", 4, max_steps=5).make()) == (5, False, True)


class Strict(Rooms):
    """Says that the episode has ended when its time is up, as MiniHack does."""

    max_steps = 6

    def step(self, action):
        observation, reward, terminated, *rest = super().step(action)
        return observation, reward, terminated or self.steps >= self.max_steps, *rest


def test_a_time_limit_that_is_called_an_end_is_corrected():
    assert endless(GymWorld(Strict, 4).make()) == (6, True, False), "as the environment says"
    world = GymWorld(Strict, 4, limit_ends=True)
    assert world.spec.max_steps == 6
    assert endless(world.make()) == (6, False, True)
    env = world.make()
    ends = set()
    for seed in range(40):  # true ends stay
        env.reset(seed=seed)
        for time in range(1, 7):
            _, _, terminated, truncated, _ = env.step(seed % 4)
            if terminated:
                assert env.unwrapped.ids().max() in (AGENT_ON_GOLD, AGENT_IN_LAVA)
                assert time < 6
            assert truncated == (time == 6 and not terminated)
            ends.add((terminated, truncated))
            if terminated:
                break
    assert ends == {(False, False), (True, False), (False, True)}


# -- ids -------------------------------------------------------------------------------------------------------------------


def test_readers_equal_a_plain_cut_in_random_play():
    world = GymWorld(Rooms, 4)
    dictionary = TileDictionary(world.tile)
    games, rng = [Reader(dictionary) for _ in range(3)], np.random.default_rng(0)
    envs = [world.make() for _ in games]
    pictures = [env.reset(seed=i)[0] for i, env in enumerate(envs)]
    table: dict[bytes, int] = {}
    over = [False for _ in envs]
    for _ in range(150):
        for reader, picture in zip(games, pictures, strict=True):
            plain = [[table.setdefault(tile.tobytes(), len(table)) for tile in row] for row in cut(picture, world.tile)]
            ids = reader(picture)
            assert ids.dtype == np.uint8
            assert ids.tolist() == plain
        for i, env in enumerate(envs):
            if over[i]:
                (pictures[i], _), over[i] = env.reset(), False
            else:
                pictures[i], _, over[i], _, _ = env.step(rng.integers(4))
    assert len(dictionary) == len(table) == 7
    again = TileDictionary(world.tile, dictionary.pictures)
    assert again.ids == dictionary.ids == table


class Quick:
    """A fast reader of Rooms: numbers pictures without drawing them."""

    def __init__(self, dictionary, lie=None, env=None):
        self.env, self.dictionary, self.lie, self.time = env or Rooms(), dictionary, lie, 0

    def _ids(self):
        ids = self.env.ids()
        if self.lie == "ids" and ids.max() == AGENT_IN_LAVA:  # only ends of some episodes are wrong
            ids[ids == AGENT_IN_LAVA] = AGENT_ON_GOLD
        numbers = np.vectorize(lambda i: self.dictionary.number(self.env.pictures[i]))(ids)
        return numbers.astype(np.uint8), np.zeros(0, np.float32)

    def reset(self, seed=None):
        self.env.reset(seed=seed)
        return self._ids()

    def step(self, action):
        _, reward, terminated, truncated, _ = self.env.step(action)
        self.time += 1
        if self.lie == "rewards":
            reward *= 2
        if self.lie == "ends":
            terminated, truncated = False, terminated
        return *self._ids(), reward, terminated, truncated


@pytest.mark.parametrize("lie", [None, "ids", "rewards", "ends"])
def test_a_fast_reader_is_used_only_if_it_shows_what_the_picture_shows(lie, capfd):
    world = GymWorld(Rooms, 4, fast=partial(Quick, lie=lie))
    game = world.game(TileDictionary(world.tile))
    assert isinstance(game, Quick if lie is None else Seen)
    said = capfd.readouterr().err
    assert said.count("the fast reader of Rooms does not show what its picture shows: it is not used") == (lie is not None)
    world.game(TileDictionary(world.tile))
    assert not capfd.readouterr().err, "it is said once"


def test_a_fast_reader_is_not_looked_at_where_there_is_none():
    world = GymWorld(Rooms, 4)
    assert not world.reads_fast()
    assert isinstance(world.game(TileDictionary(world.tile)).env, Pictured)
