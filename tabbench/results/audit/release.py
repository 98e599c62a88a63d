"""All runs of a release together: how many digits they have, and which scores are possible."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, cast

from tabbench.results.audit.chance import Lattice, find_lattice, least_step, step_of_grid, step_of_ties
from tabbench.results.audit.runs import (
    COUNTED,
    ERRORS,
    HIGHER,
    LOWER,
    PLAIN_COUNTS,
    Column,
    Number,
    Row,
    Run,
    Score,
    group,
    is_common,
    values_of,
)

ALL_DIGITS = 12
"""Scores with this many decimals were not rounded."""


@dataclass(frozen=True)
class Release:
    """All runs of a release, and what they have in common."""

    runs: tuple[Run, ...]
    _cache: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _columns(self) -> dict[tuple[Column, str], list[float]]:
        """Test scores by dataset and metric."""
        found: dict[tuple[Column, str], list[float]] = defaultdict(list)
        for run in self.runs:
            for metric, score in run.scores.items():
                found[run.column, metric].append(score.test.value)
        return dict(found)

    @cached_property
    def _validation(self) -> dict[tuple[Column, str], list[float]]:
        """Validation scores by dataset and metric."""
        found: dict[tuple[Column, str], list[float]] = defaultdict(list)
        for run in self.runs:
            for metric, score in run.scores.items():
                if score.validation is not None:
                    found[run.column, metric].append(score.validation.value)
        return dict(found)

    def _common_decimals(self, run: Run, metric: str) -> int | None:
        """The fewer decimals of the two parts; None if both have the same, or so many that it makes no difference."""
        parts = self._decimals, self._validation_decimals
        test, validation = (min(most[metric, run.row], most[metric, run.column]) for most in parts)
        return min(test, validation) if test != validation and min(test, validation) < ALL_DIGITS else None

    def parts(self, run: Run) -> dict[str, tuple[float, float]]:
        """Validation and test scores by metric, both rounded to the digits that both have."""
        key = ("parts", id(run))
        if key not in self._cache:
            found = {}
            for metric, score in run.scores.items():
                if score.validation is not None:
                    pair = (score.validation.value, score.test.value)
                    decimals = self._common_decimals(run, metric)
                    found[metric] = pair if decimals is None else (round(pair[0], decimals), round(pair[1], decimals))
            self._cache[key] = found
        return cast("dict[str, tuple[float, float]]", self._cache[key])

    def step_of_parts(self, runs: Sequence[Run], metric: str) -> float:
        """The step to which ``parts`` had to round; 0 if it did not."""
        decimals = [self._common_decimals(run, metric) for run in runs]
        return max((10.0**-each for each in decimals if each is not None), default=0.0)

    @cached_property
    def _decimals(self) -> dict[Hashable, int]:
        """Most digits after the point of test scores, by metric and row, and by metric and column."""
        return self._most_decimals(lambda score: score.test)

    @cached_property
    def _validation_decimals(self) -> dict[Hashable, int]:
        """The same for validation scores, which may be written with fewer."""
        return self._most_decimals(lambda score: score.validation)

    def _most_decimals(self, part: Callable[[Score], Number | None]) -> dict[Hashable, int]:
        most: dict[Hashable, int] = {}
        for run in self.runs:
            for metric, score in run.scores.items():
                if (number := part(score)) is not None:
                    for key in ((metric, run.row), (metric, run.column)):
                        most[key] = max(most.get(key, -9), number.decimals)
        return most

    def rounding(self, run: Run, metric: str) -> float:
        """The step between two numbers, as written near this run.

        Trailing zeros may have been left out, so one number is not enough: its row and its column show the step.
        """
        return float(10.0 ** -min(self._decimals[metric, run.row], self._decimals[metric, run.column]))

    @cached_property
    def std_rounding(self) -> dict[str, float]:
        """The step between two standard deviations, as written, by metric."""
        found: dict[str, float] = {}
        for run in self.runs:
            for metric, score in run.scores.items():
                if score.std is not None:
                    found[metric] = min(found.get(metric, 1.0), 10.0**-score.std.decimals)
        return found

    def scale(self, column: Column, metric: str) -> float:
        """100 if a share is, or may be, printed in percent on this dataset; else 1."""
        is_percent = self._is_counted(column, metric, 100.0) and self._summary(column, metric)[1] > 1.5
        return 100.0 if is_percent else 1.0

    def _is_counted(self, column: Column, metric: str, top: float) -> bool:
        """Whether a metric is, or may be, one with few possible values."""
        return metric in COUNTED or (metric not in LOWER | HIGHER and self.within(column, metric, top))

    def within(self, column: Column, metric: str, top: float) -> bool:
        """Whether all scores of a dataset are between 0 and ``top``."""
        low, _, high = self._summary(column, metric)
        return low >= 0 and high <= top

    def _summary(self, column: Column, metric: str) -> tuple[float, float, float]:
        """The smallest, the median and the largest score."""
        key = ("summary", column, metric)
        if key not in self._cache:
            values = self._columns[column, metric]
            self._cache[key] = (min(values), median(values), max(values))
        return cast("tuple[float, float, float]", self._cache[key])

    def lattice(self, runs: Sequence[Run], metric: str, own: bool = False) -> Lattice:
        """Which scores are possible for these runs of one dataset; with ``own``, judging only by their own scores."""
        key = ("lattice", runs[0].column, metric, frozenset(run.row for run in runs), own)
        if key not in self._cache:
            column = runs[0].column
            scale = self.scale(column, metric)
            lattice = self._find_lattice(runs, metric, own).scaled(scale)
            if metric not in PLAIN_COUNTS and self._is_counted(column, metric, scale):
                least = least_step(metric == "auroc", [run.n_test for run in runs if run.n_test]) * scale
                lattice = lattice.coarsened(max(least, self._step_of_ties(column, metric)))
            self._cache[key] = lattice
        return cast("Lattice", self._cache[key])

    def step(self, cell: Sequence[Run], metric: str) -> float:
        """The step between scores of one cell; a loss of hard answers shows it, though its name does not."""
        if metric in ERRORS:
            return self.lattice(cell, metric).step
        rounding = max(self.rounding(run, metric) for run in cell)
        return max(self.lattice(cell, metric).step, step_of_grid(values_of(cell, metric), rounding))

    def _find_lattice(self, runs: Sequence[Run], metric: str, own: bool) -> Lattice:
        column = runs[0].column
        scale = self.scale(column, metric)
        rounding = max(self.rounding(run, metric) for run in runs) / scale
        known = [run.n_test for run in runs if run.n_test]
        values = [value / scale for value in values_of(runs, metric)]
        lattice = find_lattice(values, rounding, self._is_counted(column, metric, scale), known)
        if own or known or lattice.least is None:
            return lattice
        # Few scores do not show on how many rows they were counted. All those of the dataset may, or validation scores.
        others = [self._column_lattice(column, metric, rounding, part) for part in (self._columns, self._validation)]
        sure = [other for other in others if other is not None and other.least is None]
        guesses = [lattice, *(other for other in others if other is not None)]
        return sure[0] if sure else max(guesses, key=lambda guess: guess.least or 0)

    def share_of_other_parts(self, runs: Sequence[Run], metric: str) -> float:
        """How often a validation score equals the test score of another run, among these runs or on their dataset.

        Those are on different rows for certain. They are equal where a score has few possible values, such as the log
        loss of a tree or of a few neighbours; copies of one run do not count.
        """
        key = ("other parts", runs[0].column, metric)
        if key not in self._cache:
            column = (run for run in self.runs if run.column == runs[0].column)
            self._cache[key] = _share_of_other_parts(self._pairs(column, metric))
        return max(_share_of_other_parts(self._pairs(runs, metric)), cast("float", self._cache[key]))

    def _pairs(self, runs: Iterable[Run], metric: str) -> Iterable[tuple[Row, tuple[float, float]]]:
        """Validation and test scores of these runs, with the row of the table."""
        return [(run.row, self.parts(run)[metric]) for run in runs if metric in self.parts(run)]

    def share_of_ties(self, cell: Sequence[Run], metric: str) -> float:
        """How often a test score of a cell equals one of another cell of the dataset, at most.

        Where a score has few possible values, runs of one cell repeat each other just as often. Cells with the very
        same numbers do not count: they may be copies.
        """
        key = ("cells", cell[0].column, metric)
        if key not in self._cache:
            scored = [run for run in self.runs if run.column == cell[0].column and metric in run.scores]
            groups = group(scored, lambda run: run.cell)
            self._cache[key] = {name: Counter(values_of(runs, metric)) for name, runs in groups.items()}
        cells = cast("dict[tuple[str, ...], Counter[float]]", self._cache[key])
        own = cells[cell[0].cell]
        others = [values for values in cells.values() if values != own]
        ties = [sum(count * other[value] for value, count in own.items()) / other.total() for other in others]
        return max(ties, default=0.0) / own.total()

    def _step_of_ties(self, column: Column, metric: str) -> float:
        """The step between neighbouring scores of a dataset, estimated from ties between different methods.

        A mean over classes or a correlation has few possible values on few rows, but these are not shares of a count.
        """
        key = ("ties", column, metric)
        if key not in self._cache:
            scored = [run for run in self.runs if run.column == column and metric in run.scores]
            cells = [values_of(runs, metric) for runs in group(scored, lambda run: run.cell).values()]
            self._cache[key] = step_of_ties(cells)
        return cast("float", self._cache[key])

    def _column_lattice(
        self, column: Column, metric: str, rounding: float, scores: Mapping[tuple[Column, str], list[float]]
    ) -> Lattice | None:
        """The lattice of all scores of a dataset, on test or on validation."""
        key = ("column lattice", column, metric, rounding, id(scores))
        if key not in self._cache:
            scale = self.scale(column, metric)
            values = [value / scale for value in scores.get((column, metric), [])]
            self._cache[key] = find_lattice(values, rounding, is_counted=True) if values else None
        return cast("Lattice | None", self._cache[key])


def _share_of_other_parts(pairs: Iterable[tuple[Row, tuple[float, float]]]) -> float:
    distinct = [parts for _, parts in dict.fromkeys(pairs)]
    tests = Counter(test for _, test in distinct if not is_common(test))
    equal = sum(tests[validation] for validation, _ in distinct)
    own = sum(validation == test and not is_common(test) for validation, test in distinct)
    return (equal - own) / max(1, len(distinct) * (len(distinct) - 1))
