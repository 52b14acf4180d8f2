"""Our Crafter against the original: worlds, the player's rules in lockstep, creatures in distribution."""

from collections import Counter
from functools import partial

import crafter
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from crafter import constants, engine, objects, worldgen

from protoalign import UserError
from protoalign.worlds import looks
from protoalign.worlds.crafter import art, terrain
from protoalign.worlds.crafter.creatures import creatures_act, stock_up
from protoalign.worlds.crafter.names import (
    ACHIEVEMENTS,
    ACTION_NAMES,
    ARROW,
    CATEGORY_NAMES,
    COW,
    FURNACE,
    GRASS,
    ITEMS,
    LAVA,
    MATERIALS,
    PATH,
    PLANT,
    SAND,
    SKELETON,
    STONE,
    TABLE,
    TREE,
    WATER,
    ZOMBIE,
)
from protoalign.worlds.crafter.original import CrafterEnv
from protoalign.worlds.crafter.state import EDGE, SIDE, SLOTS, begin, prepare, space_of
from protoalign.worlds.crafter.world import DRAWS, Crafter, observe, report, transition

FEW, MANY = 16, 2048  # games in every call, so that a function is compiled once
step, see, act, stock = (jax.jit(f) for f in (transition, observe, creatures_act, stock_up))
KINDS = {COW: objects.Cow, ZOMBIE: objects.Zombie, SKELETON: objects.Skeleton, PLANT: objects.Plant, ARROW: objects.Arrow}
NEVER = np.uint32(2**32 - 1)  # the random word with which no creature comes or goes


@partial(jax.jit, static_argnums=2)
def _begin(ground, creatures, number):
    return begin(*jax.tree.map(lambda x: jnp.repeat(x, number, 0), (ground, creatures)))


def start(material, creature=None, number=FEW):
    """The same game many times, on materials [64, 64] with creatures [64, 64]."""
    creature = np.zeros_like(material) if creature is None else creature
    return _begin(*prepare(material[None], creature[None]), number)


@pytest.fixture(scope="module")
def world():
    return Crafter(worlds=16, first=1_000_000)


def test_names_are_the_originals():
    assert list(MATERIALS[1:]) == constants.materials
    assert list(ITEMS) == list(constants.items)
    assert [name.replace("-", "_") for name in ACTION_NAMES] == constants.actions
    assert list(ACHIEVEMENTS) == constants.achievements


@pytest.mark.parametrize("seed", [3, 99, 12345])
def test_worlds_are_the_originals(seed):
    world = engine.World((64, 64), constants.materials, (12, 12))
    world.reset(seed=seed)
    player = objects.Player(world, (32, 32))
    world.add(player)
    worldgen.generate_world(world, player)
    creatures = np.zeros((64, 64), int)
    for thing in world.objects[1:]:
        creatures[tuple(thing.pos)] = next(kind for kind, cls in KINDS.items() if type(thing) is cls)
    found = terrain.generate(seed)
    assert (found.material == world._mat_map.T).all()
    assert (found.creature == creatures.T).all()


def test_a_damaged_pool_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = terrain.pool(7, 2)
    (path,) = (tmp_path / "protoalign").iterdir()
    path.write_bytes(path.read_bytes()[:5000])
    again = terrain.pool(7, 2)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (again.material[1] == terrain.generate(8).material).all()


class Dice:
    """Random numbers of the original, as we want them."""

    value = 0.5

    def uniform(self):
        return self.value


def game(material: np.ndarray, items: dict[str, int] | None = None):
    """The same game without creatures twice: the original and ours."""
    env = CrafterEnv(obs="categories")
    env.reset(seed=0, options={"world": material})
    dice = Dice()
    env.game._world.random = env.game._player.random = dice
    env.game._player.inventory.update(items or {})
    return env, dice, start(material)._replace(items=np.array(FEW * [list(env.game._player.inventory.values())], np.int32))


