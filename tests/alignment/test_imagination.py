import jax
import numpy as np

from protoalign.alignment.imagination import disguise, imagine


def test_injections_subsets_and_their_spread():
    n = 20_000
    world = jax.device_get(imagine(jax.random.key(0), n, 5, hide_all=0.25))
    assert (np.sort(world.type_of, 1) == np.arange(5)).all(), "every prototype has a type of its own"
    assert (np.take_along_axis(world.truth, world.type_of, 1) == np.arange(5)).all(), "truth undoes the injection"
    tolerance = 4 * (0.25 * 0.75 / n) ** 0.5
    for prototype in range(5):
        assert abs(np.bincount(world.type_of[:, prototype]) / n - 0.2).max() < tolerance
    everything = world.hidden.all(1).mean()
    assert abs(everything - (0.25 + 0.75 / 32)) < tolerance
    assert set(map(tuple, world.hidden.tolist())) == {tuple(bool(i >> b & 1) for b in range(5)) for i in range(32)}, (
        "any subset"
    )


def test_disguise_is_the_injection_tile_by_tile():
    world = imagine(jax.random.key(1), 7, 5)
    grid = np.random.default_rng(0).integers(0, 5, (7, 3, 8, 8)).astype(np.uint8)
    types = np.asarray(disguise(world, grid))
    assert types.dtype == np.uint8
    for b in range(7):
        np.testing.assert_array_equal(types[b], np.asarray(world.type_of)[b][grid[b]])
