"""Our Crafter against the original: worlds, the player's rules in lockstep, creatures in distribution."""

import crafter
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from crafter import constants, engine, objects, worldgen

from protoalign.envs.crafter import terrain
from protoalign.envs.crafter.creatures import creatures_act, stock_up
from protoalign.envs.crafter.names import (
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
    SKELETON,
    STONE,
    TABLE,
    TREE,
    WATER,
    ZOMBIE,
)
from protoalign.envs.crafter.original import CrafterEnv
from protoalign.envs.crafter.state import EDGE, SIDE, SLOTS, begin, prepare, space_of
from protoalign.envs.crafter.world import DRAWS, Crafter, observe, transition

step = jax.jit(transition, static_argnums=3)
see = jax.jit(observe)
KINDS = {COW: objects.Cow, ZOMBIE: objects.Zombie, SKELETON: objects.Skeleton, PLANT: objects.Plant, ARROW: objects.Arrow}


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
    state = begin(*jax.tree.map(jnp.asarray, prepare(material[None], np.zeros_like(material)[None])))
    return env, dice, state._replace(items=jnp.array([list(env.game._player.inventory.values())]))


def lockstep(env, dice, state, actions, rng):
    """Play in both; complains at the first difference. What was achieved."""
    achieved = set()
    for time, action in enumerate(actions):
        dice.value = float(rng.random())
        words = np.zeros((1, DRAWS), np.uint32)
        words[0, 0] = int(dice.value * 2**32)
        seen, reward, terminated, _, info = env.step(int(action))
        state, given = step(state, jnp.array([action]), words, False)
        view = see(state)
        where = f"step {time}, {ACTION_NAMES[action]}"
        assert (np.asarray(view.tiles[0]) == seen["view"]).all(), where
        np.testing.assert_allclose(np.asarray(view.numbers[0]), seen["numbers"], atol=1e-5, err_msg=where)
        assert abs(float(given.reward[0]) - reward) < 1e-5, where
        assert bool(given.terminated[0]) == terminated, where
        achieved |= {name for name, count in info["achievements"].items() if count}
        assert achieved == {ACHIEVEMENTS[i] for i in np.flatnonzero(state.unlocked[0])}, where
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


def originals_turn(field, kind, offset, clock, asleep, times):
    """What a creature does in a turn of the original, `times` times: where it is, its clock, the player's health, arrows."""
    rng = np.random.RandomState(0)
    found = []
    for _ in range(times):
        world = engine.World((64, 64), constants.materials, (12, 12))
        world._mat_map[:] = field.T
        world.random = rng
        player = objects.Player(world, (32, 32))
        player.sleeping = asleep
        world.add(player)
        spot = (32 + offset[1], 32 + offset[0])
        if kind == ARROW:
            facing = [(-1, 0), (1, 0), (0, -1), (0, 1)][clock]
            thing = objects.Arrow(world, spot, facing)
        else:
            thing = KINDS[kind](world, spot, *([player] if kind != COW and kind != PLANT else []))
            if kind in (ZOMBIE, SKELETON):
                setattr(thing, "cooldown" if kind == ZOMBIE else "reload", clock)
        world.add(thing)
        thing.update()
        arrows = [tuple(o.pos[::-1] - 32) for o in world.objects if isinstance(o, objects.Arrow) and o is not thing]
        after = {ZOMBIE: "cooldown", SKELETON: "reload"}.get(kind)
        place = None if thing.removed else tuple(int(x) for x in thing.pos[::-1] - 32)
        shot = tuple(int(x) for x in arrows[0]) if arrows else None
        found.append((place, getattr(thing, after) if after else 0, player.health, shot))
    return found


