"""The local dataset cache: one parquet file and one manifest each, written atomically, verified when read.

Below ``cache_dir()``: ``data/NAME/`` for datasets that have a name, ``files/HASH/`` for tables given as FILE:TARGET.
Runs read everything from here, so that a job needs neither the network nor the user's file.
A parquet file is named by its hash and never overwritten: a run in progress keeps the data it started with.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tabbench.contracts import LoadedData
from tabbench.errors import DataError, UsageError
from tabbench.values import JsonObject, Task

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

FORMAT = 1
"""Increased when files of older versions can no longer be read; they are then loaded afresh."""
CACHE_VARIABLE = "TABBENCH_CACHE"
MANIFEST = "manifest.json"
ROW_GROUP = 16_384
"""Rows decoded at once. In one piece, a table of 784 columns would take three times the memory and time."""
IMPORTED = "imported"
"""Revision of a table that a user imported under a name: no code can load it again."""
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")

_matched: set[Manifest] = set()
"""Manifests checked against their tables in this process; after that, the table's hash is enough."""


def cache_dir() -> Path:
    """The folder of the cache: ``TABBENCH_CACHE``, or the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tabbench"))


@dataclass(frozen=True)
class Stored:
    """A second parquet of a dataset."""

    path: str
    """Relative to the cache."""
    sha256: str
    """Hash of the file."""
    key: str
    """Hash of the content."""
    rows: int


@dataclass(frozen=True)
class Manifest:
    """What is known about a cached dataset without reading it."""

    name: str
    key: str
    """Hash of what determines results, not of the file: the columns' names, kinds and values, and the task."""
    sha256: str
    """Hash of the parquet file."""
    path: str
    """The parquet, relative to the cache."""
    rows: int
    n_numeric: int
    n_categorical: int
    task: Literal["binary", "multiclass", "regression"]
    n_classes: int
    """0 for regression."""
    class_names: tuple[str, ...]
    """In label order."""
    target: str
    categorical: tuple[str, ...]
    source: str
    notes: tuple[str, ...]
    revision: int | str
    """The revision of the plugin that loaded it."""
    format: int = FORMAT
    licence: str = ""
    citation: str = ""
    homepage: str = ""
    unlabelled: Stored | None = None
    """Rows without a target, for pretraining: the same feature columns."""
    folds: Stored | None = None
    """The folds that come with the table: one column per repeat."""
    n_folds: int = 0
    """Number of splits defined by these folds or by the column of a split rule; 0 if there are none."""
    decimal_commas: tuple[str, ...] = ()
    """Columns in which the file writes 1.234 as 1,234."""
    thousands: tuple[str, ...] = ()
    """Columns in which the file writes 1234 as 1,234."""

    @property
    def n_features(self) -> int:
        return self.n_numeric + self.n_categorical

    def make_task(self) -> Task:
        """The task as methods and models see it."""
        return Task(self.task, self.n_classes)

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, value: JsonObject) -> Manifest:
        known = {field.name: value[field.name] for field in fields(cls) if field.name in value}
        for name in ("class_names", "categorical", "notes"):
            known[name] = tuple(known[name])
        for name in ("decimal_commas", "thousands"):  # older manifests have none
            known[name] = tuple(known.get(name, ()))
        for name in ("unlabelled", "folds"):
            known[name] = Stored(**known[name]) if known.get(name) else None
        return cls(**known)


