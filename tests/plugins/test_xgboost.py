from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from tabbench_xgboost.model import XGBoost, to_matrix

from tabbench import Context, Labelled, Representation, Schema, Table, Task

SCHEMA = Schema(("x",), ("c",), (("a", "b", "c", "d"),))


def test_missing_and_unknown_categories_are_missing_values() -> None:
    table = Table(np.array([[1.5], [np.nan], [2.0]], np.float32), np.array([[0], [1], [3]]), SCHEMA)
    matrix, types = to_matrix(table)
    np.testing.assert_array_equal(matrix, [[1.5, np.nan], [np.nan, np.nan], [2.0, 1.0]])
    assert types == ["q", "c"]


@pytest.mark.parametrize("categories", ["partition", "one_hot"])
def test_one_split_tells_even_from_odd_categories_apart(categories: str) -> None:
    levels = tuple(f"{i:02d}" for i in range(40))
    codes = np.random.default_rng(0).integers(0, 40, 2000)
    table = Table(np.zeros((2000, 0), np.float32), (codes + 2)[:, None], Schema((), ("c",), (levels,)))
    rows = Labelled(table, (codes % 2).astype(np.int64))
    model = XGBoost(n_rounds=1, max_depth=1, lr=1.0, categories=categories)
    model.fit(rows, rows, Task("binary", 2), Context())
    accuracy = (model.predict(table).argmax(axis=1) == rows.y).mean()
    assert accuracy == 1 if categories == "partition" else accuracy < 0.8


def test_the_trees_after_the_best_round_are_not_used() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 3)).astype(np.float32)
    y = (x[:, 0] + 2 * generator.normal(size=400)).astype(np.float32)
    train, validation = (Labelled(Representation(x[part]), y[part]) for part in (slice(0, 200), slice(200, 400)))
    model = XGBoost(lr=0.3, patience=20)
    model.fit(train, validation, Task("regression"), Context())
    assert model.diagnostics["n_rounds"] == model.diagnostics["best_round"] + 20
    rmse = np.sqrt(np.mean((model.predict(validation.features) - validation.y) ** 2))
    model.n_trees = model.diagnostics["n_rounds"]
    assert np.sqrt(np.mean((model.predict(validation.features) - validation.y) ** 2)) > rmse


def train_arguments(patch: pytest.MonkeyPatch, task: Task, context: Context, **settings: Any) -> tuple[Any, ...]:
    """What the library's ``train`` is given; it is not run."""
    given: list[tuple[Any, ...]] = []

    class StopHereError(Exception):
        pass

    def spy(*arguments: Any, **keywords: Any) -> None:
        given.append(arguments)
        raise StopHereError

    patch.setattr(xgb, "train", spy)
    n = 2 * task.n_classes
    rows = Labelled(Representation(np.arange(n, dtype=np.float32)[:, None]), np.arange(n) % task.n_classes)
    with pytest.raises(StopHereError):
        XGBoost(**settings).fit(rows, rows, task, context)
    return given[0]


def test_rounds_and_depth_are_capped_for_hundreds_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    for n_classes, capped in ((200, (2000, 10, 256)), (201, (200, 6, 64))):
        task = Task("multiclass", n_classes)
        parameters, _, n_rounds = train_arguments(monkeypatch, task, Context(), n_rounds=2000, max_depth=10)
        assert (n_rounds, parameters["max_depth"], parameters["max_bin"]) == capped


def test_threads_and_device_are_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    matrices: list[dict[str, Any]] = []
    original = xgb.QuantileDMatrix

    def spy(*arguments: Any, **keywords: Any) -> Any:
        matrices.append(keywords)
        return original(*arguments, **keywords)

    monkeypatch.setattr(xgb, "QuantileDMatrix", spy)
    parameters, *_ = train_arguments(monkeypatch, Task("binary", 2), Context(threads=3))
    assert (parameters["nthread"], parameters["device"]) == (3, "cpu")
    assert [keywords["nthread"] for keywords in matrices] == [3, 3]
    parameters, *_ = train_arguments(monkeypatch, Task("binary", 2), Context(device="cuda:1"))
    assert parameters["device"] == "cuda:1"
