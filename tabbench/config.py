"""Typed settings of plugins, with each field's search range next to it.

    class Config(tabbench.Config):
        lr: Annotated[float, Float(1e-5, 1e-3, log=True)] = 3e-4
        \"\"\"Peak learning rate of AdamW.\"\"\"

A range says what the tuner may try. It does not limit what users may set; validators do that.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Self, get_args

import pydantic

from tabbench.errors import UsageError, did_you_mean, in_words


@dataclass(frozen=True)
class Float:
    """A real number between ``low`` and ``high``, uniform in its logarithm if ``log``; or 0, if ``zero``."""

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
Settings = dict[str, Any]
"""Settings of a plugin by name, as JSON values."""
PluginSettings = dict[str, Settings]
"""Settings of several plugins, by the name of the plugin."""


class Config(pydantic.BaseModel):
    """Base of every plugin's settings: frozen, refuses unknown keys, describes each field in a docstring below it."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    @classmethod
    def search_space(cls) -> dict[str, Range]:
        """The fields that the tuner may change, with their ranges, in order of definition."""
        space: dict[str, Range] = {}
        for name, field in cls.model_fields.items():
            ranges = [item for item in field.metadata if isinstance(item, get_args(Range))]
            if ranges:
                space[name] = ranges[0]
        return space

    def unused(self, raw: bool) -> frozenset[str]:
        """Fields that have no effect given the values of the others, on ``raw`` tables or on representations.

        The tuner leaves them alone.
        """
        return frozenset()

    @classmethod
    def of_finetuning(cls) -> frozenset[str]:
        """Fields that matter only when a pretrained network is fine-tuned."""
        return frozenset()

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        """Named settings, such as published ones (``--set tjepa.preset=paper-JA``); see ``load_presets``.

        A preset called ``quick``, ``standard`` or ``paper`` is the default for runs with that ``--preset``; on a
        dataset known as CA, ``paper-CA`` takes precedence. Its key ``source`` says where the figures come from; its
        key ``search`` has ranges that replace those of the fields.
        """
        return {}

    @classmethod
    def preset_space(cls, preset: Mapping[str, Any]) -> dict[str, Range]:
        """The search space under a preset: the fields' ranges, with the preset's own in their place."""
        return {**cls.search_space(), **{name: read_range(given) for name, given in preset.get("search", {}).items()}}

    @classmethod
    def full_name(cls, name: str) -> str:
        """The field meant by ``name``. A Config with long names may accept shorter ones."""
        return name

    @classmethod
    def full_names(cls, settings: Mapping[str, Any], owner: str) -> Settings:
        """``settings`` by field name. An unknown name is refused, with the nearest match."""
        full: Settings = {}
        for key, value in settings.items():
            name = cls.full_name(key)
            if name not in cls.model_fields:
                raise UsageError(f"Unknown setting '{owner}.{key}'.{did_you_mean(key, cls.model_fields)}")
            if name in full:
                raise UsageError(f"'{owner}.{key}' and '{owner}.{name}' are the same setting: give one of them")
            full[name] = value
        return full

    @classmethod
    def resolve(cls, settings: Mapping[str, Any], owner: str) -> Self:
        """Validate ``settings``. Errors name the ``owner`` plugin, the field and what would work, on one line."""
        full = cls.full_names(settings, owner)
        try:
            made = cls.model_validate(full)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            place = f"{owner}.{field}={first['input']!r}" if field else f"settings of {owner}"
            raise UsageError(f"Bad {place}: {in_words(first['msg'])}") from None
        for name, value in full.items():
            if isinstance(value, bool) and type(getattr(made, name)) in (int, float):  # pydantic takes true for 1
                raise UsageError(f"Bad {owner}.{name}={value}: give a number")
        return made

    def to_json(self) -> Settings:
        """Plain JSON values; ``resolve`` turns them back into an equal Config."""
        values: Settings = json.loads(self.model_dump_json())
        return values


def preset_settings(preset: Mapping[str, Any]) -> Settings:
    """The settings of a preset, without what else it says."""
    return {name: value for name, value in preset.items() if name not in ("source", "search")}


