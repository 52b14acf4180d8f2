import jax
import numpy as np
import pytest

from protoalign.alignment.imagination import code_type, hide, imagine

GRID = (6, 5)


def imagined(number=2000, kinds=4, hide_all=0.25, twice=0.0, seed=0):
    draw = jax.jit(imagine, static_argnums=(1, 2, 3, 4, 5))
    return jax.device_get(draw(jax.random.key(seed), number, kinds, hide_all, twice, GRID))


def shown(world, tiles, prototypes, hideable):
    return np.asarray(jax.jit(hide, static_argnums=(2, 3))(world, tiles, prototypes, hideable))


def test_injections_subsets_and_their_spread():
    n = 20_000
    world = imagined(n, 5)
    assert world.field is None
    assert (np.sort(world.slot_of, 1) == np.arange(5)).all(), "every prototype has a slot of its own"
    assert (np.take_along_axis(world.truth, world.slot_of, 1) == np.arange(5)).all(), "truth undoes the injection"
    np.testing.assert_array_equal(world.second, world.slot_of)
    tolerance = 4 * (0.25 * 0.75 / n) ** 0.5
    for prototype in range(5):
        assert abs(np.bincount(world.slot_of[:, prototype]) / n - 0.2).max() < tolerance
    assert abs(world.hidden.all(1).mean() - (0.25 + 0.75 / 32)) < tolerance
    every = {tuple(bool(i >> b & 1) for b in range(5)) for i in range(32)}
    assert set(map(tuple, world.hidden.tolist())) == every, "any subset"


def test_codes_are_the_injection_tile_by_tile():
    world = imagined(7, 3, hide_all=1.0)
    tiles = np.random.default_rng(0).integers(0, 3, (7, 4, *GRID)).astype(np.uint8)  # four steps
    codes = shown(world, tiles, 3, (0, 1, 2))
    assert codes.dtype == np.uint8
    for b in range(7):
        np.testing.assert_array_equal(codes[b], 3 + world.slot_of[b][tiles[b]])


def test_what_may_not_be_hidden_is_shown_as_it_is():
    world, hideable = imagined(50, 3), (1, 4, 5)
    tiles = np.random.default_rng(0).integers(0, 7, (50, *GRID)).astype(np.uint8)
    codes = shown(world, tiles, 7, hideable)
    for b in range(50):
        for c in range(7):
            expected = 7 + world.slot_of[b, hideable.index(c)] if c in hideable else c
            assert (codes[b][tiles[b] == c] == expected).all()


def test_second_looks():
    """A prototype, known or hidden, has a hidden second slot on the tiles of the field. All else is as before."""
    n, kinds = 2000, 4
    world = imagined(n, kinds, hide_all=0.5, twice=0.4)
    assert world.truth.shape == world.hidden.shape == (n, kinds + 1)
    used = world.hidden[:, kinds]
    assert abs(used.mean() - 0.4) < 4 * (0.24 / n) ** 0.5
    doubled = world.second != world.slot_of
    np.testing.assert_array_equal(doubled.sum(1), used)
    for b in np.flatnonzero(used)[:200]:
        (kind,) = np.flatnonzero(doubled[b])
        assert world.second[b, kind] == kinds
        assert world.truth[b, kinds] == kind, "both looks are the same prototype"
    assert abs(doubled[used].mean(0) - 1 / kinds).max() < 4 * (0.19 / used.sum()) ** 0.5, "any of them"
    tiles = np.random.default_rng(0).integers(0, kinds, (n, 3, *GRID)).astype(np.uint8)  # three steps
    codes = shown(world, tiles, kinds, tuple(range(kinds)))
    truth = np.take_along_axis(world.truth, codes.reshape(n, -1) - kinds, 1)
    np.testing.assert_array_equal(truth, tiles.reshape(n, -1))  # every code tells the prototype
    field = np.broadcast_to(world.field.reshape(n, 1, *GRID), codes.shape)
    second = (codes == kinds + kinds) & used[:, None, None, None]
    assert not (second & ~field).any(), "the second look is shown on the field only, whatever the time"
    lost = np.take_along_axis(doubled, tiles.reshape(n, -1), 1).reshape(codes.shape) & field
    np.testing.assert_array_equal(second, lost)


def test_second_looks_lie_like_a_chessboard_or_anywhere():
    world = imagined(twice=1.0)
    rows, cols = np.divmod(np.arange(GRID[0] * GRID[1]), GRID[1])
    even = (rows + cols) % 2 == 0
    chess = [(world.field == pattern).all(1) for pattern in (even, ~even)]
    for share in chess:
        assert abs(share.mean() - 0.25) < 0.05
    rest = world.field[~(chess[0] | chess[1])]
    assert abs(rest.mean(0) - 0.5).max() < 5 * (0.25 / len(rest)) ** 0.5
    assert len(np.unique(rest, axis=0)) == len(rest)


@pytest.mark.parametrize(("codes", "expected"), [(10, np.uint8), (254, np.uint8), (255, np.int32), (1000, np.int32)])
def test_there_is_room_for_every_code_and_what_is_outside(codes, expected):
    assert code_type(codes) is expected
    assert np.iinfo(expected).max >= codes


def test_codes_never_overflow():
    tiles = np.arange(300, dtype=np.int32).reshape(1, 15, 20)
    codes = shown(imagined(1, 300, 1.0), tiles, 300, tuple(range(300)))
    assert sorted(codes.reshape(-1)) == list(range(300, 600))
