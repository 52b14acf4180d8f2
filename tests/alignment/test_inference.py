"""q_theta, in both designs, on boards and in views: what may matter to it, what may not, and that it learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.alignment.broadcast import BroadcastNet
from protoalign.alignment.imagination import Imagined, hide, imagine
from protoalign.alignment.inference import PatchNet, Step, align_views
from protoalign.alignment.training import OPTIMISER, build_model, each_in_a_row, follow, lay, loss, make_fit, rate, some
from protoalign.rl.history import Episodes
from protoalign.rl.networks import Scene
from protoalign.settings import InferConfig
from protoalign.worlds.base import Observation
from tests.alignment.helpers import ALL, explored
from tests.conftest import well_compiled

BOARD = Scene((6, 6), 5, 9, agent=(2,), floor=0, objects=20)
VIEW = Scene((4, 5), 6, 5, numbers=2, cell=7)
NETS = {
    "patches": (PatchNet, BOARD, (0, 1, 2, 3, 4)),
    "broadcast": (BroadcastNet, BOARD, (0, 1, 2, 3, 4)),
    "patches in a view": (PatchNet, VIEW, (1, 2, 4)),
    "broadcast in a view": (BroadcastNet, VIEW, (1, 2, 4)),
}
EPISODES, STEPS = 12, 5


def build(name):
    """With random weights everywhere."""
    kind, scene, hideable = NETS[name]
    net = kind(np.random.default_rng(0), scene, hideable, InferConfig(width=16, radius=2, tiles=2))
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda x: x + jnp.asarray(0.1 * rng.normal(size=x.shape), jnp.float32), net)


def games(scene, seed=0):
    """Made-up episodes: a few tiles change in every step, and the board may move as a view does."""
    rng = np.random.default_rng(seed)
    weight = [0.6] + [0.4 / (scene.prototypes - 1)] * (scene.prototypes - 1)
    tiles = [rng.choice(scene.prototypes, (EPISODES, *scene.grid), p=weight)]
    for _ in range(STEPS):
        after = np.roll(tiles[-1], rng.integers(-1, 2), 2) if scene.cell is not None else tiles[-1]
        tiles.append(np.where(rng.random(after.shape) < 0.1, rng.choice(scene.prototypes, after.shape), after))
    numbers = rng.integers(0, 4, (EPISODES, STEPS + 1, scene.numbers)).astype(np.float32)
    action = rng.integers(0, scene.actions, (EPISODES, STEPS)).astype(np.uint8)
    reward = rng.integers(-1, 2, (EPISODES, STEPS)).astype(np.float32)
    length = rng.integers(1, STEPS + 1, EPISODES).astype(np.int32)
    return Episodes(Observation(np.stack(tiles, 1).astype(np.uint8), numbers), action, reward, length, np.ones(EPISODES, bool))


followed = eqx.filter_jit(follow)


def injected(slot_of, hidden):
    """An imagined world; `hidden` by prototype."""
    truth = np.argsort(slot_of, 1).astype(np.int32)
    return Imagined(slot_of, slot_of, None, truth, np.take_along_axis(hidden, truth, 1))


@pytest.mark.parametrize("name", NETS)
def test_renaming_slots_renames_beliefs_and_nothing_else(name):
    net, rng = build(name), np.random.default_rng(0)
    kinds = len(net.hideable)
    straight = np.tile(np.arange(kinds, dtype=np.int32), (EPISODES, 1))
    psi = rng.permuted(straight, axis=1)
    hidden = rng.random((EPISODES, kinds)) < 0.8  # some are known
    episodes = games(net.scene)
    plain, renamed = (np.asarray(followed(net, episodes, injected(x, hidden))) for x in (straight, psi))
    assert plain.shape == (1 + STEPS, EPISODES, kinds, kinds)
    back = np.take_along_axis(renamed, np.broadcast_to(psi[None, ..., None], (*renamed.shape[:-1], 1)), 2)
    np.testing.assert_allclose(back, plain, atol=2e-4)
    assert abs(renamed - plain).max() > 0.1, "the renaming was not trivial"
    assert abs(plain[-1] - plain[0]).max() > 1e-2, "something was taken in"
    # After an episode's end nothing is taken in any more.
    for i, length in enumerate(episodes.length):
        assert (plain[length:, i] == plain[length, i]).all()
    # What is known is certain from the start, all others are alike.
    belief = np.exp(plain)
    np.testing.assert_allclose(belief.sum(-1), 1, atol=1e-5)
    truth = np.broadcast_to(np.eye(kinds), belief.shape)
    np.testing.assert_allclose(belief[:, ~hidden], truth[:, ~hidden], atol=1e-5)
    assert np.ptp(plain[0][hidden], 0).max() < 1e-6


@pytest.mark.parametrize("name", ["patches", "patches in a view"])
def test_following_an_episode_is_taking_in_step_by_step(name):
    """Second looks and all; as when q_theta watches a game that is being played."""
    net = build(name)
    episodes, scene, slots = games(net.scene), net.scene, len(net.hideable) + 1
    world = eqx.filter_jit(imagine)(jax.random.key(0), EPISODES, slots - 1, 0.5, 0.9, scene.grid)
    expected = np.asarray(followed(net, episodes, world))
    codes = eqx.filter_jit(hide)(world, episodes.observation.tiles, scene.prototypes, net.hideable)
    codes = np.asarray(codes)
    assert (codes == scene.prototypes + slots - 1).any(), "second looks are there"

    @eqx.filter_jit
    def take_in(net, hidden, step):
        hidden = net.update(hidden, world, net.digest(step, slots))
        return hidden, net.score(hidden, world)

    hidden, numbers = net.begin(EPISODES, slots), episodes.observation.numbers
    for t in range(STEPS):
        pictures = codes[:, t], codes[:, t + 1], numbers[:, t], numbers[:, t + 1]
        hidden, score = take_in(net, hidden, Step(*pictures, episodes.action[:, t], episodes.reward[:, t]))
        still = episodes.length > t
        np.testing.assert_allclose(np.asarray(score)[still], expected[t + 1][still], atol=1e-4)


@pytest.mark.parametrize("name", ["patches", "broadcast"])
def test_absent_slots_keep_their_state_however_many_there_are(name):
    net, rng, slots = build(name), np.random.default_rng(0), 8  # three more than there are prototypes
    hidden = jnp.asarray(rng.normal(size=(4, slots, 16)), jnp.float32)
    before = np.full((4, 6, 6), 5, np.uint8)
    after = before.copy()
    after[:, 3, 4] = 5 + slots - 1  # comes into sight
    unknown = Imagined(*(np.zeros((4, 5), np.int32),) * 2, None, np.zeros((4, slots), np.int32), np.ones((4, slots), bool))
    none = np.zeros((4, 0), np.float32)
    step = Step(before, after, none, none, np.arange(4), np.ones(4, np.float32))
    update = eqx.filter_jit(lambda net, hidden: net.update(hidden, unknown, net.digest(step, slots)))
    changed = abs(np.asarray(update(net, hidden) - hidden)).max((0, 2)) > 0
    assert changed.tolist() == [True] + [False] * (slots - 2) + [name == "broadcast"], "patches are seen around old places"
    assert net.score(hidden, unknown).shape == (4, slots, 5)


@pytest.mark.parametrize(("name", "reach"), [("patches", 2), ("broadcast", 3)])
def test_only_what_is_near_a_tile_of_a_slot_matters_to_it(name, reach):
    """Patches see two cells far in a row or column; three layers of 3 x 3 see three cells far."""
    net = build(name)
    before = np.full((6, 6, 6), 5, np.uint8)
    before[:, 0, 0] = 5 + 1
    after = before.copy()
    after[np.arange(1, 6), np.arange(1, 6), 0] = 5 + 2  # in one world nothing; in others something new, so many cells away
    hidden = jnp.tile(jnp.asarray(np.random.default_rng(0).normal(size=(1, 5, 16)), jnp.float32), (6, 1, 1))
    names = np.tile(np.arange(5, dtype=np.int32), (6, 1))
    known = Imagined(names, names, None, names, np.ones((6, 5), bool))
    none = np.zeros((6, 0), np.float32)
    step = Step(before, after, none, none, np.zeros(6, np.int32), np.zeros(6, np.float32))
    state = np.asarray(eqx.filter_jit(lambda net: net.update(hidden, known, net.digest(step, 5)))(net))[:, 1]
    differs = abs(state - state[0]).max(-1) > 1e-6
    assert differs.tolist() == [False] + [away <= reach for away in range(1, 6)]


def test_gradients_flow_through_the_states_on_the_grid_only_in_the_papers_design():
    """There, what another slot's state says counts; patches are coloured with beliefs that pass no gradient."""
    grid = games(BOARD).observation.tiles[:1, 0]
    grid[0, 0, :2] = (2, 0)
    names, none = np.arange(5, dtype=np.int32)[None], np.zeros((1, 0), np.float32)
    world = Imagined(names, names, None, names, np.ones((1, 5), bool))
    step = Step(5 + grid, 5 + grid, none, none, np.zeros(1, np.int32), np.zeros(1, np.float32))
    for name in ("broadcast", "patches"):
        net = build(name)
        grad = jax.jit(jax.grad(lambda h, net=net: net.update(h, world, net.digest(step, 5))[0, 2].sum()))(net.begin(1, 5))
        assert (abs(np.asarray(grad)[0, 0]).max() > 0) == (name == "broadcast")
        assert abs(np.asarray(grad)[0, 2]).max() > 0


