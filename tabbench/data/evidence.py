"""What a reader of a result should know of a split: rows that stand on two sides, parts too small to tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabbench.data.splits import Split

NOTED_SHARE = 0.01
FLAGGED_SHARE = 0.05
FEW_TEST_ROWS = 50
SHARED_ROWS = "test rows stand in training too"
TRANSDUCTIVE = "pretrained on unlabelled rows of the test side"


@dataclass(frozen=True)
class Evidence:
    """Notes are for readers; flags keep a result out of tables."""

    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def judge_split(split: Split, marks: NDArray[np.uint64]) -> Evidence:
    """Count the test rows that stand in training, target included, and look whether there are enough test rows.

    Args:
        split: the parts.
        marks: equal for equal rows; see ``tabbench.data.content.row_marks``.
    """
    notes, flags = [], []
    shared = count_shared(split, marks)
    share = shared / max(len(split.test), 1)
    if share >= NOTED_SHARE:
        notes.append(
            f"{shared:,} of {len(split.test):,} test rows ({share:.1%}) stand in training too; "
            "--duplicates group keeps equal rows on one side"
        )
    if share >= FLAGGED_SHARE:
        flags.append(SHARED_ROWS)
    if len(split.test) < FEW_TEST_ROWS:
        notes.append(f"only {len(split.test)} test rows: one row more or less changes the score by a lot")
    return Evidence(tuple(notes), tuple(flags))


def count_shared(split: Split, marks: NDArray[np.uint64]) -> int:
    """Test rows that are equal to a training row."""
    return int(np.isin(marks[split.test], marks[split.train]).sum())
