"""Sections of a page about the target: both looks, and the mapping that was found. Of plain data (`story.py`)."""

import numpy as np

from protoalign.report import pictures
from protoalign.report.markup import cell, count, escape, figure, img, meter, name, notice, pair, pill, section, tile
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
        shown = tile(found.types[i] if new else found.source[k], f"tile type {i} in the target")
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
    doing = "play" if found.engine == "bayes" else "exploration"
    return section(
        "What it took the tile types for",
        f"One row for each tile type met in the target, {count(found.episodes, 'episode')} of {doing} taken together. "
        f"Found by the engine <b>{escape(found.engine)}</b>.",
        notice(notes) + figure(table, said, kind="mapping"),
    )
