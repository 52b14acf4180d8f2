"""From pictures alone: a policy is learned in a small Gymnasium world, and keeps playing when it is redrawn."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from protoalign import stages
from protoalign.agent import Agent, evaluate
from protoalign.alignment.automorphisms import alike, cost
from protoalign.alignment.hosted_verdict import judge
from protoalign.alignment.local_training import transitions_of
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.merging import merged
from protoalign.errors import UserError
from protoalign.perception.tiles import join
from protoalign.rl.history import cut
from protoalign.runs import Memory
from protoalign.settings import HOSTED
from protoalign.stages import hosted
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.looks import cut as cut_tiles
from protoalign.worlds.reskin import Reskin
from tests.conftest import well_compiled
from tests.worlds.rooms import LAVA, Rooms

SEED = 0


class Headed(Rooms):
    """The agent is drawn with the heading of its last move, which does not matter."""

    def __init__(self, look: int = 0, size: int = 5):
        super().__init__(look, size=size)
        self.pictures = np.concatenate(
            [self.pictures, np.random.default_rng(50 + look).integers(0, 256, (3, 4, 4, 3), np.uint8)]
        )
        self.heading = 0

    def reset(self, **options):
        self.heading = 0
        return super().reset(**options)

    def step(self, action):
        self.heading = int(action)
        return super().step(action)

    def ids(self):
        ids = super().ids()
        return np.where((ids == 4) & (self.heading > 0), 6 + self.heading, ids)


class Unruly(Rooms):
    """Goes anywhere, whatever is done, and everything changes places."""

    def step(self, action):
        found = super().step(int(self.np_random.integers(4)))
        flat = self.grid.reshape(-1)
        self.grid = self.np_random.permutation(flat).reshape(self.grid.shape)
        self.grid[tuple(self.place)] = 0
        return self.show(), *found[1:]


@pytest.fixture(scope="module")
def trained():
    world = GymWorld(Headed, 4, max_steps=40)
    settings = replace(
        HOSTED,
        task=replace(HOSTED.task, steps=60_000, evaluation=60),
        local=replace(HOSTED.local, updates=1200, batch=512, boards=64),
        target_episodes=40,
    )
    store = Memory()
    with well_compiled():
        agent = hosted.model(world, store, hosted.task(world, store, SEED, settings, "fast"))
    return world, agent, store


def test_a_policy_is_learned_from_pictures_alone(trained):
    _, agent, store = trained
    found = store.result()
    assert found["source_return"] > 0.85
    assert found["bayes"]["world_model"]["change_right"] > 0.95
    assert agent.local is not None


def test_headings_that_do_not_matter_are_one_kind(trained):
    world, agent, _ = trained
    pictures = world.make().unwrapped.pictures
    group = {p.tobytes(): int(c) for p, c in zip(agent.vocabulary.pictures, agent.vocabulary.prototype_of, strict=True)}
    headings = {group[pictures[i].tobytes()] for i in (4, 7, 8, 9)}
    assert len(headings) == 1
    others = [group[pictures[i].tobytes()] for i in range(4)]
    assert len({*others, *headings}) == 5


def test_a_model_is_fitted_again_after_a_kill_that_left_it_half_told(trained):
    """The agent's file is there, its result is not: pictures that were one kind by then are found to be so again."""
    _, agent, store = trained
    quick = replace(agent, settings=replace(agent.settings, local=replace(agent.settings.local, updates=10)))
    again = hosted.fit_model(Memory(), quick, cut(store.recorded("task"), None))
    before, now = agent.vocabulary.prototype_of, again.vocabulary.prototype_of
    assert len(now) == len(before) > agent.scene.prototypes
    merged = before == before[:, None]
    assert (now == now[:, None])[merged].all()
    assert again.scene.prototypes == now.max() + 1


def test_somebody_elses_policy_stays_as_it_is(trained):
    """Also where pictures became one kind."""
    world, agent, _ = trained
    other, store = replace(agent, task=None, adopted=lambda picture: 0), Memory()
    store.add_result({"bayes": {}})
    assert hosted.model(world, store, other) is other
    assert "seconds" not in store.result()


