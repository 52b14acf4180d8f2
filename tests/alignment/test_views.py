"""The method in Crafter: views laid over one another, q_theta, pi_exp, and the way into the original game."""

from dataclasses import replace
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from protoalign import config, crafter_stages, stages
from protoalign.alignment import view_training
from protoalign.alignment.imagination import imagine
from protoalign.alignment.inference import make_optimiser
from protoalign.alignment.view_exploration import Believed, Blend, ImaginedView, ViewExplorer, play
from protoalign.alignment.view_inference import (
    BEYOND_CODE,
    Glimpse,
    ViewInference,
    disguise,
    follow,
    lay_over,
)
from protoalign.alignment.view_transfer import Explored, ViewMapping
from protoalign.crafter_stages import KINDS
from protoalign.envs.crafter.names import CATEGORY_NAMES, COAL, COW, GRASS, PATH, SKELETON, STONE, TREE, ZOMBIE
from protoalign.envs.crafter.state import prepare
from protoalign.envs.crafter.world import Crafter
from protoalign.errors import UserError
from protoalign.perception.layers import Looks
from protoalign.report import crafter_page
from protoalign.rl.networks import ViewNet
from protoalign.rl.rollout import act
from protoalign.runs import Run

WORLD = Crafter(worlds=16, first=1_000_000)
C = len(CATEGORY_NAMES)


def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def model() -> ViewInference:
    return ViewInference(rng(), WORLD, KINDS, 16)


def games(model, steps=40, number=32, seed=0):
    return jax.jit(play, static_argnums=(3, 4))(
        ImaginedView(model, steps), Blend(ViewNet(rng(), WORLD, 16)), jax.random.key(seed), number, False
    ).games


def test_views_are_laid_over_one_another():
    """In a world where nothing but the player moves, what is laid over differs only where the player stands or acts."""
    world = replace(WORLD, creatures=False)
    state = world.reset(jax.random.key(0), 64)
    step, see = jax.jit(world.step), jax.jit(world.observe)
    right: list[bool] = []
    for time in range(30):
        action = jax.random.randint(jax.random.key(time), (64,), 1, 5)
        after, _ = step(state, action, jax.random.key(100 + time))
        before, then = (see(s).tiles.reshape(64, -1) for s in (state, after))
        laid = np.asarray(lay_over(before, then, action, world.shape))
        gone = np.asarray((state.row != after.row) | (state.col != after.col))
        # Where the ground is all alike, both ways of laying fit, and either will do.
        differ = (laid != np.asarray(before)) & (laid != BEYOND_CODE)
        assert differ.sum(1).max() <= 2
        varied = (np.asarray(before) != GRASS).sum(1) > 8
        right += ((laid == BEYOND_CODE).any(1) == gone)[varied].tolist()
        state = after
    assert len(right) > 300
    assert np.mean(right) > 0.97


def test_disguises():
    tiles = jnp.broadcast_to(jnp.arange(C, dtype=jnp.uint8), (200, C))
    for hide_all in (1.0, 0.0):
        imagined = imagine(jax.random.key(0), 200, len(KINDS), hide_all)
        codes = np.asarray(disguise(tiles, imagined, KINDS, C))
        for category in range(C):
            if category not in KINDS:
                assert (codes[:, category] == category).all()
        for i, (kinds, hidden) in enumerate(zip(np.asarray(imagined.truth), np.asarray(imagined.hidden), strict=True)):
            for number, kind in enumerate(kinds):
                assert codes[i, KINDS[kind]] == (C + number if hidden[number] else KINDS[kind])
        share = np.asarray(imagined.hidden).mean()
        assert share == 1 if hide_all else abs(share - 0.5) < 5 * (0.25 / (200 * len(KINDS))) ** 0.5


def test_renaming_types_renames_beliefs(model):
    some = games(model)
    worlds = [imagine(jax.random.key(i), 32, len(KINDS), 1.0) for i in (1, 2)]
    one, two = (np.asarray(jax.jit(follow)(model, some, w)) for w in worlds)  # [L + 1, G, K, K]
    mine, theirs = (
        np.take_along_axis(x, np.asarray(w.type_of)[None, :, :, None], 2) for x, w in zip((one, two), worlds, strict=True)
    )
    np.testing.assert_allclose(mine, theirs, atol=1e-4)
    assert abs(one[-1] - one[0]).max() > 1e-3, "something was taken in"