def test_what_is_known_from_before_colours_cells_and_only_those():
    """A prior about another slot changes what is made of cells of it; of a slot that is not there it changes nothing."""
    net = build("patches")
    grid = np.full((1, 6, 6), 5, np.uint8)
    grid[0, 0, 1] = 6  # next to the tile of slot 0 that is looked at
    names, none = np.arange(5, dtype=np.int32)[None], np.zeros((1, 0), np.float32)
    world = Imagined(names, names, None, names, np.ones((1, 5), bool))
    step = Step(grid, grid, none, none, np.zeros(1, np.int32), np.zeros(1, np.float32))
    update = eqx.filter_jit(lambda net, prior: net.update(net.begin(1, 5), world, net.digest(step, 5), prior))

    def after(slot, by):
        prior = np.zeros((1, 5, 5), np.float32)
        prior[0, slot, 3] = by
        return np.asarray(update(net, prior))

    assert abs(after(1, 8)[0, 0] - after(1, 0)[0, 0]).max() > 1e-3
    np.testing.assert_allclose(after(4, 8), after(4, 0), atol=1e-5)


@pytest.mark.parametrize("network", ["patches", "broadcast"])
def test_beliefs_while_exploring_are_those_of_the_episode_afterwards(network):
    world, done = explored(network)
    after = np.asarray(followed(world.model, done.episodes, jax.tree.map(jnp.asarray, done.imagined)))[-1]
    np.testing.assert_allclose(after, done.score, atol=2e-3)


