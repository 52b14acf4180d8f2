"""Somebody else's policy: watched in the source, then shown other looks in the source's pictures."""

from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

import protoalign as pa
from protoalign.agent import untrained
from protoalign.rl.history import cut
from protoalign.settings import LocalConfig
from protoalign.stages import setup
from protoalign.stages.adopt import STALE, watch
from protoalign.worlds import looks
from protoalign.worlds.tile_dictionary import TileDictionary

NAMES = ("floor", "wall", "gold", "lava", "agent", "agent on gold", "agent in lava")
FLOOR, WALL, GOLD, LAVA, AGENT, RICH, BURNT = range(7)
PICTURES = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3), np.uint8)
KNOWN = {picture.tobytes(): i for i, picture in enumerate(PICTURES)}
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
SIZE, STEPS = 5, 6000


class Room(gymnasium.Env[Any, Any]):
    """Walk to the gold, not into the lava, around walls; a new board every episode. With `purse`, the gold found is told."""

    def __init__(self, purse: bool = False):
        self.purse = purse
        self.action_space = gymnasium.spaces.Discrete(4)
        self.observation_space = gymnasium.spaces.Box(0, 255, (4 * SIZE, 4 * SIZE, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        cells = self.np_random.permutation(SIZE * SIZE)
        self.board = np.full(SIZE * SIZE, FLOOR)
        self.board[cells[1:7]] = WALL, WALL, WALL, WALL, GOLD, LAVA
        self.board, self.place = self.board.reshape(SIZE, SIZE), divmod(int(cells[0]), SIZE)
        return self._shown(0), {}

    def step(self, action):
        there = tuple(np.clip(np.add(self.place, MOVES[action]), 0, SIZE - 1).tolist())
        self.place = self.place if self.board[there] == WALL else there
        here = self.board[self.place]
        return self._shown(here == GOLD), float(here == GOLD) - float(here == LAVA), here in (GOLD, LAVA), False, {}

    def _shown(self, found):
        board = self.board.copy()
        board[self.place] = {FLOOR: AGENT, GOLD: RICH, LAVA: BURNT}[int(board[self.place])]
        picture = PICTURES[board].swapaxes(1, 2).reshape(4 * SIZE, 4 * SIZE, 3)
        return {"image": picture, "purse": float(found)} if self.purse else picture


def walker(observation: Any) -> np.ndarray:
    """The first step of a shortest way to the gold, by the source's pictures; where it does not know them, up."""
    tiles = looks.cut(observation, 4)
    board = np.array([[KNOWN.get(tile.tobytes(), WALL) for tile in row] for row in tiles])
    queue = deque((tuple(place), None) for place in np.argwhere(board == AGENT).tolist())
    known = {place for place, _ in queue}
    while queue:
        (row, column), first = queue.popleft()
        if board[row, column] == GOLD:
            return np.array([first])
        for action, (down, right) in enumerate(MOVES):
            there = row + down, column + right
            if max(there) < SIZE and min(there) >= 0 and there not in known and board[there] in (FLOOR, GOLD):
                known.add(there)
                queue.append((there, action if first is None else first))
    return np.array([0])


class Model:
    """As Stable-Baselines3 has it."""

    def predict(self, observation: Any, state: Any = None, deterministic: bool = False) -> tuple[np.ndarray, None]:
        assert deterministic
        return walker(observation), None


@pytest.fixture(scope="module")
def room():
    names = {mark: NAMES[i] for mark, i in KNOWN.items()}
    return pa.GymWorld(Room, tile=4, max_steps=20, name="room", truth=lambda look, tile: names.get(tile.tobytes()))


@pytest.fixture(scope="module")
def folder(room, tmp_path_factory):
    path = tmp_path_factory.mktemp("adopted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "HOSTED", replace(setup.HOSTED, local=LocalConfig(width=24, updates=600, batch=384)))
        agent = pa.adopt(Model(), room, STEPS, out=path)
    assert isinstance(agent.adopted, Model)
    return path


@pytest.fixture(scope="module")
def adopted(folder):
    return pa.load(folder, policy=walker)


def right(mapping, target, apart=()):
    """Whether all that was met in a re-skinned room is known, but for kinds that this policy does not tell apart."""
    found = [(KNOWN[target.origin(row.picture).tobytes()], row.name) for row in mapping.types if row.unseen]
    return all(NAMES[true] == name or {NAMES[true], name} <= set(apart) for true, name in found)


# -- in other looks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", [1, 2])
def test_it_plays_in_another_look_as_in_the_source(adopted, room, look):
    target = pa.Reskin(room.make(), seed=look)
    earned = pa.evaluate(adopted.policy(), room.make(), 40)["return"]
    mapping = adopted.align(target, episodes=6, seed=look)
    assert earned > 0.9
    assert pa.evaluate(adopted.policy(), target, 40)["return"] < 0.2
    assert pa.evaluate(adopted.policy(mapping), target, 40)["return"] >= earned - 0.1
    assert pa.evaluate(adopted.policy(), pa.Translated(target, mapping), 40)["return"] >= earned - 0.1
    assert right(mapping, target, ("wall", "lava"))
    assert sum(mapping.returns) >= 3


def test_a_look_is_translated_while_it_is_being_found_out(adopted, room, tmp_path):
    target = pa.Reskin(room.make(), seed=3)
    env = pa.Translated(target, agent=replace(adopted, adopted=None))  # it is not asked
    returns = []
    early = None
    for episode in range(12):
        observation, _ = env.reset(seed=episode)
        early = early or env.mapping
        over, returns = False, [*returns, 0.0]
        while not over:
            assert observation in env.observation_space
            assert all(tile.tobytes() in KNOWN for tile in looks.cut(observation, 4).reshape(-1, 4, 4, 3))
            observation, reward, terminated, truncated, _ = env.step(int(walker(observation)[0]))
            returns[-1] += reward
            over = terminated or truncated
    assert np.mean(returns[4:]) > 0.8
    assert env.mapping.returns == tuple(returns)
    assert right(env.mapping, target, ("wall", "lava"))
    early.save(tmp_path / "early")  # what was known once does not change
    assert len(pa.Mapping.load(tmp_path / "early").tile_types) == len(early.prototypes) < len(env.mapping.tile_types)


def test_translations_are_those_of_the_mapping(adopted, room):
    target = pa.Reskin(room.make(), seed=4)
    mapping = adopted.align(target, episodes=2)
    env = pa.Translated(target, mapping)
    assert env.mapping is mapping
    assert env.observation_space == room.make().observation_space
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.render()
    rng = np.random.default_rng(0)
    for seed in range(4):
        shown, _ = env.reset(seed=seed)
        over = False
        while not over:
            assert np.array_equal(shown, mapping.translate(target._new))
            assert np.array_equal(shown, env.render())
            shown[:] = 0  # what was handed out is not used again
            shown, _, terminated, truncated, _ = env.step(rng.integers(4))
            over = terminated or truncated
    with pytest.MonkeyPatch.context() as patch:  # a tile that was never met, in a dict
        strange = np.full((20, 20, 3), 7, np.uint8)
        patch.setattr(target, "reset", lambda **options: ({"view": strange, "numbers": np.ones(1)}, {}))
        shown, _ = env.reset()
        assert np.array_equal(shown["view"], mapping.translate(strange))
        assert shown["numbers"] == 1


def test_a_mapping_or_an_agent_is_needed(adopted, room):
    with pytest.raises(pa.UserError, match="either a mapping or agent="):
        pa.Translated(room.make())
    with pytest.raises(pa.UserError, match="hosted world"):
        pa.Translated(room.make(), agent=replace(adopted, local=None))
    target = room.make()
    target.tile = (3, 3)
    with pytest.raises(pa.UserError, match="20 x 20 pixels, not of tiles of 3 x 3"):
        pa.Translated(target, agent=adopted)
    target = gymnasium.wrappers.GrayscaleObservation(room.make())
    with pytest.raises(pa.UserError, match="must be pictures"):
        pa.Translated(target, agent=adopted)


# -- files -----------------------------------------------------------------------------------------------------------------


def test_what_is_done_in_a_folder_is_not_done_again(folder, room):
    def nobody(observation):
        raise AssertionError

    again = pa.adopt(nobody, room, STEPS, out=folder)
    assert again.adopted is nobody
    assert again.local is not None
    with pytest.raises(pa.UserError, match=r"adopt\.steps = 6000, not 7000"):
        pa.adopt(nobody, room, 7000, out=folder)
    with pytest.raises(pa.UserError, match="preset = adopted"):
        pa.train(room, out=folder)
    result = setup.Run(folder).result()
    assert result["source_return"] > 0.9
    assert result["source_episodes"] == 100
    assert STEPS <= result["task_steps"] < STEPS + 20


def test_the_policy_is_not_saved(adopted, room, tmp_path):
    adopted.save(tmp_path)
    again = pa.load(tmp_path)
    target = pa.Reskin(room.make(), seed=1)
    for use in (lambda: again.align(target), again.policy, again.plays):
        with pytest.raises(pa.UserError, match=r"give it to load\(path, policy="):
            use()
    again = pa.load(tmp_path, policy=Model())
    found = [pa.evaluate(a.policy(a.align(target, 2)), target, 10) for a in (adopted, again)]
    assert found[0] == found[1]
    own = untrained(adopted.spec, adopted.settings, 0, adopted.scene, adopted.vocabulary)
    own.save(tmp_path / "own")
    with pytest.raises(pa.UserError, match="a policy of its own"):
        pa.load(tmp_path / "own", policy=walker)


# -- watching --------------------------------------------------------------------------------------------------------------


def test_whole_episodes_are_watched_with_mistakes(room):
    asked = []

    def policy(observation):
        asked.append(observation)
        return int(walker(observation)[0])

    dictionary, others = TileDictionary((4, 4)), TileDictionary((4, 4))
    record = watch(policy, room, dictionary, 2000, seed=3, random=0.5)
    again = watch(policy, room, others, 2000, seed=3, random=0.5)
    assert np.array_equal(record.observation.tiles, again.observation.tiles)
    history = cut(record)
    going = np.arange(history.action.shape[1]) < history.length[:, None]
    assert 2000 <= going.sum() == (~record.reset).sum() < 2020
    assert len(dictionary) == 7
    last = history.observation.tiles[np.arange(len(going)), history.length]
    names = np.array([KNOWN[picture.tobytes()] for picture in dictionary.pictures])
    rich, burnt = ((names[last] == kind).any((1, 2)) for kind in (RICH, BURNT))
    assert np.array_equal(history.terminated, rich | burnt)
    assert np.array_equal(history.reward.sum(1), 1.0 * rich - burnt)
    assert 0.03 < burnt.mean() < 0.4
    assert len(asked) < 2 * 0.95 * 2000
    alone = cut(watch(policy, room, dictionary, 500, seed=3, random=0.0))
    assert alone.reward.sum(1).mean() > 0.7


def test_a_policy_that_stalls_is_left(room):
    history = cut(watch(lambda observation: 0, room, TileDictionary((4, 4)), 400, seed=0, random=0.0))
    stalled = ~history.terminated
    assert stalled.mean() > 0.5
    assert history.length[stalled].max() < 20
    assert history.length[stalled].min() >= STALE - 1


def test_numbers_are_shown(room):
    world = pa.GymWorld(partial(Room, True), tile=4, picture="image", numbers=("purse",), max_steps=20, name="purse")
    asked = []

    def policy(observation):
        asked.append(observation)
        return walker(observation["view"])[0]

    record = watch(policy, world, TileDictionary((4, 4)), 100, seed=0, random=0.2)
    assert set(asked[0]) == {"view", "numbers"}
    assert record.observation.numbers.shape == (len(record.action), 1, 1)
    assert record.observation.numbers.max() == 1


# -- what is refused -------------------------------------------------------------------------------------------------------


def test_bad_policies_and_worlds_are_refused(room, world):
    with pytest.raises(pa.UserError, match="has actions 0 to 3"):
        pa.adopt(lambda observation: 4, room)
    with pytest.raises(pa.UserError, match="a policy is a function"):
        pa.adopt("walker", room)
    with pytest.raises(pa.UserError, match="not a hosted world"):
        pa.adopt(walker, world)
    with pytest.raises(pa.UserError, match="no world is called"):
        pa.adopt(walker, "pong")
    with pytest.raises(pa.UserError, match="at least 1000"):
        pa.adopt(walker, room, steps=10)
    with pytest.raises(pa.UserError, match="share of episodes"):
        pa.adopt(walker, room, random=1.5)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (lambda picture: {}[picture.tobytes()], r"the policy raised KeyError in policy\(\): .*\(test_adopt.py, line \d+\)$"),
        (lambda picture: None, "the policy answered .*: an action is a whole number"),
        (lambda picture: 1.5, "the policy answered .*: an action is a whole number"),
    ],
)
def test_what_a_policy_does_wrong_is_told_in_one_line(room, policy, said):
    with pytest.raises(pa.UserError, match=said) as found:
        pa.adopt(policy, room, steps=1000, random=0.0)
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 400


def test_what_is_no_environment_is_refused(adopted, room):
    for thing in ("MyWorld-v0", room, None):
        with pytest.raises(pa.UserError, match="is not a Gymnasium environment"):
            adopted.align(thing)
        with pytest.raises(pa.UserError, match="is not a Gymnasium environment"):
            pa.evaluate(adopted.policy(), thing)
        with pytest.raises(pa.UserError, match="is not a Gymnasium environment"):
            pa.Translated(thing, agent=adopted)
    with pytest.raises(pa.UserError, match="Agent is not a mapping; an agent is given as agent="):
        pa.Translated(room.make(), adopted)
    with pytest.raises(pa.UserError, match="is not a hosted world: adopt a policy in a GymWorld"):
        pa.adopt(lambda picture: 0, room.make())
    with pytest.raises(pa.UserError, match="give a function that makes the environment"):
        pa.GymWorld(Room(), 4)
    with pytest.raises(pa.UserError, match="an environment of Gymnasium is 'gym:Room-v0'"):
        pa.make("Room-v0")
