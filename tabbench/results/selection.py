"""Choose the records that a table compares: one per place, of one fidelity and tuning budget. Others are named."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, cast

from tabbench.contracts.split_rule import DEFAULT_RULE
from tabbench.errors import UsageError, did_you_mean
from tabbench.experiment.controls import NONE, UNTRAINED
from tabbench.results.json_shapes import LeftOut, RecordLine
from tabbench.results.record import DEFAULTS
from tabbench.results.store import Store

FIDELITIES = ("paper", "standard", "quick")
RAW, FROZEN = "raw", "frozen"
ALL_LABELS = "100%"
SPLIT_RULE = DEFAULT_RULE
COLUMNS = [
    "key", "kind", "status", "time", "ssl", "model", "variant", "uses_labels", "data", "data_key", "split", "seed",
    "fidelity", "trials", "ssl_trials", "metric", "score", "flags", "error", "test", "seconds", "counts", "notes",
    "protocol", "labels", "validation_labels", "split_rule", "main_metric", "weights", "tuning",
]  # fmt: skip


@dataclass(frozen=True)
class Filters:
    """Names to show; an empty tuple shows all."""

    data: tuple[str, ...] = ()
    ssl: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    protocol: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def keep(self, record: Mapping[str, object]) -> bool:
        """Whether to show a record. Raw rows belong to every protocol."""
        return all(
            not wanted or record[name] in wanted or (name == "protocol" and record[name] == RAW)
            for name, wanted in self._items()
        )

    def keep_pair(self, pair: Mapping[str, object]) -> bool:
        """Whether to name a skipped pair; fields it does not have always match."""
        return all(not wanted or name not in pair or pair[name] in wanted for name, wanted in self._items())

    def matched(self, records: Iterable[Mapping[str, object]]) -> Filters:
        """The same filters, spelled as in the records.

        Case does not matter, and ``untrained`` stands for the untrained control of every method.

        Raises:
            UsageError: no record has a requested name.
        """
        records = list(records)
        found = {}
        for name, wanted in self._items():
            present = {str(record[name]) for record in records}
            found[name] = tuple(match for word in wanted for match in _match(name, word, present))
        return Filters(**found)

    def _items(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self)]


def _match(name: str, word: str, present: set[str]) -> list[str]:
    lowered = word.lower()
    found = sorted(
        each
        for each in present
        if each.lower() == lowered or (name == "ssl" and lowered == UNTRAINED and each.startswith(f"{UNTRAINED}:"))
    )
    if not found:
        raise UsageError(f"--{name} {word}: no record has it.{did_you_mean(word, present)}")
    return found


@dataclass(frozen=True)
class Selection:
    """The records to compare."""

    records: list[RecordLine]
    fidelity: str | None
    left_out: list[LeftOut]
    incomplete: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    """How many records failed or are flagged, by row (see :func:`row_of`) and dataset."""

    def data_notes(self) -> dict[str, list[str]]:
        """The records' notes on each dataset and its splits, each note once."""
        texts: dict[str, dict[str, None]] = {}
        for record in self.records:
            if record["notes"] not in (None, "[]"):
                texts.setdefault(record["data"], {}).setdefault(record["notes"])
        found: dict[str, list[str]] = {}
        for name, lists in sorted(texts.items()):
            notes = (str(note) for text in lists for note in json.loads(text))
            found[name] = list(dict.fromkeys(notes))
        return found


def select_records(
    store: Store,
    *,
    fidelity: str | None = None,
    any_budget: bool = False,
    only: Collection[str] | None = None,
    names: Mapping[str, str] | None = None,
    where: Filters | None = None,
) -> Selection:
    """Read a results folder and choose what can be compared; arguments as in ``tabulate``."""
    wanted = None if only is None else set(only)
    records = [
        record
        for record in read_lines(store, COLUMNS)
        if record["kind"] != "trial" and (wanted is None or record["key"] in wanted)
    ]
    return select_from(
        records, fidelity=fidelity, any_budget=any_budget, names=names, where=where, skipped=store.skipped()
    )


def select_from(
    records: Iterable[RecordLine],
    *,
    fidelity: str | None = None,
    any_budget: bool = False,
    names: Mapping[str, str] | None = None,
    where: Filters | None = None,
    skipped: Iterable[LeftOut] = (),
) -> Selection:
    """Choose what can be compared among records already read; ``skipped`` as in ``Store.skipped``."""
    records = _newest(records)
    for record in records:
        record["data"] = (names or {}).get(record["data_key"], record["data"])
    if where is not None:
        where = where.matched(records)
        records = [record for record in records if where.keep(record)]
    present = sorted({record["fidelity"] for record in records}, key=fidelity_order)
    if fidelity is not None and fidelity not in present:
        raise UsageError(f"No records of fidelity {fidelity!r}.{did_you_mean(fidelity, present)}")
    chosen = fidelity if fidelity is not None else (present[0] if present else None)
    candidates = [record for record in records if record["fidelity"] == chosen]
    budget = None if any_budget else max((budget_of(record) for record in candidates), default=(0, 0))
    data_keys = {record["data"]: record["data_key"] for record in sorted(candidates, key=lambda record: record["time"])}
    selection = Selection([], chosen, [])
    others: Counter[str] = Counter()
    for record in records:
        other = _other_table(record, chosen, budget, data_keys)
        reason = _reason_to_leave_out(record)
        if other:
            others[other] += 1
        elif reason:
            selection.left_out.append(_left_out(record, reason))
            selection.incomplete[*row_of(record), record["data"]] += 1
        else:
            selection.records.append(record)
    selection.left_out.extend({"reason": reason, "records": count} for reason, count in others.items())
    selection.left_out.extend(pair for pair in skipped if where is None or where.keep_pair(pair))
    return selection


