"""The paper's engine in a small Gymnasium world: q_theta from the history, a policy that explores, and targets."""

from dataclasses import replace

import numpy as np
import pytest

from protoalign import stages
from protoalign.agent import Agent
from protoalign.alignment.explored_transfer import Oddity
from protoalign.alignment.hosted_verdict import judge
from protoalign.alignment.mapping import Mapping
from protoalign.errors import UserError
from protoalign.perception.tiles import join
from protoalign.runs import Memory
from protoalign.settings import HOSTED, PPOConfig
from protoalign.stages import hosted, hosted_opa, setup
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.looks import cut
from protoalign.worlds.reskin import Reskin
from tests.conftest import well_compiled
from tests.stages.test_hosted import Drawn, Unruly
from tests.worlds.rooms import Rooms

SEED = 0
SMALL = replace(
    HOSTED,
    task=replace(HOSTED.task, steps=40_000, history=30_000, evaluation=40),
    local=replace(HOSTED.local, updates=400, batch=512, boards=48),
    infer=replace(HOSTED.infer, updates=120, batch=16, longest=24),
    explore=replace(
        HOSTED.explore,
        steps=16_384,
        rounds=2,
        refresh=30,
        batch=16,
        measured=64,
        ppo=PPOConfig(envs=32, segment=32, minibatch=256, epochs=3, discount=0.97, entropy_coef=0.03),
    ),
    target_episodes=20,
)


@pytest.fixture(scope="module")
def world():
    return GymWorld(Rooms, 4, max_steps=40)


@pytest.fixture(scope="module")
def trained(world):
    """The agent of bayes, the same for both engines, and where they are kept."""
    store = Memory()
    with well_compiled():
        before = hosted.model(world, store, hosted.task(world, store, SEED, SMALL, "fast"))
        return before, hosted_opa.explore(world, store, hosted_opa.infer(world, store, before)), store


def test_one_agent_for_both_engines(trained):
    before, agent, store = trained
    assert before.engines == ("bayes",)
    assert agent.engines == ("bayes", "opa")
    assert agent.local is before.local
    assert store.result()["explore_steps"] == SMALL.explore.steps


def test_q_theta_tells_what_an_episode_shows(trained):
    found = trained[2].result()
    # Walls, gold and lava that were not touched are as good as each other: chance is 0.2.
    assert found["one_episode_pictures_right"] > 0.55
    assert found["four_episodes_met_correct"] > found["one_episode_met_correct"]
    assert "one_episode_correct" not in found, "that would be of all pictures, those never met included"
    assert found["information"] > 2
    assert set(found["one_episode_met"]) == set(trained[1].names)


def test_a_target_is_explored(trained, world, tmp_path):
    agent = trained[1]
    right = []
    for seed in range(5):
        target = Reskin(world.make(), seed=seed)
        mapping = agent.align(target, 4, seed=seed, engine="opa")
        right.append(judge(mapping, target, world, f"random:{seed}")["mapping_correct"])
        assert mapping.engine == "opa"
        assert mapping.sureness > mapping.trace.sureness[0]
        assert right[-1] or mapping.sureness < 0.5
        assert np.bincount(mapping.trace.episode, mapping.trace.reward).tolist() == list(mapping.returns)
        assert mapping.strangeness < 2
    assert np.mean(right) >= 0.6
    picture = target.reset(seed=3)[0]
    mapping.save(tmp_path / "found")
    again = Mapping.load(tmp_path / "found")
    np.testing.assert_array_equal(again(picture), mapping(picture))
    assert again.sureness == pytest.approx(mapping.sureness)


def test_nobody_is_sure_before_the_first_step(trained, world):
    agent = replace(trained[1], presence=np.zeros_like(trained[1].presence))  # nothing is missed
    mapping = agent.align(Reskin(world.make(), seed=2), 1, engine="opa")
    assert mapping.trace.sureness[0] < 0.1


def test_what_looks_as_in_the_source_is_known(trained, world):
    mapping = trained[1].align(world.make(), 1, engine="opa")
    assert not len(mapping.prototypes)
    assert mapping.known.any()


