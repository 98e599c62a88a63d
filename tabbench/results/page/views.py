"""The data that a page's script draws, as JSON: one view per fidelity, with all metrics, gains and statistics."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tabbench.contracts.metrics import POSITIVE, RANGES
from tabbench.experiment.controls import NONE, is_untrained
from tabbench.results.formats.grid import unit_name
from tabbench.results.formats.notes import board_notes, describe_tuning
from tabbench.results.gains import GainTable, gains_of
from tabbench.results.labels import equivalences, label_count
from tabbench.results.record_lines import ALL_LABELS, RAW, SPLIT_RULE
from tabbench.results.row_settings import SharedSettings
from tabbench.results.score_table import LOWER_IS_BETTER, Cell, Group, Row, ScoreTable
from tabbench.results.selection import Selection
from tabbench.results.statistics import (
    Friedman,
    Gain,
    Scores,
    friedman,
    improvability,
    pareto_front,
    rate_rows,
    win_matrix,
)
from tabbench.results.statistics.gains import t_intervals
from tabbench.results.tabulate import present_metrics, scores_of, tabulate_records

LEVEL = 0.95
DIGITS = 5
"""Significant digits of a number on a page."""
WIN_ROWS = 24
"""Rows of a win matrix: more cannot be read."""


def short(value: float | None, digits: int = DIGITS) -> float | None:
    """Round a number to as many digits as a chart can show."""
    return None if value is None else float(f"{value:.{digits}g}")


def is_control(ssl: str) -> bool:
    return ssl == NONE or is_untrained(ssl)


def group_title(group: Group) -> str:
    """``frozen, 10% of labels``."""
    words = [group.protocol]
    if group.labels != ALL_LABELS:
        words.append(f"{group.labels} of labels" if group.labels.endswith("%") else f"{group.labels} labels")
    if group.split_rule != SPLIT_RULE:
        words.append(f"split {group.split_rule}")
    if group.main_metric:
        words.append(f"driven by {group.main_metric}")
    if group.weights:
        words.append(f"weighted by {group.weights}")
    if group.uses_labels:
        words.append("uses labels")
    return ", ".join(words)


PageData = dict[str, Any]
"""The data that a page's script reads: JSON with short keys and lists, because there is a lot of it."""


def make_view(selection: Selection, table: ScoreTable, *, compared: bool = True) -> PageData:
    """Everything about one fidelity.

    Args:
        selection: its records.
        table: their rank table with intervals, which gives the order of all lists.
        compared: whether to add statistics over datasets, which take longest; not every page shows them.
    """
    order = {_identity(row): number for number, row in enumerate(table.rows)}
    groups = table.groups
    metrics = [name for name in present_metrics(selection.lines) if name not in set(table.units.values())]
    if len(set(table.units.values())) > 1:
        metrics = present_metrics(selection.lines)
    tables = {"score": table} | {name: tabulate_records(selection, name) for name in [*metrics, "time"]}
    settings = SharedSettings(table.rows)
    return {
        "fidelity": table.fidelity,
        "tuning": describe_tuning(table.rows),
        "datasets": [_dataset(table, name) for name in table.datasets],
        "groups": [_group(table, group) for group in groups],
        "rows": [_row(row, groups, table, settings) for row in table.rows],
        "metrics": [
            {
                "name": name,
                "label": "main score" if name == "score" else unit_name(name),
                "units": made.units if name == "score" else {},
                "lower": name in LOWER_IS_BETTER,
                "range": _range(name),
                "cells": _cells(made, order, table.datasets),
            }
            for name, made in tables.items()
        ],
        "gains": _gains(gains_of(selection), order, table.datasets),
        "notes": board_notes(table, settings),
        "statistics": [_statistics(table, tables["time"], group) for group in groups] if compared else [],
    }


def _identity(row: Row) -> tuple[Any, ...]:
    return row.ssl, row.model, row.variant, row.budget, row.protocol, row.group


