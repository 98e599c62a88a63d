"""How the tables are generated, and the best score that any model can reach on each.

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
"""Columns of known-independent, all alike; the label depends on the first."""
BLUR = 0.3
"""Standard deviation of the noise added to a column of -1 and +1."""
FLIPPED = 0.2
"""Share of flipped labels."""

FACTORS = 3
"""Hidden factors behind each row of known-factors and known-noise."""
COLUMNS = 30
SHARED = 0.3
"""Share of each column's variance that comes from the factors."""
UNEXPLAINED = 0.3
"""Standard deviation of the part of the target that the factors do not explain; the explained part has 1."""


@dataclass(frozen=True)
class KnownTable:
    """A generated table and its ceiling."""

    features: Floats
    """(rows, columns)"""
    target: Floats | NDArray[np.int64]
    """Numbers, or classes 0 and 1."""
    task: Literal["classification", "regression"]
    best: float
    """The best possible score on new rows: accuracy for classes, RMSE for numbers."""


def make_table(name: str, rows: int = ROWS) -> KnownTable:
    """A table by name. More rows extend the same table, for more exact measurements."""
    makers: dict[str, Callable[[int], KnownTable]] = {
        "known-independent": make_independent,
        "known-factors": make_factors,
        "known-noise": make_noise,
    }
    return makers[name](rows)


def make_independent(rows: int = ROWS) -> KnownTable:
    """Independent columns, all alike. The label is the sign of the first, with errors.

    Unlabelled rows say nothing about one column given the others, and do not single out the first. Raw features show
    it plainly. So there is nothing for an encoder to find.
    """
    bits = 2 * _random(1, 0).randint(2, size=(rows, BITS)) - 1
    features = bits + BLUR * _random(1, 1).standard_normal((rows, BITS))
    flipped = _random(1, 2).random_sample(rows) < FLIPPED
    misread = 0.5 * math.erfc(1 / (BLUR * math.sqrt(2)))
    best = (1 - FLIPPED) * (1 - misread) + FLIPPED * misread
    return KnownTable(features.round(DECIMALS), ((bits[:, 0] > 0) ^ flipped).astype(np.int64), "classification", best)


def make_factors(rows: int = ROWS) -> KnownTable:
    """Each column mixes a few hidden factors with its own noise; the target is linear in the factors.

    The factors can be found without labels: they are what the columns have in common. A model that knows them has one
    weight per factor to learn from labels; a model that does not has one per column.
    """
    factors, loadings, features = _make_columns(2, rows)
    weights = np.full(FACTORS, FACTORS**-0.5)
    target = factors @ weights + UNEXPLAINED * _random(2, 3).standard_normal(rows)
    # Given a row, the factors are normal with this covariance, so this much of the target stays unknown.
    unknown = np.linalg.inv(np.eye(FACTORS) + loadings @ loadings.T / (1 - SHARED))
    best = math.sqrt(float(weights @ unknown @ weights) + UNEXPLAINED**2)
    return KnownTable(features, target.round(DECIMALS), "regression", best)


def make_noise(rows: int = ROWS) -> KnownTable:
    """Columns as in known-factors, with plenty of structure, and coin tosses as labels."""
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
