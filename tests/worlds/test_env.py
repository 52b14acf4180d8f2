"""Worlds as Gymnasium environments, alone and as vectors, and the registered ids."""

import copy
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

import protoalign
from protoalign.worlds import looks, make
from protoalign.worlds.crafter.names import CATEGORY_NAMES
from protoalign.worlds.env import WorldEnv, WorldVectorEnv

WORLD = make("hunter-z1c1")


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("Hunter-Z1C1-v0", {"appearance": "target", "obs": "pixels"}),
        ("Hunter-Z1C1-v0", {"obs": "categories"}),
        ("Hunter-v0", {"variant": "Z1C1", "noise": 0.1, "jitter": 0.1, "size": 8}),
    ],
)
def test_gymnasiums_own_checks(env_id, options):
    env = gymnasium.make(f"protoalign/{env_id}", render_mode="rgb_array", **options)
    check_env(env.unwrapped)
    env.close()


def play(env, seed, steps=70):
    """Everything an agent sees in some games."""
    rng = np.random.default_rng(0)
    seen = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(rng.integers(9)))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def same(one, other):
    return len(one) == len(other) and all(data_equivalence(a, b, exact=True) for a, b in zip(one, other, strict=True))


def test_seeds_repeat_exactly():
    env = WorldEnv(WORLD, "random:1", noise=0.1)
    first, other, later = play(env, 5), play(env, 6), play(env, 5)
    assert same(first, play(WorldEnv(WORLD, "random:1", noise=0.1), 5))
    assert same(first, later), "a second reset with the seed starts over"
    assert not same(first[:1], other[:1])
    one, large = (play(env, 2**80 + i, 3) for i in range(2))
    assert not same(one, large), "large seeds, too"


def test_episodes_start_the_same_whatever_was_done_before():
    starts = []
    for steps in (0, 7):
        env = WorldEnv(WORLD)
        env.reset(seed=2)
        for _ in range(steps):
            env.step(1)
        starts.append(env.reset()[0])
    np.testing.assert_array_equal(*starts)


def test_games_can_be_kept_and_gone_on_with():
    env = WorldEnv(WORLD, noise=0.1)
    env.reset(seed=3)
    kept = copy.deepcopy(env)
    assert same([env.step(1) for _ in range(20)], [kept.step(1) for _ in range(20)])


@pytest.mark.parametrize("look", ["source", "two:wall:random:9"])
@pytest.mark.parametrize("tile", [8, 5])
def test_pixels_show_the_categories(look, tile):
    world = make("hunter-z2c1", tile=tile)
    observation, info = world.make(look).reset(seed=1)
    assert observation.shape == (8 * tile, 8 * tile, 3)
    np.testing.assert_array_equal(observation, looks.render(world.pictures(look), info["categories"]))
    assert (info["categories"] == 1).sum() == 2


def test_crafters_ids_are_shown_as_categories():
    """Several picture ids are one category, numbered as in the original game."""
    world = make("crafter", worlds=16, first=1_000_000)
    env = WorldVectorEnv(3, world, "target")
    observation, info = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    np.testing.assert_array_equal(observation["view"], looks.render(world.pictures("target"), env.seen.tiles))
    assert observation["numbers"].shape == (3, 17)
    names = np.array(world.spec.truth)[env.seen.tiles]
    assert (np.array(CATEGORY_NAMES)[info["categories"]] == names).all()


def test_noise_changes_what_is_seen_and_not_what_happens():
    plain, noisy = (WorldEnv(WORLD, "target", noise=level) for level in (0.0, 0.1))
    jittered = WorldEnv(WORLD, "target", jitter=0.05)
    for env in (plain, noisy, jittered):
        env.reset(seed=3)
    difference = []
    for action in np.random.default_rng(0).integers(0, 9, 12):
        (a, *happened, there), (b, *alike, info), (c, *too, _) = (env.step(action) for env in (plain, noisy, jittered))
        assert happened == alike == too
        np.testing.assert_array_equal(info["categories"], there["categories"])
        inner = (a > 64) & (a < 192)  # where nothing is cut off at black or white
        difference.append((b.astype(float) - a)[inner])
        shift = c.astype(int) - a
        for channel in range(3):
            free = (c[..., channel] > 0) & (c[..., channel] < 255)
            assert len(np.unique(shift[..., channel][free])) == 1, "one shift for the whole picture"
        if happened[1] or happened[2]:
            break
    assert np.std(np.concatenate(difference)) == pytest.approx(25.5, rel=0.05)


def test_observations_are_the_callers_own():
    env = WorldEnv(WORLD, obs="categories", render_mode="rgb_array")
    observation, info = env.reset(seed=0)
    picture = env.render()
    observation[:] = info["categories"][:] = 4
    np.testing.assert_array_equal(env.render(), picture)


