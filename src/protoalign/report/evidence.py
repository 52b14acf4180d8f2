"""The evidence that settled what each tile type is: one step of finding out for each. Plain data, of the trace alone."""

from dataclasses import dataclass

import numpy as np

from protoalign.report.story import Finding, Trace

BELIEVED = 0.9  # a verdict that is more probable than this from some step on is settled by that step
FELL = 0.005  # a prototype that became less probable by less than this was not ruled out
MOST_OUT = 4  # prototypes told for each type


@dataclass(frozen=True)
class Settled:
    """The step that told what a tile type is, or told most."""

    type: int
    verdict: int  # of K
    step: int | None  # of the trace; None: no step made the verdict more probable
    for_good: bool  # whether it was believed from then on (or from the start, if there is no such step)
    kept: bool  # False: beliefs were not kept any more by then; it was that step or a later one
    met: bool  # whether the type had been met before the step
    probability: tuple[float, float]  # of the verdict, before and after
    out: list[tuple[int, float, float]]  # prototypes that became less probable, those that fell most first: before, after


@dataclass(frozen=True)
class Scene:
    """A picture of the trace, and where in it the tiles of a type are."""

    picture: np.ndarray  # [height, width, 3] uint8
    marked: np.ndarray  # [H, W] bool


def settled(found: Finding, trace: Trace) -> list[Settled]:
    """One for each tile type, in their order."""
    beliefs = np.concatenate([trace.belief, found.belief[None]])  # [T + 1, types, K], before each step and after the last
    last = len(trace.episode) - 1
    frozen = _frozen(trace)
    rows = []
    for i, k in enumerate(found.verdict.tolist()):
        believed = beliefs[:, i, k]
        rises, doubted = np.diff(believed), np.flatnonzero(believed <= BELIEVED)
        for_good = bool(believed[-1] > BELIEVED)
        step = int(doubted[-1]) if for_good and len(doubted) else int(rises.argmax())
        if (for_good and not len(doubted)) or rises.max() <= 0:
            rows.append(Settled(i, k, None, for_good, True, True, (float(believed[0]), float(believed[-1])), []))
            continue
        before, after = beliefs[step : step + 2, i]
        fell = np.where(np.arange(len(before)) == k, 0, before - after)
        out = [(c, float(before[c]), float(after[c])) for c in np.argsort(-fell, kind="stable")[:MOST_OUT].tolist()]
        kept = frozen is None or step != last
        rows.append(
            Settled(
                i,
                k,
                step if kept else frozen,
                for_good,
                kept,
                bool(trace.met[step, i]),
                (float(before[k]), float(after[k])),
                [row for row in out if fell[row[0]] >= FELL],
            )
        )
    return rows


def _frozen(trace: Trace) -> int | None:
    """The step whose belief is repeated to the end, where no more were kept than pictures; None if all were kept."""
    shown, steps = len(trace.pictures), len(trace.episode)
    if not 0 < shown < steps or (trace.belief[shown - 1 :] != trace.belief[shown - 1]).any():
        return None
    return shown - 1


def numbered(trace: Trace, step: int) -> tuple[int, int]:
    """The episode and the step in it, as films count them: from 1 and from 0."""
    episode = trace.episode[step]
    return int(episode) + 1, step - int(np.argmax(trace.episode == episode))


def scenes(trace: Trace, one: Settled) -> tuple[Scene | None, Scene | None]:
    """The pictures before and after the step, as far as they were kept. None is, of what follows an episode's last step."""
    if one.step is None or not one.kept:
        return None, None
    ends = one.step + 1 == len(trace.episode) or trace.episode[one.step] != trace.episode[one.step + 1]
    steps = [one.step, None if ends else one.step + 1]
    before, after = (
        None if t is None or t >= len(trace.pictures) else Scene(trace.pictures[t], trace.where[t] == one.type) for t in steps
    )
    return before, after
