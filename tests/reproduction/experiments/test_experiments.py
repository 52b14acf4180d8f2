"""The measurements behind the tables: right on cases whose answer is known, and all of them on one tiny agent."""

import json
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError, stages
from protoalign.agent import Agent
from protoalign.reproduction.experiments import (
    crafter_kinds,
    crafter_looks,
    engines,
    frozen,
    imagined,
    look_tables,
    looks,
    reproduce,
)
from protoalign.rl.networks import Believed, RelativeNet, Scene
from protoalign.rl.rollout import play_out
from protoalign.rl.source_world import SourceWorld
from protoalign.runs import Run
from tests.reproduction import toy

WORLD = SourceWorld(toy.Toy(), tuple(range(5)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> reproduce.Results:
    """A tiny agent of the toy board, trained because it was asked for, and its figures as a file of results."""
    folder = tmp_path_factory.mktemp("reproduce")
    data = reproduce.Results(folder / "results", folder / "runs", train=True)
    data.run("toy-board", 0)
    return data


@pytest.fixture
def folder(trained) -> Path:
    return trained.folder("toy-board", 0)


def test_what_is_missing_is_trained_and_written_down(trained):
    found = json.loads((trained.results / "toy-board" / "toy-board-s0.json").read_text())
    assert found.keys() == {"result", "curves", "config"}
    assert found["result"]["task_steps"] == found["curves"]["task"][-1]["steps"] == 2048
    assert {"ratio", "ratio_own", "target_return_own", "trained_return", "mapping_correct"} <= found["result"].keys()
    assert [row["steps"] for row in found["curves"]["explore"]][-1] == 1024
    written = Run(trained.folder("toy-board", 0)).result()
    assert trained.run("toy-board", 0)["result"] == found["result"] == written, "what is there is not trained again"


def test_measurements_over_imagined_worlds(trained, folder, monkeypatch):
    for name, value in (("EPISODES", 16), ("GAMES", 64), ("AFTER", (1, 4)), ("AT_ONCE", 8)):
        monkeypatch.setattr(imagined, name, value)
    every = imagined.policies(Agent.load(folder))
    assert set(every) == {"pi_exp", "pi_random", "pi_task", "pi_task on beliefs"}
    monkeypatch.setattr(imagined, "policies", lambda agent: {name: every[name] for name in ("pi_exp", "pi_task")})
    found = imagined.measure(folder, 0)
    for by in found["policies"].values():
        assert (by["after"]["1"]["groups"], by["after"]["4"]["groups"]) == (16, 4)
        assert 1 <= by["steps"][0] <= toy.LONGEST
    assert set(found["stopping"]) == {str(level) for level in imagined.SURE}
    for by in found["calibration"].values():
        assert 0 <= by["expected_calibration_error"] <= 1
    counted = sum(number for *_, number in found["calibration"]["whole mapping"]["bins"])
    assert counted == round(16 * found["policies"]["pi_exp"]["steps"][0]), "every step of every episode is judged once"


def bayes(folder, monkeypatch) -> Path:
    """The folder, trained for the engine bayes too."""
    monkeypatch.setattr(stages.bayes, "PRACTICE", 8)
    monkeypatch.setattr(stages.bayes, "WATCHED", 4)
    reproduce.whole("toy-board", folder, 0, "bayes")
    return folder


def test_looks(trained, folder, monkeypatch):
    for name, value in (("RANDOM_LOOKS", 1), ("LEVELS", (0.05,)), ("NOISY_LOOKS", 1), ("TWO_LOOKS", 1), ("FRAMES", 4)):
        monkeypatch.setattr(looks, name, value)
    monkeypatch.setattr(looks, "kinds", lambda world: ("floor", "zombie", "agent", "cow", "wall"))
    rows = list(looks.random_looks(folder, 1))
    assert [row["look"] for row in rows] == ["target", "random:1000"]
    for row in looks.noisy_looks(folder, 1):
        assert 0 <= row["tiles_right"] <= 1
        assert row["looks_found"] >= 1
    monkeypatch.setattr(looks, "kinds", lambda world: ("cow", "wall"))
    rows = list(looks.subsets(folder, 1))
    assert [row["changed"] for row in rows] == [[], ["cow"], ["wall"], ["cow", "wall"]]
    assert all(row["novelty_right"] for row in rows), "what is new is told by the picture, whatever was learned"
    assert rows[0]["right"]
    text = look_tables.mixed({"world": "toy-board", "rows": list(looks.mixed(folder, 1))})
    assert "| twins:cow,wall:target |" in text
    assert "Looks: random:3000." in text
    assert [line.split("|")[1].strip() for line in text.splitlines() if "of 1" in line] == ["cow", "wall"]
    rows = list(looks.played_looks(bayes(folder, monkeypatch), 1))
    assert [row["group"] for row in rows].count("two kinds with one picture") == 1
    assert not next(row for row in rows if row["look"].startswith("twins"))["right"]
    text = look_tables.played_looks({"world": "toy-board", "seed": 0, "rows": rows})
    assert "| random looks | 2 |" in text
    (row,) = looks.other_variants(lambda world, seed: folder, "toy-board", 1, ("toy-board",))
    assert row["env"] == "toy-board"
    assert row["ratio_own"] is not None


def test_judges_and_actors_in_pairs(trained, folder, monkeypatch):
    """Every pair that the agent is trained for is measured, on as many games as are asked for."""
    for name, value in (("WORLDS", 8), ("MODELLED", 4), ("OTHER", 4), ("FEWER", 4)):
        monkeypatch.setattr(engines, name, value)
    found = json.loads(json.dumps(engines.measure(bayes(folder, monkeypatch), 0, ("toy-board",))))
    assert found["bayes"]["measured_worlds"] == 8
    assert found["others"]["toy-board"]["measured_worlds"] == 4
    pairs = json.loads(json.dumps(engines.measure_pairs(folder, 0)))
    alone = {f"q_theta + {actor}" for actor in ("pi_exp", "Thompson", "most likely")}
    assert alone <= pairs["pairs"].keys() <= {f"{judge} + {actor}" for judge, actor in engines.PAIRS}
    assert all(len(one["returns"]) == engines.GAMES for one in pairs["pairs"].values())
    found["source_return"], pairs["source_return"] = [1.0, 0.1], [1.0, 0.1]
    text = engines.show({"toy-board": [found, found]}, {"toy-board": [pairs]})
    assert "q_theta + pi_exp (**opa**)" in text
    assert "toy-board in toy-board" in text
    assert f"{found['bayes']['one_episode_correct']:.4f} ± 0.0000" in text


def test_reliability_tables_are_pooled_by_their_counts():
    tables = [[[0.7, 0.85, 0.8, 1.0, 1]], [[0.7, 0.85, 0.72, 0.5, 3], [0.99, 1.0, 1.0, 1.0, 9]]]
    assert engines.reliable(tables, 0.7) == "0.740 -> 0.625 (4)"
    assert engines.reliable(tables, 0.85) == "none"


def test_one_agent_in_many_looks(trained, folder, monkeypatch):
    monkeypatch.setattr(crafter_looks, "LOOKS", 1)
    rows = list(crafter_looks.measure(folder))
    assert [row["group"] for row in rows] == ["looks", "looks", "oracle", "oracle", "subsets"]
    assert [row["redrawn"] for row in rows[:4]] == [5] * 4
    assert all(row["tiles"]["missed"] == row["tiles"]["false_alarms"] == 0 for row in rows)
    assert "all 5 kinds new" in crafter_looks.show({"seed": 0, "rows": json.loads(json.dumps(rows))})


def test_what_is_said_of_crafter_with_any_kinds_redrawn():
    row = {"kinds": ["coal", "iron", "cow"], "met": 3, "touched": ["coal", "cow"], "touched_right": ["cow"], "sure": 2}
    row |= {"wrong_while_sure": 1, "steps": 900, "returns": [3.0, 5.0]}
    figures = {f"{name}_{what}_right": 0.5 for name in ("one_episode", "four_episodes") for what in ("types", "touched")}
    figures |= {"types_calibration": [[0.99, 1.0, 0.995, 0.98, 50]], "types_sure": [50, 1], "measured_worlds": 8}
    figures |= {"types_taken_for": {"iron as coal": 7}}
    text = crafter_kinds.show({"seed": 0, "rows": [{"imagined": figures}, row, row]})
    assert "2 of 4 touched kinds right (0.500), 2 of 4 tile types wrong that were 0.99 sure" in text
    assert "iron as coal (7)" in text


def test_pi_exp_again_with_q_theta_frozen(trained, folder):
    """In the toy it is never refreshed: the same training, from the checkpoint of the stage before, ends the same."""
    refreshed, again = frozen.compare(folder)
    assert {**refreshed, "q_theta": ""} == {**again, "q_theta": ""}


def test_a_policy_that_takes_slots_for_prototypes(trained, folder):
    """Slot s for the s-th prototype that may be hidden; what is known stays what it is."""
    agent = Agent.load(folder)
    net = imagined.Unaligned(agent.task, 5, (1, 3))
    codes = np.array([[5, 6, 0, 2, 4]], np.uint8).repeat(5, 0)[None]
    seen = net.encode(Believed(jnp.asarray(codes), jnp.zeros((1, 0)), jnp.zeros((1, 2, 2))))
    known = agent.task.encode(
        toy.Observation(jnp.asarray(np.array([1, 3, 0, 2, 4])[None, None].repeat(5, 1)), jnp.zeros((1, 0)))
    )
    for a, b in zip(jax.tree.leaves(seen), jax.tree.leaves(known), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_right_mapping_plays_as_in_the_source_and_a_wrong_one_does_not(monkeypatch):
    """Zombies taken for cows: a policy that would walk into them goes elsewhere."""
    net = RelativeNet(np.random.default_rng(0), Scene((5, 5), 5, 4, agent=(toy.AGENT,), objects=4), 16)
    net = jax.tree.map(lambda x: x + jnp.asarray(np.random.default_rng(1).normal(size=x.shape), jnp.float32), net)
    subject = SimpleNamespace(task=net)
    monkeypatch.setattr(imagined, "GAMES", 256)
    right = np.arange(5)[None]
    in_source, *_ = jax.jit(lambda key: play_out(WORLD, net, key, 256))(imagined.stream(3, "play"))
    np.testing.assert_array_equal(imagined.returns(subject, WORLD, right, 3), in_source)
    swapped = imagined.returns(subject, WORLD, right[:, [0, 3, 2, 1, 4]], 3)
    assert (swapped != in_source).any()


def test_reliability_by_hand():
    said = np.array([0.9, 0.91, 0.92, 0.93, 0.3, 0.3])
    right = np.array([1, 1, 1, 0, 0, 1], bool)
    found = imagined.reliability(said, right)
    assert found["bins"] == [[0.3, 0.5, 2], [0.915, 0.75, 4]]
    assert found["expected_calibration_error"] == pytest.approx((2 * 0.2 + 4 * 0.165) / 6, abs=1e-4)


def test_stopping_counts_steps_and_goes_on_in_the_next_episode():
    """Four groups of four episodes: sure and right at step 3; sure and wrong at step 1; sure in episode 2, step 2; never."""
    longest, truth = 8, np.stack([np.random.default_rng(i).permutation(3) for i in range(16)])
    unsure, sure = np.zeros((3, 3)), np.where(np.eye(3) > 0, 0.0, -9.0)
    scores = np.tile(unsure, (longest, 16, 1, 1))
    scores[2:, 0] = sure
    scores[0:, 4] = sure[[1, 0, 2]]
    scores[1:, 9] = sure
    scores = np.take_along_axis(scores, truth[None, ..., None], 2)  # slots are numbered by chance
    found = imagined.stop_early(scores, truth, np.full(16, 5))["0.99"]
    assert found["steps"][0] == (3 + 1 + (5 + 2) + 20) / 4
    assert found["most_steps"] == 20
    assert found["stopped"] == 0.75
    assert found["correct"] in (0.5, 0.75), "right, wrong, right, and a guess"


def test_an_agent_that_is_not_finished(tmp_path):
    with pytest.raises(UserError, match="no trained agent"):
        imagined.measure(tmp_path, 0)
