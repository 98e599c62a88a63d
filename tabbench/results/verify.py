"""Check that a results folder is as it was written: digests of every line, copy and artefact, and no contradictions.

It needs only the folder. A published folder, which has records but no artefacts, can be checked too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from tabbench.results import copy
from tabbench.results.agreement import clashes, read_record
from tabbench.results.artefacts import find_fault
from tabbench.results.files import check_results, open_regular
from tabbench.results.lines import Line
from tabbench.results.merge import record_lines
from tabbench.results.record import COLUMNS, DIGEST_SINCE, BadRecordError, Record


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
    replayable: dict[str, Record] = field(default_factory=dict, repr=False)
    """Finished results by key."""

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


def choose_cells(found: Verified, count: int, seed: int) -> list[Record]:
    """Results to run again, drawn at random: the same seed draws the same ones."""
    drawn = sorted(found.replayable, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())
    return [found.replayable[key] for key in drawn[:count]]


def _check_lines(root: Path, found: Verified) -> None:
    done: dict[str, Line] = {}
    for place, line in record_lines(root, found.findings):
        where = str(Path(place).relative_to(root))
        try:
            value = read_record(line)
        except BadRecordError as error:
            found.findings.append(f"{where}: {error}")
            continue
        found.without_digest += value.get("schema", 1) < DIGEST_SINCE and b'"digest"' not in line
        record = Record.from_json(value)
        found.trials += record.kind == "trial"
        found.results += record.kind != "trial" and record.status == "ok"
        found.failures += record.kind != "trial" and record.status != "ok"
        if not record.is_done:
            continue
        differing = clashes(done[record.key], value) if record.key in done else []
        if differing:
            found.findings.append(f"{where}: {record.key[:10]} contradicts an earlier line in {', '.join(differing)}")
        done[record.key] = value
        if record.kind != "trial":
            found.replayable[record.key] = record


def _check_copy(root: Path, found: Verified) -> None:
    """Check the copy's own digest, and that its rows are those of the lines it was made from."""
    if not (root / copy.NAME).exists() or copy.is_outdated(root):
        return
    opened = copy.open_copy(root)
    if opened is None:
        found.findings.append(f"{copy.NAME}: it is damaged, or lines it was made from are gone")
        return
    rows: list[Line] = []
    for name, size in sorted(opened.included.items()):
        with open_regular(root / "records" / name) as file:
            for line in file.read(size).splitlines():
                try:
                    rows.append(read_record(line))
                except BadRecordError:  # named before
                    continue
    wanted = sorted((row for part in copy.to_arrow(rows) for row in part.to_pylist()), key=_order)
    stored = sorted(opened.read(list(COLUMNS)).to_pylist(), key=_order)
    sound = {row["key"] for row in wanted}
    if wanted != [row for row in stored if row["key"] in sound]:
        found.findings.append(f"{copy.NAME}: its rows are not those of the lines")


def _order(row: Line) -> tuple[str, float, str]:
    return row["key"], row["time"] or 0.0, row["status"]


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
