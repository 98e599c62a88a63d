"""Our figures next to published ones: own, published, difference, and average ranks recomputed from printed means."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tabbench.contracts import PublishedCell, Reference
from tabbench.errors import TabbenchError, unknown
from tabbench.registry import Registry
from tabbench.results.json_shapes import CellShape, ComparedCellShape, PublishedShape
from tabbench.results.record_lines import RAW
from tabbench.results.score_table import LOWER_IS_BETTER, Row, ScoreTable
from tabbench.results.selection import Filters
from tabbench.results.statistics import Missing, Ties, rank_values


@dataclass
class ComparedCell:
    """One row on one dataset, with our figure and the published one."""

    own: CellShape
    published: PublishedCell | None
    own_mean: float | None = None
    """Our mean, in the unit of the published figure, or in our own if there is none."""
    difference: float | None = None
    """Own minus published, in the unit of the published figure."""

    def to_json(self) -> ComparedCellShape:
        published: PublishedShape | None = None
        if self.published is not None:
            published = {"mean": self.published.mean, "std": self.published.std, "caveat": self.published.caveat}
            if self.published.protocol:
                published["protocol"], published["labels"] = self.published.protocol, self.published.labels
        return {**self.own, "published": published, "own_mean": self.own_mean, "difference": self.difference}


@dataclass
class ComparedRow:
    """A row of ours, of theirs, or of both."""

    ssl: str
    model: str
    own: Row | None
    cells: dict[str, ComparedCell] = field(default_factory=dict)
    published_rank: float | None = None
    """As printed."""
    recomputed_ranks: dict[str, float] = field(default_factory=dict)
    """From the printed means, for each table that has the row."""

    @property
    def recomputed_rank(self) -> float | None:
        """The rank in the table that prints average ranks, if the row is in several tables."""
        return next(iter(self.recomputed_ranks.values()), None)

    def to_json(self) -> Mapping[str, object]:
        own: Mapping[str, object] = self.own.to_json() if self.own is not None else {"average_rank": None}
        cells = {name: cell.to_json() for name, cell in self.cells.items()}
        means = {name: cell.published.mean for name, cell in self.cells.items() if cell.published is not None}
        return {
            **own,
            "ssl": self.ssl,
            "model": self.model,
            "cells": cells,
            "published": means,
            "published_rank": self.published_rank,
            "recomputed_rank": self.recomputed_rank,
            "recomputed_ranks": self.recomputed_ranks,
        }


@dataclass
class PublishedComparison:
    """A table of ours compared with a reference."""

    table: ScoreTable
    reference: str
    datasets: list[str]
    rows: list[ComparedRow]

    def only(self, rows: list[ComparedRow], datasets: list[str]) -> PublishedComparison:
        """A part of it."""
        return replace(self, rows=rows, datasets=datasets)

    def where(self, filters: Filters) -> PublishedComparison:
        """The rows and datasets that the filters name; of published figures alone too. Ranks stay those of all rows."""
        datasets = [name for name in self.datasets if name in self.table.datasets or filters.keep_pair({"data": name})]
        rows = [
            replace(row, cells={name: row.cells[name] for name in datasets})
            for row in self.rows
            if row.own or filters.keep_pair({"ssl": row.ssl, "model": row.model})
        ]
        return self.only(rows, datasets)

    def to_json(self) -> Mapping[str, object]:
        return {
            **self.table.to_json(),
            "against": self.reference,
            "datasets": self.datasets,
            "rows": [row.to_json() for row in self.rows],
        }


def compare_with_published(
    table: ScoreTable, name: str, registry: Registry, ties: Ties = "min", missing: Missing = "last"
) -> PublishedComparison:
    """Compare the table of our own results with a reference."""
    entry = registry.find("reference", name)
    reference: Reference = registry.load(entry)(**entry.plugin.arguments)
    cells = [(_dataset_name(cell.dataset, registry), cell) for cell in reference.cells()]
    metrics = {"rank", "score", *(cell.compares_with or cell.metric for _, cell in cells)}
    if table.metric not in metrics:
        raise unknown(f"metric of {entry.name}", table.metric, metrics)
    printed = reference.printed_ranks()
    published = {(cell.ssl, cell.model, dataset): cell for dataset, cell in cells}
    ours: dict[tuple[str, str], list[Row]] = {}
    for own in table.rows:
        beside = ours.setdefault((own.ssl, own.model), [])
        if own.protocol != RAW or (own.variant, own.labels) not in [(row.variant, row.labels) for row in beside]:
            beside.append(own)  # raw rows are in the group of each protocol
    datasets = list(dict.fromkeys([dataset for dataset, _ in cells] + table.datasets))
    ranks = recompute_ranks(cells, ties, missing, first={place[0] for place in printed})
    rows = []
    for place in dict.fromkeys([*((cell.ssl, cell.model) for _, cell in cells), *ours]):
        own_rows: list[Row | None] = [*ours.get(place, [])] or [None]
        for own_row in own_rows:  # compare each set of settings with the same published figures
            row = ComparedRow(*place, own_row)
            row.published_rank = next((rank for key, rank in printed.items() if key[1:] == place), None)
            row.recomputed_ranks = {key[0]: rank for key, rank in ranks.items() if key[1:] == place}
            for dataset in datasets:
                row.cells[dataset] = _compare_cell(own_row, published.get((*place, dataset)), dataset)
            if own_row is not None and not any(cell.published for cell in row.cells.values()):
                row.published_rank, row.recomputed_ranks = None, {}  # of another protocol or number of labels
            rows.append(row)
    return PublishedComparison(table, entry.name, datasets, rows)


def recompute_ranks(
    cells: list[tuple[str, PublishedCell]], ties: Ties, missing: Missing, first: set[str]
) -> dict[tuple[str, str, str], float]:
    """Average ranks by (table, ssl, model) from printed means; tables of ``first`` come first."""
    found: dict[tuple[str, str, str], float] = {}
    tables = dict.fromkeys(cell.table for _, cell in cells)
    for table in sorted(tables, key=lambda name: name not in first):
        means = {(cell.ssl, cell.model, cell.dataset): cell for _, cell in cells if cell.table == table}
        places = list(dict.fromkeys((ssl, model) for ssl, model, _ in means))
        collected: dict[tuple[str, str], list[float]] = {place: [] for place in places}
        for dataset in dict.fromkeys(dataset for _, _, dataset in means):
            here = [means.get((*place, dataset)) for place in places]
            values = [None if cell is None else _signed(cell) for cell in here]
            for place, rank in zip(places, rank_values(values, ties, missing), strict=True):
                if rank is not None:
                    collected[place].append(rank)
        found |= {(table, *place): statistics.fmean(ranks) for place, ranks in collected.items()}
    return found


def _signed(cell: PublishedCell) -> float:
    return cell.mean if cell.metric in LOWER_IS_BETTER else -cell.mean


def _dataset_name(name: str, registry: Registry) -> str:
    try:
        return registry.find("data", name).name
    except TabbenchError:
        return name


def _compare_cell(own: Row | None, published: PublishedCell | None, dataset: str) -> ComparedCell:
    cell = own.cells.get(dataset) if own is not None else None
    value: CellShape = cell.to_json() if cell is not None else {"mean": None, "std": None, "n": 0, "rank": None}
    if published is not None and own is not None and not published.is_like(own.protocol, own.labels):
        published = None
    if cell is None or published is None:
        return ComparedCell(value, published, value["mean"])
    mean = cell.mean_of(published.compares_with or published.metric)
    return ComparedCell(value, published, mean, None if mean is None else mean - published.mean)
