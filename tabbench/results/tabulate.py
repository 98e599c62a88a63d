"""Records -> table: means with spread, ranks per dataset, and what was left out and why.

Rows that share a rank are compared on the splits and seeds that all of them have.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tabbench.contracts.metrics import CLASSIFICATION_METRICS, REGRESSION_METRICS
from tabbench.errors import UsageError, did_you_mean
from tabbench.results.json_shapes import Convention
from tabbench.results.kept_weights import kept_untrained
from tabbench.results.record_lines import ALL_LABELS, FROZEN, RAW, Indices, RecordLines, Shared
from tabbench.results.score_table import LOWER_IS_BETTER, Cell, Group, Row, ScoreTable
from tabbench.results.selection import (
    Filters,
    Selection,
    budget_of,
    row_of,
    select_records,
    tuned_parts,
)
from tabbench.results.statistics import Missing, Place, Scores, Ties, rank_rows, rank_values

if TYPE_CHECKING:
    from tabbench.results.store import Store

Common = Literal["all", "none"]
Floats = npt.NDArray[np.float64]
TEST_METRICS = (*CLASSIFICATION_METRICS, *REGRESSION_METRICS)
METRICS = ("rank", "score", "time", *TEST_METRICS)


def tabulate(
    store: Store,
    metric: str = "rank",
    *,
    ties: Ties = "min",
    missing: Missing = "last",
    common: Common = "all",
    fidelity: str | None = None,
    any_budget: bool = False,
    only: Collection[str] | None = None,
    names: Mapping[str, str] | None = None,
    where: Filters | None = None,
    ci: bool = False,
) -> ScoreTable:
    """The table of a results folder.

    Args:
        store: the results folder.
        metric: ``rank`` and ``score`` show each dataset's own metric; ``time`` is seconds; or a metric by name.
        ties: equal means share the best rank, or their average.
        missing: a row without a value on a dataset is ranked last there, or not ranked.
        common: compare rows on the splits and seeds that all of them have; ``none`` shows all results of each row, and
            gives no ranks on a dataset where rows differ in their splits or seeds.
        fidelity: which records to compare; by default the highest fidelity stored.
        any_budget: compare rows with different numbers of tuning trials; by default only the largest is shown.
        only: keys of the records to use; all by default.
        names: what to call datasets, by the start of their keys: the same content may be stored under another name.
        where: which records to use, by name.
        ci: intervals of average ranks, and groups of rows that cannot be told apart.
    """
    selection = select_records(store, fidelity=fidelity, any_budget=any_budget, only=only, names=names, where=where)
    return tabulate_records(selection, metric, ties=ties, missing=missing, common=common, ci=ci)


def tabulate_records(
    selection: Selection,
    metric: str = "rank",
    *,
    ties: Ties = "min",
    missing: Missing = "last",
    common: Common = "all",
    ci: bool = False,
) -> ScoreTable:
    """The table of records already read; arguments as in ``tabulate``."""
    rows, units = collect_rows(selection, metric)
    datasets = sorted(units)
    for row in rows:
        row.cells = {name: row.cells.get(name, Cell()) for name in datasets}
    convention: Convention = {
        "ties": ties,
        "missing": missing,
        "common": common,
        "ranks": "per dataset on means, then averaged",
        "mean": "over splits, seeds averaged within a split first",
        "std": "sample standard deviation over splits and seeds",
        "apart": "rows of another protocol, number of labels, split rule, main metric or weights; rows that use labels",
    }
    left_out, notes = selection.left_out, selection.data_notes()
    table = ScoreTable(metric, selection.fidelity, convention, datasets, units, rows, left_out, notes)
    table.kept_untrained = kept_untrained(rows)
    for group in table.groups:
        together = [row for row in rows if row.group == group]
        ranked = [name for name in datasets if _align([row.cells[name] for row in together], common)]
        _rank(together, ranked, units, ties, missing)
        if ci:
            table.criteria[group] = _rank_with_intervals(together, ranked, units, ties, missing)
    rows.sort(key=_row_order)
    return table


def _row_order(row: Row) -> tuple[Any, ...]:
    return group_order(row.group), row.average_rank or 0.0, row.ssl, row.model, row.variant, row.budget


def group_order(group: Group) -> tuple[Any, ...]:
    """Groups in the order of a table: frozen before others, all labels before few."""
    labels = group.labels != ALL_LABELS, *labels_order(group.labels)
    return group.uses_labels, group.protocol != FROZEN, group.protocol, *labels, *group[2:5]


def labels_order(labels: str) -> tuple[bool, float]:
    """Counts before shares, then by size."""
    is_share = labels.endswith("%")
    try:
        return is_share, float(labels.removesuffix("%"))
    except ValueError:
        return is_share, 0.0


def present_metrics(lines: RecordLines) -> list[str]:
    """Metrics that some record has."""
    texts = {text for text in lines.values("test") if text}
    return sorted({name for text in texts for name, value in json.loads(text).items() if value is not None})


def collect_rows(selection: Selection, metric: str) -> tuple[list[Row], dict[str, str]]:
    """The rows of a table with all their results, and the unit of each dataset.

    Raises:
        UsageError: there is no such metric, or no record has it.
    """
    lines = selection.lines
    values = _values(lines, metric)
    lines, values = lines.take(~np.isnan(values)), values[~np.isnan(values)]
    rows: dict[tuple[Any, ...], Row] = {}
    members: dict[tuple[tuple[Any, ...], str], list[Indices]] = {}
    latest: dict[str, tuple[int, str]] = {}
    for shared, here in lines.groups():
        name, dataset = row_of(shared), shared["data"]
        members.setdefault((name, dataset), []).append(here)
        unit = shared["metric"] if metric in ("rank", "score") else metric
        latest[dataset] = max(latest.get(dataset, (-1, "")), (int(here[-1]), unit))
        if name not in rows:
            rows[name] = _make_row(shared, lines.value("tuning", int(here[0])))
    units = {dataset: unit for dataset, (_, unit) in latest.items()}
    if not rows and metric not in ("rank", "score", "time"):
        _refuse_metric(metric, present_metrics(selection.lines))
    for (name, dataset), parts in members.items():
        here = np.sort(np.concatenate(parts))
        cell = lines.take(here)
        found = dict(zip(cell.where(), values[here].tolist(), strict=True))
        rows[name].cells[dataset] = Cell(found, cell.for_all_seeds(), lines=cell)
    for name, row in rows.items():
        for dataset in units:
            row.cells.setdefault(dataset, Cell()).incomplete = selection.incomplete[*name, dataset]
    return _with_raw_rows_in_each_group(list(rows.values())), units


def _refuse_metric(metric: str, present: list[str]) -> None:
    if metric not in METRICS and metric not in present:
        raise UsageError(f"Unknown metric {metric!r}.{did_you_mean(metric, {*METRICS, *present, 'gain'})}")
    if present:
        raise UsageError(f"No record has the metric {metric!r}. Available: {', '.join(present)}, time.")


def _make_row(shared: Shared, tuning: str | None) -> Row:
    group = Group(
        shared["protocol"],
        shared["labels"],
        shared["split_rule"],
        shared["main_metric"],
        shared["weights"],
        shared["uses_labels"],
    )
    names = (shared["ssl"], shared["model"], shared["variant"])
    return Row(*names, budget_of(shared), group.protocol, group, {}, tuned_parts(tuning))


def _with_raw_rows_in_each_group(rows: list[Row]) -> list[Row]:
    """Raw rows are the baseline of every protocol: they appear in each group without being run twice."""
    protocols: dict[Group, list[str]] = {}
    for row in rows:
        if row.protocol != RAW and not row.uses_labels:
            beside = protocols.setdefault(row.group._replace(protocol=RAW), [])
            if row.protocol not in beside:
                beside.append(row.protocol)
    found = []
    for row in rows:
        for protocol in protocols.get(row.group, [row.protocol]) if row.protocol == RAW else [row.protocol]:
            cells = {name: replace(cell) for name, cell in row.cells.items()}
            found.append(replace(row, group=row.group._replace(protocol=protocol), cells=cells))
    return found


def _values(lines: RecordLines, metric: str) -> Floats:
    """The value of each record, NaN where it has none."""
    if metric in ("rank", "score"):
        return lines.score
    if metric == "time":
        return np.array([sum(json.loads(text or "{}").values()) for text in lines.values("seconds")], dtype=float)
    is_main = np.array([shared["metric"] == metric for shared in lines.shared], dtype=bool)[lines.which]
    found = lines.score.copy()
    texts = lines.take(~is_main).values("test")
    found[~is_main] = [math.nan if (value := json.loads(text).get(metric)) is None else value for text in texts]
    return found


def _align(cells: list[Cell], common: Common) -> bool:
    """Restrict cells to the places that all of them share; returns whether they can be ranked."""
    present = [cell for cell in cells if cell.found]
    union = _places(present)
    shared = [place for place in union if all(cell.covers(place) for cell in present)]
    for cell in cells:
        cell.expected = len({cell.place_for(place) for place in union})
        if common == "all":
            cell.compared = frozenset(map(cell.own_place, shared))
    return bool(shared) if common == "all" else len(shared) == len(union)


def _places(cells: Iterable[Cell]) -> set[Place]:
    """Where any of the cells has a result; one that counts for every seed is at those of the others."""
    cells = list(cells)
    seeded = {place for cell in cells for place in cell.found if place[0] not in cell.for_all_seeds}
    splits = {split for split, _ in seeded}
    return seeded | {place for cell in cells for place in cell.found if place[0] not in splits}


def side_by_side(cells: Iterable[Cell]) -> list[dict[Place, float]]:
    """The results of some cells; one that counts for every seed is at each place where another cell has a result."""
    cells = list(cells)
    places = _places(cells)
    return [{place: cell.found[cell.own_place(place)] for place in places if cell.covers(place)} for cell in cells]


def _rank(rows: list[Row], datasets: list[str], units: Mapping[str, str], ties: Ties, missing: Missing) -> None:
    """Set the rank of each cell, and each row's average over datasets."""
    for dataset in datasets:
        sign = 1.0 if units[dataset] in LOWER_IS_BETTER else -1.0
        means = [None if (mean := row.cells[dataset].mean) is None else _rounded(sign * mean) for row in rows]
        for row, rank in zip(rows, rank_values(means, ties, missing), strict=True):
            row.cells[dataset].rank = rank
    for row in rows:
        ranks = [cell.rank for cell in row.cells.values() if cell.rank is not None]
        row.average_rank = statistics.fmean(ranks) if ranks else None