def our_turn(field, kind, offset, clock, asleep, times):
    creature = np.zeros((64, 64), np.uint8)
    creature[32 + offset[0], 32 + offset[1]] = kind
    ground, creatures = prepare(field[None], creature[None])
    state = begin(*(jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x), times, 0), (ground, creatures))))
    state = state._replace(
        asleep=state.asleep | asleep,
        creatures=state.creatures._replace(clock=state.creatures.clock + clock),
    )
    words = jax.random.bits(jax.random.key(0), (times, 24, 3))
    state, arrows = jax.device_get(jax.jit(creatures_act)(state, words))
    found = []
    for tile, after, health, wanted, shot in zip(
        state.creatures.tile[:, 0],
        state.creatures.clock[:, 0],
        state.items[:, 0],
        arrows.wanted[:, 0],
        arrows.tile[:, 0],
        strict=True,
    ):
        place = (int(tile) // SIDE - EDGE - 32, int(tile) % SIDE - EDGE - 32) if tile else None
        arrow = (int(shot) // SIDE - EDGE - 32, int(shot) % SIDE - EDGE - 32) if wanted else None
        found.append((place, int(after) if kind in (ZOMBIE, SKELETON) else 0, int(health), arrow))
    return found


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
    field, times = arena(*blocks), 3000
    theirs, ours = (turn(field, kind, offset, clock, asleep, times) for turn in (originals_turn, our_turn))
    outcomes = set(theirs) | set(ours)
    for outcome in outcomes:
        a, b = theirs.count(outcome) / times, ours.count(outcome) / times
        error = (2 * max(a, b) * (1 - min(a, b)) / times) ** 0.5
        assert abs(a - b) <= 5 * error, f"{outcome}: {a:.3f} there, {b:.3f} here"


def test_plants_are_eaten_and_arrows_hurt():
    creature = np.zeros((64, 64), np.uint8)
    creature[32, 35], creature[32, 36] = PLANT, COW
    state = begin(*jax.tree.map(jnp.asarray, prepare(np.full((1, 64, 64), GRASS, np.uint8), creature[None])))
    after, _ = creatures_act(state, jnp.zeros((1, 24, 3), jnp.uint32))
    assert after.creatures.tile[0, 0] == 0, "a cow beside it eats a plant"
    creature[32, 36], creature[32, 34] = ZOMBIE, 0
    creature[32, 35] = ARROW
    state = begin(*jax.tree.map(jnp.asarray, prepare(np.full((1, 64, 64), GRASS, np.uint8), creature[None])))
    state = state._replace(creatures=state.creatures._replace(clock=state.creatures.clock.at[0, 0].set(1)))
    after, _ = creatures_act(state, jnp.zeros((1, 24, 3), jnp.uint32))
    assert after.creatures.tile[0, 0] == 0
    assert after.creatures.health[0, 1] == 3, "an arrow takes two of a zombie's five"


@pytest.mark.parametrize("time", [60, 210])  # noon and midnight
def test_creatures_come_and_go_as_in_the_original(time):
    """Numbers that come to and go from the world, by kind, within five standard errors; none come too near."""
    times, seed = 60, 5
    world = terrain.generate(seed)
    rng = np.random.RandomState(1)
    theirs: dict[int, list[tuple[int, int]]] = {kind: [] for kind in (COW, ZOMBIE, SKELETON)}
    for _ in range(times):
        env = crafter.Env(seed=0)
        env._step = time
        env._world.reset(seed=0)
        env._update_time()
        env._world._mat_map[:] = world.material.T
        env._player = objects.Player(env._world, (32, 32))
        env._world.add(env._player)
        for row, col in zip(*np.nonzero(world.creature), strict=True):
            kind = int(world.creature[row, col])
            env._world.add(KINDS[kind](env._world, (col, row), *([env._player] if kind != COW else [])))
        env._world.random = rng
        before = {kind: [o for o in env._world.objects if type(o) is KINDS[kind]] for kind in theirs}
        for chunk, things in env._world.chunks.items():
            env._balance_chunk(chunk, things)
        for kind in theirs:
            now = [o for o in env._world.objects if type(o) is KINDS[kind]]
            new = [o for o in now if o not in before[kind]]
            theirs[kind].append((len(new), len([o for o in before[kind] if o.removed])))

    games = 512
    ground, creatures = prepare(*(x[None] for x in world))
    start = begin(*jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x), games, 0), (ground, creatures)))
    come, gone = {kind: np.zeros(games) for kind in theirs}, {kind: np.zeros(games) for kind in theirs}
    for phase in range(10):
        # Each chunk once: the phase decides which, the light hardly changes within ten steps.
        state = start._replace(time=start.time + time - time % 10 + phase)
        words = jax.random.bits(jax.random.key(phase), (games, 4, 7))
        after, born = jax.device_get(jax.jit(stock_up)(state, words))
        for kind in theirs:
            new = born.wanted & (born.kind == kind)
            come[kind] += new.sum(1)
            gone[kind] += (
                (np.asarray(creatures.kind) == kind) & (np.asarray(creatures.tile) > 0) & (after.creatures.tile == 0)
            ).sum(1)
            far = abs(born.tile // SIDE - EDGE - 32) + abs(born.tile % SIDE - EDGE - 32)
            assert far[new].min(initial=99) >= {ZOMBIE: 6, SKELETON: 7, COW: 5}[kind]
            grounds = start.ground[0][born.tile[new]]
            assert (grounds == (PATH if kind == SKELETON else GRASS)).all()
    for kind, rows in theirs.items():
        for label, there, here in (("come", [r[0] for r in rows], come[kind]), ("go", [r[1] for r in rows], gone[kind])):
            error = (np.var(there) / times + np.var(here) / games) ** 0.5
            assert abs(np.mean(there) - np.mean(here)) <= 5 * error + 0.02, f"{CATEGORY_NAMES[kind]} {label}"
    if time == 210:
        assert come[ZOMBIE].mean() > 1, "nights bring zombies"
    else:
        assert gone[ZOMBIE].mean() > 1, "days take them away"


def one_chunk(kind, ground, space, number, games, time):
    """After its turn, the first chunk of many games, far from the player, with `space` tiles of a ground and some creatures."""
    material, creature = np.full((64, 64), WATER, np.uint8), np.zeros((64, 64), np.uint8)
    places = np.random.RandomState(space).permutation(144)[:space]
    rows, cols = np.divmod(places, 12)
    material[rows, cols] = ground
    creature[rows[:number], cols[:number]] = kind
    state = begin(*jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x), games, 0), prepare(material[None], creature[None])))
    state = state._replace(time=state.time + time, visited=state.visited | True)
    after, born = jax.device_get(jax.jit(stock_up)(state, jax.random.bits(jax.random.key(0), (games, 4, 7))))
    new = born.wanted & (born.kind == kind)
    assert new.sum(1).max() <= 1
    came, left = born.tile[new], (after.creatures.tile[:, :number] == 0)
    return came, (rows + EDGE) * SIDE + cols + EDGE, left


