"""How to read a user's file: what the user says about it, beyond what the values show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tabbench.errors import UsageError, unknown

TaskName = Literal["classification", "regression"]
DROP = "drop"
KEEP = "keep"


@dataclass(frozen=True)
class Reading:
    """Everything here changes the table, and so its content key."""

    categorical: tuple[str, ...] = ()
    """Numeric columns to treat as categories."""
    numeric: tuple[str, ...] = ()
    """Columns to treat as numbers; anything else counts as missing."""
    drop: tuple[str, ...] = ()
    """Columns to leave out."""
    task: TaskName | None = None
    """The task, instead of the one guessed from the target."""
    keep: tuple[str, ...] = ()
    """Columns that decide a split; always kept."""
    unlabelled: str = KEEP
    """Rows without a target: ``keep`` them for pretraining, ``drop`` them, or name a file with more."""
    month_first: tuple[str, ...] = ()
    """Columns of dates such as 01/02/2020 that are known to mean the second of January."""
    decimal_commas: tuple[str, ...] = ()
    """Columns in which 1,234 is known to mean 1.234."""
    thousands: tuple[str, ...] = ()
    """Columns in which 1,234 is known to mean 1234."""
    weights: str = ""
    """The column that holds the weights of rows: kept, whatever it looks like."""

    def __post_init__(self) -> None:
        both = set(self.categorical) & set(self.numeric)
        if both:
            raise UsageError(f"{sorted(both)[0]!r} is in both --categorical and --numeric: give it only once")
        needed = {*self.categorical, *self.numeric, *self.keep, self.weights} & set(self.drop)
        if needed:
            raise UsageError(f"{sorted(needed)[0]!r} is both dropped and used")

    @property
    def no_features(self) -> tuple[str, ...]:
        """Columns that are kept, and are not features."""
        return tuple(dict.fromkeys((*self.keep, self.weights))) if self.weights else self.keep

    @property
    def is_default(self) -> bool:
        return self == Reading()

    @property
    def second_file(self) -> Path | None:
        """The file of ``--unlabelled FILE``."""
        return None if self.unlabelled in (KEEP, DROP) else Path(self.unlabelled).expanduser()

    def to_json(self) -> Mapping[str, object]:
        return {name: value for name, value in asdict(self).items() if value}


def parse_task(task: str) -> TaskName | None:
    """The task of that name; None for an empty one."""
    if task in ("classification", "regression"):
        return task  # type: ignore[return-value] # mypy does not narrow to literals here
    if task:
        raise unknown("task", task, ("classification", "regression"))
    return None
