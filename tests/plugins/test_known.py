"""The known-answer tables keep what they promise: independence, factors, ceilings, and the same bytes everywhere."""

import hashlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tabbench_known import TABLES, tabbench_datasets
from tabbench_known.datasets import KnownDataset
from tabbench_known.tables import BITS, COLUMNS, FACTORS, FLIPPED, ROWS, SHARED, make_table

from tabbench.data.cleaning import clean

MANY = 100_000
"""Rows enough to measure a ceiling to a hundredth."""


def ridge(x: NDArray[np.float64], y: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """Weights of a regression without intercept; all columns have mean 0."""
    weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    return np.asarray(weights, np.float64)


def rmse(residuals: NDArray[np.float64]) -> float:
    return float(np.sqrt((residuals**2).mean()))


def test_the_group_known_has_three_tables() -> None:
    plugins = tabbench_datasets()
    assert [plugin.name for plugin in plugins] == sorted(TABLES)
    assert all(plugin.groups == ("known",) for plugin in plugins)


@pytest.mark.parametrize(
    "name, columns, task, note",
    [
        ("known-independent", BITS, "classification", "accuracy of 0.800"),
        ("known-factors", COLUMNS, "regression", "RMSE of 0.538"),
        ("known-noise", COLUMNS, "classification", "accuracy of 0.500"),
    ],
)
def test_a_table_loads_whole_and_tells_its_ceiling(
    name: str, columns: int, task: str, note: str, tmp_path: Path
) -> None:
    loaded = KnownDataset(name).load(tmp_path, offline=True)
    assert loaded.notes == (f"the best possible model has an expected {note} on new rows",)
    cleaned = clean(loaded, as_published=True)
    assert (cleaned.frame.shape, cleaned.task) == ((ROWS, columns + 1), task)


@pytest.mark.parametrize(
    "name, digest",
    [
        ("known-independent", "3f3929f8d44b01aa"),
        ("known-factors", "0cf92d6a5e7a8674"),
        ("known-noise", "621358f24e88b13a"),
    ],
)
def test_a_table_has_the_same_bytes_on_every_machine(name: str, digest: str) -> None:
    table = make_table(name)
    content = table.features.astype("<f8").tobytes() + np.asarray(table.target, "<f8").tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == digest


@pytest.mark.parametrize("name", TABLES)
def test_a_longer_table_begins_in_the_same_way(name: str) -> None:
    short, long = make_table(name, 100), make_table(name, 300)
    assert np.array_equal(short.features, long.features[:100])
    assert np.array_equal(short.target, long.target[:100])


# known-independent: no encoder can help.


def test_columns_are_independent_and_of_one_kind() -> None:
    features = make_table("known-independent", MANY).features
    signs = features > 0
    for values in (features, features**2, np.abs(features)):
        correlations = np.corrcoef(values.T)[np.triu_indices(BITS, 1)]
        assert np.abs(correlations).max() < 4.5 / np.sqrt(MANY)
    for first, second, third in combinations(range(BITS), 3):  # nor do two together tell of a third
        parity = signs[:, first] ^ signs[:, second] ^ signs[:, third]
        assert abs(parity.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(MANY)
    quantiles = np.quantile(features, [0.05, 0.25, 0.4, 0.6, 0.75, 0.95], axis=0)
    assert np.ptp(quantiles, axis=1).max() < 0.03


def test_the_label_is_about_the_first_column_and_no_other() -> None:
    table = make_table("known-independent", MANY)
    agrees = ((table.features > 0) == (table.target[:, None] == 1)).mean(axis=0)
    assert agrees[0] == pytest.approx(1 - FLIPPED, abs=0.005)
    assert np.abs(agrees[1:] - 0.5).max() < 4.5 * 0.5 / np.sqrt(MANY)


def test_the_best_rule_for_independent_columns_reaches_the_ceiling() -> None:
    """The sign of the first column is the best rule, as the density of a label is larger on its side of 0."""
    table = make_table("known-independent", MANY)
    accuracy = ((table.features[:, 0] > 0) == (table.target == 1)).mean()
    assert accuracy == pytest.approx(table.best, abs=4 * 0.4 / np.sqrt(MANY))
    assert table.best == pytest.approx(0.79974, abs=1e-5)  # 0.8 * 0.99957 + 0.2 * 0.00043


# known-factors: self-supervision must help with few labels.


def test_columns_are_mixes_of_a_few_factors() -> None:
    features = make_table("known-factors", MANY).features
    assert features.std(axis=0) == pytest.approx(1, abs=0.02)
    values = np.linalg.eigvalsh(np.cov(features.T))[::-1]
    assert values[FACTORS - 1] > 2.5 * values[FACTORS], "the factors stand out"
    assert values[FACTORS:] == pytest.approx(1 - SHARED, abs=0.03), "and the rest is noise"


def test_the_best_model_of_factors_reaches_the_ceiling_and_no_model_is_better() -> None:
    """For normal variables the best model is linear, so that regression on many rows comes arbitrarily close."""
    table = make_table("known-factors", 2 * MANY)
    target = np.asarray(table.target, np.float64)
    weights = ridge(table.features[:MANY], target[:MANY], 0.0)
    found = rmse(target[MANY:] - table.features[MANY:] @ weights)
    assert found == pytest.approx(table.best, rel=4 / np.sqrt(2 * MANY))


def test_with_50_labels_three_components_beat_thirty_columns() -> None:
    """Principal components of the rows without labels are the oldest self-supervised method."""
    table = make_table("known-factors", 10_000)
    target = np.asarray(table.target, np.float64)
    unlabelled, new = slice(0, 1600), slice(5000, None)
    directions = np.linalg.eigh(np.cov(table.features[unlabelled].T)).eigenvectors[:, -FACTORS:]
    components = table.features @ directions
    raw: list[float] = []
    helped: list[float] = []
    for draw in range(20):
        labelled = np.random.RandomState(draw).permutation(1600)[:50]
        for features, errors in ((table.features, raw), (components, helped)):
            scores = []
            for penalty in (0.1, 1.0, 10.0, 30.0, 100.0):
                weights = ridge(features[labelled], target[labelled], penalty)
                scores.append(rmse(target[new] - features[new] @ weights))
            errors.append(min(scores))  # the best penalty for each, so that nothing else decides
    assert np.mean(helped) < table.best + 0.04
    assert np.mean(raw) > table.best + 0.06
    assert sum(a < b for a, b in zip(helped, raw, strict=True)) >= 19


# known-noise: nothing can be learned.


def test_labels_of_noise_have_nothing_to_do_with_the_columns() -> None:
    table = make_table("known-noise", MANY)
    assert table.target.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(MANY))
    signs = 2.0 * table.target - 1
    for values in (table.features, table.features**2 - 1):
        assert np.abs(values.T @ signs / MANY).max() < 4.5 * np.sqrt(values.var()) / np.sqrt(MANY)


def test_no_regression_beats_the_coin() -> None:
    table = make_table("known-noise", 2 * MANY)
    signs = 2 * np.asarray(table.target, np.float64) - 1
    weights = ridge(table.features[:MANY], signs[:MANY], 1.0)
    accuracy = ((table.features[MANY:] @ weights > 0) == (signs[MANY:] > 0)).mean()
    assert accuracy == pytest.approx(table.best, abs=4 * 0.5 / np.sqrt(MANY))


def test_columns_of_noise_have_factors_to_be_found() -> None:
    values = np.linalg.eigvalsh(np.cov(make_table("known-noise").features.T))[::-1]
    assert values[FACTORS - 1] > 2 * values[FACTORS]
