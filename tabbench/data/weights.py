"""Weights of training rows: from a column, from the sizes of classes, or both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.errors import DataError
from tabbench.frames import no_column


def read_weights(frame: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """The weights of all rows of a table.

    Raises:
        DataError: there is no such column, or it does not hold weights.
    """
    if column not in frame.columns:
        raise no_column("column", column, frame.columns)
    if not pd.api.types.is_numeric_dtype(frame[column].dtype):
        raise DataError(f"the weight column {column!r} must hold numbers, but holds text")
    weights = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isnan(weights).any():
        raise DataError(f"the weight column {column!r} has no value in {int(np.isnan(weights).sum()):,} rows")
    if (weights < 0).any() or not np.isfinite(weights).all() or not weights.any():
        raise DataError(f"the weight column {column!r} must hold numbers of at least 0, and some above 0")
    return weights


def training_weights(
    y: NDArray[Any], given: NDArray[np.float64] | None = None, *, balanced: bool = False
) -> NDArray[np.float32] | None:
    """One weight per training row, 1 on average; None if all rows count equally.

    With ``balanced``, each class has the same total weight: with ``n`` rows and ``k`` classes, a row of a class of
    ``n_c`` rows weighs ``n / (k * n_c)``. Classes without training rows do not count.

    Raises:
        DataError: all of these rows have weight 0.
    """
    if given is None and not balanced:
        return None
    weights = np.ones(len(y)) if given is None else given.astype(np.float64)
    if not weights.any():
        raise DataError("all training rows of this split have weight 0")
    if balanced:
        classes = np.unique(y, return_inverse=True)[1]
        totals = np.bincount(classes, weights=weights)
        counted = totals[classes]
        weights = np.divide(weights, counted, out=np.zeros(len(y)), where=counted > 0)
    mean_one: NDArray[np.float32] = (weights * (len(y) / weights.sum())).astype(np.float32)
    return mean_one
