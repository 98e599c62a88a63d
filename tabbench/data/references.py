"""From what users type after ``--data`` to cached datasets: a name, a group of names, or FILE:TARGET."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tabbench.data.cache import (
    IMPORTED,
    Manifest,
    cache_dir,
    find_cached,
    list_cached,
    locked,
    store_dataset,
    verify,
)
from tabbench.errors import DataError, PluginError, UsageError, unknown

if TYPE_CHECKING:
    from tabbench.contracts import Dataset
    from tabbench.data.files import TaskName
    from tabbench.registry import Entry, Registry

Progress = Callable[[str], None]


@dataclass(frozen=True)
class FileReference:
    """A table given as FILE:TARGET."""

    path: Path
    target: str

    @property
    def name(self) -> str:
        """How the table is called in records and tables."""
        return f"{self.path.name}:{self.target}"


def resolve_data(
    reference: str,
    registry: Registry,
    *,
    offline: bool = False,
    categorical: Sequence[str] = (),
    progress: Progress = lambda line: None,
) -> list[Manifest]:
    """Make sure that the data are in the cache, and say what they are.

    Args:
        reference: a dataset's name or alias, a group such as ``demo``, an imported name, or FILE:TARGET.
        registry: the datasets there are.
        offline: nothing may be loaded over the network.
        categorical: for FILE:TARGET, columns that hold categories though their values are numbers.
        progress: gets a line for each step that takes time.
    """
    manifests = []
    for source in find_sources(reference, registry):
        if isinstance(source, FileReference):
            manifests.append(_resolve_file(source, categorical))
        elif isinstance(source, Manifest):
            manifests.append(source)
        else:
            manifests.append(fetch(source, registry, offline=offline, progress=progress))
    return manifests


def peek_data(
    reference: str, registry: Registry, *, categorical: Sequence[str] = ()
) -> list[tuple[str, Manifest | None]]:
    """Names, and the manifests of those that are in the cache; nothing is loaded, and the cache stays as it is."""
    found: list[tuple[str, Manifest | None]] = []
    for source in find_sources(reference, registry):
        if isinstance(source, FileReference):
            found.append((source.name, find_cached(source.name, folder=_file_folder(source, categorical))))
        elif isinstance(source, Manifest):
            found.append((source.name, source))
        else:
            found.append((source.name, _current(source)))
    return found


def fetch(
    entry: Entry, registry: Registry, *, offline: bool, force: bool = False, progress: Progress = lambda line: None
) -> Manifest:
    """The cached dataset of a plugin, loaded if it is not there, or not whole, or ``force`` says so."""
    manifest = None if force else _current(entry)
    if manifest is not None and not verify(manifest):
        return manifest
    with locked(f"{entry.name}.load", lambda: progress(f"waiting for another process that loads {entry.name}")):
        # Another process may have loaded it while this one waited for the lock.
        manifest = None if force else _current(entry)
        if manifest is not None:
            fault = verify(manifest)
            if not fault:
                return manifest
            progress(fault)
        progress(f"loading {entry.name}" + (f": {entry.plugin.summary}" if entry.plugin.summary else ""))
        loaded = make_dataset(entry, registry).load(cache_dir(), offline)
        try:
            return store_dataset(entry.name, loaded, revision=entry.revision, as_published=True)
        except DataError as error:
            raise DataError(f"dataset {entry.name!r} of {entry.distribution}: {error}") from None


def import_file(
    name: str,
    path: Path,
    target: str,
    registry: Registry,
    *,
    categorical: Sequence[str] = (),
    task: TaskName | None = None,
) -> Manifest:
    """Put a file into the cache under a name: a known dataset's (then it must be that dataset), or a new one."""
    from tabbench.data.files import read_file

    entry = find_dataset(name, registry)
    if entry is None and name.lower() in registry.groups():
        raise UsageError(f"{name!r} is a group of datasets; import each under its own name")
    loaded = read_file(path, target, categorical=categorical, task=task)
    try:
        if entry is None:
            return store_dataset(name.lower(), loaded, revision=IMPORTED)
        accepted = make_dataset(entry, registry).accept(loaded)
        return store_dataset(entry.name, accepted, revision=entry.revision, as_published=True)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def find_dataset(name: str, registry: Registry) -> Entry | None:
    """The registered dataset of that name or alias, in any case."""
    wanted = name.lower()
    for entry in registry.entries("data"):
        if wanted == entry.name or wanted in (alias.lower() for alias in entry.plugin.aliases):
            return entry
    return None


