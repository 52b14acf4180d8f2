"""Tables and figures: what they say of committed data, and of data made up for the purpose."""

import json
from copy import deepcopy
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from protoalign import UserError, stages
from protoalign.cli import tools
from protoalign.console import show_baseline
from protoalign.errors import GateError
from protoalign.reproduction.experiments import (
    baseline_figures,
    baseline_tables,
    crafter_tables,
    encoders,
    figures,
    imagined,
    paper,
    reproduce,
    tables,
)

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture(scope="module")
def committed() -> reproduce.Results:
    return reproduce.Results(RESULTS, Path("nowhere"))


@pytest.mark.parametrize("name", reproduce.EXPERIMENTS)
def test_every_table_is_made_from_committed_data_without_training(name, committed, monkeypatch, tmp_path):
    def train(*args, **kwargs):
        raise AssertionError("it trains although the data are there")

    monkeypatch.setattr(stages, "run", train)
    monkeypatch.setattr(encoders, "baseline", train)
    monkeypatch.setattr(committed, "draw", lambda name, figure: figure(committed.all(), tmp_path / f"{name}.png") or "")
    try:
        text = "".join(reproduce.show(committed, name))
    except reproduce.Missing as missing:
        pytest.skip(str(missing))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) >= 3
    for block in text.split("###")[1:]:
        widths = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(widths) == 1, "every row has all columns"
    if name in ("alignment", "calibration"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "at home" not in text
    assert "nan" not in text.replace("|", " ").split()


def test_the_command_knows_every_experiment():
    assert set(get_args(tools.What)) == {"all", *reproduce.EXPERIMENTS}


def test_the_tables_say_what_the_data_say(committed):
    runs = committed.all()
    assert list(runs) == list(paper.WORLDS)
    for world, group in runs.items():
        assert [run["result"]["seed"] for run in group] == list(range(len(group)))
        assert {run["result"]["env"] for run in group} == {world}
        mean = np.mean([baseline_tables.own_target(run["result"]) for run in group])
        line = next(line for line in tables.returns(runs).splitlines() if line.startswith(f"| {world}"))
        assert f"{mean:.3f}" in line
        assert f"{paper.TARGET[world][0]:.2f}" in line


def test_worlds_weigh_the_same_however_many_seeds_they_have():
    assert tables.over_worlds([[1.0, 1.0, 1.0, 1.0], [0.0]]) == 0.5
    assert imagined.mean_and_error(np.array([1.0, 3.0])) == [2.0, 1.0]
    low, high = tables.bootstrap([np.array([1.0, 1.1, 0.9, 1.0]), np.array([2.0, 2.0])])
    assert 1.45 <= low < 1.5 < high <= 1.55
    pairs = [[(1.0, 2.0), (1.0, 2.0)], [(3.0, 3.0)] * 4, [(-1.0, 0.01), (0.0, 0.02)]]  # nothing was learned in the third
    assert baseline_tables._ratio(pairs) == ["0.750", "0.000", "2 of 3", "0.50 to 1.00", "8"]
    assert baseline_tables._ratio(pairs[2:])[:3] == ["", "", "0 of 1"]


def renewed(run: dict, ratio: float, own: float) -> dict:
    """A run as this edition writes it."""
    run = deepcopy(run)
    source = run["result"]["source_return"]
    run["result"] |= {"target_return": ratio * source, "ratio": ratio, "target_return_own": own * source, "ratio_own": own}
    run["result"] |= {"trained_return": source, "trained_return_se": 0.01, "ratio_own_se": 0.02, "games": 2048}
    return run


def test_editions_are_told_apart(committed):
    runs = {"hunter-z1c1": [], "hunter-z4c4": []}
    for world in runs:
        runs[world] = [run for run in committed.all()[world] if tables.first_edition(run["result"])][:2]
        if len(runs[world]) < 2:
            pytest.skip("all measured anew")
    seeds = [run["result"]["seed"] for run in runs["hunter-z1c1"]]
    assert "all runs." in tables.editions(runs)
    runs["hunter-z1c1"][0] = renewed(runs["hunter-z1c1"][0], 1.0, 0.975)
    assert f"hunter-z1c1 seed {seeds[1]}, hunter-z4c4." in tables.editions(runs)
    text = tables.ratios(runs)
    old = runs["hunter-z1c1"][1]["result"]["ratio"]
    assert f"| hunter-z1c1 | 1.000 | {tables.over_seeds([0.975, old])} |" in text, "an old ratio is one of games of its own"
    assert "| hunter-z4c4 |  |" in text
    assert "is then an identity" in text
    for world, group in runs.items():
        runs[world] = [renewed(run, 1.0, 0.98) for run in group]
    assert tables.editions(runs) == ""
    assert "| mean of worlds | 1.000 | 0.980 | 0.980 to 0.980 | 0.980 |" in tables.ratios(runs)


def test_crafter_of_both_editions(committed):
    old = json.loads((RESULTS / "crafter" / "crafter-s1.json").read_text())
    if not tables.first_edition(old["result"]):
        pytest.skip("all measured anew")
    assert "| **protoalign**, 4 episodes | " in crafter_tables.show([old], {})
    new = renewed(old, 1.0, 0.97)
    rates = dict.fromkeys(crafter_tables.ACHIEVEMENTS, 0.5)
    for stage in crafter_tables.STAGES:
        new["result"] |= {f"{stage}_achievements": rates, f"{stage}_score": 50.0}
    new["result"] |= {"trained_return": 12.5, "ratio_se": 0.0, "seed": 0}
    text = crafter_tables.show([new, old], {})
    row = next(line for line in text.splitlines() if line.startswith("| **protoalign**, 4 episodes |"))
    assert "| 12.50 ± 0.01 |" in row
    assert "| 1.000 ± 0.000 | 0.970 ± 0.020 |" in row
    assert f"| **protoalign**, 4 episodes, first edition | {old['result']['world_return']:.2f} ±" in text
    assert "Seed 1 of the first edition" in text
    assert "| **score** | 50.0 | 50.0 | 50.0 | 50.0 |" in text
    assert "1.01 as printed, 0.92 by its returns" in text


def test_nothing_is_trained_that_was_not_asked_for(tmp_path, monkeypatch, capsys):
    asked = []

    def train(world, folder, seed, *rest, **options):
        asked.append((world.spec.name, seed))
        raise UserError("stop here")

    monkeypatch.setattr(stages, "run", train)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no folder .*/results: .* --train"):
        tools.reproduce("all")
    assert not list(tmp_path.iterdir())
    results = tmp_path / "results"
    results.mkdir()
    with pytest.raises(UserError, match=r"nothing has been measured in .*'protoalign reproduce table1 --train'"):
        tools.reproduce("table1")
    tools.reproduce("all")
    assert "Not measured: alignment (nothing has been measured" in capsys.readouterr().out
    assert asked == []
    assert not list(results.iterdir())
    with pytest.raises(UserError, match="stop here"):
        tools.reproduce("table1", train=True)
    with pytest.raises(UserError, match="stop here"):
        tools.reproduce("table1", worlds=("Hunter-Z4C4",))
    assert asked == [("hunter-z1c1", 0), ("hunter-z4c4", 0)]


def test_missing_and_damaged_data(tmp_path):
    (tmp_path / "opa").mkdir()
    (tmp_path / "opa" / "hunter-z1c1-s0.json").write_text(json.dumps({"result": {}})[:-3])
    with pytest.raises(UserError, match="not valid JSON"):
        reproduce.Results(tmp_path, tmp_path / "runs").all()
    with pytest.raises(UserError, match="at least 1"):
        reproduce.Results(tmp_path, tmp_path, 0)
    with pytest.raises(UserError, match="no row for 'z1c1'"):
        reproduce.measure(reproduce.Results(tmp_path, tmp_path), "baselines", ["z1c1"])


def test_baselines_of_other_settings_are_refused(tmp_path):
    (tmp_path / "baselines").mkdir()
    data = json.loads((RESULTS / "baselines" / "ppo-hunter-z1c1-s0.json").read_text())
    results = reproduce.Results(tmp_path, tmp_path)
    path = tmp_path / "baselines" / "ppo-hunter-z1c1-s0.json"
    path.write_text(json.dumps(data))
    assert results.baseline("ppo", "hunter-z1c1", 0) == data
    data["config"]["baseline"]["ppo"]["clip"] = 0.3
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match="made with other settings"):
        results.baselines()


