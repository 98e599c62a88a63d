"""Split rows by a rule other than random 80/10/10: folds, groups, a column, time.

Every function is pure: the table's own columns and a seed decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.contracts.split_rule import SplitRule
from tabbench.data.content import row_marks
from tabbench.data.splits import Indices, Split, apportion, shuffle_by_class, split_rows
from tabbench.errors import DataError
from tabbench.frames import no_column

FOLD_STREAM, GROUP_STREAM, VALIDATION_STREAM = 3, 4, 5
PARTS = {"train": 0, "training": 0, "validation": 1, "valid": 1, "val": 1, "dev": 1, "test": 2, "testing": 2}
"""The words a split column may hold, in upper or lower case."""
MANY_FOLDS = 100
UNEVEN = 1.5
"""A fold with more than this multiple of its share is not used for validation or test if there are others."""


def divide(
    rule: SplitRule,
    number: int,
    features: pd.DataFrame,
    y: NDArray[Any],
    is_regression: bool,
    server_folds: NDArray[np.int16] | None = None,
) -> Split:
    """The split with this number under a rule.

    Args:
        rule: how.
        number: which split, from 0; for random splits, the seed.
        features: the table without its target, with the columns of the rule.
        y: classes or numbers, one per row.
        is_regression: what ``y`` holds.
        server_folds: (rows, repeats), the fold that tests a row, -1 for none; for the kind ``server``.
    """
    for name in rule.columns:
        if name not in features.columns:
            raise no_column("column", name, features.columns)
    if rule.kind == "time":
        return split_by_time(features[rule.column], number)
    if rule.kind == "column":
        return split_by_column(features[rule.column], number, y, is_regression)
    if rule.kind == "server":
        if server_folds is None:
            raise DataError("this dataset has no folds of its own: --folds server is for openml/t/ID and suites")
        return split_by_server(server_folds, number, y, is_regression)
    groups = None
    if rule.group:
        groups = group_codes(features[rule.group])
    elif rule.equal_together:
        groups = np.unique(row_marks(features), return_inverse=True)[1].astype(np.int64)
    if rule.kind == "folds":
        return split_by_folds(rule.folds, number, y, is_regression, groups)
    return split_rows(y, is_regression, number) if groups is None else split_by_group(groups, y, is_regression, number)


def group_codes(column: pd.Series[Any]) -> Indices:
    """A number for each group; a row without one is a group of its own."""
    codes = pd.factorize(column)[0].astype(np.int64)
    alone = codes < 0
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(alone.sum())
    return codes


def split_by_group(groups: Indices, y: NDArray[Any], is_regression: bool, seed: int) -> Split:
    """About 80/10/10, with no group on two sides; with fewer than ten groups, one each for validation and test."""
    n_groups = int(groups.max()) + 1
    if n_groups < 3:
        raise DataError(f"{n_groups} groups are too few: at least 3 are needed, one for each part")
    n_folds = min(10, n_groups)
    fold = group_folds(groups, y, is_regression, n_folds, seed)
    rows = np.bincount(fold, minlength=n_folds)
    rng = np.random.default_rng([GROUP_STREAM, seed])
    order = rng.permutation(n_folds)
    # A group as large as half the table goes to training, unless all are like that.
    order = order[np.argsort(rows[order] > UNEVEN * len(y) / n_folds, kind="stable")]
    return _parts(np.where(fold == order[0], 2, np.where(fold == order[1], 1, 0)))


def group_folds(groups: Indices, y: NDArray[Any], is_regression: bool, n_folds: int, seed: int) -> Indices:
    """The fold of each row. Groups are dealt out by size and class, so that folds are alike in both."""
    n_groups = int(groups.max()) + 1
    sizes = np.bincount(groups, minlength=n_groups)
    classes = np.zeros(n_groups, dtype=np.int64)
    if not is_regression:  # the class that most rows of the group have
        names, labels = np.unique(y, return_inverse=True)
        pairs, counts = np.unique(groups * len(names) + labels, return_counts=True)
        group, label = np.divmod(pairs[np.argsort(counts, kind="stable")], len(names))
        classes[group] = label
    shuffled = np.random.default_rng([FOLD_STREAM, seed]).permutation(n_groups)
    order = np.lexsort((shuffled, classes, -sizes))
    round_, place = np.divmod(np.arange(n_groups), n_folds)
    fold_of = np.empty(n_groups, dtype=np.int64)
    fold_of[order] = np.where(round_ % 2 == 0, place, n_folds - 1 - place)  # back and forth, so that sizes even out
    return fold_of[groups]


def split_by_folds(
    n_folds: int, number: int, y: NDArray[Any], is_regression: bool, groups: Indices | None = None
) -> Split:
    """Fold ``number`` is for test; a ninth of the rest (with groups, the next fold) is for validation."""
    if groups is None:
        if n_folds > len(y) / 2:
            raise DataError(f"{n_folds} folds of {len(y):,} rows: each needs at least two rows")
        order = shuffle_by_class(y, is_regression, np.random.default_rng([FOLD_STREAM, 0]))
        fold = np.empty(len(y), dtype=np.int64)
        fold[order] = np.arange(len(y)) % n_folds
        return _with_validation(fold == number, y, is_regression, number)
    n_groups = int(groups.max()) + 1
    if n_folds < 3 or n_groups < n_folds:
        raise DataError(f"{n_folds} folds of {n_groups:,} groups: at least 3 folds are needed, each with a group")
    fold = group_folds(groups, y, is_regression, n_folds, 0)
    return _parts(np.where(fold == number, 2, np.where(fold == (number + 1) % n_folds, 1, 0)))


def split_by_column(column: pd.Series[Any], number: int, y: NDArray[Any], is_regression: bool) -> Split:
    """Split by a column that holds train, validation and test, or the number of a row's test fold."""
    parts, n_splits = read_split_column(column)
    if n_splits > 1:
        return _with_validation(parts == number, y, is_regression, number)
    return _parts(parts) if (parts == 1).any() else _with_validation(parts == 2, y, is_regression, number)


