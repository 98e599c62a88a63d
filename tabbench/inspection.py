"""What becomes of a representation while it is learned: metrics over epochs, maps, and which features stand out.

After the T-JEPA paper, "Discussion": divergence, distance and uniformity of the embeddings of a fixed sample of
training rows, two-dimensional maps of it, and the variance of each feature's token beside what trees find important.
Nothing is stored as a result: this is for looking.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabbench.context import Context
from tabbench.contracts import SSLMethod
from tabbench.data.prepare import SplitData
from tabbench.nn import (
    feature_embedding_variance,
    mean_pairwise_distance,
    mean_pairwise_kl,
    probe_score,
    uniformity,
)
from tabbench.table import Table

SAMPLE = 1000
"""Training rows that are watched; all pairs of them enter the metrics."""
TREES = 200
"""Of the boosted trees whose importance of features is compared with."""


@dataclass(frozen=True)
class Snapshot:
    """The representation of the sample after an epoch; 0 is the untrained encoder."""

    epoch: int
    kl: float
    distance: float
    uniformity: float
    probe: float
    """Linear probe on validation: accuracy, or minus the RMSE in standard deviations of the target."""
    map: NDArray[np.float32]
    """(rows, 2): the first two principal components."""


@dataclass(frozen=True)
class Importance:
    """Features by the variance of their tokens, beside the importance that boosted trees give them."""

    names: tuple[str, ...]
    variance: NDArray[np.float64]
    trees: NDArray[np.float64]
    tau: float
    """Kendall's tau of the two rankings."""
    p_value: float


def inspect_training(
    method: SSLMethod, split: SplitData, context: Context, n_snapshots: int, tell: Callable[[Snapshot], None]
) -> list[Snapshot]:
    """Pretrain ``method``, and look at it before the first epoch and then about ``n_snapshots`` times."""
    train = _table(split.train.features)
    generator = np.random.default_rng(context.seed("inspected rows"))
    sample = train.take(np.sort(generator.permutation(len(train))[:SAMPLE]))
    snapshots: list[Snapshot] = []

    def look(learner: SSLMethod, epoch: int) -> None:
        snapshots.append(take_snapshot(learner, sample, split, epoch))
        tell(snapshots[-1])

    def watch(epoch: int, total: int, metrics: dict[str, float]) -> None:
        wanted = np.unique(np.linspace(1, total, min(n_snapshots, total)).round().astype(int))
        if epoch in wanted:
            look(method, epoch)

    untrained = copy.deepcopy(method)
    untrained.initialise(train, context)
    look(untrained, 0)
    validation = _table(split.validation.features)
    method.pretrain(train, replace(context, validation=validation, on_report=watch))
    return snapshots


def take_snapshot(method: SSLMethod, sample: Table, split: SplitData, epoch: int) -> Snapshot:
    embeddings = torch.from_numpy(np.array(method.encode(sample).array))
    flat = embeddings.flatten(1).double()
    centred = flat - flat.mean(0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    # A sign is chosen, so that maps of neighbouring epochs do not flip.
    directions = axes[:2] * torch.sign(axes[:2].sum(1, keepdim=True) + 1e-12)
    coordinates = centred @ directions.t()
    if coordinates.shape[1] < 2:
        coordinates = torch.nn.functional.pad(coordinates, (0, 2 - coordinates.shape[1]))
    train, validation = _table(split.train.features), _table(split.validation.features)
    chosen = np.unique(np.linspace(0, len(train) - 1, min(len(train), 10 * SAMPLE)).astype(int))
    probe = probe_score(
        method.encode(train.take(chosen)).array,
        split.train.y[chosen],
        method.encode(validation).array,
        split.validation.y,
        split.task,
    )
    return Snapshot(
        epoch,
        mean_pairwise_kl(embeddings),
        mean_pairwise_distance(embeddings),
        uniformity(embeddings),
        probe,
        coordinates.float().numpy(),
    )


def feature_importance(method: SSLMethod, split: SplitData, threads: int) -> Importance | None:
    """How the tokens' variance ranks the features, beside boosted trees; None if the method gives no tokens."""
    from scipy.stats import kendalltau

    train = _table(split.train.features)
    tokens = method.encode(train.take(slice(0, SAMPLE))).array
    if tokens.ndim != 3 or tokens.shape[1] != train.n_features or train.n_features < 2:
        return None
    variance = feature_embedding_variance(torch.from_numpy(np.array(tokens))).numpy()
    trees = tree_importance(train, split.train.y, split.task.is_regression, threads)
    tau, p_value = kendalltau(variance, trees)
    return Importance(train.schema.names, variance, trees, float(tau), float(p_value))


def tree_importance(train: Table, y: NDArray[Any], is_regression: bool, threads: int) -> NDArray[np.float64]:
    """The mean gain of each feature in boosted trees, numbers first, then categories by their codes."""
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBRegressor if is_regression else XGBClassifier
    model = kind(n_estimators=TREES, max_depth=5, learning_rate=0.1, n_jobs=threads, random_state=0)
    model.fit(np.hstack([train.numeric, train.categorical.astype(np.float32)]), y)
    return np.asarray(model.feature_importances_, dtype=np.float64)


def _table(features: Any) -> Table:
    assert isinstance(features, Table)
    return features
