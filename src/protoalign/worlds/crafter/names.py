"""What there is in Crafter, by name and number, and what is made of what (crafter 1.8.3)."""

import numpy as np

MATERIALS = (
    "outside",  # what lies beyond the world's edge
    "water",
    "grass",
    "stone",
    "path",
    "sand",
    "tree",
    "lava",
    "coal",
    "iron",
    "diamond",
    "table",
    "furnace",
)
CATEGORY_NAMES = (
    *MATERIALS,  # numbered as in the original's material map
    "plant",
    "plant-ripe",
    "cow",
    "zombie",
    "skeleton",
    "arrow",
    "player-left",
    "player-right",
    "player-up",
    "player-down",
    "player-asleep",
)
ITEMS = (
    "health",
    "food",
    "drink",
    "energy",
    "sapling",
    "wood",
    "stone",
    "coal",
    "iron",
    "diamond",
    "wood_pickaxe",
    "stone_pickaxe",
    "iron_pickaxe",
    "wood_sword",
    "stone_sword",
    "iron_sword",
)
NUMBER_NAMES = (*ITEMS, "daylight")
VIEW = (7, 9)  # rows and columns; the player stands in the middle
ACTION_NAMES = (
    "noop",
    "move-left",
    "move-right",
    "move-up",
    "move-down",
    "do",
    "sleep",
    "place-stone",
    "place-table",
    "place-furnace",
    "place-plant",
    "make-wood-pickaxe",
    "make-stone-pickaxe",
    "make-iron-pickaxe",
    "make-wood-sword",
    "make-stone-sword",
    "make-iron-sword",
)
ACHIEVEMENTS = (
    "collect_coal",
    "collect_diamond",
    "collect_drink",
    "collect_iron",
    "collect_sapling",
    "collect_stone",
    "collect_wood",
    "defeat_skeleton",
    "defeat_zombie",
    "eat_cow",
    "eat_plant",
    "make_iron_pickaxe",
    "make_iron_sword",
    "make_stone_pickaxe",
    "make_stone_sword",
    "make_wood_pickaxe",
    "make_wood_sword",
    "place_furnace",
    "place_plant",
    "place_stone",
    "place_table",
    "wake_up",
)
OUTSIDE, WATER, GRASS, STONE, PATH, SAND, TREE, LAVA, COAL, IRON, DIAMOND, TABLE, FURNACE = range(13)
PLANT, RIPE, COW, ZOMBIE, SKELETON, ARROW, PLAYER, ASLEEP = 13, 14, 15, 16, 17, 18, 19, 23
HEALTH, FOOD, DRINK, ENERGY, SAPLING = range(5)
SWORDS = slice(13, 16)
MOST = 9  # of any item
NOOP, MOVE, DO, SLEEP, PLACE, MAKE = 0, 1, 5, 6, 7, 11  # first action of each sort

AREA = 64  # rows and columns of a world
RIPENS = 300  # steps
TIME_LIMIT = 10_000


def _items(**amounts: int) -> np.ndarray:
    return np.array([amounts.get(name, 0) for name in ITEMS], np.int32)


# What is needed, what is gained and what is left of a material that is collected; by material.
NEEDS = np.zeros((13, 16), np.int32)
GAINS = np.zeros((13, 16), np.int32)
LEAVES = np.arange(13, dtype=np.uint8)
COLLECTED = np.zeros((13, 22), bool)
for _material, _need, _gain, _leaves in (
    (TREE, {}, "wood", GRASS),
    (STONE, {"wood_pickaxe": 1}, "stone", PATH),
    (COAL, {"wood_pickaxe": 1}, "coal", PATH),
    (IRON, {"stone_pickaxe": 1}, "iron", PATH),
    (DIAMOND, {"iron_pickaxe": 1}, "diamond", PATH),
    (WATER, {}, "drink", WATER),
    (GRASS, {}, "sapling", GRASS),
):
    NEEDS[_material], GAINS[_material], LEAVES[_material] = _items(**_need), _items(**{_gain: 1}), _leaves
    COLLECTED[_material, ACHIEVEMENTS.index(f"collect_{_gain}")] = True
SAPLING_CHANCE = 0.1

# What is used up, by action (place-stone to make-iron-sword), what results, and where.
USES = np.stack(
    [
        *(_items(stone=1), _items(wood=2), _items(stone=4), _items(sapling=1)),
        *(2 * [_items(wood=1), _items(wood=1, stone=1), _items(wood=1, coal=1, iron=1)]),
    ]
)
BUILT = np.array([STONE, TABLE, FURNACE, PLANT], np.uint8)
WHERE = np.zeros((4, 13), bool)
WHERE[0, [GRASS, SAND, PATH, WATER, LAVA]] = WHERE[1:3, [[GRASS], [SAND], [PATH]]] = WHERE[3, GRASS] = True
FURNACE_NEEDED = np.array([False, False, True] * 2)  # for iron tools
ACHIEVED = np.zeros((10, 22), bool)  # by action, from place-stone on
for _i, _name in enumerate(ACTION_NAMES[PLACE:]):
    ACHIEVED[_i, ACHIEVEMENTS.index(_name.replace("-", "_"))] = True

WALKABLE = (GRASS, SAND, PATH)
FLIES_OVER = (*WALKABLE, WATER, LAVA)
