"""FrozenLake and CliffWalking in the looks of two releases of Gymnasium."""

import copy
import hashlib
import pickle
import subprocess
import sys
import zipfile

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.utils.env_checker import check_env, data_equivalence

from protoalign import UserError
from protoalign.errors import NotInstalled
from protoalign.worlds import looks, toy_text

pytest.importorskip("pygame", reason="needs the extra toy-text")

OLD, NEW = "gymnasium-1.3", "gymnasium-1.4"
TO_GOAL = [0, *[1] * 11, 2]  # in CliffWalking
installed = gymnasium.__version__.rpartition(".")[0]


def make(world, look, **options):
    return (toy_text.frozen_lake if world == "frozen-lake" else toy_text.cliff_walking)(look, **options)


@pytest.fixture(params=[OLD, NEW])
def look(request):
    return fetched(request.param)


def fetched(look):
    try:
        toy_text.picture_folder(look)
    except UserError as error:
        pytest.skip(f"the pictures of this release are not to be had: {error}")
    return look


def play(env, seed, actions):
    """Everything an agent gets in some games."""
    given = [env.reset(seed=seed)]
    for action in actions:
        given.append(env.step(action))
        if given[-1][2] or given[-1][3]:
            given.append(env.reset())
    return given


def random_actions(count, seed=0, weights=(0.2, 0.3, 0.3, 0.2)):
    return np.random.default_rng(seed).choice(4, count, p=weights).tolist()


def gymnasiums_own(env, slippery):
    """Gymnasium's own environment in the same state, which draws itself."""
    options = {"desc": env.game.desc, "is_slippery": slippery} if env.world == "frozen-lake" else {}
    name = {"frozen-lake": "FrozenLake-v1", "cliff-walking": "CliffWalking-v1"}[env.world]
    own = gymnasium.make(name, render_mode="rgb_array", **options).unwrapped
    own.reset()
    own.np_random = copy.deepcopy(env.game.np_random)
    return own


@pytest.mark.skipif(f"gymnasium-{installed}" not in toy_text.RELEASES, reason="Gymnasium is of another version than the looks")
@pytest.mark.parametrize(
    ("world", "options", "actions"),
    [
        ("frozen-lake", {}, random_actions(60)),
        ("frozen-lake", {"slippery": True}, random_actions(60)),
        ("frozen-lake", {"size": 4, "random_maps": False, "slippery": True}, random_actions(80)),
        ("frozen-lake", {"size": 5}, random_actions(80)),
        ("cliff-walking", {}, [*TO_GOAL, *random_actions(80, 0, (0.25, 0.35, 0.25, 0.15))]),
    ],
)
def test_plays_and_looks_as_gymnasiums_own(world, options, actions):
    env = make(world, f"gymnasium-{installed}", **options)
    own = None
    frame, _ = env.reset(seed=3)
    for action in actions:
        if own is None:
            own = gymnasiums_own(env, options.get("slippery", False))
            np.testing.assert_array_equal(frame, own.render())
        frame, reward, terminated, truncated, info = env.step(action)
        state, *given = own.step(action)
        assert [env.game.s, reward, terminated, info] == [state, *given[:2], given[3]]
        np.testing.assert_array_equal(frame, own.render())
        if terminated or truncated:
            own = None
            frame, _ = env.reset()


@pytest.mark.skipif(f"gymnasium-{installed}" not in toy_text.RELEASES, reason="Gymnasium is of another version than the looks")
def test_every_field_looks_as_gymnasiums_own():
    env = make("frozen-lake", f"gymnasium-{installed}", size=4)
    env.reset(seed=1)
    assert set(env.game.desc.ravel().tolist()) == {b"F", b"H", b"G", b"S"}
    own = gymnasiums_own(env, False)
    for state in range(16):
        for action in range(4):
            for game in (env.game, own):
                game.s, game.lastaction = state, action
            np.testing.assert_array_equal(env.render(), own.render())


