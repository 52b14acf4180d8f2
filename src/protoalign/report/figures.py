"""Sections of a page that show figures: the head, returns, learning curves, settings. Of result.json and what was logged."""

from collections.abc import Mapping, Sequence
from typing import Any

from protoalign.report import pictures, plots
from protoalign.report.engines import right_after
from protoalign.report.markup import card, count, decimal, escape, figure, grid, img, measured, section, table
from protoalign.report.result import MET, PLAYED, RETURNS, TOLD, Result, summary

Points = Sequence[tuple[float, float]]
CURVES = {  # what is plotted of what was logged, by stage and figure: label, title, caption
    ("task", "return"): ("return", "Task policy: return", "Learns to play in the source. Its games are kept as experience."),
    ("on_prototypes", "return"): (
        "return",
        "Task policy: return on prototypes",
        "Goes on learning, with all pictures that act alike shown as one.",
    ),
    ("task", "length"): ("steps of an episode", "Task policy: length", "How long its games last."),
    ("judge", "loss"): (
        "loss",
        "Judge of bayes: loss",
        "Watches the task policy play with prototypes hidden and learns to tell them from what happens. Lower is better.",
    ),
    ("judge", "episodes_right"): (
        "share right",
        "Judge of bayes: how often right",
        "The share of watched games at whose end it has every hidden prototype right.",
    ),
    ("model", "tiles"): (
        "log-likelihood of a step’s tiles",
        "World model of bayes: tiles",
        "Learns what becomes of tiles after an action. Higher is better.",
    ),
    ("model", "reward"): (
        "log-likelihood of a reward",
        "World model of bayes: rewards",
        "Learns which reward an action brings. Higher is better.",
    ),
    ("infer", "loss"): (
        "loss",
        "Inference model of opa: loss",
        "Watches games with prototypes hidden and learns to tell them from what happens. Lower is better.",
    ),
    ("infer", "episodes_right"): (
        "share right",
        "Inference model of opa: how often right",
        "The share of watched games at whose end it has every hidden prototype right.",
    ),
    ("explore", "return"): (
        "nats per episode",
        "Exploration policy of opa: information",
        "Learns to do what tells most. Its return is the information that an episode gives.",
    ),
    ("explore", "one_episode_correct"): (
        "share right",
        "Exploration policy of opa: how often right",
        "The share of imagined worlds in which one episode of exploration tells everything.",
    ),
}
UPDATES = ("judge", "model", "infer")  # stages whose progress is counted in gradient steps, others in steps in the world
TIMED = {"judge": "model", "infer": "infer", "explore": "explore"}  # how a stage is called in "seconds"; the others: not
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six")
SHADES = {
    "task": plots.SOURCE,
    "on_prototypes": plots.SOURCE,
    "judge": plots.ENGINES["bayes"],
    "model": "#1f7f52",
    "infer": "#8a5fd6",
    "explore": plots.ENGINES["opa"],
}
HOW = {
    "bayes": "It found out with the engine bayes: its task policy, unchanged, played for its return all the while.",
    "opa": "It found out with the engine opa: a policy of its own explored, and what that earned does not count.",
}


def title(result: Result) -> str:
    return f"{result.text('env')} in a new look: {result.text('target')}"


def head(result: Result) -> str:
    good = result.flag("mapping_correct")
    episodes, minutes = count(result.count("explore_episodes"), "episode"), sum(result.numbers("seconds").values()) / 60
    earned = result.series("explore_returns")
    meanwhile = f"; returns meanwhile: {', '.join(map(pictures.signed, earned[:8]))}" if earned else ""
    source, before, after, _ = (measured(*result.measured(key)) for key in RETURNS.values())
    ratio, (own, error) = result.measured("ratio"), result.measured("ratio_own")
    right = "not judged" if good is None else f"{result.count('kinds_right')} of {result.count('redrawn')} redrawn kinds right"
    steps = result.maybe("sure_after")
    sure = "0.99 was not reached" if steps is None else f"0.99 after {count(steps, 'step')}"
    cards = (
        card("Return in the source", source, "through pictures; ± standard error"),
        card("Return in the target, before", before, "new tiles taken for those most like them"),
        card("Return in the target, after", after, "seen through the mapping that it found"),
        card("Target ÷ source", measured(*ratio), f"on games of its own: {decimal(own)} ± {decimal(error)}", ratio[0] > 0.9),
        card("Played to find out", count(result.count("target_steps"), "step"), f"in the target, {episodes}{meanwhile}"),
        card("Mapping", {True: "right", False: "not right", None: "found"}[good], right, good),
        card("Sureness", f"{result.number('sureness'):.4f}", f"its own probability that everything is right; {sure}"),
        card("All in all", f"{minutes:.1f} min", "training and transfer added up; some of it ran at the same time"),
    )
    tags = "".join(
        f"<li><span>{label}</span> <b>{escape(result.text(key))}</b></li>"
        for label, key in (("world", "env"), ("look", "target"), ("seed", "seed"), ("preset", "preset"), ("engine", "engine"))
    )
    return f"""<header>
<p class="kicker">protoalign · online prototype alignment</p>
<h1>{escape(title(result))}</h1>
<p class="lead">An agent learned to play in one look, the source. Then it was put into a target, which works the same but looks
different, and had {episodes} to find out, by what things do, which prototype each new tile type is.
{HOW[result.engine]} {escape(summary(result))} Its task policy plays on through that mapping.</p>
<ul class="tags">{tags}</ul>
<dl class="cards">{"".join(cards)}</dl>
</header>
"""


