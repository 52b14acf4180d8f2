"""Imagined games on the host, what is shown of them, and a policy that is trained to explore them."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.alignment.hosted_exploration import (
    Explored,
    by_picture,
    combined,
    explore,
    explorer_from,
    told_right,
    train_explorer,
)
from protoalign.alignment.hosted_imagination import ImaginedGames, check, show
from protoalign.alignment.training import build_model
from protoalign.errors import UserError
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.board_net import BoardNet
from protoalign.rl.networks import Scene
from protoalign.runs import Memory, Run
from protoalign.settings import HOSTED, ExploreConfig, InferConfig, PPOConfig
from protoalign.worlds.base import Observation
from protoalign.worlds.gym import GymWorld
from tests.worlds.rooms import Fraying, Rooms

LONGEST = 12
KIND_OF = np.array([0, 1, 2, 3, 4, 4, 5], np.int32)  # the agent is one kind, on floor and on gold
PLAIN = InferConfig(width=8, batch=4, radius=1, tiles=2)


@pytest.fixture(scope="module")
def world():
    return GymWorld(Rooms, 4, max_steps=40)


@pytest.fixture(scope="module")
def vocabulary():
    pictures = Rooms().pictures
    return replace(Vocabulary.each(pictures, np.array([9, 5, 1, 1, 1, 1, 1])), prototype_of=KIND_OF)


@pytest.fixture(scope="module")
def scene():
    return Scene((5, 5), 6, 4)


@pytest.fixture(scope="module")
def model(scene):
    """One that says something: weights as they are drawn, the last ones larger."""
    found = build_model(0, scene, tuple(range(6)), PLAIN)
    return eqx.tree_at(lambda m: m.read.weight, found, 20 * found.read.weight)


def played(games, seed, steps):
    """Rewards and what was shown, of random play."""
    rng = np.random.default_rng(0)
    games.begin(seed)
    shown, told = [games.seen()], []
    for _ in range(steps):
        told.append(games.step(rng.integers(4, size=games.number)))
        shown.append(games.seen())
    return shown, [np.stack(x) for x in zip(*told, strict=True)]


def test_what_is_sure_doubtful_and_unknown_is_shown_so():
    belief = jnp.array([[[0.95, 0.03, 0.02], [0.3, 0.6, 0.1], [0.34, 0.33, 0.33]]])
    met = jnp.array([[True, True, False]])
    seen = show(belief, met, jnp.array([[[0, 1], [2, 0]]]), jnp.array([[7.0]]))
    assert seen.tiles.tolist() == [[[0, 4], [6, 0]]]
    np.testing.assert_allclose(seen.numbers, [[7, 0.95**2, 0.6**2, 0.1**2]], rtol=1e-6)


def test_rewards_add_up_to_what_q_theta_learned_of_the_truth(world, vocabulary, model):
    with ImaginedGames(world, 6, vocabulary, model, LONGEST) as games:
        played(games, 3, 5)
        going = games.lengths == 5
        watching, told = games.watching, games.returns
    score = model.score(watching.hidden, watching.imagined)
    start = model.score(model.begin(6, 7), watching.imagined)
    truth = watching.imagined.truth[..., None]
    gained = jnp.take_along_axis(score - start, truth, -1)[..., 0].sum(1)
    assert going.any()
    assert abs(told[going]).min() > 0.01
    np.testing.assert_allclose(told[going], gained[going], rtol=1e-3, atol=1e-4)


def test_every_picture_is_hidden_and_what_it_is_counts(world, vocabulary, model):
    with ImaginedGames(world, 6, vocabulary, model, LONGEST) as games:
        games.begin(1)
        imagined = jax.device_get(games.watching.imagined)
        known = ImaginedGames(world, 6, vocabulary, model, LONGEST, 0.0)
        known.begin(1)
        some = np.asarray(known.watching.imagined.hidden)
        known.close()
    assert imagined.hidden.all()
    assert 0 < some.mean() < 1
    np.testing.assert_array_equal(np.take_along_axis(imagined.truth, imagined.slot_of, 1), np.tile(KIND_OF, (6, 1)))
    assert len({tuple(row) for row in imagined.slot_of.tolist()}) > 1


def test_nothing_shown_depends_on_the_numbers_of_slots(world, vocabulary, model):
    found = []
    for other in (0, 1):
        with ImaginedGames(world, 4, vocabulary, model, LONGEST) as games:
            begin = games.begin

            def renamed(seed, begin=begin, games=games, other=other):
                begin(seed)
                if other:
                    turned = jax.tree.map(lambda x: x[::-1], games.watching.imagined._replace(field=None))
                    games.watching = games.watching._replace(imagined=turned)

            games.begin = renamed
            found.append(played(games, 5, 4))
    going = ~np.logical_or.accumulate(found[0][1][3])  # none was reset yet
    assert going[-1].any()
    for (one, other), still in zip(zip(found[0][0][1:], found[1][0][1:], strict=True), going, strict=True):
        np.testing.assert_array_equal(one.tiles[still], other.tiles[still])
        np.testing.assert_allclose(one.numbers[still], other.numbers[still], atol=1e-5)


def test_episodes_are_cut_off_and_kept_as_pictures_with_rewards_of_the_world(world, vocabulary, model):
    with ImaginedGames(world, 8, vocabulary, model, LONGEST) as games:
        _, (_, terminated, truncated, reset) = played(games, 2, 40)
        episodes = games.episodes()
    assert not (terminated & truncated).any()
    assert (reset[1:] == (terminated | truncated)[:-1]).all()
    assert truncated.any()
    assert episodes.length.max() == LONGEST
    assert set(np.unique(episodes.reward)) <= {0.0, 1.0}
    assert set(np.unique(episodes.observation.tiles)) <= set(range(7))
    ends = episodes.observation.tiles[np.arange(len(episodes.length)), episodes.length]
    won = episodes.reward.sum(1) == 1
    np.testing.assert_array_equal((ends == 5).any((1, 2)), won)  # the agent is on the gold


@pytest.mark.parametrize("workers", [0, 2])
def test_any_number_of_tiles_that_are_not_known_may_be_met(vocabulary, model, workers):
    frayed = GymWorld(partial(Fraying, 70), 4, max_steps=40, workers=workers)
    with ImaginedGames(frayed, 6, vocabulary, model, LONGEST) as games:
        shown, _ = played(games, 5, 90)
        assert (games._own().tiles == vocabulary.counts.argmax()).all()
    assert len(shown) == 91


def test_an_explorer_begins_as_the_task_policy(vocabulary, scene):
    rng = np.random.default_rng(0)
    task = BoardNet(rng, scene, 16)
    task = eqx.tree_at(lambda n: n.scores, task, jnp.zeros(256).at[4].set(0.5))
    net = explorer_from(task, scene, vocabulary.canonical, rng, 0.5)
    kinds = rng.integers(0, 6, (3, 5, 5)).astype(np.uint8)
    nothing = np.zeros((3, 0), np.float32)
    logits, _ = task(task.encode(Observation(vocabulary.canonical[kinds].astype(np.uint8), nothing)))
    for more in (0, 6):  # certain, or in doubt
        seen = net.encode(Observation(kinds + np.uint8(more), np.zeros((3, 6), np.float32)))
        if not more:
            np.testing.assert_allclose(net(seen)[0], 0.5 * logits, atol=1e-5)
        assert np.ptp(seen.anchor) > 0
        assert (kinds.reshape(3, -1)[np.arange(3), seen.anchor] == 4).all()
    fresh = explorer_from(task, scene, vocabulary.canonical, rng, 0.0)
    np.testing.assert_array_equal(fresh.scores, net.scores)
    assert abs(fresh.embedding - net.embedding).max() > 0.1


def test_pictures_share_what_their_prototype_has():
    score = np.log([[0.6, 0.4]])
    np.testing.assert_allclose(np.exp(by_picture(score, np.array([0, 1, 0]))), [[0.3, 0.4, 0.3]])
    told = np.log([[[0.9, 0.1]], [[0.1, 0.9]]])
    np.testing.assert_allclose(np.exp(combined(told, np.array([[True], [False]]))), [[0.9, 0.1]])


def test_right_is_what_was_met_and_told_apart():
    kind_of = np.array([0, 1, 1])
    sure = np.log(np.array([[0.98, 0.02], [0.02, 0.98], [0.02, 0.98]]))
    score = np.stack([sure, sure[::-1], sure])
    met = np.array([[True, True, True], [True, True, True], [True, True, False]])
    right, seen = told_right(Explored(score, met, np.zeros(3), np.ones(3)), kind_of, 1)
    assert right[0].all()
    assert right[1].tolist() == [False, True, False]
    assert (right | ~seen).all(1).tolist() == [True, False, True]


def test_many_prototypes_are_refused():
    check(127, "few")
    with pytest.raises(UserError, match="127 at most"):
        check(128, "many")


class Killed(Exception):
    pass


class Fragile(Run):
    """Dies when it has saved so many checkpoints."""

    left = 99

    def save(self, *arguments):
        super().save(*arguments)
        self.left -= 1
        if not self.left:
            raise Killed


def test_training_goes_on_after_a_kill_as_if_nothing_had_happened(world, vocabulary, scene, model, tmp_path):
    ppo = PPOConfig(envs=8, segment=8, minibatch=32, epochs=1)
    config = ExploreConfig(steps=8 * 8 * 24, rounds=2, refresh=2, batch=4, ppo=ppo)
    net = explorer_from(
        BoardNet(np.random.default_rng(0), scene, 8), scene, vocabulary.canonical, np.random.default_rng(1), 0.5
    )
    with ImaginedGames(world, 8, vocabulary, model, LONGEST) as games:
        played(games, 7, 30)
        history = games.episodes()

    def trained(store):
        return train_explorer(store, config, PLAIN, world, vocabulary, model, net, history, 0, LONGEST)

    whole = trained(Memory())
    store = Fragile(tmp_path)
    store.left = 2
    with pytest.raises(Killed):
        trained(store)
    again = trained(Run(tmp_path))
    for one, other in zip(jax.tree.leaves(whole[:2]), jax.tree.leaves(again[:2]), strict=True):
        np.testing.assert_array_equal(one, other)
    changed = [abs(a - b).max() for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(whole[1]), strict=True)]
    assert max(changed) > 0, "q_theta was refreshed"
    assert again[2]["steps"] == config.steps
    rows = Run(tmp_path).metrics("explore")
    assert [row["update"] for row in rows] == [6, 16, 24]


def test_an_episode_of_each_game_from_start_to_end(world, vocabulary, scene, model):
    net = explorer_from(
        BoardNet(np.random.default_rng(0), scene, 8), scene, vocabulary.canonical, np.random.default_rng(1), 0.5
    )
    with ImaginedGames(world, 16, vocabulary, model, LONGEST) as games:
        found = explore(games, net, jax.random.key(0), 4)
    assert (found.length <= LONGEST).all()
    assert np.ptp(found.length) > 0
    assert found.met[:, [0, 1, 2, 3, 4]].all()
    assert not found.met[:, [5, 6]].any()  # in last pictures only
    truth = np.take_along_axis(found.score, np.tile(KIND_OF, (16, 1))[..., None], 2)[..., 0]
    start = np.asarray(jax.nn.log_softmax(model.read(model.start)))[KIND_OF]
    np.testing.assert_allclose((truth - start).sum(1), found.information, rtol=1e-3, atol=1e-3)


def test_settings_of_hosted_worlds_explore():
    assert HOSTED.infer.longest == 64
    assert HOSTED.explore.updates > HOSTED.explore.rounds**2
