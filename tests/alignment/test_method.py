"""The whole method as a user runs it, with small budgets: does it find its way in a world it has never seen?"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

START = """
import protoalign.config as c, protoalign.rl.train as t, protoalign.alignment.training as a
c.INFER["fast"] = c.InferConfig(updates={infer})
c.EXPLORE["fast"] = c.ExploreConfig(steps={explore}, rounds=2, refresh={refresh}, episodes=1024)
t.SAVE_SECONDS = a.SAVE_SECONDS = 0.5
from protoalign.cli import main
main()
"""
SMALL = {"infer": 150, "explore": 327_680, "refresh": 60}
TINY = {"infer": 30, "explore": 40_960, "refresh": 5}  # learns little, but takes every turn of the way


def command(budget: dict[str, int], *args: object) -> list[str]:
    return [sys.executable, "-c", START.format(**budget), *map(str, args)]


def whole(budget: dict[str, int], steps: int, out: Path) -> list[str]:
    return command(budget, "run", "hunter-z1c1", "--seed", 5, "--steps", steps, "--episodes", 8, "--out", out, "--json")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("method") / "run"
    done = subprocess.run(whole(SMALL, 409_600, out), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == json.loads((out / "result.json").read_text())
    return out


def test_it_finds_its_way(finished: Path):
    result = json.loads((finished / "result.json").read_text())
    assert result["mapping_correct"]
    assert {row["found"] for row in result["mapping"]} == {"floor", "zombie", "agent", "cow", "wall"}
    assert all(row["unseen"] for row in result["mapping"])
    error = (result["target_return_se"] ** 2 + result["source_return_se"] ** 2) ** 0.5
    assert abs(result["target_return"] - result["source_return"]) < 4 * error, "as good as at home"
    assert result["target_return_before"] < 0.5 * result["source_return"]
    assert result["ratio"] == pytest.approx(result["target_return"] / result["source_return"], abs=1e-3)
    assert result["explore_episodes"] == 8
    assert 8 <= result["target_steps"] <= 8 * 31
    assert result["one_episode_correct"] > 0.6, "chance is 1 in 120"
    assert result["four_episodes_correct"] > 0.9
    assert result["task_steps"] == 409_600
    assert result["explore_steps"] == 327_680
    assert result["seconds"].keys() >= {"task", "infer", "explore", "transfer"}


def transfer(path: Path, *args: object) -> dict:
    done = subprocess.run(command(SMALL, "transfer", path, *args, "--json"), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_other_looks_and_another_variant(finished: Path):
    for args in (["--target", "random:11"], ["--target", "random:12", "--env", "hunter-z2c2"]):
        moved = transfer(finished, *args, "--seed", 3, "--episodes", 12)
        assert moved["mapping_correct"], args
        assert moved["ratio"] > 0.9
    home = transfer(finished, "--target", "source", "--episodes", 1)
    assert not any(row["unseen"] for row in home["mapping"])
    assert home["mapping_correct"]


def test_labels_from_an_oracle_do_as_well(finished: Path):
    told = transfer(finished, "--target", "random:11", "--seed", 3, "--episodes", 12, "--oracle")
    assert told["mapping_correct"]
    assert told["doubts"] == []


def test_a_target_that_changed_in_part(finished: Path):
    moved = transfer(finished, "--target", "only:cow,wall:random:4", "--episodes", 6)
    assert {row["true"] for row in moved["mapping"] if row["unseen"]} == {"cow", "wall"}
    assert moved["mapping_correct"]
    assert moved["ratio"] > 0.9


def test_looks_that_do_not_match_kinds_are_said_in_words(finished: Path):
    shared = transfer(finished, "--target", "twins:zombie,cow:random:4")
    assert len(shared["mapping"]) == 4
    assert any("no look was left for" in doubt for doubt in shared["doubts"])
    split = transfer(finished, "--target", "two:wall:random:4", "--episodes", 8)
    assert len(split["mapping"]) == 6
    assert any("6 looks for 5 kinds" in doubt for doubt in split["doubts"])
    assert any("looks were taken for" in doubt for doubt in split["doubts"])


def test_the_report_shows_this_run(finished: Path):
    page, result = (finished / "report.html").read_text(), json.loads((finished / "result.json").read_text())
    assert f"{result['target_return']:.2f}" in page
    assert page.count("data:image/gif") >= 3


def test_stopping_when_sure(finished: Path):
    moved = transfer(finished, "--episodes", 16, "--sure", 0.99)
    assert moved["explore_episodes"] < 16
    assert moved["mapping_correct"]


def test_killed_in_every_stage_it_ends_with_the_same_numbers(tmp_path: Path):
    steps, results = 81_920, []
    assert subprocess.run(whole(TINY, steps, tmp_path / "whole"), capture_output=True, timeout=1800).returncode == 0
    killed = whole(TINY, steps, tmp_path / "killed")
    for stage in ("infer", "explore"):
        process = subprocess.Popen(killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            if any((tmp_path / "killed" / "checkpoints").glob(f"{stage}-*.json")):
                process.send_signal(signal.SIGKILL)
            time.sleep(0.005)
        assert process.returncode == -signal.SIGKILL
    assert subprocess.run(killed, capture_output=True, timeout=1800).returncode == 0
    for name in ("whole", "killed"):
        result = json.loads((tmp_path / name / "result.json").read_text())
        results.append({k: v for k, v in result.items() if k not in ("seconds", "transfer_seconds")})
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["transfer", "{run}", "--target", "nowhere"], "no look is called"),
        (["transfer", "{run}", "--episodes", "0"], "at least 1"),
        (["transfer", "{run}", "--sure", "1.5"], "between 0 and 1"),
        (["transfer", "{run}", "--noise", "-1"], "cannot be negative"),
        (["transfer", "{run}", "--target", "only:sheep:target"], "not understood"),
        (["report", "/nowhere"], "not a run folder"),
        (["transfer", "{run}", "--env", "hunter-z4c4-16x16"], "cannot see the grid"),
        (["infer", "/nowhere"], "not a run folder"),
        (["run", "hunter-z1c1", "--target", "random:x", "--out", "{new}"], "whole number"),
    ],
)
def test_errors_are_one_line(finished: Path, tmp_path: Path, args: list[str], says: str):
    filled = [arg.format(run=finished, new=tmp_path / "new") for arg in args]
    wrong = subprocess.run(command(SMALL, *filled), capture_output=True, text=True, timeout=300)
    assert wrong.returncode == 2
    assert says in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
