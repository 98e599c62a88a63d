"""``tabbench data``: fill the local cache, and look at what is in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabbench.cli.options import PluginFiles, split_names
from tabbench.errors import DataError, TabbenchError, UsageError, unknown
from tabbench.registry import make_registry

if TYPE_CHECKING:
    from tabbench.data.cache import Manifest
    from tabbench.data.files import TaskName
    from tabbench.data.summary import ColumnSummary
    from tabbench.registry import Registry

SOME_FAILED = 3
SHOWN_COLUMNS = 50

app = typer.Typer(help="Fill the local cache of datasets, and look at what is in it.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs.")]
Categorical = Annotated[
    str, typer.Option("--categorical", metavar="A,B", help="Columns that hold categories though they are numbers.")
]
TaskOption = Annotated[
    str, typer.Option("--task", help="classification or regression, instead of what the target looks like.")
]


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets or groups, such as adult or paper.")],
    offline: Annotated[bool, typer.Option("--offline", help="Load nothing over the network.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Load again what is there already.")] = False,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Load datasets into the cache; what is there already is left as it is."""
    from tabbench.data.references import fetch as fetch_entry

    registry = make_registry(plugin or [])
    groups = registry.groups()
    entries = {}
    for name in split_names(",".join(names)):
        for entry in groups.get(name.lower()) or [registry.find("data", name)]:
            entries[entry.name] = entry
    manifests, failures = [], []
    for entry in entries.values():
        try:
            manifests.append(fetch_entry(entry, registry, offline=offline, force=force, progress=_say))
        except TabbenchError as error:
            if len(entries) == 1:
                raise
            failures.append(str(error))
    if as_json:
        _print_json([manifest.to_json() for manifest in manifests])
    else:
        _print_manifests(manifests)
    for failure in failures:
        _say(f"tabbench: {failure}")
    if failures:
        raise typer.Exit(SOME_FAILED)