def returns(result: Result) -> str:
    bars = [(PLAYED[who], *result.measured(key)) for who, key in RETURNS.items()]
    alt = "Mean returns: " + ", ".join(f"{label} {mean:.2f}" for label, mean, _ in bars)
    ratio, own = (measured(*result.measured(key)) for key in ("ratio", "ratio_own"))
    return section(
        "Does it play as well as in the source?",
        "One policy, measured through pictures: in the source, in the target with the eyes it came with, and there through the "
        f"mapping. Target ÷ source: {ratio} on the same games, {own} on games of its own.",
        figure(
            img(plots.returns(bars), alt, "plot"),
            f"Mean return of {result.count('games'):,} games each. The first three bars are of the same games. With a right "
            "mapping the very same is played there as in the source, step by step: then the ratio is 1.00 ± 0.00 by identity, "
            "and says that the mapping plays as a right one does. The last bar is of games of its own. Whiskers are 95 % "
            f"intervals over games, for one training seed ({escape(result.text('seed'))}): how training differs from seed to "
            "seed is not in them.",
            kind="beside",
        )
        + _games(result),
    )


def _games(result: Result) -> str:
    """All figures of the games as tables: lengths, and what else the world tells of them."""
    who = {key: label for key, label in PLAYED.items() if f"{key}_length" in result}
    rows = {"length of a game, steps": [decimal(result.number(f"{key}_length"), 1) for key in who]}
    rows["games"] = [f"{result.count(f'{key}_episodes'):,}" if f"{key}_episodes" in result else "" for key in who]
    more = ""
    for label, told in result.extra().items():
        if not isinstance(next(iter(told.values())), dict):
            rows[label.replace("_", " ")] = [decimal(told[key]) if key in told else "" for key in who]
            continue
        every = dict.fromkeys(kind for value in told.values() for kind in value)
        means = {kind.replace("_", " "): [_share(value.get(kind)) for value in told.values()] for kind in every}
        about = "What the world tells of the games: a mean over all of them for each."
        more += figure(grid([PLAYED[key] for key in told], means), about, escape(label.replace("_", " ").capitalize()))
    trained = ""
    if "trained_return" in result:
        value = measured(*result.measured("trained_return"))
        trained = f"“As trained” is on prototypes instead of pictures; the return there was {value}."
    return (figure(grid([*who.values()], rows), trained, "All games") if who else "") + more


def _share(value: Any) -> str:
    """A number from 0 to 1 in percent, any other as it is."""
    return "" if value is None else f"{100 * value:.1f} %" if 0 <= value <= 1 else decimal(value)


def learning(result: Result, logged: Mapping[tuple[str, str], Points]) -> str:
    drawn, stages = "", set()
    for (stage, key), (label, heading, caption) in CURVES.items():
        if stage != "task" and TIMED.get(stage) not in result.numbers("seconds") and not logged.get((stage, key)):
            continue  # of what was not trained
        stages.add(stage)
        across = "updates" if stage in UPDATES else "steps in the world"
        curve = plots.curve(logged.get((stage, key), ()), (across, label), SHADES[stage])
        drawn += figure(img(curve, f"{heading}, against {across}", "plot"), caption, heading)
    parts = f"{NUMBERS[len(stages)]} part{'s' if len(stages) > 1 else ''}"
    said = f"{parts}, trained in the source: the target is never seen in training. Faint, what was logged; bold, its mean."
    if result.imagined is not None and result.imagined.correct:
        said += f" With bayes: {right_after(result.imagined)}"
    for keys, what in ((TOLD, "everything"), (MET, "all that was met")):
        known = [key for key in keys if key in result]
        if known:
            shares = ", ".join(f"{100 * result.share(key):.1f} %" for key in known)
            after = ", ".join(key.split("_")[0] for key in known)
            said += f" With opa: after {after} episodes of exploration, {what} is right in {shares} of imagined worlds."
    return section("How it learned", said, f'<div class="two">{drawn}</div>')


def settings(result: Result) -> str:
    seconds = result.numbers("seconds")
    run = {
        "world": result.text("env"),
        "look of the target": result.text("target"),
        "preset": result.text("preset"),
        "seed of training": result.text("seed"),
        "seed in the target": result.text("transfer_seed"),
        "steps, task policy": f"{result.count('task_steps'):,}",
        "engine": result.engine,
        "steps in the target": f"{result.count('target_steps'):,}",
        "episodes in the target": f"{result.count('explore_episodes'):,}",
    }
    if "explore_steps" in result:
        run["steps, exploration policy"] = f"{result.count('explore_steps'):,}"
    run |= {key: f"{result.number(key):g}" for key in ("noise", "jitter") if key in result and result.number(key)}
    run |= {key.replace("_", " "): f"{result.count(key):,}" for key in ("prototypes", "pictures_met") if key in result}
    times = {stage: f"{value:,.1f} s" for stage, value in seconds.items()}
    times["added up (some at the same time)"] = f"{sum(seconds.values()):,.1f} s"
    tables = (("Run", run), ("Time", times), ("Versions", result.table("versions")))
    figures = "".join(figure(table(rows), "", heading) for heading, rows in tables)
    about = "Everything random follows from the seeds: the same command gives the same numbers on the same machine."
    return section("Settings", about, f'<div class="three">{figures}</div>')