def test_the_policy_goes_on_on_prototypes(trained):
    _, agent, store = trained
    found = store.result()
    settings = agent.settings.task
    assert found["seconds"]["on_prototypes"] > 0
    assert found["task_steps"] > settings.steps
    assert store.metrics("on_prototypes")[-1]["return"] > 0.7


def test_what_is_dangerous_is_found_out(trained):
    world, agent, _ = trained
    lava = world.make().unwrapped.pictures[LAVA].tobytes()
    names = [p.tobytes() == lava for p in agent.vocabulary.pictures[agent.vocabulary.canonical]]
    assert int(np.argmax(agent.danger)) == names.index(True)


def test_it_plays_on_in_other_looks(trained, tmp_path):
    world, agent, store = trained
    right, returns, blind = [], [], []
    for seed in range(4):
        target = Reskin(world.make(), seed=seed)
        mapping = agent.align(target, 3, seed=seed)
        found = judge(mapping, target, world, f"random:{seed}")
        right.append(found["mapping_correct"])
        returns.append(evaluate(agent.policy(mapping, seed=seed), target, 15, seed=500)["return"])
        blind.append(evaluate(agent.policy(None, seed=seed), target, 10, seed=100 * seed)["return"])
        assert mapping.sureness < 1
    assert np.mean(right) >= 0.75
    source = store.result()["source_return"]
    # Of 4 x 15 games; a game is worth 0 or 1.
    assert np.mean(returns) > source - 4 * np.sqrt(0.1 / 60)
    # Who cannot tell gold from lava comes to both as often.
    assert np.mean(blind) < 0.75 * source
    # One picture at a time is what the mapping makes of all of them.
    picture = target.reset(seed=3)[0]
    assert mapping.translate(picture).shape == picture.shape
    mapping.save(tmp_path / "found")
    again = Mapping.load(tmp_path / "found")
    np.testing.assert_array_equal(again(picture), mapping(picture))
    assert again.sureness == pytest.approx(mapping.sureness)


def test_a_board_of_another_size(trained):
    _, agent, _ = trained
    larger = GymWorld(lambda: Headed(size=7), 4, max_steps=60)
    target = Reskin(larger.make(), seed=9)
    mapping = agent.align(target, 4, seed=1)
    assert judge(mapping, target, larger, "random:9")["mapping_correct"]
    assert evaluate(agent.policy(mapping), target, 20)["return"] > 0.6


def test_a_world_that_works_in_another_way_is_strange(trained):
    world, agent, _ = trained
    odd = GymWorld(Unruly, 4, max_steps=40)
    mapping = agent.align(Reskin(odd.make(), seed=2), 2, seed=1)
    usual = agent.align(Reskin(world.make(), seed=2), 2, seed=1)
    assert mapping.strangeness > 2 > usual.strangeness
    assert mapping.sureness == 0.0
    assert any("would hardly ever happen in the source" in doubt for doubt in mapping.doubts)
    as_in_source = agent.align(odd.make(), 2, seed=1)  # there is nothing to find out, and nothing is understood
    assert as_in_source.strangeness > 2
    assert as_in_source.sureness == 0.0
    assert agent.align(world.make(), 2, seed=1).sureness > 0.9


class Fountains(Headed):
    """Pays for stepping into one of four fountains, which nothing in the source is like."""

    def __init__(self):
        super().__init__()
        more = np.random.default_rng(9).integers(0, 256, (2, 4, 4, 3), np.uint8)
        self.pictures = np.concatenate([self.pictures, more])

    def reset(self, **options):
        super().reset(**options)
        free = np.argwhere(self.grid == 0)
        self.fountains = self.np_random.permutation(free[(free != self.place).any(1)])[:4]
        return self.show(), {}

    def step(self, action):
        picture, reward, *rest = super().step(action)
        return picture, reward + 0.5 * (self.fountains == self.place).all(1).any(), *rest

    def ids(self):
        ids = super().ids()
        for place in map(tuple, getattr(self, "fountains", ())):
            ids[place] = 10 if ids[place] == 0 else 11 if ids[place] in (4, 7, 8, 9) else ids[place]
        return ids


