"""One record: what a job was, its result, and the evidence for it.

``Record`` is the source of the columns of ``records.parquet`` and of the list of fields in the documentation.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from tabbench.config import Settings
from tabbench.contracts.configurable import Diagnostics
from tabbench.contracts.job import FINAL, Outcome, Status
from tabbench.experiment.graph import Origin, Planned
from tabbench.experiment.payloads import TuningSummary
from tabbench.results.shapes import shape_of, takes_text
from tabbench.values import JsonObject

SCHEMA_VERSION = 2
"""Increased when older versions could not read the records."""
DIGEST_SINCE = 2
"""Lines of this schema and later carry a digest."""
UNFINISHED_TUNING = "unfinished tuning"
"""Flag of a result that had to give up on a trial."""
Scores = dict[str, float | None]
"""Scores by the name of their metric; None where a metric is not defined."""
ColumnType = Literal["string", "int64", "double", "bool", "json"]


class BadRecordError(ValueError):
    """A line that is not a record; the message says why."""


@dataclass(frozen=True)
class Counts:
    """How much data went into a record."""

    train: int = 0
    """Training rows with a label."""
    validation: int = 0
    """Validation rows with a label."""
    test: int = 0
    features: int = 0
    classes: int = 0
    representation: list[int] | None = None
    """Shape of one encoded row; None for raw features."""
    pretraining: int = 0
    """Rows that the encoder was pretrained on, with and without a label."""


@dataclass(frozen=True)
class Hashes:
    """Hashes of a result and its inputs: equal jobs have equal hashes."""

    data: str = ""
    split: str = ""
    predictions: str = ""
    encoder: str | None = None
    representation: str | None = None


@dataclass(frozen=True)
class Environment:
    """Where a record was made."""

    python: str = ""
    platform: str = ""
    machine: str = ""
    device: str = ""
    threads: int = 0
    peak_memory: int = 0
    """Peak resident memory in bytes."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of tabbench, torch, numpy, pandas, scikit-learn, and everything that the plugins' packages require."""
    place: dict[str, str] = field(default_factory=dict)
    """Host, executor, and whatever else the executor knows about the place."""
    retries: int = 0
    """How many times the job was restarted after its worker was killed or lost."""

    @property
    def processor(self) -> str:
        """Empty in records of version 0.1.0."""
        return self.place.get("cpu", "")

    def may_round_as(self, other: Environment) -> bool:
        """Whether two records may come from the same kind of processor. Older ones lack its name or its generation."""
        one, two = sorted((self.processor, other.processor), key=len)
        return not one or one == two or two.startswith(f"{one} (")


@dataclass(frozen=True)
class EncoderScores:
    """Label-free scores of an encoder, on some training rows; None where undefined."""

    uniformity: float | None = None
    """Wang and Isola, 2020: 0 if all rows are encoded alike."""
    rank_me: float | None = None
    """Effective rank of the encoded rows (Garrido et al., 2023)."""
    embedding_variance: float | None = None
    """Variance over rows, averaged over the entries of an embedding."""
    collapse_ratio: float | None = None
    """Spread of the rows relative to their size; small if they are nearly equal."""
    mean_distance: float | None = None
    """Mean Euclidean distance between rows."""
    mean_kl: float | None = None
    """Mean Kullback-Leibler divergence between rows."""
    pretext_loss: float | None = None
    """Loss of the pretext task on validation rows at the epoch that was kept; comparable within one method."""
    rows: int = 0
    """Number of training rows used."""


