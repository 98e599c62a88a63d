"""The results folder: records, one fsynced JSONL file per writer, and artefacts by key.

    results/records/*.jsonl      what was found, appended by drivers; the truth, with a digest per line
    results/records.parquet      the same in one file for fast reading; brought up to date when it is behind
    results/artefacts/KIND/KEY/  encoders and representations, complete or absent
    results/locks/, leases/      who works on what
    results/drivers/, logs/      signs of life of drivers; what workers printed

Any tool that reads JSONL or parquet can read the records without tabbench.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import socket
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import filelock

from tabbench.contracts.job import content_key
from tabbench.data.gather import FrozenTable
from tabbench.errors import Evicted, TabbenchWarning, UsageError
from tabbench.experiment.protocols import Skipped
from tabbench.results import artefacts
from tabbench.results.copy import CHUNK, Copy, no_rows, open_copy, to_arrow, write_copy
from tabbench.results.drivers import Presence
from tabbench.results.files import open_regular, read_experiments
from tabbench.results.json_shapes import LeftOut
from tabbench.results.lag import appears
from tabbench.results.lines import Line, read_line, to_line
from tabbench.results.locks import Flock, Lease, Lock, LockKind, Pulses
from tabbench.results.record import SCHEMA_VERSION, BadRecordError, Record, check_fields, is_final
from tabbench.values import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

_USED_THREADS = re.compile(r'"threads": ?(\d+)')


@dataclass
class _File:
    """How far a JSONL file has been read."""

    size: int = 0
    warned: bool = False


@dataclass
class Store:
    """A results folder. Opening it writes nothing.

    It knows the keys of all records, and reads a whole record when it is asked for.
    """

    root: Path
    locks: LockKind = "flock"
    """How drivers avoid doing the same work."""
    patience: float = 0.0
    """Seconds for which files written by another machine may stay invisible here."""
    presence: Presence | None = field(default=None, repr=False)
    """The heartbeat of this process, if it is a driver; leases depend on it."""
    _pulses: Pulses | None = field(default=None, repr=False)
    _writer: int | None = field(default=None, repr=False)
    _copy: Copy | None = field(default=None, repr=False)
    _seen: dict[str, _File] = field(default_factory=dict, repr=False)
    _done: dict[str, bytes | int] = field(default_factory=dict, repr=False)
    """Records by key: as compressed JSON, since a driver may have 100,000; of those in the parquet copy, the row."""
    _failed: dict[str, bytes | int] = field(default_factory=dict, repr=False)
    _seedless: set[str] = field(default_factory=set, repr=False)
    """Keys of finished records without a seed."""
    _open_trials: dict[str, str] = field(default_factory=dict, repr=False)
    """Studies by the keys of trials that were killed, lost, or ran out of time or memory, and never succeeded."""

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
                f"--results {self.root}: {path} cannot be created ({error.strerror}): give a writable folder"
            ) from None
        return path

    # Records.

    def add(self, record: Record) -> None:
        """Append a record to this process's file, on disk before this returns."""
        data = to_line({**record.to_json(), "time": time.time()})
        if self._writer is None:
            folder = self.folder("records")
            name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{socket.gethostname()}-{os.getpid()}"
            path = folder / f"{name}-{secrets.token_hex(3)}.jsonl"
            self._writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            artefacts.sync(folder)
        while data:  # a full disk can cut a write short; the torn line is skipped by readers
            data = data[os.write(self._writer, data) :]
        os.fsync(self._writer)

    def save_experiment(
        self, spec: JsonObject, skipped: Sequence[Skipped] = (), tables: Sequence[FrozenTable] = ()
    ) -> None:
        """Keep the resolved experiment with its results: skipped pairs and why, and the tables as they were."""
        spec = {**spec, "skipped": [pair.to_json() for pair in skipped]} if skipped else spec
        spec = {**spec, "tables": [asdict(table) for table in tables]} if tables else spec
        folder = self.folder("experiments")
        text = json.dumps(spec, indent=1, sort_keys=True)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        if not path.exists():
            draft = folder / f".{secrets.token_hex(4)}"
            draft.write_text(text + "\n", encoding="utf-8")
            os.replace(draft, path)

    def skipped(self) -> list[LeftOut]:
        """Pairs that took no part in the experiments of this folder: ssl, model, protocol, reason."""
        found: dict[str, LeftOut] = {}
        for experiment in read_experiments(self.root):
            pairs = experiment.get("skipped")
            for pair in pairs if isinstance(pairs, list) else []:
                if isinstance(pair, dict) and "reason" in pair:
                    texts = {str(name): str(value) for name, value in pair.items()}
                    found[json.dumps(pair, sort_keys=True)] = cast("LeftOut", texts)
        return list(found.values())

    def frozen_tables(self) -> list[FrozenTable]:
        """The tables of the experiments in this folder, oldest first: what a suite was when it was first planned."""
        return [
            FrozenTable(**{name: str(table[name]) for name in FrozenTable.names()})
            for experiment in read_experiments(self.root)
            if isinstance(experiment.get("tables"), list)
            for table in experiment["tables"]
            if isinstance(table, dict) and FrozenTable.names() <= table.keys()
        ]

    def refresh(self) -> None:
        """Read what any writer has appended since the last call."""
        if self._copy is None and not self._seen:
            self._take_copy()
        for value in self._new_lines():
            record = Record.from_json(value)
            self._enter(record.key, _pack(value), record.is_done, record.study, record.number, record.seed)

    def _take_copy(self) -> None:
        """Read the keys in the parquet copy."""
        self._copy = open_copy(self.root)
        if self._copy is None:
            return
        self._seen = {name: _File(size) for name, size in self._copy.included.items()}
        names = ["key", "status", "kind", "flags", "study", "number", "seed", "threads", "environment"]
        columns = [column.to_pylist() for column in self._copy.read(names).columns]
        for row, (key, status, kind, flags, study, number, seed, threads, where) in enumerate(
            zip(*columns, strict=True)
        ):
            used = _USED_THREADS.search(where or "")
            done = is_final(status, kind, flags or "", threads, int(used[1]) if used else 0)
            self._enter(key, row, done, study, number, seed)

    def _enter(
        self, key: str, record: bytes | int, done: bool, study: str | None, number: int | None, seed: int | None
    ) -> None:
        if done:
            self._done[key] = record
            if seed is None and study is None:
                self._seedless.add(key)
            else:
                self._seedless.discard(key)
            self._failed.pop(key, None)
            self._open_trials.pop(key, None)
        elif key not in self._done:
            self._failed[key] = record
            if study is not None and key == content_key({"study": study, "number": number}):
                self._open_trials[key] = study

    def is_stored(self, key: str) -> bool:
        """Whether there is a finished record of a key, as of the last ``refresh``.

        A result whose studies have open trials does not count: version 0.1.0 treated such studies as finished.
        """
        if key not in self._done:
            return False
        if not self._open_trials:
            return True
        record = self.record(key)
        return record is not None and not self.has_open_trials(each.study for each in (record.tuning or {}).values())

    def has_seed(self, key: str) -> bool:
        """Whether the finished result of a key names a seed, as of the last ``refresh``."""
        return key in self._done and key not in self._seedless

    def record(self, key: str) -> Record | None:
        """The finished record of a key, as of the last ``refresh``."""
        found = self._done.get(key)
        return None if found is None else self._load(found)

    def has_open_trials(self, studies: Iterable[str]) -> bool:
        """Whether a trial of these studies was killed, lost, or ran out of time or memory, and never succeeded.

        Version 0.1.0 treated such trials as done, and the decisions of their studies as final.
        """
        return not set(self._open_trials.values()).isdisjoint(studies)

    def records(self) -> list[Record]:
        """Finished records, and the last failure of each key that never succeeded."""
        self.refresh()
        return [self._load(found) for found in (*self._done.values(), *self._failed.values())]

    def find(self, start: str) -> list[Record]:
        """The records whose keys begin with ``start``."""
        self.refresh()
        found = {**self._failed, **self._done}
        return [self._load(record) for key, record in found.items() if key.startswith(start)]

    def _load(self, found: bytes | int) -> Record:
        if isinstance(found, bytes):
            return Record.from_json(json.loads(zlib.decompress(found)))
        assert self._copy is not None
        return Record.from_json(self._copy.row(found))

    def _new_lines(self) -> Iterator[Line]:
        for path in sorted((self.root / "records").glob("*.jsonl")):
            state = self._seen.setdefault(path.name, _File())
            try:
                if path.stat().st_size <= state.size and path.is_file():
                    continue
                with open_regular(path) as file:
                    file.seek(state.size)
                    yield from _parse(path, file, state)
            except OSError as error:
                if not state.warned:
                    state.warned = True
                    why = error.strerror or error
                    warnings.warn(f"{path.name} cannot be read and was skipped: {why}", TabbenchWarning, stacklevel=2)

    # The parquet copy.

    def read_table(self, columns: list[str]) -> pa.Table:
        """All records as an arrow table, from the parquet copy where it is current."""
        import pyarrow as pa

        copied = open_copy(self.root)
        kept = [] if copied is None else [copied.read(columns)]

        def keep(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
            for part in parts:
                kept.append(part.select(columns))
                yield part

        new, included = self._new_parts(copied)
        parts = keep(new)
        first = list(itertools.islice(parts, 1))
        if first and first[0].num_rows == CHUNK:
            self._compact(copied, itertools.chain(first, parts), included)
        collections.deque(parts, 0)  # where there is no copy to write
        return pa.concat_tables(kept or [no_rows().select(columns)])

    def compact(self) -> None:
        """Bring the parquet copy up to date, unless another process is doing so."""
        if not (self.root / "records").is_dir():
            return
        copied = open_copy(self.root)
        parts, included = self._new_parts(copied)
        first = list(itertools.islice(parts, 1))
        if first or copied is None:
            self._compact(copied, itertools.chain(first, parts), included)

    def _new_parts(self, copied: Copy | None) -> tuple[Iterator[pa.Table], Callable[[], dict[str, int]]]:
        """Records that are not in the copy, and how far each file has been read for them."""
        fresh = Store(self.root)
        fresh._seen = {} if copied is None else {name: _File(size) for name, size in copied.included.items()}
        return to_arrow(fresh._new_lines()), lambda: {name: state.size for name, state in fresh._seen.items()}

    def _compact(self, copied: Copy | None, new: Iterable[pa.Table], included: Callable[[], dict[str, int]]) -> None:
        """Write the rows of the copy and the new ones as the new copy."""
        lock = filelock.FileLock(self.root / "locks" / "compact.lock")
        try:
            (self.root / "locks").mkdir(exist_ok=True)
            with lock.acquire(timeout=0):
                write_copy(self.root, itertools.chain(() if copied is None else copied.parts(), new), included)
        except (filelock.Timeout, OSError, NotImplementedError):
            # Another process is doing it, the folder is read-only, or it has no locks: use the JSONL files.
            return

    # Artefacts.

    def artefact(self, kind: str, key: str) -> Path:
        """Where an artefact is, or would be."""
        return self.root / "artefacts" / kind / key

    def open_artefact(self, kind: str, key: str) -> Path:
        """The folder of a stored artefact, after checking every byte. Waits for one that another machine has made.

        Raises:
            ArtefactError: it is damaged; it has been set aside.
            Evicted: it does not appear within ``patience``; try the job elsewhere, or later.
        """
        path = self.artefact(kind, key)
        if self.patience and not appears(lambda: artefacts.has_all_files(path), path, self.patience):
            raise Evicted(
                f"{path} is not visible from {socket.gethostname()} after {self.patience:g} s: "
                "its file system lags, or is not shared"
            )
        return artefacts.open_folder(path)

    def has_artefact(self, kind: str, key: str) -> bool:
        return artefacts.is_complete(self.artefact(kind, key))

    def write_artefact(self, kind: str, key: str) -> AbstractContextManager[Path]:
        """A folder to fill; it gets its final name only when the block ends without an error."""
        self.folder("artefacts", kind)
        return artefacts.write_folder(self.artefact(kind, key))

    def drop_artefact(self, kind: str, key: str) -> None:
        shutil.rmtree(self.artefact(kind, key), ignore_errors=True)

    def scratch(self, key: str) -> Path:
        """A folder for the checkpoints of a job; it survives a kill."""
        return self.folder("scratch", key)

    def drop_scratch(self, key: str) -> None:
        shutil.rmtree(self.root / "scratch" / key, ignore_errors=True)

    def lock(self, key: str) -> Lock:
        """The right to work on a key, which its holder loses when it dies."""
        if self.locks == "flock":
            return Flock(self.folder("locks") / f"{key}.lock")
        assert self.presence is not None, "a lease needs a driver that gives signs of life"
        if self._pulses is None:
            self._pulses = Pulses(self.root)
        return Lease(self.folder("leases"), key, self.presence, self._pulses)


def _pack(value: Line) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


def _parse(path: Path, lines: Iterable[bytes], state: _File) -> Iterator[Line]:
    """The valid records in the rest of a file, which is never wholly in memory; invalid ones are named."""
    for line in lines:
        if not line.endswith(b"\n"):
            if not state.warned:
                state.warned = True
                message = f"{path.name}: its last line is incomplete and was skipped"
                warnings.warn(message, TabbenchWarning, stacklevel=2)
            return
        state.size += len(line)
        try:
            value = read_line(line[:-1])
            check_fields(value)
        except BadRecordError as error:
            warnings.warn(f"{path.name}: skipped a line that is not a record: {error}", TabbenchWarning, stacklevel=2)
            continue
        if value.get("schema", 1) > SCHEMA_VERSION:
            raise UsageError(f"{path.name} was written by a newer tabbench (schema {value['schema']}): update tabbench")
        yield value