@pytest.mark.parametrize("slippery", [False, True])
def test_transitions_are_gymnasiums_own(slippery):
    env = toy_text.frozen_lake(fetched(NEW), size=5, slippery=slippery, draw=False)
    for seed in range(60):
        env.reset(seed=seed)
        own = FrozenLakeEnv(desc=env.game.desc, is_slippery=slippery)
        assert env.game.P == own.P
        np.testing.assert_array_equal(env.game.initial_state_distrib, own.initial_state_distrib)


@pytest.mark.parametrize("world", ["frozen-lake", "cliff-walking"])
def test_pictures_laid_out_by_ids_are_the_frame(world, look):
    env, undrawn = make(world, look), make(world, look, draw=False)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.read()
    pictures = env.pictures()
    assert pictures.shape[1:3] == env.tile == ((60, 60) if (world, look) == ("cliff-walking", OLD) else (64, 64))
    assert len({picture.tobytes() for picture in pictures}) == len(pictures)
    frame, _ = env.reset(seed=0)
    undrawn.reset(seed=0)
    for action in random_actions(100):
        grid = env.read()
        assert grid.dtype == np.int32
        assert grid.min() >= 0
        np.testing.assert_array_equal(looks.render(pictures, grid), frame)
        np.testing.assert_array_equal(undrawn.read(), grid)
        np.testing.assert_array_equal(undrawn.render(), frame)
        frame, *given = env.step(action)
        nothing, *other = undrawn.step(action)
        assert given == other
        assert nothing.shape == frame.shape
        assert not nothing.any()
        if given[1] or given[2]:
            frame, _ = env.reset()
            undrawn.reset()


@pytest.mark.parametrize(
    ("world", "options"), [("frozen-lake", {}), ("frozen-lake", {"slippery": True}), ("cliff-walking", {})]
)
def test_both_looks_play_alike(world, options):
    old, new = (play(make(world, fetched(look), draw=False, **options), 7, random_actions(400)) for look in (OLD, NEW))
    assert [given[1:] for given in old] == [given[1:] for given in new]


def test_every_episode_has_a_new_map_that_follows_from_the_seed(look):
    def boards(seed, actions):
        env = toy_text.frozen_lake(look, draw=False)
        env.reset(seed=seed)
        found = []
        for action in actions:
            found.append(env.game.desc.tobytes())
            env.step(action)
            env.reset()
        return found

    first = boards(5, [1] * 20)
    assert len(set(first)) == 20
    assert boards(5, [2] * 20) == first  # whatever was done before
    assert boards(6, [1] * 20) != first
    one, other = (play(toy_text.frozen_lake(look, 4, slippery=True), 5, random_actions(30)) for _ in range(2))
    assert all(data_equivalence(a, b, exact=True) for a, b in zip(one, other, strict=True))


def test_gymnasiums_own_maps():
    env = toy_text.frozen_lake(fetched(NEW), random_maps=False, draw=False)
    for seed in (0, 1, None):
        env.reset(seed=seed)
        assert b"".join(env.game.desc.ravel()).decode() == "".join(toy_text.lake.MAPS["8x8"])


def seen(env, actions, repeat=1):
    """Ids seen while playing, and in last frames."""
    during, last = set(), set()
    for seed in range(repeat):
        env.reset(seed=seed)
        for action in actions:
            during |= set(env.read().ravel().tolist())
            if env.step(action)[2]:
                last |= set(env.read().ravel().tolist())
                env.reset()
            elif env.over:
                env.reset()
    return during, last - during