def lockstep(env, dice, state, actions, rng):
    """Play in both; complains at the first difference. What was achieved."""
    achieved = set()
    for time, action in enumerate(actions):
        dice.value = float(rng.random())
        words = np.full((FEW, DRAWS), NEVER)
        words[:, 0] = int(dice.value * 2**32)
        seen, reward, terminated, _, info = env.step(int(action))
        state, given = step(state, np.full(FEW, action, np.int32), words)
        view, given, unlocked = jax.device_get((see(state), given, state.unlocked))
        where = f"step {time}, {ACTION_NAMES[action]}"
        assert (view.tiles[0] == env.ids()).all(), where
        np.testing.assert_allclose(view.numbers[0], seen["numbers"], atol=1e-5, err_msg=where)
        assert abs(float(given.reward[0]) - reward) < 1e-5, where
        assert bool(given.terminated[0]) == terminated, where
        achieved |= {name for name, count in info["achievements"].items() if count}
        assert achieved == {ACHIEVEMENTS[i] for i in np.flatnonzero(unlocked[0])}, where
        if terminated:
            break
    return time + 1, achieved


def wander(rng, steps, sleepy=0.0):
    """Mostly walking and doing."""
    u = rng.random(steps)
    any_ = rng.integers(0, 17, steps)
    actions = np.select([u < 0.35, u < 0.75], [5, rng.integers(1, 5, steps)], any_)
    return np.where(rng.random(steps) < sleepy, 6, actions)


def test_lockstep_with_the_original():
    """The same map and actions, no creatures: the same tiles, numbers and rewards, by every rule of the player's."""
    rng = np.random.default_rng(0)
    steps, achieved = 0, set()
    for seed in range(4):  # real worlds
        number, found = lockstep(*game(terrain.generate(seed).material), wander(rng, 300), rng)
        steps, achieved = steps + number, achieved | found
    rich = {"sapling": 3, "wood": 9, "stone": 9, "coal": 9, "iron": 9, "wood_pickaxe": 1, "stone_pickaxe": 1, "iron_pickaxe": 1}
    for trial in range(4):  # worlds with everything everywhere, and the means to use it
        kinds = rng.choice(
            np.arange(1, 13), (64, 64), p=[0.06, *[0.2] * 2, 0.2, 0.1, 0.06, 0.004, 0.05, 0.04, 0.04, 0.026, 0.02]
        )
        items = rich if trial < 3 else {"energy": 3, "wood": 5}
        number, found = lockstep(*game(kinds.astype(np.uint8), items), wander(rng, 300, 0.4 * (trial == 3)), rng)
        steps, achieved = steps + number, achieved | found
    tools = [8, 1, 9, *range(11, 17)]  # at a table and a furnace
    field = np.full((64, 64), GRASS, np.uint8)
    number, found = lockstep(*game(field, rich), tools, rng)
    steps, achieved = steps + number, achieved | found
    assert steps > 1500
    alone = {name for name in ACHIEVEMENTS if not name.startswith(("defeat", "eat"))}
    assert achieved >= alone - {"wake_up"}


def test_sleep_plants_and_edges_in_lockstep():
    rng = np.random.default_rng(1)
    field = np.full((64, 64), GRASS, np.uint8)
    # Asleep until rested, then awake.
    _, achieved = lockstep(*game(field, {"energy": 8}), [6] * 30, rng)
    assert "wake_up" in achieved
    # A plant is placed, ripens and is eaten.
    env, dice, state = game(field, {"sapling": 1})
    _, achieved = lockstep(env, dice, state, [10, *[0] * 302, 5, 5], rng)
    assert {"place_plant", "eat_plant"} <= achieved
    # To each edge of the world and along it, with a table: nothing can be made at the upper and left edges.
    for direction in (1, 2, 3, 4):
        env, dice, state = game(field, {"wood": 9})
        lockstep(env, dice, state, [direction] * 34 + [8, 11, 14, 3, 3, 1, 1, 8, 11], rng)
    # Into lava.
    field[32, 34] = LAVA
    number, _ = lockstep(*game(field), [2, 2, 0], rng)
    assert number == 2


# -- creatures -----------------------------------------------------------------------------------------------------------


def arena(*blocks: tuple[int, int, int]) -> np.ndarray:
    """A field of paths, with blocks: row and column from the player's place, and material."""
    field = np.full((64, 64), PATH, np.uint8)
    for row, col, material in blocks:
        field[32 + row, 32 + col] = material
    return field


