import time
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge

from tabbench import DeadlineReached, TabbenchError, Task
from tabbench.nn import logistic_path, probe_score, ridge_path, ridge_penalties


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)], ids=["tall", "wide"])
def test_ridge_agrees_with_scikit_learn(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(3.0, 1.0, shape).astype(np.float32)
    y = generator.normal(size=(shape[0], 2)).astype(np.float32)
    for penalty, model in ridge_path(torch.from_numpy(x), torch.from_numpy(y), [1.0, 0.01]):
        expected = Ridge(alpha=penalty * shape[0]).fit(x, y).predict(x)
        np.testing.assert_allclose(model(torch.from_numpy(x)).numpy(), expected, atol=2e-4)


def test_logistic_regression_agrees_with_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 5)).astype(np.float32)
    y = np.argmax(x[:, :3] + generator.normal(size=(300, 3)), axis=1)
    for penalty, model in logistic_path(torch.from_numpy(x), torch.from_numpy(y), 3, [0.1, 0.01], 200):
        expected = LogisticRegression(C=1 / (penalty * 300), tol=1e-8, max_iter=1000).fit(x, y).predict_proba(x)
        np.testing.assert_allclose(model(torch.from_numpy(x)).softmax(dim=1).numpy(), expected, atol=1e-3)


def test_logistic_regression_remembers_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizers: list[torch.optim.LBFGS] = []
    original = torch.optim.LBFGS.step

    def spy(self: torch.optim.LBFGS, closure: Any) -> Any:
        optimizers.append(self)
        return original(self, closure)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(torch.optim.LBFGS, "step", spy)
    x = torch.randn(300, 30, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
    for _ in logistic_path(x, y, 2, [1e-4], 100):
        pass
    (state,) = optimizers[0].state.values()
    assert state["n_iter"] > 10
    assert len(state["old_dirs"]) == 10


def test_what_is_raised_before_an_evaluation_ends_the_fit() -> None:
    calls = 0

    def third_time() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise DeadlineReached

    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    with pytest.raises(DeadlineReached):
        next(logistic_path(x, (x[:, 0] > 0).long(), 2, [1e-3], 100, third_time))
    assert calls == 3


class Uncopied(np.ndarray[Any, Any]):
    """Rows may be sliced, not gathered."""

    def __getitem__(self, key: Any) -> Any:
        assert not isinstance(key, np.ndarray), "the whole array is copied"
        return super().__getitem__(key)


def test_the_probe_copies_no_tokens_it_does_not_have_to() -> None:
    x = np.random.default_rng(0).normal(size=(60, 4, 3)).astype(np.float32)
    y = (x[:, 2, 1] > 0).astype(np.int64)
    assert probe_score(x[:40].view(Uncopied), y[:40], x[40:], y[40:], Task("binary", 2)) > 0.6


@pytest.mark.parametrize(
    "load, task, low",
    [
        (load_digits, Task("multiclass", 10), 0.9),
        (load_breast_cancer, Task("binary", 2), 0.93),
        (load_diabetes, Task("regression"), -60.0),
    ],
)
def test_the_probe_scores_what_is_linearly_there(load: object, task: Task, low: float) -> None:
    x, y = load(return_X_y=True)  # type: ignore[operator]
    x, order = x.astype(np.float32), np.random.default_rng(0).permutation(len(x))
    train, validation = order[:300], order[300:]
    score = probe_score(x[train], y[train], x[validation], y[validation], task)
    noise = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    chance = probe_score(noise[train], y[train], noise[validation], y[validation], task)
    assert score > low
    assert chance < score - 0.05


def test_the_probe_takes_tokens_and_labels_without_training_rows() -> None:
    x = np.random.default_rng(0).normal(size=(60, 4, 3)).astype(np.float32)
    y = (x[:, 2, 1] > 0).astype(np.int64)
    assert probe_score(x[:40], y[:40], x[40:], y[40:], Task("multiclass", 5)) > 0.6


def test_the_probe_of_ten_thousand_rows_takes_well_under_a_second() -> None:
    x = np.random.default_rng(0).normal(size=(12_000, 512)).astype(np.float32)
    y = np.arange(12_000) % 10
    start = time.process_time()
    probe_score(x[:11_000], y[:11_000], x[11_000:], y[11_000:], Task("multiclass", 10))
    assert time.process_time() - start < 1.5


def test_the_probe_refuses_values_that_are_not_finite() -> None:
    x = np.full((20, 3), np.inf, dtype=np.float32)
    with pytest.raises(TabbenchError, match="not finite"), np.errstate(invalid="ignore"):
        probe_score(x, np.arange(20) % 2, x, np.arange(20) % 2, Task("binary", 2))


def test_weak_penalties_are_for_many_rows() -> None:
    assert min(ridge_penalties(1999)) == 1e-5
    assert min(ridge_penalties(2000)) == 1e-7


def test_almost_equal_columns_are_told_apart_by_sums_in_double_precision() -> None:
    """Columns that agree to four digits, far from zero: of float32 sums, a third of the weights would be wrong."""
    generator = torch.Generator().manual_seed(0)
    n, p, penalty = 3000, 20, 1e-7
    x = 5 + torch.randn(n, 1, generator=generator) + 1e-3 * torch.randn(n, p, generator=generator)
    label = (x - x.mean(0)) @ torch.randn(p, 1, generator=generator)
    ((_, model),) = ridge_path(x, label, [penalty])
    rows, target = (each.double() - each.double().mean(0) for each in (x, label))
    exact = torch.linalg.solve(rows.T @ rows + n * penalty * torch.eye(p), rows.T @ target)
    assert (model.weight - exact).norm() < 1e-4 * exact.norm()
