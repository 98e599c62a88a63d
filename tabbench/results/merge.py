"""Merge result folders by content, and report what cannot be merged.

A record is known by its key, the hash of everything that determines the result, and carries evidence: all scores, and
hashes of data, split, encoder and predictions. Two records with the same key must have the same evidence. If they do
not, someone's machine, data or code is not what it claims, and neither record is merged.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import attrgetter
from pathlib import Path

from tabbench.errors import UsageError
from tabbench.results.agreement import clashes, read_record
from tabbench.results.files import check_results, open_regular, read_json
from tabbench.results.lines import Line, to_line
from tabbench.results.record import BadRecordError, Record
from tabbench.results.store import Store
from tabbench.values import JsonObject


@dataclass(frozen=True)
class Found:
    """A record and the folder it comes from."""

    folder: Path
    record: Line

    @property
    def key(self) -> str:
        key: str = self.record["key"]
        return key

    @property
    def is_done(self) -> bool:
        """Whether it is a complete result or a finished trial; anything else yields to either."""
        return Record.from_json(self.record).is_done

    @property
    def written(self) -> float:
        """When, in seconds since 1970."""
        return float(self.record.get("time") or 0.0)

    def __str__(self) -> str:
        record = self.record
        what, number = ("trial", "number") if record.get("kind") == "trial" else ("seed", "seed")
        which = "" if record.get(number) is None else f" {what} {record[number]}"
        place = f"{record.get('data')}/{record.get('split')}"
        return f"{self.key[:10]} ({place} {record.get('ssl')} + {record.get('model')}{which})"


@dataclass
class Merged:
    """What a merge did."""

    added: dict[Path, int] = field(default_factory=dict)
    """Number of new records by source folder."""
    same: int = 0
    """Records that were already there, with the same evidence."""
    flagged: int = 0
    """New flagged records, which tables leave out."""
    failed: int = 0
    """New records of jobs that failed everywhere."""
    refused: list[str] = field(default_factory=list)
    """What was not merged, and why."""


def merge_results(folders: Sequence[Path], store: Store, *, curves: bool = True) -> Merged:
    """Merge the records and experiments of ``folders``; artefacts stay where they are.

    Without ``curves``, new records lose what their diagnostics say of each epoch, about a third of their size.
    """
    for folder in folders:
        if folder.absolute() == store.root:
            raise UsageError(f"{folder} is the folder to merge into: give other folders")
        check_results(folder)
    merged = Merged(added=dict.fromkeys(folders, 0))
    ours = {found.key: found for found in read_records(store.root, [])}
    theirs: dict[str, list[Found]] = {}
    for folder in folders:
        for found in read_records(folder, merged.refused):
            theirs.setdefault(found.key, []).append(found)
    taken = []
    for key, candidates in theirs.items():
        chosen = _choose(ours.get(key), candidates, merged)
        if chosen is not None:
            taken.append(chosen)
            merged.added[chosen.folder] += 1
            merged.failed += not chosen.is_done
            merged.flagged += bool(chosen.record.get("flags"))
    _write(store, [found.record if curves else _without_curves(found.record) for found in taken])
    for folder in folders:
        _take_experiments(folder, store, merged.refused)
    return merged


def read_records(folder: Path, refused: list[str]) -> Iterator[Found]:
    """One valid record per key: a finished one before a failure, then the latest. Others are named."""
    best: dict[str, Found] = {}
    contradicted: set[str] = set()
    for place, line in record_lines(folder, refused):
        try:
            found = Found(folder, read_record(line))
        except BadRecordError as error:
            refused.append(f"{place}: {error}")
            continue
        before = best.get(found.key)
        if before is not None and before.is_done and found.is_done:
            differing = clashes(before.record, found.record)
            if differing and found.key not in contradicted:
                contradicted.add(found.key)
                refused.append(f"{place}: {found}: the folder contradicts itself in {', '.join(differing)}")
        if before is None or found.is_done or not before.is_done:
            best[found.key] = found
    yield from (found for key, found in best.items() if key not in contradicted)


def record_lines(folder: Path, refused: list[str]) -> Iterator[tuple[str, bytes]]:
    """The lines of all writers with their places. Links, and anything else that is not a file, are named."""
    for path in sorted((folder / "records").glob("*.jsonl")):
        try:
            if path.is_symlink():
                raise OSError("it is a link")
            with open_regular(path) as file:
                for number, line in enumerate(file, start=1):
                    yield f"{path}:{number}", line.rstrip(b"\n")
        except OSError as error:
            refused.append(f"{path}: {error.strerror or error}")


def _choose(ours: Found | None, candidates: list[Found], merged: Merged) -> Found | None:
    """The record to merge for a key; None if there is nothing new or nothing trustworthy."""
    done = sorted((found for found in candidates if found.is_done), key=attrgetter("written"))
    known = [ours] if ours is not None and ours.is_done else []
    if any(clashes(one.record, other.record) for one, other in combinations([*known, *done], 2)):
        merged.refused.append(_disagreement(known, done))
        return None
    if known or (ours is not None and not done):
        again = [found for found in done if known and _is_retold(known[0], found)]
        merged.same += len(candidates) - bool(again)
        return again[-1] if again else None
    merged.same += len(done or candidates) - 1
    return (done or candidates)[-1]


def _is_retold(ours: Found, other: Found) -> bool:
    """Whether a record was written again because its model has had no seeds since, or has had some since."""
    return ours.record.get("seed") != other.record.get("seed") and other.written > ours.written


def _disagreement(known: list[Found], done: list[Found]) -> str:
    every = [*known, *done]
    differing = {name: None for one, other in combinations(every, 2) for name in clashes(one.record, other.record)}
    parts = [f"{found.folder}: {_result(found.record)}" for found in every]
    kept = f"kept that of {known[0].folder}" if known else "kept none of them"
    what = ", ".join(differing)
    made = [environment for found in every if (environment := Record.from_json(found.record).environment)]
    alike = all(one.may_round_as(other) for one, other in combinations(made, 2))
    why = "" if alike else "; they were made on different processors, which round differently"
    return f"{done[0]}: same job, different evidence ({what}); {kept}: {'; '.join(parts)}{why}"


def _result(record: Line) -> str:
    if record.get("kind") == "trial":
        return f"trial with value {record.get('value')}"
    return f"score {record['score']}, predictions {record['hashes']['predictions'][:10]}"


def _without_curves(record: Line) -> Line:
    diagnostics = record.get("diagnostics")
    return {**record, "diagnostics": _without_lists(diagnostics)} if isinstance(diagnostics, dict) else record


def _without_lists(value: JsonObject) -> JsonObject:
    kept = {name: each for name, each in value.items() if not isinstance(each, list)}
    return {name: _without_lists(each) if isinstance(each, dict) else each for name, each in kept.items()}


def _write(store: Store, records: list[Line]) -> None:
    """All records at once, in a file that is there complete or not at all; their times stay what they were."""
    if not records:
        return
    data = b"".join(map(to_line, records))
    folder = store.folder("records")
    digest = hashlib.sha256(data).hexdigest()[:12]
    draft = folder / f".{secrets.token_hex(4)}"
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, folder / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-merged-{digest}.jsonl")
    store.compact()


def _take_experiments(folder: Path, store: Store, refused: list[str]) -> None:
    for path in sorted((folder / "experiments").glob("*.json")):
        try:
            value = None if path.is_symlink() else read_json(path)
        except (OSError, ValueError) as error:
            refused.append(f"{path}: {error}")
            continue
        if isinstance(value, dict):
            store.save_experiment(value)
        else:
            refused.append(f"{path}: it is not an experiment")
