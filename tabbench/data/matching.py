"""Check that a table imported under a known name is that dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.contracts import LoadedData
from tabbench.errors import DataError
from tabbench.frames import as_text

TOLERANCE = 1e-6
"""Relative: files differ in how many digits they keep."""


def match(loaded: LoadedData, known: LoadedData) -> LoadedData:
    """``known``, if ``loaded`` holds the same columns, in any order and type, and the same rows, in the same order.

    Raises:
        DataError: it does not; the message says what was expected and what was found.
    """
    frame = loaded.frame.rename(columns={loaded.target: known.target})
    lacking = [name for name in known.frame.columns if name not in frame.columns]
    if lacking:
        raise DataError(f"there is no column {', '.join(map(repr, lacking[:5]))}{', ...' if len(lacking) > 5 else ''}")
    more = [name for name in frame.columns if name not in known.frame.columns]
    if more:
        raise DataError(f"extra column: {', '.join(map(repr, more[:5]))}{', ...' if len(more) > 5 else ''}")
    if len(frame) != len(known.frame):
        raise DataError(f"{len(frame):,} rows instead of {len(known.frame):,}")
    texts = {*known.categorical, *([known.target] if known.task == "classification" else [])}
    for name in known.frame.columns:
        expected, found = known.frame[name], frame[name]
        differ = np.flatnonzero(_differ(found, expected, as_category=name in texts))
        if len(differ):
            row = int(differ[0])
            raise DataError(f"row {row + 1} has {found.iloc[row]} in {name!r} instead of {expected.iloc[row]}")
    return replace(known, source=loaded.source)


def _differ(found: pd.Series[Any], expected: pd.Series[Any], as_category: bool) -> NDArray[np.bool_]:
    """Whether two columns differ in any row; missing values are equal."""
    if as_category:
        pairs = zip(as_text(found), as_text(expected), strict=True)
        return np.array([one != other and not (pd.isna(one) and pd.isna(other)) for one, other in pairs], dtype=bool)
    numbers = [
        pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        for column in (found, expected)
    ]
    same: NDArray[np.bool_] = np.isclose(numbers[0], numbers[1], rtol=TOLERANCE, atol=0.0, equal_nan=True)
    return ~same
