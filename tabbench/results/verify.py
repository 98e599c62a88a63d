"""Check that a results folder is as it was written: digests of every line, copy and artefact, and no contradictions.

It needs only the folder. A published folder, which has records but no artefacts, can be checked too.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tabbench.results import copy
from tabbench.results.agreement import EVIDENCE, clashes, read_record
from tabbench.results.artefacts import find_fault
from tabbench.results.files import check_results, open_regular
from tabbench.results.lines import Line
from tabbench.results.merge import record_lines
from tabbench.results.record import DIGEST_SINCE, BadRecordError, Record

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Verified:
    """What was checked, and what is wrong."""

    results: int = 0
    trials: int = 0
    failures: int = 0
    without_digest: int = 0
    """Lines of version 0.1.0, which wrote none."""
    artefacts: int = 0
    experiments: int = 0
    findings: list[str] = field(default_factory=list)
    """One line each: where, and what is wrong."""
    replayable: set[str] = field(default_factory=set, repr=False)
    """Keys of finished results."""

    def to_json(self) -> dict[str, object]:
        names = ("results", "trials", "failures", "without_digest", "artefacts", "experiments", "findings")
        return {"ok": not self.findings, **{name: getattr(self, name) for name in names}}


def verify_results(root: Path) -> Verified:
    """Check everything in a results folder. Nothing in it is changed.

    Raises:
        UsageError: it is not a results folder.
    """
    check_results(root)
    found = Verified()
    _check_lines(root, found)
    _check_copy(root, found)
    _check_artefacts(root, found)
    _check_experiments(root, found)
    return found


def choose_cells(root: Path, found: Verified, count: int, seed: int) -> list[Record]:
    """Results to run again, drawn at random: the same seed draws the same ones."""
    drawn = sorted(found.replayable, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())[:count]
    records = (Record.from_json(value) for _, _, value in _sound_lines(root, set(drawn), []))
    last = {record.key: record for record in records if record.is_done}
    return [last[key] for key in drawn]


def _check_lines(root: Path, found: Verified) -> None:
    # A folder may hold a million records, so that digests are kept instead of lines.
    done: dict[str, bytes] = {}
    differing: set[str] = set()
    for _, line, value in _sound_lines(root, None, found.findings):
        record = Record.from_json(value)
        found.without_digest += value.get("schema", 1) < DIGEST_SINCE and b'"digest"' not in line
        found.trials += record.kind == "trial"
        found.results += record.kind != "trial" and record.status == "ok"
        found.failures += record.kind != "trial" and record.status != "ok"
        if not record.is_done:
            continue
        digest = _digest([value.get(name) for name in EVIDENCE["trial" if record.kind == "trial" else "result"]])
        if done.setdefault(record.key, digest) != digest:
            differing.add(record.key)
        if record.kind != "trial":
            found.replayable.add(record.key)
    if differing:
        found.findings += _contradictions(root, differing)


def _contradictions(root: Path, keys: set[str]) -> list[str]:
    """Where a finished record contradicts an earlier one of the same job."""
    found = []
    done: dict[str, Line] = {}
    for where, _, value in _sound_lines(root, keys, []):
        if not Record.from_json(value).is_done:
            continue
        key = value["key"]
        if key in done and (names := clashes(done[key], value)):
            found.append(f"{where}: {key[:10]} contradicts an earlier line in {', '.join(names)}")
        done[key] = value
    return found


def _sound_lines(root: Path, keys: set[str] | None, findings: list[str]) -> Iterator[tuple[str, bytes, Line]]:
    """The records of a folder, or those with the given keys: where each is, its line, and what it says. Lines that are
    not records are named."""
    for place, line in record_lines(root, findings):
        where = str(Path(place).relative_to(root))
        try:
            value = read_record(line)
        except BadRecordError as error:
            findings.append(f"{where}: {error}")
            continue
        if keys is None or value["key"] in keys:
            yield where, line, value


def _digest(value: object) -> bytes:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()


def _check_copy(root: Path, found: Verified) -> None:
    """Check the copy's own digest, and that its rows are those of the lines it was made from."""
    if not (root / copy.NAME).exists() or copy.is_outdated(root):
        return
    opened = copy.open_copy(root)
    if opened is None:
        found.findings.append(f"{copy.NAME}: it is damaged, or lines it was made from are gone")
        return
    wanted = Counter(_rows(copy.to_arrow(_included(root, opened))))
    sound = {key for key, _ in wanted}
    stored = Counter(row for row in _rows(opened.parts()) if row[0] in sound)
    if wanted != stored:
        found.findings.append(f"{copy.NAME}: its rows are not those of the lines")


def _included(root: Path, opened: copy.Copy) -> Iterator[Line]:
    """The records that should be in a copy."""
    for name, size in sorted(opened.included.items()):
        with open_regular(root / "records" / name) as file:
            while line := file.readline(max(0, size - file.tell())):  # none if the file was cut off meanwhile
                try:
                    yield read_record(line.rstrip(b"\n"))
                except BadRecordError:  # named before
                    continue


def _rows(parts: Iterable[pa.Table]) -> Iterator[tuple[str, bytes]]:
    """Key and digest of each row."""
    for part in parts:
        for start in range(0, part.num_rows, copy.CHUNK):
            for row in part.slice(start, copy.CHUNK).to_pylist():
                yield row["key"], _digest(row)


def _check_artefacts(root: Path, found: Verified) -> None:
    for path in sorted((root / "artefacts").glob("*/*")):
        if path.name.startswith("."):  # drafts, and what was set aside
            continue
        found.artefacts += 1
        fault = find_fault(path)
        if fault:
            found.findings.append(f"{path.relative_to(root)}: it {fault}")


def _check_experiments(root: Path, found: Verified) -> None:
    """Check that each experiment's name is the hash of its text."""
    for path in sorted((root / "experiments").glob("*.json")):
        found.experiments += 1
        try:
            with open_regular(path) as file:
                digest = hashlib.sha256(file.read().removesuffix(b"\n")).hexdigest()
        except OSError as error:
            found.findings.append(f"{path.relative_to(root)}: {error.strerror or error}")
            continue
        if digest[: len(path.stem)] != path.stem:
            found.findings.append(f"{path.relative_to(root)}: it is damaged: its name is not the hash of its content")
