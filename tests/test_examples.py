"""Every example runs, with small settings; the quickstart with an agent trained before: training is tested elsewhere."""

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import protoalign as pa
from protoalign import settings, stages
from protoalign.agent import Agent
from tests.conftest import SMALL, WORLD

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_quickstart(trained, monkeypatch, capsys):
    monkeypatch.setattr(stages, "train", lambda *args, **options: Agent.load(trained.run))
    made = pa.make
    monkeypatch.setattr("protoalign.worlds.registry.make", lambda name: made(WORLD))
    runpy.run_path(str(EXAMPLES / "quickstart.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "sure: " in said
    assert "return after: " in said


def test_a_world_of_ones_own(monkeypatch, capsys):
    brief = replace(SMALL, judge=replace(SMALL.judge, updates=20), model=replace(SMALL.model, games=0))
    monkeypatch.setitem(settings.PRESETS, "fast", brief)
    monkeypatch.setattr(stages.bayes, "PRACTICE", 128)
    monkeypatch.setattr(stages.whole, "rehearse", lambda *args: None)
    monkeypatch.setenv("PROTOALIGN_QUICK", "1")
    runpy.run_path(str(EXAMPLES / "own_world.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("\nsure: ") == 3
    assert said.count("return ") >= 3


def test_somebody_elses_policy_needs_stable_baselines(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)  # what it does with such a policy: stages/test_adopt.py
    with pytest.raises(SystemExit, match=r"pip install 'protoalign\[minigrid,sb3\]'"):
        runpy.run_path(str(EXAMPLES / "sb3_policy.py"), run_name="__main__")


def test_all_examples_are_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"quickstart", "own_world", "sb3_policy"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_say_how_to_run_them(path):
    assert f"python examples/{path.name}" in path.read_text()
