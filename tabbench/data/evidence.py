"""Warnings about a split: rows that occur on both sides, parts too small to judge by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabbench.data.splits import Indices, Split

NOTED_SHARE = 0.01
FLAGGED_SHARE = 0.05
FEW_TEST_ROWS = 50
SHARED_ROWS = "test rows also occur in training"
TRANSDUCTIVE = "pretrained on unlabelled rows from the test side"


@dataclass(frozen=True)
class Evidence:
    """Notes inform readers; flags keep a result out of tables."""

    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def judge_split(split: Split, marks: NDArray[np.uint64], labelled: Indices | None = None) -> Evidence:
    """Count the test rows that also occur in training, target included, and check that there are enough test rows.

    Args:
        split: the parts.
        marks: equal for equal rows; see ``tabbench.data.content.row_marks``.
        labelled: the training rows that have a label, if not all: a hidden label must not decide what is flagged.
    """
    notes, flags = [], []
    shared = count_shared(split.test, split.train if labelled is None else labelled, marks)
    share = shared / max(len(split.test), 1)
    if share >= NOTED_SHARE:
        notes.append(
            f"{shared:,} of {len(split.test):,} test rows ({share:.1%}) also occur in training; "
            "--duplicates group keeps identical rows on one side"
        )
    if share >= FLAGGED_SHARE:
        flags.append(SHARED_ROWS)
    if len(split.test) < FEW_TEST_ROWS:
        notes.append(f"only {len(split.test)} test rows: a single row changes the score a lot")
    return Evidence(tuple(notes), tuple(flags))


def count_shared(test: Indices, train: Indices, marks: NDArray[np.uint64]) -> int:
    """Test rows that are equal to a training row."""
    return int(np.isin(marks[test], marks[train]).sum())
