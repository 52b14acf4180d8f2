"""The commands as a user types them, in processes of their own."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from protoalign.rl import history

STEPS = "163840"  # 40 updates
QUICK = "import protoalign.rl.train as t; t.SAVE_SECONDS = 0.0; t.LOG_LINES = 20; from protoalign.cli import main; main()"


def protoalign(*args: object, quick: bool = False) -> subprocess.CompletedProcess[str]:
    start = ["-c", QUICK] if quick else ["-m", "protoalign"]
    return subprocess.run([sys.executable, *start, *map(str, args)], capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    done = protoalign("task", "hunter-z1c1", "--steps", STEPS, "--seed", 3, "--out", out, "--json", quick=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == json.loads((out / "result.json").read_text())
    return out


def test_result_and_folder(finished: Path):
    result = json.loads((finished / "result.json").read_text())
    assert result["env"] == "hunter-z1c1"
    assert result["task_steps"] == int(STEPS)
    assert result["source_episodes"] >= 1000
    assert 0 < result["source_return_se"] < 0.05
    assert result["seconds"]["task"] > 0
    assert result["versions"].keys() >= {"python", "jax", "protoalign"}
    rows = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [row["update"] for row in rows] == list(range(2, 41, 2))
    assert rows[-1]["return"] > rows[0]["return"]
    episodes = history.load(finished / "history", "task")
    assert len(episodes.length) > 1000
    assert episodes.observation.shape[2:] == (8, 8)


def without_time(result: dict) -> dict:
    return {name: value for name, value in result.items() if name != "seconds"}


def metrics(path: Path) -> list[dict]:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in ("seconds", "steps_per_second")} for row in rows]


def test_killed_again_and_again_it_ends_with_the_same_numbers(finished: Path, tmp_path: Path):
    out = tmp_path / "killed"
    command = [sys.executable, "-c", QUICK, "task", "hunter-z1c1", "--steps", STEPS, "--seed", "3", "--out", str(out)]
    for manifests in (2, 9, 14):  # kill it some time after its so-manieth checkpoint, in the middle of whatever it does
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            newest = max((int(p.stem[5:]) for p in (out / "checkpoints").glob("task-*.json")), default=0)
            if newest >= 2 * manifests:
                time.sleep(0.003 * manifests)
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        process.wait()
        assert process.returncode == -signal.SIGKILL
    assert not (out / "result.json").exists()
    assert subprocess.run(command, capture_output=True, timeout=600).returncode == 0
    assert metrics(out) == metrics(finished)
    ours, theirs = (without_time(json.loads((p / "result.json").read_text())) for p in (out, finished))
    assert ours == theirs
    for a, b in zip(history.load(out / "history", "task"), history.load(finished / "history", "task"), strict=True):
        assert (a == b).all()


def test_damaged_folders_are_told_in_one_line(finished: Path, tmp_path: Path):
    (tmp_path / "config.json").write_text('{"task": {}}')
    for command in (["evaluate", tmp_path], ["task", "hunter-z1c1", "--out", tmp_path]):
        wrong = protoalign(*command)
        assert wrong.returncode == 2
        assert len(wrong.stderr.splitlines()) == 1


def test_the_same_command_again_shows_the_result(finished: Path):
    again = protoalign("task", "hunter-z1c1", "--steps", STEPS, "--seed", 3, "--out", finished)
    assert again.returncode == 0
    assert "return" in again.stdout
    assert "%" not in again.stderr, "nothing was trained"


def test_other_settings_in_the_same_folder(finished: Path):
    for change in (["--seed", "4"], ["--steps", "200000"], ["--preset", "paper"]):
        wrong = protoalign("task", "hunter-z1c1", "--steps", STEPS, "--seed", 3, "--out", finished, *change)
        assert wrong.returncode == 2
        assert "choose another --out" in wrong.stderr


def test_evaluate(finished: Path):
    done = protoalign("evaluate", finished, "--episodes", 3000, "--json")
    figures = json.loads(done.stdout)
    result = json.loads((finished / "result.json").read_text())
    error = (figures["return_se"] ** 2 + result["source_return_se"] ** 2) ** 0.5
    assert 0 < abs(figures["return"] - result["source_return"]) < 5 * error, "other episodes, the same policy"
    assert figures["task_steps"] == result["task_steps"]
    assert protoalign("evaluate", finished, "--episodes", 3000, "--json").stdout == done.stdout
    elsewhere = json.loads(protoalign("evaluate", finished, "--env", "hunter-z4c4", "--json").stdout)
    assert elsewhere["env"] == "hunter-z4c4"
    assert elsewhere["trained_in"] == "hunter-z1c1"
    assert protoalign("evaluate", finished, "--env", "hunter-z4c4-16x16").returncode == 2


def test_evaluate_falls_back_to_the_last_good_checkpoint(finished: Path, tmp_path: Path):
    subprocess.run(["cp", "-r", finished, tmp_path / "copy"], check=True)
    newest = max((tmp_path / "copy" / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:1000])
    done = protoalign("evaluate", tmp_path / "copy", "--json")
    assert done.returncode == 0
    assert "damaged checkpoint" in done.stderr
    assert json.loads(done.stdout)["return"] > 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["task", "hunter-z9"], "write ZxCy"),
        (["task", "pong"], "no world is called 'pong'"),
        (["task", "hunter-z1c1", "--steps", "10"], "at least 4096"),
        (["task", "crafter", "--steps", "10"], "at least 8192"),
        (["run", "crafter", "--preset", "paper"], "no preset 'paper' here: use fast"),
        (["run", "crafter", "--target", "nowhere"], "no look is called 'nowhere'"),
        (["baseline", "ltmbr", "crafter"], "Hunter only: try ppo"),
        (["play", "crafter"], "Hunter only"),
        (["task", "hunter-z1c1", "--seed", "-1"], "from 0 to"),
        (["task", "hunter-z1c1", "--seed", "99999999999999999999"], "from 0 to"),
        (["task", "hunter-[/z]"], "hunter-[/z]"),
        (["task", "hunter-z1c1-200x200"], "64 x 64"),
        (["play", "--seed", "-1"], "from 0 to"),
        (["task", "hunter-z1c1", "--out", "/dev/null/x"], "cannot use"),
        (["evaluate", "/nowhere"], "not a run folder"),
        (["bench", "--repeats", "0"], "at least 1"),
        (["bench", "--core", "9999"], "cannot run on that core"),
        (["play", "hunter-z1c1"], "needs a terminal"),
    ],
)
def test_errors_are_one_line(args: list[str], says: str):
    wrong = protoalign(*args)
    assert wrong.returncode == 2
    assert says in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "args", [["--help"], ["task", "--help"], ["evaluate", "--help"], ["bench", "--help"], ["play", "--help"]]
)
def test_help(args: list[str]):
    shown = protoalign(*args)
    assert shown.returncode == 0
    assert "usage: protoalign" in shown.stdout


def test_bench_prints_every_speed_as_a_ratio():
    figures = json.loads(protoalign("bench", "hunter-z1c1", "--repeats", 1, "--json").stdout)
    for name in ("world alone", "collection", "training"):
        expected = figures["steps_per_second"][name] / figures["products_per_second"]
        assert figures["steps_per_product"][name] == pytest.approx(expected, rel=0.01, abs=0.01)
        assert figures["compile_seconds"][name] > 0


def test_a_person_plays():
    """In a real terminal: colours, a walk, a shot, a new game, and the terminal is put back."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "protoalign", "play", "hunter-z2c2", "--look", "target", "--seed", "1"],
        stdin=inner, stdout=inner, stderr=inner,
    )  # fmt: skip
    os.close(inner)
    shown = b""

    def read_until(text: bytes) -> None:
        nonlocal shown
        limit = time.monotonic() + 120
        while text not in shown:
            assert time.monotonic() < limit, shown[-500:]
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 65536)

    for key, expected in (
        (b"", b"shoot the zombies"),
        (b"\x1b[A", b"up"),
        (b"l", b"fire-right"),
        (b" ", b"none"),
        (b"n", b"score +0"),
    ):
        os.write(terminal, key)
        shown = b""
        read_until(expected)
    assert b"\x1b[38;2;" in shown
    os.write(terminal, b"q")
    read_until(b"\x1b[?25h")
    assert process.wait(60) == 0
    os.close(terminal)