def store_dataset(
    name: str,
    loaded: LoadedData,
    *,
    revision: int | str = 1,
    as_published: bool = False,
    drop_unlabelled: bool | None = None,
    folder: str | None = None,
) -> Manifest:
    """Check, normalise and write a table, replacing what was stored under the name before.

    Args:
        name: as in commands and tables.
        loaded: the table.
        revision: of the plugin that loaded it.
        as_published: keep constant and id-like columns; see ``tabbench.data.cleaning.clean``.
        drop_unlabelled: leave out rows without a target; by default those of published datasets.
        folder: where, relative to the cache; ``data/NAME`` by default.
    """
    from tabbench.data.cleaning import clean
    from tabbench.data.content import sort_classes, table_key

    if folder is None:
        folder = named_folder(name)
    dropped = as_published if drop_unlabelled is None else drop_unlabelled
    cleaned = clean(loaded, as_published=as_published, drop_unlabelled=dropped)
    target = cleaned.frame[cleaned.target]
    regression = cleaned.task == "regression"
    class_names = () if regression else sort_classes(list(target.cat.categories))
    task: Literal["binary", "multiclass", "regression"] = "regression"
    if not regression:
        task = "binary" if len(class_names) == 2 else "multiclass"
    content = _to_parquet(cleaned.frame)
    sha256 = hashlib.sha256(content).hexdigest()
    more = _make_more(folder, cleaned)
    manifest = Manifest(
        name=name,
        key=table_key(cleaned.frame, cleaned.target, task),
        sha256=sha256,
        path=f"{folder}/{sha256[:16]}.parquet",
        rows=len(cleaned.frame),
        n_numeric=len(cleaned.frame.columns) - 1 - len(cleaned.categorical),
        n_categorical=len(cleaned.categorical),
        task=task,
        n_classes=len(class_names),
        class_names=class_names,
        target=cleaned.target,
        categorical=cleaned.categorical,
        source=cleaned.source,
        notes=cleaned.notes,
        revision=revision,
        licence=cleaned.licence,
        citation=cleaned.citation,
        homepage=cleaned.homepage,
        decimal_commas=cleaned.decimal_commas,
        thousands=cleaned.thousands,
        n_folds=0 if cleaned.folds is None else sum(int(repeat.max()) + 1 for repeat in cleaned.folds.T),
        unlabelled=more["unlabelled"][0] if "unlabelled" in more else None,
        folds=more["folds"][0] if "folds" in more else None,
    )
    with locked(f"{folder}/store"):
        for stored, second in more.values():
            _write_atomically(cache_dir() / stored.path, second)
        _write_atomically(cache_dir() / manifest.path, content)
        text = json.dumps(manifest.to_json(), indent=1, ensure_ascii=False)
        _write_atomically(cache_dir() / folder / MANIFEST, text.encode())
    return manifest


def _make_more(folder: str, cleaned: LoadedData) -> dict[str, tuple[Stored, bytes]]:
    """What is stored next to the table: unlabelled rows and folds, with their content."""
    import pandas as pd

    from tabbench.data.content import table_key

    folds = None if cleaned.folds is None else pd.DataFrame(cleaned.folds).rename(columns=str)
    more = {}
    for what, frame in (("unlabelled", cleaned.unlabelled), ("folds", folds)):
        if frame is not None:
            content = _to_parquet(frame)
            sha256 = hashlib.sha256(content).hexdigest()
            path = f"{folder}/{sha256[:16]}.{what}.parquet"
            more[what] = (Stored(path, sha256, table_key(frame, "", what), len(frame)), content)
    return more


def find_cached(name: str, *, folder: str | None = None) -> Manifest | None:
    """The manifest of a cached dataset; None if there is none that this version can read."""
    if folder is None:
        if not NAME.fullmatch(name.lower()):
            return None
        folder = named_folder(name)
    manifest = _read_manifest(cache_dir() / folder / MANIFEST)
    return manifest if manifest is not None and (cache_dir() / manifest.path).is_file() else None


def read_frame(manifest: Manifest) -> pd.DataFrame:
    """The table as stored, after checking its hash and its manifest."""
    from tabbench.data.content import find_mismatch

    frame = _from_parquet(_read_verified(manifest, manifest.path, manifest.sha256))
    if manifest not in _matched:
        fault = find_mismatch(frame, manifest)
        if fault:
            raise DataError(
                f"the manifest of {manifest.name} does not match the cached table ({fault}): {_remedy(manifest)}"
            )
        _matched.add(manifest)
    return frame


def read_unlabelled(manifest: Manifest) -> pd.DataFrame:
    """The rows without a target, after checking their hash; only if ``manifest.unlabelled`` is set."""
    assert manifest.unlabelled is not None
    return _read_stored(manifest, manifest.unlabelled, "unlabelled")


def read_folds(manifest: Manifest) -> NDArray[np.int16] | None:
    """The folds that came with the table; see ``LoadedData.folds``."""
    if manifest.folds is None:
        return None
    folds: NDArray[np.int16] = _read_stored(manifest, manifest.folds, "folds").to_numpy()
    return folds