@pytest.mark.parametrize(("network", "updates", "bar"), [("patches", 60, 1.0), ("broadcast", 40, 1.5)])
def test_it_learns_from_games(network, updates, bar):
    """An untrained explorer's games. Not knowing a slot costs log 5 = 1.61."""
    _, done = explored(number=256)
    config = InferConfig(network=network, width=16, hide_all=1.0, twice=0.0)
    net = build_model(0, explored()[0].model.scene, ALL, config)
    state, fit = OPTIMISER.init(net), make_fit(config.hide_all, config.twice)
    rng, losses = np.random.default_rng(0), []
    with well_compiled():
        for i in range(updates):
            net, state, metrics = fit(net, state, some(rng, 24, done.episodes), jax.random.key(i), rate(i, updates, 4e-3, 2e-3))
            losses.append(float(metrics["final_loss"]))
    assert np.mean(losses[:3]) > 1.3
    assert np.mean(losses[-10:]) < bar


def test_games_laid_end_to_end_are_the_same_to_it_as_each_in_a_row():
    """The same games, the same worlds: the same loss and gradient, however they are laid; and most of a row is used."""
    _, done = explored(number=64)
    net = build_model(0, explored()[0].model.scene, ALL, InferConfig(width=16))
    number, kinds = 64, len(ALL)
    laid, _ = lay(done.episodes, np.arange(number), number)
    used = laid.counts > 0
    assert laid.first.sum() == number, "all fit"
    assert used.sum() == done.episodes.length.sum()
    rows = int(used.any(1).sum())
    assert used[:rows].mean() > 0.8, "little is empty"
    assert laid.counts.sum() == number * laid.counts.shape[1], "every game counts for a whole row"
    plain = np.tile(np.arange(kinds, dtype=np.int32), (number, 1))
    imagined = Imagined(plain, plain, None, plain, np.ones((number, kinds), bool))
    value = eqx.filter_jit(jax.value_and_grad(loss, has_aux=True))
    (one, told), grads = value(net, each_in_a_row(jax.tree.map(jnp.asarray, done.episodes)), imagined)
    (other, told_so), grads_so = value(net, laid, imagined)
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert {k: float(v) for k, v in told.items()} == pytest.approx({k: float(v) for k, v in told_so.items()}, rel=1e-4)
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(grads_so), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_games_that_differ_in_what_is_hidden_are_laid_in_rows_of_their_own():
    _, done = explored(number=64)
    labels = np.arange(64) % 3
    laid, game = lay(done.episodes, np.arange(64), 64, labels)
    length = done.episodes.length
    for row in np.flatnonzero(laid.first.any(1)):
        starts = np.flatnonzero(laid.first[row])
        tiles = laid.before.tiles[row, starts]
        there = [np.flatnonzero((done.episodes.observation.tiles[:, 0] == x).all((1, 2))) for x in tiles]
        assert len({int(labels[which[0]]) for which in there}) == 1
        assert labels[game[row]] == labels[there[0][0]]
    few, _ = lay(done.episodes, np.arange(64), 3)
    assert few.counts.shape == (3, done.episodes.action.shape[1])
    assert 3 <= few.first.sum() < 64, "as many as fit"
    assert (few.counts > 0).sum() <= length.sum()


