"""The values of a table of scores: rows, their cells on each dataset, and the groups in which they are ranked."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

from tabbench.contracts import metrics
from tabbench.results.json_shapes import (
    AboutRow,
    Aside,
    CellShape,
    Convention,
    KeptUntrained,
    LeftOut,
    RowShape,
    TableShape,
)
from tabbench.results.statistics import Interval, Place, mean_interval

if TYPE_CHECKING:
    from tabbench.results.record_lines import RecordLines

LOWER_IS_BETTER = metrics.LOWER_IS_BETTER | {"time"}
FEW_TEST_ROWS = 50
"""Below this, a column is marked."""


class Group(NamedTuple):
    """What rows of one ranking have in common."""

    protocol: str
    """How encoders are used; raw rows are in every protocol's group."""
    labels: str
    split_rule: str
    main_metric: str
    """The metric given with ``run --metric``; empty for the task's default."""
    weights: str
    """How training rows were weighted; empty if all counted equally."""
    uses_labels: bool


@dataclass
class Cell:
    """One row of the table on one dataset."""

    found: dict[Place, float] = field(default_factory=dict)
    """All results of the row here, by split and seed."""
    for_all_seeds: set[int] = field(default_factory=set)
    """Splits whose one result, under seed 0, counts for every seed: the model has none."""
    compared: frozenset[Place] | None = None
    """The places that the table compares; None for all."""
    expected: int = 0
    """Results that this row would have here if it covered what any row of the group does."""
    incomplete: int = 0
    """Records of this cell that failed or are flagged."""
    rank: float | None = None
    lines: RecordLines | None = field(default=None, repr=False, compare=False)
    """The records of the results."""

    def covers(self, place: Place) -> bool:
        """Whether the row has a result that counts at a place."""
        return place in self.found or place[0] in self.for_all_seeds

    def own_place(self, place: Place) -> Place:
        """Where the result is that counts at a place."""
        split, _ = place
        return (split, 0) if split in self.for_all_seeds else place

    def place_for(self, place: Place) -> Place:
        """Where a result would be that counts at a place."""
        split, _ = place
        seeds_count = not self.for_all_seeds or any(own == split for own, _ in self.found)
        return self.own_place(place) if seeds_count else (split, 0)

    @cached_property
    def results(self) -> dict[Place, float]:
        """The results that the table compares."""
        if self.compared is None or self.found.keys() <= self.compared:
            return self.found
        return {place: value for place, value in self.found.items() if place in self.compared}

    @property
    def values(self) -> list[float]:
        return list(self.results.values())

    @property
    def n(self) -> int:
        return len(self.results)

    @property
    def aside(self) -> int:
        """Results that other rows lack, which therefore do not count."""
        return len(self.found) - len(self.results)

    @property
    def is_partial(self) -> bool:
        """Whether the row has fewer results here than others."""
        return 0 < len(self.found) < self.expected

    @cached_property
    def split_means(self) -> list[float]:
        """The mean over seeds of each split."""
        by_split: dict[int, list[float]] = {}
        for (split, _), value in self.results.items():
            by_split.setdefault(split, []).append(value)
        return [statistics.fmean(values) for values in by_split.values()]

    @cached_property
    def mean(self) -> float | None:
        """Over splits, seeds averaged within a split first."""
        return statistics.fmean(self.split_means) if self.results else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation over splits and seeds; None for a single value."""
        if self.n < 2:
            return None
        center = statistics.fmean(self.values)
        return math.sqrt(math.fsum((value - center) ** 2 for value in self.values) / (self.n - 1))

    @cached_property
    def interval(self) -> Interval:
        """The mean with its 95 % interval over splits."""
        return mean_interval(self.results)

    def mean_of(self, metric: str) -> float | None:
        """The mean of another metric of the same records."""
        if self.lines is None:
            return None
        scores = zip(self.lines.where(), self.lines.values("test"), strict=True)
        values = {place: json.loads(text).get(metric) for place, text in scores if place in self.results}
        return Cell(values).mean if values and None not in values.values() else None

    @property
    def counts(self) -> str | None:
        """Counts of rows of the last record, as JSON."""
        return None if self.lines is None else cast("str | None", self.lines.value("counts", -1))

    def to_json(self) -> CellShape:
        return {
            "mean": self.mean,
            "std": self.std,
            "n": self.n,
            "rank": self.rank,
            "found": len(self.found),
            "expected": self.expected,
            "incomplete": self.incomplete,
        }


@dataclass
class Row:
    """An SSL method with a downstream model, under one protocol with one number of labels."""

    ssl: str
    model: str
    variant: str
    budget: tuple[int, int]
    """Tuning trials of the SSL side and of the model."""
    protocol: str
    group: Group
    cells: dict[str, Cell]
    tuned: tuple[bool, bool] = (True, True)
    """Whether the SSL side and the model had something to tune."""
    average_rank: float | None = None
    rank_interval: tuple[float | None, float | None] | None = None
    """From the bootstrap over datasets and splits, if requested."""
    rank_group: str = ""
    """Letters; rows that share one cannot be told apart."""

    @property
    def labels(self) -> str:
        return self.group.labels

    @property
    def uses_labels(self) -> bool:
        return self.group.uses_labels

    def about(self) -> AboutRow:
        return {
            "ssl": self.ssl,
            "model": self.model,
            "variant": self.variant,
            "protocol": self.protocol,
            "labels": self.labels,
            "split_rule": self.group.split_rule,
            "main_metric": self.group.main_metric,
            "weights": self.group.weights,
            "ssl_trials": self.budget[0],
            "trials": self.budget[1],
            "uses_labels": self.uses_labels,
        }

    def to_json(self) -> RowShape:
        low, high = self.rank_interval or (None, None)
        return {
            **self.about(),
            "ranked_with": self.group.protocol,
            "cells": {name: cell.to_json() for name, cell in self.cells.items()},
            "average_rank": self.average_rank,
            "average_rank_low": low,
            "average_rank_high": high,
            "rank_group": self.rank_group,
        }


@dataclass
class ScoreTable:
    """A finished table; ``tabbench.results.formats`` prints it."""

    metric: str
    fidelity: str | None
    convention: Convention
    datasets: list[str]
    units: dict[str, str]
    """For each dataset, the metric in its cells."""
    rows: list[Row]
    left_out: list[LeftOut]
    data_notes: dict[str, list[str]] = field(default_factory=dict)
    """Notes on each dataset."""
    criteria: dict[Group, str] = field(default_factory=dict)
    """What sharing a letter means in each group, if intervals were requested."""
    kept_untrained: list[KeptUntrained] = field(default_factory=list)

    @property
    def groups(self) -> list[Group]:
        return list(dict.fromkeys(row.group for row in self.rows))

    def has_few_test_rows(self, dataset: str) -> bool:
        """Whether a single test row changes scores a lot."""
        texts = {text for row in self.rows if (text := row.cells[dataset].counts)}
        return any(0 < (json.loads(text).get("test") or 0) < FEW_TEST_ROWS for text in texts)

    def to_json(self) -> TableShape:
        aside: list[Aside] = [
            {"ssl": row.ssl, "model": row.model, "data": name, "results": cell.aside}
            for row in self.rows
            for name, cell in row.cells.items()
            if cell.aside
        ]
        return {
            "metric": self.metric,
            "fidelity": self.fidelity,
            "convention": self.convention,
            "datasets": self.datasets,
            "units": self.units,
            "rows": [row.to_json() for row in self.rows],
            "left_out": self.left_out,
            "left_aside": aside,
            "kept_untrained": self.kept_untrained,
            "notes": self.data_notes,
        }
