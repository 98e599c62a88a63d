"""Which rows are for training, validation and test: 80/10/10, stratified by class, decided by a seed alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabbench.errors import UsageError

Indices = NDArray[np.int64]

SPLIT_STREAM, SUBSAMPLE_STREAM = 1, 2  # so that a subsample and the split of it do not share random numbers


@dataclass(frozen=True, eq=False)
class Split:
    """Sorted row numbers. Every row is in exactly one part, except rows after the window of a time split."""

    train: Indices
    validation: Indices
    test: Indices

    @property
    def key(self) -> str:
        """Hash of the three parts, for the record."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            digest.update(f"{len(part)};".encode() + part.astype("<i8").tobytes())
        return digest.hexdigest()[:24]


def split_rows(y: NDArray[Any], is_regression: bool, seed: int) -> Split:
    """Split rows: ``round(0.1 * n)`` each for validation and test, the rest for training.

    Validation and test each get a tenth of every class, rounded up or down. A class of one or two rows goes to
    training first; larger classes make up the difference and keep at least half of their rows. The parts are smaller
    only if nearly every row is a class of its own: every class always has a training row.

    Args:
        y: class of each row, or anything of the right length for regression.
        is_regression: rows are split regardless of ``y``.
        seed: the same seed gives the same split.
    """
    rng = np.random.default_rng([SPLIT_STREAM, seed])
    n = len(y)
    size = round(0.1 * n)
    classes = np.zeros(n, dtype=np.int64) if is_regression else np.unique(y, return_inverse=True)[1]
    counts = np.bincount(classes)
    if is_regression:
        validation = test = np.full(len(counts), size)
    else:
        validation, test = _allot(counts, size, rng)
    order = shuffle_by_class(classes, is_regression, rng)
    of_class = classes[order]
    place = np.arange(n) - (np.cumsum(counts) - counts)[of_class]
    in_validation = place < validation[of_class]
    in_test = ~in_validation & (place < (validation + test)[of_class])
    return Split(
        np.sort(order[~(in_validation | in_test)]).astype(np.int64),
        np.sort(order[in_validation]).astype(np.int64),
        np.sort(order[in_test]).astype(np.int64),
    )


def subsample_rows(y: NDArray[Any], is_regression: bool, rows: int, seed: int) -> Indices:
    """Sorted numbers of ``rows`` rows (all if there are fewer): classes in proportion, at least one row each."""
    n = len(y)
    if rows >= n:
        return np.arange(n, dtype=np.int64)
    rng = np.random.default_rng([SUBSAMPLE_STREAM, seed])
    if is_regression:
        return np.sort(rng.permutation(n)[:rows]).astype(np.int64)
    classes = np.unique(y, return_inverse=True)[1]
    counts = np.bincount(classes)
    if rows < len(counts):
        raise UsageError(f"{rows} rows cannot hold {len(counts)} classes: use more rows")
    take = 1 + apportion(rows - len(counts), counts - 1)
    order = shuffle_by_class(classes, False, rng)
    place = np.arange(n) - (np.cumsum(counts) - counts)[classes[order]]
    return np.sort(order[place < take[classes[order]]]).astype(np.int64)


def shuffle_by_class(y: NDArray[Any], is_regression: bool, rng: np.random.Generator) -> Indices:
    """Row numbers in random order, grouped by class."""
    shuffled = rng.permutation(len(y))
    if is_regression:
        return shuffled.astype(np.int64)
    classes = np.unique(y, return_inverse=True)[1]
    return shuffled[np.argsort(classes[shuffled], kind="stable")].astype(np.int64)


def _allot(counts: Indices, size: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """How many rows of each class go to validation and to test, ``size`` in total each."""
    tenths, left_over = counts // 10, counts % 10
    validation, test = tenths.copy(), tenths.copy()
    tie_break = rng.permutation(len(counts))

    def round_up(part: Indices, other: Indices, wish: Indices) -> None:
        """Add rows where the demand is highest, until ``part`` has ``size``."""
        free = (left_over > 0) & (counts - part - other >= 2)
        ranking = np.lexsort((tie_break, -wish))
        chosen = ranking[free[ranking]][: size - part.sum()]
        part[chosen] += 1

    round_up(validation, test, left_over)
    # A class that was rounded up in validation needs it less in test.
    round_up(test, validation, 2 * left_over - 10 * (validation - tenths))
    for part in (validation, test):
        room = np.maximum(counts // 2 - validation - test, 0)
        part += apportion(size - part.sum(), room)
    return validation, test


def apportion(total: int, room: Indices) -> Indices:
    """Divide ``total`` (at most the whole room) in proportion to ``room``, by largest remainders."""
    available = int(room.sum())
    total = min(total, available)
    if total <= 0:
        return np.zeros_like(room)
    shares, remainders = np.divmod(room * total, available)
    lacking = total - int(shares.sum())
    shares[np.argsort(-remainders, kind="stable")[:lacking]] += 1
    return shares
