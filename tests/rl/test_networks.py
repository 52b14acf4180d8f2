import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.envs import hunter
from protoalign.rl.networks import RelationNet, RelativeNet, embed_sum, first_marked

WORLD = hunter.parse("z2c2")


def grids(world, n, seed=0):
    return np.asarray(world.observe(jax.jit(world.reset, static_argnums=1)(jax.random.key(seed), n)))


def noisy(net, seed=0):
    """The network with random weights everywhere, so that no output is nearly zero."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape, scale=0.3), jnp.float32), net)


def test_objects_are_found():
    rng = np.random.default_rng(0)
    mask = rng.random((50, 64)) < 0.2
    got = np.asarray(first_marked(mask, 20))
    for row, found in zip(mask, got, strict=True):
        expected = np.flatnonzero(row)[:20].tolist()
        assert found.tolist() == expected + [64] * (20 - len(expected))


def test_embedding_sums_and_their_gradients():
    rng = np.random.default_rng(0)
    table, rows = rng.normal(size=(30, 4)).astype(np.float32), rng.integers(0, 33, (20, 6))  # rows past 29 count as zero

    def plain(table):
        return jnp.concatenate([table, jnp.zeros((3, 4))])[rows].sum(1)

    np.testing.assert_allclose(embed_sum(table, rows), plain(table), rtol=1e-5, atol=1e-6)
    got = jax.grad(lambda t: (embed_sum(t, rows) ** 2).sum())(table)
    np.testing.assert_allclose(got, jax.grad(lambda t: (plain(t) ** 2).sum())(table), rtol=1e-3, atol=1e-4)


def test_relative_network_against_a_plain_loop():
    net = noisy(RelativeNet(np.random.default_rng(0), WORLD, 16))
    grid = grids(WORLD, 12)
    logits, value = net(net.encode(grid))
    for b in range(12):
        (ar,), (ac,) = np.nonzero(grid[b] == WORLD.agent)
        x = np.asarray(net.place[ar * 8 + ac] + net.bias)
        for r, c in zip(*np.nonzero(grid[b]), strict=True):
            x = x + np.asarray(net.table[grid[b, r, c], (r - ar + 7) * 15 + (c - ac + 7)])
        x = np.maximum(np.maximum(x, 0) @ net.hidden.weight + net.hidden.bias, 0)
        np.testing.assert_allclose(logits[b], x @ net.heads.policy.weight + net.heads.policy.bias, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(value[b], (x @ net.heads.value.weight + net.heads.value.bias)[0], rtol=1e-3, atol=1e-4)


def test_soft_codes_that_are_sure_equal_hard_ones():
    """Types are categories under other names; a one-hot code per type says which."""
    net = noisy(RelativeNet(np.random.default_rng(0), WORLD, 16))
    grid = grids(WORLD, 20)
    rename = np.array([0, 3, 1, 4, 2])  # category -> type; floor stays 0
    codes = np.zeros((20, 5, 5), np.float32)
    codes[:, rename, np.arange(5)] = 1
    for hard, soft in zip(net(net.encode(grid)), net(net.encode(rename[grid].astype(np.uint8), codes)), strict=True):
        np.testing.assert_allclose(hard, soft, rtol=1e-4, atol=1e-5)


def test_soft_codes_mix_linearly_before_the_first_layer():
    """Half zombie, half cow: the embedding is the mean of both."""
    net = noisy(RelativeNet(np.random.default_rng(0), WORLD, 16))
    grid = grids(WORLD, 6)
    half = np.tile(np.eye(5, dtype=np.float32), (6, 1, 1))
    half[:, 1] = half[:, 3] = [0, 0.5, 0, 0.5, 0]
    first = [
        np.asarray(features(net, net.encode(g, c))) for g, c in ((grid, half), *((other, eye(6)) for other in swaps(grid)))
    ]
    seen = net.encode(grid, half)
    x = jax.nn.relu(features(net, seen) + net.place[seen.place.astype(np.int32)] + net.bias)
    for got, expected in zip(net(seen), net.heads(jax.nn.relu(net.hidden(x))), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    mixed, (straight, as_zombies, as_cows) = first[0], first[1:]
    np.testing.assert_allclose(mixed, (as_zombies + as_cows) / 2, rtol=1e-4, atol=1e-5)
    assert not np.allclose(mixed, straight)


def eye(n):
    return np.tile(np.eye(5, dtype=np.float32), (n, 1, 1))


def swaps(grid):
    """The grid as it is, with all animals zombies, with all animals cows."""
    animal = (grid == 1) | (grid == 3)
    return grid, np.where(animal, 1, grid).astype(np.uint8), np.where(animal, 3, grid).astype(np.uint8)


def features(net, seen):
    """What goes into the first layer."""
    code = jnp.take_along_axis(seen.codes, seen.category.astype(jnp.int32)[..., None], 1)
    padded = jnp.concatenate([net.table, jnp.zeros((5, 1, net.table.shape[2]))], 1)
    return jnp.einsum("bkc,cbkf->bf", code, padded[:, seen.offset.astype(jnp.int32)])


@pytest.mark.parametrize("name", ["z1c1", "z1c1/z4c4"])
@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("build", [RelativeNet, RelationNet])
def test_any_grid(build, name, size):
    world = hunter.parse(name, size)
    net = build(np.random.default_rng(0), world, 32)
    logits, value = net(net.encode(grids(world, 5)))
    assert logits.shape == (5, 9)
    assert value.shape == (5,)
    assert np.isfinite(logits).all()
    assert abs(jax.nn.softmax(logits) - 1 / 9).max() < 0.05, "a fresh policy is nearly uniform"


def test_relation_network_sees_positions_and_categories():
    net = noisy(RelationNet(np.random.default_rng(0), WORLD, 32))
    grid = grids(WORLD, 1)
    base, _ = net(net.encode(grid))
    moved, _ = net(net.encode(np.roll(grid, 1, 2)))
    recoloured, _ = net(net.encode(np.where(grid == 1, 3, grid)))
    assert abs(base - moved).max() > 1e-3
    assert abs(base - recoloured).max() > 1e-3


def test_relation_network_does_the_same_in_any_batch():
    net = noisy(RelationNet(np.random.default_rng(0), WORLD, 32))
    grid = grids(WORLD, 37)  # not a multiple of the chunk it works in
    together, _ = net(net.encode(grid))
    alone = np.concatenate([net(net.encode(grid[i : i + 1]))[0] for i in range(0, 37, 12)])
    np.testing.assert_allclose(together[::12], alone, rtol=1e-3, atol=1e-4)
