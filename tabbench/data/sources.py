"""Turn the values of ``--data`` into cached datasets: names, groups, schemes such as openml:61, FILE:TARGET."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tabbench.data.cache import (
    IMPORTED,
    Manifest,
    cache_dir,
    find_cached,
    list_cached,
    locked,
    scheme_folder,
    store_dataset,
    verify,
)
from tabbench.data.reading import DROP, Reading
from tabbench.errors import DataError, PluginError, UsageError, unknown

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.contracts import Dataset, LoadedData
    from tabbench.registry import Entry, Registry

Progress = Callable[[str], None]
AS_FILE_IS = Reading()
IN_MEMORY = "a DataFrame"
"""The source of a table that was never a file."""


@dataclass(frozen=True)
class FileReference:
    """A table given as FILE:TARGET."""

    path: Path
    target: str
    label: str = ""
    """Used instead of the file's name if several files have the same one."""

    @property
    def name(self) -> str:
        """The table's name in records and tables."""
        return f"{self.label or self.path.name}:{self.target}"


@dataclass(frozen=True)
class SchemeTable:
    """One table of a data scheme, such as openml:61."""

    name: str
    entry: Entry
    """The scheme."""
    dataset: Dataset = field(compare=False)


def resolve_data(
    reference: str,
    registry: Registry,
    *,
    offline: bool = False,
    reading: Reading = AS_FILE_IS,
    progress: Progress = lambda line: None,
) -> list[Manifest]:
    """Make sure that the data are cached, and return their manifests.

    Args:
        reference: a dataset's name or alias, a group such as ``demo``, an imported name, a reference of a scheme such
            as ``openml:61``, or FILE:TARGET.
        registry: the known datasets.
        offline: do not use the network.
        reading: for FILE:TARGET, what the user says about it.
        progress: receives a line for each step that takes time.
    """
    sources = find_sources(reference, registry, offline=offline)
    manifests = []
    for number, source in enumerate(sources):
        told = partial(_tell_place, progress, f" ({number + 1} of {len(sources)})" if len(sources) > 1 else "")
        manifests.append(resolve_source(source, registry, offline=offline, reading=reading, progress=told))
    return manifests


def _tell_place(progress: Progress, place: str, line: str) -> None:
    progress(line + place)


def resolve_source(
    source: Entry | FileReference | Manifest | SchemeTable,
    registry: Registry,
    *,
    offline: bool,
    reading: Reading = AS_FILE_IS,
    progress: Progress = lambda line: None,
) -> Manifest:
    """One table, in the cache."""
    if isinstance(source, FileReference):
        return _resolve_file(source, reading)
    if isinstance(source, Manifest):
        fault = verify(source)
        if fault:
            raise DataError(fault)
        return source
    return fetch(source, registry, offline=offline, progress=progress)


def peek_data(reference: str, registry: Registry) -> list[tuple[str, Manifest | None]]:
    """Names, and the manifests of those cached. Loads nothing and leaves the cache unchanged."""
    found: list[tuple[str, Manifest | None]] = []
    try:
        sources = find_sources(reference, registry, offline=True)
    except DataError:
        if find_scheme(reference, registry) is None:
            raise
        return [(reference, None)]  # a suite whose list was never loaded
    for source in sources:
        if isinstance(source, FileReference):
            found.append((source.name, find_cached(source.name, folder=_file_folder(source, AS_FILE_IS))))
        elif isinstance(source, Manifest):
            found.append((source.name, source))
        else:
            found.append((source.name, _current(source)))
    return found


def fetch(
    source: Entry | SchemeTable,
    registry: Registry,
    *,
    offline: bool,
    force: bool = False,
    progress: Progress = lambda line: None,
) -> Manifest:
    """The cached dataset of a plugin, loaded if it is missing or damaged, or with ``force``."""
    manifest = None if force else _current(source)
    if manifest is not None and not verify(manifest):
        return manifest
    entry = source.entry if isinstance(source, SchemeTable) else source
    folder = _folder(source)
    lock = f"{folder.partition('/')[2]}.load"
    with locked(lock, lambda: progress(f"waiting for another process to load {source.name}")):
        # Another process may have loaded it while we waited for the lock.
        manifest = None if force else _current(source)
        if manifest is not None:
            fault = verify(manifest)
            if not fault:
                return manifest
            progress(fault)
        summary = "" if isinstance(source, SchemeTable) else source.plugin.summary
        progress(f"loading {source.name}" + (f": {summary}" if summary else ""))
        dataset = source.dataset if isinstance(source, SchemeTable) else make_dataset(source, registry)
        loaded = dataset.load(cache_dir(), offline)
        try:
            return store_dataset(source.name, loaded, revision=entry.revision, as_published=True, folder=folder)
        except DataError as error:
            raise DataError(f"dataset {source.name!r} of {entry.distribution}: {error}") from None


