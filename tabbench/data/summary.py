"""What a table holds, column by column, so that users can check how it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

SHOWN_LEVELS = 4
LONGEST_LEVEL = 24
"""Characters shown of a level: a column of free text must not fill the screen."""


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a cleaned table."""

    name: str
    kind: Literal["numeric", "categorical", "target"]
    missing: int
    distinct: int
    values: str
    """The range of numbers, or the most frequent levels with their shares."""


def summarise(frame: pd.DataFrame, target: str, categorical: Sequence[str]) -> list[ColumnSummary]:
    """All columns of a cleaned table, in their order, the target last."""
    chosen = set(categorical)
    summaries = []
    for name in [*(name for name in frame.columns if name != target), target]:
        column = frame[name]
        kind: Literal["numeric", "categorical", "target"] = "categorical" if name in chosen else "numeric"
        summaries.append(
            ColumnSummary(
                name=name,
                kind="target" if name == target else kind,
                missing=int(column.isna().sum()),
                distinct=int(column.nunique()),
                values=_levels(column) if isinstance(column.dtype, pd.CategoricalDtype) else _range(column),
            )
        )
    return summaries


def shorten(text: str, longest: int = LONGEST_LEVEL) -> str:
    """Text on one line, cut if too long to show."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def _levels(column: pd.Series[Any]) -> str:
    shares = column.value_counts(normalize=True)
    shares = shares[shares > 0]
    shown = ", ".join(f"{shorten(str(level))} {share:.1%}" for level, share in shares.head(SHOWN_LEVELS).items())
    return shown + (", ..." if len(shares) > SHOWN_LEVELS else "")


def _range(column: pd.Series[Any]) -> str:
    return f"{column.min():g} .. {column.max():g}, mean {column.mean():g}"
