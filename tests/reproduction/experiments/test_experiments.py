"""The measurements behind the tables: right on cases whose answer is known."""

import json
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError, stages
from protoalign.alignment.imagination import Imagined
from protoalign.envs import hunter
from protoalign.errors import GateError
from protoalign.experiments import compared, figures, imagined, paper, reproduce, tables
from protoalign.rl.networks import RelativeNet
from protoalign.rl.rollout import play_out
from protoalign.show import show_baseline

WORLD = hunter.parse("z1c1")
RESULTS = Path(__file__).parents[2] / "results"


def test_a_right_mapping_plays_as_at_home_and_a_wrong_one_does_not(monkeypatch):
    """Zombies taken for cows: a policy that would shoot them walks into them."""
    net = RelativeNet(np.random.default_rng(0), WORLD, 16)
    net = jax.tree.map(lambda x: x + jnp.asarray(np.random.default_rng(1).normal(size=x.shape), jnp.float32), net)
    subject = SimpleNamespace(world=WORLD, task=net)
    monkeypatch.setattr(imagined, "GAMES", 512)
    right = np.arange(5)[None]
    key = imagined.stream(3, "play")
    at_home, *_ = play_out(WORLD, net, key, 512)
    np.testing.assert_array_equal(imagined.returns(subject, right, 3), at_home)
    swapped = imagined.returns(subject, right[:, [0, 3, 2, 1, 4]], 3)
    assert (swapped != at_home).any()


def test_reliability_by_hand():
    said = np.array([0.9, 0.91, 0.92, 0.93, 0.3, 0.3])
    right = np.array([1, 1, 1, 0, 0, 1], bool)
    found = imagined.reliability(said, right)
    assert found["bins"] == [[0.3, 0.5, 2], [0.915, 0.75, 4]]
    assert found["expected_calibration_error"] == pytest.approx((2 * 0.2 + 4 * 0.165) / 6, abs=1e-4)


def test_stopping_counts_steps_and_goes_on_in_the_next_episode(monkeypatch):
    """Four groups of four episodes: sure and right at step 3; sure and wrong at step 1; sure in episode 2, step 2; never."""
    monkeypatch.setattr(imagined, "EPISODES", 16)
    longest, truth = imagined.LONGEST, np.stack([np.random.default_rng(i).permutation(3) for i in range(16)])
    unsure, sure = np.zeros((3, 3)), np.where(np.eye(3) > 0, 0.0, -9.0)
    scores = np.tile(unsure, (longest, 16, 1, 1))
    scores[2:, 0] = sure
    scores[0:, 4] = sure[[1, 0, 2]]
    scores[1:, 9] = sure
    scores = np.take_along_axis(scores, truth[None, ..., None], 2)  # types are numbered by chance
    lengths = np.full(16, 5)
    names = np.argsort(truth, 1)
    done = SimpleNamespace(episodes=SimpleNamespace(length=lengths), imagined=Imagined(names, truth, np.ones((16, 3), bool)))
    found = imagined.stop_early(scores, done, 0.99)
    assert found["steps"][0] == (3 + 1 + (5 + 2) + 20) / 4
    assert found["most_steps"] == 20
    assert found["stopped"] == 0.75
    assert found["correct"] in (0.5, 0.75), "right, wrong, right, and a guess"


def test_means_and_intervals():
    assert imagined.mean_and_error(np.array([1.0, 3.0])) == [2.0, 1.0]
    assert tables.interquartile_mean(np.array([-100, 1, 2, 3, 3, 2, 1, 500.0])) == 2
    low, high = tables.bootstrap([np.array([1.0, 1.1, 0.9, 1.0])] * 4)
    assert 0.9 <= low < 1 < high <= 1.1


@pytest.fixture(scope="module")
def committed() -> reproduce.Results:
    return reproduce.Results(RESULTS, Path("nowhere"))