def _rounded(value: float) -> float:
    """Drop the digits that depend on the order of a sum, so that equal scores are equal numbers."""
    return float(f"{value:.12g}")


def scores_of(rows: Iterable[Row], units: Mapping[str, str], datasets: Collection[str] | None = None) -> Scores[int]:
    """The results of rows, numbered in order, for ``tabbench.results.statistics``."""
    rows = list(rows)
    names = {name for row in rows for name in row.cells if datasets is None or name in datasets}
    places = {name: _places(row.cells[name] for row in rows if name in row.cells) for name in names}
    entries = (
        (number, name, *place, cell.results[own])
        for number, row in enumerate(rows)
        for name, cell in row.cells.items()
        if name in names
        for place in places[name]
        if cell.covers(place) and (own := cell.own_place(place)) in cell.results
    )
    return Scores.collect(entries, {name for name, unit in units.items() if unit in LOWER_IS_BETTER})


def _rank_with_intervals(
    rows: list[Row], datasets: list[str], units: Mapping[str, str], ties: Ties, missing: Missing
) -> str:
    """Set the interval and the letters of each row; returns what the letters mean."""
    ranking = rank_rows(scores_of(rows, units, datasets), ties, missing)
    for number, found in ranking.rows.items():
        rows[number].rank_interval = (found.low, found.high)
        rows[number].rank_group = found.group
    return ranking.criterion
