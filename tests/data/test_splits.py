"""Splits: sizes, strata, determinism."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabbench import UsageError
from tabbench.data.splits import Split, split_rows, subsample_rows

seeds = st.integers(0, 2**32 - 1)


def make_labels(counts: list[int], seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))


def per_class(y: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(y[rows], minlength=int(y.max()) + 1)


def assert_partition(split: Split, n: int) -> None:
    parts = (split.train, split.validation, split.test)
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(n))


@given(counts=st.lists(st.integers(3, 80), min_size=2, max_size=30), seed=seeds)
@settings(deadline=None)
def test_each_class_is_represented_within_one_row_and_the_totals_are_exact(counts: list[int], seed: int) -> None:
    y = make_labels(counts, seed)
    split = split_rows(y, False, seed)
    assert_partition(split, len(y))
    assert len(split.validation) == len(split.test) == round(0.1 * len(y))
    for part in (split.validation, split.test):
        assert (np.abs(per_class(y, part) - 0.1 * np.array(counts)) < 1).all()
    assert (per_class(y, split.train) >= 1).all()


@given(counts=st.lists(st.integers(1, 12), min_size=2, max_size=40), seed=seeds)
@settings(deadline=None)
def test_small_classes_stay_in_training_first(counts: list[int], seed: int) -> None:
    y = make_labels(counts, seed)
    split = split_rows(y, False, seed)
    assert_partition(split, len(y))
    assert (per_class(y, split.train) >= 1).all()
    size = round(0.1 * len(y))
    assert max(len(split.validation), len(split.test)) <= size
    if len(y) >= 10 and len(counts) <= len(y) / 2:
        assert len(split.validation) == len(split.test) == size


@given(n=st.integers(0, 500), seed=seeds)
@settings(deadline=None)
def test_regression_rows_are_divided_without_regard_to_the_target(n: int, seed: int) -> None:
    split = split_rows(np.zeros(n), True, seed)
    assert_partition(split, n)
    assert len(split.validation) == len(split.test) == round(0.1 * n)
    assert split.key == split_rows(np.arange(n), True, seed).key


def test_every_row_a_class_of_its_own_is_all_training() -> None:
    split = split_rows(np.arange(50), False, 0)
    assert (len(split.train), len(split.validation), len(split.test)) == (50, 0, 0)


def test_what_many_single_rows_cannot_give_comes_from_large_classes() -> None:
    y = np.concatenate([np.arange(1, 51), np.zeros(150, dtype=np.int64)])
    split = split_rows(y, False, 3)
    assert len(split.validation) == len(split.test) == 20
    assert set(y[split.validation]) == {0}


def test_the_seed_decides() -> None:
    y = make_labels([40, 60, 100], 0)
    assert split_rows(y, False, 5).key == split_rows(y, False, 5).key
    assert len({split_rows(y, False, seed).key for seed in range(20)}) == 20


def test_labels_may_be_any_numbers() -> None:
    y = make_labels([40, 60, 100], 0)
    assert split_rows(y, False, 1).key == split_rows(y * 1000 - 7, False, 1).key


def test_each_row_is_tested_about_as_often() -> None:
    y = make_labels([10, 15, 75], 0)
    seen = np.zeros(100)
    for seed in range(400):
        seen[split_rows(y, False, seed).test] += 1
    assert seen.min() > 15
    assert seen.max() < 75


@given(
    counts=st.lists(st.integers(1, 60), min_size=2, max_size=20), extra=st.integers(0, 300), seed=st.integers(0, 1000)
)
@settings(deadline=None)
def test_a_subsample_keeps_every_class_in_proportion(counts: list[int], extra: int, seed: int) -> None:
    y = make_labels(counts, seed)
    rows = min(len(counts) + extra, len(y))
    chosen = subsample_rows(y, False, rows, seed)
    assert (np.diff(chosen) > 0).all()
    assert len(chosen) == rows
    found = per_class(y, chosen)
    spare = np.array(counts) - 1
    wanted = 1 + (rows - len(counts)) * spare / max(spare.sum(), 1)
    assert (found >= 1).all()
    assert (np.abs(found - wanted) < 1).all()


def test_a_subsample_too_small_for_the_classes_is_refused() -> None:
    with pytest.raises(UsageError, match="5 rows cannot hold 10 classes"):
        subsample_rows(np.arange(100) % 10, False, 5, 0)


def test_a_subsample_of_a_regression_is_drawn_at_random() -> None:
    chosen = subsample_rows(np.zeros(100), True, 30, 0)
    assert len(np.unique(chosen)) == 30
    assert not np.array_equal(chosen, subsample_rows(np.zeros(100), True, 30, 1))
    assert np.array_equal(subsample_rows(np.zeros(20), True, 30, 0), np.arange(20))