def test_what_nothing_in_the_source_explains_makes_nobody_sure(trained):
    world, agent, _ = trained
    odd = GymWorld(Fountains, 4, max_steps=40)
    mappings = [agent.align(Reskin(odd.make(), seed=2), episodes, seed=1) for episodes in (3, 8)]
    usual = agent.align(Reskin(world.make(), seed=2), 3, seed=1)
    mapping = mappings[-1]  # by then a fountain was met, which may have been avoided at first
    assert mapping.unexplained > 3 > 1 > usual.unexplained
    assert max(found.sureness for found in mappings) < 0.5 < usual.sureness
    assert any("nothing in the source explains" in doubt for doubt in mapping.doubts)


class Drawn(gymnasium.ObservationWrapper):
    """A target whose picture [H*h, W*w, 3] a function draws anew."""

    def __init__(self, env, draw):
        super().__init__(env)
        self.draw = draw

    def observation(self, observation):
        return self.draw(observation)


def test_pictures_that_hide_what_there_is_make_nobody_sure(trained):
    world, agent, _ = trained
    pictures, rng = world.make().unwrapped.pictures, np.random.default_rng(0)
    agents = {pictures[i].tobytes() for i in (4, 7, 8, 9)}

    def tile_by_tile(change):
        def draw(picture):
            tiles = cut_tiles(picture, world.tile)
            return join(np.array([[change(tile) for tile in row] for row in tiles]))

        return draw

    ways = {
        "one colour": lambda picture: np.full_like(picture, 90),
        "floor only": tile_by_tile(lambda _: pictures[0]),
        "only the agent": tile_by_tile(lambda tile: tile if tile.tobytes() in agents else np.full_like(tile, 50)),
        "tiles at random": tile_by_tile(lambda tile: np.full_like(tile, 200 * rng.integers(2))),
    }
    for name, draw in ways.items():
        mapping = agent.align(Drawn(world.make(), draw), 2, seed=1)
        assert mapping.sureness < 0.1, name
        assert mapping.doubts, name


def test_what_nobody_could_tell_apart(trained):
    world, agent, store = trained
    history = cut(store.recorded("task"), None)
    tiles = np.asarray(agent.vocabulary.prototype_of)[np.asarray(history.observation.tiles)]
    history = history._replace(observation=history.observation._replace(tiles=tiles))
    given, model, rng = transitions_of(history, agent.scene), agent.local.on_host(), np.random.default_rng(0)
    kinds = agent.scene.prototypes
    same = np.arange(kinds)
    assert cost(model, given, same, rng) == 0.0
    assert alike(model, given, same, same, rng)
    pictures = world.make().unwrapped.pictures
    group = {p.tobytes(): int(c) for p, c in zip(agent.vocabulary.pictures, agent.vocabulary.prototype_of, strict=True)}
    wall, gold = group[pictures[1].tobytes()], group[pictures[2].tobytes()]
    assert not alike(model, given, np.array([wall, gold]), np.array([gold, wall]), rng)
    assert not alike(model, given, np.array([wall, wall]), np.array([gold, wall]), rng)
    assert (merged(model, given, rng) == same).all(), "nothing is left to merge"


def test_saved_and_loaded(trained, tmp_path):
    world, agent, _ = trained
    agent.save(tmp_path)
    again = Agent.load(tmp_path)
    np.testing.assert_array_equal(again.danger, agent.danger)
    target = Reskin(world.make(), seed=4)
    mappings = [one.align(target, 1, seed=2) for one in (agent, again)]
    np.testing.assert_array_equal(mappings[0].prototypes, mappings[1].prototypes)
    assert mappings[0].returns == mappings[1].returns
    with pytest.raises(UserError, match="engine 'opa'"):
        agent.align(target, engine="opa")
    with pytest.raises(UserError, match="no need of an oracle"):
        agent.align(target, oracle=True)


def test_hide_is_refused_for_hosted_worlds():
    world = GymWorld(Rooms, 4, max_steps=40)
    with pytest.raises(UserError, match="everything may look new"):
        stages.train(world, hide=("lava",))