def tile_of(row, col):
    """The tile of a map, of an offset from the player's place."""
    return (32 + EDGE + int(row)) * SIDE + 32 + EDGE + int(col)


def originals_turn(field, kind, offset, clock, asleep):
    """What a creature does in 2,000 turns of the original: its tile, its clock, the player's health, the tile of an arrow."""
    world = engine.World((64, 64), constants.materials, (12, 12))
    world.random = np.random.RandomState(0)
    for _ in range(2000):
        world._objects = [None]
        world._chunks.clear()
        world._obj_map[:], world._mat_map[:] = 0, field.T
        player = objects.Player(world, (32, 32))
        player.sleeping = asleep
        world.add(player)
        spot = (32 + offset[1], 32 + offset[0])
        if kind == ARROW:
            thing = objects.Arrow(world, spot, [(-1, 0), (1, 0), (0, -1), (0, 1)][clock])
        else:
            thing = KINDS[kind](world, spot, *([player] if kind != COW else []))
            if kind in (ZOMBIE, SKELETON):
                setattr(thing, "cooldown" if kind == ZOMBIE else "reload", clock)
        world.add(thing)
        thing.update()
        arrows = [tile_of(*(o.pos[::-1] - 32)) for o in world.objects if isinstance(o, objects.Arrow) and o is not thing]
        after = {ZOMBIE: "cooldown", SKELETON: "reload"}.get(kind)
        place = 0 if thing.removed else tile_of(*(thing.pos[::-1] - 32))
        yield place, getattr(thing, after) if after else 0, player.health, arrows[0] if arrows else 0


def our_turn(field, kind, offset, clock, asleep):
    """The same in 4,096 turns of ours."""
    creature = np.zeros((64, 64), np.uint8)
    creature[32 + offset[0], 32 + offset[1]] = kind
    state = start(field, creature, MANY)
    state = state._replace(
        asleep=state.asleep | asleep, creatures=state.creatures._replace(clock=state.creatures.clock + clock)
    )
    for i in range(2):
        words = np.random.default_rng(i).integers(0, 2**32, (MANY, 24, 3), np.uint32)
        after, arrows = act(state, words)
        who = after.creatures
        clocks = who.clock[:, 0] * (kind in (ZOMBIE, SKELETON))
        shots = jnp.where(arrows.wanted[:, 0], arrows.tile[:, 0], 0)
        yield from zip(*(x.tolist() for x in (who.tile[:, 0], clocks, after.items[:, 0], shots)), strict=True)


@pytest.mark.parametrize(
    ("kind", "offset", "clock", "asleep", "blocks"),
    [
        (COW, (2, 1), 0, False, ()),
        (COW, (2, 1), 0, False, ((2, 2, WATER), (3, 1, STONE))),
        (ZOMBIE, (3, 1), 0, False, ()),
        (ZOMBIE, (2, 2), 3, False, ()),
        (ZOMBIE, (0, 1), 0, False, ()),
        (ZOMBIE, (0, 2), 0, True, ()),
        (ZOMBIE, (1, 0), 2, False, ()),
        (ZOMBIE, (5, 6), 0, False, ()),
        (ZOMBIE, (0, 3), 0, False, ((0, 2, TREE),)),
        (SKELETON, (2, 1), 0, False, ()),
        (SKELETON, (2, 0), 0, False, ((3, 0, STONE),)),
        (SKELETON, (4, 1), 0, False, ()),
        (SKELETON, (4, 1), 3, False, ()),
        (SKELETON, (4, 4), 0, False, ()),
        (SKELETON, (8, 5), 0, False, ()),
        (SKELETON, (0, 4), 1, False, ((0, 3, TABLE),)),
        (ARROW, (0, 3), 0, False, ()),
        (ARROW, (0, 1), 0, False, ()),
        (ARROW, (2, 0), 3, False, ((3, 0, WATER),)),
        (ARROW, (2, 0), 1, False, ((2, 1, FURNACE),)),
    ],
)
def test_creatures_do_what_the_originals_do(kind, offset, clock, asleep, blocks):
    """Every outcome of a turn is as frequent in both, within five standard errors."""
    theirs, ours = (Counter(turn(arena(*blocks), kind, offset, clock, asleep)) for turn in (originals_turn, our_turn))
    for outcome in theirs | ours:
        a, b = theirs[outcome] / theirs.total(), ours[outcome] / ours.total()
        error = (max(a, b) * (1 - min(a, b)) * (1 / theirs.total() + 1 / ours.total())) ** 0.5
        assert abs(a - b) <= 5 * error, f"{outcome}: {a:.3f} there, {b:.3f} here"


