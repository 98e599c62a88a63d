"""What to run: an experiment file or command-line options, validated and frozen."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pydantic

from tabbench.errors import UsageError, did_you_mean

Preset = Literal["quick", "standard", "paper"]
Sampler = Literal["tpe", "gp", "random"]
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
    controls: tuple[Literal["none", "untrained"], ...] = ("none",)
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


def make_spec(given: Mapping[str, Any], default_preset: Preset = "standard") -> Spec:
    """A Spec from what was given; what was not comes from the preset."""
    for key in given:
        names = [field.alias or name for name, field in Spec.model_fields.items()]
        if key not in names:
            raise UsageError(f"Unknown entry {key!r} in the experiment.{did_you_mean(key, names)}")
    preset = given.get("preset", default_preset)
    if preset not in PRESETS:
        raise UsageError(f"Unknown preset {preset!r}.{did_you_mean(str(preset), PRESETS)}")
    try:
        return Spec.model_validate({**PRESETS[preset], "preset": preset, **given})
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"Bad entry {place!r} in the experiment: {first['msg']} (given: {first['input']!r})") from None


def read_experiment(path: Path) -> dict[str, Any]:
    """The entries of an experiment file (TOML)."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no experiment file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a TOML file: {error}") from None


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
