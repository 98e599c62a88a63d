"""Results from elsewhere, for tests: copies of a folder with other records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import written_records

from tabbench.results.lines import to_line


def copy_of(folder: Path, target: Path, change: Callable[[dict[str, Any]], object] = lambda record: None) -> Path:
    """The same results, changed record by record."""
    (target / "records").mkdir(parents=True)
    lines = []
    for record in written_records(folder):
        change(record)
        lines.append(to_line(record))
    (target / "records" / "them.jsonl").write_bytes(b"".join(lines))
    return target


def seed_one(record: dict[str, Any]) -> bool:
    return bool(record["seed"] == 1 and record["ssl"] == "projection")


def key_of(folder: Path, **wanted: Any) -> str:
    found = [
        record["key"]
        for record in written_records(folder)
        if all(record.get(name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1
    return str(found[0])
