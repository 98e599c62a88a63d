from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from tabbench_linear.model import Linear, max_columns

from tabbench import Context, Labelled, Representation, Task
from tabbench.nn import LBFGS_VECTORS


def split(x: NDArray[Any], y: NDArray[Any]) -> tuple[Labelled, Labelled, Labelled]:
    order = np.random.default_rng(0).permutation(len(x))
    parts = np.split(order, [int(0.7 * len(x)), int(0.85 * len(x))])
    train, validation, test = (Labelled(Representation(x[part].astype(np.float32)), y[part]) for part in parts)
    return train, validation, test


def test_classification_is_as_good_as_scikit_learns() -> None:
    train, validation, test = split(*load_breast_cancer(return_X_y=True))
    model = Linear()
    model.fit(train, validation, Task("binary", 2), Context())
    probabilities = model.predict(test.features)
    x, x_test = (part.features.array for part in (train, test) if isinstance(part.features, Representation))
    scaler = StandardScaler().fit(x)
    reference = LogisticRegression(C=1 / (model.diagnostics["penalty"] * len(train.y)), max_iter=1000, tol=1e-6)
    # Two outputs share a penalty of two weight vectors of half the length: half the penalty for one.
    reference.C *= 2
    reference.fit(scaler.transform(x), train.y)
    expected = reference.predict_proba(scaler.transform(x_test))
    assert np.abs(probabilities - expected).mean() < 0.01


def test_regression_chooses_the_penalty_on_validation() -> None:
    train, validation, test = split(*load_diabetes(return_X_y=True))
    model = Linear()
    model.fit(train, validation, Task("regression"), Context())
    rmse = np.sqrt(np.mean((model.predict(test.features) - test.y) ** 2))
    assert rmse < 62
    noise = split(np.random.default_rng(1).normal(size=(442, 100)), load_diabetes(return_X_y=True)[1])
    model.fit(noise[0], noise[1], Task("regression"), Context())
    assert model.diagnostics["penalty"] >= 1.0


def test_the_penalty_of_two_classes_is_chosen_by_the_metric_of_the_run() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    train, validation, _ = split(x[:, :3], y)
    model = Linear()
    model.fit(train, validation, Task("binary", 2, "auroc"), Context())
    expected = roc_auc_score(validation.y, model.predict(validation.features)[:, 1])
    assert model.diagnostics["validation_score"] == pytest.approx(expected, abs=1e-6)


def test_tokens_wider_than_the_memory_allows_are_averaged() -> None:
    x = np.random.default_rng(0).normal(size=(200, 4, 8)).astype(np.float32)
    rows = Labelled(Representation(x), x[:, 0].mean(axis=1))
    model = Linear()
    model.fit(rows, rows, Task("regression"), Context(memory=200 * 12 + 8 * (16 * 200 + 4 * LBFGS_VECTORS)))
    assert model.diagnostics["columns"] == 8
    assert np.sqrt(np.mean((model.predict(rows.features) - rows.y) ** 2)) < 0.01


def test_outputs_and_the_memory_of_the_optimiser_count() -> None:
    """ALOI: 86,400 rows of 1,000 classes have 1 GB of logits, their softmax and their gradient."""
    assert max_columns(86_400, 1000, None) == 4096
    gigabytes = 10**9
    for memory in (3 * gigabytes, 6 * gigabytes):
        columns = max_columns(86_400, 1000, memory)
        assert 1000 < columns < 4096
        needed = 4 * (86_400 * columns + 3 * 86_400 * 1000 + LBFGS_VECTORS * 1000 * columns)
        assert 0.3 * memory < needed < memory
    assert max_columns(86_400, 1000, gigabytes) == 1
