"""Find all tables of an experiment, name them uniquely, check them against the split rule, and freeze the list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tabbench.contracts.split_rule import SplitRule
from tabbench.contracts.weighting import Weighting
from tabbench.data.cache import Manifest, read_frame
from tabbench.data.reading import Reading
from tabbench.data.sources import (
    AS_FILE_IS,
    FileReference,
    Progress,
    find_scheme,
    find_sources,
    is_file,
    peek_data,
    resolve_data,
    resolve_source,
    store_frame,
)
from tabbench.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.registry import Registry

RANDOM = SplitRule()
ALL_ALIKE = Weighting()


@dataclass(frozen=True)
class FrozenTable:
    """A table of an experiment as it was when the experiment was planned, since suites change."""

    name: str
    key: str
    sha256: str
    source: str
    reference: str
    """What the user wrote."""

    @classmethod
    def names(cls) -> set[str]:
        """Of its fields."""
        return {each.name for each in fields(cls)}


def find_data(
    references: Iterable[str],
    registry: Registry,
    *,
    offline: bool = False,
    reading: Reading = AS_FILE_IS,
    rule: SplitRule = RANDOM,
    weighting: Weighting = ALL_ALIKE,
    frozen: Sequence[FrozenTable] = (),
    say: Progress = lambda line: None,
) -> list[Manifest]:
    """Cache every dataset of an experiment; ``say`` receives progress and notes on files.

    Args:
        references: the values of ``--data``.
        registry: the known datasets.
        offline: do not use the network.
        reading: for FILE:TARGET, what the user says about it.
        rule: how rows will be split; refused here if it does not fit a table.
        weighting: how rows will be weighted; refused here likewise.
        frozen: the tables of an earlier run of this experiment; a suite stays as it was then.
        say: receives lines for the user.
    """
    files = _find_files(references, registry, reading)
    found: dict[str, Manifest] = {}
    for reference in references:
        for manifest in _tables(reference, registry, files, offline, reading, frozen, say):
            if manifest.name not in found and reference in files:
                for note in manifest.notes:
                    say(f"{manifest.name}: {note}")
            found.setdefault(manifest.name, with_rule(manifest, rule, weighting))
            check_names(found.values(), manifest)
    return list(found.values())


def _find_files(references: Iterable[str], registry: Registry, reading: Reading) -> dict[str, FileReference]:
    """The files among the references. Without one, what is said about reading files is refused."""
    files = name_files([reference for reference in references if is_file(reference, registry)], registry)
    if not files and not replace(reading, keep=(), weights="").is_default:
        raise UsageError(
            "--categorical, --numeric, --drop, --task and --unlabelled are for files: give --data FILE:TARGET"
        )
    return files


def store_frames(
    frames: Mapping[str, tuple[pd.DataFrame, str]],
    reading: Reading = AS_FILE_IS,
    rule: SplitRule = RANDOM,
    weighting: Weighting = ALL_ALIKE,
) -> list[Manifest]:
    """Cache DataFrames by name, each with its target, and check them against the split rule and the weights."""
    found: dict[str, Manifest] = {}
    for name, (frame, target) in frames.items():
        manifest = store_frame(name, frame, target, reading)
        found[name] = with_rule(manifest, rule, weighting)
        check_names(found.values(), manifest)
    return list(found.values())


def freeze(references: Iterable[str], manifests: Sequence[Manifest], registry: Registry) -> list[FrozenTable]:
    """The tables behind each reference, with their checksums, to keep with the experiment."""
    tables = {manifest.name: manifest for manifest in manifests}
    frozen = []
    for reference in references:
        names = [name for name, _ in peek_data(reference, registry)] if not is_file(reference, registry) else []
        for name in names or [name for name in tables if reference.endswith(name)]:
            if name in tables:
                manifest = tables[name]
                frozen.append(FrozenTable(name, manifest.key, manifest.sha256, manifest.source, reference))
    return frozen


def _tables(
    reference: str,
    registry: Registry,
    files: Mapping[str, FileReference],
    offline: bool,
    reading: Reading,
    frozen: Sequence[FrozenTable],
    say: Progress,
) -> list[Manifest]:
    """The tables of one reference; those of a suite as they were when the experiment was first planned."""
    if reference in files:
        return [resolve_source(files[reference], registry, offline=offline, reading=reading, progress=say)]
    meant = find_scheme(reference, registry)  # the name of a suite, its number and capitals are the same reference
    then = {table.name: table.key for table in frozen if meant and find_scheme(table.reference, registry) == meant}
    if not then:
        return resolve_data(reference, registry, offline=offline, progress=say)
    now = [source.name for source in find_sources(reference, registry, offline=offline)]
    if now != list(then):
        say(f"{reference} has changed since this experiment was planned; the run uses its {len(then)} tables from then")
    manifests = [manifest for name in then for manifest in resolve_data(name, registry, offline=offline, progress=say)]
    for manifest in manifests:
        if then.get(manifest.name) != manifest.key:
            raise DataError(
                f"{manifest.name} is not the table these results were made with (content "
                f"{manifest.key[:12]} instead of {then.get(manifest.name, '')[:12]}): use another folder (--results)"
            )
    return manifests


def name_files(references: Sequence[str], registry: Registry) -> dict[str, FileReference]:
    """Files by reference. Files with the same name are told apart by as much of their path as needed."""
    files: dict[str, FileReference] = {}
    for reference in references:
        (source,) = find_sources(reference, registry)
        assert isinstance(source, FileReference)
        files[reference] = source
    paths = {reference: file.path.expanduser().absolute() for reference, file in files.items()}
    named = {}
    for reference, file in files.items():
        rivals = {paths[other] for other in files if files[other].name == file.name} - {paths[reference]}
        named[reference] = replace(file, label=_tell_apart(paths[reference], rivals)) if rivals else file
    return named


def _tell_apart(path: Path, rivals: Iterable[Path]) -> str:
    others = list(rivals)
    for length in range(2, len(path.parts) + 1):
        tail = path.parts[-length:]
        if all(other.parts[-length:] != tail for other in others):
            return "/".join(part.strip("/") or "" for part in tail)
    return str(path)


def with_rule(manifest: Manifest, rule: SplitRule, weighting: Weighting = ALL_ALIKE) -> Manifest:
    """The manifest with the number of splits that the rule gives on this table.

    Raises:
        DataError: the rule or the weights do not fit the table, for instance because it has no such column.
    """
    from tabbench.data.rules import divide, read_split_column

    _check_weights(manifest, weighting)
    if rule.is_default:
        return manifest
    if rule.kind == "server":
        if manifest.folds is None:
            raise DataError(f"{manifest.name} has no folds of its own: --folds server is for openml/t/ID and suites")
        return manifest
    if manifest.target in rule.columns:
        raise DataError(f"{manifest.name}: {manifest.target!r} is the target and cannot decide the split")
    frame = read_frame(manifest)
    features, target = frame.drop(columns=manifest.target), frame[manifest.target]
    regression = manifest.task == "regression"
    try:
        divide(rule, 0, features, target.to_numpy() if regression else target.cat.codes.to_numpy(), regression)
        count = read_split_column(features[rule.column])[1] if rule.kind == "column" else 0
    except DataError as error:
        raise DataError(f"{manifest.name}: {error}") from None
    return replace(manifest, n_folds=count)


def _check_weights(manifest: Manifest, weighting: Weighting) -> None:
    from tabbench.data.weights import read_weights

    if not weighting.column:
        return
    if weighting.column == manifest.target:
        raise DataError(f"{manifest.name}: {manifest.target!r} is the target and cannot hold weights")
    try:
        read_weights(read_frame(manifest).drop(columns=manifest.target), weighting.column)
    except DataError as error:
        raise DataError(f"{manifest.name}: {error}") from None


def check_names(manifests: Iterable[Manifest], new: Manifest) -> None:
    """Refuse two tables with one name, and one table with two names: their results could not be told apart."""
    for manifest in manifests:
        if manifest.name == new.name and manifest.key != new.key:
            raise UsageError(
                f"two different tables are called {new.name!r}: import one of them under another name "
                "(tabbench data import NAME FILE --target T)"
            )
        if manifest.name != new.name and manifest.key == new.key:
            raise UsageError(f"{manifest.name!r} and {new.name!r} are the same table: give only one of them")


def expect_data(
    references: Iterable[str],
    registry: Registry,
    *,
    reading: Reading = AS_FILE_IS,
    rule: SplitRule = RANDOM,
    weighting: Weighting = ALL_ALIKE,
) -> tuple[list[Manifest], list[str]]:
    """Manifests of all datasets, with stand-ins for those not cached; and the names of the latter."""
    manifests: dict[str, Manifest] = {}
    absent = []
    files = _find_files(references, registry, reading)
    for reference in references:
        if reference in files:  # read it as a run would, errors included
            manifest = resolve_source(files[reference], registry, offline=True, reading=reading)
            manifests.setdefault(manifest.name, with_rule(manifest, rule, weighting))
            check_names(manifests.values(), manifest)
            continue
        for name, cached in peek_data(reference, registry):
            try:  # some datasets need no network
                found = cached if cached is not None else resolve_data(name, registry, offline=True)[0]
                found = with_rule(found, rule, weighting)
            except DataError:
                if cached is not None:
                    raise
                absent.append(name)
                found = expected_manifest(name, registry)
            manifests.setdefault(name, found)
    return list(manifests.values()), absent


def expected_manifest(name: str, registry: Registry) -> Manifest:
    """A stand-in for a dataset that is not cached, with the counts its plugin expects, if it gives any."""
    arguments = next((entry.plugin.arguments for entry in registry.entries("data") if entry.name == name), {})
    classes = int(arguments.get("classes", 0))
    return Manifest(
        name=name,
        key=f"not fetched: {name}",
        sha256="",
        path="",
        rows=int(arguments.get("rows", 0)),
        n_numeric=int(arguments.get("numeric", 0)),
        n_categorical=int(arguments.get("categorical", 0)),
        task="regression" if not classes else "binary" if classes == 2 else "multiclass",
        n_classes=classes,
        class_names=(),
        target="",
        categorical=(),
        source="",
        notes=(),
        revision="",
    )
