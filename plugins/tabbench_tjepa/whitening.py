"""PCA whitening of the representation (``whiten = "pca"``), which is not part of the paper."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tabbench import DataError

FITTED_ROWS = 10_000
"""Training rows, evenly spaced, on which the directions are fitted."""
MAX_WIDTH = 8192
"""Numbers per row up to which the eigenvectors of their covariance are worth computing."""
LEAST_VARIANCE = 1e-6
"""Directions with less variance than this share of the largest are left out: they would only amplify noise."""


class Whitening(nn.Module):
    """Maps tokens ``(rows, d, h)`` to ``(rows, k)``: uncorrelated columns of zero mean and unit variance."""

    mean: Tensor
    directions: Tensor

    def __init__(self, mean: Tensor, directions: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("directions", directions)

    @classmethod
    def fit(cls, tokens: NDArray[np.float32]) -> Whitening:
        """Learn from tokens of training rows."""
        values = tokens.reshape(len(tokens), -1).astype(np.float64)
        mean = values.mean(axis=0)
        variances, axes = np.linalg.eigh(np.cov(values - mean, rowvar=False, bias=True).reshape(len(mean), len(mean)))
        kept = variances > LEAST_VARIANCE * max(variances[-1], 1e-30)
        directions = axes[:, kept] / np.sqrt(variances[kept])
        return cls(torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(directions.astype(np.float32)))

    def forward(self, tokens: Tensor) -> Tensor:
        return (tokens.flatten(1) - self.mean) @ self.directions


def check_width(d: int, h: int) -> None:
    """Raise ``DataError`` if whitening would take too much work."""
    if d * h > MAX_WIDTH:
        raise DataError(
            f"whiten=pca works up to {MAX_WIDTH:,} numbers per row, and {d} features of width {h} are {d * h:,}: "
            "use a smaller model_dim_hidden, or whiten=none"
        )