@app.command("import")
def import_(
    name: Annotated[str, typer.Argument(help="Under which name: a known dataset's, or a new one.")],
    file: Annotated[Path, typer.Argument(help="CSV, TSV or parquet, also with .gz or .zst.")],
    target: Annotated[str, typer.Option("--target", help="Column to predict.")],
    categorical: Categorical = "",
    task: TaskOption = "",
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Put a file into the cache under a name, so that machines without a network can use it."""
    from tabbench.data.references import import_file

    registry = make_registry(plugin or [])
    manifest = import_file(name, file, target, registry, categorical=split_names(categorical), task=_parse_task(task))
    if as_json:
        _print_json(manifest.to_json())
    else:
        _print_manifests([manifest])
        _print_notes(manifest.notes)


@app.command("list")
def list_(as_json: AsJson = False, plugin: PluginFiles = None) -> None:
    """List what is in the cache, and which known datasets are not."""
    from tabbench.data.cache import cache_dir, list_cached

    manifests = list_cached()
    if as_json:
        _print_json([manifest.to_json() for manifest in manifests])
        return
    print(f"cache: {cache_dir()}")
    _print_manifests(manifests)
    there = {manifest.name for manifest in manifests}
    absent = [name for name in make_registry(plugin or []).names("data") if name not in there]
    if absent:
        print(f"not in the cache: {', '.join(absent)}")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="All that is cached without it.")
    ] = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Compare cached tables with their checksums."""
    from tabbench.data.cache import list_cached
    from tabbench.data.cache import verify as verify_manifest

    manifests = list_cached()
    if names:
        registry = make_registry(plugin or [])
        manifests = [manifest for name in split_names(",".join(names)) for manifest in _cached(name, registry)]
    faults = {manifest.name: verify_manifest(manifest) for manifest in manifests}
    if as_json:
        _print_json([{"name": name, "ok": not fault, "fault": fault} for name, fault in faults.items()])
    else:
        for name, fault in faults.items():
            print(f"{name}: {fault or 'ok'}")
    if any(faults.values()):
        raise typer.Exit(1)


@app.command()
def show(
    reference: Annotated[str, typer.Argument(metavar="NAME|FILE:TARGET", help="A dataset, or a file and its target.")],
    categorical: Categorical = "",
    task: TaskOption = "",
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Say what a table holds, and how its columns are understood. A file is only looked at, not cached."""
    from tabbench.data.summary import summarise

    registry = make_registry(plugin or [])
    loaded, about = _look(reference, registry, split_names(categorical), _parse_task(task))
    columns = summarise(loaded.frame, loaded.target, loaded.categorical)
    about |= {
        "rows": len(loaded.frame),
        "n_numeric": sum(column.kind == "numeric" for column in columns),
        "n_categorical": sum(column.kind == "categorical" for column in columns),
        "target": loaded.target,
        "task": loaded.task,
        "source": loaded.source,
        "notes": list(loaded.notes),
    }
    if as_json:
        _print_json(about | {"columns": [column.to_json() for column in columns]})
    else:
        _print_summary(about, columns)


def _look(
    reference: str, registry: Registry, categorical: list[str], task: TaskName | None
) -> tuple[Any, dict[str, Any]]:
    """A cleaned table, and what is known of it beside its columns."""
    from tabbench.contracts import LoadedData
    from tabbench.data.cache import read_frame
    from tabbench.data.cleaning import clean
    from tabbench.data.files import read_file
    from tabbench.data.references import FileReference, find_sources, peek_data, resolve_data

    sources = find_sources(reference, registry)
    if len(sources) > 1:
        members = ", ".join(source.name for source in sources)
        raise UsageError(f"{reference!r} is a group of datasets; show one of them: {members}")
    source = sources[0]
    if isinstance(source, FileReference):
        loaded = read_file(source.path, source.target, categorical=categorical, task=task)
        try:
            return clean(loaded), {"name": source.name}
        except DataError as error:
            raise DataError(f"{source.path}: {error}") from None
    if categorical or task:
        raise UsageError(f"--categorical and --task are for files; what {reference} holds is known")
    try:
        manifest = resolve_data(reference, registry, offline=True)[0]
    except DataError:
        if peek_data(reference, registry)[0][1] is not None:
            raise
        raise DataError(
            f"{source.name} is not in the cache, and show downloads nothing: run `tabbench data fetch {source.name}`"
        ) from None
    kind: TaskName = "regression" if manifest.task == "regression" else "classification"
    loaded = LoadedData(
        read_frame(manifest), manifest.target, kind, manifest.categorical, manifest.source, manifest.notes
    )
    return loaded, {"name": manifest.name, "key": manifest.key}


def _cached(name: str, registry: Registry) -> list[Manifest]:
    from tabbench.data.references import peek_data

    found = peek_data(name, registry)
    absent = [each for each, manifest in found if manifest is None]
    if len(absent) == len(found):
        raise DataError(f"{', '.join(absent)} is not in the cache: run `tabbench data fetch {name}`")
    return [manifest for _, manifest in found if manifest is not None]


def _parse_task(task: str) -> TaskName | None:
    if task in ("classification", "regression"):
        return task  # type: ignore[return-value] # mypy does not narrow to literals here
    if task:
        raise unknown("task", task, ("classification", "regression"))
    return None


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False))


def _print_manifests(manifests: list[Manifest]) -> None:
    from tabulate import tabulate

    rows = [
        (
            manifest.name,
            f"{manifest.rows:,}",
            manifest.n_numeric,
            manifest.n_categorical,
            manifest.task if manifest.task != "multiclass" else f"{manifest.n_classes:,} classes",
            manifest.source,
        )
        for manifest in manifests
    ]
    if rows:
        headers = ("name", "rows", "numeric", "categorical", "task", "source")
        print(tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=("left", *["right"] * 3)))


def _print_summary(about: dict[str, Any], columns: list[ColumnSummary]) -> None:
    from tabulate import tabulate

    print(
        f"{about['name']}: {about['rows']:,} rows, {about['n_numeric']} numeric and {about['n_categorical']} "
        f"categorical features, {about['task']} of {about['target']!r} ({about['source']})"
    )
    shown = columns if len(columns) <= SHOWN_COLUMNS else [*columns[: SHOWN_COLUMNS - 1], columns[-1]]
    rows = [
        (column.name, column.kind, f"{column.missing:,}", f"{column.distinct:,}", column.values) for column in shown
    ]
    headers = ("column", "kind", "missing", "distinct", "values")
    print(tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=("left", "left", "right", "right")))
    if len(shown) < len(columns):
        print(f"{len(columns) - len(shown)} more features are not shown; --json has all")
    _print_notes(about["notes"])


def _print_notes(notes: tuple[str, ...] | list[str]) -> None:
    for note in notes:
        print(f"note: {note}")
