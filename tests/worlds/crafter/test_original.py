import copy
import hashlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import crafter
import gymnasium
import numpy as np
import pytest
from crafter import engine, objects
from gymnasium.utils.env_checker import check_env

import protoalign
from protoalign.worlds import looks
from protoalign.worlds.crafter import art
from protoalign.worlds.crafter.names import CATEGORY_NAMES, MATERIALS, NUMBER_NAMES
from protoalign.worlds.crafter.original import CrafterEnv

NOOP, LEFT, RIGHT, UP, DOWN, DO, SLEEP = range(7)
GRASS, PATH, LAVA = (MATERIALS.index(name) for name in ("grass", "path", "lava"))
MEADOW = np.full((64, 64), GRASS, np.uint8)


def same(one, other):
    """Are two observations, infos or results of a step alike in everything?"""
    return gymnasium.utils.env_checker.data_equivalence(one, other, exact=True)


def fingerprint(seed, steps=500):
    """Of all that happens in some games, near and far; the player is kept alive so that nights come."""
    env = CrafterEnv(obs="categories", length=400)
    env.reset(seed=seed)
    rng = np.random.default_rng(0)
    digest = hashlib.sha256()
    for _ in range(steps):
        env.game._player.health = 9
        observation, reward, terminated, truncated, _ = env.step(rng.integers(1, 5))
        where = [(type(thing).__name__, *map(int, thing.pos)) for thing in env.game._world.objects]
        digest.update(repr((observation["view"].tobytes(), reward, where)).encode())
        if terminated or truncated:
            env.reset()
    return digest.hexdigest()


def tour(env, steps=400):
    """A game at many places, with all there is to see: the player is moved about, kept alive and given things to place."""
    rng = np.random.default_rng(1)
    for step in range(steps):
        world, player = env.game._world, env.game._player
        if step % 8 == 0:
            beasts = [thing for thing in world.objects if isinstance(thing, objects.Skeleton | objects.Zombie)]
            centre = beasts[rng.integers(len(beasts))].pos if step % 16 else rng.integers(0, 64, 2)
            free = np.argwhere((world._obj_map == 0) & np.isin(world._mat_map, [GRASS, PATH]))
            near = free[abs(free - centre).sum(1) < 12]
            if len(near):
                world.move(player, near[rng.integers(len(near))])
            for thing in world.objects:
                if isinstance(thing, objects.Plant):
                    thing.grown = 301
            player.inventory.update(dict.fromkeys(player.inventory, 5))
            player.sleeping = False
        player.health = 9
        observation, _, terminated, _, info = env.step(rng.integers(17))
        yield observation, info
        if terminated:
            env.reset()


@pytest.mark.parametrize("arguments", [{}, {"obs": "categories"}, {"night": True, "appearance": "target"}])
def test_gymnasiums_own_checks(arguments):
    env = gymnasium.make("protoalign/Crafter-v0", render_mode="rgb_array", **arguments)
    check_env(env.unwrapped)
    env.close()


