"""Tests of what a record's values may look like, made once from the types of its fields."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pydantic

from tabbench.contracts.job import LARGEST, is_usable

Shape = Callable[[object], bool]
DEEPEST = 50
"""Most levels of lists and objects in free JSON from a plugin; deeper JSON makes other readers fail."""
_LARGEST = 2**63


def shape_of(hint: Any) -> Shape:
    """A test for JSON values of a type: ``shape_of(dict[str, float])({"fit": 1.5})`` is true."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _union([shape_of(argument) for argument in arguments])
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if origin is list:
        item = shape_of(arguments[0])
        return lambda value: isinstance(value, list) and all(map(item, value))
    if origin is dict:
        item = shape_of(arguments[1])
        if float in (arguments[1], *get_args(arguments[1])):
            return lambda value: isinstance(value, dict) and _are_numbers(value.values(), item)
        return lambda value: isinstance(value, dict) and all(map(item, value.values()))
    return _object(hint)


def takes_text(hint: Any) -> bool:
    """Whether every string is a value of this type."""
    return str in (hint, *(get_args(hint) if get_origin(hint) in (Union, UnionType) else ()))


def _union(shapes: list[Shape]) -> Shape:
    """Test for a union; the usual case, ``X | None``, makes no extra call."""
    if len(shapes) == 2:
        first, second = shapes
        return lambda value: first(value) or second(value)
    return lambda value: any(shape(value) for shape in shapes)


def _object(kind: Any) -> Shape:
    """Test for an object with the fields of a dataclass or a pydantic model; ignores unknown fields."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name != "model_config"}
    shapes = {name: shape_of(hint) for name, hint in hints.items()}
    texts = {name for name, hint in hints.items() if takes_text(hint)}
    if issubclass(kind, pydantic.BaseModel):
        needed = {name for name, field in kind.model_fields.items() if field.is_required()}
    else:
        every = (dataclasses.MISSING, dataclasses.MISSING)
        needed = {field.name for field in dataclasses.fields(kind) if (field.default, field.default_factory) == every}

    def fits(value: object) -> bool:
        if not isinstance(value, dict) or not needed <= value.keys():
            return False
        for name, item in value.items():
            if type(item) is str and name in texts:  # most of them are, so without a call
                continue
            shape = shapes.get(name)
            if shape is not None and not shape(item):
                return False
        return True

    return fits


def _are_numbers(values: Iterable[object], shape: Shape) -> bool:
    for value in values:
        if not (type(value) is float and -LARGEST <= value <= LARGEST) and not shape(value):
            return False
    return True


def _is_free(value: object, depth: int = 0) -> bool:
    """Test for any JSON that every reader can read. Most of a record is such JSON, so speed matters here."""
    if isinstance(value, dict):
        items: Iterable[object] = value.values()
    elif isinstance(value, list):
        items = value
    else:
        return not isinstance(value, float) or math.isfinite(value)
    if depth >= DEEPEST:
        return False
    for item in items:
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, (dict, list)) and not _is_free(item, depth + 1):
            return False
    return True


def _is_number(value: object) -> bool:
    if type(value) is float:  # nearly always, so without a call
        return -LARGEST <= value <= LARGEST
    return isinstance(value, (int, float)) and not isinstance(value, bool) and is_usable(value)


_SIMPLE: dict[Any, Shape] = {
    str: lambda value: isinstance(value, str),
    int: lambda value: type(value) is int and -_LARGEST <= value < _LARGEST,
    float: _is_number,
    bool: lambda value: isinstance(value, bool),
    NoneType: lambda value: value is None,
    Any: _is_free,
}
