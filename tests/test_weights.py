"""Class weights and weights of rows: worked by hand, in every model that takes them, in keys, records and ranks."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from harness import Bench, InProcess
from numpy.typing import NDArray

from tabbench import Context, Labelled, Task, UsageError
from tabbench.contracts.weighting import Weighting
from tabbench.data.gather import find_data
from tabbench.data.weights import read_weights, training_weights
from tabbench.errors import DataError
from tabbench.experiment.spec import make_spec
from tabbench.frames import fit_schema, to_table
from tabbench.nn import Objective
from tabbench.nn.probe import logistic_path, ridge_path
from tabbench.registry import make_registry
from tabbench.results.replay import prepare_replay
from tabbench.results.tabulate import tabulate

SETTINGS: dict[str, dict[str, Any]] = {
    "linear": {},
    "linear_head": {"max_epochs": 40},
    "mlp": {"max_epochs": 30, "width": 16, "n_layers": 2},
    "resnet": {"max_epochs": 10},
    "dcnv2": {"max_epochs": 10},
    "autoint": {"max_epochs": 10},
    "ft_transformer": {"max_epochs": 6},
    "xgboost": {"n_rounds": 20},
    "catboost": {"n_rounds": 20},
}


# By hand.


def test_balanced_weights_by_hand() -> None:
    """n / (k * n_c): 6 rows of 2 classes that occur; 6 / (2 * 4) and 6 / (2 * 2). Class 1 has no row."""
    weights = training_weights(np.array([0, 0, 2, 0, 2, 0]), balanced=True)
    assert weights is not None
    np.testing.assert_allclose(weights, [0.75, 0.75, 1.5, 0.75, 1.5, 0.75])


def test_weights_of_a_column_are_1_on_average() -> None:
    weights = training_weights(np.zeros(4), np.array([1.0, 2.0, 0.0, 5.0]))
    np.testing.assert_allclose(np.asarray(weights), [0.5, 1.0, 0.0, 2.5])
    assert training_weights(np.zeros(4)) is None


def test_both_together_give_every_class_the_same_sum() -> None:
    """Class 0 weighs 1 + 3, class 1 weighs 6: scaled to 2 each of 4 rows in all, shares within a class kept."""
    weights = training_weights(np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 6.0, 0.0]), balanced=True)
    np.testing.assert_allclose(np.asarray(weights), [0.5, 1.5, 2.0, 0.0])


def test_a_weighted_cross_entropy_by_hand() -> None:
    """Losses -ln 0.8 and -ln 0.25, weighted 0.5 and 1.5, over two rows."""
    wanted = (0.5 * -math.log(0.8) + 1.5 * -math.log(0.25)) / 2
    weights = torch.tensor([0.5, 1.5])
    logits = torch.log(torch.tensor([[0.8, 0.1, 0.1], [0.25, 0.25, 0.5]]))
    three = Objective(Task("multiclass", 3), np.array([0, 1]))
    assert float(three.loss(logits, torch.tensor([0, 1]), weights)) == pytest.approx(wanted)
    log_odds = torch.tensor([[math.log(0.8 / 0.2)], [math.log(0.25 / 0.75)]])
    two = Objective(Task("binary", 2), np.array([1, 1]))
    assert float(two.loss(log_odds, torch.tensor([1.0, 1.0]), weights)) == pytest.approx(wanted)


def test_a_weighted_squared_error_by_hand() -> None:
    objective = Objective(Task("regression"), np.array([0.0, 1.0]))
    loss = objective.loss(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 1.0]), torch.tensor([0.5, 1.5]))
    assert float(loss) == pytest.approx((0.5 * 1 + 1.5 * 4) / 2)


@pytest.mark.parametrize("columns", [2, 30], ids=["tall", "wide"])
def test_linear_models_take_a_weight_of_2_as_two_rows(columns: int) -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(18, columns)).astype(np.float32))
    y = torch.from_numpy(rng.normal(size=(18, 1)).astype(np.float32))
    classes = torch.arange(18) % 3
    times = np.repeat([0, 1, 2], 6)
    rows = np.repeat(np.arange(18), times)
    weights = torch.from_numpy(times.astype(np.float32))
    for (_, weighted), (_, repeated) in zip(
        ridge_path(x, y, [0.1], weights), ridge_path(x[rows], y[rows], [0.1]), strict=True
    ):
        torch.testing.assert_close(weighted.weight, repeated.weight, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(weighted.bias, repeated.bias, rtol=1e-3, atol=1e-5)
    ((_, weighted),) = logistic_path(x, classes, 3, [0.1], 200, weights=weights)
    ((_, repeated),) = logistic_path(x[rows], classes[rows], 3, [0.1], 200)
    torch.testing.assert_close(weighted.weight, repeated.weight, rtol=1e-2, atol=1e-3)


# Models.


def imbalanced(n: int = 300) -> tuple[Labelled, NDArray[Any]]:
    """One row in eight is of class 1, and overlaps with the others."""
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 8 == 0).astype(np.int64)
    frame = pd.DataFrame({"a": rng.normal(size=n) + y, "b": rng.normal(size=n) + y, "c": rng.choice(["x", "y"], n)})
    return Labelled(to_table(frame, fit_schema(frame)), y), y


@pytest.mark.parametrize("name", SETTINGS)
def test_balanced_classes_find_more_of_the_rare_one(name: str) -> None:
    labelled, y = imbalanced()
    registry = make_registry()
    entry = registry.find("model", name)
    assert entry.plugin.weights
    found = []
    for weights in (None, training_weights(y, balanced=True)):
        model = registry.load(entry)(**SETTINGS[name])
        model.fit(labelled, labelled, Task("binary", 2), Context(weights=weights))
        found.append(float(model.predict(labelled.features)[:, 1].mean()))
    assert found[1] > found[0] + 0.1, "the mean probability of a class of 12 % goes towards a half"


@pytest.mark.parametrize("name", ["linear", "xgboost", "catboost"])
def test_weights_reach_regression(name: str) -> None:
    labelled, y = imbalanced()
    registry = make_registry()
    model = registry.load(registry.find("model", name))(**SETTINGS[name])
    heavy = np.where(y == 1, 7.5, 0.07).astype(np.float32)
    numbers = Labelled(labelled.features, (10.0 * y).astype(np.float32))
    model.fit(numbers, numbers, Task("regression"), Context(weights=heavy))
    light = registry.load(registry.find("model", name))(**SETTINGS[name])
    light.fit(numbers, numbers, Task("regression"), Context())
    assert model.predict(labelled.features).mean() > light.predict(labelled.features).mean() + 1


# Plans, records and tables.


@pytest.fixture
def churn(tmp_path: Path) -> str:
    y = imbalanced(200)[1]
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(size=200) + y, "b": rng.normal(size=200), "w": 1 + np.arange(200) % 3})
    frame["y"] = np.where(y, "yes", "no")
    frame.to_csv(tmp_path / "churn.csv", index=False)
    return f"{tmp_path / 'churn.csv'}:y"


def keys(bench: Bench, kind: str, **entries: Any) -> set[str]:
    plan = bench.plan(model=["linear"], **entries)
    return {step.key for step in plan.steps.values() if step.kind == kind}


def test_weights_are_in_the_key_of_what_they_change(bench: Bench, churn: str) -> None:
    usual, balanced = ({"data": [churn], "class_weights": value} for value in ("", "balanced"))
    assert keys(bench, "fit", **usual).isdisjoint(keys(bench, "fit", **balanced))
    assert keys(bench, "pretrain", **usual) == keys(bench, "pretrain", **balanced), "one pretraining serves both"
    column = {"data": [churn], "weights": "w"}
    assert keys(bench, "pretrain", **usual).isdisjoint(keys(bench, "pretrain", **column)), "a feature less"
    assert keys(bench, "fit", **column).isdisjoint(keys(bench, "fit", **column, class_weights="balanced"))
    tuned = {"trials": 2, "controls": [], "ssl": ["none"]}
    assert keys(bench, "tune", **usual, **tuned).isdisjoint(keys(bench, "tune", **balanced, **tuned))


def test_weighted_records_say_so_and_are_ranked_apart(bench: Bench, churn: str) -> None:
    asked: list[dict[str, Any]] = [{}, {"class_weights": "balanced"}, {"class_weights": "balanced", "weights": "w"}]
    for weights in asked:
        bench.run(executor=InProcess, ssl=["none"], model=["linear"], data=[churn], **weights)
    records = {record.weights: record for record in bench.store.records()}
    assert set(records) == {None, "balanced classes", "balanced classes, column w"}
    assert [record.counts.features for record in records.values() if record.counts] == [3, 3, 2], "w is not a feature"
    assert len({record.hashes.predictions for record in records.values() if record.hashes}) == 3
    table = tabulate(bench.store)
    newest = [row for row in table.rows if row.group.weights]  # the table without w has another content
    assert [row.average_rank for row in table.rows] == [1.0] * len(table.rows)
    assert newest


def test_a_weighted_record_is_replayed_with_its_weights(bench: Bench, churn: str) -> None:
    entries: dict[str, Any] = {"ssl": ["none"], "model": ["linear"], "data": [churn], "preset": "quick"}
    entries |= {"class_weights": "balanced", "weights": "w", "folds": 3, "drop": ["b"]}
    bench.run(executor=InProcess, **entries)
    spec = make_spec(entries)
    bench.store.save_experiment(spec.to_json())
    record = bench.store.records()[0]
    again = prepare_replay(record, bench.store.root)
    assert again.command.endswith("--drop b --folds 3 --weights w --class-weights balanced")
    (manifest,) = find_data(spec.data, bench.registry, offline=True, reading=spec.reading, rule=spec.rule)
    assert again.plan(manifest)[1].key == record.key


def test_models_and_methods_that_take_no_weights_are_left_out_by_name(bench: Bench, churn: str) -> None:
    plan = bench.plan(ssl=["none", "vime_semi"], model=["mlp", "nearest"], data=[churn], class_weights="balanced")
    assert {step.planned.model for step in plan.records if step.planned} == {"mlp"}
    assert {skipped.reason for skipped in plan.skipped} == {
        "nearest does not support weights",
        "vime_semi learns from labels and does not support weights",
    }


@pytest.mark.parametrize("data, weights", [("wine", {"class_weights": "balanced"}), ("churn", {"weights": "w"})])
def test_nothing_left_is_refused(bench: Bench, churn: str, data: str, weights: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="Nothing to run: nearest does not support weights"):
        bench.plan(ssl=["none"], model=["nearest"], data=[churn if data == "churn" else data], **weights)


def test_tables_of_numbers_are_run_without_class_weights(bench: Bench) -> None:
    plan = bench.plan(ssl=["none"], model=["linear"], data=["wine", "diabetes"], class_weights="balanced")
    told = {step.planned.data: step.planned.weights for step in plan.records if step.planned}
    assert told == {"wine": "balanced classes", "diabetes": None}
    with pytest.raises(UsageError, match="--class-weights needs a target with classes, but no table in this run"):
        bench.plan(data=["diabetes"], class_weights="balanced")


@pytest.mark.parametrize(
    "values, message",
    [
        (["a", "b"], "must hold numbers, but holds text"),
        ([1.0, np.nan], "has no value in 1 rows"),
        ([1.0, -1.0], "must hold numbers of at least 0, and some above 0"),
        ([0.0, 0.0], "must hold numbers of at least 0, and some above 0"),
    ],
)
def test_columns_that_hold_no_weights_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=f"the weight column 'w' {message}"):
        read_weights(pd.DataFrame({"w": values}), "w")
    with pytest.raises(DataError, match="no column 'v'.*w"):
        read_weights(pd.DataFrame({"w": values}), "v")


def test_weighting_has_a_name() -> None:
    both = Weighting("w", balanced=True)
    assert both.name == "balanced classes, column w"
    assert both.on("regression") == replace(both, balanced=False)
    assert not Weighting()
