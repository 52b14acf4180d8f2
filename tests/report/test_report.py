"""The report page of a run that never learned anything: untrained networks, but saved, moved and shown in the real way."""

import base64
import io
import json
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from protoalign import envs, stages
from protoalign.alignment import transfer
from protoalign.alignment.exploration import ExplorerNet, ImaginedWorld
from protoalign.alignment.inference import InferenceNet
from protoalign.cli import main
from protoalign.config import ExploreConfig, InferConfig, plain, task_config
from protoalign.envs import appearance
from protoalign.envs.gym import HunterEnv
from protoalign.envs.hunter import Hunter
from protoalign.errors import UserError
from protoalign.perception.categories import Labelled
from protoalign.report import page, pictures, plots
from protoalign.report.replay import Replay, again
from protoalign.rng import generator
from protoalign.runs import Run

EPISODES = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder as the stages leave it."""
    path = tmp_path_factory.mktemp("report") / "run"
    run, world = Run(path), envs.make("hunter-z1c1")
    assert isinstance(world, Hunter)
    config = task_config("fast", 4096)
    sections = {"env": world.name, "seed": 3, "preset": "fast", "task": plain(config), "infer": plain(InferConfig(updates=1))}
    for name, settings in (sections | {"explore": plain(ExploreConfig())}).items():
        run.configure(name, settings)
    model = InferenceNet(generator(0, "model"), world, InferConfig().width)
    for i in range(1, 51):
        run.log({"stage": "task", "update": i, "steps": 4096 * i, "return": math.tanh(i / 9) if i > 2 else None})
        run.log({"stage": "infer", "update": i, "loss": 1 / i, "episodes_right": 1 - 1 / i})
        run.log({"stage": "explore", "update": i, "steps": 4096 * i, "return": float(i)})
    run.save("task", 1, {"ppo": {"net": stages.build_network(config, world, 3)}}, {})
    run.save("infer", 1, {"model": model}, {})
    explorer = ExplorerNet.fresh(generator(0, "explorer"), world, config.width)
    run.save("explore", 1, {"ppo": {"net": explorer}, "world": ImaginedWorld(model, world)}, {})
    with pytest.raises(UserError, match="no finished exploration policy"):
        stages.load_agent(path)
    run.add_result({"one_episode_correct": 0.4321})
    agent = stages.load_agent(path)
    mapping = transfer.align(HunterEnv("z1c1", appearance="target"), agent, EPISODES, 3)
    truth = stages.true_prototypes(mapping, appearance.load("target", world.category_names))
    rows = [
        {
            "true": world.category_names[truth[i]],
            "found": world.category_names[c],
            "probability": round(float(mapping.belief[i, c]), 5),
            "unseen": bool(mapping.unseen[i]),
        }
        for i, c in enumerate(mapping.prototype)
    ]
    returns = {"source_return": 1.234, "target_return_before": -0.456, "target_return": 1.111, "ratio": 0.9}
    run.add_result(
        {
            "env": world.name,
            "seed": 3,
            "preset": "fast",
            "task_steps": 4096,
            "explore_steps": 8192,
            "source_episodes": 64,
            "seconds": {"task": 61.0, "infer": 20.5, "explore": 38.5},
            "versions": {"python": "3.11.7", "jax": "0.1.2"},
            "target": "target",
            "transfer_seed": 3,
            "explore_episodes": mapping.episodes,
            "target_steps": mapping.steps,
            "mapping": rows,
            "mapping_correct": bool((mapping.prototype == truth).all()),
        }
        | returns
        | {f"{name}_se": 0.0123 for name in returns}
    )
    return path


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    out = page.write(folder)
    assert out == folder / "report.html"
    return out.read_text()


@pytest.fixture(scope="module")
def replay(folder: Path) -> Replay:
    return again(folder, Run(folder).result())


class Reader(HTMLParser):
    """Pictures and text of a page; complains if a tag is not closed."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.images: list[dict[str, str]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.images.append({name: value or "" for name, value in attrs})
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data + " "


def decode(image: dict[str, str]) -> tuple[str, bytes]:
    head, data = image["src"].split(",", 1)
    form = re.fullmatch(r"data:image/(png|gif|svg\+xml);base64", head)
    assert form
    return form[1], base64.b64decode(data, validate=True)


def pictures_of(html: str, kind: str) -> list[Any]:
    """Decoded pictures whose class begins with `kind`: Pillow images, or roots of SVG."""
    found: list[Any] = []
    for image in Reader(html).images:
        form, data = decode(image)
        opened = ElementTree.fromstring(data) if form == "svg+xml" else Image.open(io.BytesIO(data))
        if image["class"].split()[0] == kind:
            found.append(opened)
    return found


def test_every_picture_is_in_the_page(html: str, replay: Replay):
    reader = Reader(html)
    assert all(image["alt"] for image in reader.images)
    assert not re.search(r"https?://|url\(|<script|<link|@import", html), "it needs nothing from elsewhere"
    home, target = pictures_of(html, "board")
    assert (np.asarray(home.convert("RGB")) == appearance.render(replay.source, replay.grid)).all()
    assert (np.asarray(target.convert("RGB")) == appearance.render(replay.target, replay.grid)).all()
    tiles = pictures_of(html, "tile")
    kinds, looks = len(replay.names), len(replay.looks)
    assert len(tiles) == 2 * kinds + kinds + 2 * looks
    assert {picture.size for picture in tiles} == {(8, 8)}
    assert len(pictures_of(html, "plot")) == 1 + 4 + 1
    assert len(html) < 4_000_000


