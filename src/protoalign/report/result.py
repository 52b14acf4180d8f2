"""A run's figures, every one checked as it is read: files may have been changed by hand. Light: it imports nothing heavy."""

import re
from typing import Any, NamedTuple

from protoalign.errors import UserError

LARGEST = 1e15  # no figure of a run is larger
PLAYED = {  # how the columns of a table are called, by the beginning of a figure's name
    "trained": "source, as trained",
    "source": "source",
    "target_before": "target, before",
    "target": "target, after",
    "target_own": "target, its own games",
}
COMMON = ("return", "return_se", "length", "episodes")  # told of any world
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

    @property
    def right(self) -> bool | None:
        """Prototypes of one kind are numbered: `wall 2` is a wall."""
        return None if self.true is None else self.true in (self.found, re.sub(r" [0-9]+$", "", self.found))


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
        for key in ("transfer_seed", "task_steps", "explore_steps", "target_steps", "explore_episodes", "games"):
            self.count(key)
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
            rows.append(Row(true, part.text("found"), part.number("probability"), part.flag("unseen") is not False))
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
