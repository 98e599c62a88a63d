"""Scaling of numeric columns, fitted on training rows; missing numbers become the column's centre."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tabbench.config import ScalingKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_QUANTILES = 1000


class Scaler:
    """Scales numeric columns to a common range.

    ``standard``: zero mean and unit variance. ``minmax``: the training range becomes [0, 1], and other rows are
    clipped to it. ``quantile``: a normal distribution by ranks (at most 1,000 quantiles). A constant column becomes 0.
    Missing numbers take the training mean (``quantile``: the median), so that they are 0 after ``standard``.
    """

    def __init__(self, kind: ScalingKind = "standard") -> None:
        self.kind: ScalingKind = kind

    def fit(self, numeric: NDArray[np.float32]) -> Self:
        """Learn from training rows ``(rows, columns)``; NaN is missing."""
        values = np.asarray(numeric, dtype=np.float64)
        with warnings.catch_warnings():  # a column without any value is legal and becomes 0
            warnings.simplefilter("ignore", RuntimeWarning)
            mean = np.nanmean(values, axis=0) if len(values) else np.zeros(values.shape[1])
            if self.kind == "standard":
                centre, spread = mean, np.nanstd(values, axis=0)
            elif self.kind == "minmax":
                low = np.nanmin(values, axis=0, initial=np.inf)
                centre, spread = low, np.nanmax(values, axis=0, initial=-np.inf) - low
            else:
                mean = np.nanmedian(values, axis=0)
                grid = np.linspace(0, 1, min(N_QUANTILES, max(len(values), 2)))
                # numpy loses the axis of the quantiles where there are no columns
                quantiles = np.nanquantile(values, grid, axis=0).reshape(len(grid), values.shape[1])
                self.quantiles = np.nan_to_num(quantiles)
                centre, spread = np.zeros_like(mean), np.ptp(self.quantiles, axis=0)
        tiny = ~np.isfinite(spread) | (spread <= 1e-12 * np.maximum(np.abs(np.nan_to_num(mean)), 1e-300))
        self.fill = np.nan_to_num(mean)
        self.centre = np.where(tiny, self.fill, centre)
        self.spread = np.where(tiny, 1.0, spread)
        self.constant = tiny
        return self

    def transform(self, numeric: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scaled float32 copy without missing values."""
        values = np.asarray(numeric, dtype=np.float64)
        values = np.where(np.isnan(values), self.fill, values)
        if self.kind == "quantile":
            scaled = self._to_normal(values)
        else:
            scaled = (values - self.centre) / self.spread
            if self.kind == "minmax":
                scaled = np.clip(scaled, 0.0, 1.0)
        scaled = np.where(self.constant, 0.0, scaled)
        return scaled.astype(np.float32)

    def _to_normal(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.stats import norm

        grid = np.linspace(0, 1, len(self.quantiles))
        ranks = np.empty_like(values)
        for j in range(values.shape[1]):  # both directions, so that a value that repeats gets the middle of its ranks
            column, edges = values[:, j], self.quantiles[:, j]
            below = np.interp(column, edges, grid)
            above = 1 - np.interp(-column, -edges[::-1], grid)
            ranks[:, j] = (below + above) / 2
        normal: NDArray[np.float64] = norm.ppf(np.clip(ranks, 1e-7, 1 - 1e-7))
        return normal

    def get_state(self, prefix: str = "scaler") -> dict[str, NDArray[Any]]:
        """The fitted arrays, for a method's ``get_state``."""
        names = ("fill", "centre", "spread", "constant") + (("quantiles",) if self.kind == "quantile" else ())
        return {f"{prefix}.{name}": getattr(self, name) for name in names}

    def set_state(self, state: dict[str, NDArray[Any]], prefix: str = "scaler") -> Self:
        """Restore what ``get_state`` returned."""
        for name, array in state.items():
            if name.startswith(f"{prefix}."):
                setattr(self, name.removeprefix(f"{prefix}."), array)
        return self
