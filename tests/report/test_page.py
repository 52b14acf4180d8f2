"""The page of a finished run, and of folders that are not."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import safetensors.numpy

from protoalign.agent import Agent
from protoalign.alignment import transfer
from protoalign.alignment.mapping import Mapping
from protoalign.errors import UserError
from protoalign.report import evidence, page, pictures, replay
from protoalign.report.markup import decimal
from protoalign.report.result import Result
from protoalign.report.story import found
from protoalign.rl import train
from protoalign.runs import Run
from protoalign.worlds import registry
from tests.report.conftest import Tiny
from tests.report.reading import Reader, pictures_of

EVIL = '<b>"x" & y[/x]</b>'


@pytest.fixture(scope="module")
def html(finished: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:  # it reads the mapping: nothing is trained, no target explored
        for module, name in ((transfer, "align"), (train, "train"), (train, "fit")):
            patch.setattr(module, name, lambda *_, **__: pytest.fail("the page works too hard"))
        patch.setattr(Agent, "align", lambda *_, **__: pytest.fail("the page explores again"))
        out = page.write(finished)
    assert out == finished / "report.html"
    return out.read_text()


@pytest.fixture(scope="module")
def mapping(finished: Path) -> Mapping:
    return Mapping.load(finished / "mapping")


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a JSON file by hand."""
    values = json.loads(path.read_text())
    path.write_text(json.dumps(change(values) or values))


def test_every_picture_is_in_the_page(html: str, mapping: Mapping):
    reader = Reader(html)
    assert all(image["alt"] for image in reader.images if "srcset" not in image)
    assert not re.search(r"https?://|url\(|<script|<link|@import", html), "it needs nothing from elsewhere"
    boards = [np.asarray(board.convert("RGB")) for board in pictures_of(html, "board")]
    world = registry.make("tiny")
    for board, look in zip(boards, ("source", "target"), strict=False):
        assert (board == world.make(look).reset(seed=3)[0]).all()
    assert mapping.trace is not None
    assert (boards[2] == mapping.translate(mapping.trace.pictures[0])).all()
    tiles, kinds, rows = pictures_of(html, "tile"), len(mapping.hideable), len(mapping.types)
    finding = found(mapping, world.spec.actions, world.spec.grid)
    assert finding.trace is not None
    ruled_out = sum(len(one.out) for one in evidence.settled(finding, finding.trace))
    assert len(tiles) == 2 * kinds + kinds + 2 * rows + 2 * len(finding.types) + ruled_out
    assert {picture.size for picture in tiles} == {(12, 12)}
    assert len(pictures_of(html, "plot")) == 1 + 8 + 2 + 2 + 1, "returns; curves; beliefs and sureness; meanwhile; calibration"
    assert len(html) < 4_000_000


def test_films(html: str, mapping: Mapping):
    finding_out, before, after = pictures_of(html, "film")
    assert finding_out.n_frames == min(mapping.steps, pictures.MOST_FRAMES) + 1
    assert len(pictures_of(html, "still")) == 3
    lengths = []
    for film in (before, after):
        times = []
        for t in range(film.n_frames):
            film.seek(t)
            times.append(film.info["duration"])
        assert set(times[:-1]) == {pictures.STEP}
        assert film.info["loop"] == 0
        lengths.append(sum(times))
    assert lengths[0] == lengths[1], "both start over together"
    before.seek(0)
    first = np.asarray(before.convert("RGB")).astype(int)
    left, top, size, scale = pictures.MARGIN, pictures.HEADER, 96, 3
    board = first[top : top + size * scale : scale, left : left + size * scale : scale]
    assert abs(board - registry.make("tiny").make("target").reset(seed=3)[0]).mean() < 4


