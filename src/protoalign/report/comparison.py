"""The engines of one run side by side, as words: for the page and for the console. Light: it imports nothing heavy."""

from protoalign.report.result import Result

TRAINING = {"bayes": ("model",), "opa": ("infer", "explore")}  # stages that an engine needs besides the task policy
MOST_RETURNS = 8


def side_by_side(result: Result) -> dict[str, list[str]]:
    """What is told of each engine in `result.engines`, by name, in their order."""
    engines, seconds = result.engines, result.numbers("seconds")
    source = result.number("source_return")
    parts = engines.values()
    return {
        "steps in the target": [f"{x.count('target_steps'):,}" for x in parts],
        "steps until 0.99 sure": ["never" if (steps := x.maybe("sure_after")) is None else f"{steps:,}" for x in parts],
        "mapping right": [{True: "yes", False: "NO", None: "?"}[x.flag("mapping_correct")] for x in parts],
        "returns meanwhile / source": [_ratios(x.series("explore_returns"), source) for x in parts],
        "return afterwards": ["{:.3f} ± {:.3f}".format(*x.measured("target_return_own")) for x in parts],
        "seconds of training besides pi_task": [_seconds(seconds, TRAINING[name]) for name in engines],
    }


def _ratios(returns: list[float], source: float) -> str:
    """The first returns, as shares of the source's; as they are where that says nothing."""
    if source <= 0:
        return ", ".join(f"{value:.2f}" for value in returns[:MOST_RETURNS]) + " (not divided: the source's is not above 0)"
    more = ", ..." if len(returns) > MOST_RETURNS else ""
    return ", ".join(f"{value / source:.2f}" for value in returns[:MOST_RETURNS]) + more


def _seconds(seconds: dict[str, float], stages: tuple[str, ...]) -> str:
    """How long all these stages took; "?" if one of them is not told."""
    known = [seconds[stage] for stage in stages if stage in seconds]
    return f"{sum(known):,.0f}" if len(known) == len(stages) else "?"
