"""Environments of tiles in another look."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import RecordConstructorArgs
from gymnasium.utils.env_checker import check_env
from PIL import Image

from protoalign import UserError
from protoalign.perception import layers
from protoalign.perception.tiles import join
from protoalign.worlds import looks, make
from protoalign.worlds.reskin import Reskin, mark

GRASS, SAND, COW, TREE, WALL = range(5)


def pictures(tile=(8, 8), kinds=5):
    """[kinds, h, w, 3]; things are on grass."""
    h, w = tile
    table = np.random.default_rng(7).integers(0, 256, (kinds, h, w, 3), np.uint8)
    for thing in (COW, TREE):
        table[thing] = on(table, thing, GRASS)
    return table


def on(table, thing, ground):
    """A thing that covers the middle rows, laid over a ground: [h, w, 3]."""
    half = table.shape[1] // 2
    picture = table[ground].copy()
    picture[half - thing // 2 :][:half] = table[thing, half - thing // 2 :][:half]
    return picture


class Board(gymnasium.Env):
    """A cow walks on a board of random grounds."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, tile=(8, 8), kinds=5, numbers=False, grid=(6, 7), render_mode=None, zoom=1):
        self.tile, self.table, self.grid, self.zoom, self.render_mode = tile, pictures(tile, kinds), grid, zoom, render_mode
        self.action_space = gymnasium.spaces.Discrete(4)
        shape = (grid[0] * tile[0], grid[1] * tile[1], 3)
        view = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        clock = gymnasium.spaces.Box(0, np.inf, (1,), np.float32)
        self.numbers = numbers
        self.observation_space = gymnasium.spaces.Dict({"view": view, "clock": clock}) if numbers else view
        self.buffer = np.zeros(shape, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cells = self.np_random.integers(0, len(self.table), self.grid)
        self.place, self.time = [0, 0], 0
        return self._seen(), {}

    def step(self, action):
        self.time += 1
        axis, way = divmod(int(action), 2)
        self.place[axis] = (self.place[axis] + 2 * way - 1) % self.grid[axis]
        if self.time % 3 == 0:
            self.cells[tuple(self.np_random.integers(0, self.grid))] = self.np_random.integers(len(self.table))
        return self._seen(), 0.0, self.time % 50 == 0, False, {}

    def picture(self):
        cells = self.cells.copy()
        cells[tuple(self.place)] = COW
        return looks.render(self.table, cells)

    def _seen(self):
        self.buffer[:] = self.picture()  # the same array for every frame
        return {"view": self.buffer, "clock": np.array([self.time], np.float32)} if self.numbers else self.buffer

    def render(self):
        return self.picture().repeat(self.zoom, 0).repeat(self.zoom, 1)


class Fixed(gymnasium.Env):
    """Shows the tiles [H, W, h, w, 3] it is told to."""

    def __init__(self, tiles):
        self.tiles, self.tile = tiles, tiles.shape[2:4]
        self.observation_space = gymnasium.spaces.Box(0, 255, join(tiles).shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return join(self.tiles), {}

    def step(self, action):
        return join(self.tiles), 0.0, False, False, {}


class CopyOf(gymnasium.ObservationWrapper):
    """Observations of an environment that gives the same array every time."""

    def observation(self, observation):
        return copy.deepcopy(observation)


class Pictures(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """MiniGrid seen as a whole, without the highlight."""

    def __init__(self, env, tile=8):
        RecordConstructorArgs.__init__(self, tile=tile)
        super().__init__(env)
        self.tile = tile
        grid = env.unwrapped
        self.observation_space = gymnasium.spaces.Box(0, 255, (grid.height * tile, grid.width * tile, 3), np.uint8)

    def observation(self, observation):
        grid = self.env.unwrapped
        return grid.grid.render(self.tile, grid.agent_pos, grid.agent_dir, highlight_mask=None)


def minigrid(**options):
    pytest.importorskip("minigrid")
    return Pictures(gymnasium.make("MiniGrid-DoorKey-6x6-v0", **options))


def play(env, seed=0, steps=120, actions=0):
    """What is seen in some games."""
    rng = np.random.default_rng(actions)
    new, _ = env.reset(seed=seed)
    seen = [new]
    for _ in range(steps):
        new, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        seen.append(new)
        if terminated or truncated:
            seen.append(env.reset()[0])
    return seen


def names(pictures, tile):
    """The bytes of tiles, in order."""
    return [x.tobytes() for picture in pictures for row in looks.cut(picture, tile) for x in row]


ENVIRONMENTS = [Board, lambda: Board((4, 6)), lambda: Board((2, 3)), minigrid]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_tile_has_one_picture_of_its_own(environment):
    env = Reskin(environment(), seed=1)
    old = play(CopyOf(environment()))
    new = play(env)
    pairs = set(zip(names(old, env.tile), names(new, env.tile), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(env.looks) >= 5
    assert all(env.looks[a].tobytes() == b for a, b in pairs)
    assert all(a != b for a, b in pairs)
    assert all(env.observation_space.contains(picture) for picture in new)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_pictures_depend_on_the_seed_and_the_tile_alone(environment):
    one, other = Reskin(environment(), seed=4), Reskin(environment(), seed=4)
    play(one, 0), play(other, 5, actions=1)
    both = one.looks.keys() & other.looks.keys()
    assert len(both) >= 5
    assert list(one.looks) != list(other.looks), "met in another order"
    assert all((one.looks[name] == other.looks[name]).all() for name in both)
    third = Reskin(environment(), seed=5)
    play(third, 0)
    assert third.looks.keys() == one.looks.keys()
    assert all((one.looks[name] != third.looks[name]).any() for name in one.looks)


def test_pictures_are_as_ever():
    """They depend on no random number generator, whose numbers another version might change."""
    env = Reskin(Fixed(np.zeros((1, 1, 4, 4, 3), np.uint8)), seed=3)
    assert env.reset()[0][0].tolist() == [[118, 95, 249], [100, 54, 232], [122, 18, 12], [121, 226, 51]]


def test_random_pictures_are_far_apart():
    tiles = np.random.default_rng(0).integers(0, 256, (10, 10, 8, 8, 3), np.uint8)
    env = Reskin(Fixed(tiles))
    env.reset()
    new = np.stack(list(env.looks.values())).astype(int).reshape(100, -1)
    apart = abs(new[:, None] - new).mean(-1) + 255 * np.eye(100)
    assert apart.min() > looks.APART
    blocks = new.reshape(100, 4, 2, 4, 2, 3)
    assert (blocks == blocks[:, :, :1, :, :1]).all(), "4 x 4 blocks of colour"


def test_pictures_that_turn_out_equal_are_drawn_again():
    tiles = np.stack(np.unravel_index(np.arange(40_000), (256, 256, 256)), -1).reshape(200, 200, 1, 1, 3).astype(np.uint8)
    env = Reskin(Fixed(tiles))
    seen, _ = env.reset()
    assert len(np.unique(seen.reshape(-1, 3), axis=0)) == 40_000


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_origin_is_the_way_back(environment):
    env = Reskin(environment(), seed=2)
    old, new = play(CopyOf(environment())), play(env)
    for a, b in zip(old, new, strict=True):
        back = [[env.origin(tile) for tile in row] for row in looks.cut(b, env.tile)]
        np.testing.assert_array_equal(join(np.array(back)), a)
    assert env.origin(np.zeros((*env.tile, 3), np.uint8)) is None
    assert env.origin(np.zeros((1, 1, 3), np.uint8)) is None
    env.origin(looks.cut(new[0], env.tile)[0, 0])[:] = 0
    np.testing.assert_array_equal(env.origin(looks.cut(new[0], env.tile)[0, 0]), looks.cut(old[0], env.tile)[0, 0])


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_what_has_not_changed_is_not_drawn_wrong(environment):
    env = Reskin(environment(), seed=6)
    for old, new in zip(play(CopyOf(environment()), steps=300), play(env, steps=300), strict=True):
        fresh = Reskin(Fixed(looks.cut(old, env.tile)), seed=6)
        np.testing.assert_array_equal(fresh.reset()[0], new)


def test_observations_are_the_callers_own():
    env, other = Reskin(Board()), Reskin(Board())
    first, _ = env.reset(seed=0)
    other.reset(seed=0)
    first[:] = 0
    np.testing.assert_array_equal(env.step(1)[0], other.step(1)[0])
    with pytest.raises(ValueError, match="read-only"):
        next(iter(env.looks.values()))[:] = 0


def test_dicts():
    env, plain = Reskin(Board(numbers=True), seed=1), Reskin(Board(), seed=1)
    assert isinstance(env.observation_space, gymnasium.spaces.Dict)
    for seen, picture in zip(play(env), play(plain), strict=True):
        assert env.observation_space.contains(seen)
        np.testing.assert_array_equal(seen["view"], picture)
    assert [seen["clock"].item() for seen in play(env, steps=3)] == [0, 1, 2, 3]


def test_a_world_of_this_package():
    world = make("hunter-z1c1")
    env = Reskin(world.make("source"), tile=8, seed=1)
    seen, info = env.reset(seed=0)
    kinds = {}
    for tile, kind in zip(names([seen], 8), info["categories"].reshape(-1), strict=True):
        assert kinds.setdefault(tile, kind) == kind
    assert len(kinds) == len(np.unique(info["categories"]))


def test_size_of_tiles():
    assert Reskin(Board((4, 6))).tile == (4, 6)
    assert Reskin(Reskin(Board((4, 6)))).tile == (4, 6), "of the innermost environment"
    assert Reskin(minigrid(), tile=4).tile == (4, 4)
    assert Reskin(Board(), tile=np.int64(2)).tile == (2, 2)
    assert Reskin(Board((4, 6)), tile=[2, 3]).tile == (2, 3)


# -- folders and mappings --------------------------------------------------------------------------------------------------


def test_folder(tmp_path):
    table = pictures((4, 6))
    drawn = np.random.default_rng(0).integers(0, 256, (4, 6, 4), np.uint8)
    drawn[..., 3] = np.where(drawn[..., 3] < 128, 0, 255)
    Image.fromarray(drawn[..., :3]).save(tmp_path / f"{mark(table[SAND])}.png")
    Image.fromarray(drawn).save(tmp_path / f"{mark(table[COW])}.png")
    Image.fromarray(drawn[:2]).save(tmp_path / "preview.png")
    for folder in (tmp_path, str(tmp_path)):
        env = Reskin(Board((4, 6)), look=folder)
        play(env)
        assert len(env.looks) == 5
        np.testing.assert_array_equal(env.looks[table[SAND].tobytes()], drawn[..., :3])
        np.testing.assert_array_equal(env.looks[table[COW].tobytes()], drawn[..., :3] * (drawn[..., 3:] > 0))
        for kind in (GRASS, TREE, WALL):
            np.testing.assert_array_equal(env.looks[table[kind].tobytes()], table[kind])
        np.testing.assert_array_equal(env.origin(drawn[..., :3]), table[SAND])


def test_folders_that_do_not_fit(tmp_path):
    with pytest.raises(UserError, match="has no picture of any tile"):
        Reskin(Board(), look=tmp_path)
    file = tmp_path / f"{mark(pictures()[0])}.png"
    Image.fromarray(np.zeros((8, 9, 3), np.uint8)).save(file)
    with pytest.raises(UserError, match=rf"{file.name} has 8 x 9 pixels: a tile has 8 x 8"):
        Reskin(Board(), look=tmp_path)
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(file)
    with pytest.raises(UserError, match=rf"{file.name} is not a readable picture"):
        Reskin(Board(), look=tmp_path)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(file)
    whole = file.read_bytes()
    for damaged in (b"", b"no picture", whole[:40], whole[:-30]):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match=rf"{file.name} is not a readable picture"):
            Reskin(Board(), look=tmp_path)


@pytest.mark.parametrize("tile", [(8, 8), (3, 5), (16, 12)])
def test_mapping(tile):
    old, new = pictures(), np.random.default_rng(1).integers(0, 256, (5, *tile, 3), np.uint8)
    env = Reskin(Board(render_mode="rgb_array"), look={a.tobytes(): b for a, b in zip(old, new, strict=True)})
    assert env.tile == tile
    assert env.observation_space.shape == (6 * tile[0], 7 * tile[1], 3)
    for seen in play(env):
        assert env.observation_space.contains(seen)
    np.testing.assert_array_equal(seen, env.render())
    cells = env.unwrapped.cells.copy()
    cells[tuple(env.unwrapped.place)] = COW
    np.testing.assert_array_equal(seen, looks.render(new, cells))
    np.testing.assert_array_equal(env.origin(new[TREE]), old[TREE])


def test_mappings_that_do_not_fit():
    old = pictures()
    env = Reskin(Board(), look={old[GRASS].tobytes(): old[SAND]})
    for _ in range(2):
        with pytest.raises(UserError, match="the mapping has no picture for the tile with the mark"):
            env.reset(seed=0)
    name = old[0].tobytes()
    for look, problem in [
        ({}, "is empty"),
        ({name[:-1]: old[0]}, "the bytes of tiles of 8 x 8"),
        ({mark(old[0]): old[0]}, "the bytes of tiles of 8 x 8"),
        ({name: old[0].astype(float)}, "must be uint8"),
        ({name: old[0, ..., 0]}, r"must have shape \[height, width, 3\]"),
        ({name: old}, "of one size"),
        ({name: old[0], old[1].tobytes(): old[1, :4]}, r"of one size.*\(4, 8, 3\) and \(8, 8, 3\)"),
        ({name: old[0, :0]}, "no pixels"),
    ]:
        with pytest.raises(UserError, match=problem):
            Reskin(Board(), look=look)


def test_marks():
    tile = pictures()[0]
    assert mark(tile) == mark(tile[:, ::-1][:, ::-1]) != mark(tile[::-1])
    assert len(mark(tile)) == 16
    assert mark(np.zeros((2, 2, 3), np.uint8)) == "24f29c3559b2b01f"


# -- things over grounds ---------------------------------------------------------------------------------------------------


def grounds_and_things(tile):
    """A frame [H, W, h, w, 3] of two grounds with two things on both, the tiles by (thing, ground), and the table."""
    table = pictures(tile)
    tiles = {(thing, ground): on(table, thing, ground) for thing in (COW, TREE) for ground in (GRASS, SAND)}
    frame = np.stack([np.stack([table[GRASS]] * 4 + [table[SAND]] * 3)] * 4)
    for row, (_, picture) in enumerate(tiles.items()):
        frame[row, 3 * (row % 2)] = picture
    return frame, tiles, table


@pytest.mark.parametrize("tile", [(8, 8), (5, 6), (16, 16)])
def test_things_look_the_same_on_all_grounds(tile):
    frame, tiles, table = grounds_and_things(tile)
    env = Reskin(Fixed(frame), seed=3, over_ground=True)
    seen, _ = env.reset()
    new = {key: env.looks[picture.tobytes()].astype(int) for key, picture in tiles.items()}
    ground = {kind: env.looks[table[kind].tobytes()].astype(int) for kind in (GRASS, SAND)}
    masks = {}
    for thing in (COW, TREE):
        covers = [(new[thing, kind] != ground[kind]).any(-1) for kind in (GRASS, SAND)]
        np.testing.assert_array_equal(*covers)
        np.testing.assert_array_equal(new[thing, GRASS][covers[0]], new[thing, SAND][covers[0]])
        assert 0.25 < covers[0].mean() < 0.75
        masks[thing] = covers[0]
    assert (masks[COW] != masks[TREE]).any()
    plain = Reskin(Fixed(frame), seed=3)
    plain.reset()
    for kind in (GRASS, SAND):
        np.testing.assert_array_equal(ground[kind], plain.looks[table[kind].tobytes()])
    found = layers.group(np.stack(list(env.looks.values())))
    order = list(env.looks)
    assert found.ground.sum() == 2
    for thing in (COW, TREE):
        assert len({found.group[order.index(tiles[thing, kind].tobytes())] for kind in (GRASS, SAND)}) == 1
    assert len({tile.tobytes() for tile in env.looks.values()}) == 6
    np.testing.assert_array_equal(env.origin(looks.cut(seen, tile)[0, 0]), frame[0, 0])


def test_things_met_before_their_ground_are_drawn_plainly():
    frame, tiles, _ = grounds_and_things((8, 8))
    cow = tiles[COW, GRASS]
    env = Reskin(Fixed(frame), over_ground=True)
    first = np.broadcast_to(255 - cow, frame.shape).copy()
    first[0, 0] = cow
    env.env.tiles = first
    env.reset()
    plain = Reskin(Fixed(first))
    plain.reset()
    early = env.looks[cow.tobytes()].copy()
    np.testing.assert_array_equal(early, plain.looks[cow.tobytes()])
    env.env.tiles = frame
    env.reset()
    np.testing.assert_array_equal(env.looks[cow.tobytes()], early)
    assert len({tile.tobytes() for tile in env.looks.values()}) == len(env.looks)


def test_a_thing_that_is_everywhere_is_no_ground():
    frame, tiles, table = grounds_and_things((8, 8))
    frame[:2, 1] = frame[:2, 2] = tiles[TREE, GRASS]  # five trees
    env = Reskin(Fixed(frame), over_ground=True)
    env.reset()
    tree, grass = (env.looks[x.tobytes()] for x in (tiles[TREE, GRASS], table[GRASS]))
    assert 0.25 < (tree == grass).all(-1).mean() < 0.75


def test_minigrid_over_its_floor():
    env = Reskin(minigrid(), over_ground=True, seed=1)
    play(env, steps=200)
    assert len({tile.tobytes() for tile in env.looks.values()}) == len(env.looks)
    draw = env.unwrapped.grid.render_tile
    floor, *agents = (draw(None, agent_dir=way, tile_size=8).astype(np.uint8).tobytes() for way in (None, 0, 1, 2, 3))
    for agent in agents:
        assert (env.looks[agent] == env.looks[floor]).all(-1).mean() == 0.5


# -- as an environment -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.filterwarnings("ignore:The system font")  # of MiniGrid's window
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes")
@pytest.mark.parametrize("environment", [lambda: minigrid(render_mode="rgb_array"), lambda: Board(render_mode="rgb_array")])
@pytest.mark.parametrize("over_ground", [False, True])
def test_gymnasiums_own_checks(environment, over_ground):
    env = Reskin(environment(), over_ground=over_ground)
    check_env(env)
    env.close()


def test_made_again_from_its_spec():
    env = Reskin(minigrid(), seed=5)
    again = env.spec.make()
    np.testing.assert_array_equal(env.reset(seed=0)[0], again.reset(seed=0)[0])
    again.close()


def test_render():
    env = Reskin(Board(render_mode="rgb_array"), seed=1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()
    seen = play(env, steps=5)[-1]
    np.testing.assert_array_equal(env.render(), seen)
    env.unwrapped.cells[:] = WALL
    assert (env.render() != seen).any(), "what the environment shows now"
    large = Reskin(Board(render_mode="rgb_array", zoom=2), seed=1)
    seen = play(large, steps=5)[-1]
    shown = large.render()
    np.testing.assert_array_equal(shown, seen)
    shown[:] = 0
    np.testing.assert_array_equal(large.render(), seen)


def test_kept_and_gone_on_with():
    env = Reskin(Board(), seed=1)
    env.reset(seed=0)
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        np.testing.assert_array_equal(other.step(1)[0], copy.deepcopy(env).step(1)[0])


def test_wrong_use():
    class Fewer(Board):
        """Shows other pictures than it says."""

        def _seen(self):
            return self.wrong

    board = Board()
    del board.tile
    with pytest.raises(UserError, match="pass tile="):
        Reskin(board)
    for options, problem in [
        ({"seed": -1}, "seed=-1 is not a whole number"),
        ({"seed": 0.5}, "seed=0.5 is not a whole number"),
        ({"tile": 0}, "tile=0 is not a whole number of pixels"),
        ({"tile": "8"}, "tile='8' is not a whole number of pixels"),
        ({"tile": (8, 8, 3)}, "or two of them"),
        ({"tile": 5}, "48 x 56 pixels cannot be cut into tiles of 5 x 5"),
        ({"look": "rnadom"}, "no look is called 'rnadom': use random, a folder"),
        ({"look": ""}, "no look is called ''"),
        ({"look": "x" * 5000}, "no look is called 'xxx"),
        ({"look": "a\0b"}, "no look is called"),
        ({"look": "~nobody-of-this-name/x"}, "no look is called"),
        ({"look": 3}, "no look is called '3'"),
        ({"look": {}, "over_ground": True}, "for look='random' only"),
    ]:
        with pytest.raises(UserError, match=problem) as error:
            Reskin(Board(), **options)
        assert "\n" not in str(error.value)
    for space in (
        gymnasium.spaces.Discrete(3),
        gymnasium.spaces.Box(0, 1, (16, 16, 3), np.float32),
        gymnasium.spaces.Box(0, 255, (16, 16, 1), np.uint8),
        gymnasium.spaces.Dict({"picture": gymnasium.spaces.Box(0, 255, (16, 16, 3), np.uint8)}),
    ):
        board = Board()
        board.observation_space = space
        with pytest.raises(UserError, match="observations must be pictures"):
            Reskin(board)
    env = Reskin(Fewer())
    for wrong, problem in [
        (np.zeros((48, 56, 3)), "must be uint8"),
        (np.zeros((48, 56), np.uint8), "must have shape"),
        (np.zeros((2, 48, 56, 3), np.uint8), "must have shape"),
        (np.zeros((47, 56, 3), np.uint8), "cannot be cut into tiles"),
    ]:
        env.unwrapped.wrong = wrong
        with pytest.raises(UserError, match=problem):
            env.reset()
