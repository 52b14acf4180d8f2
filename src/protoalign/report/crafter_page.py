"""A finished run in Crafter as one HTML file."""

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import jax
import numpy as np

from protoalign import crafter_stages
from protoalign.alignment.view_training import LONGEST
from protoalign.alignment.view_transfer import ViewMapping, align
from protoalign.envs.crafter import sprites
from protoalign.envs.crafter.names import ACTION_NAMES, CATEGORY_NAMES
from protoalign.envs.crafter.world import View
from protoalign.errors import UserError
from protoalign.files import write_atomic
from protoalign.report import page, pictures
from protoalign.report.markup import cell, count, figure, img, meter, name, notice, pill, section, tile
from protoalign.report.replay import Game, Thinking
from protoalign.rl.rollout import act
from protoalign.rng import gumbel
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
    agent = crafter_stages.load_agent(path)
    mapping = align(CrafterEnv(look), agent, result["explore_episodes"], LONGEST, seed)
    thinking = _thinking(mapping, look)
    before, after = (_watch(look, agent.task, see, seed) for see in (crafter_stages.before(agent), mapping))
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
            "Its last policy, and more random ones, play the games that the next stage watches.",
        ),
        page.mind(thinking),
        page.films(before, after, thinking, f" At most {FILMED} steps."),
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
        if (_on_grass("source", kind) != _on_grass(look, kind)).any()
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
    found, doubts = mapping.categories()[len(CATEGORY_NAMES) :], list(result["doubts"])
    if crafter_stages.judge(mapping, crafter_stages.redrawn(look))["mapping"] != result["mapping"]:
        doubts.append("Played again for this page, the exploration did not go as in result.json.")
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
        notice(doubts)
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


def _thinking(mapping: ViewMapping, look: str) -> Thinking:
    met = np.flatnonzero(mapping.truth.sum(1))
    found = mapping.categories()[len(CATEGORY_NAMES) :]
    kinds = tuple(CATEGORY_NAMES[kind] for kind in mapping.kinds)
    return Thinking(
        mapping.trace,
        mapping.belief,
        np.array([mapping.kinds.index(int(kind)) for kind in found]),
        len(mapping.games),
        np.stack([_on_grass(look, CATEGORY_NAMES[mapping.truth[i].argmax()]) for i in met]),
        kinds,
        np.stack([_on_grass("source", kind) for kind in kinds]),
        ACTION_NAMES,
    )


def _watch(look: str, task: Any, see: Callable[[np.ndarray], np.ndarray], seed: int) -> Game:
    """The beginning of one game of pi_task, its eyes the function `see`."""
    from protoalign.envs.crafter.original import CrafterEnv

    env, key = CrafterEnv(look), jax.random.key(seed)
    choose = jax.jit(lambda view, noise: act(task, view, noise)[1])
    observation, _ = env.reset(seed=seed)
    game = Game([observation["view"]], [], [])
    for t in range(FILMED):
        view = View(see(observation["view"])[None], observation["numbers"][None])  # type: ignore[arg-type]
        action = int(choose(view, gumbel(jax.random.fold_in(key, t), (1, len(ACTION_NAMES))))[0])
        observation, reward, terminated, truncated, _ = env.step(np.int64(action))
        game.pictures.append(observation["view"])
        game.actions.append(action)
        game.rewards.append(reward)
        if terminated or truncated:
            break
    return game