def test_only_a_gate_lets_the_others_go_on(tmp_path, monkeypatch):
    asked = []

    def run(name, *rest):
        asked.append(name)
        raise GateError("shows too little") if name != "unit4rl" else UserError("another process is working there")

    monkeypatch.setattr(reproduce.baseline_runs, "run", run)
    with pytest.raises(UserError, match="another process"):
        reproduce.measure(reproduce.Results(tmp_path, tmp_path / "runs", 1), "baselines", ["Hunter-Z1C1"])
    assert asked == ["ppo", "darla", "lusr", "unit4rl"]


def test_a_baseline_that_learned_nothing_can_be_shown(tmp_path, capsys):
    row = {"label": "as it is", "steps": 0, "return": -0.05, "return_se": 0.01, "ratio": None}
    result = {"baseline": "lusr", "env": "hunter-z4c4", "seed": 0, "preset": "fast", "encoder": "tiles", "target": [row]}
    result |= {"source": {"return": -0.02, "return_se": 0.01}, "steps": {"source": {"source": 5}}, "seconds": {"source": 1.0}}
    show_baseline(tmp_path, result, False)
    assert "-0.050" in capsys.readouterr().out


def fake_baseline(name: str, seed: int) -> dict:
    labels = {"unit4rl": ("translated", "fine-tuned"), "ltmbr": ("new", "model given", "no model", "random model")}
    rows = [
        {"label": label, "steps": 1_000_000 * (i > 0), "return": i + 0.1 * seed, "ratio": (i + 0.1 * seed) / 2}
        for i, label in enumerate(labels.get(name, ("as it is",)))
    ]
    source = {"return": 2.0, "episodes": 2048}
    result = {"baseline": name, "seed": seed, "encoder": "tiles", "preset": "fast", "source": source, "target": rows}
    seen = {"frames": 50_048} if name in ("lusr", "unit4rl") else {}
    used = seen | ({"adapt": 1_000_000} if name in labels else {})
    result |= {"steps": {"source": {"source": 12_345_678} | seen, "target": used}, "seconds": {"source": 100.0 + 50 * seed}}
    result |= {"mapping": {"zombie": "cow", "cow": "zombie"}, "translated": np.full((5, 192), 50 * seed).tolist()}
    if name == "lusr":
        result |= {"shown": {"cow": 0.91, "wall": 1.0}, "shown_target": {"cow": 0.9, "wall": 0.8}, "domain_told": 0.75}
    curve = [{"steps": 1e5 * i, "return": 0.31 * i} for i in range(1, 11)]
    slower = [row | {"return": 0.8 * row["return"]} for row in curve]
    curves = {"source": curve, "adapt": curve if name in labels else [], "none": slower if name == "ltmbr" else []}
    return {"result": result, "curves": curves, "config": {"source": {"steps": 12_345_678}}}


