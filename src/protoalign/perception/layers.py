"""Things drawn over grounds: which tiles show one and the same thing on different grounds, told from pictures alone.

A creature shows the ground it stands on, so one thing has a picture for every ground. Two tiles X and Y show one thing on two
grounds G1 and G2 if, pixel by pixel, they differ by some share of what the grounds differ by: all of it where the thing is
transparent, none where it is opaque, some where it is half so. Besides,

- at two pixels or more the grounds must show just as they are (in X the one, in Y the other), and
- at one pixel or more the thing must hide how the grounds differ, and at most of these it must be seen on both of them.

The second rule gives the two roles: a red and a blue ball on sand also differ by what a red and a blue ball on grass differ by,
but there nothing is hidden. Nothing is known of which tiles are grounds, so every four tiles are tried. As cows on grass and on
sand may pass for two grounds where a zombie covers the cow, those two tiles that show through most are taken for grounds first;
a ground does not lie on another one, and what was found to lie on a ground is no ground itself. A tile that may as well be
a thing as a ground is neither: where no ground was seen by itself, nothing is joined.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

THROUGH = 2  # pixels that show a ground just as it is, at least
COVER = 1  # pixels at which a thing hides how the grounds differ, at least
SAME = 2.5 / 255  # apart in every channel, at most, if a ground shows just as it is: blending may be off by a step or two
CLOSE = 0.02  # apart in any pixel, at most, as a share of the full range
BARE = 4  # times as often a ground shows under other tiles, at least, as others show under it, counted in pixels
SEEN = 0.75  # share of the pixels that a thing hides at which it is seen on both grounds, at least
HIDES = 0.9  # share of the grounds' difference that is left, at most, where something is hidden
CANDIDATES = 64  # tiles tried as grounds, at most: those that show through most


class Layers(NamedTuple):
    """What lies on what among D tiles."""

    group: np.ndarray  # [D] int, numbered in the order of tiles: those of a group show one thing
    ground: np.ndarray  # [D] bool, tiles that others lie on
    under: np.ndarray  # [D] int, the tile that shows through each, or -1
    thing: np.ndarray  # [D] bool, tiles that were found to show a thing on a ground


class Readings(NamedTuple):
    """Ways to read a tile as the same thing as another one, on another ground. One entry each."""

    other: np.ndarray  # [Q] the tile that shows the same thing
    ground: np.ndarray  # [Q] the ground of this tile
    others_ground: np.ndarray  # [Q] the ground of the other
    pixels: np.ndarray  # [Q] at which the grounds show


def group(tiles: np.ndarray) -> Layers:
    """Which of the different tiles [D, h, w, 3] uint8 show the same thing."""
    pixels = as_pixels(tiles)
    count = len(pixels)
    shown = np.stack([_equal(tile, pixels).sum(1) for tile in pixels]) * ~np.eye(count, dtype=bool)  # [D, D] pixels
    candidate = np.zeros(count, bool)
    candidate[np.argsort(-shown.sum(1), kind="stable")[:CANDIDATES]] = True
    among = References(tiles, np.arange(count), candidate)
    found = [among.readings(pixels[i], np.arange(i + 1, count)) for i in range(count)]
    one = np.repeat(np.arange(count), [len(r.other) for r in found])
    two, first, second, weight = (np.concatenate(parts).astype(int) for parts in zip(*found, strict=True))
    carries = np.bincount(first, weight, count) + np.bincount(second, weight, count)
    bare = carries >= BARE * (np.bincount(one, weight, count) + np.bincount(two, weight, count))
    label, ground, thing = np.arange(count), np.zeros(count, bool), np.zeros(count, bool)
    while True:
        open_ = (
            bare[first]
            & bare[second]
            & ~(ground[one] | ground[two] | thing[first] | thing[second])
            & (label[one] != label[two])
        )
        one, two, first, second, weight = (x[open_] for x in (one, two, first, second, weight))
        if not len(one):
            break
        pair = np.minimum(first, second) * count + np.maximum(first, second)
        ground[list(divmod(int(np.bincount(pair, weight).argmax()), count))] = True
        for x, y in zip(*(ends[ground[first] & ground[second]] for ends in (one, two)), strict=True):
            if not (ground[x] or ground[y]):
                thing[[x, y]] = True
                label[label == max(label[x], label[y])] = min(label[x], label[y])
    _, number = np.unique(label, return_inverse=True)  # a label is the first tile of its group
    return Layers(number.reshape(-1), ground, _under(shown, ground), thing)


@dataclass(frozen=True)
class References:
    """Tiles whose codes are known, to read others by."""

    pictures: np.ndarray  # [D, h, w, 3] uint8
    code: np.ndarray  # [D] int32
    ground: np.ndarray  # [D] bool, that may be a ground

    def read(self, tile: np.ndarray) -> int:
        """The code of the reference that a tile [h, w, 3] is the same as, or shows the same thing as; -1 if there is none."""
        if (same := self.same(tile, SAME)) >= 0:
            return int(self.code[same])
        found = self.readings(as_pixels(tile), np.flatnonzero(self.code >= 0))
        return int(self.code[found.other[found.pixels.argmax()]]) if len(found.other) else -1

    def readings(self, tile: np.ndarray, others: np.ndarray) -> Readings:
        """The ways to read a tile [3, P], `as_pixels`, as the same thing as one of the references `others` [n] int."""
        tiles, grounds = self.pixels, np.flatnonzero(self.ground)
        through = _equal(tile, tiles)  # [D, P]
        found: list[tuple[np.ndarray, ...]] = [(np.zeros(0, int),) * 4]
        # Where the grounds differ by no more than CLOSE, the tiles differ by no more than twice that.
        differ = (_sum(abs(tile - tiles[others])) > 6 * CLOSE).astype(np.float32)  # [Y, P]
        for ground in np.flatnonzero(self.ground & (through.sum(1) >= THROUGH) & ~through.all(1)):
            alike = (_sum(abs(tiles[ground] - tiles[grounds])) <= 3 * CLOSE).astype(np.float32)  # [G, P]
            y, g = np.nonzero((differ @ alike.T == 0) & (self._show[others] @ through[ground].astype(np.float32) >= THROUGH))
            y, g = others[y], grounds[g]
            keep = (g != ground) & (y != ground) & (y != g)
            y, g = y[keep], g[keep]
            for part in range(0, len(y), 4096):
                some = slice(part, part + 4096)
                ok, count = _explains(tile, tiles[y[some]], tiles[ground], tiles[g[some]], through[ground])
                found.append((y[some][ok], np.full(ok.sum(), ground), g[some][ok], count[ok]))
        return Readings(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def same(self, tile: np.ndarray, limit: float) -> int:
        """The reference that a tile [h, w, 3] is nearest to, if it is no farther apart than `limit` in any pixel; or -1."""
        if not len(self.pictures):
            return -1
        apart = _sum(abs(as_pixels(tile) - self.pixels)).max(-1) / 3
        return int(apart.argmin()) if apart.min() <= limit else -1

    def add(self, pictures: np.ndarray, code: np.ndarray, ground: np.ndarray) -> "References":
        """These and more."""
        ours, theirs = (self.pictures, self.code, self.ground), (pictures, code, ground)
        return References(*(np.concatenate(pair) for pair in zip(ours, theirs, strict=True)))

    @cached_property
    def pixels(self) -> np.ndarray:
        return as_pixels(self.pictures)

    @cached_property
    def _show(self) -> np.ndarray:
        """Where the grounds show, [D, G, P] float32, 0 or 1."""
        grounds = self.pixels[self.ground]
        return np.stack([_equal(tile, grounds) for tile in self.pixels]).astype(np.float32)


def as_pixels(tiles: np.ndarray) -> np.ndarray:
    """Tiles [..., h, w, 3] uint8 as pixels [..., 3, P] float32 from 0 to 1."""
    *batch, h, w, channels = tiles.shape
    return (tiles.astype(np.float32) / 255).reshape(*batch, h * w, channels).swapaxes(-2, -1).copy()


def _explains(
    tile: np.ndarray, others: np.ndarray, ground: np.ndarray, grounds: np.ndarray, through: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whether a tile [3, P] on a ground [3, P] is the same thing as each of others [Q, 3, P] on grounds [Q, 3, P], [Q] bool.

    Also the number of pixels [Q] at which both grounds show; `through` [P] says where the first one does.
    """
    difference, contrast = tile - others, ground - grounds
    share = np.clip(_sum(difference * contrast) / np.maximum(_sum(contrast**2), 1e-6), 0, 1)  # [Q, P]
    close = (_sum(abs(difference - share[:, None] * contrast)) <= 3 * CLOSE).all(-1)
    differ = _sum(abs(contrast)) > 6 * CLOSE
    shows = _equal(others, grounds)
    count = (through & differ & shows).sum(-1)
    hidden = differ & (share < HIDES)
    seen = (hidden & ~through & ~shows).sum(-1)
    return close & (count >= THROUGH) & (seen >= COVER) & (seen >= SEEN * hidden.sum(-1)), count


def _sum(x: np.ndarray) -> np.ndarray:
    """Over the channels of pixels [..., 3, P]: many times faster than a sum over so short an axis."""
    return x[..., 0, :] + x[..., 1, :] + x[..., 2, :]


def _equal(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where pixels [..., 3, P] are equal, [..., P] bool."""
    equal = abs(one - other) <= SAME
    return equal[..., 0, :] & equal[..., 1, :] & equal[..., 2, :]


def _under(shown: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """The ground [D] that shows through most of each tile; where no grounds were found, the tile that most others show."""
    total, fits = shown.sum(1), shown >= THROUGH
    if ground.any():
        worth = np.where(fits & ground & ~ground[:, None], shown, 0)
    else:
        worth = np.where(fits & (total > total[:, None]), total, 0)
    return np.where(worth.max(1) > 0, worth.argmax(1), -1)
