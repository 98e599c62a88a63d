"""What makes a result unbelievable is seen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import TOYS

from tabbench.data.prepare import SplitData, open_split
from tabbench.data.sources import resolve_data
from tabbench.registry import make_registry
from tabbench.results.record import Scores
from tabbench.running import tripwires


@pytest.fixture(scope="module")
def split() -> SplitData:
    (manifest,) = resolve_data("breast_cancer", make_registry([TOYS]), offline=True)
    return open_split(manifest, 0)


def predictions(split: SplitData, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    sizes = {"validation": len(split.validation.y), "test": len(split.test)}
    return {name: generator.dirichlet(np.ones(2), size).astype(np.float32) for name, size in sizes.items()}


def test_an_honest_result_has_no_flag(split: SplitData) -> None:
    made = predictions(split)
    assert tripwires.check_predictions(split, made) == []
    assert tripwires.check_scores(split, {"accuracy": 0.9}, {"accuracy": 0.8}) == []
    assert tripwires.check_training({"loss": [1.0, 0.9]}, {"train_loss": [1.0, 0.9, 0.8]}, {}) == []
    rows = np.random.default_rng(0).normal(size=(100, 4, 8)).astype(np.float32)
    assert tripwires.check_representation(rows) == []


def test_validation_equal_to_test_is_seen(split: SplitData) -> None:
    shared = replace(split, rows=replace(split.rows, validation=split.rows.test))
    assert tripwires.check_scores(shared, {"accuracy": 0.9}, {"accuracy": 0.8}) == [tripwires.VALIDATION_IS_TEST]
    same: Scores = {"accuracy": 0.912345, "log_loss": 0.3456}
    assert tripwires.check_scores(split, same, dict(same)) == [tripwires.VALIDATION_IS_TEST]


def test_constant_and_broken_predictions_are_seen(split: SplitData) -> None:
    constant = predictions(split)
    constant["test"] = np.tile(np.array([0.4, 0.6], dtype=np.float32), (len(split.test), 1))
    assert tripwires.check_predictions(split, constant) == [tripwires.CONSTANT_PREDICTION]
    broken = predictions(split)
    broken["validation"][0, 0] = np.nan
    assert tripwires.check_predictions(split, broken) == [tripwires.NON_FINITE]


def one_class(split: SplitData) -> dict[str, Any]:
    """Probabilities that differ from row to row, with the same class ahead in all of them."""
    made = predictions(split)
    made["test"] = np.sort(made["test"], axis=1)
    return made


def test_one_class_for_all_rows_is_no_answer_unless_nearly_all_rows_have_it(split: SplitData) -> None:
    assert len(split.test) >= tripwires.FEW_ROWS
    assert tripwires.check_predictions(split, one_class(split)) == [tripwires.CONSTANT_PREDICTION]
    labels = (np.arange(len(split.train.y)) % 20 > 0).astype(np.int64)
    rare = replace(split, train=split.train._replace(y=labels))
    assert tripwires.check_predictions(rare, one_class(rare)) == []


def test_one_class_for_a_handful_of_rows_is_no_reason_to_doubt(split: SplitData) -> None:
    few = replace(split, test=split.test.take(slice(0, 3)))
    assert tripwires.CONSTANT_PREDICTION not in tripwires.check_predictions(few, one_class(few))


def test_a_test_part_that_is_too_small_is_seen(split: SplitData) -> None:
    small = replace(split, test=split.test.take(slice(0, 10)))
    assert tripwires.SMALL_TEST in tripwires.check_predictions(small, predictions(small))


def test_collapse_is_seen_and_mere_smallness_is_not() -> None:
    generator = np.random.default_rng(0)
    offset = generator.normal(size=(1, 32))
    noise = generator.normal(size=(200, 32))
    assert tripwires.check_representation((offset + 1e-5 * noise).astype(np.float32)) == [tripwires.COLLAPSED]
    assert tripwires.check_representation(np.ones((50, 3, 4), dtype=np.float32)) == [tripwires.COLLAPSED]
    assert tripwires.check_representation((1e-5 * noise).astype(np.float32)) == []
    assert tripwires.check_representation((offset + 0.1 * noise).astype(np.float32)) == []
    noise[3, 3] = np.inf
    assert tripwires.check_representation(noise.astype(np.float32)) == [tripwires.NON_FINITE]


def test_smoke_runs_are_seen() -> None:
    assert tripwires.check_training({"loss": [1.0]}) == [tripwires.SMOKE]
    assert tripwires.check_training({}, {"train_loss": [1.0], "best_epoch": 1}) == [tripwires.SMOKE]
    assert tripwires.check_training({"epochs": 1, "first": {}}) == [tripwires.SMOKE]


def test_flags_that_plugins_raise_themselves_are_taken() -> None:
    told = {"epochs": 3, "flags": ["not for tables"]}
    assert tripwires.check_training(told, {}) == ["not for tables"]
    assert tripwires.check_training(told, {"train_loss": [1.0]}) == ["not for tables", tripwires.SMOKE]


@pytest.mark.parametrize(
    "told, collapsed",
    [
        ({"collapsed": [False, True, True]}, True),
        ({"collapsed": [True, True, False]}, False),
        ({"collapsed": [False, True, False], "best_epoch": 2}, True),
        ({"collapsed": [True, False, True], "best_epoch": 2}, False),
        ({"collapsed": []}, False),
    ],
)
def test_a_method_that_says_its_encoder_had_collapsed_is_believed(told: dict[str, Any], collapsed: bool) -> None:
    flags = tripwires.check_training({"loss": [1.0, 0.5, 0.1], **told}, {"train_loss": [1.0, 0.9]})
    assert flags == ([tripwires.COLLAPSED] if collapsed else [])
