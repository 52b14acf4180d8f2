"""Sections of a page about the target: both looks, the mapping, how it was found, and films. Of plain data (`story.py`)."""

import numpy as np

from protoalign.report import pictures, plots
from protoalign.report.markup import cell, count, escape, figure, film, img, meter, name, notice, pair, pill, section, tile
from protoalign.report.result import Result, summary
from protoalign.report.story import Finding, Shown

MOST_CELLS = 12  # prototypes in the table of the mapping


def looks(found: Finding, shown: Shown | str) -> str:
    """The same start in both looks, and as it is understood. `shown` may be the reason why the target cannot be shown."""
    boards = []
    if isinstance(shown, Shown):
        boards.append((shown.source, "Source", "The start of a game in the pictures that the agent was trained with."))
        boards.append((shown.target, "Target", "The very same start in the pictures of the target."))
    elif found.trace is not None and len(found.trace.pictures):
        boards.append((found.trace.pictures[0], "Target", "The first picture that it saw there."))
    if found.translated is not None:
        said = "The first picture that it saw there, redrawn by the mapping: what the policy plays on."
        boards.append((found.translated, "Target, translated", said))
    drawn = "".join(
        figure(img(pictures.png(board), f"{label}: {said}", "board pixels"), said, label) for board, label, said in boards
    )
    kinds, missing = "", []
    if isinstance(shown, str):
        missing = [f"The target cannot be shown again here ({shown}), so films of games and true pictures are left out."]
    else:
        for one in shown.pairs:
            kind = found.names[one.prototype]
            new = "".join(tile(picture, f"{kind} in the target") for picture in one.target)
            kinds += f"<li>{name(kind, one.prototype)}{pair(tile(one.source, f'{kind} in the source'), new)}</li>"
    return section(
        "One world, two looks",
        "The rules are the same; the pictures need not be. The agent is told neither which tile is which kind of thing nor how "
        "many there are. Each kind it knows is a <em>prototype</em> and keeps its colour throughout this page.",
        notice(missing) + f'<div class="three">{drawn}</div>' + (f'<ul class="kinds">{kinds}</ul>' if kinds else ""),
    )


def mapping(result: Result, found: Finding) -> str:
    """A row for every tile type: what it was taken for, all of the belief, and whether it is right."""
    notes, judged = list(result.words("doubts")), result.rows
    taken = [found.names[k] for k in (*found.verdict, *np.flatnonzero(found.known))]
    if [row.found for row in judged] != taken:
        notes.append("The mapping in the folder is not the one that result.json tells of.")
        judged = []
    if result.flag("mapping_correct") is not True:
        notes.insert(0, summary(result))
    belief = np.concatenate([found.belief, np.eye(len(found.names))[found.known]])
    likeliest = np.argsort(-belief.max(0, initial=0), kind="stable")[:MOST_CELLS]
    columns = sorted(likeliest.tolist())
    rows = []
    for i, probabilities in enumerate(belief):
        new = i < len(found.types)
        k = int(found.verdict[i]) if new else int(probabilities.argmax())
        verdict = ""
        if judged and judged[i].right is not None:
            verdict = pill("right", "good") if judged[i].right else pill(f"wrong: is {judged[i].true}", "bad")
        shown = tile(found.types[i] if new else found.source[k], f"tile type {i + 1} in the target")
        rows.append(
            f"<tr><td>{pair(shown, tile(found.source[k], f'{found.names[k]} in the source'))}</td>"
            f'<td>{name(found.names[k], k)}</td><td class="wide">{meter(probabilities[k], k)}</td>'
            f"{''.join(cell(found.names[c], c, probabilities[c]) for c in columns)}"
            f"<td>{verdict} {pill('new' if new else 'as in the source')}</td></tr>\n"
        )
    heads = [f'<th scope="col">{text}</th>' for text in ("tile type", "taken for", "probability")]
    for c in columns:
        small = img(pictures.png(found.source[c]), found.names[c], "tile small pixels")
        heads.append(f'<th scope="col" class="cell">{small}</th>')
    heads.append('<th scope="col">verdict</th>')
    table = f"<table><thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody></table>"
    said = (
        "On the left a tile of the type, and the source's picture of what it was taken for. The cells are the belief: how "
        "probable each prototype is. A type is “new” if the agent noticed that it had never seen it in the source."
    )
    if len(columns) < len(found.names):
        said += f" Of {len(found.names)} prototypes, the {len(columns)} most probable are shown."
    return section(
        "What it took the tile types for",
        f"One row for each tile type met in the target, {count(found.episodes, 'episode')} of exploration taken together.",
        notice(notes) + figure(table, said, kind="mapping"),
    )


