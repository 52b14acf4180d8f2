"""What all stages share: where they keep things, a world's settings, the source as policies see it, its history, threads."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from protoalign.agent import Agent
from protoalign.alignment import training
from protoalign.errors import UserError
from protoalign.perception.vocabulary import Vocabulary
from protoalign.rl.history import Episodes, cut
from protoalign.rl.source_world import SourceWorld
from protoalign.runs import Memory, Run, Stopped
from protoalign.settings import HOSTED, Settings, of, shorten
from protoalign.worlds import registry
from protoalign.worlds.base import World
from protoalign.worlds.gym import GymWorld

Store = Run | Memory
T = TypeVar("T")


def settings_of(
    world: World,
    preset: str,
    steps: int | None = None,
    updates: int | None = None,
    explore_steps: int | None = None,
    hide: tuple[str, ...] = (),
) -> Settings:
    """A world's settings for a preset, with other budgets, and kinds that may look new, where they are given."""
    own = registry.own_settings(world.spec.name)
    if isinstance(world, GymWorld):
        own = own or {"fast": HOSTED}
        if hide:
            raise UserError(f"{world.spec.name} is a hosted world: everything may look new there, nothing is named with hide")
    settings = shorten(of(own, preset), steps, updates, explore_steps)
    return replace(settings, infer=replace(settings.infer, hide=hide)) if hide else settings


def source_of(world: World, vocabulary: Vocabulary) -> SourceWorld:
    """The source as policies see it."""
    return SourceWorld(world, tuple(int(c) for c in vocabulary.prototype_of))


def check_world(world: World) -> None:
    """Refuse a world without what the method needs, with the reason, before any training."""
    spec = world.spec
    if not hasattr(world, "pictures"):
        raise UserError(f"{spec.name} has no pictures: the method needs a table of them, pictures('source')")
    pictures = np.asarray(world.pictures("source"))
    if pictures.ndim != 4 or pictures.shape[-1] != 3 or pictures.dtype != np.uint8:
        raise UserError(f"{spec.name} has no pictures: pictures('source') must be [ids, h, w, 3] uint8, not {pictures.shape}")
    if len(spec.grid) != 2 or min(spec.grid) < 1 or len(spec.actions) < 2:
        raise UserError(f"{spec.name} needs a grid of rows and columns and at least two actions")
    if spec.truth is not None and len(spec.truth) != len(pictures):
        raise UserError(f"{spec.name} names {len(spec.truth)} pictures and shows {len(pictures)}")
    if spec.agent is not None and not all(0 <= a < n for a, n in zip(spec.agent, spec.grid, strict=True)):
        raise UserError(f"{spec.name}'s agent is outside its grid")
    seen = eqx.filter_eval_shape(lambda key: world.observe(world.reset(key, 2)), jax.random.key(0))
    shapes = tuple(seen.tiles.shape), tuple(seen.numbers.shape)
    if shapes != ((2, *spec.grid), (2, len(spec.numbers))):
        raise UserError(f"{spec.name} shows grids and numbers of shape {shapes} for 2 games: they do not fit its spec")


def shown(store: Store, agent: Agent) -> Episodes:
    """The history in ids of pictures, at least one episode, every one as long as one of exploration may be."""
    history = cut(store.recorded("task"), agent.longest)
    if not len(history.length):
        raise UserError("no episode has ended while the task policy learned: train it for more steps")
    return history


def past(store: Store, agent: Agent) -> Episodes:
    """The same in prototypes."""
    return training.as_prototypes(shown(store, agent), np.asarray(agent.vocabulary.prototype_of))


def presence(history: Episodes, which: tuple[int, ...]) -> np.ndarray:
    """How often each of K prototypes is in an episode's first picture, and in an episode at all: [2, K]."""
    tiles = history.observation.tiles
    there = np.arange(tiles.shape[1]) <= history.length[:, None]
    seen = np.stack([(tiles == c).any((2, 3)) for c in which], -1) & there[..., None]  # [E, L + 1, K]
    return np.stack([seen[:, 0].mean(0), seen.any(1).mean(0)])


def keep(store: Store, agent: Agent, **parts: Any) -> Agent:
    """The agent with these parts; in a run folder they are added to the agent that is there, whoever else adds to it."""
    if isinstance(store, Run):
        with store.mutex:
            there = Agent.load(store.path) if (store.path / "agent.json").exists() else agent
            replace(there, settings=agent.settings, **parts).save(store.path)
    return replace(agent, **parts)


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def beside(store: Store) -> Iterator[Callable[[Callable[[], T]], Callable[[], T]]]:
    """A second thread, if the machine has a second core: `later(work)` begins work there, after all that it was given before,
    and returns a function that waits for it. With one core that function does the work.

    JAX lets other threads run while its programs do. If one thread fails, the other stops at the next row that it logs, and the
    error of the one that failed is raised.
    """
    if cores() < 2:
        yield cache
        return
    begun: list[Future[Any]] = []

    def notice(work: Future[Any]) -> None:
        if not work.cancelled() and work.exception() is not None:
            store.stop()

    def later(work: Callable[[], T]) -> Callable[[], T]:
        begun.append(pool.submit(work))
        begun[-1].add_done_callback(notice)
        return begun[-1].result

    with ThreadPoolExecutor(1) as pool:
        try:
            yield later
        except BaseException as error:
            store.stop()
            pool.shutdown(cancel_futures=True)
            failed = [work.exception() for work in begun if work.done() and not work.cancelled() and work.exception()]
            if isinstance(error, Stopped) and failed and failed[0] is not None:
                raise failed[0] from None
            raise
        finally:
            pool.shutdown()
            store.stop(False)
