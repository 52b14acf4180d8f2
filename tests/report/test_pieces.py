"""The page's parts on stories of any size: many types or none, tiles of any shape, views with numbers, extra figures."""

import io
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from protoalign.errors import UserError
from protoalign.report import finding, page, pictures, plots, target
from protoalign.report.figures import head, returns
from protoalign.report.result import Result, Row, summary
from protoalign.report.story import Finding
from tests.report.reading import Reader, pictures_of
from tests.report.stories import make_story

MEASURED = (
    "source_return",
    "target_return_before",
    "target_return",
    "target_return_own",
    "ratio",
    "ratio_own",
    "trained_return",
)
PLAYERS = ("trained", "source", "target_before", "target", "target_own")


def figures(found: Finding, **more: Any) -> Result:
    """A result that fits a finding."""
    taken = [(k, True) for k in found.verdict] + [(k, False) for k in np.flatnonzero(found.known)]
    names = [found.names[k] for k, _ in taken]
    rows = [
        {"true": name, "found": name, "probability": 0.5, "unseen": new} for name, (_, new) in zip(names, taken, strict=True)
    ]
    values: dict[str, Any] = dict.fromkeys(MEASURED, 1.25) | {f"{key}_se": 0.01 for key in MEASURED}
    values |= {f"{who}_length": 20.5 for who in PLAYERS} | {f"{who}_episodes": 64 for who in PLAYERS}
    values |= {
        "env": "some-world", "target": "some look", "seed": 0, "preset": "fast", "transfer_seed": 1, "games": 64,
        "task_steps": 10, "engine": "bayes", "explore_episodes": 2, "target_steps": 30,
        "explore_returns": [-0.5, 1], "sureness": 0.9,
        "doubts": [], "mapping": rows, "mapping_correct": True, "redrawn": len(found.types), "kinds_right": len(found.types),
        "kinds_not_met": [], "misread": [], "seconds": {"task": 61.0}, "versions": {"python": "3.11"},
    }  # fmt: skip
    return Result(values | more)


@pytest.mark.parametrize(
    ("types", "kinds", "tile", "grid"),
    [
        (0, 5, (8, 8), (8, 8)),
        (1, 1, (16, 16), (3, 3)),
        (4, 14, (5, 9), (7, 9)),
        (6, 25, (32, 32), (16, 11)),
        (3, 60, (1, 1), (1, 1)),
    ],
)
@pytest.mark.usefixtures("_no_curves")
def test_stories_of_any_size(types: int, kinds: int, tile: tuple[int, int], grid: tuple[int, int]):
    found, shown = make_story(types, kinds, tile, grid)
    html = page.render(figures(found), found, shown, {})
    text = Reader(html).text
    assert html.count('<div class="meter"') == types + 1
    assert "cut after 9 steps" in text
    assert "Only the first 12 of 30 steps" in text
    for kind in found.names:
        assert kind in text
    exploring, before, after = pictures_of(html, "film")
    assert (exploring.n_frames, before.n_frames, after.n_frames) == (13, 5, 10)
    assert max(max(film.size) for film in (before, after)) <= pictures.BOARD + pictures.HEADER + 2 * pictures.MARGIN
    assert ("most probable are shown" in text) == (kinds > target.MOST_CELLS)
    assert ("Nothing in the target looked new" in text) == (types == 0)
    assert {picture.size for picture in pictures_of(html, "tile")} == {tile[::-1]}


@pytest.mark.usefixtures("_no_curves")
def test_a_story_without_games_or_trace():
    found, _ = make_story(2, 3, (8, 8), (4, 4))
    html = page.render(figures(found), replace(found, trace=None, translated=None), "<no> such world", {})
    assert "&lt;no&gt; such world" in html
    assert "Watch it" not in html


def test_figures_that_a_world_tells_besides():
    found, _ = make_story(2, 3, (8, 8), (4, 4))
    more: dict[str, Any] = {f"{who}_achievements": {"find_it": 0.25, "<keep it>": 3.5} for who in PLAYERS}
    more |= {f"{who}_score": 12.345 for who in PLAYERS} | {"target_noise": 3}
    text = Reader(returns(figures(found, **more))).text
    assert (
        "Achievements source, as trained source target, before target, after target, its own games find it 25.0 % 25.0 %"
        in text
    )
    assert "<keep it> 3.50" in text
    assert "score 12.35 12.35" in text
    assert "length of a game, steps 20.5 20.5" in text