def mind(found: Finding) -> str:
    """Beliefs during the first episode."""
    heading, about = "How it made up its mind", "Nothing in the target looked new: there was nothing to find out."
    if found.trace is None or not len(found.types):
        return section(heading, about if found.trace else "How the mapping was found was not kept.", "")
    signs: dict[str, list[str]] = {}
    for action in found.actions:
        signs.setdefault(pictures.glyph(action), []).append(action)
    actions = ", ".join(f"{escape(sign)} {escape(' / '.join(names))}" for sign, names in signs.items())
    ends = ", ".join(f"type {i + 1} {found.names[k]} {found.belief[i, k]:.2f}" for i, k in enumerate(found.verdict))
    alt = f"For each tile type, the probabilities of all prototypes before every step of the first episode. In the end: {ends}"
    legend = "".join(f"<li>{name(kind, c)}</li>" for c, kind in enumerate(found.names))
    strips = img(plots.beliefs(found, found.trace), alt, "plot")
    most = plots.MOST_TYPES
    cut = "" if len(found.types) <= most else f" Of {len(found.types)} types the first {most} are shown."
    return section(
        heading,
        "The first episode of exploration in the target. Of a new tile type it knows nothing, and any step may tell.",
        figure(
            f'<ul class="legend">{legend}</ul><div class="scroll" tabindex="0">{strips}</div>',
            "A strip is a tile type; the height of a colour is the probability of that prototype before the step; empty, not "
            f"met yet. Below, what the agent did ({actions}) and what reward it got. On the right, after all episodes.{cut}",
        ),
    )


def films(found: Finding, shown: Shown | str) -> str:
    """The exploration, and one game before and one after it."""
    exploring, games = "", ""
    if found.trace is not None and len(found.trace.pictures):
        frames = min(pictures.MOST_FRAMES, len(found.trace.pictures))
        cut = "" if frames == found.steps else f" Only the first {frames:,} of {found.steps:,} steps are shown."
        exploring = figure(
            film(*pictures.exploration(found, found.trace), "Film of the exploration, with the beliefs about each tile type"),
            "Beside the picture: each tile type, what it is believed to be, and its prototype once one is more likely than "
            f"not.{cut}",
            "Exploring",
        )
    if isinstance(shown, Shown):
        said = (
            "The task policy in the target, taking each tile for the one of the source that it resembles most.",
            "The same policy from the same start, seeing through the mapping. One game, and not a chosen one.",
        )
        drawn = pictures.games(shown.before, shown.after, found.actions)
        for i, (when, game) in enumerate((("Before", shown.before), ("After", shown.after))):
            steps = len(game.actions)
            cut = "" if game.whole else f" The game went on: cut after {steps} steps."
            heading = f"{when}: return {pictures.signed(sum(game.rewards))} in {count(steps, 'step')}"
            games += figure(film(*drawn[i], f"Film of one game. {heading}"), said[i] + cut, heading)
    if not exploring and not games:
        return ""
    return section(
        "Watch it",
        "Games in the target. The rim turns green or red when the step before brought a reward or a penalty.",
        exploring + (f'<div class="two">{games}</div>' if games else ""),
    )
