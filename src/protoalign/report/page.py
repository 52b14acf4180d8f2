"""A finished run as one HTML file: what was learned, what was found in the target, and how. It needs nothing but itself."""

from html import escape
from pathlib import Path
from typing import Any

from protoalign.envs import appearance
from protoalign.errors import UserError
from protoalign.files import write_atomic
from protoalign.report import pictures, plots
from protoalign.report.markup import card, cell, count, figure, img, measured, meter, name, notice, pill, section, table, tile
from protoalign.report.replay import Game, Replay, Thinking, again
from protoalign.runs import Run
from protoalign.stages import EVALUATION_EPISODES

NEEDED = (
    "env", "seed", "preset", "task_steps", "explore_steps", "source_return", "target_return_before", "target_return", "ratio",
    "explore_episodes", "target_steps", "mapping", "mapping_correct", "one_episode_correct", "seconds", "versions", "target",
    "transfer_seed",
)  # fmt: skip
STAGES = ("task", "infer", "explore")
INFER_COLOUR, EXPLORE_COLOUR = "#8a5fd6", "#1593a5"
Metrics = dict[str, list[dict[str, Any]]]  # rows by stage


def write(path: Path) -> Path:
    """Write report.html into a finished run folder, and tell where it is."""
    run = Run(path, create=False)
    result = run.result()
    if not isinstance(result, dict) or any(key not in result for key in NEEDED):
        raise UserError(f"the run in {path} is not finished: start its 'protoalign run' command again")
    html = render(result, again(path, result), {stage: run.metrics(stage) for stage in STAGES})
    out = path / "report.html"
    write_atomic(out, html.encode())
    return out


def render(result: dict[str, Any], replay: Replay, metrics: Metrics) -> str:
    """The whole page."""
    parts = (
        head(result),
        _worlds(replay),
        _mapping(result, replay),
        returns(result),
        learning(metrics),
        mind(replay.thinking),
        films(replay.before, replay.after, replay.thinking),
        settings(result),
    )
    return shell(_title(result), "".join(parts))


def shell(title: str, body: str) -> str:
    """A page around its sections."""
    css = Path(__file__).with_name("page.css").read_text()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} – protoalign</title>
<style>
{css}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""


def _title(result: dict[str, Any]) -> str:
    return f"{result['env']} in a new look: {result['target']}"


def head(result: dict[str, Any]) -> str:
    right, looks, what = sum(row["true"] == row["found"] for row in result["mapping"]), len(result["mapping"]), "looks"
    if "kinds_right" in result:  # in Crafter some may not have been met
        right, looks, what = result["kinds_right"], result["redrawn"], "new kinds"
    episodes, minutes = count(result["explore_episodes"], "episode"), sum(result["seconds"].values()) / 60
    good = result["mapping_correct"]
    cards = (
        card("Return at home", measured(result, "source_return"), "where it was trained; ± standard error"),
        card("Return in the target, before", measured(result, "target_return_before"), "new looks taken for similar old ones"),
        card("Return in the target, after", measured(result, "target_return"), "once it has found out what is what"),
        card("Target ÷ home", measured(result, "ratio"), "1: it plays as well as at home", result["ratio"] > 0.9),
        card("Needed in the target", count(result["target_steps"], "step"), f"in {episodes} of exploration"),
        card("Mapping", "right" if good else "not right", f"{right} of {looks} {what} taken for what they are", good),
        card("Right after one episode", f"{100 * result['one_episode_correct']:.1f} %", "of imagined worlds, in everything"),
        card("All in all", f"{minutes:.1f} min", "training and move together"),
    )
    tags = "".join(
        f"<li><span>{label}</span> <b>{escape(str(result[key]))}</b></li>"
        for label, key in (("world", "env"), ("look", "target"), ("seed", "seed"), ("preset", "preset"))
    )
    ending = "It got everything right" if good else f"It got {right} of {looks} right"
    return f"""<header>
<p class="kicker">protoalign · online prototype alignment</p>
<h1>{escape(_title(result))}</h1>
<p class="lead">An agent learned a game in one look. Then it was put into a world that works the same but looks different,
and had {episodes} to find out, by what things do, which new look stands for which kind of thing it knew.
{ending}, and its policy, unchanged, plays on with that.</p>
<ul class="tags">{tags}</ul>
<dl class="cards">{"".join(cards)}</dl>
</header>
"""