@dataclass(frozen=True)
class Record:
    """A result, a trial of tuning, or a failure."""

    key: str
    """Hash of everything that determines the result."""
    status: Status
    """How the job ended: ok, failed, timeout, out_of_memory, killed, pruned or cancelled."""
    kind: Literal["result", "trial"] = "result"
    """A result belongs in tables; a trial is one step of tuning."""
    schema: int = SCHEMA_VERSION
    """Version of this list of fields."""
    time: float = 0.0
    """When it was written, in seconds since 1970."""
    ssl: str = ""
    """SSL method, ``none`` or ``untrained:METHOD``."""
    model: str = ""
    """Downstream model."""
    data: str = ""
    """Dataset."""
    data_key: str = ""
    """Start of the hash of the dataset's content."""
    split: int = 0
    """Number of the data split."""
    seed: int | None = None
    """Number of the initialisation of the model. None: results of this model do not depend on it."""
    protocol: str | None = None
    """How the encoder is used: frozen or finetune; raw without an encoder. None in old records: frozen or raw."""
    labels: str | None = None
    """Number of labels, as given: ``10%`` or ``200``. None: all."""
    validation_labels: str | None = None
    """With few labels: ``same`` if validation has the same share of labels, ``all`` if it has all."""
    probe: str | None = None
    """``never`` if no label chose among the encoder's weights. None: the visible labels did."""
    split_rule: str | None = None
    """How rows were split. None: random 80/10/10."""
    main_metric: str | None = None
    """The metric given with ``run --metric``. None: the task's default."""
    weights: str | None = None
    """How training rows were weighted: by ``balanced classes``, a column, or both. None: all count the same."""
    threads: int | None = None
    """Threads per job. None: one."""
    fidelity: str = ""
    """Only records of the same fidelity are ranked together."""
    preset: str | None = None
    """quick, standard or paper."""
    rows_limit: int | None = None
    """``--rows``, if given."""
    trials: int | None = None
    """Tuning trials for the model."""
    ssl_trials: int | None = None
    """Tuning trials for the SSL method."""
    variant: str | None = None
    """Settings that the user gave."""
    uses_labels: bool | None = None
    """Whether the method learns from labels."""
    plugins: dict[str, Origin] | None = None
    """Distribution, version and revision of the method and the model."""
    task: str | None = None
    """binary, multiclass or regression."""
    metric: str | None = None
    """The metric of ``score``."""
    score: float | None = None
    """The main score on the test part."""
    test: Scores | None = None
    """All scores on the test part."""
    validation: Scores | None = None
    """All scores on the validation part."""
    flags: list[str] | None = None
    """Why the result cannot be trusted; tables leave flagged records out."""
    notes: list[str] | None = None
    """Notes on the table and this split, for readers."""
    counts: Counts | None = None
    """Rows of each part, features, classes."""
    hashes: Hashes | None = None
    """Hashes of data, split, encoder, representation and predictions."""
    encoder_scores: EncoderScores | None = None
    """Label-free scores of the encoder before any fine-tuning: uniformity, effective rank, pretext loss and others."""
    seconds: dict[str, float] | None = None
    """Wall time of pretraining, encoding, fitting and predicting; for a trial, in total."""
    environment: Environment | None = None
    """Versions, machine, device, threads, peak memory."""
    config: Settings | None = None
    """Resolved settings of method (``ssl``), model and joint method; for a trial, those it tried."""
    diagnostics: Diagnostics | None = None
    """What method and model reported about their training."""
    tuning: dict[str, TuningSummary] | None = None
    """How settings were found: one summary per study."""
    study: str | None = None
    """For a trial: the key of its study."""
    number: int | None = None
    """For a trial: its number."""
    value: float | None = None
    """For a trial: its score on validation, higher is better."""
    reports: dict[str, float] | None = None
    """For a trial: validation scores by epoch."""
    error: str | None = None
    """For a failure: one line."""
    traceback: str | None = field(default=None, repr=False)
    """For a failure: where it happened."""

    @classmethod
    def make(cls, planned: Planned, key: str, outcome: Outcome, **known: Any) -> Record:
        """Combine what the plan knew with what the job found out."""
        # The plan comes last, so that a job cannot pretend to be another one.
        value = {**outcome.result, **planned.to_json(), "key": key, "status": outcome.status, **known}
        how = {name: found for name in ("place", "retries") if (found := getattr(outcome, name))}
        if how:
            value["environment"] = {**(value.get("environment") or {}), **how}
        if outcome.status not in ("ok", "pruned"):
            value |= {"error": outcome.error, "traceback": outcome.traceback}
        try:
            return cls.from_json(value)
        except BadRecordError as error:  # from a worker that is not ours: it must not end the run
            wrong = Outcome("failed", error=f"the job gave something that is not a result: {error}")
            return cls.make(planned, key, wrong)

    @classmethod
    def from_json(cls, value: Any) -> Record:
        """A record from a line of a results folder; unknown fields are ignored.

        Raises:
            BadRecordError: it lacks a key or a status, or a field has another type.
        """
        check_fields(value)
        known = {name: value[name] for name in COLUMNS if value.get(name) is not None}
        if isinstance(known.get("seconds"), (int, float)):  # of a trial, as version 0.1.0 wrote it
            known["seconds"] = {"trial": known["seconds"]}
        try:
            for name, make in _NESTED.items():
                if name in known:
                    known[name] = make(known[name])
            return cls(**known)
        except (TypeError, ValueError, AttributeError) as error:
            raise BadRecordError(f"a field has an unexpected content: {' '.join(str(error).split())[:120]}") from None

    def to_json(self) -> JsonObject:
        """Plain JSON values, without empty fields."""
        found = {name: getattr(self, name) for name in COLUMNS}
        return {name: _plain(value) for name, value in found.items() if value is not None}

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do: a complete result, or a trial that would end like this again."""
        used = self.environment.threads if self.environment else 0
        return is_final(self.status, self.kind, self.flags or (), self.threads, used)


def is_final(status: str, kind: str | None, flags: Collection[str], threads: int | None, used: int) -> bool:
    """Whether a record leaves nothing to do.

    The threads ``used`` must be those requested; 0 means unknown. Version 0.1.0 used as many as there were free cores,
    under the same key.
    """
    if used not in (0, threads or 1):
        return False
    if kind == "trial":
        return status in FINAL
    return status == "ok" and UNFINISHED_TUNING not in flags


def check_fields(value: Any) -> None:
    """Refuse what cannot be a record: a field is missing or has the wrong type.

    Raises:
        BadRecordError: says what is wrong.
    """
    if not isinstance(value, dict) or not isinstance(value.get("key"), str) or value.get("status") not in STATUSES:
        raise BadRecordError("it has no key or no status")
    shapes = _TRIAL_SHAPES if value.get("kind") == "trial" else _SHAPES
    for name, content in value.items():
        if content is None or (type(content) is str and name in _TEXTS):  # most are, so without a call
            continue
        fits = shapes.get(name)
        if fits is not None and not fits(content):
            raise BadRecordError(f"its field {name!r} holds {json.dumps(content)[:80]}")
    if value["status"] == "ok" and value.get("kind") != "trial":
        for name in _OF_A_RESULT:
            if value.get(name) is None:
                raise BadRecordError(f"it is a result without {name!r}")


def _columns() -> dict[str, ColumnType]:
    """Name and type of each column of the parquet copy, from the types of the fields."""
    simple: dict[Any, ColumnType] = {str: "string", int: "int64", float: "double", bool: "bool"}
    columns: dict[str, ColumnType] = {}
    for name, hint in get_type_hints(Record).items():
        kinds = {simple.get(part, "json") for part in (get_args(hint) or (hint,)) if part is not type(None)}
        literal = all(isinstance(part, str) for part in get_args(hint)) and get_args(hint)
        columns[name] = "string" if literal else next(iter(kinds)) if len(kinds) == 1 else "json"
    return columns


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, TuningSummary):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _only_known(cls: Any, value: Any) -> Any:
    names = {item.name for item in dataclasses.fields(cls)}
    return cls(**{name: item for name, item in value.items() if name in names})


STATUSES = get_args(Status)
DEFAULTS = {each.name: each.default for each in dataclasses.fields(Record) if each.default is not dataclasses.MISSING}
"""The value of a field that is left out."""
COLUMNS = _columns()
"""Columns of the parquet copy with their types; ``json`` columns hold JSON texts."""
_SHAPES = {name: shape_of(hint) for name, hint in get_type_hints(Record).items()}
_TEXTS = {name for name, hint in get_type_hints(Record).items() if takes_text(hint)}
_TRIAL_SHAPES = {**_SHAPES, "seconds": shape_of(dict[str, float] | float)}  # version 0.1.0 wrote a number
_OF_A_RESULT = ("ssl", "model", "data", "metric", "test")
"""Fields that tables need from a result that is ok."""
_NESTED: Mapping[str, Any] = {
    "plugins": lambda value: {role: _only_known(Origin, origin) for role, origin in value.items()},
    "counts": lambda value: _only_known(Counts, value),
    "hashes": lambda value: _only_known(Hashes, value),
    "encoder_scores": lambda value: _only_known(EncoderScores, value),
    "environment": lambda value: _only_known(Environment, value),
    "tuning": lambda value: {role: TuningSummary.from_json(summary) for role, summary in value.items()},
}
