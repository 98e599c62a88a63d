"""A table of scores as text cells, with one axis as columns if requested, and as lines for programs."""

from __future__ import annotations

import math
from typing import Any

from tabbench.contracts.metrics import RANGES
from tabbench.results.formats.axes import Axis, By
from tabbench.results.formats.grid import Grid, Place, Text, figure, interval_text, number_style, unit_name
from tabbench.results.formats.notes import score_notes
from tabbench.results.labels import equivalents
from tabbench.results.row_settings import split_settings
from tabbench.results.score_table import Cell, Row, ScoreTable


def score_grid(made: ScoreTable, by: By | None = None) -> Grid:
    """Headers and cells for people.

    Args:
        made: the table.
        by: an axis to show as columns: each dataset then has one column per value of it. A single dataset is named
            below the table instead of in each column.
    """
    axis = Axis(made.rows, by)
    columns = [(value, name) for value in axis.values for name in _datasets(made, axis, value)]
    ranked = made.metric == "rank"
    is_alone = by is not None and len(made.datasets) == 1
    headers = [*axis.titles]
    for value in axis.values:
        headers += [value if is_alone else _header(made, name, value) for each, name in columns if each == value]
        if ranked:
            headers.append(f"average rank\n{value}" if by else "average rank")
    equal = equivalents(made) if by == "labels" else {}
    places = _places(made, by)
    body = []
    for line in axis.lines:
        cells = [Text(name) for name in line.names]
        for value in axis.values:
            row = line.rows.get(value)
            here = [name for each, name in columns if each == value]
            cells += [_cell(made, row, name, places, equal.get((id(row), name), "")) for name in here]
            if ranked:
                cells.append(Text(_average(row)))
        body.append(cells)
    notes = score_notes(made, settings=axis.settings_notes())
    if is_alone:
        notes[0] = f"{_header(made, made.datasets[0], '')}: {notes[0]}".replace("\n", " ")
    if _is_cut(made):
        notes.append("Intervals end where the metric's range does.")
    about_bold = ""
    if by in ("ssl", "model") and places:
        about_bold = "Bold: the best SSL method with each model on each dataset."
        if ranked:
            notes.append("Ranks are among all rows.")
    if equal:
        notes.append("In brackets: how many labels raw features need to reach the same score, by interpolation.")
    return Grid(headers, body, notes, len(axis.titles), axis.rules, about_bold)


def _datasets(made: ScoreTable, axis: Axis, value: str) -> list[str]:
    """Datasets on which some row with this value has a result."""
    if axis.by is None:
        return made.datasets
    rows = [row for row in made.rows if axis.value(row) == value]
    return [name for name in made.datasets if any(row.cells[name].found for row in rows)]


def _header(made: ScoreTable, name: str, value: str) -> str:
    few = " †" if made.has_few_test_rows(name) else ""
    return f"{name}{f' {value}' if value else ''}\n({unit_name(made.units[name])}){few}"


def _average(row: Row | None) -> str:
    if row is None or row.average_rank is None:
        return ""
    text = f"{row.average_rank:.2f}"
    if row.rank_interval is not None and None not in row.rank_interval:
        text += f" [{row.rank_interval[0]:.1f}, {row.rank_interval[1]:.1f}]"
    return f"{text} {row.rank_group}".rstrip()


def _places(made: ScoreTable, by: By | None) -> dict[tuple[int, str], Place]:
    """Which cells are the best and the second best of their group and dataset.

    With methods or models as columns, only cells with the same model are compared, as a reader would.
    """
    together: dict[tuple[Any, ...], list[Row]] = {}
    for row in made.rows:
        model = (row.model, split_settings(row.variant, row.model)[1]) if by in ("ssl", "model") else ()
        together.setdefault((row.group, *model), []).append(row)
    found: dict[tuple[int, str], Place] = {}
    for rows in together.values():
        for name in made.datasets:
            found_ranks = {row.cells[name].rank for row in rows if row.cells[name].n}
            ranks = sorted(rank for rank in found_ranks if rank is not None)[:2]
            for row in rows:
                cell = row.cells[name]
                if cell.n and cell.rank in ranks and len(rows) > 1:
                    found[id(row), name] = "best" if cell.rank == ranks[0] else "second"
    return found


def _cell(made: ScoreTable, row: Row | None, name: str, places: dict[tuple[int, str], Place], equivalent: str) -> Text:
    if row is None:
        return Text("")
    text = cell_text(row.cells[name], made.metric == "rank", bool(made.criteria), made.units[name])
    return Text(f"{text} [{equivalent}]" if equivalent else text, places.get((id(row), name), ""))


def _is_cut(made: ScoreTable) -> bool:
    """Whether any interval extends beyond the range of its metric."""
    if not made.criteria:
        return False
    cells = [(cell.interval, name) for row in made.rows for name, cell in row.cells.items() if cell.n]
    return any(_cut(made.units[name], each.low, each.high) != (each.low, each.high) for each, name in cells)


def _cut(metric: str, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Cut an interval to the range of the metric: no accuracy is above 1."""
    least, most = RANGES.get(metric, (-math.inf, math.inf))
    return None if low is None else max(low, least), None if high is None else min(high, most)


def cell_text(cell: Cell, ranked: bool, with_interval: bool = False, metric: str = "") -> str:
    """``0.812 ± 0.010 (1)``, with a mark if the cell is incomplete; intervals are cut to the metric's range."""
    if cell.mean is None:
        return "not shared" if cell.found else "left out" if cell.incomplete else "-"
    style = number_style(cell.mean)
    text = figure(cell.mean, style)
    if with_interval:
        text = interval_text(cell.mean, *_cut(metric, cell.interval.low, cell.interval.high))
    elif cell.std is not None:
        text += f" ± {cell.std:{style}}"
    if ranked and cell.rank is not None:
        text += f" ({cell.rank:g})"
    return f"{text} {len(cell.found)}/{cell.expected}" if cell.is_partial else text


def score_lines(made: ScoreTable) -> list[list[Any]]:
    """One line per cell with full precision, after a line of column names, for programs that read CSV."""
    names = (
        "ssl model variant protocol labels split_rule main_metric weights ranked_with uses_labels dataset metric "
        "mean std low high n found expected rank average_rank rank_group"
    )
    lines: list[list[Any]] = [names.split()]
    for row in made.rows:
        group = row.group
        for name in made.datasets:
            cell = row.cells[name]
            interval = cell.interval if made.criteria else None
            ends = _cut(made.units[name], interval.low, interval.high) if interval else (None, None)
            lines.append([row.ssl, row.model, row.variant, row.protocol, row.labels, group.split_rule,
                          group.main_metric, group.weights, group.protocol, row.uses_labels, name, made.units[name],
                          cell.mean, cell.std, *ends, cell.n, len(cell.found), cell.expected, cell.rank,
                          row.average_rank, row.rank_group])  # fmt: skip
    return lines
