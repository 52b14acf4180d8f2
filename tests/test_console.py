"""What commands print."""

import json
from pathlib import Path
from typing import Any

import pytest

from protoalign import console
from protoalign.errors import UserError
from protoalign.files import write_json

EVIL = "a[/x][red]b:cow:\x1b[31m<b>\udcff"
SHOWN = r"a[/x][red]b:cow:\x1b[31m<b>\udcff"
MEASURED = ("source_return", "target_return_before", "target_return", "target_return_own", "ratio", "ratio_own")
RESULT: dict[str, Any] = {
    "env": "hunter-z1c1",
    "target": "target",
    "mapping": [
        {"true": "zombie", "found": "zombie", "probability": 0.9123, "unseen": True},
        {"true": "cow", "found": "wall", "probability": 0.61, "unseen": True},
        {"true": "floor", "found": "floor", "probability": 1.0, "unseen": False},
    ],
    "mapping_correct": False,
    "redrawn": 4,
    "kinds_right": 1,
    "kinds_not_met": ["agent"],
    "misread": [],
    "sureness": 0.61,
    "doubts": ["tile type 1 may be wall (0.61) or cow (0.39)"],
    "explore_episodes": 4,
    "target_steps": 87,
    "games": 2048,
    "seconds": {"transfer": 12.3},
    **dict.fromkeys(MEASURED, 1.5),
    **{f"{key}_se": 0.125 for key in MEASURED},
}


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_transfer(capsys: pytest.CaptureFixture[str]):
    console.show_transfer(RESULT, False)
    said = capsys.readouterr().out
    rows = [[part.strip() for part in line.strip("│").split("│")] for line in said.splitlines() if line.startswith("│")]
    assert rows == [
        ["0", "zombie", "zombie", "0.9123", "yes"],
        ["1", "cow", "wall", "0.6100", "NO"],
        ["as in the source", "floor", "floor", "1.0000", "yes"],
    ]
    for words in (
        "The mapping is not right: 1 of 4 redrawn kinds were taken for what they are. Never met: agent.",
        "sureness 0.6100, after 4 episodes (87 steps)",
        "Doubt: tile type 1 may be wall (0.61) or cow (0.39).",
        "source return 1.500 ± 0.125",
        "target return before 1.500 ± 0.125, after 1.500 ± 0.125; on games of its own 1.500 ± 0.125",
        "target / source: 1.500 ± 0.125 on the same games; 1.500 ± 0.125 on games of its own",
        "2,048 games",
    ):
        assert words in said
    assert "after one episode" not in said, "a figure of training that this result does not have"
    console.show_transfer(RESULT | {"one_episode_correct": 0.994, "ratio": 1.0, "ratio_se": 0.0, "noise": 0.1}, False)
    said = capsys.readouterr().out
    assert "0.994" in said
    assert "1 = identity" in said
    assert "noise 0.1" in said


def test_which_engine_found_it(capsys: pytest.CaptureFixture[str]):
    more = {
        "explore_returns": [0.5, -1],
        "sure_after": 17,
        "one_episode_correct": 0.994,
        "bayes": {"one_episode_correct": 0.875},
    }
    console.show_transfer(RESULT | more | {"engine": "bayes"}, False)
    said = capsys.readouterr().out
    assert "found by the engine bayes, by playing; 0.99 sure after 17 steps" in said
    assert "returns meanwhile: 0.50, -1.00" in said
    assert "after one episode: 0.875" in said
    console.show_transfer(RESULT | more | {"engine": "opa", "sure_after": None}, False)
    said = capsys.readouterr().out
    assert "found by the engine opa, by exploring; 0.99 sure never" in said
    assert "after one episode: 0.994" in said
    console.show_transfer(RESULT | {"one_episode_met_correct": 0.75, "engine": "opa"}, False)  # a hosted world
    assert "in training, all that was met was right after one episode: 0.750 of the time" in capsys.readouterr().out
    with pytest.raises(UserError, match="engine"):
        console.show_transfer(RESULT | {"engine": "guess"}, False)


