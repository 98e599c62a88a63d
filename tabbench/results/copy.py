"""The parquet copy of all records: made from the lines, trusted only with its digest, and read in parts.

results/records.parquet        a row per line, nested fields as JSON texts
results/records.parquet.json   its digest, and how many bytes of each JSONL file are in it
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tabbench.results.files import open_regular, read_json
from tabbench.results.record import COLUMNS
from tabbench.values import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "records.parquet"
ROW_GROUP = 10_000
"""Rows decoded at once when looking up a single record."""
CHUNK = 1000
"""Records whose fields are held as Python objects at once while the copy is made. If as many are new, readers bring it
up to date."""
GRACE = 0.05
"""Seconds that a writer may need between renaming the copy and renaming its digest."""


@dataclass
class Copy:
    """A parquet copy whose digest matched when it was opened. It stays readable even if it is replaced meanwhile."""

    file: pa.OSFile
    included: dict[str, int]
    """Bytes of each JSONL file that are in it."""
    _group: tuple[int, list[JsonObject]] = field(default=(-1, []), repr=False)

    def read(self, columns: Sequence[str]) -> pa.Table:
        import pyarrow.parquet as pq

        return pq.ParquetFile(self.file).read(list(columns))

    def parts(self) -> Iterator[pa.Table]:
        """All of it, one row group after the other."""
        import pyarrow.parquet as pq

        file = pq.ParquetFile(self.file)
        return (file.read_row_group(group, list(COLUMNS)) for group in range(file.num_row_groups))

    def row(self, number: int) -> JsonObject:
        """One record as it was written."""
        import pyarrow.parquet as pq

        group, place = divmod(number, ROW_GROUP)
        if self._group[0] != group:
            self._group = group, pq.ParquetFile(self.file).read_row_group(group).to_pylist()
        found = self._group[1][place]
        return {
            name: json.loads(value) if COLUMNS[name] == "json" else value
            for name, value in found.items()
            if value is not None
        }


def open_copy(root: Path) -> Copy | None:
    """The copy of a results folder; None if there is none, or if it is damaged, outdated or not ours."""
    for attempt in range(2):
        found = _open(root)
        if found is not None or attempt:
            return found
        time.sleep(GRACE if (root / NAME).exists() else 0.0)
    return None


def _open(root: Path) -> Copy | None:
    import pyarrow as pa

    try:
        about = read_json(root / f"{NAME}.json")
        if about.pop("digest") != _digest(about):
            return None
        included = {str(name): int(size) for name, size in about["files"].items()}
        sizes = {name: (root / "records" / name).stat().st_size for name in included}
        if about["columns"] != list(COLUMNS) or any(sizes[name] < size for name, size in included.items()):
            return None
        open_regular(root / NAME).close()  # arrow would wait for a pipe
        file = pa.OSFile(str(root / NAME))  # opened before its digest is taken: what is read is what was checked
        return Copy(file, included) if _sha256(root / NAME) == about["sha256"] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def is_outdated(root: Path) -> bool:
    """Whether a copy was made by a version with other columns; such a copy is ignored."""
    try:
        about = read_json(root / f"{NAME}.json")
        return bool(about.pop("digest") == _digest(about) and about["columns"] != list(COLUMNS))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def write_copy(root: Path, parts: Iterable[pa.Table], included: Callable[[], dict[str, int]]) -> None:
    """Replace the copy, then its digest; a reader in between does not trust the copy.

    Args:
        root: the results folder.
        parts: the rows of the copy, made while it is written, so that they are never all in memory.
        included: the bytes of each file that are in them, asked for when all are made.
    """
    import pyarrow.parquet as pq

    draft = root / f".records-{secrets.token_hex(4)}.parquet"
    about = draft.with_suffix(".json")
    try:
        with pq.ParquetWriter(draft, no_rows().schema, compression="zstd") as file:
            for group in _groups(parts):
                file.write_table(group, row_group_size=ROW_GROUP)
        value = {"sha256": _sha256(draft), "columns": list(COLUMNS), "files": included()}
        about.write_text(json.dumps({**value, "digest": _digest(value)}), encoding="utf-8")
        os.replace(draft, root / NAME)
        os.replace(about, root / f"{NAME}.json")
    finally:
        draft.unlink(missing_ok=True)
        about.unlink(missing_ok=True)


def _groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of the size of a row group; only the last may be shorter."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    n_rows = 0
    for part in parts:
        waiting.append(part)
        n_rows += part.num_rows
        if n_rows >= ROW_GROUP:
            table = pa.concat_tables(waiting)
            whole = n_rows - n_rows % ROW_GROUP
            yield table.slice(0, whole)
            waiting, n_rows = [table.slice(whole)], n_rows - whole
    if n_rows:
        yield pa.concat_tables(waiting)


def _digest(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def to_arrow(rows: Iterable[JsonObject]) -> Iterator[pa.Table]:
    """Checked records as arrow tables with all columns, some rows at a time; each but the last has ``CHUNK`` rows."""
    # A record's objects are taken apart while they are still in the processor's caches.
    source = map(_fields(), rows)
    collecting = gc.isenabled()
    gc.disable()  # JSON has no cycles, and searching a million new objects for them takes a third of the time
    try:
        while chunk := list(itertools.islice(source, CHUNK)):
            yield _to_arrow(chunk)
    finally:
        if collecting:
            gc.enable()


def _fields() -> Callable[[JsonObject], list[object]]:
    """From a record to the values of its columns: nested fields as JSON texts."""
    import orjson

    to_text = [(name, orjson.dumps if kind == "json" else None) for name, kind in COLUMNS.items()]
    return lambda row: [
        value if (value := row.get(name)) is None or text is None else text(value) for name, text in to_text
    ]


def _to_arrow(rows: Sequence[Sequence[object]]) -> pa.Table:
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    columns = zip(*rows, strict=True) if rows else ([] for _ in COLUMNS)
    arrays = [
        pa.array(values, pa.binary()).cast(pa.string()) if kind == "json" else pa.array(values, types[kind])
        for values, kind in zip(columns, COLUMNS.values(), strict=True)
    ]
    return pa.table(arrays, names=list(COLUMNS))


def no_rows() -> pa.Table:
    """All columns of the copy, without a record."""
    return _to_arrow([])


_KNOWN: dict[tuple[int, int, int, int], str] = {}
"""Digests of files that have not changed since this process looked at them."""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        known = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if known not in _KNOWN:
            _KNOWN[known] = hashlib.file_digest(file, "sha256").hexdigest()
    return _KNOWN[known]