@pytest.mark.parametrize("name", reproduce.EXPERIMENTS)
def test_every_table_is_made_from_committed_data_without_training(name, committed, monkeypatch, tmp_path):
    def train(*args, **kwargs):
        raise AssertionError("it trains although the data are there")

    monkeypatch.setattr(stages, "whole", train)
    monkeypatch.setattr(compared, "baseline", train)
    monkeypatch.setattr(committed, "draw", lambda name, figure: figure(committed.all(), tmp_path / f"{name}.png") or "")
    data = {"baselines": "baselines/*.json", "encoders": "encoders.json", "crafter": "crafter/*.json"}.get(name)
    if data and not any(RESULTS.glob(data)):
        pytest.skip("not measured")
    text = reproduce.EXPERIMENTS[name](committed)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) >= 3
    for block in text.split("###")[1:]:
        widths = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(widths) == 1, "every row has all columns"
    if name in ("alignment", "calibration"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_the_tables_say_what_the_data_say(committed):
    runs = committed.all()
    assert list(runs) == list(paper.WORLDS)
    for world, group in runs.items():
        assert [run["result"]["seed"] for run in group] == list(range(len(group)))
        assert {run["result"]["env"] for run in group} == {world}
        mean = np.mean([run["result"]["target_return"] for run in group])
        line = next(line for line in tables.returns(runs).splitlines() if line.startswith(f"| {world}"))
        assert f"{mean:.3f}" in line
        assert f"{paper.TARGET[world][0]:.2f}" in line


def test_missing_and_damaged_data(tmp_path, monkeypatch):
    asked = []

    def whole(world, folder, seed, *rest):
        asked.append((world, seed))
        raise UserError("stop here")

    monkeypatch.setattr(stages, "whole", whole)
    results = reproduce.Results(tmp_path / "results", tmp_path / "runs", 2)
    with pytest.raises(UserError, match="stop here"):
        results.all()
    assert asked == [("hunter-z1c1", 0)]
    (tmp_path / "results" / "opa" / "hunter-z1c1-s0.json").write_text(json.dumps({"result": {}})[:-3])
    with pytest.raises(UserError, match="not valid JSON"):
        results.all()
    with pytest.raises(UserError, match="at least 1"):
        reproduce.Results(tmp_path, tmp_path, 0)


def test_worlds_that_have_no_row(tmp_path):
    with pytest.raises(UserError, match="no row for 'z1c1'"):
        reproduce.Results(tmp_path / "results", tmp_path / "runs").baselines(["z1c1"])


def test_only_a_gate_lets_the_others_go_on(tmp_path, monkeypatch):
    asked = []

    def run(name, *rest):
        asked.append(name)
        raise GateError("shows too little") if name != "unit4rl" else UserError("another process is working there")

    monkeypatch.setattr(reproduce.baseline_runs, "run", run)
    with pytest.raises(UserError, match="another process"):
        reproduce.Results(tmp_path / "results", tmp_path / "runs", 1).baselines(["Hunter-Z1C1"])
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
    result = {"baseline": name, "seed": seed, "encoder": "tiles", "source": {"return": 2.0}, "target": rows}
    seen = {"frames": 50_048} if name in ("lusr", "unit4rl") else {}
    away = seen | ({"adapt": 1_000_000} if name in labels else {})
    result |= {"steps": {"source": {"source": 12_345_678} | seen, "target": away}, "seconds": {"source": 100.0 + 50 * seed}}
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
    text = compared.returns(opa, found)
    assert "| PPO | 2.00 ± 0.00 / 0.05 ± 0.05 | 1.73 / -0.01" in text
    assert "| UNIT4RL, 0.6 M steps | 2.00 ± 0.00 / 1.86 ± 0.00 | 1.35; 3.13" in text  # while learning
    assert "| UNIT4RL, 1.0 M steps | 2.00 ± 0.00 / 1.05 ± 0.05 | 1.68; 3.24" in text
    assert "12.35 M source" in text
    assert "| LTMBR with a random model, 1.0 M steps | 1.525 | 0.025 | 1.50 to 1.55 | 2 |" in compared.ratios(opa, found)
    found["darla"]["hunter-z1c1"][1]["result"]["source"] = {"return": -0.01}  # learned nothing: no ratio of its own
    (row,) = (line for line in compared.ratios(opa, found).splitlines() if line.startswith("| DARLA"))
    assert row.startswith("| DARLA | 0.050 |")
    assert "| 0.00 to 0.00 | 2 |" in row
    used = compared.data_used(opa, found)
    assert "| unit4rl | 12.35 M |  | 0.05 M | 1.00 M | 0.05 M |  |" in used
    assert "| ltmbr | 12.35 M |  |  | 1.00 M |  |  |" in used
    goal = np.mean([run["result"]["target_return"] for run in opa["hunter-z1c1"]])
    caught = compared.catching_up(opa, found)
    for shown, per_step, frames, last in (
        ("LTMBR", 0.31, 0, 3.1),
        ("LTMBR, no model", 0.248, 0, 2.48),
        ("UNIT4RL", 0.31, 0.05, 3.1),
    ):
        first, second = (np.ceil(x / per_step) / 10 + frames for x in (goal, 1.8))
        assert f"| {shown} | hunter-z1c1 | {goal:.2f}: {first:.2f} M | 1.80: {second:.2f} M | {last:.2f} |" in caught
    assert "| 100 to 150 | 123,457 steps/s |" in compared.speeds(opa, found)
    assert "| unit4rl | hunter-z1c1 | 1 |  |  |  | zombie as cow, cow as zombie |" in compared.codes(opa, found)
    assert "| lusr | hunter-z1c1 | 0 | 0.91 (cow) | 0.80 (wall) | 0.75 | zombie as cow, cow as zombie |" in compared.codes(
        opa, found
    )
    compared.figure(opa, found, tmp_path / "compared.png")
    compared.translations(found, tmp_path / "translations.png")
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
