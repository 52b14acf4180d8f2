import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.baselines.autoencoder import Decoder, Encoder, divergence, shown
from protoalign.baselines.pixels import ConvEye, PixelNet, TileEye, cut, frames, in_look, lay, load_look, surroundings
from protoalign.envs import appearance
from protoalign.envs.hunter import Hunter

WORLD = Hunter()
GRIDS = np.asarray(WORLD.observe(WORLD.reset(jax.random.key(0), 32)))
SEEN = jnp.asarray(GRIDS.reshape(32, -1))


def pictures(look: str) -> np.ndarray:
    """What a Gymnasium environment shows, from 0 to 1."""
    return appearance.render(appearance.load(look, WORLD.category_names), GRIDS).astype(np.float32) / 255


@pytest.mark.parametrize("look", ["source", "target", "random:5"])
def test_frames_are_the_pictures(look):
    mine = frames(load_look(look, WORLD), SEEN, WORLD.shape)
    np.testing.assert_allclose(mine, pictures(look), atol=1e-6)
    np.testing.assert_allclose(cut(mine), lay(SEEN, load_look(look, WORLD)), atol=1e-6)


@pytest.mark.parametrize("look", ["source", "target"])
def test_grids_with_a_look_are_as_good_as_pixels(look):
    """The first layer is a convolution of 8 x 8 pixels with stride 8: computed as one, the numbers are the same."""
    net = in_look(PixelNet(np.random.default_rng(0), WORLD, load_look("source", WORLD)), load_look(look, WORLD))
    kernel = net.eye.code.dense.weight.reshape(8, 8, 3, -1)
    x = jax.lax.conv_general_dilated(
        2 * pictures(look) - 1, kernel, (8, 8), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    codes = jax.nn.relu(x + net.eye.code.dense.bias).reshape(32, 64, -1)
    np.testing.assert_allclose(net.eye(net.look, SEEN), codes, atol=1e-5)
    for mine, theirs in zip(net(net.encode(GRIDS)), net.on_frames(pictures(look)), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_another_look_is_another_world():
    net = PixelNet(np.random.default_rng(0), WORLD, load_look("source", WORLD))
    moved = in_look(net, load_look("target", WORLD))
    assert abs(net.features(SEEN) - moved.features(SEEN)).max() > 0.1


def test_correlation_knows_how_far_things_are_apart():
    """Moved together, two things give the same products of spectra; moved apart, others."""
    body = PixelNet(np.random.default_rng(0), WORLD, load_look("source", WORLD)).body

    def products(*places):
        maps = np.zeros((2, 64), np.float32)
        for layer, place in zip(maps, places, strict=True):
            layer[place] = 1
        one, other = maps @ body.waves()
        waves = len(one) // 2
        return np.concatenate(
            [
                one[:waves] * other[:waves] + one[waves:] * other[waves:],
                one[:waves] * other[waves:] - one[waves:] * other[:waves],
            ]
        )

    np.testing.assert_allclose(products(0, 10), products(9, 19), atol=1e-5)
    assert abs(products(0, 10) - products(0, 11)).max() > 0.1
    assert abs(products(0, 7) - products(8, 7)).max() > 0.1  # neither does anything wrap around


@pytest.mark.parametrize("eye", [TileEye, ConvEye])
def test_eyes_see_the_same_in_tiles(eye):
    look = load_look("target", WORLD)
    mine = eye(np.random.default_rng(0), WORLD)
    np.testing.assert_allclose(mine(look, SEEN), mine.on_tiles(lay(SEEN, look)), atol=1e-4)
    assert mine(look, SEEN).shape == (32, 64, 32)


def test_surroundings_times_a_matrix_are_a_convolution():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((2, 8, 12, 3)), jnp.float32)
    kernel = jnp.asarray(rng.standard_normal((4, 4, 3, 5)), jnp.float32)
    order = kernel.reshape(2, 2, 2, 2, 3, 5).transpose(0, 2, 1, 3, 4, 5).reshape(48, 5)  # block by block
    expected = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(surroundings(x) @ order, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["tiles", "conv"])
def test_codes_are_of_the_paper_s_sizes(kind):
    look = load_look("source", WORLD)
    mean, spread, style = Encoder(np.random.default_rng(0), WORLD, kind, 16)(look, SEEN)
    assert mean.shape == spread.shape == (32, 64, 2)  # 128 numbers in all
    assert style.shape == (32, 16)
    assert len(np.unique(np.asarray(mean).reshape(32, -1), axis=0)) == 32  # no picture's code is another's


def test_errors_are_those_of_the_painted_pictures():
    rng, look = np.random.default_rng(0), load_look("source", WORLD)
    decoder = Decoder(rng, WORLD, 3)
    strokes = decoder(jnp.asarray(rng.standard_normal((32, 64, 2)), jnp.float32), jnp.asarray(rng.random((32, 3)), jnp.float32))
    painted = ((decoder.paint(strokes) - lay(SEEN, look)) ** 2).sum((1, 2))
    np.testing.assert_allclose(decoder.error(strokes, look, SEEN), painted, rtol=1e-4)


def test_divergence_is_the_integral():
    """KL(N(m, s^2), N(0, 1)) = (m^2 + s^2 - 1) / 2 - log s, here for m = 1, s = 2, twice."""
    mean, spread = jnp.ones((1, 1, 2)), jnp.full((1, 1, 2), 2 * np.log(2))
    assert float(divergence(mean, spread)[0]) == pytest.approx(2 * ((1 + 4 - 1) / 2 - np.log(2)))


def test_shown_counts_tiles_that_are_recognised():
    look = load_look("source", WORLD)
    seen = np.array([[0, 1, 1, 3]], np.uint8)
    tiles = np.array(lay(jnp.asarray(seen), look))
    tiles[0, 1] = look[0]  # one of two zombies is painted as floor
    share = shown(look, seen, jnp.asarray(tiles))
    np.testing.assert_array_equal(share, [1, 0.5, np.nan, 1, np.nan])
