"""k nearest neighbours, against hand-worked values and scikit-learn."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from tabbench_knn.model import KNN, _measure, _nearest

from tabbench import Context, Labelled, Representation, Task


def line(*values: float) -> Representation:
    return Representation(np.array(values, dtype=np.float32)[:, None])


def fitted(x: Any, y: Any, x_val: Any, y_val: Any, task: Task, **settings: Any) -> KNN:
    model = KNN(**settings)
    model.fit(Labelled(x, np.array(y)), Labelled(x_val, np.array(y_val)), task, Context())
    return model


def test_the_nearest_row_decides_or_the_mean_of_the_nearest_three() -> None:
    x, y = line(0, 1, 2, 10, 11, 12), [0, 0, 1, 1, 1, 1]
    alone = fitted(x, y, x, y, Task("binary", 2), k=1)
    np.testing.assert_allclose(alone.predict(line(1.9, 0.1)), [[0, 1], [1, 0]])
    three = fitted(x, y, x, y, Task("binary", 2), k=3)
    np.testing.assert_allclose(three.predict(line(1.9)), [[2 / 3, 1 / 3]], rtol=1e-6)


def test_numbers_are_averaged() -> None:
    x, y = line(0, 1, 2, 10), np.array([1.0, 2.0, 6.0, 100.0], dtype=np.float32)
    model = fitted(x, y, x, y, Task("regression"), k=3)
    np.testing.assert_allclose(model.predict(line(0.5)), [3.0], rtol=1e-6)


def test_k_is_chosen_on_validation() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(600, 2)).astype(np.float32)
    noisy = ((x[:, 0] > 0) ^ (generator.random(600) < 0.3)).astype(np.int64)
    parts = [(Representation(x[rows]), noisy[rows]) for rows in (slice(0, 400), slice(400, 600))]
    model = fitted(*parts[0], *parts[1], Task("binary", 2))
    scores = model.diagnostics["scores"]
    assert set(scores) == {"1", "3", "5", "10", "20", "50", "100"}
    assert scores[str(model.k)] == max(scores.values())
    assert model.k >= 10, "one neighbour learns the noise"


def test_k_is_chosen_by_the_metric_of_the_run() -> None:
    """Few rows are of class 1, and noisy: accuracy is best if nobody is, AUROC with the right number of neighbours."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(800, 2)).astype(np.float32)
    rare = (generator.random(800) < 0.3 / (1 + np.exp(-3 * x[:, 0]))).astype(np.int64)
    parts = [(Representation(x[rows]), rare[rows]) for rows in (slice(0, 500), slice(500, 800))]
    model = fitted(*parts[0], *parts[1], Task("binary", 2, "auroc"))
    for k in (1, 5, 50):
        shares = fitted(*parts[0], *parts[1], Task("binary", 2), k=k).predict(parts[1][0])[:, 1]
        assert model.diagnostics["scores"][str(k)] == pytest.approx(roc_auc_score(parts[1][1], shares), abs=1e-6)
    assert model.diagnostics["scores"][str(model.k)] == max(model.diagnostics["scores"].values())


def test_numbers_are_judged_by_the_metric_of_the_run() -> None:
    x, y = line(0, 1, 2, 10), np.array([1.0, 2.0, 6.0, 100.0], dtype=np.float32)
    model = fitted(x, y, line(0.5), np.array([1.0], dtype=np.float32), Task("regression", metric="mae"), k=3)
    assert model.diagnostics["scores"]["3"] == pytest.approx(-2.0, abs=1e-5), "3 is predicted"


def test_few_rows_have_few_neighbours() -> None:
    model = fitted(line(0, 1), [0, 1], line(0, 1), [0, 1], Task("binary", 2))
    assert model.k == 1


@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("kind", ["multiclass", "regression"])
def test_it_agrees_with_scikit_learn(k: int, kind: Any) -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(300, 4)).astype(np.float32)
    regression = kind == "regression"
    y = x[:, 0].copy() if regression else (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 1)
    task = Task("regression") if regression else Task("multiclass", 3)
    rows, other = Representation(x[:200]), Representation(x[200:])
    model = fitted(rows, y[:200], other, y[200:], task, k=k)
    scaled = (x - x[:200].mean(axis=0)) / x[:200].std(axis=0)
    theirs: Any = (KNeighborsRegressor if regression else KNeighborsClassifier)(k).fit(scaled[:200], y[:200])
    expected = theirs.predict(scaled[200:]) if regression else theirs.predict_proba(scaled[200:])
    np.testing.assert_allclose(model.predict(other), expected, atol=1e-5)


def test_distances_are_held_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = line(*range(50)), [i % 2 for i in range(50)]
    whole = fitted(x, y, x, y, Task("binary", 2), k=3).predict(x)
    monkeypatch.setattr("tabbench_knn.model.DISTANCES", 100)
    np.testing.assert_array_equal(fitted(x, y, x, y, Task("binary", 2), k=3).predict(x), whole)


@pytest.mark.parametrize("kind", ["normal", "far from zero", "outliers", "duplicates", "all alike"])
def test_bounds_leave_out_no_neighbour(kind: str) -> None:
    """The nearest by bounds are the nearest of all, ties in the order of the rows, however badly products round."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(900, 12, generator=generator)
    if kind == "far from zero":  # products cancel: nothing can be left out
        x += 1e4
    elif kind == "outliers":
        x[::50] *= 1e3
    elif kind == "duplicates":
        x = x[torch.randint(30, (900,), generator=generator)]
    elif kind == "all alike":
        x = x[:1].repeat(900, 1)
    rows = torch.cat([x[::100], torch.randn(20, 12, generator=generator)])
    expected = _measure(rows, x).sort(dim=1, stable=True).indices
    for k in (1, 7, 100):
        assert torch.equal(_nearest(rows, x, x.square().sum(dim=1), k), expected[:, :k])


def test_most_rows_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3000, 12, generator=torch.Generator().manual_seed(0))
    measured = []

    def measure(rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        measured.append(others.shape[-2])
        return _measure(rows, others)

    monkeypatch.setattr("tabbench_knn.model._measure", measure)
    _nearest(x[:50], x, x.square().sum(dim=1), 20)
    assert measured == [72]