def test_seeds_repeat_in_every_process():
    here = fingerprint(5)
    assert here != fingerprint(6)
    command = "from tests.worlds.crafter.test_original import fingerprint; print(fingerprint(5))"
    there = subprocess.run(
        [sys.executable, "-c", command],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONHASHSEED": "7", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here


def test_resets_go_on_with_the_next_episode():
    first, second = CrafterEnv(obs="categories"), CrafterEnv(obs="categories")
    starts = [env.reset(seed=seed) for env in (first, second) for seed in (3, None)]
    assert same(starts[0], starts[2])
    assert same(starts[1], starts[3])
    assert not same(starts[0], starts[1])
    assert same(first.reset(seed=3), starts[0])
    maps = []
    for env in (first, CrafterEnv(obs="categories"), CrafterEnv(obs="categories")):
        env.reset()
        maps.append(env.game._world._mat_map.copy())
    assert (maps[1] != maps[2]).any(), "without a seed it is random"


def test_games_can_be_kept_and_gone_on_with():
    env = CrafterEnv(night=True)
    env.reset(seed=3)
    for _ in range(120):
        env.step(NOOP)
    kept = pickle.loads(pickle.dumps(env))
    assert all(same(env.step(1 + step % 4), kept.step(1 + step % 4)) for step in range(40))
    assert same(env.reset(), kept.reset())


def test_the_game_is_the_originals():
    env, original = CrafterEnv(obs="categories"), crafter.Env(seed=11)
    env.reset(seed=11)
    original.reset()
    for action in (DO, RIGHT, RIGHT, DOWN, DO, UP, LEFT, LEFT, SLEEP):  # before the first creature is removed out of a set
        observation, reward, terminated, truncated, info = env.step(action)
        _, their_reward, their_end, theirs = original.step(action)
        assert (reward, terminated or truncated) == (their_reward, their_end)
        assert info["achievements"] == theirs["achievements"]
        assert info["player"] == tuple(theirs["player_pos"][::-1])
        assert observation["numbers"][:-1].tolist() == list(theirs["inventory"].values())
        assert NUMBER_NAMES[:-1] == tuple(theirs["inventory"])
        assert observation["numbers"][-1] == pytest.approx(original._world.daylight)
        np.testing.assert_array_equal(env.game._world._mat_map, original._world._mat_map)
        np.testing.assert_array_equal(env.game._world._obj_map, original._world._obj_map)


@pytest.mark.parametrize("look", ["source", "target"])
def test_what_is_seen(look):
    """Picture ids drawn, the view and the original agree to the pixel, and the categories with the original's own."""
    env = CrafterEnv(appearance=look)
    env.reset(seed=2)
    pictures = art.pictures(look)
    theirs = env.game._local_view  # the original's view with the original's pictures, but for night and sleep
    theirs._light = lambda canvas, daylight: canvas
    theirs._sleep = lambda canvas: canvas
    classes = (objects.Player, objects.Cow, objects.Zombie, objects.Skeleton, objects.Arrow, objects.Plant)
    kinds = [*MATERIALS, "player", "cow", "zombie", "skeleton", "arrow", "plant"]
    label_of = np.array([kinds.index(name.split("-")[0]) for name in CATEGORY_NAMES])
    semantic = engine.SemanticView(env.game._world, classes)
    redrawn = [CATEGORY_NAMES.index(name) for name in art.ART.redrawn if look == "target"]
    seen = set()
    for observation, info in tour(env):
        if env.things()[1][3, 4] != LAVA:  # where the player is dead
            np.testing.assert_array_equal(observation["view"], looks.render(pictures, env.ids()))
        original = env.game.render((72, 72))[:56]
        other = np.isin(info["categories"], redrawn).repeat(8, 0).repeat(8, 1)
        np.testing.assert_array_equal(observation["view"][~other], original[~other])
        assert (observation["view"][other] != original[other]).any() or not other.any()
        row, column = info["player"]
        labels = np.pad(semantic().T, 4)[row + 1 : row + 8, column : column + 9]
        np.testing.assert_array_equal(labels, label_of[info["categories"]])
        assert CATEGORY_NAMES[info["categories"][3, 4]].startswith("player-")
        seen |= {art.THINGS[i] for i in env.things()[0].flat}
    missing = {"outside", *art.KINDS} - seen
    assert not missing, "the tour shows everything there is"


def test_by_day_it_is_the_originals_own_picture():
    env = CrafterEnv(night=True)
    env.reset(seed=2, options={"creatures": False})
    for step in range(60):
        observation, *_ = env.step(1 + step % 4)
    assert observation["numbers"][-1] == 1, "noon"
    np.testing.assert_array_equal(observation["view"], env.game.render((72, 72))[:56])


def test_night_is_seen_and_changes_nothing():
    clean, dark = CrafterEnv(), CrafterEnv(night=True, render_mode="rgb_array")
    for env in (clean, dark):
        env.reset(seed=4)
    change = []
    for step in range(210):
        clean.game._player.health = dark.game._player.health = 9
        (a, *happened), (b, *alike) = (env.step(1 + step % 4) for env in (clean, dark))
        assert same(tuple(happened), tuple(alike))
        np.testing.assert_array_equal(a["numbers"], b["numbers"])
        change.append(abs(a["view"].astype(int) - b["view"]).mean())
        dark.render()
    assert change[59] == 0, "noon"
    assert change[-1] > 30
    world, player = dark.game._world, dark.game._player
    for player.sleeping in (False, True):
        dark.view.random = copy.deepcopy(world.random)  # with the game's random numbers the noise is the original's, too
        np.testing.assert_array_equal(dark.view.draw(player), dark.game.render((72, 72))[:56])
    np.testing.assert_array_equal(clean.view.draw(clean.game._player), a["view"])


def test_nights_repeat():
    views = []
    for _ in range(2):
        env = CrafterEnv(night=True)
        env.reset(seed=4, options={"world": MEADOW})
        env.game._step = 200
        views.append(env.step(NOOP)[0]["view"])
    np.testing.assert_array_equal(*views)


def test_categories_alone_draw_nothing(monkeypatch):
    env = CrafterEnv(obs="categories")
    monkeypatch.setattr(engine.LocalView, "__call__", None)
    observation, info = env.reset(seed=0)
    for _ in range(12):
        np.testing.assert_array_equal(observation["view"], info["categories"])
        observation, *_, info = env.step(DO)


def test_how_episodes_end():
    env = CrafterEnv(obs="categories", length=50)
    world = MEADOW.copy()
    world[34, 32] = LAVA  # two rows down
    env.reset(seed=0, options={"world": world})
    ends = [env.step(NOOP)[2:4] for _ in range(50)]
    assert ends == 49 * [(False, False)] + [(False, True)]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(NOOP)

    _, info = env.reset(options={"world": world})
    assert CATEGORY_NAMES[info["categories"][5, 4]] == "lava"
    assert env.step(DOWN)[2:4] == (False, False)
    _, reward, *end, info = env.step(DOWN)
    assert (reward, end, info["player"]) == (-0.9, [True, False], (34, 32))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(NOOP)

    env.reset(options={"world": world})
    for _ in range(49):
        env.step(NOOP)
    env.game._player.health = 0
    assert env.step(NOOP)[2:4] == (True, False), "dead on the last step is dead"


def test_a_given_world():
    world = np.random.default_rng(0).integers(1, len(MATERIALS), (64, 64))
    env = CrafterEnv(obs="categories")
    observation, info = env.reset(seed=0, options={"world": world})
    assert info["player"] == (32, 32)
    expected = world[29:36, 28:37].copy()
    expected[3, 4] = CATEGORY_NAMES.index("player-down")
    np.testing.assert_array_equal(observation["view"], expected)


def test_worlds_without_creatures():
    env, other = CrafterEnv(obs="categories"), CrafterEnv(obs="categories")
    other.reset(seed=8)
    assert len(other.game._world.objects) > 20
    for options in ({"creatures": False}, {"world": MEADOW}):
        env.reset(seed=8, options=options)
        if "creatures" in options:
            np.testing.assert_array_equal(env.game._world._mat_map, other.game._world._mat_map)
        for _ in range(240):  # into the night
            env.game._player.health = 9
            env.step(NOOP)
        assert env.game._world.objects == [env.game._player]
    env.reset()
    assert len(env.game._world.objects) > 20, "the next has them again"


def test_observations_are_the_callers_own():
    env = CrafterEnv(render_mode="rgb_array")
    observation, info = env.reset(seed=0, options={"world": MEADOW})
    picture = env.render()
    observation["view"][:] = info["categories"][:] = 0
    info["achievements"]["eat_cow"] = 99
    np.testing.assert_array_equal(env.render(), picture)
    _, *_, info = env.step(NOOP)
    assert info["achievements"]["eat_cow"] == 0
    assert info["categories"].all()


def test_tiles_of_another_size():
    env = CrafterEnv("target", tile=12, render_mode="rgb_array")
    observation, _ = env.reset(seed=2)
    assert observation["view"].shape == env.observation_space["view"].shape == (84, 108, 3)
    np.testing.assert_array_equal(observation["view"], looks.render(art.pictures("target", 12), env.ids()))
    assert env.render().shape == (9 * 72, 9 * 72, 3)


@pytest.mark.parametrize("obs", ["pixels", "categories"])
def test_rendering_shows_the_view_and_the_items(obs):
    env = CrafterEnv(obs=obs, appearance="target", render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()
    env.reset(seed=0, options={"world": MEADOW})
    picture = env.render()
    assert picture.shape == (432, 432, 3)
    assert picture.dtype == np.uint8
    expected = looks.render(art.pictures("target"), env.ids())
    np.testing.assert_array_equal(picture[:336:6, ::6], expected)
    env.game._player.inventory["stone"] = 3
    changed = (env.render() != picture).any(-1)
    assert changed[336:, 6 * 48 : 7 * 48].any(), "stone is the seventh item"
    changed[336:, 6 * 48 : 7 * 48] = False
    assert not changed.any()


@pytest.mark.parametrize("action", [17, -1, 1.5, "up", None, np.array([1, 2])])
def test_wrong_actions(action):
    env = CrafterEnv(obs="categories")
    env.reset(seed=0, options={"world": MEADOW})
    with pytest.raises(protoalign.UserError, match="not one of 0 to 16"):
        env.step(action)


@pytest.mark.parametrize(
    "wrong", [{"obs": "text"}, {"appearance": "nowhere"}, {"render_mode": "human"}, {"length": 0}, {"length": 1.5}, {"tile": 0}]
)
def test_wrong_keywords(wrong):
    with pytest.raises(protoalign.UserError):
        CrafterEnv(**wrong)


@pytest.mark.parametrize(
    "options", [{"map": MEADOW}, {"world": MEADOW[1:]}, {"world": MEADOW * 0}, {"world": MEADOW + 11}, {"world": MEADOW * 1.0}]
)
def test_wrong_options(options):
    with pytest.raises(protoalign.UserError, match=r"option 'map'|64 x 64"):
        CrafterEnv(obs="categories").reset(options=options)


@pytest.mark.parametrize("seed", [-1, "one"])
def test_wrong_seeds(seed):
    with pytest.raises(protoalign.UserError, match="not a whole number"):
        CrafterEnv(obs="categories").reset(seed=seed)


def test_no_step_before_reset():
    with pytest.raises(gymnasium.error.ResetNeeded):
        CrafterEnv().step(0)