def test_plants_are_eaten_and_arrows_hurt():
    meadow, creature, words = (
        np.full((64, 64), GRASS, np.uint8),
        np.zeros((64, 64), np.uint8),
        np.zeros((MANY, 24, 3), np.uint32),
    )
    creature[32, 35], creature[32, 36] = PLANT, COW
    after, _ = act(start(meadow, creature, MANY), words)
    assert after.creatures.tile[0, 0] == 0, "a cow beside it eats a plant"
    creature[32, 35], creature[32, 36] = ARROW, ZOMBIE
    state = start(meadow, creature, MANY)
    after, _ = act(state._replace(creatures=state.creatures._replace(clock=state.creatures.clock.at[:, 0].set(1))), words)
    assert after.creatures.tile[0, 0] == 0
    assert after.creatures.health[0, 1] == 3, "an arrow takes two of a zombie's five"


@pytest.mark.parametrize("time", [60, 210])  # noon and midnight
def test_creatures_come_and_go_as_in_the_original(time):
    """Numbers that come to and go from the world, by kind, within five standard errors; none come too near."""
    times = 60
    terrain_ = terrain.generate(5)
    theirs: dict[int, list[tuple[int, int]]] = {kind: [] for kind in (COW, ZOMBIE, SKELETON)}
    env = crafter.Env(seed=0)
    env._step = time
    rng = np.random.RandomState(1)
    for _ in range(times):
        env._world.reset(seed=0)
        env._update_time()
        env._world._mat_map[:] = terrain_.material.T
        env._player = objects.Player(env._world, (32, 32))
        env._world.add(env._player)
        for row, col in zip(*np.nonzero(terrain_.creature), strict=True):
            kind = int(terrain_.creature[row, col])
            env._world.add(KINDS[kind](env._world, (col, row), *([env._player] if kind != COW else [])))
        env._world.random = rng
        before = {kind: [o for o in env._world.objects if type(o) is KINDS[kind]] for kind in theirs}
        for chunk, things in env._world.chunks.items():
            env._balance_chunk(chunk, things)
        for kind in theirs:
            now = [o for o in env._world.objects if type(o) is KINDS[kind]]
            new = [o for o in now if o not in before[kind]]
            theirs[kind].append((len(new), len([o for o in before[kind] if o.removed])))

    games = start(*terrain_, MANY)
    creatures, ground = jax.device_get((games.creatures, games.ground[0]))
    come, gone = {kind: np.zeros(MANY) for kind in theirs}, {kind: np.zeros(MANY) for kind in theirs}
    for phase in range(10):
        # Each chunk once: the phase decides which, the light hardly changes within ten steps.
        state = games._replace(time=games.time + time - time % 10 + phase)
        after, born = stock(state, np.random.default_rng(phase).integers(0, 2**32, (MANY, 4, 7), np.uint32))
        tile, born = jax.device_get((after.creatures.tile, born))
        for kind in theirs:
            new = born.wanted & (born.kind == kind)
            come[kind] += new.sum(1)
            gone[kind] += ((creatures.kind == kind) & (creatures.tile > 0) & (tile == 0)).sum(1)
            far = abs(born.tile // SIDE - EDGE - 32) + abs(born.tile % SIDE - EDGE - 32)
            assert far[new].min(initial=99) >= {ZOMBIE: 6, SKELETON: 7, COW: 5}[kind]
            assert (ground[born.tile[new]] == (PATH if kind == SKELETON else GRASS)).all()
    for kind, rows in theirs.items():
        for label, there, here in (("come", [r[0] for r in rows], come[kind]), ("go", [r[1] for r in rows], gone[kind])):
            error = (np.var(there) / times + np.var(here) / MANY) ** 0.5
            assert abs(np.mean(there) - np.mean(here)) <= 5 * error + 0.02, f"{CATEGORY_NAMES[kind]} {label}"
    if time == 210:
        assert come[ZOMBIE].mean() > 1, "nights bring zombies"
    else:
        assert gone[ZOMBIE].mean() > 1, "days take them away"


def one_chunk(kind, ground, space, number, calls, time):
    """After its turn, the first chunk of many games, far from the player, with `space` tiles of a ground and some creatures.

    The tiles that creatures came to, the tiles of the ground, and which of the creatures left [games, number].
    """
    material, creature = np.full((64, 64), WATER, np.uint8), np.zeros((64, 64), np.uint8)
    places = np.random.RandomState(space).permutation(144)[:space]
    rows, cols = np.divmod(places, 12)
    material[rows, cols] = ground
    creature[rows[:number], cols[:number]] = kind
    state = start(material, creature, MANY)
    state = state._replace(time=state.time + time, visited=state.visited | True)
    came, left = [], []
    for i in range(calls):
        after, born = stock(state, np.random.default_rng(i).integers(0, 2**32, (MANY, 4, 7), np.uint32))
        tile, born = jax.device_get((after.creatures.tile, born))
        new = born.wanted & (born.kind == kind)
        assert new.sum(1).max() <= 1
        came.append(born.tile[new])
        left.append(tile[:, :number] == 0)
    return np.concatenate(came), (rows + EDGE) * SIDE + cols + EDGE, np.concatenate(left)


@pytest.mark.parametrize(
    ("kind", "ground", "space", "time", "chance"),
    [(ZOMBIE, GRASS, 60, 210, 0.3), (SKELETON, PATH, 6, 60, 0.1), (SKELETON, PATH, 40, 60, 0.1), (COW, GRASS, 100, 60, 0.01)],
)
def test_creatures_come_to_any_tile_with_the_originals_chance(kind, ground, space, time, chance):
    came, tiles, left = one_chunk(kind, ground, space, 0, 12, time)
    games = len(left)
    assert abs(len(came) / games - chance) <= 5 * (chance * (1 - chance) / games) ** 0.5
    share = np.array([(came == tile).sum() for tile in tiles])
    assert share.sum() == len(came)
    assert abs(share - len(came) / space).max() <= 5 * (len(came) / space) ** 0.5
    few = {ZOMBIE: 49, SKELETON: 5, COW: 29}[kind]
    assert not len(one_chunk(kind, ground, few, 0, 1, time)[0]), "there must be room for them"


@pytest.mark.parametrize(
    ("kind", "ground", "time", "chance"), [(ZOMBIE, GRASS, 60, 0.4), (SKELETON, PATH, 60, 0.1), (COW, GRASS, 60, 0.1)]
)
def test_any_creature_goes_with_the_originals_chance(kind, ground, time, chance):
    number = 4
    _, _, left = one_chunk(kind, ground, 100, number, 12, time)
    assert left.sum(1).max() <= 1
    assert abs(left.any(1).mean() - chance) <= 5 * (chance * (1 - chance) / len(left)) ** 0.5
    each = chance / number
    assert abs(left.mean(0) - each).max() <= 5 * (each * (1 - each) / len(left)) ** 0.5


def test_games_stay_consistent(world):
    """Nobody stands where nobody can, no two on one tile, and what is counted along the way is right."""
    state = eqx.filter_jit(world.reset)(jax.random.key(0), FEW)
    rng, dead = np.random.default_rng(0), np.zeros(FEW, bool)
    for _ in range(200):
        words = rng.integers(0, 2**32, (FEW, DRAWS), np.uint32)
        state, given = step(state, rng.integers(0, 17, FEW, np.int32), words)
        assert np.isfinite(given.reward).all()
        dead |= np.asarray(given.terminated)
    assert dead.any()
    state = jax.device_get(state)
    assert (np.asarray(space_of(jnp.asarray(state.ground))) == state.space).all()
    who, shared = state.creatures, 0
    for i in range(FEW):
        there = who.tile[i] > 0
        tiles = who.tile[i][there]
        shared += len(tiles) - len(set(tiles))
        assert state.row[i] * SIDE + state.col[i] not in tiles
        ground = state.ground[i][tiles]
        walkers = (who.kind[i][there] >= COW) & (who.kind[i][there] <= SKELETON)
        assert np.isin(ground[walkers], [GRASS, PATH, SAND]).all()
        assert (ground[who.kind[i][there] == PLANT] == GRASS).all()
        assert there.sum() < SLOTS
    assert ((state.items >= 0) & (state.items <= 9)).all()
    # Where more are near than act in a step, those left out are not in the others' way: as good as never.
    assert shared < 0.001 * (who.tile > 0).sum()
    summary = world.summary(state)
    assert summary["achievements"]["collect_drink"] == round(state.unlocked[:, ACHIEVEMENTS.index("collect_drink")].mean(), 4)
    assert 0 < summary["score"] < 100


def test_scores():
    assert report(np.zeros(22))["score"] == 0
    assert report(np.ones(22))["score"] == 100
    assert report(np.eye(22)[3])["score"] == pytest.approx(101 ** (1 / 22) - 1, abs=1e-3)


# -- what is seen, and the world as a whole -----------------------------------------------------------------------------------


def test_what_stands_around_is_seen():
    """Every kind of creature on every ground, and arrows in their directions."""
    shown = [(kind, ground) for kind in (COW, ZOMBIE, SKELETON) for ground in (GRASS, SAND, PATH)]
    shown += [(PLANT, GRASS), (ARROW, WATER), (ARROW, LAVA), (ARROW, PATH)]
    field, creature = np.full((64, 64), STONE, np.uint8), np.zeros((64, 64), np.uint8)
    spots = [(row, col) for row in (29, 30, 34, 35) for col in (28, 30, 34, 36)][: len(shown)]
    for (row, col), (kind, ground) in zip(spots, shown, strict=True):
        field[row, col], creature[row, col] = ground, kind
    state = start(field, creature)
    who = state.creatures
    turns = jnp.arange(FEW)[:, None] % 4  # directions of arrows; plants are ripe in every second game
    clock = jnp.where(who.kind == ARROW, turns, jnp.where(who.kind == PLANT, 301 * (turns % 2), 0))
    tiles = np.asarray(see(state._replace(creatures=who._replace(clock=clock))).tiles)
    for (row, col), (kind, ground) in zip(spots, shown, strict=True):
        for game in range(4):
            name = CATEGORY_NAMES[kind]
            name = art.ARROWS[game] if kind == ARROW else "plant-ripe" if kind == PLANT and game % 2 else name
            expected = art.THINGS.index(name), ground
            assert tuple(art.PAIRS[tiles[game, row - 29, col - 28]]) == expected, name
    assert (tiles == STONE).sum() == FEW * (63 - 1 - len(shown))
    assert art.TRUTH[tiles[0, 3, 4]] == "player-down"


def test_the_world_is_told(world):
    spec = world.spec
    assert (spec.name, spec.grid, spec.agent, spec.max_steps, len(spec.actions)) == ("crafter", (7, 9), (3, 4), 10_000, 17)
    assert len(spec.truth) == len(world.pictures("target")) == 59
    assert len(spec.numbers) == 17


def test_our_world_makes_the_original_game():
    world = Crafter(worlds=1, first=1_000_000, tile=10)
    env = world.make("target", length=5)
    assert isinstance(env, CrafterEnv)
    observation, _ = env.reset(seed=1)
    np.testing.assert_array_equal(observation["view"], looks.render(world.pictures("target"), env.ids()))
    assert [env.step(0)[3] for _ in range(5)] == 4 * [False] + [True]


def test_starts_differ_by_key_and_repeat(world):
    reset = eqx.filter_jit(world.reset)
    one, again, other = (reset(jax.random.key(k), FEW).ground for k in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


def test_fresh_maps_are_others(monkeypatch, world):
    monkeypatch.setattr("protoalign.worlds.crafter.world.FRESH_WORLDS", 16)
    fresh = Crafter(worlds=2, first=7, tile=4).fresh()
    assert fresh.tile == 4
    np.testing.assert_array_equal(fresh.ground, world.ground)
    assert fresh.spec == world.spec


@pytest.mark.parametrize("options", [{"worlds": 0}, {"worlds": 10**9}, {"first": -1}, {"first": 2**32}, {"tile": 0}])
def test_wrong_options(options):
    with pytest.raises(UserError):
        Crafter(**options)
