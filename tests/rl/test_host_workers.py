"""Games of hosted worlds in worker processes: the same as in one process, and gone when they should be."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from protoalign import GymWorld, UserError, make
from protoalign.rl.host_rollout import HostVector
from protoalign.rl.host_workers import pack
from protoalign.worlds import registry
from protoalign.worlds.tile_dictionary import TileDictionary
from tests.worlds.rooms import Bag, Careless, Late, Rooms, Trouble

AFTER = 80  # steps of a game's life; some are for probing


def played(world, number, steps, known=None, seed=3):
    """Everything that is seen in random play, [T, B, ...]; and the dictionary's pictures."""
    dictionary, rng = TileDictionary(world.tile, known), np.random.default_rng(seed)
    rows = []
    with HostVector(world, number, dictionary) as games:
        for time_ in range(steps):
            if time_ % 25 == 0:
                games.begin(seed + time_)
            rows.append((*games.seen(), *games.step(rng.integers(len(world.spec.actions), size=number)), games.new.copy()))
            rows[-1] = (*rows[-1], games.returns.copy(), games.lengths.copy(), games.over.copy())
        figures = games.counts.copy(), games.scores
    return [np.stack(column) for column in zip(*rows, strict=True)] + [*figures, dictionary.pictures]


@pytest.mark.parametrize(
    ("world", "number", "workers"),
    [
        (partial(GymWorld, partial(Bag, tile=3), 3, picture="image", numbers=("steps", "place"), max_steps=9), 5, 3),
        (partial(make, "minigrid-doorkey-5x5"), 4, 2),
    ],
)
def test_ids_and_everything_else_are_the_same_with_and_without_workers(world, number, workers):
    """With three workers for five games, and with a fast reader; also where some pictures are known before."""
    alone, shared = world(), world()
    shared.run_in(workers)
    known = played(alone, 2, 30, seed=9)[-1][::-2]
    for ours, theirs in zip(played(alone, number, 60, known), played(shared, number, 60, known), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert not multiprocessing.active_children()


def test_ids_are_in_the_order_of_games_whoever_answers_first():
    """The first worker is the slowest."""
    plain, slow = GymWorld(Rooms, 4), GymWorld(Late, 4, workers=2)
    ours, theirs = played(plain, 2, 12), played(slow, 2, 12)
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[-1], theirs[-1])


def run(games, steps):
    for _ in range(steps):
        games.step(np.zeros(games.number, int))


@pytest.mark.parametrize(
    ("how", "workers", "said"),
    [
        ("raise", 0, r"trap raised RuntimeError in step\(\): the floor gave way \(rooms.py, line \d+\)"),
        ("raise", 2, r"trap raised RuntimeError in step\(\): the floor gave way \(rooms.py, line \d+\)"),
        ("exit", 1, r"a worker process of trap has ended \(code 3\): try workers=0"),
        ("hang", 2, r"trap has not answered in a worker process for 1.5 s: it hangs, or needs more time \(patience=\)"),
    ],
)
def test_what_fails_is_said_in_one_line_and_no_process_is_left(how, workers, said):
    world = GymWorld(partial(Trouble, AFTER, how), 4, name="trap", workers=workers, patience=1.5)
    with HostVector(world, 3, TileDictionary(world.tile)) as games:
        games.begin(0)
        processes = multiprocessing.active_children()
        assert len(processes) == workers
        with pytest.raises(UserError, match=said) as caught:
            run(games, 3 * AFTER)
        assert "\n" not in str(caught.value)
        assert not any(process.is_alive() for process in processes), "ended at once, not only when closed"
    assert not multiprocessing.active_children()


def test_a_reward_of_a_fast_game_that_is_no_number():
    class Odd:
        def reset(self, seed=None):
            return np.zeros((5, 5), np.uint8), np.zeros(0, np.float32)

        def step(self, action):
            return *self.reset(), float("nan"), False, False

    world = GymWorld(Rooms, 4, fast=lambda dictionary: Odd())
    world.reads_fast(told=True)
    games = HostVector(world, 2, TileDictionary(world.tile))
    games.begin(0)
    with pytest.raises(UserError, match="Rooms gave the reward nan"):
        games.step(np.zeros(2, int))


def test_worlds_that_cannot_go_elsewhere():
    for world, odd in {
        GymWorld(lambda: Rooms(), 4, name="mine"): "make=<function",
        GymWorld(Rooms, 4, name="mine", fast=lambda dictionary: None): "fast=<function",
    }.items():
        with pytest.raises(UserError, match=rf"mine cannot be made in worker processes: {odd}.*, or workers=0"):
            pack(world)
    world = GymWorld(Rooms, 4, looks={"x": lambda: Rooms()}, truth=lambda look, tile: None)
    assert pack(world), "looks and names are not needed there"


def test_worlds_are_made_again_as_they_were():
    gymnasium.register("Again-v0", "tests.worlds.rooms:Rooms", max_episode_steps=11)
    world = GymWorld("Again-v0", (4, 4), agent=(2, 2), max_steps=8, limit_ends=True, workers=2)
    remake = world.remake
    del gymnasium.registry["Again-v0"]  # as in a process that has not imported what registers it
    again = remake()
    assert again.spec == world.spec
    assert (again.tile, again.limit_ends, again.workers) == (world.tile, True, 0)
    del gymnasium.registry["Again-v0"]
    gymnasium.register("Found-v0", "tests.worlds.rooms:Rooms")
    named = registry.make("minigrid-doorkey-5x5", workers=3, patience=5)
    assert (named.workers, named.patience) == (3, 5.0)
    assert named.remake().spec == named.spec
    found = registry.make("gym:tests.worlds.rooms:Found-v0")
    assert found.remake.keywords["tile"] == found.tile == (4, 4), "it is not looked for again"
    assert found.remake().spec == found.spec
    with pytest.raises(UserError, match="hunter-z1c1 is not stepped on the host: it has no workers"):
        registry.make("hunter-z1c1", workers=2)
    with pytest.raises(UserError, match="workers=-2"):
        registry.make("minigrid-doorkey-5x5", workers=-2)


ORPHANS = """
if __name__ == "__main__":
    import multiprocessing
    import numpy as np
    from protoalign.rl.host_workers import open_games
    from protoalign.worlds.gym import GymWorld
    from protoalign.worlds.tile_dictionary import TileDictionary
    from tests.worlds.rooms import Stuck

    world = GymWorld(Stuck, 4, workers=2)
    games = open_games(world, 2, TileDictionary(world.tile))
    print(*(process.pid for process in multiprocessing.active_children()), flush=True)
    games.begin(np.array([0, 1]))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path, end):
    """One waits to be told what to do, the other hangs; then the parent is killed, or stopped by Ctrl-C."""
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, str(script)], env=env, **told) as process:
        workers = [int(word) for word in process.stdout.readline().split()]
        assert len(workers) == 2
        time.sleep(0.5)
        assert all(alive(pid) for pid in workers)
        assert process.poll() is None
        process.send_signal(end)
        process.wait(90)
    limit = time.monotonic() + 90
    while any(alive(pid) for pid in workers) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in workers)


def alive(pid):
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc").exists()


def test_a_world_that_does_not_follow_seeds_is_named(capfd):
    for rooms, odd in ((Rooms, False), (Careless, True)):
        HostVector(GymWorld(rooms, 4, name="mine"), 1, TileDictionary((4, 4))).close()
        assert ("mine does not play the same from the same seed" in capfd.readouterr().err) == odd