def make_dataset(entry: Entry, registry: Registry) -> Dataset:
    """The object behind a registered dataset."""
    dataset: Dataset = registry.load(entry)(**entry.plugin.arguments)
    return dataset


def parse_file_reference(reference: str) -> FileReference | None:
    """FILE:TARGET; None if ``reference`` does not look like it."""
    from tabbench.data.files import is_file_name, split_reference

    path, target = split_reference(reference)
    if target:
        return FileReference(Path(path).expanduser(), target)
    if is_file_name(path) or Path(path).expanduser().is_file():
        raise UsageError(f"Which column of {path} is the target? Write {path}:TARGET")
    file, _, target = reference.rpartition(":")
    if file and any(sign in file for sign in "./\\"):  # a file of some other kind; reading it will say so
        return FileReference(Path(file).expanduser(), target)
    return None


def is_file(reference: str, registry: Registry) -> bool:
    """Whether a reference is FILE:TARGET, and not a name."""
    return any(isinstance(source, FileReference) for source in find_sources(reference, registry))


def find_sources(reference: str, registry: Registry) -> list[Entry] | list[FileReference] | list[Manifest]:
    """What a reference stands for: registered datasets, one file, or one imported table."""
    groups = registry.groups()
    if reference.lower() in groups:
        return groups[reference.lower()]
    entry = find_dataset(reference, registry)
    if entry is not None:
        return [entry]
    known = {manifest.name: manifest for manifest in list_cached() if manifest.revision == IMPORTED}
    imported = known.get(reference.lower())
    if imported is not None:
        if find_cached(imported.name) is None:
            raise DataError(verify(imported))
        return [imported]
    file = parse_file_reference(reference)
    if file is not None:
        return [file]
    try:
        return [registry.find("data", reference)]
    except PluginError:  # the name is known, but its plugin is broken
        raise
    except UsageError:
        raise unknown("dataset", reference, [*registry.names("data"), *groups, *known, "FILE:TARGET"]) from None


def _current(entry: Entry) -> Manifest | None:
    """The cached dataset, if this version of the plugin made it."""
    manifest = find_cached(entry.name)
    return manifest if manifest is not None and manifest.revision == entry.revision else None


def _resolve_file(reference: FileReference, categorical: Sequence[str]) -> Manifest:
    from tabbench.data.files import READER_REVISION, read_file

    folder = _file_folder(reference, categorical)
    manifest = find_cached(reference.name, folder=folder)
    if manifest is not None and not verify(manifest):
        return manifest
    loaded = read_file(reference.path, reference.target, categorical=categorical)
    try:
        return store_dataset(reference.name, loaded, revision=READER_REVISION, folder=folder)
    except DataError as error:
        raise DataError(f"{reference.path}: {error}") from None


def _file_folder(reference: FileReference, categorical: Sequence[str]) -> str:
    """Where the table of a file is cached: another content, target or reading of it is another folder."""
    from tabbench.data.files import READER_REVISION, read_bytes

    try:
        content = read_bytes(reference.path)
    except DataError as error:
        raise DataError(f"{reference.path}: {error}") from None
    how = [reference.name, sorted(set(categorical)), READER_REVISION]
    digest = hashlib.sha256(json.dumps(how).encode() + hashlib.sha256(content).digest())
    return f"files/{digest.hexdigest()[:24]}"
