"""Sections of a page about finding out: beliefs step by step, the evidence that settled them, and films. Of plain data."""

from protoalign.report import evidence, pictures, plots
from protoalign.report.evidence import Scene, Settled
from protoalign.report.markup import count, escape, figure, film, img, name, pair, pill, section, tile
from protoalign.report.story import Finding, Shown, Trace

MOST_SETTLED = 12  # tile types whose evidence is shown
OUT = 0.05  # a prototype less probable than this is ruled out
HOW = {  # what was done in the target while finding out, by engine
    "bayes": "The first episode in the target. The task policy plays for its return all the while, on a mapping that is drawn "
    "from what is believed so far.",
    "opa": "The first episode of exploration in the target.",
}


def mind(found: Finding) -> str:
    """Beliefs during the first episode, and how sure the mapping was in all of them."""
    heading, about = "How it made up its mind", "Nothing in the target looked new: there was nothing to find out."
    trace = found.trace
    if trace is None or not len(found.types):
        return section(heading, about if trace else "How the mapping was found was not kept.", "")
    signs: dict[str, list[str]] = {}
    for action in found.actions:
        signs.setdefault(pictures.glyph(action), []).append(action)
    actions = ", ".join(f"{escape(sign)} {escape(' / '.join(names))}" for sign, names in signs.items())
    ends = ", ".join(f"type {i} {found.names[k]} {found.belief[i, k]:.2f}" for i, k in enumerate(found.verdict))
    alt = (
        "For each tile type, the probabilities of all prototypes before every step of the first episode; below, how sure the "
        f"whole mapping was. In the end: {ends}; sure {found.sureness:.2f}"
    )
    legend = "".join(f"<li>{name(kind, c)}</li>" for c, kind in enumerate(found.names))
    strips = img(plots.beliefs(found, trace), alt, "plot")
    most = plots.MOST_TYPES
    cut = "" if len(found.types) <= most else f" Of {len(found.types)} types the first {most} are shown."
    body = figure(
        f'<ul class="legend">{legend}</ul><div class="scroll" tabindex="0">{strips}</div>',
        "A strip is a tile type; the height of a colour is the probability of that prototype before the step; empty, not met "
        "yet. The lowest strip is the sureness: the probability that the whole mapping is right. Below, what the agent did "
        f"({actions}) and what reward it got. On the right, after all episodes.{cut}",
    )
    if trace.episode[-1] > 0:
        sure = plots.sureness(trace, found.sureness)
        alt = f"Sureness before every step of {count(found.episodes, 'episode')}, {found.sureness:.2f} in the end"
        said = "How sure it was that the whole mapping is right, before every step of all episodes. Dashed: 0.99."
        body += figure(f'<div class="scroll" tabindex="0">{img(sure, alt, "plot")}</div>', said, "Sureness in all episodes")
    return section(heading, f"{HOW[found.engine]} Of a new tile type it knows nothing, and any step may tell.", body)


def settled(found: Finding) -> str:
    """For each tile type, the step that settled what it is; nothing if there is nothing to tell."""
    trace = found.trace
    if trace is None or not len(found.types):
        return ""
    rows = evidence.settled(found, trace)
    left = len(rows) - MOST_SETTLED
    about = (
        f"For each tile type, the step after which what it was taken for stayed more probable than {evidence.BELIEVED:g}; or "
        "the step that raised it most, if it never was. Yellow lines are around the tiles of that type."
    )
    if left > 0:
        about += f" Of {len(rows)} types the first {MOST_SETTLED} are shown, {left} left out."
    items = "".join(f"<li>{_row(found, trace, one)}</li>\n" for one in rows[:MOST_SETTLED])
    return section("What settled it", about, f'<ul class="settled">\n{items}</ul>')


