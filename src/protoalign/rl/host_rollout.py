"""Segments to learn from, played in worlds that are stepped on the host: the same as `rollout.collect` gives.

A step after an episode's end resets the game, as in compiled worlds. Games cannot be saved, so all begin anew, from seeds of
their own, at the start of every leg of some updates; checkpoints lie between legs, and a run that goes on plays the same.
"""

from typing import Any, Self

import equinox as eqx
import jax
import numpy as np
from jax import Array

from protoalign.errors import TooManyTiles
from protoalign.rl.host_workers import open_games
from protoalign.rl.networks import ActorCritic
from protoalign.rl.rollout import Record, Segment, act
from protoalign.rng import gumbel
from protoalign.worlds.base import Observation
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.tile_dictionary import TileDictionary

NEAR = 2  # tiles that an action may reach
AGENT = 0.2  # score above which an id is hardly anything but the agent
CHANCES = np.arange(1, 11) / 10  # of a random action, in games with slips
RESTLESS = 0.01  # share of tiles that change farther away: they move by themselves


class HostVector:
    """B games of a hosted world, in this process or in `world.workers` others. Close it when done, or use it in a `with`."""

    def __init__(self, world: GymWorld, number: int, dictionary: TileDictionary, shown: np.ndarray | None = None):
        """`shown`: the id [256] by which each is shown to a policy."""
        self.shown = shown
        self.games, self.number = open_games(world, number, dictionary), number
        self.actions = len(world.spec.actions)
        rows, columns = world.spec.grid
        self.above = world.spec.agent is None  # the world does not move in sight
        self.tiles = np.zeros((number, rows, columns), np.uint8)
        self.numbers = np.zeros((number, len(world.spec.numbers)), np.float32)
        self.returns, self.lengths = np.zeros(number), np.zeros(number, int)
        self.over = np.zeros(number, bool)
        # Of each id: boards with it, with one only; tiles of it, those that changed, those in an episode's last picture, and
        # those that changed, or came, far from the agent.
        self.counts = np.zeros((6, 256), np.int64)
        self._likely = np.zeros(256, np.float32)  # scores when games began
        self._told = np.arange(256, dtype=np.uint8)  # ids by which boards are told apart
        self.boards: list[set[bytes]] = [set() for _ in range(number)]  # that were seen in each episode
        self.new = np.zeros(number, bool)  # whether what is seen now is the first of its kind in the episode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """No game goes on; workers end."""
        self.games.close()

    def begin(self, seed: int) -> None:
        """All games anew; the n-th one from seed + n."""
        self.tiles, self.numbers, *_ = self.games.begin((seed + np.arange(self.number)) % 2**31)
        self.over[:], self.returns[:], self.lengths[:] = False, 0, 0
        self.boards = [set() for _ in range(self.number)]
        self._likely = self.scores
        restless = (self.counts[5] > RESTLESS * (self.counts[2] + 10)) & (self._likely < AGENT)
        self._told = np.where(restless, 255, np.arange(256)).astype(np.uint8)  # what moves by itself is nothing new

    def seen(self) -> Observation:
        return Observation(self.tiles.copy() if self.shown is None else self.shown[self.tiles], self.numbers.copy())

    def step(self, action: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rewards, terminated, truncated and reset [B]; games that were over are reset and take no action."""
        before, reset = self.tiles, self.over.copy()
        self.tiles, self.numbers, reward, terminated, truncated = self.games.step(np.asarray(action), reset)
        self.returns, self.lengths = np.where(reset, 0, self.returns + reward), np.where(reset, 0, self.lengths + 1)
        self.over = terminated | truncated
        self._count(before[~reset], self.tiles[~reset])
        self.counts[4] += np.bincount(self.tiles[self.over].reshape(-1), minlength=256)
        told = self._told[self.tiles]
        for i, boards in enumerate(self.boards):
            if reset[i]:
                boards.clear()
            known = len(boards)
            boards.add(told[i].tobytes() + self.numbers[i].tobytes())
            self.new[i] = len(boards) > known and not reset[i]
        return reward, terminated, truncated & ~terminated, reset

    def _count(self, before: np.ndarray, after: np.ndarray) -> None:
        each = np.arange(len(before))[:, None, None] * 256 + before
        boards = np.bincount(each.reshape(-1), minlength=256 * len(before)).reshape(-1, 256)
        changed = np.bincount(before[before != after], minlength=256)
        self.counts[:4] += np.stack([(boards > 0).sum(0), (boards == 1).sum(0), boards.sum(0), changed])
        if self.above and len(before) and self._likely.any():
            rows, columns = np.divmod(self._likely[before].reshape(len(before), -1).argmax(1), before.shape[2])
            down, right = (np.arange(n) for n in before.shape[1:])
            far = np.maximum(abs(down[:, None] - rows[:, None, None]), abs(right - columns[:, None, None])) > NEAR
            far &= before != after
            self.counts[5] += np.bincount(np.append(before[far], after[far]), minlength=256)

    @property
    def scores(self) -> np.ndarray:
        """How much each id [256] is like an agent's: how often a tile of it changes in a step, and is the only one."""
        boards, single, tiles, changed = self.counts[:4]
        return (single / np.maximum(boards, 1) * changed / (tiles + 10)).astype(np.float32)


@eqx.filter_jit
def choose(net: ActorCritic, seen: Observation, key: Array, time: Any) -> tuple[Any, Array, Array, Array]:
    noise = gumbel(jax.random.fold_in(key, time), (len(seen.tiles), net.heads.policy.bias.shape[0]))  # type: ignore[attr-defined]
    return act(net, seen, noise)


@eqx.filter_jit
def _value(net: ActorCritic, seen: Observation) -> Array:
    return net(net.encode(seen))[1]


def collect(
    games: HostVector,
    net: ActorCritic,
    key: Array,
    steps: int,
    recorded: int,
    novelty: float = 0.0,
    scale: float = 1.0,
    fear: float = 1.0,
    closing: bool = False,
) -> tuple[Segment, Array, dict[str, float], Record]:
    """A segment [T, B, ...], the value [B] of what follows, sums over episodes that ended, and a record of the first
    environments.

    Rewards to learn from are multiplied by `scale`, losses that end an episode by `fear` besides, and boards that are new in an
    episode are worth `novelty` more; the record has rewards as they are. `closing`: games will begin anew after this, so the
    record ends with a row that marks their last picture.
    """
    rows: list[Any] = []
    earned: list[np.ndarray] = []
    sums = {"episodes": 0.0, "return_sum": 0.0, "length_sum": 0.0}
    for time in range(steps):
        seen = games.seen()
        encoded, chosen, log_prob, value = choose(net, seen, key, np.uint32(time))
        action = np.asarray(chosen)
        reward, terminated, truncated, reset = games.step(action)
        earned.append(reward)
        over = terminated | truncated
        sums["episodes"] += float(over.sum())
        sums["return_sum"] += float(games.returns[over].sum())
        sums["length_sum"] += float(games.lengths[over].sum())
        lost = np.where(terminated & (reward < 0), np.float32(fear), np.float32(1))
        worth = np.float32(scale) * reward * lost + np.float32(novelty) * games.new
        rows.append((encoded, seen, action, log_prob, value, worth, terminated, truncated, reset))
    encoded, shown, *rest = jax.tree.map(lambda *x: np.stack([np.asarray(y) for y in x]), *rows)
    kept = [shown, rest[0].astype(np.uint8), *rest[3:]]
    kept[2] = np.stack(earned)
    if closing:
        nothing = [np.zeros_like(x[:1]) for x in kept[1:-1]]
        last = jax.tree.map(lambda x: x[None], games.seen())
        kept = jax.tree.map(lambda *x: np.concatenate(x), kept, [last, *nothing, np.ones_like(kept[-1][:1])])
    some = jax.tree.map(lambda x: x[:, :recorded], kept)
    return Segment(encoded, *rest), _value(net, games.seen()), sums, Record(*some)


def play_with_slips(games: HostVector, net: ActorCritic, rng: np.random.Generator, steps: int, recorded: int) -> Record | None:
    """About so many steps of a policy some of whose actions are random, in some games few, in others all: who plays well is
    seldom seen where he should not be. As a record [T, recorded, ...]: of what was played before there were too many
    different tiles, or None if that is nothing."""
    try:
        games.begin(int(rng.integers(2**31)))
    except TooManyTiles:
        return None
    key, chance = jax.random.key(int(rng.integers(2**31))), np.resize(CHANCES, games.number)
    rows: list[Any] = []
    for time in range(-(-steps // games.number)):
        seen = games.seen()
        chosen = np.asarray(choose(net, seen, key, np.uint32(time))[1])
        slips = rng.random(games.number) < chance
        action = np.where(slips, rng.integers(games.actions, size=games.number), chosen).astype(np.uint8)
        try:
            rows.append((seen, action, *games.step(action)))
        except TooManyTiles:
            break
    if not rows:
        return None
    nothing = [np.zeros_like(x) for x in rows[0][1:-1]]
    rows.append((games.seen(), *nothing, np.ones(games.number, bool)))  # the last pictures
    whole = jax.tree.map(lambda *x: np.stack(x), *rows)
    parts = [slice(i, i + recorded) for i in range(0, games.number - recorded + 1, recorded)]
    return Record(*jax.tree.map(lambda x: np.concatenate([x[:, part] for part in parts]), whole))
