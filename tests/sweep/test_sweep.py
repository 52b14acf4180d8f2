"""Many runs: what dies is done again, what is done is not, and what cannot be is said."""

import gc
import json
import os
import signal
import threading
import time

import pytest

from protoalign.errors import UserError
from protoalign.runs import Run
from protoalign.sweep import Grid, read_grid, sweep
from protoalign.sweep.grid import Job, jobs
from protoalign.sweep.job import finished
from protoalign.sweep.processes import on_processes
from protoalign.sweep.sweep import do_all, summary
from protoalign.sweep.tasks import Task
from tests.sweep import calls


def tasks(tmp_path):
    return [
        Task("sum", calls.add, (1, 2)),
        Task("dies once", calls.die_once, (tmp_path / "died",)),
        Task("crashes once", calls.crash_once, (tmp_path / "crashed",)),
        Task("refuses", calls.refuse, (tmp_path / "refused",)),
        Task("dies always", calls.die, ()),
    ]


def check(found, tmp_path):
    assert {name: outcome.value for name, outcome in found.items() if outcome.error is None} == {
        "sum": 3,
        "dies once": "alive",
        "crashes once": "mended",
    }
    assert found["refuses"].error == "that cannot be: do something else"
    attempts = {name: outcome.attempts for name, outcome in found.items()}
    assert attempts == {"sum": 1, "dies once": 2, "crashes once": 2, "refuses": 1, "dies always": 3}
    assert (tmp_path / "refused").read_text() == "x", "what is refused is not tried again"
    assert "adding 1 2" in (tmp_path / "logs" / "sum.log").read_text()
    log = (tmp_path / "logs" / "crashes once.log").read_text()
    assert log.count("--- crashes once") == 2
    assert "gave way" in log


def test_what_dies_or_crashes_is_done_again(tmp_path):
    found = {outcome.name: outcome for outcome in on_processes(tasks(tmp_path), 2, tmp_path / "logs", 2)}
    check(found, tmp_path)
    assert found["dies always"].error == "its process was ended by signal 9"


def test_every_process_has_a_core_of_its_own(tmp_path):
    mine = os.sched_getaffinity(0)
    meeting = [tmp_path / name for name in "ab"]
    given = [Task(mark.name, calls.meet, (mark, other)) for mark, other in (meeting, meeting[::-1])]
    found = [outcome.value for outcome in on_processes(given, 2, tmp_path, 0)]
    assert all(len(cores) == 1 and set(cores) <= mine for cores in found)
    assert len(mine) == 1 or found[0] != found[1]


def test_what_cannot_be_told_is_said(tmp_path):
    (found,) = on_processes([Task("odd", calls.unspeakable, ())], 1, tmp_path, 2)
    assert found.attempts == 1
    assert "pickle" in found.error


