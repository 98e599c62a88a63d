"""Label-free scores of an encoder, so that a results folder can show which of them predict its quality."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tabbench.contracts.configurable import Diagnostics
from tabbench.nn.representation_metrics import (
    collapse_ratio,
    embedding_variance,
    mean_pairwise_distance,
    mean_pairwise_kl,
    rank_me,
    uniformity,
)
from tabbench.results.record import EncoderScores
from tabbench.values import Representation, Table

SCORED_ROWS = 512
"""Training rows, evenly spread: pairs of rows and singular values take milliseconds."""


def score_encoder(encode: Callable[[Table], Representation], table: Table, diagnostics: Diagnostics) -> EncoderScores:
    """Score the representation of training rows; the pretext loss is the one that training reported."""
    rows = np.linspace(0, len(table) - 1, min(len(table), SCORED_ROWS)).astype(int)
    encoded = torch.from_numpy(np.array(encode(table.take(rows)).array))
    if len(encoded) < 2 or not torch.isfinite(encoded).all():
        return EncoderScores(pretext_loss=pretext_loss(diagnostics), rows=len(encoded))
    return EncoderScores(
        uniformity=_finite(uniformity, encoded),
        rank_me=_finite(rank_me, encoded),
        embedding_variance=_finite(embedding_variance, encoded),
        collapse_ratio=_finite(collapse_ratio, encoded),
        mean_distance=_finite(mean_pairwise_distance, encoded),
        mean_kl=_finite(mean_pairwise_kl, encoded),
        pretext_loss=pretext_loss(diagnostics),
        rows=len(encoded),
    )


def pretext_loss(diagnostics: Diagnostics) -> float | None:
    """The validation loss of the kept epoch; None if the method does not report it, or kept its untrained weights."""
    losses, best = diagnostics.get("validation_loss"), diagnostics.get("best_epoch")
    if not isinstance(losses, list) or not isinstance(best, int) or not 1 <= best <= len(losses):
        return None
    value = losses[best - 1]
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _finite(measure: Callable[[Tensor], float], encoded: Tensor) -> float | None:
    value = measure(encoded)
    return value if math.isfinite(value) else None
