"""Records -> gains: what each method adds to raw features and to its own untrained encoder, split by split."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tabbench.experiment.controls import NONE, is_untrained, untrained
from tabbench.results.json_shapes import GainCellShape, GainRowShape, GainTableShape, KeptUntrained, LeftOut
from tabbench.results.kept_weights import kept_untrained
from tabbench.results.record_lines import RAW
from tabbench.results.row_settings import split_settings
from tabbench.results.score_table import LOWER_IS_BETTER, Cell, Group, Row
from tabbench.results.selection import Filters, Selection, select_records
from tabbench.results.statistics import Gain, GainSummary, paired_gain, summarise_gains
from tabbench.results.tabulate import collect_rows, group_order, side_by_side

if TYPE_CHECKING:
    from tabbench.experiment.spec import Control
    from tabbench.results.store import Store

CONTROLS: tuple[Control, ...] = ("none", "untrained")


@dataclass(frozen=True)
class GainCell:
    """A method on one dataset, with its controls; None for a control that was not run."""

    to_none: Gain | None
    to_untrained: Gain | None

    def to_json(self) -> GainCellShape:
        return {
            "to_none": None if self.to_none is None else self.to_none.to_json(),
            "to_untrained": None if self.to_untrained is None else self.to_untrained.to_json(),
        }


@dataclass(frozen=True)
class GainRow:
    """A method with a model: its gains on all datasets."""

    row: Row
    cells: dict[str, GainCell] = field(default_factory=dict)

    @property
    def over_none(self) -> GainSummary:
        return summarise_gains(cell.to_none for cell in self.cells.values() if cell.to_none is not None)

    @property
    def over_untrained(self) -> GainSummary:
        return summarise_gains(cell.to_untrained for cell in self.cells.values() if cell.to_untrained is not None)

    def over(self, control: Control) -> GainSummary:
        return self.over_none if control == "none" else self.over_untrained

    @property
    def is_control(self) -> bool:
        return is_untrained(self.row.ssl)

    def to_json(self) -> GainRowShape:
        return {
            **self.row.about(),
            "cells": {name: cell.to_json() for name, cell in self.cells.items()},
            "over_none": vars(self.over_none),
            "over_untrained": vars(self.over_untrained),
        }


@dataclass(frozen=True)
class GainTable:
    """What methods add to their controls; ``tabbench.results.formats`` prints it."""

    fidelity: str | None
    datasets: list[str]
    units: dict[str, str]
    rows: list[GainRow]
    left_out: list[LeftOut]
    kept_untrained: list[KeptUntrained] = field(default_factory=list)
    metric: str = "gain"

    def to_json(self) -> GainTableShape:
        return {
            "metric": self.metric,
            "fidelity": self.fidelity,
            "convention": {
                "gain": "paired difference, split by split and seed by seed; better is positive, in the metric's unit",
                "interval": "95 %, Student's t over splits, seeds averaged within a split first",
                "percent": "mean over datasets of the gain in percent of the control's error",
            },
            "datasets": self.datasets,
            "units": self.units,
            "rows": [row.to_json() for row in self.rows],
            "kept_untrained": self.kept_untrained,
            "left_out": self.left_out,
        }


def tabulate_gains(
    store: Store,
    *,
    metric: str = "score",
    fidelity: str | None = None,
    any_budget: bool = False,
    only: Collection[str] | None = None,
    names: Mapping[str, str] | None = None,
    where: Filters | None = None,
) -> GainTable:
    """The gains in a results folder; arguments as in ``tabulate``. Controls are read whatever ``where`` says."""
    where = where or Filters()
    selection = select_records(
        store, fidelity=fidelity, any_budget=any_budget, only=only, names=names, where=replace(where, ssl=())
    )
    wanted = replace(where, data=(), model=(), protocol=(), labels=()).matched(selection.lines.shared_here()).ssl
    return gains_of(selection, metric, wanted)


def gains_of(selection: Selection, metric: str = "score", wanted: Collection[str] = ()) -> GainTable:
    """The gains of records already read, for the methods ``wanted`` or for all."""
    rows, units = collect_rows(selection, metric)
    places = {_identity(row, row.ssl, row.variant): row for row in rows}
    found = []
    for row in rows:
        if row.ssl == NONE or (wanted and row.ssl not in wanted):
            continue
        raw = places.get(_identity(row, NONE, split_settings(row.variant, row.model)[1]))
        start = places.get(_identity(row, untrained(row.ssl), row.variant))
        cells = {name: _compare(row.cells[name], name, units[name], raw, start) for name in sorted(units)}
        found.append(GainRow(row, {name: cell for name, cell in cells.items() if cell is not None}))
    found = [row for row in found if any(cell.to_none or cell.to_untrained for cell in row.cells.values())]
    found.sort(key=_order)
    datasets = [name for name in sorted(units) if any(name in row.cells for row in found)]
    kept = kept_untrained(rows, [row.row for row in found])
    return GainTable(selection.fidelity, datasets, units, found, selection.left_out, kept)


def _identity(row: Row, ssl: str, variant: str) -> tuple[Any, ...]:
    """The key under which to find a row or its control, all else equal. Raw rows serve all protocols."""
    group: Group = row.group._replace(uses_labels=False, protocol=RAW) if ssl == NONE else row.group
    return ssl, row.model, variant, row.budget, group


def _compare(cell: Cell, name: str, unit: str, raw: Row | None, start: Row | None) -> GainCell | None:
    if not cell.found:
        return None
    found: list[Gain | None] = []
    for control in (raw, start):
        if control is None or not control.cells[name].found:
            found.append(None)
            continue
        own, others = side_by_side([cell, control.cells[name]])
        found.append(paired_gain(own, others, lower_is_better=unit in LOWER_IS_BETTER))
    return GainCell(*found)


def _order(row: GainRow) -> tuple[Any, ...]:
    """Order groups as in the score table; within a group, the largest gain comes first and controls come last."""
    percent = row.over_none.percent
    return group_order(row.row.group), row.is_control, -(percent or 0.0), row.row.ssl, row.row.model, row.row.variant