def test_pictures_that_hide_what_there_is_make_nobody_sure(trained, world):
    rng = np.random.default_rng(0)

    def at_random(picture):
        tiles = cut(picture, world.tile)
        return join(np.array([[np.full_like(tile, 30 * rng.integers(6)) for tile in row] for row in tiles]))

    for draw in (lambda picture: np.full_like(picture, 90), at_random):
        mapping = trained[1].align(Drawn(world.make(), draw), 2, seed=1, engine="opa")
        assert mapping.sureness < 0.1
        assert mapping.doubts


def test_a_world_that_works_in_another_way_is_strange(trained, world):
    odd = GymWorld(Unruly, 4, max_steps=40)
    mapping = trained[1].align(Reskin(odd.make(), seed=2), 2, seed=1, engine="opa")
    assert mapping.strangeness > 2
    assert mapping.sureness == 0.0


class Repainted(Drawn):
    """Its floor has another colour in every episode."""

    episode = 0

    def reset(self, **options):
        self.episode += 1
        return super().reset(**options)


def test_tile_types_may_turn_up_in_any_episode(trained, world):
    floor = world.make().unwrapped.pictures[0].tobytes()

    def draw(picture):
        tiles = cut(picture, world.tile)
        colour = 40 * target.episode
        return join(np.array([[np.full_like(t, colour) if t.tobytes() == floor else t for t in row] for row in tiles]))

    target = Repainted(world.make(), draw)
    mapping = trained[1].align(target, 3, seed=1, engine="opa")
    assert len(mapping.prototypes) == 3
    assert mapping.draws.acted.all()


def test_nothing_is_strange_before_anything_happened(trained):
    assert Oddity(trained[1].local, np.random.default_rng(0)).of(np.array([0])) == (0.0, 0.0)


def test_boards_of_another_size_are_refused(trained):
    larger = GymWorld(lambda: Rooms(size=7), 4, max_steps=60)
    with pytest.raises(UserError, match="28 x 28 pixels; the source shows 5 x 5 tiles"):
        trained[1].align(Reskin(larger.make(), seed=9), 1, engine="opa")


def test_saved_and_loaded(trained, world, tmp_path):
    agent = trained[1]
    agent.save(tmp_path)
    again = Agent.load(tmp_path)
    assert again.engines == agent.engines
    target = Reskin(world.make(), seed=4)
    mappings = [one.align(target, 1, seed=2, engine="opa") for one in (agent, again)]
    np.testing.assert_array_equal(mappings[0].prototypes, mappings[1].prototypes)
    np.testing.assert_array_equal(mappings[0].trace.action, mappings[1].trace.action)


def test_stages_that_are_done_are_not_done_again(trained, world):
    _, agent, store = trained
    assert hosted_opa.explore(world, store, hosted_opa.infer(world, store, agent)) is agent


def test_stages_in_the_wrong_order_are_refused(trained, world):
    before, _, store = trained
    with pytest.raises(UserError, match="protoalign model"):
        hosted_opa.infer(world, store, replace(before, local=None))
    with pytest.raises(UserError, match="protoalign infer"):
        hosted_opa.explore(world, store, replace(before, model=None))
    with pytest.raises(UserError, match="somebody else's policy"):
        hosted_opa.infer(world, store, replace(before, task=None))


def test_both_engines_are_run_in_a_folder(trained, world, tmp_path, monkeypatch):
    """What is trained is taken from the fixture: only how it is put together is tested here."""
    before, agent, _ = trained
    kept = {"source_return": 0.5, "bayes": {}}
    monkeypatch.setattr(hosted, "task", lambda world, store, *more: store.add_result(kept) and before)
    monkeypatch.setattr(hosted, "model", lambda world, store, agent: agent)
    monkeypatch.setattr(hosted_opa, "infer", lambda world, store, one: one)
    monkeypatch.setattr(hosted_opa, "explore", lambda world, store, one: replace(one, **_parts(agent)))
    monkeypatch.setattr(setup, "HOSTED", SMALL)
    assert stages.train(world, engine="both").engines == ("bayes", "opa")
    assert stages.train(world, engine="opa").explorer is agent.explorer
    told = []
    result = stages.run(world, tmp_path, SEED, "random:3", 1, engine="both", show=lambda name, result: told.append(name))
    assert told == ["bayes", "opa"]
    assert set(result["engines"]) == {"bayes", "opa"}
    assert Mapping.load(tmp_path / "mapping-opa").engine == "opa"


def _parts(agent):
    return {"model": agent.model, "explorer": agent.explorer}
