"""PPO in worlds that are stepped on the host: segments, and training that is stopped and goes on."""

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import GymWorld, UserError
from protoalign.rl import host_train
from protoalign.rl.board_net import BoardNet
from protoalign.rl.history import cut
from protoalign.rl.host_rollout import HostVector, collect, play_with_slips
from protoalign.rl.networks import Scene
from protoalign.runs import Memory, Run
from protoalign.settings import PPOConfig, TaskConfig
from protoalign.worlds.gym import Seen
from protoalign.worlds.tile_dictionary import MOST, TileDictionary
from tests.worlds.rooms import AGENT, AGENT_IN_LAVA, AGENT_ON_GOLD, FLOOR, WALL, Bag, Fraying, Rooms, Trouble

STEPS = 12  # of an episode, at most
CONFIG = TaskConfig("board", 8, 32 * 24, 200, 8, 0.02, PPOConfig(envs=4, segment=8, minibatch=16, epochs=1))


def world(make=Rooms, **options):
    return GymWorld(make, 4, max_steps=STEPS, name="rooms", **options)


def net(actions=4, numbers=0):
    return BoardNet(np.random.default_rng(0), Scene((5, 5), 255, actions, numbers, None), CONFIG.width)


# -- segments --------------------------------------------------------------------------------------------------------------


class Painful(Rooms):
    """Lava costs something."""

    def step(self, action):
        picture, reward, over, cut_off, info = super().step(action)
        return picture, reward if reward or not over else -2.0, over, cut_off, info


class Drifting(Rooms):
    """Walls go where they like, far from the agent too."""

    def step(self, action):
        found = super().step(action)
        elsewhere = (np.indices(self.grid.shape) != self.place[:, None, None]).any(0)
        walls, free = (np.argwhere((self.grid == x) & elsewhere) for x in (WALL, FLOOR))
        self.grid[tuple(walls[0])] = FLOOR
        self.grid[tuple(free[self.np_random.integers(len(free))])] = WALL
        return self.show(), *found[1:]


def test_losses_that_end_an_episode_count_as_much_as_is_feared():
    with HostVector(world(Painful), 4, TileDictionary((4, 4))) as games:
        games.begin(3)
        segment, _, _, record = collect(games, net(), jax.random.key(0), 60, 4, scale=0.5, fear=0.1)
    lost = np.asarray(record.reward) < 0
    assert lost.sum() > 3
    assert (np.asarray(record.reward) > 0).any()
    np.testing.assert_allclose(segment.reward, np.asarray(record.reward) * np.where(lost, 0.05, 0.5))


def test_what_moves_by_itself_is_nothing_new():
    rng = np.random.default_rng(0)
    told = {}
    for make in (Rooms, Drifting):
        dictionary = TileDictionary((4, 4))
        with HostVector(world(make), 16, dictionary) as games:
            for _ in range(2):  # the agent is known after the first
                games.begin(5)
                for _ in range(200):
                    games.step(rng.integers(4, size=16))
            games.begin(6)
            ids = {i: dictionary.ids.get(picture.tobytes()) for i, picture in enumerate(make().pictures)}
            told[make] = {i for i, x in ids.items() if x is not None and games._told[x] == 255}
            new = []
            for _ in range(STEPS - 1):
                games.step(np.zeros(16, int))  # against a wall before long
                new.append(games.new.copy())
        told[make, "new"] = np.mean(new[-4:])
    assert told[Rooms] == set()
    assert told[Drifting] == {FLOOR, WALL}
    assert told[Drifting, "new"] < 0.2


