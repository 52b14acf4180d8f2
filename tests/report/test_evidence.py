"""The evidence that settled each tile type: found in made-up traces, and drawn."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from protoalign.report import evidence, finding, pictures
from protoalign.report.story import Finding, Trace
from tests.report.reading import Reader, pictures_of
from tests.report.stories import make_story

STEPS = 10  # of the made-up traces: episodes of 6 and 4


def story(*believed: list[float], kept: int = STEPS) -> Finding:
    """A finding of types 0, 1, ... in which the belief that type i is prototype i is given before each step and in the end.

    The rest is for prototype i + 1. Tiles of type i are in row i of every picture.
    """
    found, _ = make_story(len(believed), 4, (8, 8), (4, 4), STEPS)
    assert found.trace is not None
    belief = np.zeros((STEPS + 1, len(believed), 4))
    for i, values in enumerate(believed):
        belief[:, i, i], belief[:, i, (i + 1) % 4] = values, 1 - np.array(values)
    shown = np.arange(kept, dtype=np.uint8)[:, None, None, None] * 10 + np.zeros((32, 32, 3), np.uint8)
    where = np.tile(np.arange(4)[:, None], (kept, 1, 4))
    trace = Trace(
        np.repeat([0, 1], [6, 4]), np.arange(STEPS) % 7, np.arange(STEPS) / 10, belief[:-1], np.linspace(0, 0.8, STEPS),
        np.ones((STEPS, len(believed)), bool), np.where(where < len(believed), where, -1), shown,
    )  # fmt: skip
    return replace(found, belief=belief[-1], verdict=np.arange(len(believed)), trace=trace)


def one(found: Finding, i: int = 0) -> evidence.Settled:
    assert found.trace is not None
    return evidence.settled(found, found.trace)[i]


def at(*rises: tuple[int, float]) -> list[float]:
    """0.25 until the first step given, whose value holds after it until the next one."""
    values = [0.25] * (STEPS + 1)
    for step, value in rises:
        values[step + 1 :] = [value] * (STEPS - step)
    return values


def test_the_step_from_which_on_it_was_believed():
    for rises, step in (([(3, 0.95)], 3), ([(1, 0.95), (4, 0.5), (7, 0.92)], 7), ([(2, 0.85), (8, 0.91)], 8), ([(9, 1.0)], 9)):
        found = one(story(at(*rises)))
        assert found.step == step, rises
        assert found.for_good
        assert found.kept


def test_the_largest_rise_if_it_was_never_believed():
    found = one(story(at((1, 0.3), (5, 0.8), (8, 0.89))))
    assert found.step == 5
    assert not found.for_good
    assert found.probability == pytest.approx((0.3, 0.8))


def test_no_step_at_all():
    always, never = [0.95] * (STEPS + 1), np.linspace(0.8, 0.3, STEPS + 1).tolist()
    found = story(always, never)
    first, second = one(found), one(found, 1)
    assert (first.step, first.for_good, second.step, second.for_good) == (None, True, None, False)
    text = Reader(finding.settled(found)).text
    assert "Believed before the first step." in text
    assert "No step made this more probable." in text
    assert not pictures_of(finding.settled(found), "scene")


def test_what_was_ruled_out():
    found = story(at((2, 0.96)))
    assert found.trace is not None
    belief = found.trace.belief.copy()
    belief[2, 0], belief[3:, 0] = (0.2, 0.1, 0.5, 0.2), (0.96, 0.001, 0.0, 0.199)
    found = replace(found, trace=replace(found.trace, belief=belief))
    out = one(found).out
    assert [c for c, _, _ in out] == [2, 1], "those that fell most first; 0.2 -> 0.199 is nothing"
    assert out[0][1:] == pytest.approx((0.5, 0.0))
    html = finding.settled(found)
    assert "thing 0 0.20 → 0.96" in Reader(html).text
    assert "Ruled out: thing 2 0.50 → 0.00 thing 1 0.10 → 0.00" in Reader(html).text
    assert "Made less probable: thing 1 0.75 → 0.20" in Reader(finding.settled(story(at((2, 0.8))))).text
    tiles = [np.asarray(tile.convert("RGB")) for tile in pictures_of(html, "tile")]
    for tile, c in zip(tiles[2:], (2, 1), strict=True):
        assert (tile == found.source[c]).all()


def test_pictures_before_and_after():
    html = finding.settled(story(at((3, 0.95)), at((7, 0.99))))
    text, scenes = Reader(html).text, pictures_of(html, "scene")
    assert "Episode 1, step 3" in text
    assert "Episode 2, step 1" in text, "steps are counted from 0 in each episode, as in films"
    assert "pickup reward +0.3" in text
    assert "noop reward +0.7" in text
    shades = [image.convert("RGB").getpixel((96, 182))[0] for image in scenes]  # in row 3, far from lines
    assert shades == [30, 40, 70, 80]
    alts = [image["alt"] for image in Reader(html).images if image["class"].startswith("scene")]
    assert alts[0] == "Before: episode 1, step 3, with 4 tiles of type 0 marked"
    assert alts[3] == "After: episode 2, step 1, with 4 tiles of type 1 marked"


def test_pictures_that_were_not_kept():
    html = finding.settled(story(at((5, 0.95)), at((9, 0.99))))
    assert len(pictures_of(html, "scene")) == 2, "an episode's last step has no picture after it"
    assert Reader(html).text.count("The last step of its episode: no picture was kept after it.") == 2
    found = story(at((3, 0.95)), at((4, 0.95)), kept=4)
    html = finding.settled(found)
    text = Reader(html).text
    assert len(pictures_of(html, "scene")) == 1
    assert "The picture after it was not kept." in text
    assert "The pictures of this step were not kept" in text
    assert found.trace is not None
    none = replace(found.trace, pictures=found.trace.pictures[:0], where=found.trace.where[:0])
    assert not pictures_of(finding.settled(replace(found, trace=none)), "scene")


def test_beliefs_that_were_not_kept_to_the_end():
    found = story(at((1, 0.5), (9, 0.95)), kept=4)
    assert (one(found).step, one(found).kept) == (3, False), "the last belief differs from those repeated since step 3"
    text = Reader(finding.settled(found)).text
    assert "After episode 1, step 3" in text
    assert "at which later step is not known" in text
    assert one(story(at((1, 0.5), (9, 0.95)), kept=STEPS)).kept
    assert one(story(at((1, 0.5), (6, 0.6), (9, 0.95)), kept=4)).step == 9


def test_types_that_are_not_in_the_pictures_or_new():
    found = story(at((3, 0.95)))
    assert found.trace is not None
    elsewhere = replace(found.trace, where=np.full_like(found.trace.where, -1))
    assert "No tile of this type is in the pictures" in finding.settled(replace(found, trace=elsewhere))
    met = found.trace.met.copy()
    met[:4] = False
    assert "met with this step for the first time" in finding.settled(replace(found, trace=replace(found.trace, met=met)))
    plain = finding.settled(found)
    assert "No tile of" not in plain
    assert "for the first time" not in plain


def test_many_types(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(finding, "MOST_SETTLED", 2)
    html = finding.settled(story(*[at((i, 0.95)) for i in range(3)]))
    assert "Of 3 types the first 2 are shown, 1 left out." in html
    assert len(pictures_of(html, "scene")) == 4


def test_lines_are_around_the_cells_meant():
    cells = np.zeros((4, 4), bool)
    cells[1, 1:3] = True
    image = np.asarray(Image.open(io.BytesIO(pictures.marked(np.full((32, 32, 3), 100, np.uint8), cells))).convert("RGB"))
    side = pictures.MARKED // 4
    yellow = (image == (0xFF, 0xE1, 0x4D)).all(-1)
    rows, columns = np.flatnonzero(yellow.any(1)), np.flatnonzero(yellow.any(0))
    assert abs(np.array([rows[0], rows[-1], columns[0], columns[-1]]) - [side, 2 * side, side, 3 * side]).max() <= 2
    assert not yellow[side + 5 : 2 * side - 5, 2 * side - 5 : 2 * side + 5].any(), "none between two cells that are both meant"
    whole = Image.open(io.BytesIO(pictures.marked(np.zeros((30, 20, 3), np.uint8), np.ones((3, 2), bool))))
    assert (np.asarray(whole)[:, :3].max(1) > 200).any(), "lines at the rim are inside"


def test_the_section_needs_types_and_a_trace():
    found = story(at((3, 0.95)))
    assert finding.settled(replace(found, trace=None)) == ""
    empty, _ = make_story(0, 4, (8, 8), (4, 4))
    assert finding.settled(empty) == ""
