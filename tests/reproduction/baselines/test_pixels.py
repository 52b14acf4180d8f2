import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError
from protoalign.reproduction.baselines.autoencoder import Decoder, Encoder, divergence, shown
from protoalign.reproduction.baselines.job import Job
from protoalign.reproduction.baselines.pixels import (
    ConvEye,
    PixelNet,
    TileEye,
    flat,
    in_look,
    lay,
    load_look,
    picture,
    screen_of,
    surroundings,
    tiles_of,
)
from protoalign.reproduction.settings import BaselineConfig, Sizes
from protoalign.worlds import looks
from protoalign.worlds.base import Observation
from protoalign.worlds.hunter import Hunter
from tests.reproduction.toy import Toy

WORLD, VIEW = Hunter(), Toy(True, (3, 5))
WORLDS = pytest.mark.parametrize("world", [WORLD, VIEW, Hunter(tile=4)], ids=["hunter", "view", "small tiles"])


def seen_in(world, number: int = 8) -> Observation:
    return world.observe(world.reset(jax.random.key(0), number))


def pictures(world, look: str) -> np.ndarray:
    """What a Gymnasium environment shows, from 0 to 1."""
    return looks.render(world.pictures(look), np.asarray(seen_in(world).tiles)).astype(np.float32) / 255


SEEN = flat(seen_in(WORLD))


def job(config: BaselineConfig | None = None) -> Job:
    return Job("test", None, WORLD, config or BaselineConfig(), Sizes(), 0, "target", 16)


@WORLDS
def test_laid_out_pictures_are_what_is_shown(world):
    screen, seen, look = screen_of(world), flat(seen_in(world)), load_look("target", world)
    mine = picture(lay(seen.tiles, look), screen)
    np.testing.assert_allclose(mine, pictures(world, "target"), atol=1e-6)
    np.testing.assert_allclose(tiles_of(mine, screen), lay(seen.tiles, look), atol=1e-6)


def test_a_look_with_two_pictures_of_a_kind_is_refused():
    with pytest.raises(UserError, match="one picture per kind"):
        load_look("two:cow:target", WORLD)


@WORLDS
def test_grids_with_a_look_are_as_good_as_pixels(world):
    """The first layer is a convolution as large as a tile, with its stride: computed as one, the numbers are the same."""
    screen, seen = screen_of(world), flat(seen_in(world))
    net = in_look(PixelNet(np.random.default_rng(0), screen, load_look("source", world)), load_look("target", world))
    shown = pictures(world, "target")
    kernel = net.eye.code.dense.weight.reshape(*screen.tile, 3, -1)
    x = jax.lax.conv_general_dilated(2 * shown - 1, kernel, screen.tile, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    codes = jax.nn.relu(x + net.eye.code.dense.bias).reshape(8, screen.tiles, -1)
    np.testing.assert_allclose(net.eye(net.look, seen.tiles), codes, atol=1e-5)
    for mine, theirs in zip(net(net.encode(seen_in(world))), net.on_frames(shown, seen.numbers), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_numbers_count_where_there_are_any():
    net = PixelNet(np.random.default_rng(0), screen_of(VIEW), load_look("source", VIEW))
    seen = flat(seen_in(VIEW))
    assert abs(net.features(seen) - net.features(seen._replace(numbers=seen.numbers + 1))).max() > 0.1


def test_another_look_is_another_world():
    net = PixelNet(np.random.default_rng(0), screen_of(WORLD), load_look("source", WORLD))
    moved = in_look(net, load_look("target", WORLD))
    assert abs(net.features(SEEN) - moved.features(SEEN)).max() > 0.1


def test_correlation_knows_how_far_things_are_apart():
    """Moved together, two things give the same products of spectra; moved apart, others."""
    body = PixelNet(np.random.default_rng(0), screen_of(WORLD), load_look("source", WORLD)).body

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
@pytest.mark.parametrize("tile", [2, 8])
def test_eyes_see_the_same_in_tiles(eye, tile):
    world = Hunter(tile=tile)
    look = load_look("target", world)
    mine = eye(np.random.default_rng(0), screen_of(world))
    np.testing.assert_allclose(mine(look, SEEN.tiles), mine.on_tiles(lay(SEEN.tiles, look)), atol=1e-4)
    assert mine(look, SEEN.tiles).shape == (8, 64, 32)


def test_convolutions_need_tiles_that_can_be_halved():
    for world in (VIEW, Hunter(tile=12)):
        with pytest.raises(UserError, match="needs square tiles of 2, 4, 8"):
            ConvEye(np.random.default_rng(0), screen_of(world))


def test_surroundings_times_a_matrix_are_a_convolution():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((2, 8, 12, 3)), jnp.float32)
    kernel = jnp.asarray(rng.standard_normal((4, 4, 3, 5)), jnp.float32)
    order = kernel.reshape(2, 2, 2, 2, 3, 5).transpose(0, 2, 1, 3, 4, 5).reshape(48, 5)  # block by block
    expected = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(surroundings(x) @ order, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["tiles", "conv"])
def test_codes_are_of_the_paper_s_sizes(kind):
    mine = job(BaselineConfig(encoder=kind))
    mean, spread, style = Encoder(np.random.default_rng(0), mine, 16)(mine.source, SEEN.tiles)
    assert mean.shape == spread.shape == (8, 64, 2)  # 128 numbers in all
    assert style.shape == (8, 16)
    assert len(np.unique(np.asarray(mean).reshape(8, -1), axis=0)) == 8  # no picture's code is another's


def test_errors_are_those_of_the_painted_pictures():
    rng, look = np.random.default_rng(0), load_look("source", WORLD)
    decoder = Decoder(rng, job(), 3)
    strokes = decoder(jnp.asarray(rng.standard_normal((8, 64, 2)), jnp.float32), jnp.asarray(rng.random((8, 3)), jnp.float32))
    painted = ((decoder.paint(strokes) - lay(SEEN.tiles, look)) ** 2).sum((1, 2))
    np.testing.assert_allclose(decoder.error(strokes, look, SEEN.tiles), painted, rtol=1e-4)


def test_divergence_is_the_integral():
    """KL(N(m, s^2), N(0, 1)) = (m^2 + s^2 - 1) / 2 - log s, here for m = 1, s = 2, twice."""
    mean, spread = jnp.ones((1, 1, 2)), jnp.full((1, 1, 2), 2 * np.log(2))
    assert float(divergence(mean, spread)[0]) == pytest.approx(2 * ((1 + 4 - 1) / 2 - np.log(2)))


def test_shown_counts_tiles_that_are_recognised():
    mine = job()
    seen = np.array([[0, 1, 1, 3]], np.uint8)
    tiles = np.array(lay(jnp.asarray(seen), mine.source))
    tiles[0, 1] = mine.source[0]  # one of two zombies is painted as floor
    assert shown(mine, mine.source, seen, jnp.asarray(tiles)) == {"floor": 1.0, "zombie": 0.5, "cow": 1.0}
