"""Crafter's looks: what is new is noticed, and one kind on several grounds is one type."""

import numpy as np
import pytest

from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import CATEGORY_NAMES, MATERIALS
from protoalign.perception.layers import Home, Looks

GROUNDS = [MATERIALS.index(name) for name in ("grass", "sand", "path")]
NEW = [CATEGORY_NAMES.index(name) for name in sprites.REDRAWN]


@pytest.fixture(scope="module")
def home() -> Home:
    return Home(np.random.default_rng(0))


def every_tile(look: str):
    """All tiles of a look [8, 8, 3], each with its category."""
    atlas = sprites.atlas(sprites.load(look))
    for picture, category in enumerate(sprites.CATEGORY_OF):
        for ground in [0] if picture < len(MATERIALS) else GROUNDS:
            yield atlas[picture, ground], int(category)


def test_at_home_nothing_is_new_and_everything_is_known(home):
    looks = Looks(home)
    assert all(looks.code(tile.reshape(-1)) == category for tile, category in every_tile("source"))
    assert len(looks) == 0


@pytest.mark.parametrize("look", ["target", *(f"random:{seed}" for seed in range(100, 110)), "only:cow,stone:target"])
@pytest.mark.parametrize("oracle", [False, True])
def test_new_kinds_are_types_whatever_they_stand_on(home, look, oracle):
    looks = Looks(home, labels=[] if oracle else None)
    found: dict[int, set[int]] = {}
    for tile, category in every_tile(look):
        found.setdefault(category, set()).add(looks.code(tile.reshape(-1), category))
    changed = [k for k in NEW if CATEGORY_NAMES[k] in look or not look.startswith("only")]
    assert len(looks) == len(changed)
    for category, codes in found.items():
        (code,) = codes
        assert (code >= len(CATEGORY_NAMES)) == (category in changed)
        assert category in changed or code == category
    assert len({codes.pop() for codes in found.values()}) == len(CATEGORY_NAMES), "no two kinds are one type"


def test_pictures_to_codes(home):
    atlas = sprites.atlas(sprites.load("target"))
    grid = np.full((7, 9), MATERIALS.index("grass"))
    grid[2, 3], grid[4, 4], grid[0, 0] = NEW[3], NEW[1], NEW[3]  # two cows and a tree
    ground = np.full((7, 9), MATERIALS.index("grass"))
    ground[0, 0] = MATERIALS.index("sand")
    codes = Looks(home)(np.asarray(sprites.draw(atlas, grid, ground)))
    assert codes[2, 3] == codes[0, 0] == len(CATEGORY_NAMES)
    assert codes[4, 4] == len(CATEGORY_NAMES) + 1
    others = np.ones((7, 9), bool)
    others[[2, 4, 0], [3, 4, 0]] = False
    assert (codes[others] == MATERIALS.index("grass")).all()