def read_range(given: Mapping[str, Any] | list[Any]) -> Range:
    """A range as TOML has it: a list of values, or a table with ``low``, ``high`` and perhaps ``log``."""
    if isinstance(given, list):
        return Choice(*given)
    whole = isinstance(given["low"], int) and isinstance(given["high"], int)
    return Int(**given) if whole else Float(**given)


@cache
def load_presets(package: str, file: str = "presets.toml") -> dict[str, Settings]:
    """Named published settings that a plugin ships in a TOML file, one table per preset.

    A preset's keys ``source`` (where the figures come from) and ``search`` (ranges for the tuner) are not settings. A
    preset for one dataset, such as ``paper-CA``, extends ``paper`` if there is one.
    """
    import tomllib

    presets = tomllib.loads(resources.files(package).joinpath(file).read_text(encoding="utf-8"))
    return {name: {**presets.get(name.rpartition("-")[0], {}), **settings} for name, settings in presets.items()}


ScalingKind = Literal["standard", "minmax", "quantile"]
"""How numeric columns are scaled, by ``tabbench.nn.Scaler``."""
MIN_BATCH = 2
"""BatchNorm cannot train on one row."""

ProjectionName = Literal[
    "auto", "linear_flatten", "linear_per_feature", "conv", "max_pool", "mean_pool", "tokens_direct"
]
PROJECTIONS = ("linear_flatten", "linear_per_feature", "conv", "max_pool", "mean_pool")
"""The projections of the T-JEPA paper; the tuner chooses among them."""


class NetworkConfig(Config):
    """Settings that all networks share. The defaults suit small and medium-sized tables without tuning."""

    lr: Annotated[float, pydantic.Field(gt=0), Float(1e-5, 1e-2, log=True)] = 1e-3
    """Learning rate of AdamW; its peak with ``schedule=cosine``."""
    weight_decay: Annotated[float, pydantic.Field(ge=0), Float(1e-6, 1e-3, log=True)] = 1e-5
    """Decoupled weight decay of AdamW."""
    batch_size: Annotated[int, pydantic.Field(ge=MIN_BATCH)] | Literal["auto"] = "auto"
    """Rows per step. ``auto`` is the power of two nearest to 1/64 of the training rows, between 32 and 512. Batches
    that do not fit into memory are split; where BatchNorm meets attention (``conv``), they are made smaller."""
    max_epochs: Annotated[int, pydantic.Field(ge=1)] = 200
    """Maximum epochs; early stopping may end training sooner."""
    patience: Annotated[int, pydantic.Field(ge=1)] = 16
    """Stop after this many epochs without a better validation score."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate schedule: constant, or a cosine decay to 0 at ``max_epochs``."""
    stop_on: Literal["metric", "loss"] = "metric"
    """What early stopping watches on validation: accuracy, RMSE or what ``--metric`` names (ties go to the lower loss),
    or the loss alone."""
    scaling: ScalingKind = "quantile"
    """Scaling of the numeric columns of a raw table; representations are always standardised."""
    projection: Annotated[ProjectionName, Choice(*PROJECTIONS)] = "auto"
    """How tokens (rows, d, h) become numbers. ``auto`` flattens them up to 4,096 numbers per row and
    projects wider ones down; networks of tokens use linear_flatten up to 8,192 and linear_per_feature beyond.
    ``tokens_direct`` passes the tokens to the network without reducing them to d numbers."""
    bf16: bool = False
    """Mixed bfloat16 precision: faster on GPUs, and for wide networks on CPUs that support it (AVX-512 BF16)."""
    encoder_lr_scale: Annotated[float, pydantic.Field(gt=0), Choice(0.1, 0.3, 1.0)] = 1.0
    """With ``--protocol finetune``: learning rate of the pretrained part, as a multiple of ``lr``."""
    warm_head_epochs: Annotated[int, pydantic.Field(ge=0)] = 0
    """With ``--protocol finetune``: number of first epochs in which the pretrained part stays frozen."""

    def unused(self, raw: bool) -> frozenset[str]:
        return frozenset({"projection"} if raw else {"d_embedding"})

    @classmethod
    def of_finetuning(cls) -> frozenset[str]:
        return frozenset({"encoder_lr_scale", "warm_head_epochs"})
