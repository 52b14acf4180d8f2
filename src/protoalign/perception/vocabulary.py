"""The source's tiles: which pictures show one kind of thing, a prototype, and what is known of other tiles by them."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from protoalign.errors import UserError
from protoalign.perception import layers, novelty
from protoalign.perception.novelty import NoveltyDetector
from protoalign.perception.tiles import Tile, check_picture, cut, distinct, join


@dataclass(frozen=True)
class Vocabulary:
    """Pictures of the source, by id, and their prototypes.

    `fit` groups the pictures; `learn` then makes what is needed to judge other tiles, from the pictures that were met.
    """

    pictures: np.ndarray  # [ids, h, w, 3] uint8
    prototype_of: np.ndarray  # [ids] int32, numbered in order of the first id
    ground: np.ndarray  # [ids] bool, that others lie on
    thing: np.ndarray  # [ids] bool, that were found to lie on a ground
    met: np.ndarray  # [ids] bool
    counts: np.ndarray  # [ids] int64, how often each was met; 0 where that was not counted
    detector: NoveltyDetector | None = None  # of pictures that were not met

    @classmethod
    def fit(cls, pictures: np.ndarray) -> "Vocabulary":
        """From pictures [ids, h, w, 3] uint8: identical ones, and one thing on several grounds, are one prototype."""
        pictures = np.ascontiguousarray(check_picture(pictures))
        if pictures.ndim != 4 or not pictures.size:
            raise UserError(f"a vocabulary needs pictures [ids, height, width, 3], not {list(pictures.shape)}")
        different, which = distinct(pictures)
        found = layers.group(different)
        ids = len(pictures)
        every, none = np.ones(ids, bool), np.zeros(ids, np.int64)
        prototype = found.group[which].astype(np.int32)
        return cls(pictures, prototype, found.ground[which], found.thing[which], every, none)

    @classmethod
    def each(cls, pictures: np.ndarray, counts: np.ndarray) -> "Vocabulary":
        """From pictures [ids, h, w, 3] that were met `counts` [ids] times: each is a prototype of its own."""
        pictures = np.ascontiguousarray(check_picture(pictures))
        every, none = np.ones(len(pictures), bool), np.zeros(len(pictures), bool)
        return cls(pictures, np.arange(len(pictures), dtype=np.int32), none, none, every, np.asarray(counts, np.int64))

    def learn(self, met: np.ndarray, rng: np.random.Generator, counts: np.ndarray | None = None) -> "Vocabulary":
        """One that knows only the pictures `met` [ids] bool and has a detector of all others.

        `counts` [ids]: how often each was met, if that was counted.
        """
        met = np.asarray(met, bool)
        if met.shape != self.met.shape or not met.any():
            raise UserError(f"{int(met.sum())} of {len(self.pictures)} pictures were met: a vocabulary needs one at least")
        counts = np.zeros(len(met), np.int64) if counts is None else np.asarray(counts, np.int64)
        return replace(self, met=met, counts=counts, detector=novelty.train(distinct(self.pictures[met])[0], rng))

    @property
    def tile(self) -> Tile:
        """Height and width of a tile in pixels."""
        return self.pictures.shape[1], self.pictures.shape[2]

    @property
    def num_prototypes(self) -> int:
        return int(self.prototype_of.max()) + 1

    @cached_property
    def canonical(self) -> np.ndarray:
        """The id by which each prototype is drawn, [C]: the one that was met most often, or else the first that was met."""
        worth = 2.0 * self.counts + self.met
        ids = [np.flatnonzero(self.prototype_of == c) for c in range(self.num_prototypes)]
        return np.array([some[worth[some].argmax()] for some in ids])

    def names(self, truth: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A name for each prototype, from what its pictures truly show, by id: for reports only."""
        if truth is None:
            return tuple(f"prototype {c}" for c in range(self.num_prototypes))
        if len(truth) != len(self.pictures):
            raise UserError(f"{len(truth)} names were given for {len(self.pictures)} pictures")
        names: list[str] = []
        for c in range(self.num_prototypes):
            name = Counter(truth[i] for i in np.flatnonzero(self.prototype_of == c)).most_common(1)[0][0]
            number = 1
            while (unique := name if number == 1 else f"{name} {number}") in names:
                number += 1
            names.append(unique)
        return tuple(names)

    # -- what one who knows the source makes of other tiles ------------------------------------------------------------------

    def nearest(self, tiles: np.ndarray) -> np.ndarray:
        """f_proto|S: the prototype of the met source picture that each of tiles [N, h, w, 3] is most like, [N] int32."""
        known = self.references.pictures.reshape(len(self.references.pictures), -1).astype(np.float32)
        flat = np.asarray(tiles, np.float32).reshape(len(tiles), known.shape[1])
        return self.references.code[((known**2).sum(1) - 2 * flat @ known.T).argmin(1)]

    def known(self, tiles: np.ndarray) -> np.ndarray:
        """The prototypes [N] int32 of tiles [N, h, w, 3] that are source pictures, or a known thing on another known ground.

        -1 for all others.
        """
        different, which = distinct(tiles)
        return np.array([self.references.read(tile) for tile in different], np.int32)[which]

    def unseen(self, tiles: np.ndarray) -> np.ndarray:
        """Which of tiles [N, h, w, 3] are new (eq. 4), [N] bool: unseen to the detector, and not `known`."""
        return self.recognise(tiles) < 0

    def recognise(self, tiles: np.ndarray) -> np.ndarray:
        """The prototypes [N] int32 of tiles [N, h, w, 3]; -1 for those that are new."""
        if self.detector is None:
            raise UserError("this vocabulary has not been told which pictures were met: call learn first")
        prototype = self.known(tiles)
        seen = prototype < 0
        seen[seen] = ~self.detector.unseen(tiles[seen])
        prototype[seen] = self.nearest(tiles[seen])
        return prototype

    def read(self, picture: np.ndarray) -> np.ndarray:
        """Pictures [..., H*h, W*w, 3] as one sees them who knows only the source: the nearest prototypes [..., H, W] int32."""
        different, which = distinct(cut(check_picture(picture), self.tile))
        return self.nearest(different)[which]

    def draw(self, prototypes: np.ndarray) -> np.ndarray:
        """Prototypes [..., H, W] as pictures [..., H*h, W*w, 3] uint8 in the source's look."""
        return join(self.pictures[self.canonical[prototypes]])

    @cached_property
    def references(self) -> layers.References:
        """The different pictures that were met, to read other tiles by."""
        ids = np.flatnonzero(self.met)
        different, which = distinct(self.pictures[ids])
        first = ids[np.unique(which, return_index=True)[1]]
        return layers.References(different, self.prototype_of[first], ~self.thing[first])

    # -- files ---------------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays, and what can be written as JSON."""
        arrays = {name: getattr(self, name) for name in ("pictures", "prototype_of", "ground", "thing", "met", "counts")}
        if self.detector is None:
            return arrays, {}
        weights, info = self.detector.save()
        return arrays | {f"detector.{name}": array for name, array in weights.items()}, {"detector": info}

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> "Vocabulary":
        """What was saved; a ValueError if it cannot be that."""
        weights = {name.removeprefix("detector."): array for name, array in arrays.items() if name.startswith("detector.")}
        detector = NoveltyDetector.load(weights, info["detector"]) if "detector" in info else None
        own = {name: array for name, array in arrays.items() if not name.startswith("detector.")}
        pictures, prototype_of = own["pictures"], own["prototype_of"]
        ids = len(pictures)
        shapes = all(x.shape == (ids,) for name, x in own.items() if name != "pictures")
        whole = pictures.ndim == 4 and pictures.dtype == np.uint8 and pictures.size > 0 and pictures.shape[-1] == 3
        if not (shapes and whole and prototype_of.dtype.kind == "i" and 0 <= prototype_of.min() <= prototype_of.max() < ids):
            raise ValueError("not a vocabulary")
        if not all(np.isfinite(x).all() for x in weights.values()):
            raise ValueError("not a detector")
        return cls(**own, detector=detector)