def test_what_is_followed_is_what_is_imagined(model):
    """The same beliefs, step by step in the imagined world and afterwards on the whole games."""
    world = ImaginedView(model, 25, 0.5)
    explorer = ViewExplorer.from_task(rng(), ViewNet(rng(), WORLD, 16), KINDS, 1.0)
    played = jax.jit(play, static_argnums=(3, 4))(world, explorer, jax.random.key(3), 16, True)
    again = jax.jit(follow)(model, played.games, played.imagined)[-1]
    np.testing.assert_allclose(np.asarray(again), np.asarray(played.score), atol=1e-4)


def test_rewards_add_up_to_what_was_found_out(model):
    world = ImaginedView(model, 50, 0.5)
    state = world.reset(jax.random.key(0), 16)
    first, total = world.truth_score(state), 0.0
    step = eqx.filter_jit(world.step)
    for time in range(20):
        state, given = step(state, jax.random.randint(jax.random.key(time), (16,), 0, 6), jax.random.key(50 + time))
        total += given.reward
        assert not given.truncated.any()
    np.testing.assert_allclose(np.asarray(total), np.asarray(world.truth_score(state) - first), atol=1e-4)
    late = state._replace(inner=state.inner._replace(time=state.inner.time + 40))
    assert step(late, jnp.zeros(16, int), jax.random.key(9))[1].truncated.all()


def test_one_who_is_certain_explores_as_the_task_policy_plays():
    task = ViewNet(rng(), WORLD, 32)
    task = eqx.tree_at(lambda n: n.heads.policy.weight, task, jax.random.normal(jax.random.key(0), (32, 17)))
    explorer = ViewExplorer.from_task(rng(), task, KINDS, 1.0)
    explorer = eqx.tree_at(lambda e: e.doubt, explorer, replace_fn=lambda d: jax.tree.map(jnp.zeros_like, d))
    state = WORLD.reset(jax.random.key(0), 64)
    view = WORLD.observe(state)
    imagined = imagine(jax.random.key(1), 64, len(KINDS), 0.5)
    seen = Glimpse(disguise(view.tiles, imagined, KINDS, C).reshape(64, -1), view.numbers)
    belief = jax.nn.one_hot(imagined.truth, len(KINDS))
    logits, _ = explorer(explorer.encode(Believed(*seen, belief)))
    wanted, _ = task(task.encode(view))
    np.testing.assert_allclose(np.asarray(logits), np.asarray(wanted), rtol=1e-3, atol=1e-4)
    assert act(task, view, 0.0)[1].shape == (64,)


def explored(score, known=(), looks=0):
    game = Explored(score, np.zeros(6, bool), np.zeros((6, C)), looks)
    game.known[list(known)] = True
    return game


def test_kinds_met_in_their_old_look_are_none_of_the_new():
    flat = np.log(np.full((6, 6), 1 / 6))
    games = [explored(flat), explored(flat, [0, 1, 2, 4], 1), explored(flat, [], 3)]
    mapping = ViewMapping(Looks(None), KINDS, games, [])
    assert mapping.after(1).sureness == pytest.approx(1 / 720)
    two = mapping.after(2)
    assert two.sureness == pytest.approx(1 / 2)
    assert set(two.categories()[C : C + 2]) == {KINDS[3], KINDS[5]}
    np.testing.assert_allclose(two.belief[:2].sum(0), [0, 0, 0, 1, 0, 1], atol=1e-5)
    assert mapping.sureness == pytest.approx(1 / 720)  # three new looks and four old ones, of six kinds


def test_what_was_not_met_is_not_right():
    """Three looks are met and told in the first game, two more in the second, one never."""
    told = np.where(np.eye(6, dtype=bool), 0.0, -20.0)
    games = []
    for looks in (3, 5):
        game = explored(np.where(np.arange(6)[:, None] < looks, told, np.log(1 / 6)), (), looks)
        game.truth[np.arange(looks), np.array(KINDS)[:looks]] = 9
        games.append(game)
    mapping = ViewMapping(Looks(None), KINDS, games, [])
    one, both = (crafter_stages.judge(mapping.after(n), list(KINDS)) for n in (1, 2))
    assert (one["kinds_right"], one["mapping_correct"]) == (3, False)
    assert (both["kinds_right"], both["mapping_correct"]) == (6, True)  # the sixth is left over
    games[1].score[[0, 1]] = games[1].score[[1, 0]] * 3
    wrong = crafter_stages.judge(mapping, list(KINDS))
    assert (wrong["kinds_right"], wrong["mapping_correct"]) == (4, False)


