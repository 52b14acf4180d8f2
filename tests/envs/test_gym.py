import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import protoalign
from protoalign.envs import appearance
from protoalign.envs.gym import HunterEnv, HunterVectorEnv
from protoalign.envs.hunter import CATEGORY_NAMES


@pytest.mark.parametrize("env_id", ["Hunter-Z1C1-v0", "Hunter-Z4C4-v0", "Hunter-v0"])
@pytest.mark.parametrize("obs", ["pixels", "categories"])
def test_gymnasiums_own_checks(env_id, obs):
    env = gymnasium.make(f"protoalign/{env_id}", obs=obs, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


def play(env, seed, steps=80):
    """Everything an agent sees in some games."""
    rng = np.random.default_rng(0)
    seen = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(rng.integers(9)))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def test_seeds_repeat_exactly():
    env = HunterEnv("Z2C2", appearance="random:1")
    first, again, other = play(env, 5), play(HunterEnv("Z2C2", appearance="random:1"), 5), play(env, 6)
    assert all(
        (a[0] == b[0]).all() and a[1:-1] == b[1:-1] and (a[-1]["categories"] == b[-1]["categories"]).all()
        for a, b in zip(first, again, strict=True)
    )
    assert any((a[0] != b[0]).any() for a, b in zip(first, other, strict=False))
    later = play(env, 5)
    assert (later[3][0] == first[3][0]).all(), "a second reset with the seed starts over"


@pytest.mark.parametrize("look", ["source", "target", "random:9"])
def test_pixels_show_the_categories(look):
    env = gymnasium.make("protoalign/Hunter-Z3C3-v0", appearance=look)
    observation, info = env.reset(seed=1)
    textures = appearance.load(look, CATEGORY_NAMES)
    assert observation.shape == (64, 64, 3)
    np.testing.assert_array_equal(appearance.cut(observation), textures[info["categories"]])
    assert (info["categories"] == 1).sum() == 3


def test_noise_changes_what_is_seen_and_not_what_happens():
    plain, noisy = (HunterEnv(appearance="target", noise=level) for level in (0.0, 0.1))
    jittered = HunterEnv(appearance="target", jitter=0.05)
    for env in (plain, noisy, jittered):
        env.reset(seed=3)
    difference = []
    for action in np.random.default_rng(0).integers(0, 9, 12):
        (a, *happened, _), (b, *same, info), (c, *alike, _) = (env.step(action) for env in (plain, noisy, jittered))
        assert happened == same == alike
        np.testing.assert_array_equal(info["categories"], plain.grid)
        inner = (a > 64) & (a < 192)  # where nothing is cut off at black or white
        difference.append((b.astype(float) - a)[inner])
        shift = c.astype(int) - a
        for channel in range(3):
            free = (c[..., channel] > 0) & (c[..., channel] < 255)
            assert len(np.unique(shift[..., channel][free])) == 1, "one shift for the whole picture"
        if happened[1] or happened[2]:
            break
    assert np.std(np.concatenate(difference)) == pytest.approx(25.5, rel=0.05)


def test_category_observations_and_episode_ends():
    env = HunterEnv("Z1C1", obs="categories")
    observation, info = env.reset(seed=0)
    np.testing.assert_array_equal(observation, info["categories"])
    for _step in range(31):
        _, _, terminated, truncated, _ = env.step(0)
    assert truncated != terminated
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_vector_games_are_played_by_the_rules():
    """Each game in the vector, step by step: ends, then restarts on the step after, unlike any other."""
    env = gymnasium.make_vec("protoalign/Hunter-Z2C1-v0", num_envs=6, vectorization_mode="vector_entry_point", obs="categories")
    assert isinstance(env, HunterVectorEnv)
    rng = np.random.default_rng(0)
    observation, _info = env.reset(seed=3)
    age = np.zeros(6, int)
    over = np.zeros(6, bool)
    total = 0
    for _ in range(100):
        before = observation
        observation, reward, terminated, truncated, info = env.step(rng.integers(9, size=6))
        np.testing.assert_array_equal(observation, info["categories"])
        assert (reward[over] == 0).all()
        assert not (terminated | truncated)[over].any()
        assert ((observation[over] == 1).sum((1, 2)) == 2).all(), "a restarted game has all its animals"
        gone = ((before == 1) | (before == 3)).sum((1, 2)) - ((observation == 1) | (observation == 3)).sum((1, 2))
        assert (abs(reward) <= gone)[~over].all()
        age = np.where(over, 0, age + 1)
        over = terminated | truncated
        assert (age <= 31).all()
        total += over.sum()
    assert total > 12


def test_vector_seeds_repeat():
    results = []
    for seed in (1, 1, 2):
        env = HunterVectorEnv(4, "Z1C1")
        env.reset(seed=seed)
        results.append(np.stack([env.step(np.full(4, 3))[0] for _ in range(40)]))
    assert (results[0] == results[1]).all()
    assert (results[0] != results[2]).any()


def test_rendering():
    env = HunterEnv("Z1C1", obs="categories", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (64, 64, 3)
    human = HunterEnv("Z1C1", render_mode="human")
    human.reset(seed=0)
    human.step(0)
    assert human.window.get_size() == (384, 384)
    human.close()
    vector = HunterVectorEnv(3, render_mode="rgb_array")
    vector.reset(seed=0)
    assert len(vector.render()) == 3


@pytest.mark.parametrize("action", [9, -1, 1.5, "up", None, np.array([1, 2])])
def test_wrong_actions(action):
    env = HunterEnv()
    env.reset(seed=0)
    with pytest.raises(protoalign.UserError, match="not one of 0 to 8"):
        env.step(action)


@pytest.mark.parametrize("actions", [[9, 0], [0], [-1, 0], [0.5, 1.0], "ab"])
def test_wrong_vector_actions(actions):
    env = HunterVectorEnv(2)
    env.reset(seed=0)
    with pytest.raises(protoalign.UserError, match="2 whole numbers from 0 to 8"):
        env.step(actions)


@pytest.mark.parametrize(
    "wrong", [{"variant": "Z1"}, {"obs": "text"}, {"appearance": "nowhere"}, {"render_mode": "ascii"}, {"size": 3}]
)
def test_wrong_keywords(wrong):
    with pytest.raises(protoalign.UserError):
        HunterEnv(**wrong)


def test_wrong_ids_are_answered_with_near_ones():
    with pytest.raises(gymnasium.error.NameNotFound, match="Did you mean"):
        gymnasium.make("protoalign/Hunter-Z5C5-v0")
    with pytest.raises(gymnasium.error.ResetNeeded):
        HunterEnv().step(0)
