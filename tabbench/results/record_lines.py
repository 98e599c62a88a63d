"""Many records as columns: what they share once, numbers as arrays, and texts that are made when asked for.

A folder may hold a million records of a few hundred kinds, so tables must not touch each record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tabbench.contracts.split_rule import DEFAULT_RULE
from tabbench.experiment.controls import NONE
from tabbench.results.json_shapes import RecordLine
from tabbench.results.record import DEFAULTS
from tabbench.results.statistics import Place
from tabbench.results.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

RAW, FROZEN = "raw", "frozen"
ALL_LABELS = "100%"
SPLIT_RULE = DEFAULT_RULE
SHARED = [
    "kind", "status", "ssl", "model", "variant", "uses_labels", "data", "data_key", "fidelity", "trials", "ssl_trials",
    "metric", "flags", "protocol", "labels", "validation_labels", "split_rule", "main_metric", "weights",
]  # fmt: skip
"""Columns with few different values, which many records share."""
COLUMNS = [*SHARED, "key", "time", "split", "seed", "score", "error", "test", "seconds", "counts", "notes", "tuning",
           "hashes"]  # fmt: skip
"""Columns that a table needs."""

Indices = npt.NDArray[np.int64]
Shared = RecordLine
"""A line of which only the columns in ``SHARED`` are there."""


class Alike(NamedTuple):
    """Records with the same ``SHARED`` columns."""

    shared: Shared
    where: Indices
    """Their places in the order of records."""


@dataclass(frozen=True)
class RecordLines:
    """Records in an order, as columns."""

    shared: list[Shared]
    """What records share: each combination of their shared columns."""
    which: Indices
    """For each record, its entry in ``shared``."""
    places: list[tuple[int, int | None]]
    """Splits and seeds that there are."""
    place: Indices
    """For each record, its entry in ``places``."""
    time: npt.NDArray[np.float64]
    score: npt.NDArray[np.float64]
    """NaN where a record has none."""
    rows: Indices
    """For each record, its row in ``table``."""
    table: pa.Table

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: npt.NDArray[Any]) -> RecordLines:
        """Some of the records, by a mask or by their numbers."""
        return dataclasses.replace(
            self,
            **{name: getattr(self, name)[chosen] for name in ("which", "place", "time", "score", "rows")},
        )

    def filter(self, keep: Callable[[Shared], bool]) -> RecordLines:
        """The records whose shared columns fulfil a condition."""
        kept = np.array([keep(shared) for shared in self.shared], dtype=bool)
        return self.take(kept[self.which])

    def change(self, change: Callable[[Shared], Shared]) -> RecordLines:
        """The same records with other shared columns."""
        return dataclasses.replace(self, shared=[change(shared) for shared in self.shared])

    def groups(self) -> list[Alike]:
        """Records with the same shared columns; the group of the first record comes first."""
        order = np.argsort(self.which, kind="stable")
        starts = np.flatnonzero(np.diff(self.which[order])) + 1
        parts = [part for part in np.split(order, starts) if len(part)]
        parts.sort(key=lambda part: int(part[0]))
        return [Alike(self.shared[self.which[part[0]]], part) for part in parts]

    def shared_here(self) -> list[Shared]:
        """The combinations of shared columns that these records have."""
        return [group.shared for group in self.groups()]

    def value(self, name: str, record: int) -> Any:
        """A column of one record."""
        return self.table.column(name)[int(self.rows[record])].as_py()

    def where(self) -> list[Place]:
        """Split and seed of each record; 0 for a model without seeds."""
        places = [(split, seed or 0) for split, seed in self.places]
        return [places[place] for place in self.place.tolist()]

    def for_all_seeds(self) -> set[int]:
        """The splits with records of a model without seeds."""
        return {split for split, seed in map(self.places.__getitem__, self.place.tolist()) if seed is None}

    def codes(self, name: str) -> tuple[Indices, list[Any]]:
        """A column of few different values: for each record the number of its value, and the values."""
        import pyarrow as pa

        rows = pa.Array.from_buffers(pa.int64(), len(self), [None, pa.py_buffer(self.rows)])
        return _encode(self.table.column(name).take(rows), DEFAULTS.get(name))

    def values(self, name: str) -> list[Any]:
        """A column. Equal texts are one object, which is faster to make, hash and compare."""
        codes, words = self.codes(name)
        return [words[code] for code in codes.tolist()]

    def to_dicts(self) -> list[RecordLine]:
        """Each record by itself. Objects and lists are JSON texts."""
        own = [name for name in self.table.column_names if name not in SHARED]
        columns = zip(*(self.values(name) for name in own), strict=True)
        shared = (self.shared[which] for which in self.which.tolist())
        return [
            cast("RecordLine", {**shared, **dict(zip(own, line, strict=True))})
            for shared, line in zip(shared, columns, strict=True)
        ]


def read_lines(store: Store, more: list[str] | None = None) -> RecordLines:
    """All records of a folder, trials too, with the columns that a table needs and ``more``."""
    table = store.read_table([*COLUMNS, *(more or [])])
    which, shared = _combine(table, SHARED)
    place, places = _combine(table, ["split", "seed"])
    named = (cast("Shared", dict(zip(SHARED, line, strict=True))) for line in shared)
    return RecordLines(
        shared=[_with_defaults(shared) for shared in named],
        which=which,
        places=[(split, seed) for split, seed in places],
        place=place,
        time=np.nan_to_num(_floats(table, "time")),
        score=_floats(table, "score"),
        rows=np.arange(table.num_rows),
        table=table,
    )


def _with_defaults(record: Shared) -> Shared:
    """Fill in fields that older records lack, with what was the only way then."""
    record["protocol"] = record["protocol"] or (RAW if record["ssl"] == NONE else FROZEN)
    record["labels"] = record["labels"] or ALL_LABELS
    record["split_rule"] = record["split_rule"] or SPLIT_RULE
    if record["validation_labels"] == "all" and record["labels"] != ALL_LABELS:
        record["split_rule"] += ", all validation labels"  # another question, so never ranked with the usual one
    for name in ("main_metric", "variant", "weights"):
        record[name] = record[name] or ""
    record["trials"], record["ssl_trials"] = record["trials"] or 0, record["ssl_trials"] or 0
    record["uses_labels"] = bool(record["uses_labels"])
    return record


# From arrow to numpy. Arrow's own functions for it, and those that take a Python value, import pandas.


def _combine(table: pa.Table, names: list[str]) -> tuple[Indices, list[tuple[Any, ...]]]:
    """For each row the number of its combination of values, and the combinations."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    found: list[tuple[Any, ...]] = [()] * bool(table.num_rows)
    for name in names:
        own, words = _encode(table.column(name), DEFAULTS.get(name))
        if len(words) > 1:
            used, codes = np.unique(codes * len(words) + own, return_inverse=True)
            found = [(*found[both // len(words)], words[both % len(words)]) for both in used.tolist()]
        else:
            found = [(*before, *words) for before in found]
    return codes, found


def _encode(column: pa.ChunkedArray, default: object) -> tuple[Indices, list[Any]]:
    """For each entry the number of its value, and the values; the default where there is none."""
    array = column.combine_chunks().dictionary_encode("encode")
    words = [default if word is None else word for word in array.dictionary.to_pylist()]
    return _buffer(array.indices, np.int32).astype(np.int64), words


def _floats(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """A column of numbers, NaN where there is none."""
    array = table.column(name).combine_chunks()
    values = _buffer(array, np.float64).astype(np.float64)
    if array.null_count:
        bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
        values[bits[array.offset : array.offset + len(array)] == 0] = np.nan
    return values


def _buffer(array: pa.Array, kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(array.buffers()[1] or b"", kind)[array.offset : array.offset + len(array)]
