"""Open files of a results folder that may be someone else's: only regular files, so that nothing can hang."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tabbench.errors import UsageError

LARGEST_JSON = 256 * 2**20
"""Largest JSON file to read at once, in bytes."""


class NotRegularError(OSError):
    """A pipe, a device, a socket or a folder where a file is expected."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; refuses a device, or a pipe without a writer, before it can block.

    Raises:
        NotRegularError: it is not a regular file.
        OSError: it cannot be opened.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotRegularError(f"{path.name} is not a regular file")
    return path.open("rb")


def read_json(path: Path) -> Any:
    """The JSON in a small file.

    Raises:
        OSError: it is not a regular file, or cannot be read.
        ValueError: it is not JSON, nested too deeply, or too large.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_JSON:
            raise ValueError(f"{path.name} is larger than {LARGEST_JSON // 2**20} MB")
        data = file.read(size + 1)  # not up to the limit: Python would allocate all of that first
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None


def check_results(folder: Path, otherwise: str = "it has no folder 'records'") -> None:
    """Refuse a folder without results; ``otherwise`` says what to do if the folders in it have none either.

    Raises:
        UsageError: there are none.
    """
    if (folder / "records").is_dir():
        return
    inside = sorted(path.parent.name for path in folder.glob("*/records"))
    what = f"give one of the folders in it: {', '.join(inside)}" if inside else otherwise
    raise UsageError(f"no results in {folder}: {what}")


def read_experiments(root: Path) -> Iterator[dict[str, Any]]:
    """The experiments of a results folder, oldest first; skips files that are not experiments."""
    paths = (root / "experiments").glob("*.json")
    for path in sorted(paths, key=lambda path: (path.lstat().st_mtime, path.name)):
        try:
            value = read_json(path)
        except (OSError, ValueError):
            continue
        if isinstance(value, dict):
            yield value
