"""Were all test rows scored?"""

from __future__ import annotations

from collections.abc import Sequence

from tabbench.results.audit.findings import Look
from tabbench.results.audit.release import Release
from tabbench.results.audit.runs import Run, group, values_of

MUCH_SMALLER = 0.5
"""Test parts of one dataset differ in size, as folds do, but by no more than this factor."""
MUCH_FEWER_COUNTED = 0.1
"""The same factor where only the scores reveal the size."""
ENOUGH_TO_COUNT = 5
"""Number of distinct scores that show on how many rows they were counted."""
KEPT_PROMISE = 0.9
"""A stratified split may have as few as this share of the promised rows."""
TINY_SHARE, TINY_ROWS = 0.01, 1000
"""A test part with less than this share of the dataset, and fewer rows than this, comes from a trial run."""


def small_test_parts(release: Release) -> Look | str:
    """Runs with a test part smaller than promised, or much smaller than that of others on the dataset."""
    found: list[tuple[Run, str]] = []
    total = 0
    for runs in group(release.runs, lambda run: run.column).values():
        sized = [run for run in runs if run.n_test is not None]
        counted = [] if sized else _counted(release, runs)
        total += len(sized) + sum(len(cell) for cell, _ in counted)
        found += _smaller_than_promised(sized) + _fewer_counted(counted)
    return Look(total, found) if total else "no run has n_test, and the accuracies do not reveal it"


def _smaller_than_promised(runs: Sequence[Run]) -> list[tuple[Run, str]]:
    most = max((run.n_test or 0 for run in runs), default=0)
    found = []
    for run in runs:
        rows, whole = run.n_test or 0, run.n_rows or 0
        promised = whole * (run.test_share or 0.0)
        if rows < KEPT_PROMISE * promised - 1:
            found.append((run, f"{rows:,} test rows instead of {promised:,.0f} of {whole:,}"))
        elif rows < MUCH_SMALLER * most:
            found.append((run, f"{rows:,} test rows; other runs on this dataset have up to {most:,}"))
        elif not promised and rows < TINY_ROWS and rows < TINY_SHARE * whole:
            found.append((run, f"{rows:,} test rows of a dataset with {whole:,}"))
    return found


def _counted(release: Release, runs: Sequence[Run]) -> list[tuple[list[Run], int]]:
    """Cells with the number of rows on which their accuracies were counted, where the accuracies reveal it."""
    metric = "accuracy"
    cells = group((run for run in runs if metric in run.scores), lambda run: run.cell).values()
    telling = [cell for cell in cells if len(set(values_of(cell, metric))) >= ENOUGH_TO_COUNT]
    counted = [(cell, release.lattice(cell, metric, own=True).counted) for cell in telling]
    return [(cell, rows) for cell, rows in counted if rows is not None]


def _fewer_counted(cells: Sequence[tuple[list[Run], int]]) -> list[tuple[Run, str]]:
    most = max((rows for _, rows in cells), default=0)
    return [
        (run, f"its accuracies are multiples of 1/{rows:,}, those of another method of 1/{most:,}")
        for cell, rows in cells
        if rows < MUCH_FEWER_COUNTED * most
        for run in cell
    ]
