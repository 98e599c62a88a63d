"""Choose the records that a table compares: one per place, of one fidelity and tuning budget. Others are named."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tabbench.errors import UsageError, did_you_mean
from tabbench.experiment.controls import UNTRAINED, is_untrained
from tabbench.results.json_shapes import LeftOut, RecordLine
from tabbench.results.record_lines import RAW, Alike, Indices, RecordLines, Shared, read_lines
from tabbench.results.store import Store

FIDELITIES = ("paper", "standard", "quick")


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
        if each.lower() == lowered or (name == "ssl" and lowered == UNTRAINED and is_untrained(each))
    )
    if not found:
        raise UsageError(f"--{name} {word}: no record has it.{did_you_mean(word, present)}")
    return found


@dataclass(frozen=True)
class Selection:
    """The records to compare."""

    lines: RecordLines
    fidelity: str | None
    left_out: list[LeftOut]
    incomplete: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    """How many records failed or are flagged, by row (see :func:`row_of`) and dataset."""

    @cached_property
    def records(self) -> list[RecordLine]:
        """The records one by one; with many of them, ``lines`` is much faster."""
        return self.lines.to_dicts()

    def data_notes(self) -> dict[str, list[str]]:
        """The records' notes on each dataset and its splits, each note once."""
        codes, texts = self.lines.codes("notes")
        pairs, first = np.unique(self.lines.which * len(texts) + codes, return_index=True)
        found: dict[str, dict[str, None]] = {}
        for which, code in (divmod(pair, len(texts)) for pair in pairs[np.argsort(first)].tolist()):
            if texts[code] not in (None, "[]"):
                notes = (str(note) for note in json.loads(texts[code]))
                found.setdefault(self.lines.shared[which]["data"], {}).update(dict.fromkeys(notes))
        return {name: list(notes) for name, notes in sorted(found.items())}


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
    lines = results_among(read_lines(store), only)
    return select_from(
        lines, fidelity=fidelity, any_budget=any_budget, names=names, where=where, skipped=store.skipped()
    )


def results_among(lines: RecordLines, only: Collection[str] | None = None) -> RecordLines:
    """The results, without trials; with ``only``, those with these keys."""
    results = lines.filter(lambda shared: shared["kind"] != "trial")
    if only is None:
        return results
    wanted = set(only)
    return results.take(np.array([key in wanted for key in results.values("key")], dtype=bool))


def select_from(
    lines: RecordLines,
    *,
    fidelity: str | None = None,
    any_budget: bool = False,
    names: Mapping[str, str] | None = None,
    where: Filters | None = None,
    skipped: Iterable[LeftOut] = (),
) -> Selection:
    """Choose what can be compared among records already read; ``skipped`` as in ``Store.skipped``."""
    lines = _newest(lines)
    if names:
        lines = lines.change(lambda shared: {**shared, "data": names.get(shared["data_key"], shared["data"])})
    if where is not None:
        where = where.matched(lines.shared_here())
        lines = lines.filter(where.keep)
    groups = lines.groups()
    present = sorted({group.shared["fidelity"] for group in groups}, key=fidelity_order)
    if fidelity is not None and fidelity not in present:
        raise UsageError(f"No records of fidelity {fidelity!r}.{did_you_mean(fidelity, present)}")
    chosen = fidelity if fidelity is not None else (present[0] if present else None)
    candidates = [group for group in groups if group.shared["fidelity"] == chosen]
    budget = None if any_budget else max((budget_of(group.shared) for group in candidates), default=(0, 0))
    data_keys = _data_keys(lines, candidates)
    kept = np.zeros(len(lines), dtype=bool)
    others: Counter[str] = Counter()
    reasons: dict[int, str] = {}
    incomplete: Counter[tuple[Any, ...]] = Counter()
    for shared, here in groups:
        if other := _other_table(shared, chosen, budget, data_keys):
            others[other] += len(here)
        elif _is_sound(shared):
            kept[here] = True
        else:
            reasons |= {record: _reason_to_leave_out(lines, record) for record in here.tolist()}
            incomplete[*row_of(shared), shared["data"]] += len(here)
    left_out = [_left_out(lines, record, reason) for record, reason in sorted(reasons.items())]
    left_out += [{"reason": reason, "records": count} for reason, count in others.items()]
    left_out += [pair for pair in skipped if where is None or where.keep_pair(pair)]
    return Selection(lines.take(kept), chosen, left_out, incomplete)


def _data_keys(lines: RecordLines, groups: Iterable[Alike]) -> dict[str, str]:
    """The content that each dataset had last."""
    latest: dict[str, tuple[float, int]] = {}
    found: dict[str, str] = {}
    for shared, where in groups:
        last = where[np.lexsort((where, lines.time[where]))[-1]]
        when = float(lines.time[last]), int(last)
        if when > latest.get(shared["data"], (-math.inf, 0)):
            latest[shared["data"]], found[shared["data"]] = when, shared["data_key"]
    return found


