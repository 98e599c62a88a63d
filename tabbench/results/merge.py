"""Results from elsewhere: join folders of records by content, and say what cannot be joined.

A record is known by its key, the hash of everything that determines the result, and carries evidence, the hash of its
predictions. Two records with the same key must have the same evidence; where they have not, somebody's machine, data or
code is not what it says, and neither of them is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabbench.errors import UsageError
from tabbench.results.record import SCHEMA_VERSION, Record
from tabbench.results.store import Store


@dataclass(frozen=True)
class Found:
    """A record and the folder it is from."""

    folder: Path
    record: dict[str, Any]

    @property
    def key(self) -> str:
        key: str = self.record["key"]
        return key

    @property
    def is_done(self) -> bool:
        """Whether it is a whole result or the end of a trial; anything else gives way to either."""
        return Record.from_json(self.record).is_done

    @property
    def evidence(self) -> str:
        """What equal jobs must agree in: the predictions, or what a tuning trial found."""
        record = self.record
        if record.get("kind") == "trial":
            return json.dumps([record["status"], record.get("value"), record.get("config")], sort_keys=True)
        return str(record["hashes"]["predictions"])

    def __str__(self) -> str:
        record = self.record
        number = f"trial {record.get('number')}" if record.get("kind") == "trial" else f"seed {record.get('seed')}"
        place = f"{record.get('data')}/{record.get('split')}"
        return f"{self.key[:10]} ({place} {record.get('ssl')} + {record.get('model')} {number})"


@dataclass
class Merged:
    """What a merge did."""

    added: dict[Path, int] = field(default_factory=dict)
    """New records by the folder they are from."""
    same: int = 0
    """Records that were there already, with the same evidence."""
    flagged: int = 0
    """New records that tables leave out, as they did where they are from."""
    failed: int = 0
    """New records of jobs that failed and succeeded nowhere."""
    refused: list[str] = field(default_factory=list)
    """What was not taken, and why."""


def merge_results(folders: Sequence[Path], store: Store) -> Merged:
    """Take over the records and experiments of ``folders``; artefacts stay where they are."""
    for folder in folders:
        if folder.absolute() == store.root:
            raise UsageError(f"{folder} is the folder that others are merged into")
        if not (folder / "records").is_dir():
            raise UsageError(f"{folder} is no results folder: it has no folder 'records'")
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
    _write(store, [found.record for found in taken])
    for folder in folders:
        _take_experiments(folder, store, merged.refused)
    return merged


def read_records(folder: Path, refused: list[str]) -> Iterator[Found]:
    """The sound records of a folder, the last failure of a key after its successes left out; others are named."""
    best: dict[str, Found] = {}
    for path in sorted((folder / "records").glob("*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            record = _parse(line)
            fault = record if isinstance(record, str) else _fault(record)
            if fault:
                refused.append(f"{path}:{number}: {fault}")
                continue
            assert isinstance(record, dict)
            found = Found(folder, record)
            before = best.get(found.key)
            if before is None or found.is_done or not before.is_done:
                best[found.key] = found
    yield from best.values()


def _parse(line: bytes) -> dict[str, Any] | str:
    try:
        record = json.loads(line)
    except ValueError:
        return "the line is no JSON, or incomplete"
    return record if isinstance(record, dict) else "the line is no record"


def _fault(record: dict[str, Any]) -> str:
    """Why a record cannot be taken; empty if it can."""
    if not isinstance(record.get("key"), str) or not isinstance(record.get("status"), str):
        return "the record has no key or no status"
    if record.get("schema", 0) > SCHEMA_VERSION:
        return f"the record was written by a newer tabbench (schema {record['schema']})"
    if record["status"] == "ok" and record.get("kind") != "trial":
        hashes = record.get("hashes")
        if not isinstance(hashes, dict) or not hashes.get("predictions") or record.get("score") is None:
            return "the record has no evidence: no score, or no hash of its predictions"
    return ""


def _choose(ours: Found | None, candidates: list[Found], merged: Merged) -> Found | None:
    """The record to take for a key; None if there is nothing new, or nothing that can be believed."""
    done = [found for found in candidates if found.is_done]
    known = [ours] if ours is not None and ours.is_done else []
    evidence = {found.evidence for found in (*known, *done)}
    if len(evidence) > 1:
        merged.refused.append(_disagreement(known, done))
        return None
    if known or (ours is not None and not done):
        merged.same += len(candidates)
        return None
    merged.same += len(done or candidates) - 1
    return (done or candidates)[-1]


def _disagreement(known: list[Found], done: list[Found]) -> str:
    parts = [f"{found.folder}: {_result(found.record)}" for found in (*known, *done)]
    kept = f"that of {known[0].folder} stays" if known else "none of them is taken"
    return f"{done[0]}: same job, different evidence; {kept}: {'; '.join(parts)}"


def _result(record: dict[str, Any]) -> str:
    if record.get("kind") == "trial":
        return f"trial with value {record.get('value')}"
    return f"score {record['score']}, predictions {record['hashes']['predictions'][:10]}"


def _write(store: Store, records: list[dict[str, Any]]) -> None:
    """All records at once, in a file that is there complete or not at all; their times stay what they were."""
    if not records:
        return
    text = "".join(json.dumps(record) + "\n" for record in records)
    folder = store.folder("records")
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    draft = folder / f".{secrets.token_hex(4)}"
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, folder / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-merged-{digest}.jsonl")
    store.compact()


def _take_experiments(folder: Path, store: Store, refused: list[str]) -> None:
    for path in sorted((folder / "experiments").glob("*.json")):
        try:
            store.save_experiment(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            refused.append(f"{path}: no JSON")
