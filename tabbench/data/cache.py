"""The local cache of datasets: one parquet and one manifest each, written atomically, verified when read.

Below ``cache_dir()``: ``data/NAME/`` for datasets that have a name, ``files/HASH/`` for tables given as FILE:TARGET.
Whatever a run reads comes from here, so that a job needs neither the network nor the user's file.
A parquet is named by its hash and never overwritten: a run that is under way keeps what it started with.
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
from typing import TYPE_CHECKING, Any, Literal

from tabbench.contracts import LoadedData
from tabbench.errors import DataError, UsageError
from tabbench.table import Task

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
"""Raised when the files of older versions can no longer be read; they are then loaded afresh."""
CACHE_VARIABLE = "TABBENCH_CACHE"
MANIFEST = "manifest.json"
ROW_GROUP = 16_384
"""Rows that the reader decodes at once: in one piece, a table of 784 columns takes three times the memory and time."""
IMPORTED = "imported"
"""Revision of a table that a user imported under a name: there is no code that could load it again."""
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def cache_dir() -> Path:
    """The folder of the cache: ``TABBENCH_CACHE``, or the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("tabbench"))


@dataclass(frozen=True)
class Manifest:
    """What is known of a cached dataset without reading it."""

    name: str
    key: str
    """Hash of names, kinds and values of the columns and of the task: of what determines results, not of the file."""
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
    """In the order of their labels."""
    target: str
    categorical: tuple[str, ...]
    source: str
    notes: tuple[str, ...]
    revision: int | str
    """Of the plugin that loaded it."""
    format: int = FORMAT

    @property
    def n_features(self) -> int:
        return self.n_numeric + self.n_categorical

    def make_task(self) -> Task:
        """The task as methods and models see it."""
        return Task(self.task, self.n_classes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Manifest:
        known: dict[str, Any] = {field.name: value[field.name] for field in fields(cls)}
        for name in ("class_names", "categorical", "notes"):
            known[name] = tuple(known[name])
        return cls(**known)


def store_dataset(
    name: str,
    loaded: LoadedData,
    *,
    revision: int | str = 1,
    as_published: bool = False,
    folder: str | None = None,
) -> Manifest:
    """Check, normalise and write a table; what was stored under the name before is superseded.

    Args:
        name: as in commands and tables.
        loaded: the table.
        revision: of the plugin that loaded it.
        as_published: keep constant and id-like columns; see ``tabbench.data.cleaning.clean``.
        folder: where, relative to the cache; ``data/NAME`` by default.
    """
    from tabbench.data.cleaning import clean, sort_classes

    if folder is None:
        folder = named_folder(name)
    cleaned = clean(loaded, as_published=as_published)
    target = cleaned.frame[cleaned.target]
    regression = cleaned.task == "regression"
    class_names = () if regression else sort_classes(list(target.cat.categories))
    task: Literal["binary", "multiclass", "regression"] = "regression"
    if not regression:
        task = "binary" if len(class_names) == 2 else "multiclass"
    content = _to_parquet(cleaned.frame)
    sha256 = hashlib.sha256(content).hexdigest()
    manifest = Manifest(
        name=name,
        key=_content_key(cleaned.frame, cleaned.target, task),
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
    )
    with locked(f"{folder}/store"):
        _write_atomically(cache_dir() / manifest.path, content)
        text = json.dumps(manifest.to_json(), indent=1, ensure_ascii=False)
        _write_atomically(cache_dir() / folder / MANIFEST, text.encode())
    return manifest


def find_cached(name: str, *, folder: str | None = None) -> Manifest | None:
    """The manifest of a dataset that is in the cache; None if there is none that this version can read."""
    if folder is None:
        if not NAME.fullmatch(name.lower()):
            return None
        folder = named_folder(name)
    manifest = _read_manifest(cache_dir() / folder / MANIFEST)
    return manifest if manifest is not None and (cache_dir() / manifest.path).is_file() else None


def read_frame(manifest: Manifest) -> pd.DataFrame:
    """The table as stored, after a check of its hash."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    reader = pa.BufferReader(_read_verified(manifest))
    # A job has its threads given; without them, buffering ahead only costs time.
    table = pq.read_table(reader, use_threads=False, pre_buffer=False)
    frame: pd.DataFrame = table.to_pandas(use_threads=False)
    return frame


def list_cached() -> list[Manifest]:
    """Everything in the cache, named datasets first."""
    paths = [path for kind in ("data", "files") for path in sorted((cache_dir() / kind).glob(f"*/{MANIFEST}"))]
    return [manifest for path in paths if (manifest := _read_manifest(path)) is not None]


def verify(manifest: Manifest) -> str:
    """What is wrong with the stored table, in one sentence; empty if nothing is."""
    try:
        _read_verified(manifest)
    except DataError as error:
        return str(error)
    return ""


def named_folder(name: str) -> str:
    """Where a dataset with a name is stored, relative to the cache."""
    if not NAME.fullmatch(name.lower()):
        raise UsageError(f"Bad dataset name {name!r}: letters, digits, '_', '.' and '-' are allowed")
    return f"data/{name.lower()}"


@contextmanager
def locked(what: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """One process at a time on this machine (or on a shared disk that honours file locks) does ``what``.

    ``waiting`` is called once if another process is at it.
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
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # not there, or not ours: as good as not there
        return None


def _read_verified(manifest: Manifest) -> bytes:
    path = cache_dir() / manifest.path
    remedy = f"run `tabbench data fetch {manifest.name} --force`, or import it again"
    if manifest.revision == IMPORTED:
        remedy = f"import it again: `tabbench data import {manifest.name} FILE --target {manifest.target}`"
    elif ":" in manifest.name:
        remedy = "give the file to the command once more"
    try:
        content = path.read_bytes()
    except OSError:
        raise DataError(f"{manifest.name} is not in the cache ({path} cannot be read): {remedy}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != manifest.sha256:
        raise DataError(
            f"the cached table of {manifest.name} is damaged ({path} has sha256 {found[:12]}..., "
            f"not {manifest.sha256[:12]}...): {remedy}"
        )
    return content


def _to_parquet(frame: pd.DataFrame) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, sink, compression="zstd", row_group_size=ROW_GROUP)
    return sink.getvalue()


def _content_key(frame: pd.DataFrame, target: str, task: str) -> str:
    """Equal for equal tables, whatever version of a library wrote the file, and whatever integer type it holds."""
    import numpy as np
    import pandas as pd

    digest = hashlib.sha256()

    def add(value: Any) -> None:
        digest.update(json.dumps(value, ensure_ascii=True).encode() + b"\n")

    add({"format": FORMAT, "target": target, "task": task, "rows": len(frame)})
    for name, column in frame.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            add([name, "categorical", [str(level) for level in column.cat.categories]])
            digest.update(column.cat.codes.to_numpy().astype("<i8").tobytes())
        else:
            add([name, "numeric"])
            values = column.to_numpy(dtype="<f8", na_value=np.nan) + 0.0  # -0.0 and 0.0 are the same number
            values[np.isnan(values)] = np.nan  # and so are all NaN
            digest.update(values.tobytes())
    return digest.hexdigest()


def _write_atomically(path: Path, content: bytes) -> None:
    """A reader, or the next start after a power cut, sees the old file or the whole new one."""
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
    return f"cannot write into the cache {cache_dir()} ({error.strerror}): set {CACHE_VARIABLE} to another folder"