def test_figures_are_those_of_the_result(html: str, finished: Path, mapping: Mapping):
    result, text = Run(finished).result(), Reader(html).text
    for name in ("source_return", "target_return_before", "target_return", "ratio", "ratio_own", "trained_return"):
        assert f"{decimal(result[name])} ± {decimal(result[f'{name}_se'])}" in text, name
    words = ("tiny", "8 games each", "43.2 %, 50.0 % of imagined worlds", "20.5 s", result["versions"]["jax"])
    words += ("engine bayes", "After one, two games, everything is right in 87.5 %, 96.0 % of imagined worlds")
    for said in (*words, f"{result['target_steps']} step", f"{result['sureness']:.4f}"):
        assert said in text, said
    for row in result["mapping"]:
        assert f"{row['found']} {row['probability']:.4f}" in text
    assert len(re.findall("(right|wrong: is [a-z ]+) (new|as in the source)", text)) == len(mapping.types)
    assert f"{result['kinds_right']} of {result['redrawn']} redrawn kinds" in text
    for doubt in result["doubts"]:
        assert doubt in text
    assert "The mapping is not right" in text or result["mapping_correct"]
    assert "by identity" in text
    assert "is not the one" not in text


def test_the_page_is_the_same_every_time(html: str, finished: Path):
    assert page.write(finished).read_text() == html
    assert not list(finished.glob(".report*"))


@pytest.mark.usefixtures("_no_curves")
def test_names_are_shown_as_they_are(folder: Path):
    def rename(result: dict[str, Any]) -> None:
        result |= {"target": EVIL, "env": EVIL, "preset": EVIL, "doubts": [EVIL], "kinds_not_met": [EVIL], "misread": [EVIL]}
        result |= {
            "seconds": {EVIL: 1.0},
            "versions": {EVIL: EVIL},
            "source_achievements": {EVIL: 0.25},
            "mapping_correct": False,
        }
        for row in result["mapping"]:
            row["true"] = EVIL

    def rename_kinds(said: dict[str, Any]) -> None:
        said["names"] = [f"{EVIL} {i}" for i in range(len(said["names"]))]

    edit(folder / "result.json", rename)
    edit(folder / "mapping.json", rename_kinds)
    with pytest.raises(UserError, match="other prototypes"):
        page.write(folder)
    edit(folder / "agent.json", lambda about: about["spec"].update(truth=[f"{EVIL}{i}" for i in range(5)]))
    edit(folder / "mapping.json", lambda said: said.update(names=[f"{EVIL}{i}" for i in range(5)]))
    html = page.write(folder).read_text()
    reader = Reader(html)
    assert EVIL not in html
    assert reader.text.count(EVIL) > 12
    assert "25.0 %" in reader.text
    assert "cannot be shown again" in reader.text
    assert any(EVIL in image.get("alt", "") for image in reader.images)


@pytest.mark.usefixtures("_no_curves")
def test_a_world_that_is_not_listed(folder: Path, mapping: Mapping, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "WORLDS", [])
    html = page.write(folder).read_text()
    assert "The target cannot be shown again here (no world is called" in Reader(html).text
    assert len(pictures_of(html, "film")) == 1, "how it was found is in the mapping"
    assert len(pictures_of(html, "board")) == 2
    assert len(pictures_of(html, "tile")) >= len(mapping.hideable) + 2 * len(mapping.types)


def test_a_world_made_with_options(folder: Path, finished: Path, monkeypatch: pytest.MonkeyPatch):
    row = registry.row("tiny")
    monkeypatch.setattr(registry, "WORLDS", [replace(row, make=lambda: Tiny(tile=8))])
    result = Result(Run(folder).result())
    with pytest.raises(replay.CannotShow, match="pictures of another size"):
        replay.again(result, Agent.load(folder), Mapping.load(folder / "mapping"))


