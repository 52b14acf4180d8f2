"""What Crafter looks like: its art, and the pictures of things on grounds that its picture ids stand for.

Materials fill their tile; creatures, plants, arrows and the player show the ground they stand on around them. A picture id is a
pair of a thing and its ground, and all pairs that occur have one. In another look six kinds look new; what lies beyond the
world's edge is plain grey in every look.
"""

import numpy as np

from protoalign.worlds import looks
from protoalign.worlds.crafter.names import CATEGORY_NAMES, FLIES_OVER, GRASS, MATERIALS, WALKABLE

ARROWS = ("arrow-left", "arrow-right", "arrow-up", "arrow-down")
# What a tile may show: a category, or past the last of them an arrow with its direction, since the category "arrow" has four
# pictures. The category itself is drawn as an arrow that flies up.
THINGS = (*CATEGORY_NAMES, *ARROWS)
CATEGORY_OF = np.array([CATEGORY_NAMES.index("arrow" if name in ARROWS else name) for name in THINGS], np.uint8)
KINDS = tuple(name for name in THINGS if name not in ("outside", "arrow"))  # that have a picture of their own
FILES = {"player-asleep": "player-sleep"}  # the original's names, where they differ
ART = looks.Art(
    kinds=KINDS,
    redrawn=("stone", "tree", "coal", "cow", "zombie", "skeleton"),
    drawings={
        "stone": "lllvdlll vvvvdvvv vvvvdvvv dddddddd dlllvvll dvvvvvvv dvvvvvvv dddddddd",  # violet bricks
        "tree": "kfkkfkkf kmkkmkkm kmmkmkmm kkmmmmmk kkkmmkkk fkkmmkkf mkkmmkkm mmmmmmmm",  # coral
        "coal": "iicccccc icrrrccc crwrrrcc crrrrrcc ccrrrccc cccccrrc ciccrwri iicccrrc",  # berries in ice
        "cow": "..rrrr.. .rwwrrr. rrwwrrrr rrrrrwwr ...ww... ...ww... ..wwww.. ........",  # toadstool
        "zombie": "........ ...yy... ..yyyy.. .ykyyky. .ykyyky. .yyyyyy. .yyooyy. .y.yy.y.",  # ghost
        "skeleton": "........ b......b bb.bb.bb bawbbwab baabbaab .b.bb.b. ...ww... ........",  # bat
    },
    palette={
        "v": (150, 62, 206), "l": (204, 132, 246), "d": (66, 18, 112), "k": (22, 14, 52), "m": (255, 62, 140),
        "f": (255, 196, 220), "c": (40, 214, 232), "i": (176, 250, 250), "r": (228, 30, 74), "w": (250, 246, 255),
        "y": (255, 232, 36), "o": (250, 150, 20), "b": (24, 24, 250), "a": (110, 120, 255),
    },
    solid=MATERIALS,
    salt=0xC4AF,
    files=FILES,
    plain={"outside": (127, 127, 127)},
    sharp=True,  # as the original does it
)  # fmt: skip

GROUNDS = {
    **{name: (i,) for i, name in enumerate(MATERIALS)},
    **dict.fromkeys(("plant", "plant-ripe"), (GRASS,)),
    **dict.fromkeys(("cow", "zombie", "skeleton"), WALKABLE),
    **dict.fromkeys(ARROWS, FLIES_OVER),
    **dict.fromkeys((name for name in THINGS if name.startswith("player")), WALKABLE),
}
PAIRS = np.array([(THINGS.index(name), ground) for name, grounds in GROUNDS.items() for ground in grounds])  # [ids, 2]
TRUTH = tuple(CATEGORY_NAMES[CATEGORY_OF[thing]] for thing, _ in PAIRS)  # what each id shows; all categories, in their order
ID_OF = np.zeros((len(THINGS), len(MATERIALS)), np.uint8)  # by thing and ground
for _id, (_thing, _) in reversed(list(enumerate(PAIRS))):
    ID_OF[_thing] = _id  # on any other ground, as on the first: the player on lava, who is dead
ID_OF[tuple(PAIRS.T)] = np.arange(len(PAIRS))
ID_OF[CATEGORY_NAMES.index("arrow")] = ID_OF[THINGS.index("arrow-up")]


def pictures(look: str, tile: int = 8) -> np.ndarray:
    """The look's picture of every id, [ids, tile, tile, 3] uint8."""
    return atlas(looks.load(look, ART, tile))[tuple(PAIRS.T)]


def atlas(sprites: looks.Sprites) -> np.ndarray:
    """Every thing on every ground, blended with the original's arithmetic: [things, materials, t, t, 3] uint8."""
    ground = np.stack([sprites[name][..., :3] for name in MATERIALS])
    tiles = np.empty((len(THINGS), *ground.shape), np.uint8)
    for i, name in enumerate(THINGS):
        sprite = sprites["arrow-up" if name == "arrow" else name]
        if name in MATERIALS:
            tiles[i] = sprite[..., :3]
            continue
        opacity = sprite[..., 3:].astype(np.float32) / 255
        colour = sprite[..., :3].astype(np.float32) / 255
        blended = opacity * colour + (1 - opacity) * (ground.astype(np.float32) / 255)
        tiles[i] = (255 * blended).astype(np.uint8)  # cut off, not rounded: the original's pixels, bit by bit
    return tiles
