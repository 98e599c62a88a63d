"""Records -> table: means with spread, ranks per dataset, and what was left out and why."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal

from tabbench.errors import UsageError, did_you_mean
from tabbench.store import Store

Ties = Literal["min", "average"]
Missing = Literal["last", "skip"]
LOWER_IS_BETTER = frozenset({"rmse", "rmse_std", "mae", "log_loss", "time"})
TEST_METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "auroc", "log_loss", "rmse", "rmse_std", "mae", "r2")
METRICS = ("rank", "score", "time", *TEST_METRICS)
FIDELITIES = ("paper", "standard", "quick")
_COLUMNS = [
    "key", "kind", "status", "time", "ssl", "model", "variant", "uses_labels", "data", "data_key", "split", "seed",
    "fidelity", "trials", "ssl_trials", "metric", "score", "flags", "error", "test", "seconds",
]  # fmt: skip


@dataclass
class Cell:
    """One row of the table on one dataset."""

    values: list[float] = field(default_factory=list)
    rank: float | None = None
    scores: list[str] = field(default_factory=list, repr=False)
    """All test scores of each record, as JSON."""

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation over splits and seeds; None for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def mean_of(self, metric: str) -> float | None:
        """The mean of some other metric of the same records."""
        values = [json.loads(scores).get(metric) for scores in self.scores]
        return statistics.fmean(values) if values and None not in values else None

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std, "n": self.n, "rank": self.rank}


@dataclass
class Row:
    """An SSL method with a downstream model."""

    ssl: str
    model: str
    variant: str
    budget: tuple[int, int]
    """Tuning trials of the SSL side and of the model."""
    uses_labels: bool
    cells: dict[str, Cell]
    average_rank: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "ssl": self.ssl,
            "model": self.model,
            "variant": self.variant,
            "ssl_trials": self.budget[0],
            "trials": self.budget[1],
            "uses_labels": self.uses_labels,
            "cells": {name: cell.to_json() for name, cell in self.cells.items()},
            "average_rank": self.average_rank,
        }


@dataclass
class Table:
    """A finished table; the formats are in ``tabbench.cli.table``."""

    metric: str
    fidelity: str | None
    convention: dict[str, Any]
    datasets: list[str]
    units: dict[str, str]
    """For each dataset the metric that its cells hold."""
    rows: list[Row]
    left_out: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "fidelity": self.fidelity,
            "convention": self.convention,
            "datasets": self.datasets,
            "units": self.units,
            "rows": [row.to_json() for row in self.rows],
            "left_out": self.left_out,
        }


def tabulate(
    store: Store,
    metric: str = "rank",
    *,
    ties: Ties = "min",
    missing: Missing = "last",
    fidelity: str | None = None,
    any_budget: bool = False,
    only: Collection[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Table:
    """The table of a results folder.

    Args:
        metric: ``rank`` and ``score`` show each dataset's own metric; ``time`` is seconds; or a metric by name.
        ties: equal means share the best rank, or their average.
        missing: a row without a value on a dataset is ranked behind all others there, or not ranked.
        fidelity: which records to compare; by default the highest that is there.
        any_budget: compare rows with different numbers of tuning trials; by default only the largest is shown.
        only: keys of the records to look at; all by default.
        names: what to call datasets, by the start of their keys: the same content may be stored under another name.
    """
    if metric not in METRICS:
        raise UsageError(f"Unknown metric {metric!r}.{did_you_mean(metric, METRICS)}")
    records = _newest(_read(store, only))
    for record in records:
        record["data"] = (names or {}).get(record["data_key"], record["data"])
    present = sorted({record["fidelity"] for record in records}, key=_fidelity_order)
    chosen = fidelity if fidelity is not None else (present[0] if present else None)
    if fidelity is not None and fidelity not in present:
        raise UsageError(f"No records of fidelity {fidelity!r}.{did_you_mean(fidelity, present)}")
    candidates = [record for record in records if record["fidelity"] == chosen]
    budget = max((_budget(record) for record in candidates), default=(0, 0))
    data_keys = {record["data"]: record["data_key"] for record in sorted(candidates, key=lambda record: record["time"])}
    left_out: list[dict[str, Any]] = []
    others: Counter[str] = Counter()
    kept = []
    for record in records:
        reason = _reason_to_leave_out(record)
        if record["fidelity"] != chosen:
            others[f"fidelity {record['fidelity']} (--fidelity)"] += 1
        elif not any_budget and _budget(record) != budget:
            others[f"another budget: {describe_budget(_budget(record))} (--any-budget)"] += 1
        elif record["data_key"] != data_keys[record["data"]]:
            others[f"an older content of {record['data']}"] += 1
        elif reason:
            place = {name: record[name] for name in ("ssl", "model", "data", "split", "seed", "key")}
            left_out.append({"reason": reason, **place})
        else:
            kept.append(record)
    left_out += [{"reason": reason, "records": count} for reason, count in others.items()]
    rows, units = _group(kept, metric)
    datasets = sorted(units)
    for row in rows:
        row.cells = {name: row.cells.get(name, Cell()) for name in datasets}
    for uses_labels in (False, True):
        _rank([row for row in rows if row.uses_labels == uses_labels], units, ties, missing)
    rows.sort(key=lambda row: (row.uses_labels, row.average_rank or 0.0, row.ssl, row.model, row.variant, row.budget))
    convention = {
        "ties": ties,
        "missing": missing,
        "ranks": "per dataset on means, then averaged",
        "std": "sample standard deviation over splits and seeds",
        "apart": "rows that use labels",
    }
    return Table(metric, chosen, convention, datasets, units, rows, left_out)


def _read(store: Store, only: Collection[str] | None) -> list[dict[str, Any]]:
    table = store.read_table(_COLUMNS)
    columns = [_values(table.column(name)) for name in _COLUMNS]
    records = (dict(zip(_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    wanted = None if only is None else set(only)
    return [record for record in records if record["kind"] != "trial" and (wanted is None or record["key"] in wanted)]


def _values(column: Any) -> list[Any]:
    """A column's values; equal texts are one object, which is quicker to make, to hash and to compare."""
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    encoded = column.combine_chunks().dictionary_encode()
    words = [*encoded.dictionary.to_pylist(), None]
    return [words[code] for code in encoded.indices.fill_null(-1).to_pylist()]