def _dataset(table: ScoreTable, name: str) -> PageData:
    counts = dataset_counts(table, name)
    unit = table.units[name]
    return {
        "name": name,
        "unit": unit_name(unit),
        "lower": unit in LOWER_IS_BETTER,
        "range": _range(unit),
        "few": table.has_few_test_rows(name),
        "train": counts.get("train"),
        "test": counts.get("test"),
        "features": counts.get("features"),
        "classes": counts.get("classes"),
    }


def _range(metric: str) -> list[float | None]:
    """The lowest and highest possible score; None for no limit."""
    least, most = POSITIVE if metric == "time" else RANGES.get(metric, (-math.inf, math.inf))
    return [end if math.isfinite(end) else None for end in (least, most)]


def dataset_counts(table: ScoreTable, name: str) -> dict[str, int]:
    """Row counts of a dataset, from the record with the most labels."""
    texts = {text for row in table.rows if (text := row.cells[name].counts)}
    found: list[dict[str, int]] = [json.loads(text) for text in texts]
    return max(found, key=lambda counts: counts.get("train") or 0, default={})


def _group(table: ScoreTable, group: Group) -> PageData:
    return {"title": group_title(group), **group._asdict(), "criterion": table.criteria.get(group, "")}


def _row(row: Row, groups: Sequence[Group], table: ScoreTable, settings: SharedSettings) -> PageData:
    low, high = row.rank_interval or (None, None)
    several_labels = len({group.labels for group in groups}) > 1
    return {
        "ssl": row.ssl,
        "model": row.model,
        "variant": row.variant,
        "tag": settings.tag(row.variant),
        "trials": list(row.budget),
        "protocol": row.protocol,
        "labels": row.labels,
        "group": groups.index(row.group),
        "control": is_control(row.ssl),
        "raw": row.protocol == RAW,
        "usesLabels": row.uses_labels,
        "counts": [label_count(row.cells[name]) for name in table.datasets] if several_labels else [],
        "rank": [short(row.average_rank, 4), short(low, 4), short(high, 4), row.rank_group],
    }


def _cells(made: ScoreTable, order: Mapping[tuple[Any, ...], int], datasets: Sequence[str]) -> list[list[Any]]:
    """By row and dataset: [mean, low, high, std, n, found, expected, incomplete]; 0 for a cell that was not run."""
    found: list[list[Any]] = [[0] * len(datasets) for _ in order]
    cells: list[tuple[int, int, Cell]] = []
    for row in made.rows:
        number = order.get(_identity(row))
        if number is None:
            continue
        for place, name in enumerate(datasets):
            cell = row.cells.get(name)
            if cell is not None and (cell.found or cell.incomplete):
                cells.append((number, place, cell))
    for (number, place, cell), half in zip(cells, _halves([cell for _, _, cell in cells]), strict=True):
        mean = cell.mean
        ends = [None, None] if mean is None or half is None else [mean - half, mean + half]
        numbers = [short(value) for value in (mean, *ends, cell.std)]
        found[number][place] = [*numbers, cell.n, len(cell.found), cell.expected, cell.incomplete]
    return found


def _halves(cells: Sequence[Cell]) -> list[float | None]:
    """Half the width of each cell's 95 % interval, computed at once because a page has thousands."""
    import numpy as np

    means = [cell.split_means for cell in cells]
    samples = np.full((len(cells), max((len(each) for each in means), default=0) or 1), np.nan)
    for line, each in zip(samples, means, strict=True):
        line[: len(each)] = each
    _, halves = t_intervals(samples, LEVEL)
    return [None if np.isnan(half) else float(half) for half in halves]


def _gains(made: GainTable, order: Mapping[tuple[Any, ...], int], datasets: Sequence[str]) -> list[PageData]:
    found = []
    for gain in made.rows:
        number = order.get(_identity(gain.row))
        if number is not None:
            cells = [gain.cells.get(name) for name in datasets]
            found.append(
                {
                    "row": number,
                    "none": [_gain(None if cell is None else cell.to_none) for cell in cells],
                    "untrained": [_gain(None if cell is None else cell.to_untrained) for cell in cells],
                    "percent": [short(gain.over_none.percent, 3), short(gain.over_untrained.percent, 3)],
                }
            )
    return found


