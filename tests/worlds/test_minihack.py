"""MiniHack's rooms as worlds."""

import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from protoalign import UserError
from protoalign.reproduction.experiments import hosted_worlds
from protoalign.worlds import looks, make, minihack, registry
from protoalign.worlds.gym import Seen
from protoalign.worlds.tile_dictionary import TileDictionary

ROOMS = [("room-monster-5x5", 100, 8), ("keyroom-s5", 200, 10)]


def test_names_are_in_the_registry():
    for name in minihack.WORLDS:
        row = registry.row(f"minihack-{name}")
        assert registry.row(f"minihack-{name}-free") is row
        assert f"minihack-{name}" in row.examples
        assert "extra: minihack" in row.description
        assert hosted_worlds.LOOKS[f"minihack-{name}"] == 20
    with pytest.raises(UserError, match="no world is called 'minihack-sokoban'"):
        make("minihack-sokoban")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minihack", None)
    with pytest.raises(UserError) as told:
        make("minihack-keyroom-s5")
    assert str(told.value) == (
        "MiniHack is not installed: pip install 'protoalign[minihack]' in an environment of its own (it needs Gymnasium 1.2)"
    )


@pytest.fixture
def installed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pkg_resources, which MiniHack imports
        pytest.importorskip("minihack", reason="needs the extra minihack")


def moves(count, actions, seed=0):
    return [int(action) for action in np.random.default_rng(seed).integers(actions, size=count)]


def play(env, seed, actions):
    """What is seen and got from a reset with a seed on."""
    given = [env.reset(seed=seed)[0]]
    for action in actions:
        picture, *rest = env.step(action)
        given.append((picture, *rest[:3]))
        if env.over:
            given.append(env.reset()[0])
    return given


def same(one, other):
    return len(one) == len(other) and all(
        np.array_equal(a[0], b[0]) and a[1:] == b[1:] if isinstance(a, tuple) else np.array_equal(a, b)
        for a, b in zip(one, other, strict=True)
    )


needs_minihack = [
    pytest.mark.usefixtures("installed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),  # its tiles' file
    pytest.mark.parametrize(("room", "limit", "actions"), ROOMS),
]


def with_minihack(test):
    for mark in needs_minihack:
        test = mark(test)
    return test


@with_minihack
def test_episodes_follow_from_the_seed(room, limit, actions):
    env, other = (minihack.MiniHack(room) for _ in range(2))
    played = moves(450, actions)
    first = play(env, 5, played)
    assert len(first) > 452, "some episodes"
    assert same(play(env, 5, played), first)  # whatever was played before
    play(other, 6, played[:7])
    assert same(play(other, 5, played), first)
    assert not same(play(env, 6, played), first)


@with_minihack
def test_what_was_played_does_not_change_later_episodes(room, limit, actions):
    env, seen = minihack.MiniHack(room), []
    for steps in (0, 9):
        env.reset(seed=5)
        for action in moves(steps, actions):
            if not env.over:
                env.step(action)
        seen.append([env.reset()[0] for _ in range(3)])
    assert np.array_equal(*seen)
    assert not np.array_equal(seen[0][0], seen[0][1])


@with_minihack
def test_a_time_limit_is_no_end_and_the_last_picture_is_real(room, limit, actions):
    env, ends = minihack.MiniHack(room), {}
    for seed in range(30):
        before, _ = env.reset(seed=seed)
        for action in moves(limit, actions, seed):
            picture, reward, terminated, truncated, _ = env.step(action)
            if env.over:
                break
            before = picture
        assert terminated != truncated
        assert not truncated or env.inner._steps == limit
        assert reward in ((0, -0.01) if truncated else (0, 1))
        shown = looks.cut(picture, (16, 16))
        assert "rogue" in minihack._names()[shown[4, 4].tobytes()]
        if reward == 1:
            assert np.any(picture != before), "the player has come to the stairs"
        ends[terminated, reward] = True
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(0)
    assert (True, 1.0) in ends or room == "keyroom-s5"
    assert any(not terminated for terminated, _ in ends)


@with_minihack
def test_worlds_by_name(room, limit, actions):
    world = make(f"minihack-{room}")
    assert (world.spec.name, world.spec.grid, world.spec.max_steps) == (f"minihack-{room}", (9, 9), limit)
    assert world.spec.agent == (4, 4)
    assert world.spec.actions[:4] == ("n", "e", "s", "w")
    assert len(world.spec.actions) == actions
    assert isinstance(world.game(TileDictionary(world.tile)), minihack.Glyphs), "it shows what the picture shows"
    old, new = (Seen(world.make(look), TileDictionary(world.tile)) for look in ("source", "random:3"))
    np.testing.assert_array_equal(old.reset(seed=4)[0], new.reset(seed=4)[0])
    for action in moves(20, actions):
        one, other = old.step(action), new.step(action)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[2:] == other[2:]
        if one[3] or one[4]:
            break
    names = {world.truth("source", picture) for picture in old.reader.dictionary.pictures}
    assert names > {"rogue", "floor of a room", "stone"}


@with_minihack
def test_actions_that_take_no_time_may_be_free(room, limit, actions):
    envs = [minihack.MiniHack(room, free) for free in (False, True)]
    one, other = ([x[1] for x in play(env, 2, moves(300, actions)) if isinstance(x, tuple)] for env in envs)
    assert min(one) == -0.01
    assert min(other) == 0
    assert [max(reward, 0) for reward in one] == other
    assert make(f"minihack-{room}-free").spec.name == f"minihack-{room}-free"


@with_minihack
def test_gymnasiums_own_checks(room, limit, actions):
    check_env(minihack.MiniHack(room), skip_render_check=True)
    env = minihack.MiniHack(room)
    first, _ = env.reset(seed=0)
    kept = first.copy()
    play(env, 1, moves(5, actions))
    np.testing.assert_array_equal(first, kept)
    for action in (actions, -1, 0.5, None):
        with pytest.raises(UserError, match=f"is not one of 0 to {actions - 1}"):
            env.step(action)
