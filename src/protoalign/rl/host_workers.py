"""Games of a hosted world: in this process, or in worker processes that each have a share of them.

Both are stepped in the same way and show the same. A worker has a tile dictionary of its own and sends along the pictures that
are new to it; they are numbered here in the order of games and cells, as they would be in one process, whoever answers first.

Workers end with this process, however that ends: they wait at a pipe that breaks, and a thread of theirs watches for it while
an environment is busy.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

import numpy as np

from protoalign.errors import UserError
from protoalign.progress import warn
from protoalign.worlds.gym import Game, GymWorld
from protoalign.worlds.probing import blame, check_reward, repeats
from protoalign.worlds.tile_dictionary import MOST, TileDictionary

START = 60.0  # seconds in which a worker must be ready, at least
FAREWELL = 1.0  # seconds in which a worker may end by itself


class Stepped(NamedTuple):
    """What B games show, and what has happened in them."""

    tiles: np.ndarray  # [B, H, W] uint8, ids
    numbers: np.ndarray  # [B, M] float32
    reward: np.ndarray  # [B] float32
    terminated: np.ndarray  # [B] bool
    truncated: np.ndarray  # [B] bool


class Games(Protocol):
    """B games that are stepped together."""

    def begin(self, seeds: np.ndarray) -> Stepped:
        """All anew, from seeds [B]."""
        ...

    def step(self, action: np.ndarray, reset: np.ndarray) -> Stepped:
        """One action [B] in each; where `reset` [B], a new episode instead."""
        ...

    def close(self) -> None: ...


def open_games(world: GymWorld, number: int, dictionary: TileDictionary) -> Games:
    """So many games of a world, in as many processes as it says, seen as ids of a dictionary."""
    if not repeats(world.make):
        warn(f"{world.spec.name} does not play the same from the same seed: what is learned in it cannot be repeated exactly")
    if world.workers:
        return WorkerGames(world, number, dictionary, min(world.workers, number), world.patience)
    return LocalGames(world, number, dictionary)


class LocalGames:
    """Games in this process, stepped one after another."""

    def __init__(self, world: GymWorld, number: int, dictionary: TileDictionary):
        self.name = world.spec.name
        self.games = [world.game(dictionary) for _ in range(number)]

    def begin(self, seeds: np.ndarray) -> Stepped:
        return self._each(lambda i, game: (*game.reset(seed=int(seeds[i])), 0.0, False, False))

    def step(self, action: np.ndarray, reset: np.ndarray) -> Stepped:
        return self._each(lambda i, game: (*game.reset(), 0.0, False, False) if reset[i] else game.step(int(action[i])))

    def _each(self, play: Callable[[int, Game], tuple[np.ndarray, np.ndarray, float, bool, bool]]) -> Stepped:
        rows = []
        for i, game in enumerate(self.games):
            try:
                rows.append(play(i, game))
            except Exception as error:
                blame(self.name, "step or reset", error)
            check_reward(self.name, rows[-1][2])
        tiles, numbers, reward, terminated, truncated = zip(*rows, strict=True)
        events = np.array(reward, np.float32), np.array(terminated, bool), np.array(truncated, bool)
        return Stepped(np.stack(tiles), np.stack(numbers).astype(np.float32, copy=False), *events)

    def close(self) -> None:
        for game in self.games:
            env = getattr(game, "env", None)
            if env is not None:
                env.close()


class _Worker(NamedTuple):
    process: Any
    pipe: Connection
    ids: list[int]  # in our dictionary, of the pictures in its own


class WorkerGames:
    """Games in worker processes."""

    def __init__(self, world: GymWorld, number: int, dictionary: TileDictionary, workers: int, patience: float):
        self.name, self.dictionary, self.patience = world.spec.name, dictionary, patience
        self.shares = np.array_split(np.arange(number), workers)
        packed, fast = pack(world), world.reads_fast()
        context = multiprocessing.get_context("forkserver")  # a process that runs JAX must not be forked
        context.set_forkserver_preload([__name__])
        self.workers: list[_Worker] = []
        try:
            for share in self.shares:
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, packed, fast, len(share)), daemon=True)
                self.workers.append(_Worker(process, ours, []))
                process.start()
                theirs.close()
            self._answers(max(START, patience))
        except BaseException:
            self.close()
            raise

    def begin(self, seeds: np.ndarray) -> Stepped:
        return self._ask("begin", seeds)

    def step(self, action: np.ndarray, reset: np.ndarray) -> Stepped:
        return self._ask("step", action, reset)

    def _ask(self, call: str, *arguments: np.ndarray) -> Stepped:
        try:
            for worker, share in zip(self.workers, self.shares, strict=True):
                with contextlib.suppress(OSError):  # it has ended: there is no answer then
                    worker.pipe.send((call, *(argument[share] for argument in arguments)))
            parts = self._answers(self.patience)
        except BaseException:  # Ctrl-C, too: what is in the pipes now is of no use
            self.close()
            raise
        return Stepped(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _answers(self, patience: float) -> list[Stepped]:
        """What all workers say, in their order, in ids of our dictionary."""
        until = time.monotonic() + patience
        found = []
        for worker in self.workers:
            done, new = self._answer(worker, until - time.monotonic())
            worker.ids.extend(self.dictionary.number(picture) for picture in new)
            if done is not None:
                if (done.tiles == MOST).any():  # the worker's dictionary is full, so ours is
                    worker.ids[MOST:] = [self.dictionary.full()]
                found.append(done._replace(tiles=np.array(worker.ids, np.uint8)[done.tiles]))
        return found

    def _answer(self, worker: _Worker, seconds: float) -> tuple[Stepped | None, np.ndarray]:
        try:
            if not worker.pipe.poll(max(seconds, 0)):
                told = f"{self.name} has not answered in a worker process for {self.patience:g} s"
                raise UserError(f"{told}: it hangs, or needs more time (patience=)")
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(FAREWELL)
            code = worker.process.exitcode
            raise UserError(
                f"a worker process of {self.name} has ended ({f'signal {-code}' if (code or 0) < 0 else f'code {code}'}): try "
                "workers=0; a script that trains needs if __name__ == '__main__'"
            ) from None
        if isinstance(answer, str):
            raise UserError(answer)
        return answer

    def close(self) -> None:
        """End all workers: those that wait do so when their pipe closes, others are made to."""
        begun = [worker for worker in self.workers if worker.process.pid is not None]
        for worker in self.workers:
            worker.pipe.close()
        until = time.monotonic() + FAREWELL
        for worker in begun:
            worker.process.join(max(until - time.monotonic(), 0))
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(FAREWELL)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self.workers = []


def pack(world: GymWorld) -> bytes:
    """How a world is made anew in another process."""
    try:
        return pickle.dumps(world.remake)
    except Exception:
        parts = getattr(world.remake, "keywords", {})
        odd = next((f"{name}={value!r}" for name, value in parts.items() if not _packs(value)), "what makes it")
        raise UserError(
            f"{world.spec.name} cannot be made in worker processes: {odd} cannot be pickled; use an id, a function of a module "
            "or functools.partial, or workers=0"
        ) from None


def _packs(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def _serve(pipe: Connection, packed: bytes, fast: bool, number: int) -> None:
    """The life of a worker: make a share of the games, step them when told to. What goes wrong is said in one line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent ends us
    threading.Thread(target=end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the parent has closed the pipe, or is gone
        try:
            world: GymWorld = pickle.loads(packed)()
            world.reads_fast(told=fast)
            dictionary = TileDictionary(world.tile, endless=True)  # whether it may be full is for the other one to say
            games = LocalGames(world, number, dictionary)
        except Exception as error:
            pipe.send(_said(error))
            return
        done, known = None, 0
        while True:
            pipe.send((done, dictionary.pictures[known:] if len(dictionary) > known else ()))
            known = len(dictionary)
            call, *arguments = pipe.recv()
            try:
                done = getattr(games, call)(*arguments)
            except Exception as error:
                pipe.send(_said(error))
                return


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, UserError) else f"a worker process failed: {type(error).__name__}: {error}"


def end_with_parent() -> None:
    """Wait until the process that started this one is gone, then end this one: for a thread."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
