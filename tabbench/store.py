"""The results folder: records, one fsynced JSONL file per writer, and artefacts by key.

    results/records/*.jsonl      what was found, appended by drivers; the truth
    results/records.parquet      the same in one file for fast reading; made anew whenever it is out of date
    results/artefacts/KIND/KEY/  encoders and representations, complete or not there at all
    results/locks/, logs/        who works on what; what workers printed

Any tool that reads JSONL or parquet can read the records without tabbench.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from tabbench.errors import TabbenchWarning, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
COMPACT_AFTER = 1000
"""Readers make the parquet file anew when so many records are not in it yet."""
NESTED = (
    "config",
    "plugins",
    "test",
    "validation",
    "flags",
    "counts",
    "hashes",
    "seconds",
    "environment",
    "diagnostics",
    "reports",
    "tuning",
)
"""Fields of a record that hold objects or arrays; in parquet they are JSON strings."""
_TYPES = {
    "string": ("kind", "key", "status", "ssl", "model", "data", "data_key", "fidelity", "preset", "variant", "task",
               "metric", "study", "error", "traceback", *NESTED),
    "int64": ("schema", "split", "seed", "rows_limit", "trials", "ssl_trials", "number"),
    "double": ("time", "score", "value"),
    "bool": ("uses_labels",),
}  # fmt: skip
COLUMNS = {name: kind for kind, names in _TYPES.items() for name in names}
"""Columns of the parquet copy, with their types."""
_KINDS = {"string": (str,), "int64": (int,), "double": (int, float), "bool": (bool,)}
_PLAIN = {name: (*_KINDS[kind], type(None)) for name, kind in COLUMNS.items() if name not in NESTED}
"""What the lines may hold in the columns that are taken over as they are."""


@dataclass
class _File:
    """How far a JSONL file has been read."""

    size: int = 0
    warned: bool = False


@dataclass
class Store:
    """A results folder. Opening it writes nothing."""

    root: Path
    _writer: int | None = field(default=None, repr=False)
    _seen: dict[str, _File] = field(default_factory=dict, repr=False)
    _done: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    _failed: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.root = Path(self.root).absolute()
        for place in (self.root, *self.root.parents):
            if place.is_file():
                where = "this is" if place == self.root else f"{place} is"
                raise UsageError(f"--results {self.root}: {where} a file, not a folder")

    def folder(self, *parts: str) -> Path:
        """A folder below the root, made if it is not there.

        Raises:
            UsageError: it cannot be made.
        """
        path = self.root.joinpath(*parts)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"--results {self.root}: {path} cannot be made ({error.strerror}): name a folder that can be written"
            ) from None
        return path

    # Records.

    def add(self, record: dict[str, Any]) -> None:
        """Append a record to this process's file, on disk before this returns."""
        line = json.dumps({"schema": SCHEMA_VERSION, **record, "time": time.time()}, allow_nan=False) + "\n"
        if self._writer is None:
            folder = self.folder("records")
            name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{socket.gethostname()}-{os.getpid()}"
            path = folder / f"{name}-{secrets.token_hex(3)}.jsonl"
            self._writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            _sync_folder(folder)
        data = line.encode()
        while data:  # a full disk can cut a write short; the torn line is skipped by readers
            data = data[os.write(self._writer, data) :]
        os.fsync(self._writer)

    def save_experiment(self, spec: dict[str, Any]) -> None:
        """Keep the resolved experiment beside its results."""
        folder = self.folder("experiments")
        text = json.dumps(spec, indent=1, sort_keys=True)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        if not path.exists():
            draft = folder / f".{secrets.token_hex(4)}"
            draft.write_text(text + "\n", encoding="utf-8")
            os.replace(draft, path)

    def refresh(self) -> None:
        """Read what any writer has appended since the last call."""
        for record in self._new_records():
            status = record.get("status")
            if status == "ok" or record.get("kind") == "trial":
                self._done[record["key"]] = record
                self._failed.pop(record["key"], None)
            elif record["key"] not in self._done:
                self._failed[record["key"]] = record

    def record(self, key: str) -> dict[str, Any] | None:
        """The finished record of a key, as of the last ``refresh``."""
        return self._done.get(key)

    def records(self) -> list[dict[str, Any]]:
        """Finished records, and the last failure of each key that never succeeded."""
        self.refresh()
        return [*self._done.values(), *self._failed.values()]

    def _new_records(self) -> Iterator[dict[str, Any]]:
        for path in sorted((self.root / "records").glob("*.jsonl")):
            state = self._seen.setdefault(path.name, _File())
            if path.stat().st_size <= state.size:
                continue
            with path.open("rb") as file:
                file.seek(state.size)
                data = file.read()
            yield from _parse(path, data, state)

    # The parquet copy.

    def read_table(self, columns: list[str]) -> pa.Table:
        """All records as an arrow table, from the parquet copy where it is current."""
        import pyarrow as pa

        copied, included = self._open_copy(columns)
        fresh = Store(self.root)
        fresh._seen = {name: _File(size) for name, size in included.items()}
        rows = list(fresh._new_records())
        if len(rows) >= COMPACT_AFTER and self._compact():
            return self.read_table(columns)
        parts = [] if copied is None else [copied]
        if rows or copied is None:
            parts.append(_to_arrow(rows).select(columns))
        return pa.concat_tables(parts)

    def compact(self) -> None:
        """Bring the parquet copy up to date, unless another process is doing so."""
        if (self.root / "records").is_dir():
            self._compact()

    def _open_copy(self, columns: list[str]) -> tuple[pa.Table | None, dict[str, int]]:
        """The parquet copy and how many bytes of each JSONL file are in it; nothing if it is missing or not ours."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.root / "records.parquet"
        try:
            with pq.ParquetFile(path) as file:
                included: dict[str, int] = json.loads(file.schema_arrow.metadata[b"tabbench.files"])
                sizes = {name: (self.root / "records" / name).stat().st_size for name in included}
                if any(sizes[name] < size for name, size in included.items()):
                    return None, {}
                return file.read(columns), included
        except (OSError, KeyError, TypeError, ValueError, pa.ArrowException):
            return None, {}

    def _compact(self) -> bool:
        import pyarrow.parquet as pq

        lock = filelock.FileLock(self.root / "locks" / "compact.lock")
        (self.root / "locks").mkdir(exist_ok=True)
        try:
            with lock.acquire(timeout=0):
                everything = Store(self.root)
                table = _to_arrow(list(everything._new_records()))
                included = {name: state.size for name, state in everything._seen.items()}
                table = table.replace_schema_metadata({"tabbench.files": json.dumps(included)})
                draft = self.root / f".records-{secrets.token_hex(4)}.parquet"
                pq.write_table(table, draft, compression="zstd")
                os.replace(draft, self.root / "records.parquet")
                return True
        except (filelock.Timeout, OSError):  # somebody else is at it, or the folder is read-only: the JSONL serves
            return False

    # Artefacts.

    def artefact(self, kind: str, key: str) -> Path:
        """Where an artefact is, or would be."""
        return self.root / "artefacts" / kind / key

    def has_artefact(self, kind: str, key: str) -> bool:
        return self.artefact(kind, key).is_dir()

    @contextmanager
    def write_artefact(self, kind: str, key: str) -> Iterator[Path]:
        """A folder to fill; it gets its name when the block ends without an error, and not before."""
        final = self.artefact(kind, key)
        draft = self.folder("artefacts", kind) / f".{key}-{secrets.token_hex(4)}"
        draft.mkdir()
        try:
            yield draft
            for file in draft.rglob("*"):
                if file.is_file():
                    _sync_file(file)
            if not final.exists():
                try:
                    draft.rename(final)
                except OSError:
                    if not final.exists():  # somebody else may have finished the same work in between
                        raise
            _sync_folder(final.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def scratch(self, key: str) -> Path:
        """A folder for the checkpoints of a job; it survives a kill."""
        return self.folder("scratch", key)

    def drop_scratch(self, key: str) -> None:
        shutil.rmtree(self.root / "scratch" / key, ignore_errors=True)

    def lock(self, key: str) -> filelock.BaseFileLock:
        """The right to work on a key; the system gives it back when its holder dies."""
        return filelock.FileLock(self.folder("locks") / f"{key}.lock")


def _parse(path: Path, data: bytes, state: _File) -> Iterator[dict[str, Any]]:
    complete, newline, torn = data.rpartition(b"\n")
    state.size += len(complete) + len(newline)
    for line in complete.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not _is_record(record):
            warnings.warn(f"{path.name}: a line that is no record was skipped", TabbenchWarning, stacklevel=2)
            continue
        if record.get("schema", 0) > SCHEMA_VERSION:
            raise UsageError(
                f"{path.name} was written by a newer tabbench (schema {record['schema']}): update tabbench"
            )
        yield record
    if torn and not state.warned:
        state.warned = True
        warnings.warn(f"{path.name}: its last line is incomplete and was skipped", TabbenchWarning, stacklevel=2)


def _is_record(value: Any) -> bool:
    """Whether a line has a key and a status, and in every column of the parquet copy what belongs there."""
    if not isinstance(value, dict) or value.get("key") is None or value.get("status") is None:
        return False
    return all(type(value.get(name)) in kinds for name, kinds in _PLAIN.items())


def _to_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    arrays = []
    for name, kind in COLUMNS.items():
        values = [row.get(name) for row in rows]
        if name in NESTED:
            values = [None if value is None else json.dumps(value) for value in values]
        arrays.append(pa.array(values, types[kind]))
    return pa.table(arrays, names=list(COLUMNS))


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        _sync_file(path)