def _gain(gain: Gain | None) -> list[Any] | int:
    """[mean, low, high, n, verdict, percent], or 0."""
    if gain is None or gain.mean is None:
        return 0
    numbers = [short(value, 4) for value in (gain.mean, gain.low, gain.high)]
    return [*numbers, gain.n, gain.verdict, short(gain.percent, 3)]


def _statistics(table: ScoreTable, times: ScoreTable, group: Group) -> PageData:
    """Statistics of a group over its datasets; rows are given by their numbers in the table."""
    numbers = [number for number, row in enumerate(table.rows) if row.group == group]
    rows = [table.rows[number] for number in numbers]
    scores = scores_of(rows, table.units)
    tested = friedman(scores)
    ratings = rate_rows(scores) if len(rows) > 1 and scores.datasets else {}
    distance = improvability(scores)
    return {
        "group": group_title(group),
        "difference": _difference(tested, numbers),
        "wins": _wins(scores, numbers, rows),
        "elo": {numbers[place]: [short(r.elo, 4), short(r.low, 4), short(r.high, 4)] for place, r in ratings.items()},
        "improvability": {numbers[place]: short(found.mean, 3) for place, found in distance.items()},
        **_tradeoff(rows, numbers, times),
    }


def _difference(tested: Any, numbers: Sequence[int]) -> PageData:
    """A critical-difference diagram, or why there is none."""
    if not isinstance(tested, Friedman):
        return {"reason": tested.reason}
    return {
        "datasets": tested.datasets,
        "p": tested.p_value,
        "difference": short(tested.critical_difference, 4),
        "ranks": [[numbers[place], short(rank, 4)] for place, rank in tested.average_ranks.items()],
        "bars": [[numbers[place] for place in bar] for bar in tested.bars],
    }


def _wins(scores: Scores[int], numbers: Sequence[int], rows: Sequence[Row]) -> PageData:
    """Who beats whom on how many datasets; only the best rows if there are many."""
    best = sorted(scores.rows, key=lambda place: rows[place].average_rank or len(rows))[:WIN_ROWS]
    several = any(len(here.starts) > 1 for here in scores.by_dataset.values())
    matrix = win_matrix(scores.select(best), epsilon=None if several else 0.0)
    lines = [
        [0 if a == b else (t := matrix.tallies[a, b]) and [t.wins, t.ties, t.losses, t.undecided] for b in best]
        for a in best
    ]
    return {"rows": [numbers[place] for place in best], "cells": lines, "rule": matrix.rule, "of": len(rows)}


def _tradeoff(rows: Sequence[Row], numbers: Sequence[int], times: ScoreTable) -> PageData:
    """Average rank against seconds, over the datasets that all rows have."""
    seconds_of = {_identity(row): row for row in times.rows}
    complete = [name for name in times.datasets if all(row.cells[name].n for row in rows if name in row.cells)]
    seconds, ranks = {}, {}
    for number, row in zip(numbers, rows, strict=True):
        timed = seconds_of.get(_identity(row))
        values = [mean for name in complete if timed and (mean := timed.cells[name].mean) is not None]
        if values and row.average_rank is not None:
            seconds[number], ranks[number] = sum(values) / len(values), row.average_rank
    front = pareto_front(ranks, seconds, lower_is_better=True)
    return {"seconds": {number: short(value, 4) for number, value in seconds.items()}, "front": front,
            "timed": len(complete)}  # fmt: skip


def label_worth(table: ScoreTable) -> list[list[Any]]:
    """[row, dataset, text] for each measured label equivalence."""
    found = equivalences(table)
    return [
        [number, name, str(found[id(row), name])]
        for number, row in enumerate(table.rows)
        for name in table.datasets
        if (id(row), name) in found
    ]