_place = itemgetter("ssl", "model", "variant", "data", "data_key", "split", "seed", "fidelity", "trials", "ssl_trials")


def _newest(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record for each place in the table: a finished one before a failed one, then the latest."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        place = _place(record)
        other = best.get(place)
        if other is None or _newness(record) >= _newness(other):
            best[place] = record
    return list(best.values())


def _newness(record: dict[str, Any]) -> tuple[bool, float]:
    return record["status"] == "ok", record["time"]


def _budget(record: dict[str, Any]) -> tuple[int, int]:
    """Trials for the SSL side and for the model."""
    return record["ssl_trials"] or 0, record["trials"] or 0


def describe_budget(budget: tuple[int, int]) -> str:
    """``(8, 15)`` as ``tuned with 8 + 15 trials``."""
    return f"tuned with {budget[0]} + {budget[1]} trials" if any(budget) else "not tuned"


def _fidelity_order(fidelity: str) -> tuple[int, int, str]:
    name, _, rest = fidelity.partition(",")
    return (FIDELITIES.index(name) if name in FIDELITIES else len(FIDELITIES), len(rest), rest)


def _reason_to_leave_out(record: dict[str, Any]) -> str:
    if record["status"] != "ok":
        return f"{record['status']}: {record['error']}"
    if record["flags"] not in (None, "[]"):
        return "flagged: " + ", ".join(json.loads(record["flags"]))
    return ""


def _value(record: dict[str, Any], metric: str) -> float | None:
    if metric in ("rank", "score") or metric == record["metric"]:
        return float(record["score"])
    if metric == "time":
        return float(sum(json.loads(record["seconds"]).values()))
    value = json.loads(record["test"]).get(metric)
    return None if value is None else float(value)


def _group(records: list[dict[str, Any]], metric: str) -> tuple[list[Row], dict[str, str]]:
    rows: dict[tuple[str, str, str, tuple[int, int]], Row] = {}
    units: dict[str, str] = {}
    for record in records:
        value = _value(record, metric)
        if value is None:
            continue
        units[record["data"]] = record["metric"] if metric in ("rank", "score") else metric
        name = (record["ssl"], record["model"], record["variant"], _budget(record))
        row = rows.get(name)
        if row is None:  # not setdefault: a new Row for each of 100,000 records takes its time
            row = rows[name] = Row(*name, bool(record["uses_labels"]), {})
        cell = row.cells.get(record["data"])
        if cell is None:
            cell = row.cells[record["data"]] = Cell()
        cell.values.append(value)
        cell.scores.append(record["test"])
    return list(rows.values()), units


def _rank(rows: list[Row], units: dict[str, str], ties: Ties, missing: Missing) -> None:
    """Set the rank of each cell, and each row's average over datasets."""
    for dataset, unit in units.items():
        sign = 1.0 if unit in LOWER_IS_BETTER else -1.0
        means = [None if (mean := row.cells[dataset].mean) is None else sign * mean for row in rows]
        for row, rank in zip(rows, rank_values(means, ties, missing), strict=True):
            row.cells[dataset].rank = rank
    for row in rows:
        ranks = [cell.rank for cell in row.cells.values() if cell.rank is not None]
        row.average_rank = statistics.fmean(ranks) if ranks else None


def rank_values(values: list[float | None], ties: Ties = "min", missing: Missing = "last") -> list[float | None]:
    """Ranks from 1 for the smallest; None is missing: behind all others, or without a rank."""
    present = sorted(value for value in values if value is not None)
    first: Callable[[float], float] = {
        "min": lambda value: present.index(value) + 1.0,
        "average": lambda value: present.index(value) + (present.count(value) + 1) / 2,
    }[ties]
    last = len(present) + 1.0 if missing == "last" else None
    return [last if value is None else first(value) for value in values]
