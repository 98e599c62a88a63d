"""``tabbench data``: fill and inspect the local cache."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabbench.cli.options import CommandGroup, PluginFiles, split_names
from tabbench.errors import DataError, TabbenchError, UsageError, unknown
from tabbench.registry import make_registry
from tabbench.values import JsonObject

if TYPE_CHECKING:
    from tabbench.data.cache import Manifest
    from tabbench.data.reading import Reading, TaskName
    from tabbench.data.sources import SchemeTable
    from tabbench.data.summary import ColumnSummary
    from tabbench.registry import Entry, Registry

SOME_FAILED = 3
SHOWN_COLUMNS = 50
LONGEST_NAME = 40
SHORT_LIST = 3
"""With this many datasets or fewer, progress is not counted."""

app = CommandGroup(help="Fill and inspect the local dataset cache.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs.")]
Categorical = Annotated[
    str, typer.Option("--categorical", metavar="A,B", help="Numeric columns to treat as categories.")
]
Numeric = Annotated[
    str, typer.Option("--numeric", metavar="A,B", help="Columns to treat as numbers; anything else counts as missing.")
]
Drop = Annotated[str, typer.Option("--drop", metavar="A,B", help="Columns to leave out.")]
Unlabelled = Annotated[
    str,
    typer.Option(
        "--unlabelled", metavar="FILE|drop", help="File with more rows, without a target; drop: use no unlabelled rows."
    ),
]
TaskOption = Annotated[str, typer.Option("--task", help="classification or regression, if the guess is wrong.")]


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets or groups, such as adult or paper.")],
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the network.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Reload datasets that are already cached.")] = False,
    jobs: Annotated[int, typer.Option(min=1, max=32, metavar="N", help="Parallel downloads.")] = 2,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Load datasets into the cache. Cached datasets are skipped, so running it again resumes."""
    from tabbench.data.sources import FileReference, find_sources

    registry = make_registry(plugin or [])
    sources: dict[str, Entry | SchemeTable | Manifest] = {}
    for name in split_names(",".join(names)):
        for source in find_sources(name, registry, offline=offline, refresh=force):
            if isinstance(source, FileReference):
                raise UsageError(f"{name} is a file: `tabbench data import NAME {source.path} --target T` caches it")
            sources[source.name] = source
    manifests, failures = _fetch_all(sources, registry, offline=offline, force=force, jobs=jobs)
    if as_json:
        _print_json([manifest.to_json() for manifest in manifests])
    else:
        _print_manifests(manifests)
    for failure in failures:
        _say(f"tabbench: {failure}")
    if failures:
        raise typer.Exit(SOME_FAILED)


def _fetch_all(
    sources: dict[str, Entry | SchemeTable | Manifest], registry: Registry, *, offline: bool, force: bool, jobs: int
) -> tuple[list[Manifest], list[str]]:
    """Load several datasets in parallel. A failure does not stop the others, unless it is the only one."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    from tabbench.data.cache import Manifest
    from tabbench.data.sources import fetch as fetch_source

    def load(source: Entry | SchemeTable | Manifest) -> Manifest:
        if isinstance(source, Manifest):
            return source
        return fetch_source(source, registry, offline=offline, force=force, progress=_say)

    found: dict[str, Manifest] = {}
    failures: dict[str, str] = {}
    pool = ThreadPoolExecutor(min(jobs, len(sources)))
    try:
        waiting = {pool.submit(load, source): name for name, source in sources.items()}
        for number, future in enumerate(as_completed(waiting)):
            name = waiting[future]
            try:
                found[name] = future.result()
                if len(sources) > SHORT_LIST:
                    _say(f"{number + 1} of {len(sources)}: {name}, {found[name].rows:,} rows")
            except TabbenchError as error:
                if len(sources) == 1:
                    raise
                failures[name] = str(error)
    finally:
        pool.shutdown(cancel_futures=True)
    return [found[name] for name in sources if name in found], [failures[name] for name in sources if name in failures]


@app.command("import")
def import_(
    name: Annotated[str, typer.Argument(help="Name to store it under: a known dataset's, or a new one.")],
    file: Annotated[Path, typer.Argument(help="CSV, TSV, parquet, Excel or Feather; .gz and .zst work too.")],
    target: Annotated[str, typer.Option("--target", help="Column to predict.")],
    categorical: Categorical = "",
    numeric: Numeric = "",
    drop: Drop = "",
    task: TaskOption = "",
    unlabelled: Unlabelled = "keep",
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Cache a file under a name, so that machines without a network can use it."""
    from tabbench.data.sources import import_file

    registry = make_registry(plugin or [])
    reading = _make_reading(categorical, numeric, drop, task, unlabelled)
    manifest = import_file(name, file, target, registry, reading)
    if as_json:
        _print_json(manifest.to_json())
    else:
        _print_manifests([manifest])
        _print_notes(manifest.notes)


