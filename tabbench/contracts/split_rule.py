"""How rows are split into training, validation and test: a value that spec, plan, jobs and records share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from tabbench.errors import UsageError
from tabbench.values import JsonObject

SplitKind = Literal["random", "folds", "column", "time", "server"]

DEFAULT_RULE = "80/10/10"
"""The name of the default rule in keys and records."""
MOST_WINDOWS = 8
"""Windows in time that leave a tenth of the rows for training."""


@dataclass(frozen=True)
class SplitRule:
    """A rule is part of the key of a result; results under different rules are never ranked together."""

    kind: SplitKind = "random"
    """``random`` 80/10/10; ``folds`` cross-validation; ``column`` by a column; ``time`` past before future;
    ``server`` the folds that come with the dataset."""
    column: str = ""
    """The column that decides, for ``column`` and ``time``."""
    group: str = ""
    """Rows with the same value in this column stay on one side, for ``random`` and ``folds``."""
    folds: int = 0
    """Number of folds, for ``folds``."""
    equal_together: bool = False
    """Identical rows stay on one side, for ``random`` and ``folds``."""
    transductive: bool = False
    """Pretraining may use unlabelled rows from the test side, such as future ones."""

    def __post_init__(self) -> None:
        if (self.kind in ("column", "time")) != bool(self.column):
            raise UsageError(f"a split by {self.kind} cannot use the column {self.column!r}")
        if self.kind == "folds" and self.folds < 2:
            raise UsageError(f"--folds {self.folds}: cross-validation needs at least 2 folds")
        if self.group and self.equal_together:
            raise UsageError(
                "--group and --duplicates group cannot be combined: identical rows of a group stay together anyway"
            )
        if self.kind not in ("random", "folds") and (self.group or self.equal_together):
            option = "--group" if self.group else "--duplicates group"
            raise UsageError(f"{option} works only with random splits and --folds K")
        if self.transductive and self.kind not in ("time", "column") and not self.group:
            raise UsageError("--transductive needs --time, --group or --split-column")

    @property
    def is_default(self) -> bool:
        return self == SplitRule()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide the split; they are not features."""
        return tuple(name for name in (self.column, self.group) if name)

    @property
    def name(self) -> str:
        """A label for plans, tables and records."""
        kinds = {
            "random": DEFAULT_RULE,
            "folds": f"{self.folds} folds",
            "column": f"by column {self.column}",
            "time": f"by time {self.column}",
            "server": "folds of the server",
        }
        parts = [kinds[self.kind]]
        parts += [f"by group {self.group}"] if self.group else []
        parts += ["equal rows together"] if self.equal_together else []
        parts += ["transductive"] if self.transductive else []
        return ", ".join(parts)

    def count(self, wanted: int, there: int = 0) -> int:
        """The number of splits.

        Args:
            wanted: ``--splits``.
            there: the number that the table defines (a column of fold numbers, the server's folds); 0 if any number.

        Raises:
            UsageError: more are wanted than possible.
        """
        if self.kind == "folds":
            return self.folds
        if self.kind in ("column", "server"):
            return there
        if self.kind == "time" and wanted > MOST_WINDOWS:
            raise UsageError(f"--splits {wanted}: a split by time has at most {MOST_WINDOWS} windows")
        return wanted

    def to_json(self) -> str | JsonObject:
        """For keys and jobs; the default rule has the name that it had before there were others."""
        if self.is_default:
            return DEFAULT_RULE
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_json(cls, value: str | Mapping[str, Any]) -> SplitRule:
        if isinstance(value, str):
            return cls()
        return cls(**{field.name: value[field.name] for field in fields(cls) if field.name in value})


def make_rule(
    *,
    split_column: str = "",
    group: str = "",
    time: str = "",
    folds: int | str = 0,
    duplicates: str = "",
    transductive: bool = False,
) -> SplitRule:
    """The rule that options or an experiment file ask for.

    Raises:
        UsageError: they ask for two rules at once, or for one that does not exist.
    """
    given = {"--split-column": split_column, "--time": time, "--folds": folds}
    chosen = [option for option, value in given.items() if value]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} cannot be combined: rows are split by one rule")
    if duplicates not in ("", "keep", "group"):
        raise UsageError(f"--duplicates {duplicates!r}: write group (keep identical rows on one side) or keep")
    kind: SplitKind = "random"
    n_folds = 0
    if folds == "server":
        kind = "server"
    elif folds:
        kind, n_folds = "folds", _whole_number(folds)
    elif split_column:
        kind = "column"
    elif time:
        kind = "time"
    return SplitRule(kind, split_column or time, group, n_folds, duplicates == "group", transductive)


def _whole_number(folds: int | str) -> int:
    try:
        return int(folds)
    except ValueError:
        raise UsageError(f"--folds {folds!r}: write a number of folds, or server") from None
