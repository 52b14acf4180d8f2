"""What a page says of the two engines: one or both, what they earned meanwhile, how sure they say they are."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protoalign.errors import UserError
from protoalign.report import engines, finding, page, plots, target
from protoalign.report.figures import head, learning, settings
from protoalign.report.result import Result
from protoalign.runs import Run
from tests.report.conftest import BAYES
from tests.report.reading import Reader, pictures_of
from tests.report.stories import make_story
from tests.report.test_page import edit, refuse, without
from tests.report.test_pieces import figures

MEANWHILE = {"target_steps": 42, "sure_after": 17, "mapping_correct": True, "explore_returns": [0.5, 1.25]}
MEANWHILE |= {"target_return_own": 1.2, "target_return_own_se": 0.05}
OPA = MEANWHILE | {"target_steps": 1234, "sure_after": None, "mapping_correct": False, "explore_returns": [-0.25]}
BOTH: dict[str, Any] = {"engines": {"bayes": MEANWHILE, "opa": OPA}, "bayes": BAYES}
BOTH |= {"seconds": {"task": 60.0, "model": 12.0, "infer": 20.0, "explore": 30.5, "transfer bayes": 3.0}}


def told(**more: Any) -> Result:
    return figures(make_story(2, 3, (8, 8), (4, 4))[0], **more)


@pytest.mark.usefixtures("_no_curves")
def test_a_run_of_one_engine(finished: Path, folder: Path):
    result = Run(finished).result()
    text = Reader(page.write(folder).read_text()).text
    assert "The two engines" in text
    assert "Found by the engine bayes" in text
    bayes = without("explore_steps", "one_episode_correct", "two_episodes_correct")(result)
    bayes |= {"engines": {"bayes": result["engines"]["bayes"]}, "seconds": {"task": 61.0, "model": 12.5, "transfer bayes": 1.0}}
    (folder / "result.json").write_text(json.dumps(bayes))
    (folder / "metrics.jsonl").unlink()
    (folder / "mapping-opa.json").unlink()
    text = Reader(page.write(folder).read_text()).text
    assert "The two engines" not in text
    assert "as sure as it should" in text
    for words in ("explor", "opa"):
        assert not re.search(rf"\b{words}", text, re.IGNORECASE), words
    for path in folder.glob("mapping*"):
        path.unlink()
    for ending in (".json", ".safetensors"):
        shutil.copy(finished / f"mapping-opa{ending}", folder)
    opa = result | result["engines"]["opa"]
    opa = {key: value for key, value in opa.items() if key not in ("bayes", "engines")}
    opa["seconds"] = {"task": 61.0, "infer": 20.5, "explore": 38.5}
    (folder / "result.json").write_text(json.dumps(opa | {"engines": {"opa": result["engines"]["opa"]}}))
    html = page.write(folder).read_text()
    text = Reader(html).text
    for words in ("Found by the engine opa", "of exploration taken together", "a policy of its own explored", "Exploring"):
        assert words in text, words
    assert "bayes" not in text.lower()
    assert len(pictures_of(html, "film")) == 3


@pytest.mark.usefixtures("_no_curves")
def test_a_mapping_of_another_engine(finished: Path, folder: Path):
    edit(folder / "result.json", lambda result: result.update(engine="opa"))
    for ending in (".json", ".safetensors"):
        shutil.copy(finished / f"mapping{ending}", folder / f"mapping-opa{ending}")
    refuse(folder, "another engine")


def test_nothing_is_called_exploration_where_the_task_policy_plays():
    found, shown = make_story(2, 3, (8, 8), (4, 4))
    bayes, opa = told(), told(engine="opa")
    for result, story in ((bayes, found), (opa, replace(found, engine="opa"))):
        html = head(result) + target.mapping(result, story) + finding.mind(story) + finding.films(story, shown)
        html += finding.settled(story) + settings(result) + learning(result, {})
        assert bool(re.search("explor", html, re.IGNORECASE)) == (result is opa)
        assert f"the engine {result.engine}" in html


def test_only_what_was_trained_is_drawn():
    def drawn(logged: Any, *seconds: str) -> list[str]:
        html = learning(told(seconds=dict.fromkeys(seconds, 1.0)), logged)
        return [Reader(html).text.split("How it learned ")[1].split(",")[0], *re.findall("<h3>(.*?):", html)]

    assert drawn({}, "task") == ["One part", *["Task policy"] * 2]
    assert drawn({}, "task", "model") == ["Two parts", *["Task policy"] * 2, *["Judge of bayes"] * 2]
    assert drawn({("model", "tiles"): [(1, 2.0)]}) == ["Two parts", *["Task policy"] * 2, "World model of bayes"]
    names = ["Inference model of opa", "Exploration policy of opa"]
    assert drawn({}, "infer", "explore")[3:] == [names[0], names[0], names[1], names[1]]


def test_what_one_episode_told_is_of_everything_or_of_what_was_met():
    text = Reader(learning(told(one_episode_met_correct=0.25, four_episodes_met_correct=0.5), {})).text
    assert "after one, four episodes of exploration, all that was met is right in 25.0 %, 50.0 % of imagined worlds" in text
    assert "everything is right" not in text


def test_returns_of_the_first_episodes():
    html = engines.meanwhile(told(**BOTH))
    text, alts = Reader(html).text, [image["alt"] for image in Reader(html).images]
    assert alts[0] == "Returns of the first episodes in the target: bayes 0.50, 1.25; opa -0.25. The source's mean: 1.25"
    assert alts[1] == "Return divided by the source's: game 1 0.80, game 2 0.96"
    assert "0.80 ± 0.02 , 0.96 ± 0.01" in text, "the source's error, 0.01, is in it"
    assert "512 new looks" in text
    first, second = ("".join(plot.itertext()) for plot in pictures_of(html, "plot"))
    assert all(word in first for word in ("bayes", "opa", "source, mean"))
    assert "0.96" in second
    one = Reader(engines.meanwhile(told(explore_returns=[float(i) for i in range(20)]))).text
    assert "Of 20 episodes the first 12 are shown" in one
    assert "opa" not in one
    assert engines.meanwhile(told(explore_returns=[])) == ""
    nothing = Reader(engines.meanwhile(told(**BOTH, source_return=0.0))).text
    assert "1.00 ± 0.02, 1.20 ± 0.01" in nothing
    assert "nothing is divided by it" in nothing


def test_bars_of_episodes(monkeypatch: pytest.MonkeyPatch):
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(plots, "_svg", lambda figure: drawn.update(axis=figure.axes[0]) or b"<svg/>")
    plots.episodes({"bayes": [0.5, 1.25], "opa": [-0.25]}, (1.0, 0.1))
    bars = [(round(bar.get_x() + bar.get_width() / 2, 2), bar.get_height()) for bar in drawn["axis"].patches[:3]]
    assert bars == [(0.8, 0.5), (1.8, 1.25), (1.2, -0.25)]
    plots.ratios([(0.8, 0.1)])
    assert drawn["axis"].patches[0].get_height() == 0.8
    plots.calibration(told(bayes=BAYES).imagined.calibration)  # type: ignore[union-attr]
    points = drawn["axis"].collections[0]
    assert np.allclose(points.get_offsets(), [(0.18, 0.21), (0.61, 0.55), (0.998, 0.997)])
    sizes = points.get_sizes()
    assert sizes[2] > sizes[0] > sizes[1]


def test_calibration():
    html = engines.calibration(told(bayes=BAYES))
    text = Reader(html).text
    assert Reader(html).images[0]["alt"] == (
        "Said and right: 0.18 and 0.21 (400 steps); 0.61 and 0.55 (90 steps); 1.00 and 1.00 (1,500 steps)"
    )
    for words in ("0.6100 0.5500 90", "0.9980 0.9970 1,500", "512 imagined worlds"):
        assert words in text, words
    assert "It is 0.99 sure after 17.25 ± 0.50 steps on average, in 75.0 % of worlds; right then in 98.5 % of these." in text
    assert "After one, two games, everything is right in 87.5 %, 96.0 %" in text
    never = engines.calibration(told(bayes=BAYES | {"sure_steps": None, "sure_right": None}))
    assert "It is 0.99 sure" not in never
    for nothing in ({}, {"bayes": None}, {"bayes": BAYES | {"calibration": []}}, {"bayes": {}}):
        assert engines.calibration(told(**nothing)) == ""


def test_engines_side_by_side():
    text = Reader(engines.compared(told(**BOTH))).text
    for words in (
        "bayes, by playing opa, by exploring",
        "steps in the target 42 1,234",
        "steps until 0.99 sure 17 never",
        "mapping right yes NO",
        "returns meanwhile / source 0.40, 1.00 -0.20",
        "return afterwards 1.200 ± 0.050 1.200 ± 0.050",
        "seconds of training besides pi_task 12 50",
        "the mapping found by bayes",
    ):
        assert words in text, words
    assert engines.compared(told(engines={"bayes": MEANWHILE})) == ""
    assert engines.compared(told()) == ""
    unknown = Reader(engines.compared(told(**BOTH | {"seconds": {"infer": 1.0}}, source_return=-1.0))).text
    assert "besides pi_task ? ?" in unknown
    assert "0.50, 1.25 (not divided" in unknown


def test_sureness_is_below_the_beliefs(monkeypatch: pytest.MonkeyPatch):
    found, _ = make_story(2, 3, (8, 8), (4, 4))
    assert found.trace is not None
    html = finding.mind(found)
    strips, every = pictures_of(html, "plot")
    assert "sure" in [text.strip() for text in strips.itertext()]
    assert "0.90" in [text.strip() for text in strips.itertext()]
    assert "episode 2" in [text.strip() for text in every.itertext()]
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(plots, "_svg", lambda figure: drawn.update(axes=figure.axes) or b"<svg/>")
    plots.sureness(found.trace, 0.95)
    line = drawn["axes"][0].lines[1]
    assert np.allclose(line.get_ydata(), [*found.trace.sureness, 0.95])
    plots.beliefs(found, found.trace)
    area = drawn["axes"][-3].collections[0].get_paths()[0].vertices
    assert area[:, 1].max() == pytest.approx(found.trace.sureness[24]), "of the first episode, whose last step is 24"
    once = replace(found.trace, episode=np.zeros_like(found.trace.episode))
    assert len(pictures_of(finding.mind(replace(found, trace=once)), "plot")) == 1


WRONG: dict[str, Callable[[dict[str, Any]], Any]] = {
    "engine of another name": lambda r: r.update(engine="<b>"),
    "engines is a list": lambda r: r.update(engines=[1]),
    "engines of another name": lambda r: r["engines"].update({"<b>": {}}),
    "an engine is a number": lambda r: r["engines"].update(opa=3),
    "an engine without steps": lambda r: r["engines"]["opa"].pop("target_steps"),
    "an engine whose returns are words": lambda r: r["engines"]["opa"].update(explore_returns=["much"]),
    "an engine sure after a word": lambda r: r["engines"]["bayes"].update(sure_after="soon"),
    "sure after half a step": lambda r: r.update(sure_after=0.5),
    "explore_steps is a word": lambda r: r.update(explore_steps="many"),
    "a share above 1": lambda r: r.update(one_episode_correct=2.0),
    "a share of what was met above 1": lambda r: r.update(one_episode_met_correct=2.0),
    "bayes is a list": lambda r: r.update(bayes=[]),
    "returns without errors": lambda r: r["bayes"].update(returns=[1.0, 2.0]),
    "returns of three": lambda r: r["bayes"].update(returns=[[1.0, 0.1, 2.0]]),
    "negative errors": lambda r: r["bayes"].update(returns=[[1.0, -0.1]]),
    "calibration of words": lambda r: r["bayes"].update(calibration=[["a"] * 5]),
    "calibration outside": lambda r: r["bayes"].update(calibration=[[0, 1, 0.5, 1.5, 3]]),
    "calibration of nothing": lambda r: r["bayes"].update(calibration=[[0, 1, 0.5, 0.5, 0]]),
    "calibration is false": lambda r: r["bayes"].update(calibration=False),
    "sure_steps is a number": lambda r: r["bayes"].update(sure_steps=3),
    "sure_right above 1": lambda r: r["bayes"].update(sure_right=3),
    "measured_worlds is a word": lambda r: r["bayes"].update(measured_worlds="many"),
}


@pytest.mark.parametrize("name", WRONG)
def test_figures_of_engines_that_are_wrong(finished: Path, name: str):
    values = json.loads((finished / "result.json").read_text())
    Result(values, "r").check()
    WRONG[name](values)
    with pytest.raises(UserError, match=r"^('.*in )?r (has no|is not)") as error:
        Result(values, "r").check()
    assert len(str(error.value).splitlines()) == 1


def test_figures_that_may_be_missing(finished: Path):
    values = json.loads((finished / "result.json").read_text())
    optional = ("explore_steps", "one_episode_correct", "bayes", "engines", "sure_after")
    for key in optional:
        Result(without(key)(values)).check()
    Result(without(*optional)(values)).check()
