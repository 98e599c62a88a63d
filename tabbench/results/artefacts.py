"""Encoders and representations by key: complete or absent, each with a digest of every file.

results/artefacts/KIND/KEY/digests.json   sha256 of the other files of the folder
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tabbench.errors import ArtefactError
from tabbench.results.files import read_json

DIGESTS = "digests.json"
_CHECKED: dict[str, tuple[tuple[str, int, int, int], ...]] = {}
"""Folders checked by this process, with file details that show whether a file has changed since."""


def is_complete(folder: Path) -> bool:
    """Whether an artefact is stored; artefacts without digests, from version 0.1.0, do not count."""
    return (folder / DIGESTS).is_file()


def has_all_files(folder: Path) -> bool:
    """Whether every stored file is visible: on a slow file system, a folder appears before its files."""
    try:
        names = read_json(folder / DIGESTS)
    except (OSError, ValueError):
        return False
    return all((folder / name).is_file() for name in names)


@contextmanager
def write_folder(final: Path) -> Iterator[Path]:
    """A folder to fill. It gets its final name and digests only when the block ends without an error."""
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = final.with_name(f".{final.name}-{secrets.token_hex(4)}")
    draft.mkdir()
    try:
        yield draft
        digests = {path.relative_to(draft).as_posix(): digest_of(path) for path in files_of(draft)}
        (draft / DIGESTS).write_text(json.dumps(digests, indent=1, sort_keys=True), encoding="utf-8")
        for path in files_of(draft):
            sync(path)
        if final.exists() and not is_complete(final):
            set_aside(final)
        try:
            draft.rename(final)
        except OSError:
            if not is_complete(final):  # otherwise another process finished the same work in between
                raise
        sync(final.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def open_folder(folder: Path) -> Path:
    """Return the folder of an artefact after checking every byte.

    Raises:
        ArtefactError: it is damaged. It has been set aside, so that it will be made again.
    """
    marks = tuple(_mark(path) for path in files_of(folder))
    if _CHECKED.get(str(folder)) == marks and marks:
        return folder
    what = f"{folder.parent.name} {folder.name[:10]}"
    fault = find_fault(folder)
    if fault and folder.is_dir():
        set_aside(folder)
        raise ArtefactError(f"{what} {fault}; it was set aside and will be computed again")
    if fault:
        raise ArtefactError(f"{what} is gone; it will be computed again")
    _CHECKED[str(folder)] = marks
    return folder


def find_fault(folder: Path) -> str:
    """What is wrong with an artefact; empty if nothing."""
    try:
        digests = dict(read_json(folder / DIGESTS))
    except (OSError, ValueError, TypeError):
        return "has no digests"
    odd = [path.name for path in folder.rglob("*") if path.is_symlink() or not (path.is_dir() or path.is_file())]
    if odd:
        return f"holds {odd[0]}, which is not a regular file"
    found = {path.relative_to(folder).as_posix(): path for path in files_of(folder) if path.name != DIGESTS}
    if set(found) != set(digests):
        return "does not have the files it was stored with"
    damaged = [name for name, path in found.items() if digest_of(path) != digests[name]]
    return f"is damaged ({', '.join(damaged)})" if damaged else ""


def set_aside(folder: Path) -> None:
    """Rename an unusable folder, so that it can be examined but is never used again."""
    folder.rename(folder.with_name(f".damaged-{folder.name}-{secrets.token_hex(4)}"))


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    if path.is_dir() and os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mark(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns
