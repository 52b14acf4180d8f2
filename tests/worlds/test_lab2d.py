"""DeepMind Lab2D's levels as worlds."""

import sys
from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from protoalign import UserError
from protoalign.worlds import lab2d, looks, make
from protoalign.worlds.gym import Seen
from protoalign.worlds.tile_dictionary import TileDictionary

pytest.importorskip("dmlab2d", reason="needs the extra lab2d")

NAMES = {  # of sprites, in the order of their numbers
    "pushbox": ("goal", "wall", "box", "player", "goal"),  # the first with a box on it
    "chase_eat": ("wall", "pill", "food", "foe", "edible foe", "player"),
}
LEVELS = [("pushbox", 120, 7), ("chase_eat", 200, 48)]


def play(env, seed, actions):
    """What is seen and got from a reset with a seed on."""
    given = [env.reset(seed=seed)[0]]
    for action in actions:
        picture, *rest = env.step(int(action))
        given.append((picture, *rest[:3]))
        if rest[1] or rest[2]:
            given.append(env.reset()[0])
    return given


def shown(level, picture):
    """Names of what is in a picture."""
    size = lab2d.TILE[level]
    return {name(level, tile.tobytes()) for tile in looks.cut(picture, (size, size)).reshape(-1, size, size, 3)}


@cache
def name(level, tile):
    size = lab2d.TILE[level]
    return lab2d._name(level, np.frombuffer(tile, np.uint8).reshape(size, size, 3))


def moves(count, seed=0):
    return np.random.default_rng(seed).integers(4, size=count)