class Fair(Crafter):
    """A world with everything everywhere."""

    @cached_property
    def pool(self):
        material = rng().choice([GRASS, PATH, TREE, STONE, COAL], (16, 64, 64), p=[0.6, 0.15, 0.1, 0.1, 0.05]).astype(np.uint8)
        creature = rng().choice([0, COW, ZOMBIE, SKELETON], (16, 64, 64), p=[0.985, 0.005, 0.005, 0.005]).astype(np.uint8)
        return prepare(material, np.where(np.isin(material, [GRASS, PATH]), creature, 0))


def test_q_theta_learns_from_random_play():
    """Trees, stones and animals are told apart far better than by chance (1 in 6) after a few gradient steps."""
    model = ViewInference(rng(), Fair(), KINDS, 32)
    past = jax.device_get([games(model, 80, 64, seed) for seed in range(4)])
    past = view_training.Games(*(np.concatenate(x) for x in zip(*past, strict=True)))
    optimiser = make_optimiser(40, 4e-3, 1e-3)
    fit, state = view_training.make_fit(optimiser), optimiser.init(model)
    right = []
    for i in range(40):
        batch = view_training.choose(past, np.random.default_rng(i), 32)
        model, state, metrics = fit(model, state, batch, jax.random.key(i))
        right.append(float(metrics["types_right"]))
    assert np.mean(right[-5:]) > 2 / len(KINDS)


def test_the_whole_way_into_the_original_game(tmp_path, monkeypatch):
    """Every stage, made small; resumed when called again; and what a user may get wrong."""
    ppo = replace(config.CRAFTER_TASK.ppo, envs=16, segment=16, minibatch=128, epochs=1)
    monkeypatch.setattr(config, "CRAFTER_TASK", replace(config.CRAFTER_TASK, width=16, ppo=ppo))
    monkeypatch.setattr(config, "CRAFTER_INFER", replace(config.CRAFTER_INFER, width=8, updates=2, batch=4, games=8))
    small = replace(config.CRAFTER_EXPLORE, steps=1024, rounds=1, refresh=1, batch=4, episodes=256, ppo=ppo)
    monkeypatch.setattr(config, "CRAFTER_EXPLORE", small)
    for module, name, value in (
        (view_training, "LONGEST", 20),
        (view_training, "WATCHED_GAMES", 16),
        (crafter_stages, "LONGEST", 20),
        (crafter_stages, "MEASURED", 32),
        (crafter_stages, "GAMES", 3),
        (crafter_page, "LONGEST", 20),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(stages, "evaluation_episodes", lambda world: 8)
    out = tmp_path / "run"
    with pytest.raises(UserError, match="no look is called"):
        crafter_stages.whole(out, 0, 512, 1024, "nowhere", 1)
    assert not out.exists()
    result = crafter_stages.whole(out, 0, 512, 1024, "target", 2)
    wanted = {"source_return", "target_return_before", "target_return", "ratio", "world_return", "source_score"}
    assert wanted | {"mapping", "mapping_correct", "explore_episodes", "target_steps", "one_episode_correct"} <= result.keys()
    assert result["explore_episodes"] == 2
    assert 2 <= result["target_steps"] <= 40
    assert len(result["source_achievements"]) == 22
    assert all(row["true"] in ("stone", "tree", "coal", "cow", "zombie", "skeleton") for row in result["mapping"])
    again = crafter_stages.whole(out, 0, 512, 1024, "target", 2)
    assert again == result
    assert Run(out).metrics("explore")
    html = crafter_page.write(out).read_text()
    assert all(text in html for text in ("What it took the new looks for", "collect diamond", "data:image/gif", "Settings"))
    moved = crafter_stages.move(out, "random:3", 1, 5, oracle=True, games=2)
    assert moved["explore_episodes"] == 1
    partly = crafter_stages.move(out, "only:tree,cow:random:4", 2, 5, games=2)
    assert partly["redrawn"] == 2
    assert {row["true"] for row in partly["mapping"]} <= {"tree", "cow"}
    (tmp_path / "pictures").mkdir()
    Image.fromarray(np.full((8, 8, 3), 99, np.uint8)).save(tmp_path / "pictures" / "grass.png")
    with pytest.raises(UserError, match="also redraws grass: only stone"):
        crafter_stages.move(out, str(tmp_path / "pictures"), 1, 0)
    with pytest.raises(UserError, match="between 0 and 1"):
        crafter_stages.move(out, "target", 1, 0, sure=2.0)
    with pytest.raises(UserError, match="at least 1"):
        crafter_stages.move(out, "target", 0, 0)
    with pytest.raises(UserError, match="seed"):
        crafter_stages.whole(out, 1, 512, 1024, "target", 2)