def test_games_with_slips_show_what_the_policy_avoids():
    """One that always goes up, but for slips, which are more frequent in some games than in others."""
    up = eqx.tree_at(lambda n: n.heads.policy.bias, net(), jnp.array([50.0, 0, 0, 0]))
    found = []
    for _ in range(2):
        with HostVector(world(), 8, TileDictionary((4, 4))) as games:
            found.append(play_with_slips(games, up, np.random.default_rng(1), 8 * 300, 3))
    record = found[0]
    for one, other in zip(jax.tree.leaves(record), jax.tree.leaves(found[1]), strict=True):
        np.testing.assert_array_equal(one, other)
    assert record.observation.tiles.shape == (2 * 301, 3, 5, 5)  # of eight games, twice three
    assert record.reset[[300, -1]].all(), "all episodes end where another game's begin"
    shares = [
        [np.mean(part[:, i][~reset[:, i]] > 0) for i in range(3)]
        for part, reset in zip(np.split(record.action, 2), np.split(record.reset, 2), strict=True)
    ]
    np.testing.assert_allclose(np.ravel(shares), 0.75 * np.arange(1, 7) / 10, atol=4 * np.sqrt(0.25 / 250))
    episodes = cut(record)
    assert episodes.terminated.any()
    assert (episodes.length <= STEPS).all()


def test_games_with_slips_of_which_nothing_can_be_seen():
    full = TileDictionary((4, 4), np.random.default_rng(9).integers(0, 256, (MOST, 4, 4, 3), np.uint8))
    with HostVector(world(), 4, full) as games:
        assert play_with_slips(games, net(), np.random.default_rng(1), 40, 4) is None


def test_the_history_ends_with_slips():
    store = Memory()
    host_train.train(store, CONFIG, world(), net(), 0)
    record = store.recorded("task")
    steps = int((~record.reset).sum())
    assert steps > CONFIG.history, "slips come on top"
    assert CONFIG.recorded == record.action.shape[1]


def test_a_segment_is_what_stepping_by_hand_gives():
    """Also the last picture of an episode, which is seen before the game is reset, and the numbers."""
    told = world(Bag, picture="image", numbers=("steps", "place"))
    dictionary, hand = TileDictionary(told.tile), TileDictionary(told.tile)
    with HostVector(told, 3, dictionary) as games:
        games.begin(7)
        segment, value, sums, record = collect(games, net(numbers=3), jax.random.key(1), 40, 3, 0.5, closing=True)
        scores = games.scores
    alone = [Seen(told.make(), hand) for _ in range(3)]
    seen = [game.reset(seed=7 + i) for i, game in enumerate(alone)]
    over, met, returns = [False] * 3, [set(), set(), set()], []
    earned = np.zeros(3)
    for t in range(40):
        for i, game in enumerate(alone):
            np.testing.assert_array_equal(record.observation.tiles[t, i], seen[i][0])
            np.testing.assert_array_equal(record.observation.numbers[t, i], seen[i][1])
            assert segment.reset[t, i] == over[i]
            if over[i]:
                seen[i], reward, terminated, truncated = game.reset(), 0.0, False, False
                met[i], earned[i] = set(), 0.0
            else:
                *seen[i], reward, terminated, truncated = game.step(int(segment.action[t, i]))
            board = seen[i][0].tobytes() + seen[i][1].tobytes()
            fresh = board not in met[i] and not over[i]
            met[i].add(board)
            assert segment.terminated[t, i] == terminated
            assert segment.truncated[t, i] == (truncated and not terminated)
            assert segment.reward[t, i] == pytest.approx(reward + 0.5 * fresh)
            assert record.reward[t, i] == reward
            earned[i] += reward
            over[i] = terminated or truncated
            if over[i]:
                returns.append(earned[i])
                assert int(seen[i][1][0]) <= STEPS
    assert (sums["episodes"], sums["return_sum"]) == (len(returns), sum(returns))
    assert {0.0, 1.0} <= set(returns), "both ends, and both looks of the agent there, were met"
    assert len(dictionary) == 7
    np.testing.assert_array_equal(dictionary.pictures, hand.pictures)
    np.testing.assert_array_equal(record.observation.tiles[-1], np.stack([s[0] for s in seen]), err_msg="the closing row")
    assert record.reset[-1].all()
    assert np.isfinite(value).all()
    last = [dictionary.ids[Rooms().pictures[i].tobytes()] for i in (AGENT_ON_GOLD, AGENT_IN_LAVA)]
    ends = record.observation.tiles[1:][np.asarray(record.terminated[:-1])]
    assert np.isin(ends, last).any((1, 2)).all(), "an end is seen as it is, before the game is reset"
    assert scores.argmax() == dictionary.ids[Rooms().pictures[AGENT].tobytes()], "what moves and is alone is the agent"


