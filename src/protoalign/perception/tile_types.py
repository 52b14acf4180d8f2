"""The target's tiles: each gets a code. Codes below C are known prototypes; C + j is tile type j, numbered as they are met.

**Clean pictures**, in which tiles are identical byte by byte, are read exactly. A tile not met before is a known prototype if
the vocabulary recognises it; it is of a type if it is all but identical to a tile of that type, or shows the same thing on
another ground (`layers`); otherwise it founds a type. Tiles of the target serve as grounds, too: if the grass is redrawn and
the cow is not, the cow on new grass is a known cow once the new grass has been seen by itself, be it in the same picture. What
was given a code keeps it: a cow that was met on new grass before that is a type of its own.

**Noisy pictures** are read by clusters: how far apart two tiles of one kind are is measured on the first picture, and its tiles
are joined, nearest first, as long as they differ little more than that. Later tiles go to the nearest cluster or found one.
Each cluster is a known prototype or a type, as the novelty detector says of most of the tiles that founded it.

The light may change from picture to picture. If tiles of a picture fit nothing, but would if all were a shade lighter or
redder, the picture is taken to be so.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist

from protoalign.errors import UserError
from protoalign.perception import layers
from protoalign.perception.classifier import TileClassifier
from protoalign.perception.light import Centres
from protoalign.perception.tiles import Tile, as_tiles, check_picture, cut, distinct, vectors
from protoalign.perception.vocabulary import Vocabulary
from protoalign.worlds import tile_dictionary

CLEAN = 0.25  # share of a picture's tiles that have an identical one, in the picture or in the source, if there is no noise
EXAMPLES = 16  # tiles kept of each type
MOST = 64  # clusters under noise, or four for each prototype, if those are more: beyond that, tiles go to the nearest
MANY = 256  # pictures looked at in one go
KEPT = 100_000  # tiles that taught nothing and are remembered nevertheless, to save time


class TileTypes:
    def __init__(self, vocabulary: Vocabulary, oracle: bool = False, noisy: bool | None = None, exact: Tile | None = None):
        """Empty. With `oracle`, types are told by labels, which mean nothing but sameness.

        Whether there is noise is judged by the first picture, if `noisy` does not say so. `exact`: a tile is what it is byte by
        byte, known only if it is a picture of the source, and of this size, which may be another than the source's.
        """
        self.vocabulary = vocabulary
        self.oracle = oracle
        self.noisy = False if exact else noisy
        self.exact = exact is not None
        self.tile = exact or vocabulary.tile
        self.frozen = False
        self._types = 0
        self._centres = Centres(self.tile)  # K of them: the different tiles met if clean, clusters if noisy
        self._codes = np.zeros(0, np.int32)  # [K]
        self._thing = np.zeros(0, bool)  # [K] that were found to show a thing on a ground
        self._tiles: list[np.ndarray] = []  # K arrays of some tiles [n, h, w, 3] uint8
        self._labels: dict[int, int] = {}  # codes of labels, with an oracle
        self._exact: dict[bytes, int] = {}  # codes of clean tiles
        self._later: dict[bytes, int] = {}  # of clean tiles that were met only after finding out, which taught nothing
        self._classifier: TileClassifier | None = None

    def __len__(self) -> int:
        """Types met."""
        return self._types

    @property
    def examples(self) -> list[np.ndarray]:
        """Of each type some tiles, [n, h, w, 3] uint8."""
        first = self.vocabulary.num_prototypes
        owned = [np.flatnonzero(self._codes == first + j) for j in range(len(self))]
        return [np.concatenate([self._tiles[k] for k in some])[:EXAMPLES] for some in owned]

    @property
    def pictures(self) -> np.ndarray:
        """One picture of each type, [T, h, w, 3] uint8: the first tile met, or the mean of some under noise."""
        shown = [tiles.mean(0).round() if self.noisy else tiles[0] for tiles in self.examples]
        return np.array(shown, np.uint8).reshape(-1, *self.tile, 3)

    def see(self, picture: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """The codes [H, W] int32 of a picture [H*h, W*w, 3]; tiles not met before may found new types, unless frozen.

        `labels` [H, W] int are needed with an oracle, and not looked at without one.
        """
        if self.frozen:
            return self(picture)
        tiles = cut(check_picture(picture), self.tile)
        if tiles.ndim != 5:
            raise UserError(f"one picture at a time: [height, width, 3], not {list(np.shape(picture))}")
        flat = np.ascontiguousarray(tiles).reshape(-1, *tiles.shape[2:])
        given = None
        if self.oracle:
            if labels is None or np.shape(labels) != tiles.shape[:2]:
                raise UserError(f"types told by labels need a grid of labels, {tiles.shape[0]} x {tiles.shape[1]}")
            given = np.asarray(labels).reshape(-1)
        if self.noisy is None:
            self.noisy = self._is_noisy(flat)
        codes = self._see_noisy(flat, given) if self.noisy else self._see_clean(flat, given)
        return codes.reshape(tiles.shape[:2]).astype(np.int32)

    def freeze(self) -> "TileTypes":
        """No new types from now on: a tile unlike all that was met has the code C + T."""
        if not self.frozen and self.noisy and len(self._centres):
            owner = np.repeat(self._codes, [len(tiles) for tiles in self._tiles])
            self._classifier = TileClassifier(np.concatenate(self._tiles), owner)
        self.frozen = True
        return self

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """The codes [..., H, W] int32 of pictures [..., H*h, W*w, 3]. Nothing is learned: C + T is a tile unlike all met."""
        tiles = cut(check_picture(picture), self.tile)
        grid = tiles.shape[:-3]
        boards = np.ascontiguousarray(tiles).reshape(-1, grid[-2] * grid[-1], *tiles.shape[-3:])
        noisy = self._is_noisy(boards[0]) if self.noisy is None and len(boards) else self.noisy
        read = self._read_noisy if noisy else self._read_clean
        parts = [read(boards[i : i + MANY]) for i in range(0, len(boards), MANY)] if noisy else [read(boards)]
        return np.concatenate(parts).reshape(grid).astype(np.int32) if parts else np.zeros(grid, np.int32)

    @property
    def _next(self) -> int:
        return self.vocabulary.num_prototypes + len(self)

    def _meet(self, tiles: np.ndarray, centre: np.ndarray, code: int, thing: bool = False) -> None:
        """Keep some tiles [n, h, w, 3] that were given one code."""
        self._types += code == self._next
        self._later.clear()  # more is known now
        self._centres.add(centre)
        self._codes = np.append(self._codes, np.int32(code))
        self._thing = np.append(self._thing, thing)
        self._tiles.append(tiles)

    # -- clean pictures ------------------------------------------------------------------------------------------------------

    def _is_noisy(self, tiles: np.ndarray) -> bool:
        """Whether few of a picture's tiles [N, h, w, 3] are identical to another one or to a picture of the source."""
        different, which = distinct(tiles)
        twin = (np.bincount(which) > 1) | [tile.tobytes() in self._source for tile in different]
        return bool(twin[which].mean() < CLEAN)

    @cached_property
    def _source(self) -> set[bytes]:
        return {picture.tobytes() for picture in self.vocabulary.references.pictures}

    @cached_property
    def _prototype(self) -> dict[bytes, int]:
        known = self.vocabulary
        return {picture.tobytes(): int(known.prototype_of[i]) for i, picture in enumerate(known.pictures) if known.met[i]}

    def _see_clean(self, tiles: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        tiles = self._relit(tiles[None])[0]
        different, which = distinct(tiles)
        new = np.array([tile.tobytes() not in self._exact for tile in different])
        for i in np.flatnonzero(new):
            new[i] = False
            label = None if labels is None else int(labels[which == i][0])
            code, thing = self._judge(different[i], different[new], label)
            if self.exact and code == self._next and len(self) == tile_dictionary.MOST:
                raise UserError(
                    f"the target's tiles do not repeat: more than {len(self)} new ones of {self.tile[0]} x {self.tile[1]} "
                    "pixels were met; use a target whose tiles look the same every time, without noise"
                )
            if label is not None and code >= self.vocabulary.num_prototypes:
                self._labels[label] = code
            self._exact[different[i].tobytes()] = code
            self._meet(different[i : i + 1], vectors(different[i]), code, thing)
        codes = np.array([self._exact[tile.tobytes()] for tile in different])[which]
        if labels is not None:  # identical tiles may have different labels
            for i in np.flatnonzero(codes >= self.vocabulary.num_prototypes):
                label = int(labels[i])
                if label not in self._labels:
                    self._labels[label] = self._next
                    self._meet(tiles[i : i + 1], vectors(tiles[i]), self._next)
                codes[i] = self._labels[label]
        return codes

    def _judge(self, tile: np.ndarray, beside: np.ndarray, label: int | None = None) -> tuple[int, bool]:
        """The code of a clean tile [h, w, 3] that was not met before, and whether it was read as a thing on a ground.

        `beside` [n, h, w, 3]: other tiles of the picture that have no code yet, but may be grounds.
        """
        if self.exact:
            return self._prototype.get(tile.tobytes(), self._next), False
        known = int(self.vocabulary.recognise(tile[None])[0])
        if known >= 0:
            return known, False
        if label is not None:
            return self._labels.get(label, self._next), False
        hidden = self._codes >= self.vocabulary.num_prototypes
        met = layers.References(self._met(np.flatnonzero(hidden)), self._codes[hidden], ~self._thing[hidden])
        if (same := met.same(tile, layers.CLOSE)) >= 0:
            return int(met.code[same]), bool(~met.ground[same])
        every = self.vocabulary.references.add(met.pictures, met.code, met.ground)
        code = every.add(beside, np.full(len(beside), -1, np.int32), np.ones(len(beside), bool)).read(tile)
        return (code, True) if code >= 0 else (self._next, False)

    def _met(self, which: np.ndarray) -> np.ndarray:
        """Clean tiles [..., h, w, 3] that were met, by number [...]."""
        every = np.stack([tiles[0] for tiles in self._tiles]) if self._tiles else np.zeros((0, *self.tile, 3), np.uint8)
        return every[which]

    def _read_clean(self, boards: np.ndarray) -> np.ndarray:
        """Codes [B, N] of the tiles of clean pictures [B, N, h, w, 3]."""
        different, which = distinct(self._relit(boards))
        codes = np.empty(len(different), np.int32)
        for i, tile in enumerate(different):
            mark = tile.tobytes()
            code = self._exact.get(mark, self._later.get(mark))
            if code is None:
                if len(self._later) > KEPT:
                    self._later.clear()
                code = self._later[mark] = self._judge(tile, different[:0])[0]
            codes[i] = code
        return codes[which]

    def _relit(self, boards: np.ndarray) -> np.ndarray:
        """Tiles of clean pictures [B, N, h, w, 3], those of pictures in another light as they were met."""
        if self.exact or not len(self._centres):
            return boards
        different, which = distinct(boards)
        met = np.array([(mark := tile.tobytes()) in self._exact or mark in self._source for tile in different])
        odd = np.flatnonzero(met[which].mean(1) < CLEAN)
        if len(odd):
            boards = boards.copy()
        for start in range(0, len(odd), MANY):
            some = odd[start : start + MANY]
            x = vectors(boards[some])
            shift = self._centres.shift(x)
            x -= np.tile(shift, x.shape[-1] // 3)
            squares = self._centres.squares(x)
            nearest, fits = squares.argmin(-1), squares.min(-1) <= self._centres.limit
            # One plain colour may be any other in another light. So most tiles must fit, and more than one sort of them.
            sorts = np.array([len(set(n[f].tolist())) for n, f in zip(nearest, fits, strict=True)])
            lit = (shift != 0).any((1, 2)) & (fits.mean(1) >= 0.5) & (sorts > 1)
            levelled = as_tiles(x, self.tile)
            levelled[fits] = self._met(nearest[fits])
            boards[some[lit]] = levelled[lit]
        return boards

    # -- noisy pictures ------------------------------------------------------------------------------------------------------

    def _see_noisy(self, tiles: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        if labels is not None:
            x = self._centres.level(vectors(tiles)[None])[0]
            for label in dict.fromkeys(labels.tolist()):
                if label not in self._labels:
                    same = x[labels == label]
                    self._labels[label] = self._meet_cluster(same)
                    self._centres.widen(1.6 * ((same - self._centres.vectors[-1]) ** 2).sum(1).mean())
            return np.array([self._labels[label] for label in labels.tolist()])
        if not len(self._centres):
            self._cluster(vectors(tiles))
        x = self._centres.level(vectors(tiles)[None])[0]
        squares = cdist(x, self._centres.vectors, "sqeuclidean")
        found = squares.argmin(1)
        most = max(MOST, 4 * self.vocabulary.num_prototypes)
        for i in np.flatnonzero(squares.min(1) > self._centres.limit):
            known = ((self._centres.vectors - x[i]) ** 2).sum(1)  # another tile may have founded it just now
            found[i] = known.argmin()
            if known.min() > self._centres.limit and len(self._centres) < most:
                found[i] = len(self._centres)
                self._meet_cluster(x[i : i + 1])
        return self._codes[found]

    def _cluster(self, x: np.ndarray) -> None:
        """The clusters of the first picture's tiles [N, h*w*3]."""
        squares = cdist(x, x, "sqeuclidean")
        twin = (squares + np.diag(np.full(len(x), np.inf))).min(1)
        # Four in five tiles have a twin; 1.6 covers the spread of noise.
        self._centres.widen(1.6 * float(np.quantile(twin, 0.8)))
        labels = fcluster(linkage(x, "average"), np.sqrt(self._centres.limit), "distance")
        for label in dict.fromkeys(labels):  # numbered as they are met
            self._meet_cluster(x[labels == label])

    def _meet_cluster(self, x: np.ndarray) -> int:
        """A new cluster, from some of its tiles [n, h*w*3]; its code."""
        tiles = as_tiles(x[:EXAMPLES], self.tile)
        assert self.vocabulary.detector is not None
        code = self._next
        if self.vocabulary.detector.unseen(tiles).mean() < 0.5:
            code = int(self.vocabulary.nearest(as_tiles(x.mean(0, keepdims=True), self.tile))[0])
        self._meet(tiles, x.mean(0), code)
        return code

    def _read_noisy(self, boards: np.ndarray) -> np.ndarray:
        """Codes [B, N] of the tiles of noisy pictures [B, N, h, w, 3]."""
        assert self.vocabulary.detector is not None
        x = self._centres.level(vectors(boards)).reshape(-1, self._centres.vectors.shape[1])
        tiles = as_tiles(x, self.tile)
        codes = np.full(len(tiles), self._next, np.int32)
        fits = np.zeros(len(tiles), bool)
        if len(self._centres):
            squares = self._centres.squares(x)
            fits = squares.min(1) <= self._centres.limit
            codes[fits] = self._codes[squares[fits].argmin(1)] if self._classifier is None else self._classifier(tiles[fits])
        seen = np.flatnonzero(~fits)
        seen = seen[~self.vocabulary.detector.unseen(tiles[seen])]
        codes[seen] = self.vocabulary.nearest(tiles[seen])
        return codes.reshape(boards.shape[:2])

    # -- files ---------------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays, and what can be written as JSON; without the vocabulary."""
        tiles = np.concatenate(self._tiles) if self._tiles else np.zeros((0, *self.tile, 3), np.uint8)
        arrays = {"tiles": tiles, "tiles_each": np.array([len(some) for some in self._tiles], np.int64)}
        arrays |= {"codes": self._codes, "thing": self._thing, "centres": self._centres.vectors}
        if self._classifier is not None:
            arrays |= {f"classifier.{name}": array for name, array in self._classifier.save().items()}
        info = {
            "oracle": self.oracle,
            "noisy": self.noisy,
            "frozen": self.frozen,
            "types": self._types,
            "exact": list(self.tile) if self.exact else None,
        }
        return arrays, info | {"limit": self._centres.limit, "labels": [[int(k), int(v)] for k, v in self._labels.items()]}

    @classmethod
    def load(cls, vocabulary: Vocabulary, arrays: dict[str, np.ndarray], info: dict[str, Any]) -> "TileTypes":
        """What was saved, with the same vocabulary."""
        exact = info["exact"]
        types = cls(vocabulary, info["oracle"], info["noisy"], (int(exact[0]), int(exact[1])) if exact else None)
        types.frozen, types._types = info["frozen"], info["types"]
        types._centres.vectors, types._centres.limit = arrays["centres"], info["limit"]
        types._codes, types._thing = arrays["codes"], arrays["thing"]
        types._tiles = np.split(arrays["tiles"], np.cumsum(arrays["tiles_each"])[:-1]) if len(types._codes) else []
        types._labels = dict(info["labels"])
        if types.noisy is False:
            for tiles, code in zip(types._tiles, types._codes.tolist(), strict=True):
                types._exact.setdefault(tiles[0].tobytes(), code)
        kept = {name.removeprefix("classifier."): array for name, array in arrays.items() if name.startswith("classifier.")}
        types._classifier = TileClassifier.load(kept) if kept else None
        return types
