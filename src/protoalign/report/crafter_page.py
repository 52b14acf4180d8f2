"""A finished run in Crafter as one HTML file."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from protoalign import crafter_stages
from protoalign.alignment.view_training import LONGEST
from protoalign.alignment.view_transfer import ViewMapping, align
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import ACTION_NAMES, CATEGORY_NAMES
from protoalign.errors import UserError
from protoalign.files import write_atomic
from protoalign.report import page, pictures
from protoalign.report.markup import cell, count, figure, img, meter, name, notice, pill, section, tile
from protoalign.report.replay import Game
from protoalign.runs import Run

FILMED = 150  # steps at most


def write(path: Path) -> Path:
    """Write report.html into a finished run folder, and tell where it is. The exploration is played again for it."""
    from protoalign.envs.crafter.original import CrafterEnv

    run = Run(path, create=False)
    result = run.result()
    if any(key not in result for key in page.NEEDED):
        raise UserError(f"the run in {path} is not finished: start its 'protoalign run' command again")
    look, seed = result["target"], result["transfer_seed"]
    mapping = align(CrafterEnv(look), crafter_stages.load_agent(path), result["explore_episodes"], LONGEST, seed)
    views = [CrafterEnv(which).reset(seed=seed)[0]["view"] for which in ("source", look)]
    parts = (
        page.head(result),
        _worlds(views, look),
        _mapping(result, mapping, look),
        page.returns(result),
        _achievements(result),
        page.learning(
            {stage: run.metrics(stage) for stage in page.STAGES},
            "types_right",
            "The share of new looks that it takes for what they are at the end of a game, each by itself.",
        ),
        _film(mapping),
        page.settings(result),
    )
    out = path / "report.html"
    write_atomic(out, page.shell(f"crafter in a new look: {look}", "".join(parts)).encode())
    return out


def _on_grass(look: str, category: str) -> np.ndarray:
    atlas = sprites.atlas(sprites.load(look))
    return atlas[sprites.PICTURES.index(category), CATEGORY_NAMES.index("grass")]


def _worlds(views: list[np.ndarray], look: str) -> str:
    home, target = (
        img(pictures.png(view), f"The start of a game as it looks {where}", "board pixels")
        for view, where in zip(views, ("at home", "in the target"), strict=True)
    )
    kinds = "".join(
        f'<li>{name(kind, c)}<div class="pair">{tile(_on_grass("source", kind), f"{kind} at home")}<span class="arrow">→</span>'
        f"{tile(_on_grass(look, kind), f'{kind} in the target')}</div></li>"
        for c, kind in enumerate(sprites.REDRAWN)
    )
    return section(
        "One game, two looks",
        "The target is the original Crafter with some kinds redrawn; the rules are the same. The agent is not told which new "
        "picture is which kind of thing.",
        f'<div class="two">{figure(home, "The pictures that the agent was trained with.", "Home")}'
        f"{figure(target, 'The same start in the pictures of the target.', 'Target')}</div>"
        f'<ul class="kinds">{kinds}</ul>',
    )


def _mapping(result: dict[str, Any], mapping: ViewMapping, look: str) -> str:
    names, belief, rows = [CATEGORY_NAMES[k] for k in mapping.kinds], mapping.belief, []
    found = mapping.categories()[len(CATEGORY_NAMES) :]
    for i in np.flatnonzero(mapping.truth.sum(1)):
        c, truth = mapping.kinds.index(int(found[i])), CATEGORY_NAMES[mapping.truth[i].argmax()]
        verdict = pill("right", "good") if truth == names[c] else pill(f"wrong: is {truth}", "bad")
        rows.append(
            f'<tr><td><div class="pair">{tile(_on_grass(look, truth), f"look {i + 1} in the target")}'
            f"<span class='arrow'>→</span>{tile(_on_grass('source', names[c]), f'{names[c]} at home')}</div></td>"
            f'<td>{name(names[c], c)}</td><td class="wide">{meter(belief[i, c], c)}</td>'
            f"{''.join(cell(names[k], k, p) for k, p in enumerate(belief[i]))}<td>{verdict}</td></tr>\n"
        )
    heads = "".join(
        f'<th class="cell">{img(pictures.png(_on_grass("source", kind)), kind, "tile small pixels")}</th>' for kind in names
    )
    head = f"<tr><th>look</th><th>taken for</th><th>probability</th>{heads}<th>verdict</th></tr>"
    return section(
        "What it took the new looks for",
        f"One row for each new look met, {count(result['explore_episodes'], 'game')} of exploration taken together.",
        notice(list(result["doubts"]))
        + figure(
            f"<table><thead>{head}</thead>\n<tbody>\n{''.join(rows)}</tbody></table>",
            "The cells are the whole belief: how probable each kind is.",
            kind="mapping",
        ),
    )


def _achievements(result: dict[str, Any]) -> str:
    stages = (("home", "source_achieved"), ("target, before", "target_before_achieved"), ("target, after", "target_achieved"))
    head = "".join(f"<th>{label}</th>" for label, _ in stages)
    rows = "".join(
        f"<tr><td>{escape(kind.replace('_', ' '))}</td>"
        + "".join(f"<td>{100 * result[key]['achievements'][kind]:.0f} %</td>" for _, key in stages)
        + "</tr>"
        for kind in result["source_achieved"]["achievements"]
    )
    scores = "".join(f"<td><b>{result[key]['score']:.1f} %</b></td>" for _, key in stages)
    return section(
        "What it achieves",
        "How many of the games unlock each of Crafter's achievements, in the original game.",
        figure(
            f'<table class="plain"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}'
            f"<tr><td><b>score</b></td>{scores}</tr></tbody></table>",
            "The score is the geometric mean of all rates, after one percent is added to each.",
        ),
    )


def _film(mapping: ViewMapping) -> str:
    moments = [moment for moment in mapping.trace if moment.episode == 0][:FILMED]
    game = Game([m.picture for m in moments], [m.action for m in moments[:-1]], [m.reward for m in moments])
    film = pictures.gif(pictures.game_frames(game, ACTION_NAMES))
    return section(
        "Watch it",
        "The first game of exploration in the target. The rim turns green or red when the step before gave a reward or a loss.",
        figure(img(film, "Film of the exploration", "film pixels"), f"{len(moments)} steps.", "Exploring"),
    )
