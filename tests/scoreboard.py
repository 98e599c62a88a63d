"""Scores for tests of statistics, written as one list of splits for each row and dataset."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from tabbench.results.statistics import Scores

near: Any = pytest.approx
"""Any, because it stands inside tuples and dataclasses."""


def make_scores(cells: Mapping[str, Mapping[str, Sequence[float]]], lower: Collection[str] = ()) -> Scores[str]:
    """From ``{row: {dataset: [score of split 0, of split 1, ...]}}``, one seed each."""
    return Scores.collect(
        (
            (row, dataset, split, 0, score)
            for row, datasets in cells.items()
            for dataset, values in datasets.items()
            for split, score in enumerate(values)
        ),
        lower,
    )
