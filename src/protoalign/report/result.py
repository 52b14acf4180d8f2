"""A run's figures, every one checked as it is read: files may have been changed by hand. Light: it imports nothing heavy."""

import re
from typing import Any, NamedTuple

from protoalign.errors import UserError
from protoalign.settings import Engine

LARGEST = 1e15  # no figure of a run is larger
ENGINES: dict[Engine, str] = {"bayes": "by playing", "opa": "by exploring"}  # how each finds out
PLAYED = {  # how the columns of a table are called, by the beginning of a figure's name
    "trained": "source, as trained",
    "source": "source",
    "target_before": "target, before",
    "target": "target, after",
    "target_own": "target, its own games",
}
COMMON = ("return", "return_se", "length", "episodes")  # told of any world
AFTER = ("one_episode", "two_episodes", "three_episodes", "four_episodes")
TOLD = tuple(f"{n}_correct" for n in AFTER)  # in training: how often everything was right
MET = tuple(f"{n}_met_correct" for n in AFTER)  # the same of hosted worlds: how often all was that was met
RETURNS = {  # by who played
    "source": "source_return",
    "target_before": "target_return_before",
    "target": "target_return",
    "target_own": "target_return_own",
}


class Row(NamedTuple):
    """A tile type in result.json."""

    true: str | None  # what it is; None: nobody has judged that
    found: str  # what it was taken for
    probability: float
    unseen: bool  # False: it looks as in the source
    judged: bool | None = None  # whether that is right, if the judge has said so

    @property
    def right(self) -> bool | None:
        """Whether it was taken for what it is; if that is not said, by the names: of one kind they are numbered, `wall 2`."""
        if self.judged is not None:
            return self.judged
        return None if self.true is None else self.true in (self.found, re.sub(r" [0-9]+$", "", self.found))


class Bin(NamedTuple):
    """Steps at which about the same was said of how sure the mapping is."""

    said: float  # on average
    right: float  # how often it was
    steps: int  # how many


class Imagined(NamedTuple):
    """Finding out in many imagined worlds, measured after training."""

    correct: dict[str, float]  # how often everything was right after one game, two, ...: by these words
    returns: list[tuple[float, float]]  # mean and standard error of game 1, 2, ...
    calibration: list[Bin]
    sure_steps: tuple[float, float] | None  # until 0.99 sure, mean and standard error
    sure_right: float | None  # how often it was right then
    sure_share: float | None  # how often it came to that
    worlds: int | None