def test_films_show_every_step(html: str, replay: Replay):
    exploring, before, after = pictures_of(html, "film")
    assert exploring.n_frames == len(replay.mapping.trace) + 1
    lengths = []
    for film, game in ((before, replay.before), (after, replay.after)):
        assert film.n_frames == len(game.pictures) == len(game.actions) + 1 == len(game.rewards) + 1
        assert film.info["loop"] == 0
        times = []
        for t in (*range(1, film.n_frames - 1), 0):
            film.seek(t)
            times.append(film.info["duration"])
        assert set(times) == {pictures.STEP}
        first = np.asarray(film.convert("RGB")).astype(int)
        left, top, size, scale = pictures.MARGIN, pictures.HEADER, 64, 5
        board = first[top : top + size * scale : scale, left : left + size * scale : scale]
        assert abs(board - game.pictures[0]).mean() < 4
        film.seek(film.n_frames - 1)
        lengths.append(sum(times) + film.info["duration"])
    assert lengths[0] == lengths[1], "both start over together"
    assert (replay.before.pictures[0] == replay.after.pictures[0]).all(), "the same start"


def test_figures_are_those_of_the_result(html: str, folder: Path, replay: Replay):
    result, text = Run(folder).result(), " ".join(Reader(html).text.split())
    for name in ("source_return", "target_return_before", "target_return", "ratio"):
        assert f"{result[name]:.2f} ± {result[f'{name}_se']:.2f}".replace("-", "−") in text
    for words in ("hunter-z1c1", "43.2 %", "2.0 min", "64 episodes each", f"{result['target_steps']} steps", "0.1.2", "20.5 s"):
        assert words in text, words
    for row in result["mapping"]:
        assert f"{row['found']} {row['probability']:.4f}" in text
    right = sum(row["found"] == row["true"] for row in result["mapping"])
    assert f"{right} of {len(result['mapping'])} looks" in text
    assert "Worth knowing" not in text, "played again it found the same mapping"
    assert [replay.names[c] for c in replay.truth] == [row["true"] for row in result["mapping"]]
    assert text.count("unseen") >= len(result["mapping"])


def test_the_command_writes_the_same_page(
    html: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (folder / "report.html").unlink()
    monkeypatch.setattr(sys, "argv", ["protoalign", "report", str(folder)])
    main()
    assert str(folder / "report.html") in capsys.readouterr().out
    assert (folder / "report.html").read_text() == html
    assert not list(folder.glob(".report*"))


def test_names_are_escaped(folder: Path, replay: Replay):
    evil = '<b>"x" & y</b>'
    result = Run(folder).result() | {"target": evil, "env": evil, "doubts": ["2 looks were taken for <i>cow</i>"]}
    html = page.render(result, replay, {})
    text = Reader(html).text
    assert "<b>&quot;" not in html
    assert evil not in html
    assert evil in text
    assert "Worth knowing" in text
    assert "2 looks were taken for <i>cow</i>" in text
    assert "<i>cow</i> " not in re.sub(r'<span class="belief.*?</td>', "", html)


def with_looks(replay: Replay, count: int) -> Replay:
    """As if so many looks had been found: some not met, or walls of two looks."""
    kept, old = np.array([0, 1, 2, 3, 4, 2])[:count], replay.mapping
    categories = Labelled()
    categories.centres = old.categories.centres[kept]
    trace = [replace(moment, belief=moment.belief[kept]) for moment in old.trace]
    parts = {name: getattr(old, name)[kept] for name in ("unseen", "prototype", "score")}
    return replace(replay, mapping=replace(old, categories=categories, trace=trace, **parts))


@pytest.mark.parametrize("looks", [4, 6])
def test_other_numbers_of_looks(replay: Replay, folder: Path, looks: int):
    other = with_looks(replay, looks)
    html = page.render(Run(folder).result() | {"doubts": other.mapping.doubts()}, other, {})
    assert len(pictures_of(html, "tile")) == 15 + 2 * looks
    assert pictures_of(html, "film")[0].n_frames == other.mapping.steps + 1
    assert html.count('<div class="meter"') == looks
    assert ("no look was left for" if looks == 4 else "6 looks for 5 kinds") in html
    assert "another mapping than in result.json" in html


def test_a_look_that_is_met_late(replay: Replay):
    trace = [replace(m, belief=m.belief[: 4 if m.episode == 0 else None]) for m in replay.mapping.trace]
    late = replace(replay, mapping=replace(replay.mapping, trace=trace))
    assert ElementTree.fromstring(plots.beliefs(late.thinking)).tag.endswith("svg")
    assert Image.open(io.BytesIO(pictures.exploration(late.thinking))).n_frames == len(trace) + 1  # type: ignore[attr-defined]


def test_returns_of_any_sign():
    for means in ((1.5, -0.2, 1.4), (-1.0, -2.0, -0.5), (0.0, 0.0, 0.0)):
        drawn = plots.returns([(name, mean, 0.01) for name, mean in zip("abc", means, strict=True)]).decode()
        for mean in means:
            assert f"{mean:.2f}".replace("-", "−") in drawn
        assert "var(--ink)" in drawn
        assert plots.INK not in drawn


def test_unfinished_folders(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UserError, match="not a run folder"):
        page.write(tmp_path)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    for result in ({"source_return": 1.0}, []):
        (tmp_path / "result.json").write_text(json.dumps(result))
        with pytest.raises(UserError, match="not finished") as error:
            page.write(tmp_path)
        assert len(str(error.value).splitlines()) == 1
    assert not (tmp_path / "report.html").exists()
    monkeypatch.setattr(sys, "argv", ["protoalign", "report", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "not finished" in said
    assert len(said.splitlines()) == 1