def _worlds(replay: Replay) -> str:
    home, target = (
        img(pictures.png(appearance.render(textures, replay.grid)), f"The board as it looks {where}", "board pixels")
        for textures, where in ((replay.source, "at home"), (replay.target, "in the target"))
    )
    kinds = "".join(
        f'<li>{name(kind, c)}<div class="pair">{tile(replay.source[c], f"{kind} at home")}<span class="arrow">→</span>'
        f"{tile(replay.target[..., c, :, :, :].reshape(-1, 8, 8, 3)[0], f'{kind} in the target')}</div></li>"
        for c, kind in enumerate(replay.names)
    )
    return section(
        "One world, two looks",
        "The rules are the same; the pictures need not be. The agent is told neither which picture is which kind of thing nor "
        "how many there are. Each kind it knows is a <em>prototype</em> and keeps its colour throughout this page.",
        f'<div class="two">{figure(home, "The pictures that the agent was trained with.", "Home")}'
        f"{figure(target, 'The very same board in the pictures of the target.', 'Target')}</div>"
        f'<ul class="kinds">{kinds}</ul>',
    )


def _mapping(result: dict[str, Any], replay: Replay) -> str:
    mapping, truth, belief, names = replay.mapping, replay.truth, replay.mapping.belief, replay.names
    doubts = list(result.get("doubts") or [])
    if [names[c] for c in mapping.prototype] != [row["found"] for row in result["mapping"]]:
        doubts.append("Played again for this page, the exploration ended with another mapping than in result.json.")
    rows = []
    for i, look in enumerate(replay.looks):
        c = int(mapping.prototype[i])
        verdict = pill("right", "good") if c == truth[i] else pill(f"wrong: is {names[truth[i]]}", "bad")
        rows.append(
            f'<tr><td><div class="pair">{tile(look, f"look {i + 1} in the target")}<span class="arrow">→</span>'
            f"{tile(replay.source[c], f'{names[c]} at home')}</div></td>"
            f'<td>{name(names[c], c)}</td><td class="wide">{meter(belief[i, c], c)}</td>'
            f"{''.join(cell(names[k], k, p) for k, p in enumerate(belief[i]))}"
            f"<td>{verdict} {pill('unseen' if mapping.unseen[i] else 'seen before')}</td></tr>\n"
        )
    heads = "".join(
        f'<th class="cell">{img(pictures.png(texture), kind, "tile small pixels")}</th>'
        for texture, kind in zip(replay.source, names, strict=True)
    )
    head = f"<tr><th>look</th><th>taken for</th><th>probability</th>{heads}<th>verdict</th></tr>"
    return section(
        "What it took the new looks for",
        f"One row for each look that it met in the target, {count(mapping.episodes, 'episode')} of exploration taken together.",
        notice(doubts)
        + figure(
            f"<table><thead>{head}</thead>\n<tbody>\n{''.join(rows)}</tbody></table>",
            "On the left the look, and the picture from home of what it was taken for. The cells are the whole belief: how "
            "probable each prototype is. A look is “unseen” if the agent noticed that it had never met it at home.",
            kind="mapping",
        ),
    )


def returns(result: dict[str, Any]) -> str:
    episodes = result.get("games", result.get("source_episodes", EVALUATION_EPISODES))
    named = (("at home", "source_return"), ("target, before", "target_return_before"), ("target, after", "target_return"))
    bars = [(label, result[key], result[f"{key}_se"]) for label, key in named]
    alt = "Mean returns: " + ", ".join(f"{label} {mean:.2f}" for label, mean, _ in bars)
    return section(
        "Does it play as well as at home?",
        "One policy, measured three times: at home, in the target with the eyes it came with, and there with the mapping.",
        figure(
            img(plots.returns(bars), alt, "plot"),
            f"Mean return of {episodes:,} episodes each. The whiskers are 95 % "
            f"intervals over episodes, for one training seed ({escape(str(result['seed']))}): how much training itself differs "
            "from seed to seed is not in them.",
            kind="beside",
        ),
    )


