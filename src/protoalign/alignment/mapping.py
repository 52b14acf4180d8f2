"""f_proto|T (eq. 9): what each tile type of a target is. The method's product: called on pictures, printed, saved, loaded."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from math import factorial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy
from scipy.special import log_softmax

from protoalign.alignment import assignments, hypotheses
from protoalign.errors import UserError
from protoalign.files import read_json, write_atomic, write_json
from protoalign.perception.tile_types import TileTypes
from protoalign.perception.tiles import cut
from protoalign.perception.vocabulary import Vocabulary

FORMAT = "protoalign mapping 5"
SHARED = 0.01  # prior probability that a prototype shares its look with another one, or is not in the target at all
UNSURE = 0.9
UNEXPLAINED = 3.0  # nats: about one reward or end that should not have been
RARE = 50  # tiles of a prototype in the source by which a world model knows half of what there is to know about it
OTHER_RULES = 0.01  # prior odds that something in a target works as nothing in the source does
STRANGE = 2.0  # a variant with four times as many moving things came to 1.05, boards out of order to 3 and more


class TileType(NamedTuple):
    """One row of a mapping."""

    picture: np.ndarray  # [h, w, 3] uint8
    prototype: int
    name: str  # of the prototype
    probability: float
    unseen: bool  # False: it looks as in the source


class Moment(NamedTuple):
    """T steps of finding out, as they were before each action. NumPy arrays."""

    episode: np.ndarray  # [T] int32
    action: np.ndarray  # [T] int32
    reward: np.ndarray  # [T] float32
    belief: np.ndarray  # [T, types, K] float32, all episodes so far taken together
    sureness: np.ndarray  # [T] float32, of the whole mapping
    pictures: np.ndarray  # [at most FRAMES, height, width, 3] uint8, of the first steps


class Draws(NamedTuple):
    """A posterior as D different assignments. NumPy arrays."""

    types: np.ndarray  # [D, T] int32, which of K hideable prototypes each tile type is; K: none of these
    logs: np.ndarray  # [D] float32, their log-probabilities; what is missing from 1 is kept back for those that were not found
    instead: np.ndarray  # [T] int32, the hideable prototype that each type is taken for if it has to be one
    acted: np.ndarray  # [T] bool, types that were in sight when an action was to be chosen: only these matter

    def leading(self) -> tuple[np.ndarray, np.ndarray]:
        """Assignments that differ only in types that do not matter are one: the number [G] of the likeliest of each, and the
        log-probabilities [G] of all of them together, the likeliest first."""
        marks = [row.tobytes() for row in self.types[:, self.acted]]
        order = np.argsort(-self.logs, kind="stable")
        first: dict[bytes, int] = {}
        for i in order:
            first.setdefault(marks[i], int(i))
        place = {mark: g for g, mark in enumerate(first)}
        sums = np.bincount([place[mark] for mark in marks], np.exp(self.logs.astype(float)), len(place))
        again = np.argsort(-sums, kind="stable")
        return np.array(list(first.values()), int)[again], np.log(np.maximum(sums[again], 1e-300))


@dataclass
class Mapping:
    """What each tile type is. `mapping(picture)`: prototypes; `mapping.translate(picture)`: the scene in source pictures."""

    world: str  # name of the source
    names: tuple[str, ...]  # of the prototypes, C
    hideable: tuple[int, ...]  # prototypes that tile types may be, K
    vocabulary: Vocabulary  # of the source
    tile_types: TileTypes  # of the target
    score: np.ndarray  # [types or more, K], logs, all episodes together; rows past the types are of what was not met
    known: np.ndarray  # [K] bool, prototypes that were met looking as in the source
    missed: np.ndarray  # [K], how probable it is not to meet a prototype so long if it is there
    steps: int  # played in the target while finding out
    returns: tuple[float, ...]  # of the episodes played while finding out
    engine: str = "bayes"  # that found it
    joint: np.ndarray | None = None  # [K!] logs, evidence about all assignments of K rows to K prototypes, if there is such
    doubt: float = 0.0  # nats: of these, those within so many of the best are as good
    strangeness: float = 0.0  # as `TargetModel` has it: above STRANGE the target does not work as the source does
    unexplained: float = 0.0  # nats of rewards and ends that should not have been, as `SampledJudge` has it
    draws: Draws | None = None  # the posterior as different assignments, where it was sampled; the scores are not used then
    trace: Moment | None = None
    about: dict[str, Any] = field(default_factory=dict)  # where it was found: the target's look, seed, ...

    @property
    def types(self) -> tuple[TileType, ...]:
        """All that was met in the target and may be hidden: new tile types, then prototypes that look as in the source."""
        belief = self.belief
        pictures = self.tile_types.pictures
        rows = [
            TileType(pictures[i], c, self.names[c], float(belief[i, self.hideable.index(c)]), True)
            for i, c in enumerate(self.prototypes.tolist())
        ]
        old = [self.hideable[k] for k in np.flatnonzero(self.known)]
        return (*rows, *(TileType(self.vocabulary.draw(np.array([[c]])), c, self.names[c], 1.0, False) for c in old))

    @property
    def evidence(self) -> np.ndarray:
        """Scores [rows, K], in which a prototype that looks as in the source counts as having a look already."""
        return self.score + np.where(self.known, np.log(hypotheses.VARIANT), 0.0)

    @cached_property
    def undoubted(self) -> np.ndarray | None:
        """Log-probabilities [K!] of all assignments of K slots, the tile types and what was not met, numbered as in
        `assignments`; None where evidence is of pairs alone, or where tile types outnumber the prototypes that are left."""
        if self.joint is None or len(self.score) != len(self.hideable) - int(self.known.sum()):
            return None
        # What looks as in the source has a slot of its own too; if a type is a second look of it, that one is another's.
        old = np.where(np.eye(len(self.hideable), dtype=bool)[self.known], 0.0, np.log(hypotheses.VARIANT))
        pairs = np.concatenate([self.score, old])
        return log_softmax(assignments.marks(len(self.hideable)) @ pairs.reshape(-1) + self.joint)

    @cached_property
    def posterior(self) -> np.ndarray | None:
        """The same with all that are within `doubt` of the best as good as it: what is said."""
        if self.undoubted is None:
            return None
        return log_softmax(-np.maximum(self.undoubted.max() - self.undoubted - self.doubt, 0.0))

    @property
    def one_to_one(self) -> bool:
        """Whether every tile type is a prototype of its own. Where types outnumber prototypes, some must share one."""
        return len(self.score) <= len(self.hideable) - int(self.known.sum())

    @cached_property
    def belief(self) -> np.ndarray:
        """Probabilities [types, K] of the hideable prototypes."""
        types = len(self.tile_types)
        if self.draws is not None:
            kinds, chance = len(self.hideable), np.exp(self.draws.logs.astype(float))
            marks = self.draws.types[..., None] == np.arange(kinds)
            found = np.einsum("d,dtk->tk", chance, marks) * self.familiar
            none = np.einsum("d,dt->t", chance, self.draws.types == kinds)
            return found + np.maximum(1 - none - found.sum(1), 0.0)[:, None] / (kinds + 1)
        if self.posterior is not None:
            kinds = len(self.hideable)
            return (np.exp(self.posterior) @ assignments.marks(kinds)).reshape(kinds, kinds)[:types]
        return hypotheses.marginals(self.evidence, self.one_to_one)[:types] if types else np.zeros((0, len(self.hideable)))

    @property
    def familiar(self) -> np.ndarray:
        """How well the source made each hideable prototype [K] known, from 0 to 1: what a judge says of rare ones is of little
        worth, however sure it is."""
        own = self.vocabulary
        met = np.bincount(own.prototype_of, own.counts, own.num_prototypes)[list(self.hideable)]
        return met / (met + RARE)

    @cached_property
    def prototypes(self) -> np.ndarray:
        """What each tile type is taken for, [types]."""
        types = len(self.tile_types)
        if self.draws is not None:
            best = self.draws.types[self.draws.leading()[0][0]] if len(self.draws.logs) else self.draws.instead
            best = np.where(best == len(self.hideable), self.draws.instead, best)
            return np.array(self.hideable)[best] if types else np.zeros(0, int)
        if self.undoubted is not None:
            return np.array(self.hideable)[assignments.table(len(self.hideable))[self.undoubted.argmax()][:types]]
        return np.array(self.hideable)[hypotheses.decode(self.evidence, self.one_to_one)[:types]] if types else np.zeros(0, int)

    @property
    def unmet(self) -> np.ndarray:
        """Prototypes [K] bool that nothing in the target was taken for."""
        return ~self.known & ~np.isin(self.hideable, self.prototypes)

    @property
    def sureness(self) -> float:
        """The probability that all of it is right, prototypes included that were not met; if it was sampled, that all types are
        that were in sight when an action was to be chosen.

        0 where what happens would hardly ever happen in the source, whatever things are: judges know nothing of such a world.
        """
        if self.strangeness > STRANGE:
            return 0.0
        unmet = self.unmet & (self.missed < 1)  # what was never met in the source either is not missed
        own = self.missed * (1 - SHARED)
        absent = float(np.prod(np.where(unmet, own / (own + SHARED), 1.0)))
        if self.draws is not None:
            explained = absent / (1 + OTHER_RULES * float(np.expm1(min(self.unexplained, 100))))
            if not self.draws.acted.any():
                return explained
            taken = np.isin(self.hideable, self.prototypes[self.draws.acted])
            share = min(float(np.exp(self.draws.leading()[1][0])), 1.0)
            return explained * share * float(np.prod(self.familiar[taken]))
        if self.posterior is not None:  # all orders of what was not met are alike
            orders = factorial(len(self.score) - len(self.tile_types)) / factorial(int(unmet.sum()))
            return min(float(np.exp(self.posterior.max())) * orders, 1.0) * absent
        open_ = max(int(unmet.sum()) - (len(self.score) - len(self.tile_types)), 0)  # of which the evidence says nothing
        return hypotheses.sureness(self.evidence, open_, absent, self.one_to_one)

    def sure_after(self, level: float = 0.99) -> int | None:
        """After how many steps it was so sure for the first time; None if never, or if no trace was kept."""
        if self.trace is None:
            return None
        said = np.append(self.trace.sureness, self.sureness)  # before each step, and after the last
        return int(np.argmax(said >= level)) if (said >= level).any() else None

    @property
    def doubts(self) -> list[str]:
        """What is odd about this target, in words; nothing if types and prototypes match one to one and are certain."""
        counts = {c: int((self.prototypes == c).sum()) + int(self.known[k]) for k, c in enumerate(self.hideable)}
        found = [f"{n} tile types were taken for {self.names[c]}" for c, n in counts.items() if n > 1]
        if self.draws is not None and len(self.tile_types):
            none = 1 - self.belief.sum(1)
            found += [f"tile type {i} seems to be none of the source's kinds" for i in np.flatnonzero(none > 0.5)]
        if len(self.prototypes) > len(self.hideable):
            found.append(f"{len(self.prototypes)} new tile types for {len(self.hideable)} prototypes")
        expected = [
            self.names[c] for c, n, p in zip(self.hideable, counts.values(), self.missed, strict=True) if not n and p < 0.05
        ]
        others = [
            self.names[c] for c, n, p in zip(self.hideable, counts.values(), self.missed, strict=True) if not n and p >= 0.05
        ]
        if expected:
            found.append(f"nothing was taken for {', '.join(expected)}: it is missing, or shares a look with another kind")
        if others:
            found.append(f"not met yet: {', '.join(others)}")
        for i, (row, belief) in enumerate(zip(self.types, self.belief, strict=False)):
            if row.probability < UNSURE:
                best = np.argsort(-belief)[:2]
                named = " or ".join(f"{self.names[self.hideable[k]]} ({belief[k]:.2f})" for k in best)
                found.append(f"tile type {i} may be {named}")
        if self.strangeness > STRANGE:
            found.append(
                "what happens here would hardly ever happen in the source, whatever things are: this target works in another "
                "way, or shows kinds of things that are none of the source's"
            )
        elif self.unexplained > UNEXPLAINED:
            found.append("rewards or ends came that nothing in the source explains: a tile type may be none of its kinds")
        elif self.sureness < UNSURE:
            found.append(f"the mapping is only {self.sureness:.2f} sure: play more episodes")
        return found

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """Pictures [..., H * h, W * w, 3] uint8 to grids of prototypes [..., H, W].

        A tile that was not met while finding out is the prototype left over, if there is one; else what it is most like.
        """
        codes = self.tile_types(picture)
        table = np.concatenate([np.arange(len(self.names)), self.prototypes, [0]])
        shown = table[np.minimum(codes, len(table) - 1)]
        new = codes == len(table) - 1
        if new.any():
            left = np.flatnonzero(self.unmet)
            if len(left) == 1:
                shown[new] = self.hideable[left[0]]
            elif self.tile_types.exact:  # looks tell nothing
                shown[new] = self.vocabulary.prototype_of[self.vocabulary.counts.argmax()]
            else:
                shown[new] = self.vocabulary.nearest(cut(picture, self.vocabulary.tile)[new])
        return shown.astype(np.uint8 if len(self.names) < 256 else np.int32)

    def translate(self, picture: np.ndarray) -> np.ndarray:
        """The same scene in the source's pictures: [..., H * h, W * w, 3] to the same shape."""
        return self.vocabulary.draw(self(picture))

    def __str__(self) -> str:
        """A table: a line for every tile type; then how sure it is, and doubts."""
        wide = max((len(row.name) for row in self.types), default=0)
        lines = [
            f"tile type {i:2d} -> {row.name:{wide}}  {row.probability:.4f}" if row.unseen else f"as before    -> {row.name}"
            for i, row in enumerate(self.types)
        ]
        lines.append(f"sure: {self.sureness:.4f} after {self.steps} steps in {len(self.returns)} episodes")
        return "\n".join([*lines, *(f"doubt: {doubt}" for doubt in self.doubts)])

    # -- files -----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write `path`.json and `path`.safetensors, pictures included."""
        stem = _stem(path)
        words: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {"score": self.score, "known": self.known, "missed": self.missed}
        if self.joint is not None:
            arrays["joint"] = self.joint
        if self.draws is not None:
            arrays |= {f"draws.{key}": value for key, value in self.draws._asdict().items()}
        for name, part in (("vocabulary", self.vocabulary), ("tile_types", self.tile_types)):
            parts, words[name] = part.save()
            arrays |= {f"{name}.{key}": value for key, value in parts.items()}
        if self.trace is not None:
            arrays |= {f"trace.{key}": value for key, value in self.trace._asdict().items()}
        try:
            stem.parent.mkdir(parents=True, exist_ok=True)
            data = safetensors.numpy.save({key: np.ascontiguousarray(value) for key, value in arrays.items()})
            write_atomic(_beside(stem, ".safetensors"), data)
            write_json(
                _beside(stem, ".json"),
                {
                    "format": FORMAT,
                    "sha256": hashlib.sha256(data).hexdigest(),
                    "world": self.world,
                    "names": self.names,
                    "hideable": self.hideable,
                    "found": [{"type": i, "prototype": r.name, "probability": r.probability} for i, r in enumerate(self.types)],
                    "sureness": self.sureness,
                    "doubts": self.doubts,
                    "steps": self.steps,
                    "returns": self.returns,
                    "engine": self.engine,
                    "doubt": self.doubt,
                    "strangeness": self.strangeness,
                    "unexplained": self.unexplained,
                    "about": self.about,
                    **words,
                },
            )
        except OSError as error:
            raise UserError(f"cannot write {error.filename or stem}: {error.strerror}") from None

    @staticmethod
    def load(path: str | Path) -> "Mapping":
        """What `save` wrote. A `UserError` says in one line if it is not a mapping, or damaged."""
        stem = _stem(path)
        said = read_json(_beside(stem, ".json"))
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise UserError(f"{_beside(stem, '.json')} is not a mapping that this version of protoalign can read")
        try:
            data = _beside(stem, ".safetensors").read_bytes()
            if hashlib.sha256(data).hexdigest() != said.get("sha256"):
                raise UserError(f"{_beside(stem, '.safetensors')} does not belong to {_beside(stem, '.json')}, or is damaged")
            arrays = safetensors.numpy.load(data)
        except OSError as error:
            raise UserError(f"cannot read {_beside(stem, '.safetensors')}: {error.strerror}") from None
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError):
            raise UserError(f"{_beside(stem, '.safetensors')} is damaged: find the mapping again") from None

        def part(name: str) -> dict[str, np.ndarray]:
            return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

        try:
            trace, drawn = part("trace"), part("draws")
            vocabulary = Vocabulary.load(part("vocabulary"), said["vocabulary"])
            names, hideable = tuple(map(str, said["names"])), tuple(map(int, said["hideable"]))
            mapping = Mapping(
                str(said["world"]),
                names,
                hideable,
                vocabulary,
                TileTypes.load(vocabulary, part("tile_types"), said["tile_types"]),
                arrays["score"],
                arrays["known"],
                arrays["missed"],
                int(said["steps"]),
                tuple(map(float, said["returns"])),
                str(said["engine"]),
                arrays.get("joint"),
                float(said["doubt"]),
                float(said["strangeness"]),
                float(said["unexplained"]),
                Draws(**drawn) if drawn else None,
                Moment(**trace) if trace else None,
                dict(said["about"]),
            )
            kinds, types = len(hideable), len(mapping.tile_types)
            rows = len(arrays["score"])
            fits = (
                types <= rows <= types + kinds
                and arrays["score"].shape == (rows, kinds)
                and arrays["known"].shape == arrays["missed"].shape == (kinds,)
            )
            joint = arrays.get("joint")
            if joint is not None:
                fits = (
                    fits
                    and 0 <= mapping.doubt < np.inf
                    and kinds <= assignments.MOST
                    and joint.shape == (len(assignments.table(kinds)),)
                )
                fits = fits and bool(np.isfinite(joint).all())
            if mapping.draws is not None:
                drawn_types, logs, instead, acted = mapping.draws
                fits = fits and acted.shape == (types,) and acted.dtype == bool and len(logs) > 0
                fits = fits and drawn_types.shape == (len(logs), types) and logs.ndim == 1 and instead.shape == (types,)
                fits = fits and drawn_types.dtype.kind == instead.dtype.kind == "i" and bool(np.isfinite(logs).all())
                fits = fits and all(x.min(initial=0) >= 0 and x.max(initial=0) <= kinds for x in (drawn_types, instead))
                fits = fits and instead.max(initial=0) < kinds and float(np.exp(logs.astype(float)).sum()) < 1.001
            if not fits or len(names) != vocabulary.num_prototypes or not np.isfinite(arrays["score"]).all():
                raise ValueError
            known_kinds = all(0 <= c < len(names) for c in hideable)
            if (
                not known_kinds
                or not np.isfinite([mapping.strangeness, mapping.unexplained]).all()
                or not 0 <= mapping.sureness <= 1
            ):
                raise ValueError
            str(mapping)  # whatever is wrong with it shows here, not when it is used
            mapping(np.zeros((*mapping.tile_types.tile, 3), np.uint8))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, AssertionError, MemoryError):
            raise UserError(f"the mapping {stem} is damaged or was changed by hand: find it again") from None
        return mapping


def _stem(path: str | Path) -> Path:
    """The path without the ending of either file."""
    stem = Path(path)
    return stem.with_suffix("") if stem.suffix in (".json", ".safetensors") else stem


def _beside(stem: Path, ending: str) -> Path:
    return stem.with_name(stem.name + ending)
