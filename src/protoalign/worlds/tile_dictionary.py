"""The different tile pictures that were met in hosted worlds, numbered as they were met."""

import numpy as np

from protoalign.errors import TooManyTiles
from protoalign.worlds.looks import cut

MOST = 255  # different pictures; a world that shows more is hardly made of tiles


class TileDictionary:
    """Exact tile pictures to ids. It grows to `MOST`; what is new then is an error, or, if `endless`, has the id MOST."""

    def __init__(self, tile: tuple[int, int], pictures: np.ndarray | None = None, endless: bool = False):
        self.tile, self.endless = tile, endless
        self.ids: dict[bytes, int] = {}
        self._pictures: list[np.ndarray] = []
        for picture in () if pictures is None else pictures:
            self.number(picture)

    def __len__(self) -> int:
        return len(self._pictures)

    @property
    def pictures(self) -> np.ndarray:
        """[ids, h, w, 3] uint8."""
        return np.array(self._pictures, np.uint8).reshape(-1, *self.tile, 3)

    def number(self, picture: np.ndarray) -> int:
        """The id of a tile picture [h, w, 3] uint8, a new one if it has none."""
        mark = picture.tobytes()
        found = self.ids.get(mark)
        if found is None:
            if len(self) == MOST:
                return self.full()
            found = self.ids[mark] = len(self)
            self._pictures.append(np.array(picture, np.uint8))
        return found

    def full(self) -> int:
        """What is to be done about a picture for which there is no place."""
        if self.endless:
            return MOST
        raise TooManyTiles(
            f"more than {MOST} different tiles of {self.tile[0]} x {self.tile[1]} pixels were met: the tile size is wrong, or "
            "the picture is not made of tiles that look the same every time"
        )


class Reader:
    """Pictures of one game, one after another, as grids of ids; only tiles that have changed are looked up."""

    def __init__(self, dictionary: TileDictionary):
        self.dictionary = dictionary
        self.last: np.ndarray | None = None
        self.grid = np.zeros((0, 0), np.uint8)

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        """The ids [H, W] uint8 of a picture [H*h, W*w, 3] uint8."""
        tiles = cut(picture, self.dictionary.tile)
        if self.last is None or self.last.shape != picture.shape:
            places = list(np.ndindex(tiles.shape[:2]))
            self.grid = np.zeros(tiles.shape[:2], np.uint8)
        else:
            rows, columns, h, w, channels = tiles.shape
            other = (picture != self.last).reshape(rows, h, columns, w * channels).any((1, 3))
            places = list(zip(*np.nonzero(other), strict=True))
            self.grid = self.grid.copy()
        for place in places:
            self.grid[place] = self.dictionary.number(tiles[place])
        self.last = np.array(picture)
        return self.grid
