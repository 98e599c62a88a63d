"""Which features stand out by several measures, and how well the measures agree.

After the T-JEPA paper, "Identifying relevant features": compares the variance of each feature's token with what boosted
trees find important. The sensitivity of an embedding to each feature is ours: it needs no tokens, so it works for every
method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tabbench.contracts import SSLMethod
from tabbench.data.prepare import SplitData
from tabbench.nn import feature_embedding_variance
from tabbench.values import Table

TREES = 200
"""Number of boosted trees whose feature importance is the comparison."""
ROWS = 300
"""Rows whose embeddings are compared while a feature is shuffled."""
MOST = 200
"""With more features than this, nothing is ranked: each would need another encoding."""
REPEATS = 3
"""How often a feature is shuffled for its permutation importance."""


@dataclass(frozen=True)
class Rankings:
    """Scores of the features by each measure (higher means more important), and Kendall's tau between measures."""

    names: tuple[str, ...]
    scores: dict[str, NDArray[np.float64]]
    tau: NDArray[np.float64]
    """(measures, measures)."""
    p_values: NDArray[np.float64]


def rank_features(method: SSLMethod, split: SplitData, threads: int, seed: int = 0) -> Rankings | None:
    """Rank the features of a table; None if there are fewer than two, or too many."""
    train = split.train.features
    assert isinstance(train, Table)
    if not 2 <= train.n_features <= MOST:
        return None
    random = np.random.default_rng(seed)
    sample = train.take(slice(0, ROWS))
    scores: dict[str, NDArray[np.float64]] = {}
    tokens = method.encode(sample).array
    if tokens.ndim == 3 and tokens.shape[1] == train.n_features:
        scores["variance of tokens"] = feature_embedding_variance(torch.from_numpy(np.array(tokens))).numpy()
    scores["sensitivity of embeddings"] = sensitivity(method, sample, random)
    model = fit_trees(train, split.train.y, split.task.is_regression, threads)
    scores["gain of trees"] = np.asarray(model.feature_importances_, dtype=np.float64)
    scores["permutation in trees"] = permutation_importance(model, split, random)
    scores["random order"] = random.permutation(train.n_features).astype(np.float64)
    tau, p_values = kendall(list(scores.values()))
    return Rankings(train.schema.names, scores, tau, p_values)


def sensitivity(method: SSLMethod, sample: Table, random: np.random.Generator) -> NDArray[np.float64]:
    """How far embeddings move, on average, when one feature's values are shuffled among rows."""
    base = method.encode(sample).array.reshape(len(sample), -1)
    moved = []
    for feature in range(sample.n_features):
        other = method.encode(shuffled(sample, feature, random)).array.reshape(len(sample), -1)
        moved.append(float(np.linalg.norm((other - base).astype(np.float64), axis=1).mean()))
    return np.array(moved)


def shuffled(table: Table, feature: int, random: np.random.Generator) -> Table:
    """The table with one feature's values exchanged between rows; features are counted numeric first."""
    order = random.permutation(len(table))
    numeric, categorical = np.array(table.numeric), np.array(table.categorical)
    if feature < numeric.shape[1]:
        numeric[:, feature] = numeric[order, feature]
    else:
        column = feature - numeric.shape[1]
        categorical[:, column] = categorical[order, column]
    return replace(table, numeric=numeric, categorical=categorical)


def fit_trees(train: Table, y: NDArray[Any], is_regression: bool, threads: int) -> Any:
    """Fit boosted trees; columns are numbers first, then category codes."""
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBRegressor if is_regression else XGBClassifier
    model = kind(n_estimators=TREES, max_depth=5, learning_rate=0.1, n_jobs=threads, random_state=0)
    return model.fit(_flat(train), y)


def permutation_importance(model: Any, split: SplitData, random: np.random.Generator) -> NDArray[np.float64]:
    """How much worse trees score on validation when one feature is shuffled."""
    table = split.validation.features
    assert isinstance(table, Table)
    base = model.score(_flat(table), split.validation.y)
    lost = [
        np.mean([base - model.score(_flat(shuffled(table, j, random)), split.validation.y) for _ in range(REPEATS)])
        for j in range(table.n_features)
    ]
    return np.array(lost, dtype=np.float64)


def kendall(scores: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Kendall's tau-b of each pair, and its p-value; 0 and 1 where a measure ranks nothing."""
    from scipy.stats import kendalltau

    count = len(scores)
    tau, p_values = np.eye(count), np.zeros((count, count))
    for a in range(count):
        for b in range(a):
            found, p_value = kendalltau(scores[a], scores[b])
            tau[a, b] = tau[b, a] = 0.0 if np.isnan(found) else found
            p_values[a, b] = p_values[b, a] = 1.0 if np.isnan(p_value) else p_value
    return tau, p_values


def _flat(table: Table) -> NDArray[np.float32]:
    return np.hstack([table.numeric, table.categorical.astype(np.float32)])