# -- training --------------------------------------------------------------------------------------------------------------


def trained(store, **options):
    return host_train.train(store, CONFIG, world(**options), net(), 0)


@cache
def whole():
    store = Memory()
    return *trained(store)[:2], store


def same(found, store):
    """Whether a training has ended as the one that was never stopped."""
    network, dictionary, unbroken = whole()
    for ours, theirs in zip(jax.tree.leaves(found[0]), jax.tree.leaves(network), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(found[1].pictures, dictionary.pictures)
    for ours, theirs in zip(jax.tree.leaves(store.recorded("task")), jax.tree.leaves(unbroken.recorded("task")), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return True


@pytest.mark.parametrize("workers", [0, 2])
def test_slips_that_show_too_many_tiles_end_early_and_the_training_is_kept(tmp_path, workers):
    """Each game shows some 300 pictures before."""
    run = Run(tmp_path)
    found = trained(run, make=partial(Fraying, 300), workers=workers)
    for ours, theirs in zip(jax.tree.leaves(found[0]), jax.tree.leaves(whole()[0]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(found[1]) == MOST
    ours, theirs = run.recorded("task"), whole()[2].recorded("task")
    learning, kept = (
        len(theirs.reset) - 2 * 11,
        (len(ours.reset) - len(theirs.reset)) // 2 + 10,
    )  # steps; slips of twice two games
    assert 3 < kept < 10
    assert ours.reset[[learning + kept, -1]].all()
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(one[: learning + 3], other[: learning + 3])
    np.testing.assert_array_equal(trained(run)[1].pictures, found[1].pictures)  # it is done
    if workers:
        alone = Memory()
        np.testing.assert_array_equal(trained(alone, make=partial(Fraying, 300))[1].pictures, found[1].pictures)
        for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(alone.recorded("task")), strict=True):
            np.testing.assert_array_equal(one, other)


def test_too_many_tiles_come_again_so_nothing_is_promised(tmp_path):
    run = Run(tmp_path)
    with pytest.raises(UserError, match=r"more than 255 .* every time; the size 4 x 4 was found: .*\(--tile\)$"):
        host_train.train(run, CONFIG, GymWorld(partial(Fraying, 250), max_steps=STEPS, name="rooms"), net(), 0)
    assert [row["update"] for row in run.metrics("task")] == [10]


class Killed(Exception):
    pass


class Mortal(Run):
    """Is killed just before, and just after, its checkpoints are written."""

    after = 0

    def save(self, stage, step, tree, info):
        if self.after == step:
            raise Killed
        super().save(stage, step, tree, info)
        if self.after == step + 1:
            raise Killed


def test_killed_and_resumed_the_policy_is_the_same_to_the_bit(tmp_path):
    assert CONFIG.updates == 24
    for after in (10, 11, 20):  # before the first checkpoint is written, after it, before the second one
        run = Mortal(tmp_path)
        run.after = after
        with pytest.raises(Killed):
            trained(run)
    assert [row["update"] for row in Run(tmp_path).metrics("task")] == [10, 20]
    run = Run(tmp_path)
    assert same(trained(run), run)
    assert [row["update"] for row in run.metrics("task")] == [10, 20, 24]
    _, dictionary, figures = trained(run)  # it is done
    assert len(dictionary) == len(whole()[1])
    assert figures["steps"] == CONFIG.steps


def test_with_workers_the_policy_is_the_same_to_the_bit():
    store = Memory()
    assert same(trained(store, workers=2), store)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_environment_that_raises_stops_the_training_and_the_same_call_goes_on(tmp_path, workers):
    run = Run(tmp_path)
    life = host_train.LOOKED + 90  # the first leg has 80 steps
    with pytest.raises(
        UserError, match=r"rooms raised RuntimeError in step\(\): the floor gave way.*; started again, it goes on from step 320"
    ):
        trained(run, make=partial(Trouble, life, "raise"), workers=workers)
    assert [row["update"] for row in run.metrics("task")] == [10]
    run = Run(tmp_path)
    assert same(trained(run), run)