def import_file(name: str, path: Path, target: str, registry: Registry, reading: Reading = AS_FILE_IS) -> Manifest:
    """Cache a file under a name: a known dataset's (then it must be that dataset), or a new one."""
    from tabbench.data.files import read_file

    entry = find_dataset(name, registry)
    if entry is None and (name.lower() in registry.groups() or find_scheme(name, registry) is not None):
        raise UsageError(f"{name!r} is a group of datasets; import each under its own name")
    loaded = read_file(path, target, reading)
    try:
        if entry is None:
            dropped = reading.unlabelled == DROP
            return store_dataset(name.lower(), loaded, revision=IMPORTED, drop_unlabelled=dropped)
        dataset = make_dataset(entry, registry)
        accepted = dataset.accept(loaded) or _match_known(dataset, loaded)
        return store_dataset(entry.name, accepted, revision=entry.revision, as_published=True)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def store_frame(name: str, frame: pd.DataFrame, target: str, reading: Reading = AS_FILE_IS) -> Manifest:
    """Cache a DataFrame, read as a file with the same values would be; ``frame`` is not changed.

    Args:
        name: the table's name in records and tables.
        frame: features and target; rows without a target are for pretraining.
        target: the column to predict.
        reading: what the user says about it.
    """
    from tabbench.data.cleaning import clean
    from tabbench.data.files import understand
    from tabbench.data.formats import Parsed
    from tabbench.frames import check_frame

    try:
        check_frame(frame)
        loaded = understand(Parsed(frame.reset_index(drop=True).copy()), str(target), reading, "task='regression'")
        dropped = reading.unlabelled == DROP
        # Cleaned once for its hash, which names the folder, so that two frames with one name do not collide.
        shown = clean(loaded, drop_unlabelled=dropped).frame
        digest = hashlib.sha256(json.dumps([name, reading.to_json(), list(shown.columns)]).encode())
        digest.update(_hash_rows(shown))
        folder = f"files/{digest.hexdigest()[:24]}"
        loaded = replace(loaded, source=IN_MEMORY)
        return store_dataset(name, loaded, revision="frame", drop_unlabelled=dropped, folder=folder)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _hash_rows(frame: pd.DataFrame) -> bytes:
    import pandas as pd

    marks: bytes = pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes()
    return marks


def _match_known(dataset: Dataset, loaded: LoadedData) -> LoadedData:
    """The dataset as it loads offline, if ``loaded`` is the same table."""
    from tabbench.data.matching import match

    try:
        known = dataset.load(cache_dir(), offline=True)
    except DataError as error:
        raise DataError(
            f"cannot check that this is the dataset of that name ({error}): import it under another name"
        ) from None
    try:
        return match(loaded, known)
    except DataError as error:
        raise DataError(f"this is not the dataset of that name: {error}; import it under another name") from None


def find_dataset(name: str, registry: Registry) -> Entry | None:
    """The registered dataset with that name or alias, in upper or lower case."""
    wanted = name.lower()
    for entry in registry.entries("data"):
        if wanted == entry.name or wanted in (alias.lower() for alias in entry.plugin.aliases):
            return entry
    return None


def find_scheme(reference: str, registry: Registry) -> tuple[Entry, str] | None:
    """The data scheme of a reference, and the reference with shortcuts such as a suite's name expanded."""
    from tabbench.data.files import is_there, split_reference

    for entry in registry.entries("scheme"):
        for name, meant in entry.plugin.shortcuts.items():
            if reference.lower() == name.lower():
                return entry, meant
        start = len(entry.name)
        if reference[:start].lower() == entry.name and reference[start : start + 1] in (":", "/"):
            if is_there(Path(split_reference(reference)[0]).expanduser()):  # a file in a folder with that name
                return None
            return entry, entry.name + reference[start:]
    return None


def make_dataset(entry: Entry, registry: Registry) -> Dataset:
    """The object behind a registered dataset."""
    dataset: Dataset = registry.load(entry)(**entry.plugin.arguments)
    return dataset


