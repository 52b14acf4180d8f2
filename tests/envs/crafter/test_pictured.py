"""Crafter by the pictures of its tiles, and baselines that learn from them."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError, config, crafter_stages
from protoalign.baselines import autoencoder
from protoalign.baselines.pixels import PixelViewNet, frames, in_look, load_look
from protoalign.baselines.run import run
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import ARROW, PATH
from protoalign.envs.crafter.original import CrafterEnv
from protoalign.envs.crafter.pictured import NUMBER, PAIRS, PicturedCrafter, Reader, pictures
from protoalign.envs.crafter.state import SIDE
from protoalign.envs.crafter.world import Crafter
from protoalign.rl.networks import ViewNet

WORLD = PicturedCrafter(worlds=64)


@pytest.fixture(scope="module")
def views():
    """Numbers of tiles, and categories, in games of a random policy."""

    def step(state, key):
        action_key, key = jax.random.split(key)
        state, _ = WORLD.step(state, jax.random.randint(action_key, (64,), 0, WORLD.num_actions), key)
        return state, (WORLD.observe(state), Crafter.observe(WORLD, state))

    start = WORLD.reset(jax.random.key(0), 64)
    _, seen = jax.jit(lambda s, k: jax.lax.scan(step, s, k))(start, jax.random.split(jax.random.key(1), 300))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), seen)


def test_numbers_stand_for_what_is_there(views):
    mine, plain = views
    category = sprites.CATEGORY_OF[np.array(PAIRS)[:, 0]]
    np.testing.assert_array_equal(category[mine.tiles], plain.tiles)
    np.testing.assert_array_equal(mine.numbers, plain.numbers)
    assert len(PAIRS) == len(WORLD.category_names) == len(set(PAIRS))


@pytest.mark.parametrize("look", ["source", "target", "random:11"])
def test_the_original_is_read_without_error(look):
    env, read = CrafterEnv(look), Reader(look)
    known = len(read.number)
    assert known == len(PAIRS)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=4)
    for _ in range(600):
        np.testing.assert_array_equal(read(observation["view"]), NUMBER[env.tiles()])
        observation, _, dead, over, _ = env.step(np.int64(rng.integers(17)))
        if dead or over:
            observation, _ = env.reset()
    assert len(read.number) <= known + 1  # the player on lava


def test_who_sees_the_same_plays_the_same():
    """Returns of the same games are equal in every look to one who knows what is what, and others to one who does not."""
    net = ViewNet(np.random.default_rng(0), WORLD, 32)
    net = eqx.tree_at(lambda n: n.heads.policy.weight, net, jax.random.normal(jax.random.key(0), (32, 17)))
    category = sprites.CATEGORY_OF[np.array(PAIRS)[:, 0]]
    home, away, blind = (
        crafter_stages.play_original(net, look, lambda picture, see=see: category[see(picture)], 10, 0)
        for look, see in (("source", Reader("source")), ("target", Reader("target")), ("target", Reader("source")))
    )
    np.testing.assert_array_equal(home[0], away[0])
    assert home[1] == away[1]
    assert (home[0] != blind[0]).mean() > 0.5
    assert home[1]["return"] == pytest.approx(home[0].mean(), abs=1e-5)


def test_arrows_have_their_directions():
    state = WORLD.reset(jax.random.key(0), 4)
    who, above = state.creatures, (state.row - 2) * SIDE + state.col
    who = who._replace(
        kind=who.kind.at[:, 0].set(ARROW),
        tile=jnp.zeros_like(who.tile).at[:, 0].set(above),
        clock=who.clock.at[:, 0].set(jnp.arange(4)),
    )
    seen = WORLD.observe(state._replace(ground=jnp.full_like(state.ground, PATH), creatures=who)).tiles
    assert seen[:, 1, 4].tolist() == [NUMBER[sprites.PICTURES.index(name), PATH] for name in sprites.ARROWS]
    assert (np.asarray(seen) == NUMBER[PATH, PATH]).sum() == 4 * 61


@pytest.mark.parametrize("kind", ["tiles", "conv"])
def test_numbers_with_a_look_are_as_good_as_pixels(views, kind):
    some = jax.tree.map(lambda x: x[::997], views[0])
    net = in_look(PixelViewNet(np.random.default_rng(0), WORLD, load_look("source", WORLD), kind), load_look("target", WORLD))
    shown = frames(net.look, some.tiles.reshape(len(some.tiles), -1), WORLD.shape)
    tiles = pictures("target")[np.asarray(some.tiles[0])]
    np.testing.assert_allclose(shown[0], tiles.swapaxes(1, 2).reshape(56, 72, 3) / 255, atol=1e-6)
    for mine, theirs in zip(net(net.encode(some)), net.on_frames(shown, some.numbers), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
        assert float(jnp.std(mine)) > 1e-3


@pytest.mark.parametrize("name", ["darla", "lusr", "unit4rl"])
def test_baselines_from_beginning_to_end(name, tmp_path, monkeypatch):
    few = dict.fromkeys(("source_steps", "latent_steps", "target_steps"), 8192)
    few |= {"frames": 2000, "code_updates": 20, "translation_updates": 20}
    monkeypatch.setattr(config, "CRAFTER_BASELINE", replace(config.CRAFTER_BASELINE, **few))
    monkeypatch.setattr(autoencoder, "SHOWN", 0.0)
    monkeypatch.setattr("protoalign.crafter_stages.GAMES", 4)
    result = run(name, "crafter", tmp_path / "run", 3, "fast", "target")
    assert result["env"] == "crafter"
    assert result["source"]["episodes"] == 4
    assert result["source"]["return"] > 0  # even a policy that has learned nothing unlocks what is easy
    assert result["source"]["achievements"].keys() == result["target"][0]["achievements"].keys()
    assert result["steps"]["source"]["source"] == 8192
    assert run(name, "crafter", tmp_path / "run", 3, "fast", "target") == result


def test_what_there_is_not(tmp_path):
    with pytest.raises(UserError, match="ltmbr works in Hunter only"):
        run("ltmbr", "crafter", tmp_path / "run", 0, "fast", "target")
    with pytest.raises(UserError, match="no preset 'paper'"):
        run("ppo", "crafter", tmp_path / "run", 0, "paper", "target")