def _left_out(lines: RecordLines, record: int, reason: str) -> LeftOut:
    shared = lines.shared[lines.which[record]]
    split, seed = lines.places[lines.place[record]]
    return {
        "reason": reason,
        "key": lines.value("key", record),
        "ssl": shared["ssl"],
        "model": shared["model"],
        "data": shared["data"],
        "protocol": shared["protocol"],
        "labels": shared["labels"],
        "split": split,
        "seed": seed,
    }


row_of = itemgetter(
    "ssl", "model", "variant", "ssl_trials", "trials", "protocol", "labels", "split_rule", "main_metric", "weights",
    "uses_labels",
)  # fmt: skip
"""What makes a row of the table."""
_place_of = itemgetter(
    "ssl", "model", "variant", "data", "data_key", "fidelity", "trials", "ssl_trials", "protocol", "labels",
    "split_rule", "main_metric", "weights",
)  # fmt: skip
"""What makes a place in the table, with split and seed."""


def _newest(lines: RecordLines) -> RecordLines:
    """One record for each place in the table: a finished one before a failed one, then the latest."""
    numbers: dict[tuple[Any, ...], int] = {}
    number = np.array([numbers.setdefault(_place_of(shared), len(numbers)) for shared in lines.shared], dtype=np.int64)
    is_ok = np.array([shared["status"] == "ok" for shared in lines.shared], dtype=bool)[lines.which]
    lines, number, is_ok = _with_or_without_seeds(lines, number[lines.which], is_ok)
    _, first, place = np.unique(number * len(lines.places) + lines.place, return_index=True, return_inverse=True)
    order = np.lexsort((lines.time, is_ok, place))
    last = np.flatnonzero(np.diff(place[order], append=-1))  # the best of each place
    return lines.take(order[last][np.argsort(first)])


def _with_or_without_seeds(
    lines: RecordLines, number: Indices, is_ok: npt.NDArray[np.bool_]
) -> tuple[RecordLines, Indices, npt.NDArray[np.bool_]]:
    """On each split of a row either records with seeds or one without: the kind that finished last.

    A model may have seeds in one version and none in another; its results of both would count one split twice.
    """
    has_seed = np.array([seed is not None for _, seed in lines.places], dtype=bool)[lines.place]
    if has_seed.all() or not has_seed.any():
        return lines, number, is_ok
    splits = np.array([split for split, _ in lines.places], dtype=np.int64)[lines.place]
    _, group = np.unique(number * (splits.max() + 1) + splits, return_inverse=True)  # by axis it takes seconds
    order = np.lexsort((lines.time, is_ok, group))
    last = order[np.flatnonzero(np.diff(group[order], append=-1))]
    kept = has_seed == has_seed[last][group]
    return lines.take(kept), number[kept], is_ok[kept]


def budget_of(record: Shared) -> tuple[int, int]:
    """Trials for the SSL side and for the model."""
    return record["ssl_trials"], record["trials"]


def tuned_parts(tuning: str | None) -> tuple[bool, bool]:
    """Whether the SSL side and the model had something to tune; assumed if a record does not say."""
    if tuning is None:
        return True, True
    roles = json.loads(tuning).keys()
    return "encoder" in roles, bool(roles & {"model", "joint"})


def describe_budget(budget: tuple[int, int]) -> str:
    """``(8, 15)`` as ``tuned with 8 + 15 trials``."""
    return f"tuned with {budget[0]} + {budget[1]} trials" if any(budget) else "not tuned"


def fidelity_order(fidelity: str) -> tuple[int, int, str]:
    """The highest fidelity first."""
    name, _, rest = fidelity.partition(",")
    return (FIDELITIES.index(name) if name in FIDELITIES else len(FIDELITIES), len(rest), rest)


def _other_table(
    record: Shared, fidelity: str | None, budget: tuple[int, int] | None, data_keys: Mapping[str, str]
) -> str:
    """Why a record belongs to another table; empty if it belongs to this one."""
    if record["fidelity"] != fidelity:
        return f"fidelity {record['fidelity']} (--fidelity)"
    if budget is not None and budget_of(record) != budget:
        return f"another budget: {describe_budget(budget_of(record))} (--any-budget)"
    if record["data_key"] != data_keys[record["data"]]:
        return f"made with older content of {record['data']}"
    return ""


def failure_reason(status: str, error: str) -> str:
    """``timeout of 2 s: it was killed``: the same text for all records stopped by one cause, in whatever step.

    The error of a record that was not run because an earlier step failed names that step before the cause.
    """
    cause = re.sub(r"^not run: .+? (?:data|split|tune|pretrain|encode) [^ ]*: ", "", error)
    text = cause if cause.startswith(status) else f"{status}: {cause}"
    return text if cause == error else f"{text} (in an earlier step)"


def _is_sound(shared: Shared) -> bool:
    return shared["status"] == "ok" and shared["flags"] in (None, "[]")


def _reason_to_leave_out(lines: RecordLines, record: int) -> str:
    shared = lines.shared[lines.which[record]]
    if shared["status"] != "ok":
        return failure_reason(shared["status"], lines.value("error", record) or "no message")
    return "flagged: " + ", ".join(json.loads(shared["flags"] or "[]"))
