import numpy as np
import pytest
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


def test_rounds_and_depth_are_capped_for_hundreds_of_classes() -> None:
    x = np.arange(500, dtype=np.float32)[:, None]
    rows = Labelled(Representation(x), np.arange(500) % 201)
    model = XGBoost(n_rounds=1, max_depth=10)
    model.fit(rows, rows, Task("multiclass", 201), Context())
    assert model.diagnostics["capped"]