@app.command("list")
def list_(as_json: AsJson = False, plugin: PluginFiles = None) -> None:
    """List cached datasets, and known datasets that are not cached."""
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
        list[str] | None, typer.Argument(metavar="[NAME...]", help="All cached datasets if omitted.")
    ] = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Check cached tables against their checksums."""
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
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Dataset names as in `tabbench data list`.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
) -> None:
    """Remove datasets from the cache. Results are kept; a later run loads the data again."""
    from tabbench.data.cache import cache_dir, list_cached
    from tabbench.data.cache import remove as remove_manifest

    cached = list_cached()
    chosen: list[Manifest] = []
    for name in names:
        found = [manifest for manifest in cached if manifest.name.lower() == name.lower()]
        if not found:
            raise unknown("cached dataset", name, [manifest.name for manifest in cached])
        chosen += found
    for manifest in chosen:
        folder = (cache_dir() / manifest.path).parent
        size = sum(path.stat().st_size for path in folder.iterdir()) if dry_run else remove_manifest(manifest)
        print(f"{'would remove' if dry_run else 'removed'} {manifest.name} ({size / 2**20:.1f} MB)")


@app.command()
def show(
    reference: Annotated[str, typer.Argument(metavar="NAME|FILE:TARGET", help="A dataset, or a file and its target.")],
    categorical: Categorical = "",
    numeric: Numeric = "",
    drop: Drop = "",
    task: TaskOption = "",
    unlabelled: Unlabelled = "keep",
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Describe a table and how its columns are read. Files are read but not cached."""
    from tabbench.data.summary import summarise

    registry = make_registry(plugin or [])
    loaded, about = _look(reference, registry, _make_reading(categorical, numeric, drop, task, unlabelled))
    columns = summarise(loaded.frame, loaded.target, loaded.categorical)
    about |= {
        "rows": len(loaded.frame),
        "n_numeric": sum(column.kind == "numeric" for column in columns),
        "n_categorical": sum(column.kind == "categorical" for column in columns),
        "target": loaded.target,
        "task": loaded.task,
        "source": loaded.source,
        "notes": list(loaded.notes),
        "unlabelled": 0 if loaded.unlabelled is None else len(loaded.unlabelled),
        "licence": loaded.licence,
        "citation": loaded.citation,
        "homepage": loaded.homepage,
    }
    if as_json:
        _print_json(about | {"columns": [asdict(column) for column in columns]})
    else:
        _print_summary(about, columns)


def _look(reference: str, registry: Registry, reading: Reading) -> tuple[Any, JsonObject]:
    """A cleaned table, and what is known about it beyond its columns."""
    from tabbench.contracts import LoadedData
    from tabbench.data.cache import read_frame, read_unlabelled
    from tabbench.data.cleaning import clean
    from tabbench.data.files import read_file
    from tabbench.data.reading import DROP
    from tabbench.data.sources import FileReference, find_sources, peek_data, resolve_data

    sources = find_sources(reference, registry)
    if len(sources) > 1:
        members = ", ".join(source.name for source in sources)
        raise UsageError(f"{reference!r} is a group of datasets; pick one: {members}")
    source = sources[0]
    if isinstance(source, FileReference):
        loaded = read_file(source.path, source.target, reading)
        try:
            return clean(loaded, drop_unlabelled=reading.unlabelled == DROP), {"name": source.name}
        except DataError as error:
            raise DataError(f"{source.path}: {error}") from None
    if not reading.is_default:
        raise UsageError(
            f"--categorical, --numeric, --drop and --task are for files; the columns of {reference} are fixed"
        )
    try:
        manifest = resolve_data(reference, registry, offline=True)[0]
    except DataError:
        if peek_data(reference, registry)[0][1] is not None:
            raise
        raise DataError(
            f"{source.name} is not cached, and show does not download: run `tabbench data fetch {source.name}`"
        ) from None
    kind: TaskName = "regression" if manifest.task == "regression" else "classification"
    loaded = LoadedData(
        read_frame(manifest),
        manifest.target,
        kind,
        manifest.categorical,
        manifest.source,
        manifest.notes,
        licence=manifest.licence,
        citation=manifest.citation,
        homepage=manifest.homepage,
        unlabelled=read_unlabelled(manifest) if manifest.unlabelled is not None else None,
    )
    return loaded, {"name": manifest.name, "key": manifest.key}


def _cached(name: str, registry: Registry) -> list[Manifest]:
    from tabbench.data.sources import peek_data

    found = peek_data(name, registry)
    absent = [each for each, manifest in found if manifest is None]
    if len(absent) == len(found):
        raise DataError(f"{', '.join(absent)} is not cached: run `tabbench data fetch {name}`")
    return [manifest for _, manifest in found if manifest is not None]


def _make_reading(categorical: str, numeric: str, drop: str, task: str, unlabelled: str) -> Reading:
    from tabbench.data.reading import Reading, parse_task

    return Reading(
        categorical=tuple(split_names(categorical)),
        numeric=tuple(split_names(numeric)),
        drop=tuple(split_names(drop)),
        task=parse_task(task),
        unlabelled=unlabelled,
    )


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


def _print_summary(about: JsonObject, columns: list[ColumnSummary]) -> None:
    from tabulate import tabulate

    from tabbench.data.summary import shorten

    print(
        f"{about['name']}: {about['rows']:,} rows, {about['n_numeric']} numeric and {about['n_categorical']} "
        f"categorical features, {about['task']} of {about['target']!r} ({about['source']})"
    )
    shown = columns if len(columns) <= SHOWN_COLUMNS else [*columns[: SHOWN_COLUMNS - 1], columns[-1]]
    rows = [
        (shorten(column.name, LONGEST_NAME), column.kind, f"{column.missing:,}", f"{column.distinct:,}", column.values)
        for column in shown
    ]
    headers = ("column", "kind", "missing", "distinct", "values")
    print(tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=("left", "left", "right", "right")))
    if len(shown) < len(columns):
        print(f"{len(columns) - len(shown)} more features not shown; --json lists all")
    _print_notes(about["notes"])
    for what in ("licence", "citation", "homepage"):
        if about[what]:
            print(f"{what}: {' '.join(str(about[what]).split())}")


def _print_notes(notes: tuple[str, ...] | list[str]) -> None:
    for note in notes:
        print(f"note: {note}")
