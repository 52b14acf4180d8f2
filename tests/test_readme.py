"""The README's Python, run as it stands, but for budgets."""

import json
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippets_run(snippet, trained, tmp_path, monkeypatch, capsys):
    """Where it trains, a trained agent of a small board takes the place of the world and of the run folder."""
    import shutil

    monkeypatch.chdir(tmp_path)
    if "pa.train(" in snippet:
        shutil.copytree(trained.run, tmp_path / "runs" / "z1")
        snippet = snippet.replace("hunter-z1c1", "hunter-z1c1-6x6")
        snippet, trains = re.subn(r"pa\.train\(source, seed=0, out=(\S+)\)", r"pa.load(\1)", snippet)
        assert trains == 1
    exec(snippet, {})
    if "print(mapping)" in snippet:
        assert "sure: " in capsys.readouterr().out


def test_there_are_snippets_and_all_commands_exist():
    from protoalign.cli.main import COMMANDS

    assert len(SNIPPETS) >= 3
    named = set(re.findall(r"^protoalign (\w+)", README, re.MULTILINE))
    assert named <= COMMANDS.keys()
    assert len(named) >= 8


def test_figures_of_bayes_are_those_of_the_results():
    from protoalign.reproduction.experiments import engines

    def runs(world):
        files = sorted((Path(__file__).parents[1] / "results" / "engines").glob(f"bayes-{world}-s*.json"))
        return [json.loads(path.read_text()) for path in files]

    shown = engines.summary({world: runs(world) for world in ("hunter-z1c1", "hunter-z2c2", "hunter-z3c3", "hunter-z4c4")})
    assert shown in README


@pytest.mark.parametrize("world", ["minigrid-doorkey-6x6", "minigrid-dynamic-obstacles-6x6", "frozenlake-8x8"])
def test_figures_of_hosted_worlds_are_those_of_the_results(world):
    from protoalign.reproduction.experiments.hosted_worlds import EPISODES, line

    files = sorted((Path(__file__).parents[1] / "results" / "worlds").glob(f"{world}-s?.json"))
    runs = [json.loads(file.read_text()) for file in files]
    targets = sum(len(run["rows"]) for run in runs)
    right = sum(row["right"] for run in runs for row in run["rows"])
    _, _, _, _, _, first, second, *_ = line(world, runs, EPISODES[world])
    assert f"| {len(runs)} | {right} of {targets} | {first} | {second} |" in README
