"""The stages as a whole: what a run leaves behind, and that killed anywhere it ends with the same bits."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from protoalign import UserError
from protoalign.agent import Agent
from protoalign.cli import main
from protoalign.runs import Run
from tests.conftest import KILLED, WORLD, small


def figures(path):
    result = json.loads((path / "result.json").read_text())
    return {name: value for name, value in result.items() if "seconds" not in name}


def test_what_a_run_leaves_behind(trained):
    result = figures(trained.run)
    assert result["env"] == WORLD
    assert result["source_return"] > 1.0, "the task policy has learned to play"
    assert abs(result["source_return"] - result["trained_return"]) < 6 * (
        result["source_return_se"] + result["trained_return_se"]
    ), "through pictures as in the compiled world"
    assert result["target_return_before"] < 0.3 * result["source_return"]
    assert result["one_episode_correct"] > 0.2, "chance is 1 in 120"
    assert result["bayes"]["one_episode_correct"] > 0.8
    assert result["bayes"]["returns"][1][0] > 0.85 * result["trained_return"], "the second episode is as good as the source's"
    assert result["engine"] == "bayes"
    assert set(result["engines"]) == {"bayes", "opa"}
    assert (trained.run / "mapping-opa.json").exists()
    assert result["pictures_met"] == result["prototypes"] == 5
    if result["mapping_correct"]:
        assert (result["ratio"], result["ratio_se"]) == (1, 0), "the very same was played"
        assert result["target_return"] == result["source_return"]
    assert len(result["mapping"]) == 5
    assert (trained.run / "mapping.safetensors").exists()
    agent = Agent.load(trained.run)
    assert agent.scene.agent == (2,)
    assert agent.scene.floor == 0
    assert agent.vocabulary.met.all()
    assert (agent.presence > 0.99).all()
    for elsewhere, told in ((False, result["bayes"]), (True, result["bayes"]["elsewhere"])):
        expected = told["weight"], told["weight_of_model"], told["doubt"]
        assert agent.weighing(elsewhere) == pytest.approx(expected, abs=1e-4), "a row for each"
    alone, half = agent.world_judge(), agent.world_judge(0.5)
    assert float(half.weights.reward) == pytest.approx(0.5 * float(alone.weights.reward))
    assert float(half.weights.slack) == float(alone.weights.slack)
    assert agent.world_judge(0.0) is None


@pytest.mark.parametrize(("stage", "update"), sorted(KILLED))
def test_killed_anywhere_it_ends_with_the_same_bits(trained, copied, monkeypatch, stage, update):
    """The folder as it was just before a checkpoint, with a half-written file and lines of what came after."""
    folder = copied(trained.killed[stage, update])
    (folder / "checkpoints" / f".{stage}-{update:08d}.json.tmp").write_text("{")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(f'{{"stage": "{stage}", "update": {update}}}\n{{"stage": "{stage}", "upd')
    whole = trained.run
    if stage == "infer":  # the next stage refreshes q_theta: its weights at the end of this one are in a folder killed later
        arguments, whole = ["infer", str(folder)], next(path for key, path in trained.killed.items() if key[0] == "explore")
    else:
        arguments = ["task" if stage == "task" else "run", WORLD, "--out", str(folder)]
    engine = {"judge": "bayes", "explore": "opa"}.get(stage)
    options = ["--engine", engine] if engine else []
    monkeypatch.setattr(sys, "argv", ["protoalign", *arguments, "--json", *options])
    with small():
        main()
    ours, theirs = (safetensors.numpy.load_file(path / "agent.safetensors") for path in (folder, whole))
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)
    assert stage in ("task", "judge") or ours.keys() == theirs.keys()
    if engine:
        assert figures(folder)["engines"][engine] == figures(trained.run)["engines"][engine]
        assert figures(folder)["bayes"] == figures(trained.run)["bayes"]
        assert engine == "bayes" or figures(folder) == figures(trained.run)


def test_settings_of_a_folder_stay_and_a_finished_one_is_only_shown(trained, copied, monkeypatch, capsys):
    folder = copied(trained.run, "history", "checkpoints")
    monkeypatch.setattr(sys, "argv", ["protoalign", "task", WORLD, "--out", str(folder), "--json"])
    with small():
        main()
    assert json.loads(capsys.readouterr().out)["env"] == WORLD
    for change in (["--seed", "4"], ["--steps", "200000"]):
        monkeypatch.setattr(sys, "argv", ["protoalign", "task", WORLD, "--out", str(folder), *change])
        with small(), pytest.raises(SystemExit):
            main()
        assert "choose another --out" in capsys.readouterr().err


def damage(name, change):
    def apply(folder):
        values = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(change(values)))

    return apply


def weights(change):
    def apply(folder):
        arrays = safetensors.numpy.load_file(folder / "agent.safetensors")
        safetensors.numpy.save_file(change(arrays), folder / "agent.safetensors")

    return apply


@pytest.mark.parametrize(
    "harm",
    [
        damage("agent.json", lambda x: x | {"format": "?"}),
        damage("agent.json", lambda x: x | {"spec": None}),
        damage("agent.json", lambda x: x | {"scene": {}}),
        damage("agent.json", lambda x: x | {"seed": "a"}),
        damage("agent.json", lambda x: x | {"parts": ["task", "nonsense"]}),
        damage("agent.json", lambda x: x | {"settings": {}}),
        damage("agent.json", lambda x: x | {"settings": x["settings"] | {"task": x["settings"]["task"] | {"network": "no"}}}),
        damage("agent.json", lambda x: x | {"scene": x["scene"] | {"prototypes": 7}}),
        damage("agent.json", lambda x: x | {"spec": x["spec"] | {"name": 3}}),
        lambda f: (f / "agent.json").write_text("{"),
        lambda f: (f / "agent.json").unlink(),
        lambda f: (f / "agent.safetensors").write_bytes(b"\xff" * 100),
        lambda f: (f / "agent.safetensors").unlink(),
        weights(lambda x: x | {"task.bias": x["task.bias"] + np.float32("nan")}),
        weights(lambda x: x | {"task.bias": x["task.bias"][:3]}),
        weights(lambda x: {k: v for k, v in x.items() if k != "vocabulary.pictures"}),
        weights(lambda x: x | {"presence": x["presence"][:1]}),
    ],
)
def test_agents_that_were_damaged_or_edited_are_refused_in_one_line(trained, tmp_path, harm):
    for name in ("agent.json", "agent.safetensors"):
        shutil.copy(trained.run / name, tmp_path)
    harm(tmp_path)
    with pytest.raises(UserError) as refusal:
        Agent.load(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_kill_between_the_agents_two_files_loses_nothing(trained, tmp_path, monkeypatch):
    """The arrays are of the agent with its judge, the words of the one before."""
    agent = Agent.load(trained.run)
    replace(agent, judge=None, weight=None, world_model=None, weights=None, alike=()).save(tmp_path)
    words = (tmp_path / "agent.json").read_text()
    agent.save(tmp_path)
    (tmp_path / "agent.json").write_text(words)
    found = Agent.load(tmp_path)
    assert found.judge is None
    assert found.weight is None
    assert found.engines == ("opa",)


def test_results_of_the_wrong_kind(trained, copied):
    folder = copied(trained.run, "history", "checkpoints")
    for text in ("[]", '{"seconds": 3}', "{"):
        (folder / "result.json").write_text(text)
        with pytest.raises(UserError):
            Run(folder, create=False).result()
    (folder / "metrics.jsonl").write_bytes(b'\xff\xfe{"stage"\n{"stage": "task", "update": 1}\n')
    assert [row["update"] for row in Run(folder).metrics("task")] == [1]