def parse_file_reference(reference: str) -> FileReference | None:
    """FILE:TARGET; None if ``reference`` does not look like it."""
    from tabbench.data.files import is_file_name, is_there, split_reference

    path, target = split_reference(reference)
    if target:
        return FileReference(Path(path).expanduser(), target)
    if is_file_name(path) or is_there(Path(path).expanduser()):
        raise UsageError(f"Which column of {path} is the target? Write {path}:TARGET")
    file, _, target = reference.rpartition(":")
    if file and any(sign in file for sign in "./\\"):  # another kind of file; reading it will report that
        return FileReference(Path(file).expanduser(), target)
    return None


def is_file(reference: str, registry: Registry) -> bool:
    """Whether a reference is FILE:TARGET, and not a name."""
    if find_scheme(reference, registry) is not None:
        return False
    return any(isinstance(source, FileReference) for source in find_sources(reference, registry))


def find_sources(
    reference: str, registry: Registry, *, offline: bool = False, refresh: bool = False
) -> list[Entry | FileReference | Manifest | SchemeTable]:
    """What a reference stands for. A suite's list is loaded if necessary, or again with ``refresh``."""
    groups = registry.groups()
    if reference.lower() in groups:
        return list(groups[reference.lower()])
    entry = find_dataset(reference, registry)
    if entry is not None:
        return [entry]
    known = {manifest.name: manifest for manifest in list_cached() if manifest.revision == IMPORTED}
    imported = known.get(reference.lower())
    if imported is not None:
        if find_cached(imported.name) is None:
            raise DataError(verify(imported))
        return [imported]
    found = find_scheme(reference, registry)
    if found is not None:
        scheme, meant = found
        tables = registry.load(scheme)(**scheme.plugin.arguments).expand(
            meant, cache_dir(), offline=offline, refresh=refresh
        )
        return [SchemeTable(name, scheme, dataset) for name, dataset in tables.items()]
    for name in {reference, reference.rpartition(":")[0]} - {""}:
        if _is_folder(name):
            raise DataError(f"{name} is a folder; give a file and its target, as FILE:TARGET")
    file = parse_file_reference(reference)
    if file is not None:
        return [file]
    if any(manifest.source == IN_MEMORY and manifest.name == reference for manifest in list_cached()):
        raise UsageError(f"{reference!r} was a DataFrame in Python: save it as a file, and give that as FILE:TARGET")
    try:
        return [registry.find("data", reference)]
    except PluginError:  # the name is known, but its plugin is broken
        raise
    except UsageError:
        schemes = registry.entries("scheme")
        names = [
            *registry.names("data"),
            *groups,
            *known,
            *(name for each in schemes for name in each.plugin.shortcuts),
        ]
        raise unknown("dataset", reference, [*names, "FILE:TARGET"]) from None


def _is_folder(name: str) -> bool:
    try:
        return Path(name).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # a name that no file can have; ~nobody
        return False


def _folder(source: Entry | SchemeTable) -> str:
    return scheme_folder(source.name) if isinstance(source, SchemeTable) else f"data/{source.name}"


def _current(source: Entry | SchemeTable) -> Manifest | None:
    """The cached dataset, if this version of the plugin made it."""
    manifest = find_cached(source.name, folder=_folder(source))
    revision = source.entry.revision if isinstance(source, SchemeTable) else source.revision
    return manifest if manifest is not None and manifest.revision == revision else None


def _resolve_file(reference: FileReference, reading: Reading) -> Manifest:
    from tabbench.data.files import READER_REVISION, read_file

    folder = _file_folder(reference, reading)
    manifest = find_cached(reference.name, folder=folder)
    if manifest is not None and not verify(manifest):
        return manifest
    loaded = read_file(reference.path, reference.target, reading)
    dropped = reading.unlabelled == DROP
    try:
        return store_dataset(reference.name, loaded, revision=READER_REVISION, folder=folder, drop_unlabelled=dropped)
    except DataError as error:
        raise DataError(f"{reference.path}: {error}") from None


def _file_folder(reference: FileReference, reading: Reading) -> str:
    """Where a file's table is cached: a different content, target or reading has a different folder."""
    from tabbench.data.files import READER_REVISION, read_bytes

    digest = hashlib.sha256(json.dumps([reference.name, reading.to_json(), READER_REVISION]).encode())
    for path in (reference.path, reading.second_file):
        if path is None:
            continue
        try:
            digest.update(hashlib.sha256(read_bytes(path)).digest())
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
    return f"files/{digest.hexdigest()[:24]}"