@pytest.mark.usefixtures("_no_curves")
@pytest.mark.parametrize("change", [{"target": "no such folder"}, {"noise": "much"}, {"noise": 0.1}, {"transfer_seed": -1}])
def test_a_target_that_cannot_be_made(folder: Path, change: dict[str, Any]):
    edit(folder / "result.json", lambda result: result.update(change))
    if "target" in change or change == {"noise": 0.1}:
        shown = "cannot be shown again" in page.write(folder).read_text()
        assert shown == ("target" in change)
    else:
        with pytest.raises(UserError, match=next(iter(change))):
            page.write(folder)


def without(*keys: str) -> Callable[[dict[str, Any]], Any]:
    return lambda values: {key: value for key, value in values.items() if key not in keys}


NEEDED = (
    "env", "seed", "preset", "task_steps", "engine", "source_return", "target_return_before", "target_return_se",
    "ratio", "ratio_own_se", "explore_episodes", "target_steps", "sureness", "target", "transfer_seed", "games",
)  # fmt: skip


@pytest.mark.parametrize("key", NEEDED)
def test_figures_that_are_missing_or_mistyped(folder: Path, key: str):
    original = (folder / "result.json").read_text()
    for value in (None, [], {}, float("nan"), 10**400, True):
        (folder / "result.json").write_text(original)
        edit(folder / "result.json", lambda result, value=value: result.update({key: value}))  # type: ignore[misc]
        refuse(folder, key)
    (folder / "result.json").write_text(original)
    edit(folder / "result.json", without(key))
    refuse(folder, key)


def refuse(folder: Path, words: str = ".") -> None:
    """The page is refused in one line."""
    with pytest.raises(UserError, match=words) as error:
        page.write(folder)
    assert len(str(error.value).splitlines()) == 1
    assert not (folder / "report.html").exists()