def _left_out(record: RecordLine, reason: str) -> LeftOut:
    return {
        "reason": reason,
        "key": record["key"],
        "ssl": record["ssl"],
        "model": record["model"],
        "data": record["data"],
        "protocol": record["protocol"],
        "labels": record["labels"],
        "split": record["split"],
        "seed": record["seed"],
    }


row_of = itemgetter(
    "ssl", "model", "variant", "ssl_trials", "trials", "protocol", "labels", "split_rule", "main_metric", "weights",
    "uses_labels",
)  # fmt: skip
"""What makes a row of the table."""
_place_of = itemgetter(
    "ssl", "model", "variant", "data", "data_key", "split", "seed", "fidelity", "trials", "ssl_trials", "protocol",
    "labels", "split_rule", "main_metric", "weights",
)  # fmt: skip


def read_lines(store: Store, columns: list[str]) -> list[RecordLine]:
    """All records of a folder, trials too; objects and lists are JSON texts."""
    table = store.read_table(columns)
    values = [_values(table.column(name), DEFAULTS.get(name)) for name in columns]
    lines = (dict(zip(columns, line, strict=True)) for line in zip(*values, strict=True))
    return [_with_defaults(cast("RecordLine", line)) for line in lines]


def _with_defaults(record: RecordLine) -> RecordLine:
    """Fill in fields that older records lack, with what was the only way then."""
    record["protocol"] = record["protocol"] or (RAW if record["ssl"] == NONE else FROZEN)
    record["labels"] = record["labels"] or ALL_LABELS
    record["split_rule"] = record["split_rule"] or SPLIT_RULE
    if record["validation_labels"] == "all" and record["labels"] != ALL_LABELS:
        record["split_rule"] += ", all validation labels"  # another question, so never ranked with the usual one
    for name in ("main_metric", "variant", "weights"):
        record[name] = record[name] or ""
    record["trials"], record["ssl_trials"] = record["trials"] or 0, record["ssl_trials"] or 0
    record["uses_labels"] = bool(record["uses_labels"])
    return record


def _values(column: Any, default: Any) -> list[Any]:
    """A column's values. Equal texts are one object, which is faster to make, hash and compare."""
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return list((column if default is None else column.fill_null(default)).to_pylist())
    encoded = column.combine_chunks().dictionary_encode()
    words = [*encoded.dictionary.to_pylist(), default]
    return [words[code] for code in encoded.indices.fill_null(-1).to_pylist()]


def _newest(records: Iterable[RecordLine]) -> list[RecordLine]:
    """One record for each place in the table: a finished one before a failed one, then the latest."""
    best: dict[tuple[Any, ...], RecordLine] = {}
    for record in records:
        place = _place_of(record)
        other = best.get(place)
        if other is None or _newness(record) >= _newness(other):
            best[place] = record
    return list(best.values())


def _newness(record: RecordLine) -> tuple[bool, float]:
    return record["status"] == "ok", record["time"]


def budget_of(record: RecordLine) -> tuple[int, int]:
    """Trials for the SSL side and for the model."""
    return record["ssl_trials"], record["trials"]


def tuned_parts(record: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the SSL side and the model had something to tune; assumed if a record does not say."""
    if record["tuning"] is None:
        return True, True
    roles = json.loads(record["tuning"]).keys()
    return "encoder" in roles, bool(roles & {"model", "joint"})


def describe_budget(budget: tuple[int, int]) -> str:
    """``(8, 15)`` as ``tuned with 8 + 15 trials``."""
    return f"tuned with {budget[0]} + {budget[1]} trials" if any(budget) else "not tuned"


def fidelity_order(fidelity: str) -> tuple[int, int, str]:
    """The highest fidelity first."""
    name, _, rest = fidelity.partition(",")
    return (FIDELITIES.index(name) if name in FIDELITIES else len(FIDELITIES), len(rest), rest)


def _other_table(
    record: RecordLine, fidelity: str | None, budget: tuple[int, int] | None, data_keys: Mapping[str, str]
) -> str:
    """Why a record belongs to another table; empty if it belongs to this one."""
    if record["fidelity"] != fidelity:
        return f"fidelity {record['fidelity']} (--fidelity)"
    if budget is not None and budget_of(record) != budget:
        return f"another budget: {describe_budget(budget_of(record))} (--any-budget)"
    if record["data_key"] != data_keys[record["data"]]:
        return f"older content of {record['data']}"
    return ""


def failure_reason(status: str, error: str) -> str:
    """``timeout of 2 s: it was killed``: the same text for all records stopped by one cause, in whatever step.

    The error of a record that was not run because an earlier step failed names that step before the cause.
    """
    cause = re.sub(r"^not run: .+? (?:data|split|tune|pretrain|encode) [^ ]*: ", "", error)
    text = cause if cause.startswith(status) else f"{status}: {cause}"
    return text if cause == error else f"{text} (in an earlier step)"


def _reason_to_leave_out(record: RecordLine) -> str:
    if record["status"] != "ok":
        return failure_reason(record["status"], record["error"] or "no message")
    if record["flags"] not in (None, "[]"):
        return "flagged: " + ", ".join(json.loads(record["flags"]))
    return ""
