"""The commands as a user types them: in this process where that is the same, in one of their own where it is not."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from protoalign.cli import main
from protoalign.cli.main import COMMANDS
from tests.conftest import WORLD, small

BRISK = "import protoalign.rl.train as t; t.SAVE_SECONDS = 0.0; t.LOG_LINES = 20; from protoalign.cli import main; main()"


@pytest.fixture
def protoalign(monkeypatch, capfd):
    """`protoalign(*args) -> exit code, what it printed, what it complained about`."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["protoalign", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        said = capfd.readouterr()
        return code, said.out, said.err

    return call


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["task", "hunter-z9"], "write ZxCy"),
        (["task", "pong"], "no world is called 'pong'"),
        (["task", "hunter-z1c1", "--steps", "10"], "at least 4096"),
        (["run", "hunter-z1c1", "--episodes", "0"], "at least 1"),
        (["task", "hunter-z1c1", "--hide", "dragon"], "no kind 'dragon'"),
        (["run", "hunter-z1c1", "--target", "nowhere"], "no look is called"),
        (["run", "hunter-z1c1", "--target", "~nobody"], "nobody"),
        (["run", "hunter-z1c1", "--target", "a[/x]"], "a[/x]"),
        (["run", "hunter-z1c1", "--target", "random:" + 5000 * "9"], "random:"),
        (["task", "hunter-z1c1", "--seed", "-1"], "from 0 to"),
        (["task", "hunter-z1c1", "--seed", "99999999999999999999"], "from 0 to"),
        (["task", "hunter-[/z]"], "hunter-[/z]"),
        (["task", "hunter-z1c1-200x200"], "64 x 64"),
        (["play", "--seed", "-1"], "from 0 to"),
        (["task", "hunter-z1c1", "--out", "/dev/null/x"], "cannot use"),
        (["evaluate", "/nowhere"], "not a run folder"),
        (["infer", "/nowhere"], "not a run folder"),
        (["transfer", "/nowhere"], "not a run folder"),
        (["report", "/nowhere"], "not a run folder"),
        (["bench", "--repeats", "0"], "at least 1"),
        (["play", WORLD], "needs a terminal"),
    ],
)
def test_errors_are_one_line(protoalign, tmp_path, monkeypatch, args, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = protoalign(*args)
    assert code == 2
    assert says in err
    assert len(err.splitlines()) == 1
    assert out == ""
    assert not list(tmp_path.glob("runs/*/result.json"))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["evaluate", "--episodes", "99999999999"], "1,000,000"),
        (["evaluate", "--episodes", "1"], "standard error"),
        (["evaluate", "--env", "hunter-z1c1"], "other grid or actions"),
        (["evaluate", "--target", "random:1"], "found in the look 'target'"),
        (["transfer", "--noise", "nan"], "noise"),
        (["transfer", "--jitter", "1e999"], "jitter"),
        (["transfer", "--noise", "-1"], "noise"),
        (["transfer", "--sure", "2"], "between 0 and 1"),
        (["transfer", "--episodes", "0"], "at least 1"),
        (["transfer", "--env", "crafter"], "other grid or actions"),
    ],
)
def test_errors_with_a_finished_run_are_one_line_too(protoalign, trained, args, says):
    code, _, err = protoalign(args[0], trained.run, *args[1:])
    assert code == 2
    assert says in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(protoalign, command):
    code, out, _ = protoalign(*([command] if command else []), "--help")
    assert code == 0
    assert "usage: protoalign" in out


def test_worlds_are_listed(protoalign):
    code, out, _ = protoalign("worlds", "--json")
    assert code == 0
    names = [name for row in json.loads(out)["worlds"] for name in row["names"]]
    assert {"hunter-z1c1", "crafter"} <= set(names)


def test_evaluate_in_the_source_and_through_the_mapping(protoalign, trained):
    result = json.loads((trained.run / "result.json").read_text())
    _, out, _ = protoalign("evaluate", trained.run, "--episodes", 600, "--json")
    figures = json.loads(out)
    error = (figures["return_se"] ** 2 + result["trained_return_se"] ** 2) ** 0.5
    assert 0 < abs(figures["return"] - result["trained_return"]) < 5 * error, "other episodes, the same policy"
    assert figures["task_steps"] == result["task_steps"]
    assert protoalign("evaluate", trained.run, "--episodes", 600, "--json")[1] == out
    _, out, _ = protoalign("evaluate", trained.run, "--target", "target", "--json")
    through = json.loads(out)
    error = (through["return_se"] ** 2 + result["target_return_se"] ** 2) ** 0.5
    assert abs(through["return"] - result["target_return"]) < 5 * error, "the same mapping, read and not found again"


def test_transfer_saves_a_mapping_and_says_where(protoalign, trained, copied):
    folder = copied(trained.run, "history", "checkpoints")
    code, out, _ = protoalign("transfer", folder, "--target", "only:cow:random:7", "--episodes", 2, "--seed", 2**32 - 1)
    assert code == 0
    assert "only:cow:random:7" in out
    files = sorted(path.name for path in (folder / "mappings").iterdir())
    assert files == [f"{WORLD}-only-cow-random-7-{2**32 - 1}{ending}" for ending in (".json", ".safetensors")]
    assert "The mapping is saved" in out


def test_a_read_only_run_that_is_finished_can_be_shown(protoalign, trained, copied):
    folder = copied(trained.run, "history", "checkpoints")
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    code, out, _ = protoalign("evaluate", folder, "--episodes", 100, "--json")
    assert code == 0
    assert json.loads(out)["episodes"] == 100


def test_killed_for_real_it_goes_on(trained, tmp_path):
    """SIGKILL in the middle of the task stage; the same command then ends with the same agent."""
    out = tmp_path / "killed"
    call = "import sys; sys.path.insert(0, '.'); from tests.conftest import small\nwith small():\n    " + BRISK.replace(
        "; ", "\n    "
    )
    command = [sys.executable, "-c", call, "task", WORLD, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    limit = time.monotonic() + 300
    while len(list((out / "checkpoints").glob("task-*.json"))) < 2 and process.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "result.json").exists()
    with small(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["protoalign", "task", WORLD, "--out", str(out), "--json"])
        main()
    ours, theirs = (safetensors.numpy.load_file(path / "agent.safetensors") for path in (out, trained.run))
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def test_bench_prints_every_speed_as_a_ratio(protoalign, monkeypatch):
    monkeypatch.setattr("protoalign.bench.BOARDS", 64)
    _, out, _ = protoalign("bench", WORLD, "--repeats", 1, "--json")
    figures = json.loads(out)
    for name in ("world alone", "collection", "training"):
        expected = figures["steps_per_second"][name] / figures["products_per_second"]
        assert figures["steps_per_product"][name] == pytest.approx(expected, rel=0.01, abs=0.01)
        assert figures["compile_seconds"][name] > 0


def test_explore_says_of_what_it_tells(protoalign, monkeypatch):
    for word, says in (("", "everything right after"), ("_met", "all that was met is right after")):
        found = {f"{n}{word}_correct": 0.5 for n in ("one_episode", "two_episodes", "four_episodes")}
        monkeypatch.setattr("protoalign.cli.method._stage", lambda *names, found=found, **budget: found)
        assert f"{says} one, two, four episodes: 0.500" in protoalign("explore", "x")[1]