BROKEN: dict[str, tuple[str, Any]] = {
    "result is a list": ("result.json", []),
    "result is text": ("result.json", "x"),
    "result of the task only": ("result.json", {"source_return": 1.0}),
    "mapping is a number": ("result.json", lambda r: r.update(mapping=3)),
    "mapping of numbers": ("result.json", lambda r: r.update(mapping=[1, 2])),
    "mapping without probability": ("result.json", lambda r: r.update(mapping=[{"true": "a", "found": "b"}])),
    "mapping_correct is a word": ("result.json", lambda r: r.update(mapping_correct="yes")),
    "seconds is a list": ("result.json", lambda r: r.update(seconds=[1])),
    "seconds are words": ("result.json", lambda r: r.update(seconds={"task": "long"})),
    "versions is a number": ("result.json", lambda r: r.update(versions=1)),
    "doubts is a word": ("result.json", lambda r: r.update(doubts="many")),
    "extra figures are mixed": ("result.json", lambda r: r.update(source_score=1.0, target_score={"a": 1})),
    "negative error": ("result.json", lambda r: r.update(ratio_se=-1)),
    "brackets": ("result.json", b"[" * 200_000),
    "half a result": ("result.json", b'{"env": '),
    "not text": ("result.json", b"\xff\xfe\x00"),
    "metrics of words": ("metrics.jsonl", b'{"stage": "task", "update": 1, "steps": 3, "return": "good"}\n'),
    "metrics without steps": ("metrics.jsonl", b'{"stage": "task", "update": 1, "return": 1.0}\n'),
    "config is a list": ("config.json", []),
    "mapping file is a list": ("mapping.json", []),
    "mapping of another edition": ("mapping.json", lambda m: m.update(format="x")),
    "mapping without names": ("mapping.json", without("names")),
    "tensors of nothing": ("mapping.safetensors", b""),
    "tensors of noise": ("mapping.safetensors", b"\x10" * 1000),
    "no agent": ("agent.json", None),
    "no mapping": ("mapping.json", None),
    "no tensors": ("mapping.safetensors", None),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders(folder: Path, name: str):
    file, change = BROKEN[name]
    if change is None:
        (folder / file).unlink()
    elif isinstance(change, bytes):
        (folder / file).write_bytes(change)
    elif callable(change):
        edit(folder / file, change)
    else:
        (folder / file).write_text(json.dumps(change))
    refuse(folder)


@pytest.mark.parametrize("part", ["episode", "action", "reward", "belief", "sureness", "pictures"])
def test_a_damaged_trace(folder: Path, part: str):
    path = folder / "mapping.safetensors"
    original = safetensors.numpy.load(path.read_bytes())
    good = original[f"trace.{part}"]
    bad: list[np.ndarray | None] = [
        None,
        good[:-1],
        good[:0],
        good[None].copy(),
        good.astype(np.float64) * np.nan,
        np.zeros(3, bool),
    ]
    if part == "action":
        bad.append(good + 100)
    if part == "sureness":
        bad += [good + 1.5, good - 1.5]
    for value in bad:
        if part == "pictures" and value is not None and value.dtype == np.uint8 and value.shape[1:] == good.shape[1:]:
            continue  # fewer pictures are fine
        arrays = (
            original | {f"trace.{part}": value} if value is not None else {k: v for k, v in original.items() if part not in k}
        )
        data = safetensors.numpy.save({key: np.ascontiguousarray(x) for key, x in arrays.items()})
        path.write_bytes(data)
        edit(folder / "mapping.json", lambda said, data=data: said.update(sha256=hashlib.sha256(data).hexdigest()))  # type: ignore[misc]
        refuse(folder, "damaged")


@pytest.mark.usefixtures("_no_curves")
def test_a_mapping_without_its_trace(folder: Path):
    mapping = Mapping.load(folder / "mapping")
    mapping.trace = None
    mapping.save(folder / "mapping")
    text = Reader(page.write(folder).read_text()).text
    assert "How the mapping was found was not kept" in text
    assert "What settled it" not in text
    assert "finding out meanwhile" not in text


@pytest.mark.usefixtures("_no_curves")
def test_another_mapping_than_the_result_tells_of(folder: Path):
    edit(folder / "result.json", lambda result: result.update(mapping=result["mapping"][1:]))
    assert "is not the one that result.json tells of" in page.write(folder).read_text()


@pytest.mark.usefixtures("_short_films")
def test_metrics_that_are_odd_but_harmless(folder: Path):
    lines = ['{"stage": "task", "update": 1, "steps": 3, "return": NaN}', "[]", "half a li", '{"stage": [], "update": {}}']
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("\n".join([*lines, ""]))
    page.write(folder)
    (folder / "metrics.jsonl").unlink()
    plots = pictures_of(page.write(folder).read_text(), "plot")
    assert sum("nothing was logged" in "".join(plot.itertext()) for plot in plots) == 8


def test_unfinished_folders(tmp_path: Path, finished: Path):
    refuse(tmp_path, "not a run folder")
    (tmp_path / "config.json").write_text((finished / "config.json").read_text())
    refuse(tmp_path, "not finished")


class Corridor(gymnasium.Env[dict[str, Any], np.int64]):
    """Five steps to the right; a view and a number."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.place = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.place += int(action)
        return self._seen(), 0.5, self.place == 5, False, {}

    def _seen(self) -> dict[str, Any]:
        return {"view": np.full((4, 6, 3), self.place, np.uint8), "numbers": np.array([self.place], np.float32)}


def test_games_are_watched_to_their_end_or_cut():
    game = replay.watch(Corridor(), lambda seen: int(seen["numbers"][0] >= 0), 0)
    assert game.whole
    assert game.rewards == [0.5] * 5
    assert [int(picture[0, 0, 0]) for picture in game.pictures] == list(range(6))
    cut = replay.watch(Corridor(), lambda seen: 0, 0, most=7)
    assert not cut.whole
    assert len(cut.actions) == 7 == len(cut.pictures) - 1


def test_heavy_modules_stay_out():
    code = "import sys, protoalign.console, protoalign.report.page; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