@pytest.mark.parametrize(
    ("world", "look", "count", "last", "names"),
    [
        ("frozen-lake", OLD, 10, 5, ["agent", "agent at goal", "agent in hole", "goal", "hole", "ice", "start"]),
        ("frozen-lake", NEW, 10, 1, ["agent", "agent at goal", "goal", "hole", "ice", "start"]),
        ("cliff-walking", OLD, 24, 1, ["agent", "agent at goal", "cliff", "goal", "ground", "start"]),
        ("cliff-walking", NEW, 9, 1, ["agent", "agent at goal", "cliff", "goal", "ground", "start"]),
    ],
)
def test_tile_pictures(world, look, count, last, names):
    env = make(world, fetched(look), draw=False, **({"slippery": True} if world == "frozen-lake" else {}))
    assert len(env.pictures()) == count + last
    truth = toy_text.truth(look, world)
    assert [truth[picture.tobytes()] for picture in env.pictures()] == env.names
    assert sorted(set(truth.values())) == names
    if world == "frozen-lake":  # on few fields, the goal is reached from all sides
        env = toy_text.frozen_lake(look, 3, slippery=True, draw=False)
        during, ending = seen(env, random_actions(3000))
        shown = {env.pictures()[i].tobytes() for i in during | ending}
        missing = sorted(name for picture, name in truth.items() if picture not in shown)
        assert missing == (["agent", "ice"] if look == NEW else [])  # 3 x 3 fields have no ice with the first of the cracks
    else:
        during, ending = seen(env, [*TO_GOAL, *random_actions(6000, 0, (0.4, 0.25, 0.2, 0.15))])
        assert [len(during), len(ending)] == [count, last]
    assert {env.names[i] for i in ending} <= {"agent at goal", "agent in hole"}


def test_what_stands_where():
    env = toy_text.cliff_walking(fetched(OLD))
    env.reset(seed=0)
    named = np.array(env.names)[env.read()]
    assert named[:3].tolist() == [["ground"] * 12] * 3
    assert named[3].tolist() == ["agent", *["cliff"] * 10, "goal"]
    for action in TO_GOAL:
        _, reward, terminated, truncated, _ = env.step(action)
    assert (reward, terminated, truncated) == (-1, True, False)
    named = np.array(env.names)[env.read()]
    assert [named[3, 0], named[3, 11]] == ["start", "agent at goal"]


def test_time_limits():
    for env, most in (
        (toy_text.cliff_walking(fetched(NEW), draw=False), 200),
        (toy_text.frozen_lake(NEW, draw=False), 200),
        (toy_text.frozen_lake(NEW, size=4, draw=False), 100),
        (toy_text.frozen_lake(NEW, max_steps=7, draw=False), 7),
    ):
        env.reset(seed=0)
        ends = [env.step(0 if env.world == "frozen-lake" else 3)[2:4] for _ in range(most)]
        assert ends == [(False, False)] * (most - 1) + [(False, True)]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(0)


@pytest.mark.parametrize("world", ["frozen-lake", "cliff-walking"])
def test_gymnasiums_own_checks(world):
    env = make(world, fetched(NEW))
    check_env(env, skip_render_check=True)
    env.reset(seed=1)
    again = pickle.loads(pickle.dumps(env))
    np.testing.assert_array_equal(env.step(1)[0], again.step(1)[0])


def test_mistakes_are_told():
    for options, message in (
        ({"size": 9}, "2 to 8 rows"),
        ({"size": "8"}, "2 to 8 rows"),
        ({"size": 5, "random_maps": False}, "of size 4 and 8"),
        ({"look": "source"}, "use gymnasium-1.3 or gymnasium-1.4"),
        ({"max_steps": 0}, "max_steps=0"),
    ):
        with pytest.raises(UserError, match=message):
            toy_text.frozen_lake(**({"look": NEW} | options))
    with pytest.raises(UserError, match="frozen-lake or cliff-walking"):
        toy_text.truth(NEW, "taxi")
    env = toy_text.frozen_lake(fetched(NEW))
    env.reset(seed=0)
    for action in (4, -1, 0.5, None):
        with pytest.raises(UserError, match="is not one of 0 to 3"):
            env.step(action)


def test_pygame_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    toy_text._album.cache_clear()
    with pytest.raises(NotInstalled, match=r"pip install 'protoalign\[toy-text\]'"):
        toy_text.frozen_lake(OLD)


