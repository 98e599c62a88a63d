"""What each kind of job needs to know, typed. A payload travels to a worker as JSON and is read back there."""

from __future__ import annotations

from typing import Literal, Self

import pydantic

from tabbench.config import Settings
from tabbench.data.cache import Manifest
from tabbench.values import JsonObject


class Address(pydantic.BaseModel):
    """Where a plugin's class is found, and its settings."""

    model_config = pydantic.ConfigDict(frozen=True)

    name: str
    target: str
    distribution: str
    version: str
    revision: int | str
    file: str | None = None
    """The file of an unpublished plugin."""
    config: Settings


class SplitChoice(pydantic.BaseModel):
    """Which rows are used for training, validation and test."""

    model_config = pydantic.ConfigDict(frozen=True)

    rule: str | JsonObject
    """A ``SplitRule`` as JSON."""
    seed: int
    rows: int | None = None
    """Use a subsample of this size."""
    weights: str = ""
    """The column that holds the weights of rows, and is not a feature."""


class LabelChoice(pydantic.BaseModel):
    """How many labels there are."""

    model_config = pydantic.ConfigDict(frozen=True)

    budget: str
    """As in ``tabbench.data.labels.LabelBudget``."""
    validation: Literal["same", "all"] = "same"


class TuningSummary(pydantic.BaseModel):
    """How a study found the settings that were used."""

    model_config = pydantic.ConfigDict(frozen=True)

    study: str
    trials: int
    pruned: int
    failed: int
    best_trial: int
    best_value: float
    default_value: float | None
    """What the default settings reached; None if they failed."""
    given_up: int = 0
    """Trials that were killed, lost, or ran out of time or memory. The next run tries them again."""


class Payload(pydantic.BaseModel):
    """What all steps of an experiment share."""

    model_config = pydantic.ConfigDict(frozen=True)

    manifest: Manifest
    split: SplitChoice
    seed: int
    labels: LabelChoice | None = None
    """None: all."""
    threads: int = 1
    metric: str = ""
    """The main metric, if it is not the usual one of the task."""
    store: str = ""
    """The results folder. The driver fills this in, and the next three."""
    cache: str = ""
    """The folder of the datasets."""
    patience: float = 0.0
    """Seconds for which what another machine has written may be invisible."""
    trial: bool = False
    """This is a trial of a study: every report counts."""

    def to_json(self) -> JsonObject:
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        return cls.model_validate(value)


class TunePayload(Payload):
    """A study. The driver runs it itself, as jobs of their own."""


class PretrainPayload(Payload):
    """Train an encoder, or initialise it for the untrained control."""

    method: Address
    trained: bool
    model: Address | None = None
    """For a method that pretrains the backbone of a model: that model."""
    probed: bool = True
    """Labels choose among the weights."""


class EncodePayload(Payload):
    """Encode all rows with a stored encoder."""

    method: Address
    encoder: str = ""
    """Key of the pretraining; after a study, that of its best trial."""
    tuning: dict[str, TuningSummary] = pydantic.Field(default_factory=dict)


class FitPayload(Payload):
    """Train a downstream model on raw or encoded features, for a trial or a result."""

    features: str | None
    """Key of the encoded features; None for the raw table."""
    model: Address
    joint: Address | None = None
    """A joint method that trains the model's backbone itself."""
    method: Address | None = None
    """For fine-tuning: the method whose encoder, or pretrained backbone, goes on learning."""
    trained: bool = True
    """For fine-tuning: its encoder is trained, not only initialised."""
    probed: bool = True
    """For fine-tuning: labels choose among the encoder's weights, where this job pretrains it."""
    encoder: str = ""
    """For fine-tuning: the key of its pretraining. A trial that changes the backbone pretrains it itself."""
    tuning: dict[str, TuningSummary] = pydantic.Field(default_factory=dict)
    """How that encoder was found."""
    balanced: bool = False
    """Training rows are weighted so that every class counts the same."""


class Shape(pydantic.BaseModel):
    """The size of a table and what is predicted from it."""

    model_config = pydantic.ConfigDict(frozen=True)

    rows: int
    n_numeric: int
    n_categorical: int
    task: Literal["binary", "multiclass", "regression"]
    n_classes: int

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        return cls(
            rows=manifest.rows,
            n_numeric=manifest.n_numeric,
            n_categorical=manifest.n_categorical,
            task=manifest.task,
            n_classes=manifest.n_classes,
        )


class CalibratePayload(pydantic.BaseModel):
    """Measure how long the training of another job would take."""

    model_config = pydantic.ConfigDict(frozen=True)

    plugin: Address | None
    model: Address | None
    shape: Shape
    finetune: bool = False
    """Train the encoder of ``plugin`` together with the model."""
    seed: int = 0
    store: str = ""
    cache: str = ""

    def to_json(self) -> JsonObject:
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        return cls.model_validate(value)
