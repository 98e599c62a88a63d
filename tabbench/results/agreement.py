"""Whether records can be trusted: each on its own, and two of the same job together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tabbench.results.lines import Line, read_line
from tabbench.results.record import SCHEMA_VERSION, BadRecordError, check_fields

EVIDENCE = {
    "result": ("metric", "score", "test", "validation", "task", "flags", "counts", "hashes", "config"),
    "trial": ("status", "value", "config"),
}
"""Fields in which equal jobs must agree."""
_KEY = re.compile(r"[\w.-]{1,200}", re.ASCII)


def read_record(line: bytes) -> Line:
    """Read a valid record from a line of anyone's results folder.

    Raises:
        BadRecordError: the line is damaged, has wrong types, or contradicts itself.
    """
    value = read_line(line)
    schema = value.get("schema", 1)
    if type(schema) is int and schema > SCHEMA_VERSION:
        raise BadRecordError(f"it was written by a newer tabbench (schema {schema})")
    check_fields(value)
    if not _KEY.fullmatch(value["key"]):
        raise BadRecordError(f"its key is {value['key'][:40]!r}")
    if value["status"] == "ok" and value.get("kind") != "trial":
        if not (value.get("hashes") or {}).get("predictions"):
            raise BadRecordError("it has no evidence: there is no hash of its predictions")
        if value["test"].get(value["metric"]) != value["score"]:
            raise BadRecordError(f"its score is not the {value['metric']} of its test part"[:120])
    return value


def clashes(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The fields in which two records of the same job differ, though they must not."""
    kind = "trial" if one.get("kind") == "trial" else "result"
    return [name for name in EVIDENCE[kind] if _clash(one.get(name), other.get(name))]


def _clash(one: Any, other: Any) -> bool:
    """Whether two values differ where both are given; a newer version records more than an older one."""
    if one is None or other is None:
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return any(_clash(one[name], other[name]) for name in one.keys() & other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(map(_clash, one, other))
    return bool(one != other)