# -- picture files ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no release installed whose pictures could be used instead."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(gymnasium, "__version__", "0")
    return tmp_path / "protoalign"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A small wheel that passes for Gymnasium 1.3.0."""
    path = tmp_path / "small.whl"
    inside = ("ice.png", "taxi/cab.png", "../../out.png", "/root.png", "a b.png", "notes.txt")
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*(toy_text.IMAGES + name for name in inside), "gymnasium/core.py", "elsewhere.png"):
            archive.writestr(name, name)
    monkeypatch.setitem(toy_text.RELEASES, OLD, ("1.3.0", hashlib.sha256(path.read_bytes()).hexdigest()))
    return path


def fake(monkeypatch, data, first=lambda: None):
    """A network that gives this file; `first` is what others do meanwhile."""

    def download(version, folder, instead):
        first()
        (folder / instead.name).write_bytes(data)
        return folder / instead.name

    monkeypatch.setattr(toy_text, "download", download)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_only_pictures_are_unpacked(cache, wheel, monkeypatch):
    fake(monkeypatch, wheel.read_bytes())
    folder = toy_text.picture_folder(OLD)
    assert folder == cache / "gymnasium-1.3.0"
    assert files(cache.parent) == ["protoalign/gymnasium-1.3.0/ice.png", "protoalign/gymnasium-1.3.0/taxi/cab.png", "small.whl"]
    monkeypatch.setattr(toy_text, "download", None)
    assert toy_text.picture_folder(OLD) == folder


def test_two_processes_may_unpack_at_once(cache, wheel, monkeypatch):
    data = wheel.read_bytes()

    def other():
        fake(monkeypatch, data)
        toy_text.picture_folder(OLD)
        (cache / "gymnasium-1.3.0" / "mark").touch()

    fake(monkeypatch, data, first=other)
    assert files(toy_text.picture_folder(OLD)) == ["ice.png", "mark", "taxi/cab.png"]
    assert [path.name for path in cache.iterdir()] == ["gymnasium-1.3.0"]


@pytest.mark.parametrize("look", [OLD, NEW])
def test_a_damaged_wheel_is_refused(cache, monkeypatch, look):
    fake(monkeypatch, b"not what was released")
    with pytest.raises(UserError, match="its checksum differs: check which package index pip uses, and try again"):
        toy_text.picture_folder(look)
    assert list(cache.iterdir()) == []


def test_a_wheel_may_be_put_there_by_hand(cache, wheel, monkeypatch):
    monkeypatch.setattr(toy_text, "download", None)
    cache.mkdir()
    given = cache / "gymnasium-1.3.0-py3-none-any.whl"
    given.write_bytes(wheel.read_bytes()[:-1])
    with pytest.raises(UserError, match="its checksum differs: remove"):
        toy_text.picture_folder(OLD)
    assert list(cache.iterdir()) == [given]
    given.write_bytes(wheel.read_bytes())
    assert files(toy_text.picture_folder(OLD)) == ["ice.png", "taxi/cab.png"]


def test_without_network_one_line_says_what_to_do(cache, monkeypatch):
    def failed(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: No matching distribution found\n\n")

    monkeypatch.setattr(subprocess, "run", failed)
    with pytest.raises(UserError) as caught:
        toy_text.picture_folder(OLD)
    assert str(caught.value) == (
        "cannot fetch the pictures of Gymnasium 1.3.0 (ERROR: No matching distribution found): go online once, or put the wheel"
        f" at {cache / 'gymnasium-1.3.0-py3-none-any.whl'}"
    )
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_to(cache):
    cache.parent.joinpath("protoalign").write_text("a file")
    with pytest.raises(UserError, match="set XDG_CACHE_HOME to a folder that can be written to"):
        toy_text.picture_folder(OLD)


def test_damaged_pictures_are_told(cache, wheel, monkeypatch):
    fake(monkeypatch, wheel.read_bytes())
    toy_text._album.cache_clear()
    with pytest.raises(UserError, match=r"ice.png is missing or damaged: remove .*gymnasium-1.3.0 and try again"):
        toy_text.frozen_lake(OLD)
