"""How the tables are made, and the best score that any model can have on each.

Random numbers come from ``RandomState``, whose streams numpy never changes, and columns are rounded, so that every
machine makes the same tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROWS = 2000
DECIMALS = 6

BITS = 8
"""Columns of known-independent, all of one kind; the label is about the first of them."""
BLUR = 0.3
"""Standard deviation of what is added to a column of -1 and +1."""
FLIPPED = 0.2
"""Share of labels that say the opposite."""

FACTORS = 3
"""Hidden numbers behind each row of known-factors and known-noise."""
COLUMNS = 30
SHARED = 0.3
"""Share of each column's variance that comes from the factors."""
UNEXPLAINED = 0.3
"""Standard deviation of what the factors do not tell of the target; what they tell has 1."""


@dataclass(frozen=True)
class KnownTable:
    """A generated table and its ceiling."""

    features: Floats
    """(rows, columns)"""
    target: Floats | NDArray[np.int64]
    """Numbers, or classes 0 and 1."""
    task: Literal["classification", "regression"]
    best: float
    """What the best possible model scores on new rows: accuracy for classes, RMSE for numbers."""


def make_table(name: str, rows: int = ROWS) -> KnownTable:
    """A table by its name. With more rows it begins in the same way, for whoever wants to measure something exactly."""
    makers: dict[str, Callable[[int], KnownTable]] = {
        "known-independent": make_independent,
        "known-factors": make_factors,
        "known-noise": make_noise,
    }
    return makers[name](rows)


def make_independent(rows: int = ROWS) -> KnownTable:
    """Columns of one kind, independent of each other. The label is the sign of the first, with errors.

    Rows without labels tell nothing about a column from the others, and do not tell the first column from them. Raw
    features have it plainly. So there is nothing for an encoder to find.
    """
    bits = 2 * _random(1, 0).randint(2, size=(rows, BITS)) - 1
    features = bits + BLUR * _random(1, 1).standard_normal((rows, BITS))
    flipped = _random(1, 2).random_sample(rows) < FLIPPED
    misread = 0.5 * math.erfc(1 / (BLUR * math.sqrt(2)))
    best = (1 - FLIPPED) * (1 - misread) + FLIPPED * misread
    return KnownTable(features.round(DECIMALS), ((bits[:, 0] > 0) ^ flipped).astype(np.int64), "classification", best)


def make_factors(rows: int = ROWS) -> KnownTable:
    """Each column is a mix of a few hidden factors and noise of its own; the target is linear in the factors.

    The factors can be found without labels: they are what columns have in common. Who knows them needs labels for one
    weight each, who does not needs labels for every column.
    """
    factors, loadings, features = _make_columns(2, rows)
    weights = np.full(FACTORS, FACTORS**-0.5)
    target = factors @ weights + UNEXPLAINED * _random(2, 3).standard_normal(rows)
    # Given a row, the factors are normal with this covariance, so this much of the target stays unknown.
    unknown = np.linalg.inv(np.eye(FACTORS) + loadings @ loadings.T / (1 - SHARED))
    best = math.sqrt(float(weights @ unknown @ weights) + UNEXPLAINED**2)
    return KnownTable(features, target.round(DECIMALS), "regression", best)


def make_noise(rows: int = ROWS) -> KnownTable:
    """Columns as in known-factors, with much to be learned about them, and labels that are tosses of a coin."""
    _, _, features = _make_columns(3, rows)
    return KnownTable(features, _random(3, 3).randint(2, size=rows).astype(np.int64), "classification", 0.5)


def _make_columns(table: int, rows: int) -> tuple[Floats, Floats, Floats]:
    """Factors ``(rows, FACTORS)``, loadings ``(FACTORS, COLUMNS)`` and features, each of variance 1."""
    loadings = _random(table, 0).standard_normal((FACTORS, COLUMNS))
    loadings *= np.sqrt(SHARED / (loadings**2).sum(axis=0))
    factors = _random(table, 1).standard_normal((rows, FACTORS))
    own = _random(table, 2).standard_normal((rows, COLUMNS))
    return factors, loadings, (factors @ loadings + math.sqrt(1 - SHARED) * own).round(DECIMALS)


def _random(table: int, stream: int) -> np.random.RandomState:
    return np.random.RandomState([table, stream])