def learning(
    metrics: Metrics,
    right_key: str = "episodes_right",
    said: str = "The share of games at whose end it has every kind right.",
    games: str = "Its games are kept as experience.",
) -> str:
    steps, updates = "steps in the world", "updates"
    task, loss, right, explore = (
        img(plots.curve(metrics.get(stage, []), x, y, labels, shade), f"{stage}: {labels[1]} against {labels[0]}", "plot")
        for stage, x, y, labels, shade in (
            ("task", "steps", "return", (steps, "return"), plots.HOME),
            ("infer", "update", "loss", (updates, "loss"), INFER_COLOUR),
            ("infer", "update", right_key, (updates, "share right"), INFER_COLOUR),
            ("explore", "steps", "return", (steps, "nats per episode"), EXPLORE_COLOUR),
        )
    )
    watching = "Watches games with the kinds hidden and learns to tell them from what happens. Lower is better."
    telling = "Learns to do what tells most. Its return is the information that an episode gives, in nats."
    figures = (
        figure(task, f"Learns to play at home. {games}", "1. Task policy: return"),
        figure(loss, watching, "2. Inference model: loss"),
        figure(right, said, "2. Inference model: how often right"),
        figure(explore, telling, "3. Exploration policy: information"),
    )
    about = "Three stages, all of them at home: the target is never seen in training. Faint, what was logged; bold, its mean."
    return section("How it learned", about, f'<div class="two">{"".join(figures)}</div>')


def mind(thinking: Thinking) -> str:
    shown = {"right": "walks", "move-right": "walks", "fire-right": "shoots", "do": "acts", "place-stone": "places"}
    shown |= {"make-wood-pickaxe": "makes", "sleep": "sleeps", "none": "waits", "noop": "waits"}
    signs = ", ".join(f"{pictures.glyph(action)} {does}" for action, does in shown.items() if action in thinking.action_names)
    alt = "For each look, the probabilities of all prototypes before every step of the first episode of exploration"
    legend = "".join(f"<li>{name(kind, c)}</li>" for c, kind in enumerate(thinking.names))
    strips = img(plots.beliefs(thinking), alt, "plot")
    return section(
        "How it made up its mind",
        "The first episode of exploration in the target. Of a look it has never seen it knows nothing, and any step may tell.",
        figure(
            f'<ul class="legend">{legend}</ul><div class="scroll" tabindex="0">{strips}</div>',
            "A strip is a look; the height of a colour is the probability of that prototype before the step. Below, what the "
            f"agent did ({signs}) and what reward it got. On the right, all episodes together.",
        ),
    )


def films(before: Game, after: Game, thinking: Thinking, length: str = "") -> str:
    both = pictures.games(before, after, thinking.action_names)
    captions = (
        "The task policy in the target, taking each look for the one from home that it resembles most.",
        f"The same policy from the same start, seeing through the mapping. One game, and not a chosen one.{length}",
    )
    games = ""
    for when, game, film, caption in zip(("Before", "After"), (before, after), both, captions, strict=True):
        title = f"{when}: return {pictures.signed(sum(game.rewards))}"
        games += figure(img(film, f"Film of one game. {title}", "film pixels"), caption, title)
    exploring = img(pictures.exploration(thinking), "Film of the exploration, with the beliefs about each look", "film pixels")
    return section(
        "Watch it",
        "Games in the target. The rim of the board turns green or red when the step before brought a reward or a penalty.",
        figure(
            exploring,
            "Beside the board: each look, what it is believed to be, and its prototype once one is more likely than not.",
            "Exploring",
        )
        + f'<div class="two">{games}</div>',
    )


def settings(result: dict[str, Any]) -> str:
    seconds = {stage: f"{value:,.1f} s" for stage, value in result["seconds"].items()}
    run = {
        "world": result["env"],
        "look of the target": result["target"],
        "preset": result["preset"],
        "seed of training": result["seed"],
        "seed in the target": result["transfer_seed"],
        "steps, task policy": f"{result['task_steps']:,}",
        "steps, exploration policy": f"{result['explore_steps']:,}",
        "steps in the target": f"{result['target_steps']:,}",
        "episodes in the target": result["explore_episodes"],
    }
    tables = (
        ("Run", run),
        ("Time", seconds | {"together": f"{sum(result['seconds'].values()):,.1f} s"}),
        ("Versions", result["versions"]),
    )
    figures = "".join(figure(table(rows), "", title) for title, rows in tables)
    about = "Everything random follows from the seeds: the same command gives the same numbers on the same machine."
    return section("Settings", about, f'<div class="three">{figures}</div>')