class Result:
    """The figures of a result.json, checked: a `UserError` says in one line which is wrong, and `where`."""

    def __init__(self, values: Any, where: Any = "the result"):
        self.where = str(where)
        if not isinstance(values, dict):
            raise UserError(f"{self.where} is not a table of figures: restore it, or start anew in another folder")
        self.values: dict[str, Any] = values

    def check(self) -> None:
        """Read all that a page shows of a finished run."""
        for key in ("env", "target", "preset", "seed"):
            self.text(key)
        for key in ("transfer_seed", "task_steps", "target_steps", "explore_episodes", "games"):
            self.count(key)
        for key in ("explore_steps", "sure_after"):
            self.maybe(key)
        for key in (*TOLD, *MET):
            self.share(key) if key in self else None
        self.engine  # noqa: B018
        for key in (*RETURNS.values(), "ratio", "ratio_own"):
            self.measured(key)
        for key in ("doubts", "kinds_not_met", "misread"):
            self.words(key)
        self.number("sureness")
        self.numbers("seconds")
        self.table("versions")
        self.series("explore_returns")
        self.extra()
        summary(self)
        for one in self.engines.values():
            one.count("target_steps")
            one.maybe("sure_after")
            one.flag("mapping_correct")
            one.series("explore_returns")
            one.measured("target_return_own")
        self.imagined  # noqa: B018
        if not self.rows and "mapping" not in self:
            self.refuse("mapping", "list")

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def number(self, key: str) -> float:
        value: Any = self.values.get(key)
        return value if is_number(value) else self.refuse(key, "number")

    def measured(self, key: str) -> tuple[float, float]:
        """A mean and its standard error."""
        error = self.number(f"{key}_se")
        return self.number(key), error if error >= 0 else self.refuse(f"{key}_se", "standard error")

    def count(self, key: str) -> int:
        value: Any = self.values.get(key)
        return value if is_number(value) and isinstance(value, int) and value >= 0 else self.refuse(key, "whole number")

    def maybe(self, key: str) -> int | None:
        """A whole number, or None where it is not told."""
        return self.count(key) if key in self else None

    def share(self, key: str) -> float:
        """A number from 0 to 1."""
        value = self.number(key)
        return value if 0 <= value <= 1 else self.refuse(key, "share")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        return str(value) if isinstance(value, str) or is_number(value) else self.refuse(key, "word")

    def flag(self, key: str) -> bool | None:
        """True, False, or None where it is not told."""
        value = self.values.get(key)
        return value if value is None or isinstance(value, bool) else self.refuse(key, "true or false")

    def table(self, key: str) -> dict[str, str]:
        """Words by name; nothing if there are none."""
        value = self.values.get(key, {})
        good = isinstance(value, dict) and all(isinstance(x, str) or is_number(x) for x in value.values())
        return {name: str(x) for name, x in value.items()} if good else self.refuse(key, "table of words")

    def numbers(self, key: str) -> dict[str, float]:
        """Numbers by name; nothing if there are none."""
        value = self.values.get(key, {})
        good = isinstance(value, dict) and all(map(is_number, value.values()))
        return value if good else self.refuse(key, "table of numbers")

    def words(self, key: str) -> list[str]:
        """Nothing if there are none."""
        value = self.values.get(key, [])
        good = isinstance(value, list) and all(isinstance(x, str) for x in value)
        return value if good else self.refuse(key, "list of words")

    def series(self, key: str) -> list[float]:
        """Nothing if there is none."""
        value = self.values.get(key, [])
        return value if isinstance(value, list) and all(map(is_number, value)) else self.refuse(key, "list of numbers")

    def rows_of(self, key: str, width: int) -> list[tuple[float, ...]]:
        """Rows of so many numbers each; nothing if there are none."""
        value = [] if self.values.get(key) is None else self.values[key]
        good = isinstance(value, list) and all(
            isinstance(x, list) and len(x) == width and all(map(is_number, x)) for x in value
        )
        return [tuple(x) for x in value] if good else self.refuse(key, f"list of rows of {width} numbers")

    @property
    def engine(self) -> Engine:
        """Which engine has found the mapping."""
        told = self.values.get("engine")
        return next((name for name in ENGINES if name == told), None) or self.refuse("engine", "engine")

    @property
    def engines(self) -> dict[Engine, "Result"]:
        """The figures of each engine that has run; of the only one, those of the result itself if it tells no others."""
        value = {self.engine: self.values} if self.values.get("engines") is None else self.values["engines"]
        if not isinstance(value, dict) or not all(name in ENGINES for name in value):
            return self.refuse("engines", "table of engines")
        return {name: Result(value[name], f"'{name}' in 'engines' in {self.where}") for name in ENGINES if name in value}

    @property
    def imagined(self) -> Imagined | None:
        """How `bayes` finds out in imagined worlds; None if that was not measured."""
        if "bayes" not in self:
            return None
        part = Result(self.values["bayes"], f"'bayes' in {self.where}")
        returns = [(mean, error) for mean, error in part.rows_of("returns", 2)]
        bins = [Bin(said, right, int(number)) for _, _, said, right, number in part.rows_of("calibration", 5)]
        if not all(error >= 0 for _, error in returns):
            part.refuse("returns", "list of means and standard errors")
        if not all(0 <= one.said <= 1 and 0 <= one.right <= 1 and one.steps > 0 for one in bins):
            part.refuse("calibration", "list of shares and counts")
        when = part.values.get("sure_steps")
        if when is not None and not (isinstance(when, list) and len(when) == 2 and all(map(is_number, when)) and when[1] >= 0):
            part.refuse("sure_steps", "mean and standard error")
        right, often = (part.share(key) if key in part else None for key in ("sure_right", "sure_share"))
        after = {key.split("_")[0]: part.share(key) for key in TOLD if key in part}
        pair = None if when is None else (when[0], when[1])
        return Imagined(after, returns, bins, pair, right, often, part.maybe("measured_worlds"))

    @property
    def rows(self) -> list[Row]:
        """The mapping: new tile types first, then what looks as in the source."""
        value = self.values.get("mapping", [])
        if not isinstance(value, list):
            return self.refuse("mapping", "list")
        rows = []
        for row in value:
            part = Result(row, f"'mapping' in {self.where}")
            true = None if "true" not in part else part.text("true")
            unseen = part.flag("unseen") is not False
            rows.append(Row(true, part.text("found"), part.number("probability"), unseen, part.flag("right")))
        return rows

    def extra(self) -> dict[str, dict[str, Any]]:
        """What a world tells of its games besides returns and lengths: by name, then by who played (`PLAYED`)."""
        names = [key.partition("_")[2] for key in self.values if key.startswith(("source_", "trained_"))]
        found: dict[str, dict[str, Any]] = {}
        for name in dict.fromkeys(name for name in names if name and not name.startswith("return") and name not in COMMON):
            told = {who: f"{who}_{name}" for who in PLAYED if f"{who}_{name}" in self}
            tables = any(isinstance(self.values[key], dict) for key in told.values())
            found |= {name: {who: (self.numbers if tables else self.number)(key) for who, key in told.items()}} if told else {}
        return found

    def refuse(self, key: str, what: str) -> Any:
        """Complain that a figure is not what it should be."""
        raise UserError(f"{self.where} has no {what} called '{key}': restore it, or start anew in another folder")


def is_number(value: Any) -> bool:
    """A finite number of a sensible size."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def summary(result: Result) -> str:
    """What is right and what is not, in a sentence."""
    right = result.flag("mapping_correct")
    if right is None:
        return "Whether the mapping is right was not judged."
    new, done = (result.count(key) for key in ("redrawn", "kinds_right"))
    what = "nothing was redrawn" if not new else f"{done} of {new} redrawn kinds were taken for what they are"
    said = f"The mapping is right: {what}." if right else f"The mapping is not right: {what}."
    missing, misread = result.words("kinds_not_met"), result.words("misread")
    if missing:
        said += f" Never met: {', '.join(missing)}."
    if misread:
        said += f" Taken for something known that looks alike: {', '.join(misread)}."
    return said