def _read_stored(manifest: Manifest, stored: Stored, what: str) -> pd.DataFrame:
    from tabbench.data.content import table_key

    frame = _from_parquet(_read_verified(manifest, stored.path, stored.sha256))
    if table_key(frame, "", what) != stored.key:
        raise DataError(f"the manifest of {manifest.name} does not match its {what}: {_remedy(manifest)}")
    return frame


def list_cached() -> list[Manifest]:
    """Everything in the cache, named datasets first."""
    paths = [
        path for kind in ("data", "schemes", "files") for path in sorted((cache_dir() / kind).glob(f"*/{MANIFEST}"))
    ]
    return [manifest for path in paths if (manifest := _read_manifest(path)) is not None]


def remove(manifest: Manifest) -> int:
    """Remove a dataset and its older versions from the cache; returns the number of bytes freed."""
    folder = (cache_dir() / manifest.path).parent
    with locked(f"{folder.relative_to(cache_dir())}/store"):
        files = [path for path in folder.iterdir() if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        for path in sorted(files, key=lambda path: path.name != MANIFEST):  # the manifest first: it announces the data
            path.unlink()
        folder.rmdir()
    return size


def verify(manifest: Manifest) -> str:
    """What is wrong with the stored table, in one sentence; empty if nothing."""
    try:
        if manifest not in _matched:
            read_frame(manifest)
        for stored in (manifest, manifest.unlabelled, manifest.folds):
            if stored is not None:
                _read_verified(manifest, stored.path, stored.sha256)
    except DataError as error:
        return str(error)
    return ""


def named_folder(name: str) -> str:
    """Where a dataset with a name is stored, relative to the cache."""
    if not NAME.fullmatch(name.lower()):
        raise UsageError(f"Bad dataset name {name[:40]!r}: up to 100 letters, digits, '_', '.' and '-' are allowed")
    return f"data/{name.lower()}"


def scheme_folder(name: str) -> str:
    """Where a table of a data scheme is stored; its name, such as openml:61:class, may hold any character."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
    return f"schemes/{slug}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@contextmanager
def locked(what: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let one process at a time do ``what``, on this machine or on a shared disk that honours file locks.

    ``waiting`` is called once if another process is doing it.
    """
    from filelock import FileLock, Timeout

    path = cache_dir() / "locks" / f"{what.replace('/', '-')}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(_cannot_write(error)) from None
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0.2)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _read_manifest(path: Path) -> Manifest | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return Manifest.from_json(value) if value.get("format") == FORMAT else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # missing or not ours, which amounts to the same
        return None


def _read_verified(manifest: Manifest, relative: str, sha256: str) -> bytes:
    path = cache_dir() / relative
    try:
        content = path.read_bytes()
    except OSError:
        raise DataError(f"{manifest.name} is not cached ({path} cannot be read): {_remedy(manifest)}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(
            f"the cached table of {manifest.name} is damaged ({path} has sha256 {found[:12]}..., "
            f"not {sha256[:12]}...): {_remedy(manifest)}"
        )
    return content


def _remedy(manifest: Manifest) -> str:
    if manifest.revision == IMPORTED:
        return f"import it again: `tabbench data import {manifest.name} FILE --target {manifest.target}`"
    if manifest.path.startswith("files/"):
        return "give the file to the command again"
    return f"run `tabbench data fetch {manifest.name} --force`, or import it again"


def _from_parquet(content: bytes) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A job's threads are fixed; without extra ones, prefetching only costs time. ``pq.read_table`` starts one anyway,
    # and a process that ends soon after it, for instance with an error, is aborted now and then.
    table = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False).read(use_threads=False)
    frame: pd.DataFrame = table.to_pandas(use_threads=False)
    return frame


def _to_parquet(frame: pd.DataFrame) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, sink, compression="zstd", row_group_size=ROW_GROUP)
    return sink.getvalue()


def _write_atomically(path: Path, content: bytes) -> None:
    """Write so that a reader, even after a power cut, sees either the old file or the whole new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        if os.name == "posix":
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(_cannot_write(error)) from None


def _cannot_write(error: OSError) -> str:
    return f"cannot write to the cache {cache_dir()} ({error.strerror}): set {CACHE_VARIABLE} to another folder"
