"""A record as one line of JSON that ends with a digest of the rest, so that readers notice a flipped bit."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from tabbench.results.record import DIGEST_SINCE, BadRecordError
from tabbench.values import JsonObject

Line = JsonObject
"""The content of a record's line, without the digest."""
_TAIL = b', "digest": "%s"}'
_LENGTH = 16
"""Hexadecimal digits of the digest."""
_TAIL_LENGTH = len(_TAIL) - 2 + _LENGTH
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
"""Without spaces, which would be a twelfth of a file."""


def to_line(value: Line) -> bytes:
    """The stored form of a record, with the line break.

    Raises:
        ValueError: it holds a number that is not finite.
    """
    body = _encode(value)
    if "\\ud" in body:  # half of a character, from a broken file name or message: no reader could decode it
        body = _encode(clean_text(value))
    data = body.encode("ascii")
    return data[:-1] + _TAIL % _digest(data) + b"\n"


def read_line(line: bytes) -> Line:
    """Read the content of a line, without its digest.

    Raises:
        BadRecordError: the line is not a JSON object, or not what was written.
    """
    value = _parse(line)
    if not isinstance(value, dict):
        raise BadRecordError("it is not a record")
    if value.pop("digest", None) is not None:
        body, tail = line[:-_TAIL_LENGTH] + b"}", line[-_TAIL_LENGTH:]
        if tail != _TAIL % _digest(body):
            raise BadRecordError("it is damaged: its digest does not match")
    elif value.get("schema") not in range(1, DIGEST_SINCE):
        raise BadRecordError("it is damaged: it has no digest")
    return clean_text(value) if b"\\ud" in line else value


def _parse(line: bytes) -> Any:
    """Parse JSON with the fast parser; halves of characters, which it refuses, go to Python's parser."""
    import orjson

    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(line, parse_constant=_refuse, parse_float=_finite)
    except BadRecordError:
        raise
    except (ValueError, RecursionError):
        raise BadRecordError("it is not JSON, or incomplete") from None


def _finite(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _refuse(text)


def _refuse(text: str) -> float:
    raise BadRecordError(f"it holds {text[:20]}, which is not a finite number")


def clean_text(value: Any) -> Any:
    """The same JSON value, with a question mark for each half of a character."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {clean_text(name): clean_text(item) for name, item in value.items()}
    return [clean_text(item) for item in value] if isinstance(value, list) else value


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:_LENGTH].encode("ascii")
