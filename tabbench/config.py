"""Typed settings of plugins, with each field's search range beside it.

    class Config(tabbench.Config):
        lr: Annotated[float, Float(1e-5, 1e-3, log=True)] = 3e-4
        \"\"\"Peak learning rate of AdamW.\"\"\"

A range says what a tuner may try. It does not limit what a user may set: that is what validators are for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Self, get_args

import pydantic

from tabbench.errors import UsageError, did_you_mean


@dataclass(frozen=True)
class Float:
    """A real number between ``low`` and ``high``, uniform in its logarithm if ``log``; with ``zero``, or else 0."""

    low: float
    high: float
    log: bool = False
    zero: bool = False
    """0 is proposed as often as all other values together."""

    def __str__(self) -> str:
        return f"{'0 or ' if self.zero else ''}{self.low:g} .. {self.high:g}{' (log)' if self.log else ''}"


@dataclass(frozen=True)
class Int:
    """A whole number between ``low`` and ``high``, both included."""

    low: int
    high: int
    step: int = 1
    log: bool = False

    def __str__(self) -> str:
        step = f" step {self.step}" if self.step != 1 else ""
        return f"{self.low} .. {self.high}{step}{' (log)' if self.log else ''}"


@dataclass(frozen=True, init=False)
class Choice:
    """One of the listed values."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        return "{" + ", ".join(str(value) for value in self.values) + "}"


Range = Float | Int | Choice


class Config(pydantic.BaseModel):
    """Base of every plugin's settings: frozen, unknown keys refused, each field described by a docstring below it."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    @classmethod
    def search_space(cls) -> dict[str, Range]:
        """The fields that a tuner may change, with their ranges, in the order of their definition."""
        space: dict[str, Range] = {}
        for name, field in cls.model_fields.items():
            ranges = [item for item in field.metadata if isinstance(item, get_args(Range))]
            if ranges:
                space[name] = ranges[0]
        return space

    def unused(self, raw: bool) -> frozenset[str]:
        """Fields that have no effect beside the values of the others, on ``raw`` tables or on representations.

        A tuner leaves them alone.
        """
        return frozenset()

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        """Named settings, such as published ones (``--set tjepa.preset=paper-JA``); see ``load_presets``.

        A preset called ``quick``, ``standard`` or ``paper`` is the default of runs with that ``--preset``; on a
        dataset that goes by CA, one called ``paper-CA`` comes first.
        """
        return {}

    @classmethod
    def full_name(cls, name: str) -> str:
        """The field that a user means by ``name``; a Config with long names may know shorter ones."""
        return name

    @classmethod
    def resolve(cls, settings: Mapping[str, Any], owner: str) -> Self:
        """Validate ``settings``; errors name the ``owner`` plugin, the field and what would do, on one line."""
        full: dict[str, Any] = {}
        for key, value in settings.items():
            name = cls.full_name(key)
            if name not in cls.model_fields:
                raise UsageError(f"Unknown setting '{owner}.{key}'.{did_you_mean(key, cls.model_fields)}")
            if name in full:
                raise UsageError(f"'{owner}.{key}' and '{owner}.{name}' are the same setting: give one of them")
            full[name] = value
        try:
            return cls.model_validate(full)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            place = f"{owner}.{field}={first['input']!r}" if field else f"settings of {owner}"
            raise UsageError(f"Bad {place}: {first['msg'].removeprefix('Value error, ')}") from None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; ``resolve`` of them gives an equal Config."""
        values: dict[str, Any] = json.loads(self.model_dump_json())
        return values


@cache
def load_presets(package: str, file: str = "presets.toml") -> dict[str, dict[str, Any]]:
    """Named published settings that a plugin ships as a TOML file: one table per preset.

    The key ``source`` of a preset says where the figures are from and is not a setting. A preset for one dataset, such
    as ``paper-CA``, adds to ``paper`` if there is one.
    """
    import tomllib

    presets = tomllib.loads(resources.files(package).joinpath(file).read_text(encoding="utf-8"))
    return {name: {**presets.get(name.rpartition("-")[0], {}), **settings} for name, settings in presets.items()}