def test_category_observations_and_episode_ends():
    env = WorldEnv(WORLD, obs="categories")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    observation, info = env.reset(seed=0)
    np.testing.assert_array_equal(observation, info["categories"])
    for _step in range(WORLD.spec.max_steps):
        _, _, terminated, truncated, _ = env.step(0)
    assert truncated != terminated
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_vector_games_are_played_by_the_rules():
    """Each game in the vector, step by step: ends, then restarts on the step after, unlike any other."""
    env = gymnasium.make_vec("protoalign/Hunter-Z2C1-v0", num_envs=6, vectorization_mode="vector_entry_point", obs="categories")
    assert isinstance(env, WorldVectorEnv)
    rng = np.random.default_rng(0)
    observation, _info = env.reset(seed=3)
    age = np.zeros(6, int)
    over = np.zeros(6, bool)
    starts, total = [], 0
    for _ in range(100):
        before = observation
        observation, reward, terminated, truncated, info = env.step(rng.integers(9, size=6))
        np.testing.assert_array_equal(observation, info["categories"])
        assert (reward[over] == 0).all()
        assert not (terminated | truncated)[over].any()
        assert ((observation[over] == 1).sum((1, 2)) == 2).all(), "a restarted game has all its animals"
        starts += [grid.tobytes() for grid in observation[over]]
        gone = ((before == 1) | (before == 3)).sum((1, 2)) - ((observation == 1) | (observation == 3)).sum((1, 2))
        assert (abs(reward) <= gone)[~over].all()
        age = np.where(over, 0, age + 1)
        over = terminated | truncated
        assert (age <= 31).all()
        total += over.sum()
    assert total > 12
    assert len(set(starts)) == len(starts)


def test_vector_seeds_repeat():
    results = []
    for seed in (1, 1, 2):
        env = WorldVectorEnv(4, WORLD)
        env.reset(seed=seed)
        results.append(np.stack([env.step(np.full(4, 3))[0] for _ in range(40)]))
    assert (results[0] == results[1]).all()
    assert (results[0] != results[2]).any()


def test_rendering():
    env = WorldEnv(WORLD, obs="categories", render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()
    env.reset(seed=0)
    assert env.render().shape == (64, 64, 3)
    vector = WorldVectorEnv(3, WORLD, render_mode="rgb_array")
    vector.reset(seed=0)
    assert len(vector.render()) == 3


def test_a_window():
    pytest.importorskip("pygame")
    human = WorldEnv(WORLD, render_mode="human")
    human.reset(seed=0)
    human.step(0)
    assert human.window.get_size() == (384, 384)
    human.close()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", {"crafter": sys.modules["protoalign"].__spec__}.get)
    with pytest.raises(protoalign.UserError, match=r"pip install 'protoalign\[window\]'"):
        gymnasium.make("protoalign/Hunter-Z1C1-v0", render_mode="human")


@pytest.mark.parametrize("action", [9, -1, 1.5, "up", None, np.array([1, 2])])
def test_wrong_actions(action):
    env = WorldEnv(WORLD)
    env.reset(seed=0)
    with pytest.raises(protoalign.UserError, match="not one of 0 to 8"):
        env.step(action)


@pytest.mark.parametrize("actions", [[9, 0, 0], [0], [-1, 0, 0], [0.5, 1.0, 0], "ab"])
def test_wrong_vector_actions(actions):
    env = WorldVectorEnv(3, WORLD)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0, 0, 0])
    env.reset(seed=0)
    with pytest.raises(protoalign.UserError, match="3 whole numbers from 0 to 8"):
        env.step(actions)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"variant": "Z1"}, {"obs": "text"}, {"appearance": "nowhere"}, {"render_mode": "ascii"}, {"size": 3}, {"tile": 0}),
        *({name: value} for name in ("noise", "jitter") for value in (np.nan, np.inf, 1e999, -0.1, "much", None)),
    ],
    ids=str,
)
def test_wrong_keywords(wrong):
    with pytest.raises(protoalign.UserError):
        gymnasium.make("protoalign/Hunter-v0", **wrong)
    with pytest.raises(protoalign.UserError):
        gymnasium.make_vec("protoalign/Hunter-v0", num_envs=2, vectorization_mode="vector_entry_point", **wrong)


@pytest.mark.parametrize("seed", [-1, "one", 1.5])
def test_wrong_seeds(seed):
    for env in (WorldEnv(WORLD), WorldVectorEnv(2, WORLD)):
        with pytest.raises(protoalign.UserError, match="not a whole number"):
            env.reset(seed=seed)


def test_wrong_vectors():
    with pytest.raises(protoalign.UserError, match="at least 1"):
        WorldVectorEnv(0, WORLD)
    with pytest.raises(protoalign.UserError, match="one seed for the whole vector"):
        WorldVectorEnv(2, WORLD).reset(seed=[1, 2])


def test_wrong_ids_are_answered_with_near_ones():
    with pytest.raises(gymnasium.error.NameNotFound, match="Did you mean"):
        gymnasium.make("protoalign/Hunter-Z5C5-v0")
