"""Scaling of numeric columns: the values themselves, beside scikit-learn's."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

from tabbench import Scaler
from tabbench.config import ScalingKind

KINDS: list[ScalingKind] = ["standard", "minmax", "quantile"]


def columns(rows: int = 2000, seed: int = 0) -> NDArray[np.float32]:
    """A heavy tail, whole numbers that repeat, mostly zeros, and a plain normal column."""
    rng = np.random.default_rng(seed)
    tail, few = rng.lognormal(3, 2, rows), rng.integers(0, 5, rows)
    zeros = rng.normal(size=rows) * (rng.random(rows) < 0.1)
    return np.stack([tail, few, zeros, rng.normal(5, 3, rows)], axis=1).astype(np.float32)


def test_standard_is_zero_mean_and_unit_variance() -> None:
    expected = StandardScaler().fit(columns().astype(np.float64))
    scaler = Scaler("standard").fit(columns())
    np.testing.assert_allclose(scaler.transform(columns(50, 1)), expected.transform(columns(50, 1)), rtol=1e-4)


def test_minmax_is_the_training_range_and_other_rows_are_clipped_to_it() -> None:
    expected = MinMaxScaler(clip=True).fit(columns())
    beyond = columns(50, 1) * 100 - 50
    scaled = Scaler("minmax").fit(columns()).transform(beyond)
    np.testing.assert_allclose(scaled, expected.transform(beyond), atol=1e-6)
    assert scaled.min() == 0
    assert scaled.max() == 1


def test_quantile_is_the_normal_distribution_of_scikit_learn() -> None:
    """But for the lowest and the highest value, which scikit-learn puts at 5.2 even where they repeat."""
    expected = QuantileTransformer(n_quantiles=1000, output_distribution="normal", subsample=None).fit(columns())
    ours, theirs = Scaler("quantile").fit(columns()).transform(columns(500, 1)), expected.transform(columns(500, 1))
    inside = np.abs(theirs) < 5
    assert inside.mean() > 0.85
    np.testing.assert_allclose(ours[inside], theirs[inside], atol=2e-3)
    np.testing.assert_array_equal(np.sign(ours[~inside]), np.sign(theirs[~inside]))
    assert np.abs(ours).max() < 5.3


def test_quantile_gives_a_value_that_repeats_the_middle_of_its_ranks() -> None:
    column = np.array([0.0] * 90 + list(range(1, 11)), dtype=np.float32)[:, None]
    scaled = Scaler("quantile").fit(column).transform(column)
    assert scaled[:90].max() == scaled[:90].min()
    assert scaled[0, 0] == pytest.approx(-0.12, abs=0.03)  # the 45th of 100 ranks


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_values_is_kept(kind: ScalingKind) -> None:
    values = np.sort(columns(), axis=0)
    scaled = Scaler(kind).fit(columns()).transform(values)
    assert (np.diff(scaled, axis=0) >= 0).all()
    assert (scaled[-1] > scaled[0]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_missing_numbers_take_the_centre_of_the_training_rows(kind: ScalingKind) -> None:
    table = columns()
    table[::7] = np.nan
    scaler = Scaler(kind).fit(table)
    whole = columns()[np.arange(len(table)) % 7 != 0]
    centre = np.median(whole, axis=0) if kind == "quantile" else whole.mean(axis=0)
    missing = scaler.transform(np.full((1, 4), np.nan, np.float32))
    np.testing.assert_allclose(missing, scaler.transform(centre[None].astype(np.float32)), atol=1e-4)
    np.testing.assert_array_equal(scaler.transform(whole), Scaler(kind).fit(whole).transform(whole))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_say_nothing_become_zero(kind: ScalingKind) -> None:
    table = np.stack([np.full(10, 7.0), np.full(10, np.nan), np.arange(10.0)], axis=1).astype(np.float32)
    scaler = Scaler(kind).fit(table)
    other = np.array([[9.0, 3.0, 4.0], [np.nan, np.nan, np.nan]], dtype=np.float32)
    assert not scaler.transform(other)[:, :2].any()
    assert np.isfinite(scaler.transform(other)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaler_read_back_scales_as_before(kind: ScalingKind) -> None:
    scaler = Scaler(kind).fit(columns())
    again = Scaler(kind).set_state(scaler.get_state())
    np.testing.assert_array_equal(scaler.transform(columns(30, 2)), again.transform(columns(30, 2)))
