"""What each kind of job needs to know, as typed values. A payload is sent to a worker as JSON and parsed there."""

from __future__ import annotations

from typing import Literal, Self

import pydantic

from tabbench.config import Settings
from tabbench.data.cache import Manifest
from tabbench.values import JsonObject


class JsonValue(pydantic.BaseModel):
    """A frozen value that is sent to a worker, or stored, as JSON."""

    model_config = pydantic.ConfigDict(frozen=True)

    def to_json(self) -> JsonObject:
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        return cls.model_validate(value)


class Address(JsonValue):
    """Where to find a plugin's class, and its settings."""

    name: str
    target: str
    distribution: str
    version: str
    revision: int | str
    file: str | None = None
    """The file of an unpublished plugin."""
    config: Settings


class SplitChoice(JsonValue):
    """Which rows are used for training, validation and test."""

    rule: str | JsonObject
    """A ``SplitRule`` as JSON."""
    seed: int
    rows: int | None = None
    """Use a subsample of this size."""
    weights: str = ""
    """The column that holds the weights of rows, and is not a feature."""


class LabelChoice(JsonValue):
    """How many labels are visible."""

    budget: str
    """As in ``tabbench.data.labels.LabelBudget``."""
    validation: Literal["same", "all"] = "same"


class TuningSummary(JsonValue):
    """How a study found the settings in use."""

    study: str
    trials: int
    pruned: int
    failed: int
    best_trial: int
    best_value: float
    default_value: float | None
    """The score of the default settings; None if they failed."""
    given_up: int = 0
    """Trials that were killed, lost, or ran out of time or memory. The next run retries them."""


class Payload(JsonValue):
    """What all steps of an experiment share."""

    manifest: Manifest
    split: SplitChoice
    seed: int
    labels: LabelChoice | None = None
    """None: all."""
    threads: int = 1
    metric: str = ""
    """The main metric, if it is not the usual one of the task."""
    store: str = ""
    """The results folder. The driver fills in this field and the next three."""
    cache: str = ""
    """The dataset cache."""
    patience: float = 0.0
    """Seconds for which files written by another machine may stay invisible."""
    trial: bool = False
    """This is a trial of a study, so every report counts."""


class TunePayload(Payload):
    """A study. The driver runs each of its trials as a separate job."""


class PretrainPayload(Payload):
    """Train an encoder, or initialise it for the untrained control."""

    method: Address
    trained: bool
    model: Address | None = None
    """The model whose backbone the method pretrains, if it is such a method."""
    probed: bool = True
    """Whether labels choose among the weights."""


class EncodePayload(Payload):
    """Encode all rows with a stored encoder."""

    method: Address
    encoder: str = ""
    """Key of the pretraining; after a study, the key of its best trial."""
    tuning: dict[str, TuningSummary] = pydantic.Field(default_factory=dict)


class FitPayload(Payload):
    """Train a downstream model on raw or encoded features, for a trial or a result."""

    features: str | None
    """Key of the encoded features; None for the raw table."""
    model: Address
    joint: Address | None = None
    """A joint method that trains the model's backbone itself."""
    method: Address | None = None
    """For fine-tuning: the method whose encoder or pretrained backbone is trained further."""
    trained: bool = True
    """For fine-tuning: whether the encoder is pretrained, not only initialised."""
    probed: bool = True
    """For fine-tuning: whether labels choose among the encoder's weights, if this job pretrains it."""
    encoder: str = ""
    """For fine-tuning: the key of the pretraining. A trial that changes the backbone pretrains it itself."""
    tuning: dict[str, TuningSummary] = pydantic.Field(default_factory=dict)
    """How that encoder was found."""
    balanced: bool = False
    """Training rows are weighted so that every class counts the same."""


class Shape(JsonValue):
    """The size of a table, and what is predicted from it."""

    rows: int
    n_numeric: int
    n_categorical: int
    task: Literal["binary", "multiclass", "regression"]
    n_classes: int

    @classmethod
    def of(cls, manifest: Manifest, rows: int) -> Self:
        """The shape of a table, limited to ``rows`` rows."""
        return cls(
            rows=rows,
            n_numeric=manifest.n_numeric,
            n_categorical=manifest.n_categorical,
            task=manifest.task,
            n_classes=manifest.n_classes,
        )


class CalibratePayload(JsonValue):
    """Measure how long the training of another job would take."""

    plugin: Address | None
    model: Address | None
    shape: Shape
    finetune: bool = False
    """Train the encoder of ``plugin`` together with the model."""
    encoder: Address | None = None
    """Train on the output of this method's untrained encoder."""
    seed: int = 0
    store: str = ""
    cache: str = ""
