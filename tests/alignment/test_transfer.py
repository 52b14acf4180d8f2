"""Into targets with a trained agent of a small board: what is found, how sure it is, and when it is refused."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from PIL import Image

from protoalign import UserError
from protoalign.alignment.mapping import STRANGE
from protoalign.alignment.target_judge import ENOUGH, SPARE, Slots
from protoalign.alignment.transfer import elsewhere
from protoalign.alignment.verdict import judge, redrawn
from protoalign.worlds import registry
from protoalign.worlds.env import WorldEnv
from tests.alignment.helpers import ALL, scene

ENGINES = pytest.mark.parametrize("engine", ["bayes", "opa"])


@ENGINES
@pytest.mark.parametrize("look", ["random:3", "only:cow,wall:random:4"])
def test_most_looks_are_understood(agent, world, look, engine):
    mapping = agent.align(world.make(look), episodes=4, seed=1, engine=engine)
    found = judge(mapping, world, look)
    assert found["redrawn"] == (5 if look == "random:3" else 2)
    assert found["kinds_right"] >= found["redrawn"] - 1
    assert mapping.steps == len(mapping.trace.action) > 10
    assert len(mapping.returns) == 4
    assert mapping.trace.belief.shape == (mapping.steps, len(mapping.prototypes), 5)
    known = {row.name for row in mapping.types if not row.unseen}
    assert known == ({"floor", "zombie", "agent"} if look.startswith("only") else set())
    assert mapping.engine == engine
    assert mapping.trace.sureness.shape == (mapping.steps,)
    again = agent.align(world.make(look), episodes=4, seed=1, engine=engine)
    np.testing.assert_array_equal(again.score, mapping.score)


@ENGINES
def test_it_stops_when_it_is_sure_and_not_before(agent, world, engine):
    whole = agent.align(world.make("random:5"), episodes=4, seed=2, engine=engine)
    early = agent.align(world.make("random:5"), episodes=4, seed=2, sure=0.6, engine=engine)
    assert early.steps <= whole.steps
    first = early.sure_after(0.6)
    if first is None:
        assert early.steps == whole.steps
    elif engine == "opa":
        assert first == early.steps
    else:
        assert (early.trace.episode == early.trace.episode[-1])[first - 1], "that episode is played to its end"
        np.testing.assert_array_equal(early.trace.action, whole.trace.action[: early.steps])


def test_playing_on_while_finding_out_pays(agent, world):
    """The second to fourth episodes of bayes earn what the policy earns in the source, those of opa nothing like it."""
    returns = {engine: [] for engine in ("bayes", "opa")}
    for engine, found in returns.items():
        for look in range(8):
            found.extend(agent.align(world.make(f"random:{look}"), episodes=4, seed=look, engine=engine).returns[1:])
    assert np.mean(returns["bayes"]) > 1.0 > np.mean(returns["opa"]) + 0.4


@ENGINES
def test_one_picture_for_everything_is_neither_right_nor_sure(agent, world, tmp_path, engine):
    picture = Image.fromarray(world.pictures("random:5")[1])
    for kind in world.spec.truth:
        picture.save(tmp_path / f"{kind}.png")
    mapping = agent.align(world.make(str(tmp_path)), episodes=2, sure=0.99, engine=engine)
    assert len(mapping.returns) == 2, "it never became sure"
    assert mapping.sureness < 0.05
    found = judge(mapping, world, str(tmp_path))
    assert not found["mapping_correct"]
    assert found["kinds_right"] == 0
    assert any("shares a look" in doubt for doubt in mapping.doubts)


@ENGINES
def test_kinds_that_share_a_look_are_not_right(agent, world, engine):
    mapping = agent.align(world.make("twins:zombie,cow:random:2"), episodes=4, engine=engine)
    found = judge(mapping, world, "twins:zombie,cow:random:2")
    assert not found["mapping_correct"]
    assert mapping.sureness < 0.05


def test_old_pictures_on_other_kinds_are_misread(agent, world, tmp_path):
    """Zombie and cow have swapped their pictures: nothing looks new, and everything is wrong."""
    pictures = dict(zip(world.spec.truth, world.pictures("source"), strict=True))
    pictures["zombie"], pictures["cow"] = pictures["cow"], pictures["zombie"]
    for kind, picture in pictures.items():
        Image.fromarray(picture).save(tmp_path / f"{kind}.png")
    mapping = agent.align(world.make(str(tmp_path)), episodes=1)
    found = judge(mapping, world, str(tmp_path))
    assert redrawn(world, str(tmp_path)) == {"zombie", "cow"}
    assert not found["mapping_correct"]
    assert set(found["misread"]) == {"zombie", "cow"}


@ENGINES
def test_one_kind_with_two_looks_may_share_a_prototype(agent, world, engine):
    mapping = agent.align(world.make("two:wall:random:6"), episodes=4, seed=1, engine=engine)
    assert len(mapping.prototypes) == 6
    assert any("6 new tile types for 5 prototypes" in doubt for doubt in mapping.doubts)
    assert judge(mapping, world, "two:wall:random:6")["kinds_right"] >= 3


def test_labels_of_an_oracle_take_the_place_of_looks(agent, world):
    mapping = agent.align(world.make("random:3", noise=0.05), episodes=1, oracle=True)
    assert len(mapping.prototypes) == 5


class Wrapped(gymnasium.Wrapper):
    def __init__(self, env, see=None, space=None):
        super().__init__(env)
        self.see = see or (lambda x: x)
        self.action_space = space or env.action_space

    def reset(self, **options):
        picture, _ = self.env.reset(**options)
        return self.see(picture), {}


@pytest.mark.parametrize(
    ("see", "space", "says"),
    [
        (lambda x: x.astype(np.float32) / 255, None, "float32"),
        (lambda x: x[:-8], None, "6 x 6 tiles of 8 x 8"),
        (lambda x: x[..., :1], None, "height, width, 3"),
        (lambda x: {"view": x, "numbers": np.zeros(3)}, None, "3 numbers"),
        (lambda x: {"picture": x}, None, "no picture called 'view'"),
        (None, gymnasium.spaces.Discrete(5), "actions"),
        (None, gymnasium.spaces.Box(0, 1), "actions"),
    ],
)
def test_targets_that_cannot_be_played_in_are_refused_with_the_reason(agent, world, see, space, says):
    with pytest.raises(UserError, match=says) as refusal:
        agent.align(Wrapped(world.make("target"), see, space))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("options", [{"episodes": 0}, {"sure": 1.5}, {"sure": 0.0}, {"seed": -1}])
def test_wrong_arguments(agent, world, options):
    with pytest.raises(UserError):
        agent.align(world.make("target"), **options)
    with pytest.raises(UserError, match="info"):
        agent.align(Wrapped(WorldEnv(world, "target")), oracle=True)


def test_slots_grow_and_known_prototypes_keep_theirs():
    slots = Slots(scene(), ALL)
    seen = np.array([[0, 5], [6, 2]])
    codes = slots.codes(seen, 2)
    room = len(ALL) + SPARE
    assert slots.room == room
    assert codes.tolist() == [[[5 + room, 5], [6, 5 + room + 2]]]
    assert slots.known.tolist() == [True, False, True, False, False]
    assert slots.present(2).sum() == 2 + 3, "two known, and as many types as there are prototypes left"
    codes = slots.codes(np.array([[0, 5 + room]]), room + 1)
    assert slots.room == 2 * room
    assert codes.tolist() == [[[5 + 2 * room, 5 + room]]]
    imagined = slots.imagined()
    assert imagined.hidden.sum() == 2 * room
    assert imagined.truth[0, -5:].tolist() == list(ALL)


class AnotherBoardEveryStep(gymnasium.Wrapper):
    """Nothing that is done has to do with what follows."""

    def reset(self, **options):
        self.steps = 0
        return self.env.reset(**options)

    def step(self, action):
        self.steps += 1
        observation, info = self.env.reset(seed=1000 + self.steps)
        return observation, 0.0, False, self.steps % 30 == 0, info


def test_a_world_that_works_in_another_way_is_never_understood(agent, world):
    """... and one that works the same is not strange, nor is another variant of it."""
    for target in (world, registry.make("hunter-z2c2-6x6")):
        mapping = agent.align(target.make("random:3"), episodes=2)
        assert 0 < mapping.strangeness < STRANGE
        assert not any("hardly ever happen" in doubt for doubt in mapping.doubts)
    odd = agent.align(AnotherBoardEveryStep(world.make("random:3")), episodes=4)
    assert odd.strangeness > STRANGE
    assert odd.sureness == 0
    assert odd.sure_after() is None or odd.sure_after() < ENOUGH
    assert any("works in another way" in doubt for doubt in odd.doubts)


class OtherRewards(gymnasium.Wrapper):
    """Rewards that have nothing to do with what happens: none, or any."""

    def __init__(self, env, choices):
        super().__init__(env)
        self.rng, self.choices = np.random.default_rng(0), choices

    def step(self, action):
        observation, _, *rest = self.env.step(action)
        return observation, float(self.rng.choice(self.choices)), *rest


@pytest.mark.parametrize("choices", [[0], [-3, 0, 0, 3]])
def test_where_rewards_follow_other_rules_zombie_and_cow_are_not_told(agent, world, choices):
    """Nothing but rewards tells one from the other."""
    for seed in range(3):
        mapping = agent.align(OtherRewards(world.make("random:3"), choices), episodes=6, seed=seed)
        assert mapping.sureness < 0.99


def test_which_weights_count(agent, world):
    """Those of the source's own world there, however it is wrapped; in anything else those for other variants."""
    own = world.make("random:3")
    assert not elsewhere(own, agent.spec)
    assert not elsewhere(gymnasium.wrappers.TimeLimit(own, 5), agent.spec)
    assert elsewhere(registry.make("hunter-z2c2-6x6").make("random:3"), agent.spec)
    assert elsewhere(gymnasium.make("CartPole-v1"), agent.spec)
    other = replace(agent, weight=np.array([agent.weight[0], [0.0, 0.0, 0.3]], np.float32))
    there = other.align(registry.make("hunter-z2c2-6x6").make("random:3"), episodes=1)
    assert there.sureness < 0.1, "nothing counts there"
    assert other.align(own, episodes=1).sureness == agent.align(own, episodes=1).sureness
