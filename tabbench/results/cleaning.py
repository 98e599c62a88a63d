"""What can be removed from a results folder: drafts of dead writers, scratch, artefacts that no record needs."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tabbench.results.drivers import Driver, read_drivers
from tabbench.results.files import read_json
from tabbench.results.store import Store

Kind = Literal["draft", "scratch", "artefact"]
DRAFTS = (
    ".records-*", ".replay-*", "records/.*", "experiments/.*", "drivers/.*", "studies/.*", "artefacts/*/.*",
    "inspections/.*",
)  # fmt: skip
"""Incomplete files and folders start with a dot; so do damaged ones that were set aside."""
LONG_AGO = 86400.0
"""Seconds after which a draft counts as abandoned, even if other machines are running."""


@dataclass(frozen=True)
class Waste:
    """A file or folder that is no longer needed."""

    kind: Kind
    path: Path
    size: int
    """Bytes."""


def find_waste(store: Store) -> list[Waste]:
    """Everything that ``tabbench results clean`` removes."""
    found = [Waste("draft", path, _size(path)) for path in find_drafts(store.root)]
    scratch = store.root / "scratch"
    found += [Waste("scratch", path, _size(path)) for path in sorted(scratch.iterdir() if scratch.is_dir() else ())]
    found += [Waste("artefact", path, _size(path)) for path in _unneeded(store)]
    return found


def remove_waste(found: Iterable[Waste]) -> int:
    """Remove what was found; returns the number of bytes freed."""
    freed = 0
    for waste in found:
        _remove(waste.path)
        freed += 0 if waste.path.exists() else waste.size
    return freed


def at_work(root: Path) -> list[Driver]:
    """Drivers that are running in a folder, or may be on other machines."""
    return [driver for driver in read_drivers(root) if _may_work(driver)]


def sweep_drafts(root: Path, own: str) -> None:
    """Remove drafts left by dead drivers; ``own`` is the id of the calling driver.

    While others are running, only old drafts are removed. The age of a draft is measured against our own heartbeat,
    because both have the clock of the same file system.
    """
    try:
        start = (root / "drivers" / f"{own}.json").stat().st_mtime
    except OSError:
        return
    others = [driver for driver in at_work(root) if driver.id != own]
    limit = start - LONG_AGO if others else start
    for path in find_drafts(root):
        with contextlib.suppress(OSError):
            if not path.name.startswith(".damaged-") and _newest(path) < limit:
                _remove(path)


def find_drafts(root: Path) -> Iterator[Path]:
    """What writers started but did not finish, and what was set aside."""
    for pattern in DRAFTS:
        yield from sorted(root.glob(pattern))


def _may_work(driver: Driver) -> bool:
    if driver.ended:
        return False
    if driver.is_alive():
        return True
    return driver.remote and time.time() - driver.time < LONG_AGO


def _unneeded(store: Store) -> Iterator[Path]:
    """Encoders and representations whose hash is in no finished result."""
    results = [record.hashes for record in store.records() if record.kind == "result" and record.is_done]
    needed = {digest for hashes in results if hashes for digest in (hashes.encoder, hashes.representation) if digest}
    for path in sorted((store.root / "artefacts").glob("*/*")):
        if path.name.startswith("."):
            continue
        try:
            about = read_json(path / "step.json")
            made = {about.get("encoder")} if path.parent.name == "pretrain" else {about.get("representation")}
        except (OSError, ValueError, AttributeError):
            made = set()
        if made.isdisjoint(needed):
            yield path


def _size(path: Path) -> int:
    each = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    total = 0
    for file in each:
        with contextlib.suppress(OSError):
            status = file.lstat()
            total += 0 if file.is_dir() else status.st_size
    return total


def _newest(path: Path) -> float:
    inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
    return max(float(file.lstat().st_mtime) for file in (path, *inside))


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # Rename it first: a process about to rename it into place then finds nothing, not half of it.
    aside = path.with_name(f".swept-{secrets.token_hex(4)}")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