def test_baselines_stand_beside_the_method(committed, tmp_path):
    names = ("ppo", "darla", "lusr", "unit4rl", "ltmbr")
    found = {name: {"hunter-z1c1": [fake_baseline(name, seed) for seed in (0, 1)]} for name in names}
    opa = {"hunter-z1c1": committed.all()["hunter-z1c1"]}
    text = baseline_tables.returns(opa, found)
    assert "| PPO | 2.00 ± 0.00 / 0.05 ± 0.05 | 1.73 / -0.01" in text
    assert "| UNIT4RL, 0.6 M steps | 2.00 ± 0.00 / 1.86 ± 0.00 | 1.35; 3.13" in text  # while learning
    assert "| UNIT4RL, 1.0 M steps | 2.00 ± 0.00 / 1.05 ± 0.05 | 1.68; 3.24" in text
    assert "12.35 M source" in text
    ratios = baseline_tables.ratios(opa, found)
    assert "| LTMBR with a random model, 1.0 M steps | 1.525 | 0.025 | 1 of 1 | 1.50 to 1.55 | 2 |" in ratios
    used = baseline_tables.data_used(opa, found)
    assert "| unit4rl | 12.35 M |  | 0.05 M | 1.00 M | 0.05 M |  |" in used
    assert "| ltmbr | 12.35 M |  |  | 1.00 M |  |  |" in used
    goal = np.mean([baseline_tables.own_target(run["result"]) for run in opa["hunter-z1c1"]])
    caught = baseline_tables.catching_up(opa, found)
    for shown, per_step, frames, last in (
        ("LTMBR", 0.31, 0, 3.1),
        ("LTMBR, no model", 0.248, 0, 2.48),
        ("UNIT4RL", 0.31, 0.05, 3.1),
    ):
        first, second = (np.ceil(x / per_step) / 10 + frames for x in (goal, 1.8))
        assert f"| {shown} | hunter-z1c1 | {goal:.2f}: {first:.2f} M | 1.80: {second:.2f} M | {last:.2f} |" in caught
    assert "| 100 to 150 | 123,457 steps/s |" in baseline_tables.speeds(opa, found)
    codes = baseline_tables.codes(opa, found)
    assert "| unit4rl | hunter-z1c1 | 1 |  |  |  | zombie as cow, cow as zombie |" in codes
    assert "| lusr | hunter-z1c1 | 0 | 0.91 (cow) | 0.80 (wall) | 0.75 | zombie as cow, cow as zombie |" in codes
    baseline_figures.returns(opa, found, tmp_path / "compared.png")
    baseline_figures.translations(found, tmp_path / "translations.png")
    assert min((tmp_path / f"{name}.png").stat().st_size for name in ("compared", "translations")) > 10_000


def test_learning_curves_are_smoothed_over_episodes():
    rows = [{"steps": 10 * i, "episodes": i % 3, "return": float(i) if i % 3 else None} for i in range(1, 8)]
    short = reproduce.smooth(rows, 2)
    assert [row["steps"] for row in short] == [40, 70]
    assert short[0]["return"] == pytest.approx((1 * 1 + 2 * 2 + 4 * 1) / 4)
    assert reproduce.smooth([]) == []


def test_figures_of_one_seed(tmp_path):
    curve = [{"steps": 1e6 * i, "one_episode_correct": 0.1 * i, "information": i} for i in range(5)]
    figures.learning({"hunter-z1c1": [{"curves": {"explore": curve}}]}, tmp_path / "new" / "one.png")
    assert (tmp_path / "new" / "one.png").stat().st_size > 10_000
