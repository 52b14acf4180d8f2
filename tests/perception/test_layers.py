"""Crafter's looks: what is new is noticed, and one kind on several grounds is one type."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

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


def test_a_users_pictures(home, tmp_path):
    """Large, smooth-edged, half transparent, or of one plain colour: one thing on several grounds is still one type."""
    colours = [(90, 60, 20), (100, 72, 32), (255, 0, 255), (200, 30, 30), (250, 250, 250), (10, 10, 10)]
    for name, colour in zip(sprites.REDRAWN, colours, strict=True):
        picture = Image.new("RGBA", (32, 32), (*colour, 255) if name in MATERIALS or name == "zombie" else (0, 0, 0, 0))
        draw = ImageDraw.Draw(picture)
        if name == "cow":
            draw.ellipse((3, 3, 29, 29), fill=(*colour, 255))
        if name == "skeleton":
            draw.rectangle((11, 2, 21, 30), fill=(*colour, 140))
            draw.rectangle((3, 10, 28, 13), fill=(*colour, 255))
        picture.save(tmp_path / f"{name}.png")
    looks, found = Looks(home), dict[int, set[int]]()
    for tile, category in every_tile(str(tmp_path)):
        found.setdefault(category, set()).add(looks.code(tile.reshape(-1)))
    assert len(looks) == len(NEW)
    assert all(len(codes) == 1 for codes in found.values())
    assert len({codes.pop() for codes in found.values()}) == len(CATEGORY_NAMES)