@pytest.mark.filterwarnings("ignore")  # Ray leaves files open
def test_ray_does_the_same(tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    given = [*tasks(tmp_path), Task("waits", calls.wait_for, (tmp_path / "go",))]
    threading.Timer(8, lambda: (tmp_path / "go").write_text("go")).start()
    found = {outcome.name: outcome for outcome in do_all(given, tmp_path / "logs", ray="local", show=False)}
    assert found.pop("waits").value != os.getpid()
    check(found, tmp_path)
    gc.collect()


def test_ray_that_is_not_there(tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    with pytest.raises(UserError, match=r"--ray 127\.0\.0\.1:1: no cluster answers there"):
        list(do_all([Task("sum", calls.add, (1, 2))], tmp_path, ray="127.0.0.1:1", show=False))


# -- grids -------------------------------------------------------------------------------------------------------------------


def test_a_grid_from_a_file(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text('worlds = ["hunter-z1c1", "minigrid-doorkey-6x6"]\nseeds = 2\nbaselines = ["ppo"]\nlooks = ["target"]\n')
    grid = read_grid(path, looks=("random:1", "random:2"))
    assert grid == Grid(("hunter-z1c1", "minigrid-doorkey-6x6"), (0, 1), looks=("random:1", "random:2"), baselines=("ppo",))
    names = [job.name for job in jobs(grid)]
    assert len(set(names)) == len(names) == 8
    assert names[:2] == ["hunter-z1c1-s0", "ppo-hunter-z1c1-s0"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs worlds"),
        ("worlds = 3", "worlds has to be a list of names, not 3"),
        ('worlds = ["hunter-z1c1"]\nseeds = true', "seeds has to be a number or a list of numbers, not True"),
        ('worlds = ["hunter-z1c1"]\nseeds = ["a"]', "seeds has to be"),
        ('worlds = ["hunter-z1c1"]\nseeds = 0', "nothing to do"),
        ('worlds = ["hunter-z1c1"]\nsteps = 0', "at least 1"),
        ('worlds = ["gym:Some-v0"]', "train it with 'protoalign run'"),
        ('worlds = ["nowhere"]', "no world is called 'nowhere'"),
        ('worlds = ["hunter-z1c1"]\nengines = ["diesel"]', "engines: there is no 'diesel'; use bayes, opa"),
        ('worlds = ["hunter-z1c1"]\nbaselines = ["none"]', "baselines: there is no 'none'; use ppo"),
        ('worlds = ["hunter-z1c1"]\nlook = ["target"]', "a sweep has no 'look'"),
        ("worlds = [", "is no TOML file"),
    ],
)
def test_grids_that_are_refused(tmp_path, text, says):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=says):
        read_grid(path)


def test_names_are_names_of_folders():
    job = Job("gym:My/Package:World-v0", 3, "paper", None, ("bayes",), ("target",), None, 4)
    assert job.name == "gym+my+package+world-v0-paper-s3"


# -- a whole one -------------------------------------------------------------------------------------------------------------

WORLD, STEPS = "hunter-z1c1-6x6", 12_288
GRID = Grid((WORLD,), (0,), engines=(), looks=("target",), baselines=("ppo",), steps=STEPS)


def test_a_sweep_whose_worker_is_killed_ends_as_any_other(tmp_path):
    plain = sweep(GRID, tmp_path / "plain", show=False)
    assert [run["seed"] for run in plain["runs"].values()] == [0]
    names = list(plain["runs"])

    def kill():
        folder = tmp_path / "killed" / names[0]
        log, metrics = tmp_path / "killed" / "logs" / f"{names[0]}.log", folder / "metrics.jsonl"
        for _ in range(3000):
            if metrics.exists() and metrics.stat().st_size:
                os.kill(int(log.read_text().split("process ")[1].split()[0]), signal.SIGKILL)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    killed = sweep(GRID, tmp_path / "killed", workers=2, show=False)
    thread.join()
    assert killed["runs"][names[0]].pop("attempts") == 2
    for found in (plain, killed):
        for run in found["runs"].values():
            run.pop("attempts", None)
            for figures in run["looks"].values():
                figures["ppo"].pop("seconds", None)
    assert killed["runs"] == plain["runs"]
    assert json.loads((tmp_path / "killed" / "results.json").read_text())["runs"].keys() == killed["runs"].keys()
    assert Run(tmp_path / "killed" / names[0], create=False).config["seed"] == 0
    shown = {str(column.header): list(column.cells) for column in summary(killed).columns}
    assert shown["world"] == [WORLD]
    earned = killed["runs"][names[0]]["looks"]["target"]["ppo"]["source_return"]
    assert float(shown["source return"][0]) == pytest.approx(earned, abs=1e-3)
    other = sweep(Grid((WORLD,), (0,), engines=(), baselines=("ppo",), steps=STEPS), tmp_path / "killed", show=False)
    assert other["runs"].keys() == killed["runs"].keys(), "done before"


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    job = jobs(GRID)[0]
    assert finished(job, tmp_path) is None
    (tmp_path / job.name).mkdir()
    said = {"world": WORLD, "seed": 0, "preset": "fast", "baseline": "ppo", "steps": STEPS, "episodes": 4}
    path = tmp_path / job.name / "sweep.json"
    for text in ("{", "[]", json.dumps(said), json.dumps(said | {"looks": {}, "engines": []})):
        path.write_text(text)
        assert finished(job, tmp_path) is None
    path.write_text(json.dumps(said | {"looks": {"target": {"ppo": {}}}, "engines": []}))
    assert finished(job, tmp_path)
    assert finished(job._replace(looks=("target", "random:1")), tmp_path) is None
    assert finished(job._replace(steps=None), tmp_path) is None