def same(one, other):
    return len(one) == len(other) and all(
        np.array_equal(a[0], b[0]) and a[1:] == b[1:] if isinstance(a, tuple) else np.array_equal(a, b)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize(("level", "limit", "pictures"), LEVELS)
def test_episodes_follow_from_the_seed(level, limit, pictures):
    env, other = (lab2d.Lab2d(level, limit) for _ in range(2))
    first = play(env, 5, moves(400))
    assert len(first) > 403, "some episodes"
    assert same(play(env, 5, moves(400)), first)  # whatever was played before
    play(other, 6, moves(7))
    assert same(play(other, 5, moves(400)), first)
    assert not same(play(env, 6, moves(400)), first)


@pytest.mark.parametrize(("level", "limit", "pictures"), LEVELS)
def test_what_was_played_does_not_change_later_episodes(level, limit, pictures):
    env, boards = lab2d.Lab2d(level, limit), []
    for steps in (0, 9):
        env.reset(seed=5)
        for action in moves(steps):
            if not env.over:
                env.step(int(action))
        boards.append([env.reset()[0] for _ in range(3)])
    assert np.array_equal(*boards)
    assert not np.array_equal(boards[0][0], boards[0][1])


@pytest.mark.parametrize(("level", "limit", "pictures"), LEVELS)
def test_games_side_by_side(level, limit, pictures):
    alone = [play(lab2d.Lab2d(level, limit), seed, moves(50)) for seed in (1, 2)]
    envs = [lab2d.Lab2d(level, limit) for _ in alone]
    beside = [[env.reset(seed=1 + i)[0]] for i, env in enumerate(envs)]
    for action in moves(50):
        for env, given in zip(envs, beside, strict=True):
            picture, *rest = env.step(int(action))
            given.append((picture, *rest[:3]))
            if env.over:
                given.append(env.reset()[0])
    assert all(same(*pair) for pair in zip(alone, beside, strict=True))


@pytest.mark.parametrize(("level", "limit", "pictures"), LEVELS)
def test_pictures_are_made_of_tiles(level, limit, pictures):
    env, tile = lab2d.Lab2d(level, limit), (lab2d.TILE[level],) * 2
    met, of_sprites = {}, {}
    env.reset(seed=0)
    for action in moves(10_000):
        if env.over:
            env.reset()
        env.step(int(action))
        cells = looks.cut(env.render(), tile).reshape(-1, *tile, 3)
        for cell, stack in zip(cells, env.sprites().reshape(len(cells), -1), strict=True):
            assert met.setdefault(tuple(stack), cell.tobytes()) == cell.tobytes()
            of_sprites[cell.tobytes()] = stack
    assert len(of_sprites) == pictures < 255
    for picture, stack in of_sprites.items():
        tile_picture = np.frombuffer(picture, np.uint8).reshape(*tile, 3)
        assert lab2d._name(level, tile_picture) == named(level, stack)


def named(level, stack):
    """What lies in a cell, by its sprites, the lowest first."""
    things = [(NAMES[level][(n - 1) // 4], "^>v<"[(n - 1) % 4]) for n in stack if n]
    things = things if level == "pushbox" else things[::-1]
    headed = level == "chase_eat" and things and things[0][0] in lab2d.HEADED
    names = [thing for thing, _ in things]
    return " on ".join([f"{names[0]} {things[0][1]}", *names[1:]] if headed else names) or "empty"


def test_pushbox_ends_when_all_boxes_are_on_goals():
    env, ends = make("lab2d-pushbox-b1-6x6").make(), set()
    env.reset(seed=0)
    for action in moves(3000):
        picture, reward, terminated, truncated, _ = env.step(int(action))
        assert terminated == ("box on goal" in shown("pushbox", picture))
        assert reward == pytest.approx(10.9 if terminated else -0.1)
        assert truncated == (not terminated and env.time == 120)
        ends |= {(terminated, truncated)}
        if terminated or truncated:
            env.reset()
    assert len(ends) == 3


def test_chase_eat_ends_with_the_foe():
    env, ends, met = lab2d.Lab2d("chase_eat", 30), set(), 0
    assert float(env.game.read_property("settings.foe.numIncrease")) == 0  # dmlab2d crashes with more than one foe
    env.reset(seed=0)
    for action in moves(3000):
        picture, reward, terminated, truncated, _ = env.step(int(action))
        caught = any(what.startswith("foe") and what.endswith("on player") for what in shown("chase_eat", picture))
        assert terminated or not caught  # one that was met may have gone on in the same step
        met += caught
        assert truncated == (not terminated and env.time == 30)
        assert reward in (0, 1, 2, 5, 6, 7)
        ends |= {(terminated, truncated)}
        if env.over:
            with pytest.raises(gymnasium.error.ResetNeeded):
                env.step(0)
            env.reset()
    assert len(ends) == 3
    assert met > 10


@pytest.mark.parametrize(
    ("name", "grid", "limit"),
    [
        ("lab2d-pushbox", (10, 10), 120),
        ("lab2d-pushbox-b2", (10, 10), 120),
        ("lab2d-pushbox-8x8", (8, 8), 120),
        ("lab2d-pushbox-b1-7x7", (7, 7), 120),
        ("lab2d-chase-eat", (9, 9), 200),
    ],
)
def test_worlds_by_name(name, grid, limit):
    world = make(name)
    assert (world.spec.name, world.spec.grid, world.spec.max_steps) == (name, grid, limit)
    assert world.spec.actions == ("north", "east", "south", "west")
    dictionary = TileDictionary(world.tile)
    assert isinstance(world.game(dictionary), lab2d.Board), "it shows what the picture shows"
    old, new = (Seen(world.make(look), TileDictionary(world.tile)) for look in ("source", "random:3"))
    np.testing.assert_array_equal(old.reset(seed=4)[0], new.reset(seed=4)[0])
    for action in moves(20):
        one, other = old.step(int(action)), new.step(int(action))
        np.testing.assert_array_equal(one[0], other[0])
        assert one[2:] == other[2:]
        if one[3] or one[4]:
            break
    assert old.reader.dictionary.pictures.tobytes() != new.reader.dictionary.pictures.tobytes()


@pytest.mark.parametrize(("level", "limit", "pictures"), LEVELS)
def test_gymnasiums_own_checks(level, limit, pictures):
    check_env(lab2d.Lab2d(level, limit), skip_render_check=True)
    env = lab2d.Lab2d(level, limit)
    first, _ = env.reset(seed=0)
    kept = first.copy()
    play(env, 1, moves(5))
    np.testing.assert_array_equal(first, kept)


def test_mistakes_are_told(monkeypatch):
    with pytest.raises(UserError, match="1 to 4 boxes, and 6 to 10 rows"):
        lab2d.pushbox(boxes=5)
    with pytest.raises(UserError, match="max_steps=0: use at least 1"):
        lab2d.Lab2d("chase_eat", 0)
    env = lab2d.Lab2d("pushbox", 120)
    env.reset(seed=0)
    for action in (4, -1, 0.5, None):
        with pytest.raises(UserError, match="is not one of 0 to 3"):
            env.step(action)
    monkeypatch.setitem(sys.modules, "dmlab2d", None)
    with pytest.raises(UserError, match=r"pip install 'protoalign\[lab2d\]'"):
        make("lab2d-pushbox")
