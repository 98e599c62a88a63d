"""What to run: an experiment file or command-line options, validated and frozen."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import pydantic

from tabbench.errors import UsageError, did_you_mean, unknown

Preset = Literal["quick", "standard", "paper"]
Sampler = Literal["tpe", "gp", "random"]
Control = Literal["none", "untrained"]
PRESETS: dict[Preset, dict[str, Any]] = {
    "quick": {"splits": 1, "seeds": 1, "trials": 0, "ssl_trials": 0, "controls": ("none",)},
    "standard": {"splits": 1, "seeds": 3, "trials": 15, "ssl_trials": 8, "controls": ("none", "untrained")},
    "paper": {"splits": 1, "seeds": 20, "trials": 50, "ssl_trials": 50, "controls": ("none", "untrained")},
}
"""Budgets of a run. Plugins have settings of the same names for what is theirs, such as the number of epochs."""


class Spec(pydantic.BaseModel):
    """One experiment: everything that decides which results there will be, and nothing about how they are computed."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, serialize_by_alias=True
    )

    ssl: tuple[str, ...] = pydantic.Field(min_length=1)
    """SSL methods by name."""
    model: tuple[str, ...] = pydantic.Field(min_length=1)
    """Downstream models by name."""
    data: tuple[str, ...] = pydantic.Field(default=("demo",), min_length=1)
    """Datasets, groups of datasets, or FILE:TARGET."""
    preset: Preset = "standard"
    """Budgets and fidelity."""
    splits: int = pydantic.Field(default=1, ge=1)
    """Number of data splits."""
    seeds: int = pydantic.Field(default=1, ge=1)
    """Number of initialisations of each downstream model."""
    trials: int = pydantic.Field(default=0, ge=0)
    """Trials of Bayesian tuning for each downstream model; 0 takes its default settings."""
    ssl_trials: int = pydantic.Field(default=0, ge=0)
    """Trials of Bayesian tuning for each SSL method; 0 takes its default settings."""
    sampler: Sampler = "tpe"
    """How trials are proposed."""
    controls: tuple[Control, ...] = ("none",)
    """Controls that stand beside each SSL method."""
    rows: int | None = pydantic.Field(default=None, ge=10)
    """Take only this many rows of each dataset; recorded as a fidelity of its own."""
    categorical: tuple[str, ...] = ()
    """Columns of FILE:TARGET data to take as categories."""
    settings: dict[str, dict[str, Any]] = pydantic.Field(default_factory=dict, alias="set")
    """Settings of plugins: ``{"tjepa": {"dim_hidden": 64}}``."""

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return value


NAMES = tuple(field.alias or name for name, field in Spec.model_fields.items())
"""What an experiment can say."""
LISTS = ("ssl", "model", "data", "controls", "categorical")
WORDS = ("preset", "sampler")
CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "controls": ("control", get_args(Control)),
    "sampler": ("sampler", get_args(Sampler)),
}
"""Entries with few possible values: what one of them is called, and which there are."""


def make_spec(given: Mapping[str, Any], default_preset: Preset = "standard") -> Spec:
    """A Spec from what was given; what was not comes from the preset."""
    _check_names(given)
    preset = given.get("preset", default_preset)
    if not isinstance(preset, str) or preset not in PRESETS:
        raise unknown("preset", str(preset), PRESETS)
    try:
        return Spec.model_validate({**PRESETS[preset], "preset": preset, **given})
    except pydantic.ValidationError as error:
        raise _explain(error) from None


def _check_names(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in NAMES:
            raise UsageError(f"Unknown entry {name!r} in the experiment.{did_you_mean(name, NAMES)}")


def _explain(error: pydantic.ValidationError) -> UsageError:
    """The first fault that pydantic found, in the words of the user."""
    first = error.errors()[0]
    entry = str(first["loc"][0])
    if first["type"] == "literal_error" and entry in CHOICES:
        what, possible = CHOICES[entry]
        return unknown(what, str(first["input"]), possible)
    if first["type"] == "too_short":
        return UsageError(f"The list {entry!r} of the experiment is empty: name at least one")
    place = ".".join(str(part) for part in first["loc"])
    return UsageError(f"Bad entry {place!r} in the experiment: {first['msg']} (given: {first['input']!r})")


def read_experiment(path: Path) -> dict[str, Any]:
    """The entries of an experiment file (TOML), each of the type that ``Spec`` has; a lone name is a list of one.

    Raises:
        UsageError: the file cannot be read, or one of its entries is unknown or of another type.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no experiment file {path}") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; an experiment file (TOML) is needed") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a TOML file: {error}") from None
    try:
        _check_names(given)
        return {name: _check_type(name, value) for name, value in given.items()}
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _check_type(name: str, value: Any) -> Any:
    """The value of an entry, if it has the right type."""
    if name in LISTS:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise _wrong_type(name, value, f'a list of names is needed, such as {name} = ["a", "b"]')
        return names
    if name in WORDS:
        if not isinstance(value, str):
            raise _wrong_type(name, value, f'one name is needed, such as {name} = "a"')
    elif name == "set":
        example = "write [set.NAME] and below it KEY = VALUE"
        if not isinstance(value, dict):
            raise _wrong_type(name, value, example)
        for plugin, settings in value.items():
            if not isinstance(settings, dict):
                raise _wrong_type(f"set.{plugin}", settings, example)
    elif not isinstance(value, int) or isinstance(value, bool):  # all that is left are numbers of something
        raise _wrong_type(name, value, "a whole number is needed")
    return value


def _wrong_type(name: str, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{name} = {value!r}: {wanted}")


def parse_setting(text: str) -> tuple[str, str, Any]:
    """``"tjepa.dim_hidden=64"`` as ``("tjepa", "dim_hidden", 64)``. Values are JSON; what is not JSON is a string."""
    place, equals, value = text.partition("=")
    plugin, dot, key = place.strip().partition(".")
    if not (equals and dot and plugin and key):
        raise UsageError(f"--set {text!r}: write it as NAME.SETTING=VALUE, for example --set mlp.lr=0.001")
    try:
        return plugin, key, json.loads(value)
    except json.JSONDecodeError:
        constants = {"true": True, "false": False, "none": None}
        return plugin, key, constants.get(value.strip().lower(), value.strip())
