"""What the columns or JSON paths of a release mean."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabbench.errors import UsageError, did_you_mean
from tabbench.results.audit.reading import look_up, read_text

NAMES = ("dataset", "method", "model", "setting", "split", "seed", "metric")
"""Entries that hold text."""
NUMBERS = ("validation", "test", "std", "runs", "n_test", "n_rows", "test_share", "rank", "average_rank")
FIELDS = (*NAMES, *NUMBERS)
USUAL: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in FIELDS},
    "dataset": ("dataset", "data"),
    "method": ("method", "ssl"),
    "split": ("split", "fold"),
    "validation": ("validation", "val"),
    "test": ("test", "mean", "score"),
    "runs": ("runs", "n"),
}
"""Columns that need no mapping, by what they hold; the first one present counts."""
USUAL_SETTINGS = ("setting", "table", "protocol", "labels", "variant", "uses_labels")
"""Columns that together are the setting."""
RECORD: Mapping[str, tuple[str, ...]] = {
    "dataset": ("data",),
    "method": ("ssl",),
    "model": ("model",),
    "split": ("split",),
    "seed": ("seed",),
    "validation": ("validation",),
    "test": ("test",),
    "n_test": ("counts.test",),
}
"""Where a record of tabbench has these entries."""
RECORD_SETTINGS = ("fidelity", "variant", "protocol", "labels", "ssl_trials", "trials", "data_key")


@dataclass(frozen=True)
class ColumnMap:
    """Where the entries of a run are found."""

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: USUAL)
    """For each entry, the columns or paths that may hold it."""
    settings: tuple[str, ...] = USUAL_SETTINGS
    constants: Mapping[str, str] = field(default_factory=dict)
    """Entries that are the same for all runs."""
    rows: str = ""
    """JSON files: path of the list of runs."""
    path: re.Pattern[str] | None = None
    """Entries that are part of a file's name or folder."""
    any_case: bool = True
    """Whether ``Dataset`` also matches ``dataset``."""
    explicit: tuple[str, ...] = ()
    """Entries that the mapping file locates: some row must have each of them."""

    def find(self, row: Mapping[str, Any], entry: str) -> Any:
        """What a row says about an entry; None if it says nothing."""
        for place in self.columns.get(entry, ()):
            value = look_up(row, place)
            if value is not None and value != "":
                return value
        return None


RECORDS = ColumnMap(RECORD, RECORD_SETTINGS)


def read_mapping(path: Path) -> ColumnMap:
    """Read a mapping file (TOML).

    Raises:
        UsageError: it cannot be read, or one of its entries is unknown or of the wrong type.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; the mapping is a TOML file")
    try:
        given = tomllib.loads(read_text(path, str(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a TOML file: {error}") from None
    try:
        return _make_mapping(given)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _make_mapping(given: Mapping[str, Any]) -> ColumnMap:
    _refuse_unknown("entry", given, ("rows", "path", "columns", "constants"))
    columns, constants = (_table(given, name) for name in ("columns", "constants"))
    places = {}
    for entry, value in columns.items():
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(isinstance(place, str) and place for place in listed):
            raise UsageError(f'columns.{entry} = {value!r}: write the name of a column, such as {entry} = "name"')
        places[entry] = tuple(listed)
    for entry, value in constants.items():
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise UsageError(f"constants.{entry} = {value!r}: write a name or a number")
    for name in ("rows", "path"):
        if not isinstance(given.get(name, ""), str):
            raise UsageError(f"{name} = {given[name]!r}: write it as text")
    settings = places.pop("setting", USUAL_SETTINGS)
    return ColumnMap(
        {**USUAL, **places},
        settings,
        {entry: str(value) for entry, value in constants.items()},
        given.get("rows", ""),
        _compile(given["path"]) if given.get("path") else None,
        any_case=False,
        explicit=tuple(places),
    )


def _table(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = given.get(name, {})
    if not isinstance(table, Mapping):
        raise UsageError(f"{name} = {table!r}: write [{name}] and below it ENTRY = VALUE")
    _refuse_unknown(f"entry of [{name}]", table, FIELDS)
    return table


def _refuse_unknown(what: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"Unknown {what} {name!r}.{did_you_mean(name, known)}")


def _compile(pattern: str) -> re.Pattern[str]:
    """``{dataset}/{model}/run_{seed}.json`` as an expression for the end of a file's path; ``*`` is any text."""
    parts = re.split(r"(\{\w*\}|\*)", pattern)
    names = [part[1:-1] for part in parts if part.startswith("{")]
    _refuse_unknown("entry of path", dict.fromkeys(names), NAMES)
    if len(set(names)) < len(names):
        raise UsageError(f"path = {pattern!r}: an entry appears twice")
    written = [
        f"(?P<{part[1:-1]}>[^/]+?)" if part.startswith("{") else "[^/]*" if part == "*" else re.escape(part)
        for part in parts
    ]
    return re.compile(rf"(?:.*/)?{''.join(written)}")


def name_entries(mapping: ColumnMap, path: Path) -> dict[str, str]:
    """What the name of a file says about its runs."""
    found = mapping.path.fullmatch(path.as_posix()) if mapping.path is not None else None
    return dict(found.groupdict()) if found is not None else {}