def test_engines(capsys: pytest.CaptureFixture[str]):
    bayes = RESULT | {"sure_after": 17, "explore_returns": [0.75, 1.5], "mapping_correct": True}
    opa = RESULT | {"target_steps": 1234, "explore_returns": [-0.15]}
    both = RESULT | {"engine": "bayes", "engines": {"bayes": bayes, "opa": opa}, "seconds": {"model": 12.0, "infer": 1.0}}
    console.show_engines(both)
    said = capsys.readouterr().out
    rows = [[part.strip() for part in line.strip("│").split("│")] for line in said.splitlines() if line.startswith("│")]
    assert rows == [
        ["steps in the target", "87", "1,234"],
        ["steps until 0.99 sure", "17", "never"],
        ["mapping right", "yes", "NO"],
        ["returns meanwhile / source", "0.50, 1.00", "-0.10"],
        ["return afterwards", "1.500 ± 0.125", "1.500 ± 0.125"],
        ["seconds of training besides pi_task", "12", "?"],
    ]
    for broken in ({"engines": 3}, {"engines": {"bayes": 3}}, {"engines": {"other": bayes}}, {"seconds": []}):
        with pytest.raises(UserError):
            console.show_engines(both | broken)


def test_names_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rows = [{"true": EVIL, "found": EVIL, "probability": 1.0, "unseen": True}]
    console.show_transfer(RESULT | {"target": EVIL, "env": EVIL, "mapping": rows, "kinds_not_met": [EVIL]}, False)
    said = capsys.readouterr().out
    assert said.count(SHOWN) == 5
    assert "\x1b" not in said
    console.say(f"saved in {EVIL}")
    console.open_page(Path(EVIL))
    assert capsys.readouterr().out == f"saved in {SHOWN}\nSee {SHOWN} in a browser.\n"


def test_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "run[red]"
    folder.mkdir()
    write_json(folder / "config.json", {"format": 2})
    (folder / "metrics.jsonl").write_text('{"stage": "task", "update": 1, "return": 1.0}\n{"stage": "task", "update": 2}\n')
    result = {
        "env": "some-world", "seed": 3, "preset": "fast", "source_return": 1.25, "source_return_se": 0.5, "source_length": 20,
        "source_episodes": 2048, "task_steps": 4096, "seconds": {"task": 12.0}, "source_score": 7.5,
        "source_achievements": {"little": 0.1, "much": 0.9},
    }  # fmt: skip
    console.show_task(folder, result, False)
    said = capsys.readouterr().out
    for words in ("1.250 ± 0.500", "2,048", "much 0.90, little 0.10", "7.5", "4,096", f"protoalign evaluate {folder}"):
        assert words in said
    trained = result | {"trained_return": 9.5, "trained_return_se": 0.1, "trained_length": 5, "trained_episodes": 7}
    console.show_task(folder, trained, False)
    assert "9.500 ± 0.100" in capsys.readouterr().out
    with pytest.raises(UserError, match="source_return"):
        console.show_task(folder, result | {"source_return": "good"}, False)
    assert not (folder / "checkpoints").exists()


def test_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    played = {"return": 1.0, "return_se": 0.25}
    result = {
        "baseline": "ppo", "env": "some-world", "seed": 0, "preset": "fast", "encoder": "tiles", "source": played,
        "target": [
            {"label": "[b]@0M", "steps": 0, "ratio": None, **played},
            {"label": "@3M", "steps": 3_000_000, "ratio": 0.5, **played},
        ],
        "mapping": {"cow": "wall", "wall": "wall"}, "shown": {"cow": 0.5, "wall": 1.0}, "steps": {"source": {"task": 5000}},
        "seconds": {"task": 3.0},
    }  # fmt: skip
    console.show_baseline(tmp_path, result, False)
    said = capsys.readouterr().out
    for words in ("1.000 ± 0.250", "[b]@0M", "3,000,000", "0.500", "cow as wall", "cow 0.50", "task 5,000"):
        assert words in said
    for broken in ({"target": None}, {"source": []}, {"steps": {"source": 3}}):
        with pytest.raises(UserError):
            console.show_baseline(tmp_path, result | broken, False)


def test_json_is_valid_whatever_the_figures_are(capsys: pytest.CaptureFixture[str]):
    value = {"a": float("nan"), "b": [1.5, float("-inf")], "c": {"d": (True, None, "x")}}
    console.print_json(value)
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.5, None], "c": {"d": [True, None, "x"]}}
    console.show_transfer(RESULT, True)
    assert json.loads(capsys.readouterr().out) == RESULT


def test_curves():
    assert console.curve([]) == ""
    assert console.curve([None, "x", float("nan")]) == ""
    assert console.curve([0, 1, None, 2]) == "▁▄█  0.00 to 2.00"
    assert len(console.curve(list(range(1000))).split()[0]) == 48