@pytest.mark.parametrize(
    ("kind", "ground", "space", "time", "chance"),
    [(ZOMBIE, GRASS, 60, 210, 0.3), (SKELETON, PATH, 6, 60, 0.1), (SKELETON, PATH, 40, 60, 0.1), (COW, GRASS, 100, 60, 0.01)],
)
def test_creatures_come_to_any_tile_with_the_originals_chance(kind, ground, space, time, chance):
    games = 60_000
    came, tiles, _ = one_chunk(kind, ground, space, 0, games, time)
    assert abs(len(came) / games - chance) <= 5 * (chance * (1 - chance) / games) ** 0.5
    share = np.array([(came == tile).sum() for tile in tiles])
    assert share.sum() == len(came)
    assert abs(share - len(came) / space).max() <= 5 * (len(came) / space) ** 0.5
    for few in {ZOMBIE: (49,), SKELETON: (5,), COW: (29,)}[kind]:
        assert not len(one_chunk(kind, ground, few, 0, 2000, time)[0]), "there must be room for them"


@pytest.mark.parametrize(
    ("kind", "ground", "time", "chance"), [(ZOMBIE, GRASS, 60, 0.4), (SKELETON, PATH, 60, 0.1), (COW, GRASS, 60, 0.1)]
)
def test_any_creature_goes_with_the_originals_chance(kind, ground, time, chance):
    games, number = 50_000, 4
    _, _, left = one_chunk(kind, ground, 100, number, games, time)
    assert left.sum(1).max() <= 1
    assert abs(left.any(1).mean() - chance) <= 5 * (chance * (1 - chance) / games) ** 0.5
    each = chance / number
    assert abs(left.mean(0) - each).max() <= 5 * (each * (1 - each) / games) ** 0.5


def test_games_stay_consistent():
    """Nobody stands where nobody can, no two on one tile, and what is counted along the way is right."""
    world = Crafter(worlds=16, first=1_000_000)
    state = world.reset(jax.random.key(0), 128)

    @jax.jit
    def play(state, key):
        def one(state, key):
            act, go = jax.random.split(key)
            state, given = world.step(state, jax.random.randint(act, (128,), 0, 17), go)
            return state, given

        return jax.lax.scan(one, state, jax.random.split(key, 250))

    state, given = jax.device_get(play(state, jax.random.key(1)))
    assert np.isfinite(given.reward).all()
    assert given.terminated.any()
    assert (np.asarray(space_of(jnp.asarray(state.ground))) == state.space).all()
    who, shared = state.creatures, 0
    for i in range(128):
        there = who.tile[i] > 0
        tiles = who.tile[i][there]
        shared += len(tiles) - len(set(tiles))
        assert state.row[i] * SIDE + state.col[i] not in tiles
        ground = state.ground[i][tiles]
        walkers = (who.kind[i][there] >= COW) & (who.kind[i][there] <= SKELETON)
        assert np.isin(ground[walkers], [GRASS, PATH, 5]).all()
        assert (ground[who.kind[i][there] == PLANT] == GRASS).all()
        assert there.sum() < SLOTS
    assert ((state.items >= 0) & (state.items <= 9)).all()
    # Where more are near than act in a step, those left out are not in the others' way: as good as never.
    assert shared < 0.001 * (who.tile > 0).sum()


def test_worlds_differ_by_key_and_repeat():
    world = Crafter(worlds=16, first=1_000_000)
    one, again, other = (world.reset(jax.random.key(k), 8).ground for k in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()
