"""Turn a row of a file into a run: text becomes names, or numbers with the digits that were written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tabbench.results.audit.mapping import ColumnMap
from tabbench.results.audit.reading import look_up
from tabbench.results.audit.runs import HIGHER, LOWER, Number, Run, Score, canonical

RANKS = frozenset({"rank", "avgrank", "averagerank", "meanrank"})
"""Metrics of a table's row that holds an average rank instead of a score."""
NUMBER = re.compile(r"[+-]?(?:\d+\.?(?P<after>\d*)|\.(?P<only>\d+))(?:e(?P<power>[+-]?\d{1,3}))?", re.I)
SPREAD = re.compile(r"\s*(?:±|\+/-|\+-|\\pm)\s*")
"""The sign between a mean and its standard deviation."""


def make_run(where: str, row: Mapping[str, Any], mapping: ColumnMap, named: Mapping[str, str]) -> Run | None:
    """Turn a row of a file into a run; None if it has no numeric score."""
    row = _in_any_case(row, mapping)

    def find(entry: str) -> Any:
        found = mapping.find(row, entry)
        return found if found is not None else named.get(entry) or mapping.constants.get(entry)

    settings = [_text(look_up(row, place)) for place in mapping.settings]
    fixed = named.get("setting") or mapping.constants.get("setting", "")
    name = " ".join(text for text in [*settings, fixed] if text)
    metric = _text(find("metric"))
    test = find("test")
    is_rank = re.sub(r"[^a-z]", "", metric.lower()) in RANKS
    scores = {} if is_rank else _scores(canonical(metric), find("validation"), test, find("std"))
    average_rank = parse_number(test if is_rank else find("average_rank"))
    if not scores and average_rank is None:
        return None
    return Run(
        where,
        dataset=_text(find("dataset")),
        method=_text(find("method")),
        model=_text(find("model")),
        setting=name,
        split=_text(find("split")),
        seed=_text(find("seed")),
        scores=scores,
        averaged=_whole(find("runs")),
        n_test=_whole(find("n_test")),
        n_rows=_whole(find("n_rows")),
        test_share=_share(find("test_share")),
        rank=parse_number(find("rank")),
        average_rank=average_rank,
    )


def find_test(row: Mapping[str, Any], mapping: ColumnMap) -> str:
    """What a row has as its test score, which may be no number; empty if that is nothing, or no text."""
    return _text(mapping.find(_in_any_case(row, mapping), "test"))


def name_nested_test(row: Mapping[str, Any], mapping: ColumnMap) -> str:
    """What a row has as its test score if that holds several values; empty otherwise."""
    found = mapping.find(_in_any_case(row, mapping), "test")
    if isinstance(found, list):
        return "a list"
    return "an object without a metric that has a known name" if isinstance(found, Mapping) else ""


def _in_any_case(row: Mapping[str, Any], mapping: ColumnMap) -> Mapping[str, Any]:
    return {str(name).lower(): value for name, value in row.items()} if mapping.any_case else row


def _scores(metric: str, validation: Any, test: Any, std: Any) -> dict[str, Score]:
    """Scores by metric. Validation and test may be objects with several metrics each."""
    if not isinstance(test, Mapping):
        mean, printed = _split_spread(test)
        if mean is None:
            return {}
        on_validation = None if isinstance(validation, Mapping) else _split_spread(validation)[0]
        return {metric: Score(mean, on_validation, parse_number(std) or printed)}
    given = validation.items() if isinstance(validation, Mapping) else ()
    others = {canonical(str(key)): parse_number(value) for key, value in given}
    tests = {canonical(str(key)): parse_number(value) for key, value in test.items()}
    # Objects may hold more than scores, such as the number of epochs.
    scores = {key: value for key, value in tests.items() if key in LOWER | HIGHER or others.get(key) is not None}
    return {key: Score(value, others.get(key)) for key, value in scores.items() if value is not None}


def _split_spread(value: Any) -> tuple[Number | None, Number | None]:
    """``0.866 ± 0.002`` as mean and standard deviation."""
    if not isinstance(value, str):
        return None, None
    mean, *rest = SPREAD.split(value.strip(), maxsplit=1)
    return parse_number(mean), parse_number(rest[0]) if rest else None


def parse_number(value: Any) -> Number | None:
    """Read a finite number with its digits as written; None for anything else."""
    if not isinstance(value, str):
        return None
    found = NUMBER.fullmatch(value.strip().removesuffix("%").strip())
    if found is None or not math.isfinite(number := float(found[0])):
        return None
    digits = found["after"] or found["only"] or ""
    return Number(number, len(digits) - int(found["power"] or 0))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.strip() if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    number = parse_number(value)
    return int(number.value) if number is not None and 0 < number.value < 1e15 else None


def _share(value: Any) -> float | None:
    number = parse_number(value)
    if number is None or not 0 < number.value <= 100:
        return None
    is_percent = number.value > 1 or value.strip().endswith("%")
    return number.value / 100 if is_percent else number.value