def read_split_column(column: pd.Series[Any]) -> tuple[Indices, int]:
    """The part (0, 1, 2) or the fold of each row, and how many splits that makes.

    Raises:
        DataError: the column holds something else.
    """
    if column.isna().any():
        raise DataError(f"the split column {column.name!r} has no value in {int(column.isna().sum()):,} rows")
    codes, values = pd.factorize(column)
    words = [str(value).strip().lower() for value in values]
    if set(words) <= set(PARTS):
        parts = np.array([PARTS[word] for word in words], dtype=np.int64)[codes]
        for part, name in ((0, "train"), (2, "test")):
            if not (parts == part).any():
                raise DataError(f"the split column {column.name!r} has no row with {name!r}")
        return parts, 1
    numbers = pd.to_numeric(pd.Series(words), errors="coerce").to_numpy(dtype=np.float64)
    if len(words) < 2 or len(words) > MANY_FOLDS or np.isnan(numbers).any():
        shown = ", ".join(repr(word[:20]) for word in sorted(words)[:4])
        raise DataError(
            f"the split column {column.name!r} must hold train, test and perhaps validation, or 2 to {MANY_FOLDS} "
            f"fold numbers; it holds {shown}{', ...' if len(words) > 4 else ''}"
        )
    return np.argsort(np.argsort(numbers))[codes].astype(np.int64), len(words)


def split_by_time(column: pd.Series[Any], number: int) -> Split:
    """Train on the past, test on a later tenth of the rows, validate on the tenth in between.

    Window 0 ends with the last row; each further one ends a tenth of the rows earlier. Rows with the same time are
    never separated.
    """
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise DataError(f"the time column {column.name!r} holds text that is neither a date nor a number")
    times = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isnan(times).any():
        raise DataError(f"the time column {column.name!r} has no value in {int(np.isnan(times).sum()):,} rows")
    n = len(times)
    size = round(0.1 * n)
    in_order = np.sort(times)
    ends = [n - size * (number + back) for back in (2, 1, 0)]
    if ends[0] < size:
        raise DataError(f"window {number} of the time column {column.name!r} has too few rows before it")
    first, second = in_order[ends[0]], in_order[ends[1]]
    end = in_order[ends[2]] if ends[2] < n else np.inf
    split = _parts(np.where(times < first, 0, np.where(times < second, 1, np.where(times < end, 2, -1))))
    if not (len(split.train) and len(split.validation) and len(split.test)):
        raise DataError(f"the time column {column.name!r} has too few distinct times for an 80/10/10 split")
    return split


def split_by_server(folds: NDArray[np.int16], number: int, y: NDArray[Any], is_regression: bool) -> Split:
    """The folds that come with a dataset, one repeat after another."""
    per_repeat = int(folds[:, 0].max()) + 1
    repeat, fold = divmod(number, per_repeat)
    return _with_validation(folds[:, repeat] == fold, y, is_regression, number)


def train_side(rule: SplitRule, unlabelled: pd.DataFrame, features: pd.DataFrame, split: Split) -> NDArray[np.bool_]:
    """Which unlabelled rows pretraining may use: none from the future, from a test group, or marked as test."""
    everywhere = np.ones(len(unlabelled), dtype=bool)
    if rule.transductive:
        return everywhere
    if rule.kind == "time":
        first = features[rule.column].to_numpy(dtype=np.float64)[split.validation].min()
        times = unlabelled[rule.column].to_numpy(dtype=np.float64, na_value=np.nan)
        past: NDArray[np.bool_] = times < first
        return past
    if rule.kind == "column":
        words = unlabelled[rule.column].astype(str).str.strip().str.lower()
        return words.isin([word for word, part in PARTS.items() if part == 0]).to_numpy(dtype=bool)
    if rule.group:
        held_out = _group_names(features[rule.group]).iloc[np.concatenate([split.validation, split.test])].unique()
        return ~_group_names(unlabelled[rule.group]).isin(held_out).to_numpy(dtype=bool)
    return everywhere


def _group_names(column: pd.Series[Any]) -> pd.Series[Any]:
    """Text for each group. The group 7 is the same one in a column of integers and in one of floats."""
    is_number = pd.api.types.is_numeric_dtype(column.dtype)
    return (column.astype("float64") if is_number else column).astype(str)


def _parts(parts: NDArray[np.int64]) -> Split:
    train, validation, test = (np.flatnonzero(parts == part).astype(np.int64) for part in (0, 1, 2))
    return Split(train, validation, test)


def _with_validation(in_test: NDArray[np.bool_], y: NDArray[Any], is_regression: bool, seed: int) -> Split:
    """Use a ninth of the non-test rows (10 of 90 %) for validation, with classes in proportion."""
    rest = np.flatnonzero(~in_test).astype(np.int64)
    rng = np.random.default_rng([VALIDATION_STREAM, seed])
    labels = np.zeros(len(rest), dtype=np.int64) if is_regression else np.unique(y[rest], return_inverse=True)[1]
    counts = np.bincount(labels)
    take = apportion(max(1, round(len(rest) / 9)), counts - 1)
    order = shuffle_by_class(labels, False, rng)
    place = np.arange(len(rest)) - (np.cumsum(counts) - counts)[labels[order]]
    chosen = np.zeros(len(rest), dtype=bool)
    chosen[order] = place < take[labels[order]]
    return Split(rest[~chosen], rest[chosen], np.flatnonzero(in_test).astype(np.int64))