def test_what_is_not_right_is_said():
    found, _ = make_story(2, 3, (8, 8), (4, 4))
    wrong: Any = figures(found, mapping_correct=False, kinds_right=1, kinds_not_met=["tree"], misread=["stone"])
    wrong.values["mapping"][0]["true"] = "something else"
    text = Reader(head(wrong) + target.mapping(wrong, found)).text
    assert "wrong: is something else" in text
    said = "The mapping is not right: 1 of 2 redrawn kinds were taken for what they are. Never met: tree."
    assert text.count(said) == 2
    unknown = figures(found, mapping_correct=None)
    for row in unknown.values["mapping"]:
        del row["true"]
    text = Reader(head(unknown) + target.mapping(unknown, found)).text
    assert "was not judged" in text
    assert "wrong" not in text
    assert summary(figures(found, redrawn=0, kinds_right=0)) == "The mapping is right: nothing was redrawn."


def test_rows_are_right_whatever_number_their_prototype_has():
    assert Row("wall", "wall 2", 1.0, True).right
    assert Row("wall", "wall", 1.0, True).right
    assert Row("type 2", "type 2", 1.0, True).right
    assert Row("wall", "floor 2", 1.0, True).right is False
    assert Row(None, "floor", 1.0, True).right is None
    assert Row("prototype", "prototype 2", 1.0, True, False).right is False, "what the judge said counts"


def test_a_type_that_is_met_late():
    found, _ = make_story(4, 5, (8, 8), (4, 4))
    assert found.trace is not None
    assert ElementTree.fromstring(plots.beliefs(found, found.trace)).tag.endswith("svg")
    never = replace(found.trace, met=np.zeros_like(found.trace.met))
    assert b"svg" in plots.beliefs(found, never)
    moving, still = pictures.finding_out(found, never)
    assert Image.open(io.BytesIO(moving)).size == Image.open(io.BytesIO(still)).size


def test_more_types_than_are_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plots, "MOST_TYPES", 2)
    monkeypatch.setattr(pictures, "MOST_TYPES", 2)
    found, shown = make_story(4, 5, (8, 8), (4, 4))
    assert "Of 4 types the first 2 are shown" in finding.mind(found)
    assert len(pictures_of(finding.films(found, shown), "film")) == 3


def test_many_rewards_and_long_episodes():
    rewards = np.full(400, 0.1)
    rewards[7::50] = -1
    told = plots._told(rewards)
    assert len(told) <= plots.MOST_REWARDS + 1
    assert [t for t, reward in told if reward < 0] == list(range(7, 400, 50))
    assert np.diff([t for t, _ in told]).min() >= 400 / plots.MOST_REWARDS
    assert plots._told(np.array([0.0, -0.1, 0.2])) == [(1, -0.1), (2, 0.2)]
    assert [plots._every(n) for n in (1, 45, 46, 300, 10_000)] == [1, 1, 5, 10, 222]


def test_returns_of_any_sign():
    for means in ((1.5, -0.2, 1.4, 1.3), (-1.0, -2.0, -0.5, -0.1), (0.0, 0.0, 0.0, 0.0)):
        drawn = plots.returns([(name, mean, 0.01) for name, mean in zip("abcd", means, strict=True)]).decode()
        for mean in means:
            assert f"{mean:.2f}".replace("-", "−") in drawn
        assert "var(--ink)" in drawn
        assert plots.INK not in drawn


def test_curves_of_little():
    for points in ((), [(1, 2.0)], [(0, 0.0), (10, 1.0), (2e6, 3.0)]):
        assert b"svg" in plots.curve(points, ("steps", "share right"), "#123456")


def test_signs_and_colours():
    signs = {
        name: pictures.glyph(name) for name in ("up", "move_left", "fire-right", "turn left", "noop", "pick-up", "teleport")
    }
    assert list(signs.values()) == ["↑", "←", "⇒", "↶", "·", "▴", "tel"]
    assert len({pictures.colour(c) for c in range(40)}) == 40
    assert pictures.signed(-0.5) == "−0.5"
    assert pictures.signed(1e-9) == "0"


def test_checked_figures():
    result = Result({"a": 1, "b": "x", "c": float("inf")}, "somewhere")
    assert result.number("a") == 1
    for key in ("b", "c", "d"):
        with pytest.raises(UserError, match=f"^somewhere has no number called '{key}'"):
            result.number(key)
    with pytest.raises(UserError, match="not a table"):
        Result([1])