def _row(found: Finding, trace: Trace, one: Settled) -> str:
    """What it is, and when that was clear; the step in pictures; what it ruled out."""
    kind = found.names[one.verdict]
    looks = pair(
        tile(found.types[one.type], f"tile type {one.type} in the target"),
        tile(found.source[one.verdict], f"{kind} in the source"),
    )
    first, last = one.probability
    state = pill("settled", "good") if one.for_good else pill("not settled", "bad")
    if one.step is None:
        said = "Believed before the first step." if one.for_good else "No step made this more probable."
        return f"<div>{looks}{name(kind, one.verdict)}{state}<p>{said}</p></div>"
    episode, step = evidence.numbered(trace, one.step)
    when = f"Episode {episode}, step {step}" if one.kept else f"After episode {episode}, step {step}"
    told = f"<p>{_changed(kind, first, last)}</p>"
    head = f"<div>{looks}{name(kind, one.verdict)}{state}<p><b>{when}</b></p>{told}</div>"
    return head + _change(found, trace, one, f"episode {episode}, step {step}") + _out(found, one)


def _changed(kind: str, before: float, after: float) -> str:
    return f"{escape(kind)} {before:.2f} → {after:.2f}"


def _change(found: Finding, trace: Trace, one: Settled, when: str) -> str:
    """The picture before, the action and its reward, the picture after; words for what was not kept."""
    assert one.step is not None
    if not one.kept:
        return '<p class="change">Only the first beliefs and pictures were kept: at which later step is not known.</p>'
    action, reward = found.actions[int(trace.action[one.step])], pictures.signed(float(trace.reward[one.step]))
    doing = (
        f'<span class="action"><b>{escape(pictures.glyph(action))}</b><small>{escape(action)}</small>'
        f"<small>reward {reward}</small></span>"
    )
    before, after = evidence.scenes(trace, one)
    if before is None:
        return f'<div class="change">{doing}<p>The pictures of this step were not kept: only the first ones are.</p></div>'
    over = one.step + 1 == len(trace.episode) or trace.episode[one.step + 1] != trace.episode[one.step]
    end = "The last step of its episode: no picture was kept after it." if over else "The picture after it was not kept."
    drawn = _scene(before, f"Before: {when}", one) + doing
    drawn += f"<p>{end}</p>" if after is None else _scene(after, f"After: {when}", one)
    shown = [scene.marked.any() for scene in (before, after) if scene is not None]
    note = "" if any(shown) else "<p>No tile of this type is in the pictures: it followed from what was seen of others.</p>"
    return f'<div class="change">{drawn}{note}</div>'


def _scene(scene: Scene, when: str, one: Settled) -> str:
    alt = f"{when}, with {count(int(scene.marked.sum()), 'tile')} of type {one.type} marked"
    return img(pictures.marked(scene.picture, scene.marked), alt, "scene pixels")


def _out(found: Finding, one: Settled) -> str:
    """What the step ruled out."""
    fell = ""
    for c, before, after in one.out:
        small = img(pictures.png(found.source[c]), found.names[c], "tile small pixels")
        fell += f"<li>{small}<span>{_changed(found.names[c], before, after)}</span></li>"
    note = "" if one.met or not one.kept else "<p>It was met with this step for the first time.</p>"
    what = "Ruled out" if all(after < OUT for _, _, after in one.out) else "Made less probable"
    return f'<div class="out">{note}<p>{what}:</p><ul>{fell}</ul></div>' if fell else f'<div class="out">{note}</div>'


def films(found: Finding, shown: Shown | str) -> str:
    """Finding out, and one game before and one after it."""
    finding, games = "", ""
    if found.trace is not None and len(found.trace.pictures):
        playing = found.engine == "bayes"
        frames = min(pictures.MOST_FRAMES, len(found.trace.pictures))
        cut = "" if frames == found.steps else f" Only the first {frames:,} of {found.steps:,} steps are shown."
        what = "finding out while playing" if playing else "the exploration"
        finding = figure(
            film(*pictures.finding_out(found, found.trace), f"Film of {what}, with the beliefs about each tile type"),
            "Beside the picture: each tile type, what it is believed to be, and its prototype once one is more likely than "
            f"not.{cut}",
            "Playing, and finding out meanwhile" if playing else "Exploring",
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
    if not finding and not games:
        return ""
    return section(
        "Watch it",
        "Games in the target. The rim turns green or red when the step before brought a reward or a penalty.",
        finding + (f'<div class="two">{games}</div>' if games else ""),
    )
