"""Pictures that act alike only together are one kind; those whose difference matters are not."""

import numpy as np

from protoalign.alignment.joint_merging import jointly_merged
from protoalign.alignment.local_training import Transitions, outcomes_of
from protoalign.rl.host_rollout import AGENT as AGENT_LIKE
from protoalign.stages.hosted import likeness
from tests.worlds.rooms import AGENT, AGENT_IN_LAVA, AGENT_ON_GOLD, FLOOR, GOLD, LAVA, MOVES, WALL, Rooms

OTHER_FLOOR, OTHER_AGENT = 7, 8


class Unseen(Rooms):
    """Nobody looks at its pictures."""

    def show(self):
        return self.canvas


class Checkered(Unseen):
    """The floor has two pictures, and the agent one on each."""

    def ids(self):
        ids = super().ids()
        odd = np.indices(ids.shape).sum(0) % 2 == 1
        return np.where(odd & (ids == FLOOR), OTHER_FLOOR, np.where(odd & (ids == AGENT), OTHER_AGENT, ids))


class Tank(Unseen):
    """The agent turns, or goes the way it is headed: its four pictures, 4 and 7 to 9, are not alike."""

    def reset(self, **options):
        self.heading = 0
        return super().reset(**options)

    def step(self, action):
        if action < 2:
            self.heading = (self.heading + (1, 3)[action]) % 4
            return self.show(), 0.0, False, False, {}
        return super().step(self.heading)

    def ids(self):
        ids = super().ids()
        return np.where((ids == AGENT) & (self.heading > 0), 6 + self.heading, ids)


def transitions(env, steps, actions):
    """Random play, as ids."""
    rng = np.random.default_rng(0)
    rows, over, length = [], True, 0
    for _ in range(steps):
        if over or length == 40:
            env.reset(seed=int(rng.integers(2**31)))
            first, length = True, 0
        before, action = env.ids(), int(rng.integers(actions))
        _, reward, over, *_ = env.step(action)
        length += 1
        rows.append((before, env.ids(), np.zeros(0), np.zeros(0), action, reward, over, reward, first))
        first = False
    return Transitions(*(np.array(x) for x in zip(*rows, strict=True)))


def groups(env, steps, actions, kinds):
    given = transitions(env, steps, actions)
    agent = likeness(given, kinds) > AGENT_LIKE
    return jointly_merged(given, outcomes_of(given), agent, np.random.default_rng(1))


def test_two_floors_and_the_agents_on_them_are_one_kind_each():
    found = groups(Checkered(), 6000, len(MOVES), 9)
    assert found[FLOOR] == found[OTHER_FLOOR]
    assert found[AGENT] == found[OTHER_AGENT]
    apart = [found[x] for x in (FLOOR, WALL, GOLD, LAVA, AGENT, AGENT_ON_GOLD, AGENT_IN_LAVA)]
    assert len(set(apart)) == len(apart)
    assert found.max() == len(apart) - 1, "numbered without gaps"


def test_headings_that_matter_are_not():
    found = groups(Tank(), 6000, 3, 10)
    np.testing.assert_array_equal(found, np.arange(10))


class Paid(Checkered):
    """Walking against a wall pays on one of the floors: nothing is to be seen of it."""

    def step(self, action):
        before = self.place.copy()
        picture, reward, over, cut_off, info = super().step(action)
        bumped = (self.place == before).all() and before.sum() % 2 == 1
        return picture, 2.0 if bumped else reward, over, cut_off, info


def test_agents_that_are_paid_for_other_things_are_not_alike():
    found = groups(Paid(), 6000, len(MOVES), 9)
    assert found[AGENT] != found[OTHER_AGENT]


class Sokoban(Unseen):
    """The floor has marks, 7, on which the agent is 8; a box, 9, pushed onto one is 10, and that pays. It happens seldom."""

    def reset(self, **options):
        super().reset(**options)
        self.marked = self.np_random.random(self.grid.shape) < 0.5
        self.grid[self.grid == LAVA] = WALL
        floor = np.argwhere(self.grid == FLOOR)
        self.box = floor[(floor != self.place).any(1)][6]
        return self.show(), {}

    def free(self, place):
        return (place >= 0).all() and (place < self.size).all() and self.grid[tuple(place)] == FLOOR

    def step(self, action):
        move, before = MOVES[action], self.place
        there, pushed = before + move, self.box + move
        paid = 0.0
        if (there == self.box).all() and self.free(pushed):
            self.box = pushed
            paid = float(self.marked[tuple(pushed)])
        elif (there == self.box).all():
            return self.show(), 0.0, False, False, {}
        picture, _, over, cut_off, info = super().step(action)
        return picture, paid, over, cut_off, info

    def ids(self):
        ids = super().ids()
        ids[tuple(self.box)] = 9
        change = {FLOOR: 7, AGENT: 8, 9: 10}
        return np.where(self.marked, np.vectorize(lambda c: change.get(c, c))(ids), ids)


def test_grounds_that_matter_seldom_are_not_alike():
    found = groups(Sokoban(), 12000, len(MOVES), 11)
    assert found[FLOOR] != found[7]


def test_where_nothing_ever_changes_nothing_is_merged():
    board = np.zeros((50, 5, 5), int)
    nothing = np.zeros((50, 0))
    zeros = np.zeros(50)
    given = Transitions(board, board, nothing, nothing, zeros.astype(int), zeros, zeros > 0, zeros, np.arange(50) % 10 == 0)
    found = jointly_merged(given, outcomes_of(given), np.zeros(3, bool), np.random.default_rng(0))
    np.testing.assert_array_equal(found, np.arange(3))


def test_with_little_seen_nothing_is_merged():
    found = groups(Checkered(), 40, len(MOVES), 9)
    np.testing.assert_array_equal(found, np.arange(9))