# -- views ---------------------------------------------------------------------------------------------------------------

OUTSIDE = 99


def walk(down, right, creatures=0, seed=0):
    """Views [N, 7 * 9] before and after the agent has gone one step over an uneven land; and what had to be found."""
    rng = np.random.default_rng(seed)
    land = rng.choice(5, (40, 9, 11), p=[0.5, 0.2, 0.1, 0.1, 0.1])
    before, after = land[:, 1:8, 1:10].copy(), land[:, 1 + down : 8 + down, 1 + right : 10 + right].copy()
    for view in (before, after):  # creatures that are here before and elsewhere after
        for one in view:
            one.reshape(-1)[rng.choice(63, creatures, replace=False)] = 7
    expected = np.full_like(before, OUTSIDE)
    rows, cols = slice(max(0, down), 7 + min(0, down)), slice(max(0, right), 9 + min(0, right))
    there = slice(max(0, -down), 7 + min(0, -down)), slice(max(0, -right), 9 + min(0, -right))
    expected[:, rows, cols] = after[:, there[0], there[1]]
    return before.reshape(40, -1), after.reshape(40, -1), expected.reshape(40, -1)


@pytest.fixture(scope="module")
def aligned():
    return jax.jit(lambda before, after: align_views(before, after, (7, 9), OUTSIDE))


@pytest.mark.parametrize("creatures", [0, 6])
@pytest.mark.parametrize("step", [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])
def test_views_are_laid_where_the_agent_went(step, creatures, aligned):
    before, after, expected = walk(*step, creatures)
    found = np.asarray(aligned(before, after))
    np.testing.assert_array_equal(found, expected)
    same = (found == before)[found != OUTSIDE]
    assert same.mean() == 1 if not creatures else 0.75 < same.mean() < 1


def test_where_all_is_alike_the_view_has_stayed(aligned):
    plain = np.full((1, 63), 3)
    np.testing.assert_array_equal(aligned(plain, plain), plain)
