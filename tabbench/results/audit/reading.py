"""Read the files of a release with care: they may have any size and content.

Numbers stay text, so that the digits that were written can be counted.
"""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabbench.errors import UsageError

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
OTHER_SUFFIXES = (".gz", ".bz2", ".xz", ".zip", ".zst", ".parquet", ".feather", ".xlsx", ".xls")
"""Files that may hold results too, but cannot be read here; of a folder they are named as left out."""
LARGEST = 256 * 2**20
"""Largest file to read, in bytes."""
MOST_FILES = 200_000
LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class Source:
    """A file of a release."""

    path: Path
    name: str
    """The name to show: the path below the given folder."""
    is_record: bool = False
    """Whether the file belongs to a results folder of tabbench."""


class UnreadableError(UsageError):
    """A file that cannot be used. One of many in a folder is left out, with this sentence."""


def find_files(given: Path) -> tuple[list[Source], bool]:
    """The files to read, and whether a folder was searched for them."""
    if not given.is_dir():
        return [Source(given, str(given), _in_results(given))], False
    if _is_results(given):
        return [Source(file, f"records/{file.name}", True) for file in _records(given)], True
    found: list[Source] = []
    for folder, below, names in os.walk(given):
        here = Path(folder)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if _is_results(here):
            found += [Source(file, str(file.relative_to(given)), True) for file in _records(here)]
            below.clear()
            continue
        paths = [here / name for name in sorted(names) if not name.startswith(".")]
        found += [
            Source(path, str(path.relative_to(given)))
            for path in paths
            if path.suffix.lower() in SUFFIXES + OTHER_SUFFIXES
        ]
        if len(found) > MOST_FILES:
            raise UsageError(f"{given}: more than {MOST_FILES:,} files; give a folder with fewer")
    return found, True


def _records(folder: Path) -> list[Path]:
    return sorted((folder / "records").glob("*.jsonl"))


def _is_results(folder: Path) -> bool:
    return (folder / "records").is_dir() and bool(_records(folder))


def _in_results(path: Path) -> bool:
    return path.suffix == ".jsonl" and path.absolute().parent.name == "records"


def read_text(path: Path, name: str) -> str:
    """What a file holds.

    Raises:
        UnreadableError: it is not a file, too large, or not text.
    """
    try:
        # A pipe without a writer must not block us, so open it without waiting and then check it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise UnreadableError(f"{name}: there is no such file or folder") from None
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)  # open() refuses a folder, such as one given as the mapping file
        raise UnreadableError(f"{name}: not a regular file; give a CSV or JSON file, or a folder of them")
    with open(descriptor, "rb") as file:
        content = file.read(LARGEST + 1) if status.st_size <= LARGEST else None
    if content is None or len(content) > LARGEST:
        raise UnreadableError(f"{name}: larger than {LARGEST // 2**20} MB; split it, or keep only the scores")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{name}: not UTF-8 text (byte {error.start:,})") from None


def read_release(source: Source, rows: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of a file with the place where each is; ``rows`` is the path of the list of rows in a JSON file.

    Raises:
        UnreadableError: the file is broken, or not what its name says.
    """
    suffix = source.path.suffix.lower()
    if suffix in OTHER_SUFFIXES and source.path.is_file():
        raise UnreadableError(f"{source.name}: a {suffix} file cannot be read; unpack it, or write it as CSV or JSON")
    text = read_text(source.path, source.name)
    if suffix in LINES:
        yield from _read_lines(source, text)
    elif suffix == ".json" or (suffix not in SUFFIXES and text.lstrip()[:1] in ("{", "[")):
        yield from _read_json(source, text, rows)
    else:
        yield from _read_csv(source, text)


def _read_csv(source: Source, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    header = text.lstrip("\r\n").split("\n", 1)[0]
    separator = max(",;\t|", key=header.count)  # on a tie the comma, which comes first
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
        names = [name.strip() for name in next(reader, [])]
        doubles = sorted({name for name in names if name and names.count(name) > 1})
        if doubles:
            raise UnreadableError(f"{source.name}: several columns are named {doubles[0]!r}")
        for line in reader:
            if len(line) > len(names):
                raise UnreadableError(
                    f"{source.name}: line {reader.line_num} has {len(line)} fields, the header {len(names)}"
                )
            if any(line):
                yield f"{source.name}:{reader.line_num}", dict(zip(names, line, strict=False))
    except csv.Error as error:
        raise UnreadableError(f"{source.name}: not a CSV file ({error})") from None


def parse_json(text: str, name: str) -> Any:
    """A JSON value with its numbers as text; NaN and infinity, which JSON does not have, are None.

    Raises:
        UnreadableError: it is broken.
    """
    try:
        return json.loads(text, parse_float=str, parse_int=str, parse_constant=lambda _: None)
    except RecursionError:
        raise UnreadableError(f"{name}: nested too deeply to be read") from None
    except ValueError as error:
        raise UnreadableError(f"{name}: not JSON ({error})") from None


def _read_lines(source: Source, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if source.is_record and number == len(lines):
            continue  # a run may be writing it at this moment
        value = parse_json(line, f"{source.name}:{number}")
        if not isinstance(value, dict):
            raise UnreadableError(f"{source.name}:{number}: not a JSON object")
        yield f"{source.name}:{number}", value


def _read_json(source: Source, text: str, rows: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    value = parse_json(text, source.name)
    found = look_up(value, rows) if rows else value
    if isinstance(found, dict) and rows:  # {"run 1": {...}, "run 2": {...}}
        items = [(str(key), item) for key, item in found.items()]
    elif isinstance(found, dict):
        items = [("", found)]
    elif isinstance(found, list):
        items = [(str(place), item) for place, item in enumerate(found)]
    else:
        what = f"{rows!r} is not a list of runs" if rows else "neither an object nor a list"
        raise UnreadableError(f"{source.name}: {what}")
    for place, item in items:
        if isinstance(item, dict):
            yield f"{source.name}[{place}]" if place else source.name, item


def look_up(value: Any, path: str) -> Any:
    """The value at a path such as ``config.args[0].lr``; None if there is none. A key may contain dots itself."""
    if type(value) is dict and (path in value or path.isidentifier()):
        return value.get(path)
    for part in path.replace("[", ".[").split("."):
        if part.startswith("[") and part.endswith("]") and isinstance(value, list):
            index = part[1:-1]
            value = value[int(index)] if index.isdecimal() and int(index) < len(value) else None
        elif part:
            value = value.get(part) if isinstance(value, dict) else None
    return value
