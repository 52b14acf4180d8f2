import jax
import numpy as np

from protoalign.alignment.imagination import code_type, hide, imagine

GRIDS = np.random.default_rng(0).integers(0, 5, (500, 4, 4)).astype(np.uint8)


def test_slots_are_a_random_injection_and_say_what_is_hidden():
    world = jax.device_get(imagine(jax.random.key(0), 500, 5, 0.4))
    assert (np.take_along_axis(world.truth, world.slot_of, 1) == np.arange(5)).all()
    assert (np.sort(world.slot_of, 1) == np.arange(5)).all()
    everything = world.hidden.all(1).mean()
    expected = 0.4 + 0.6 / 32
    assert abs(everything - expected) < 4 * (expected * (1 - expected) / 500) ** 0.5
    first = np.bincount(world.slot_of[:, 0], minlength=5) / 500
    assert abs(first - 0.2).max() < 4 * (0.16 / 500) ** 0.5, "no slot is likelier than another"


def test_codes_tell_slots_of_what_may_be_hidden_and_prototypes_of_the_rest():
    world = imagine(jax.random.key(1), 500, 2, 1.0)
    codes = np.asarray(hide(world, GRIDS, 5, (1, 3)))
    assert (codes[~np.isin(GRIDS, (1, 3))] == GRIDS[~np.isin(GRIDS, (1, 3))]).all()
    slot = np.asarray(world.slot_of)
    for k, kind in enumerate((1, 3)):
        where = np.nonzero(kind == GRIDS)
        assert (codes[where] == 5 + slot[where[0], k]).all()


def test_a_prototype_with_two_looks_has_two_slots_by_place():
    world = imagine(jax.random.key(2), 500, 5, 1.0, twice=0.5, grid=(4, 4))
    assert world.truth.shape == world.hidden.shape == (500, 6)
    doubled = np.asarray(world.hidden[:, 5])
    assert abs(doubled.mean() - 0.5) < 4 * (0.25 / 500) ** 0.5
    codes = np.asarray(hide(world, GRIDS, 5, tuple(range(5))))
    truth, field = np.asarray(world.truth), np.asarray(world.field).reshape(500, 4, 4)
    assert (np.take_along_axis(truth, (codes - 5).reshape(500, -1).astype(int), 1).reshape(GRIDS.shape) == GRIDS).all()
    second = codes == 10
    assert not second[~doubled].any()
    assert second[doubled].any()
    assert not (second & ~field).any(), "a second look shows on the field only"
    kind = np.take_along_axis(truth, np.full((500, 1), 5), 1)[:, :, None]
    assert (second == (field & (kind == GRIDS) & doubled[:, None, None])).all(), "and there always"
    chess = np.add.outer(np.arange(4), np.arange(4)) % 2
    like_chess = [(row == chess).all() or (row != chess).all() for row in field]
    assert 0.35 < np.mean(like_chess) < 0.65


def test_codes_never_overflow():
    assert code_type(200) is np.uint8
    assert code_type(255) is np.int32
    tiles = np.arange(300, dtype=np.int32).reshape(1, 15, 20)
    codes = np.asarray(hide(imagine(jax.random.key(0), 1, 300, 1.0), tiles, 300, tuple(range(300))))
    assert len(np.unique(codes)) == 300
    assert codes.min() == 300
