"""One axis of a table as columns: which lines there are then, what names them, and which rows each of them holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tabbench.results.formats.names import RowNames
from tabbench.results.record_lines import ALL_LABELS, SPLIT_RULE
from tabbench.results.row_settings import SharedSettings, split_settings
from tabbench.results.score_table import Row
from tabbench.results.tabulate import labels_order

By = Literal["ssl", "model", "labels", "protocol"]
AXES: tuple[By, ...] = ("ssl", "model", "labels", "protocol")


@dataclass
class Line:
    """A line of the grid: the rows that it shows, by the value of the axis that is shown as columns."""

    names: list[str]
    group: tuple[Any, ...]
    rows: dict[str, Row] = field(default_factory=dict)


class Axis:
    """The rows of a table, spread over columns by an axis; without one, a line for each row."""

    def __init__(self, rows: Sequence[Row], by: By | None) -> None:
        self.rows = rows
        self.by = by
        self._settings = SharedSettings(rows)
        self._row_names = RowNames(rows)
        columns = self._names()
        self.titles = list(columns)
        """The columns that name a line."""
        self.lines = self._lines(list(columns.values()))
        found = {value for line in self.lines for value in line.rows}
        order = labels_order if by == "labels" else lambda value: (value != "frozen", value)
        self.values: list[str] = sorted(found, key=order)
        """The values of the axis; a single empty one without an axis."""
        self.rules = frozenset(
            number for number in range(1, len(self.lines)) if self.lines[number].group != self.lines[number - 1].group
        )
        """Lines before which another group of rows begins."""

    def value(self, row: Row) -> str:
        """The value of the axis for a row."""
        if self.by == "protocol":
            return row.group.protocol
        if self.by == "labels":
            return row.labels
        if self.by is None:
            return ""
        return self._model(row) if self.by == "model" else self._ssl(row)

    def settings_notes(self) -> list[str]:
        """What the rows' names do not say of their settings."""
        return self._settings.notes() if self.by in ("ssl", "model") else self._row_names.notes()

    def _names(self) -> dict[str, Callable[[Row], str]]:
        """The columns that name a line, and how to fill them; an axis with one value needs no column."""
        several_budgets = len({row.budget for row in self.rows}) > 1

        def ssl(row: Row) -> str:
            trials = f" ({row.budget[0]} + {row.budget[1]} trials)" if several_budgets else ""
            return self._row_names.ssl(row) + trials + _star(row)

        columns: dict[str, Callable[[Row], str]] = {"SSL": ssl, "model": lambda row: row.model}
        if self.by == "ssl":
            columns = {"model": self._model}
        if self.by == "model":
            columns = {"SSL": self._ssl}
        if self.by != "protocol" and len({row.group.protocol for row in self.rows}) > 1:
            columns["protocol"] = lambda row: row.group.protocol if self.by == "ssl" else row.protocol
        if self.by != "labels" and {row.labels for row in self.rows} - {ALL_LABELS}:
            columns["labels"] = lambda row: row.labels
        if {row.group.split_rule for row in self.rows} - {SPLIT_RULE}:
            columns["split"] = lambda row: row.group.split_rule
        if {row.group.main_metric for row in self.rows} - {""}:
            columns["main metric"] = lambda row: row.group.main_metric or "default"
        if {row.group.weights for row in self.rows} - {""}:
            columns["weights"] = lambda row: row.group.weights or "none"
        return columns

    def _lines(self, names: Sequence[Callable[[Row], str]]) -> list[Line]:
        found: dict[tuple[Any, ...], Line] = {}
        for row in self.rows:
            group = row.group
            if self.by == "labels":
                group = group._replace(labels="")
            if self.by == "protocol":
                group = group._replace(protocol="")
            theirs, own = split_settings(row.variant, row.model)
            identity: tuple[str, ...] = (row.ssl, row.model, row.variant)
            if self.by == "ssl":
                identity = (row.model, own)
            if self.by == "model":
                identity = (row.ssl, theirs)
            line = found.setdefault((*identity, row.budget, group), Line([name(row) for name in names], group))
            line.rows[self.value(row)] = row
        # Rows are ordered by their own group's ranks, so lines of one group stay together.
        order = {group: number for number, group in enumerate(dict.fromkeys(line.group for line in found.values()))}
        return sorted(found.values(), key=lambda line: order[line.group])

    def _ssl(self, row: Row) -> str:
        tag = self._settings.tag(split_settings(row.variant, row.model)[0])
        return row.ssl + f" [{tag}]" * bool(tag) + _star(row)

    def _model(self, row: Row) -> str:
        tag = self._settings.tag(split_settings(row.variant, row.model)[1])
        return row.model + f" [{tag}]" * bool(tag)


def _star(row: Row) -> str:
    """Marks a method that uses labels."""
    return " *" if row.uses_labels else ""
