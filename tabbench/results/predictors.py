"""Which label-free score predicts downstream performance? Answered from the records of results folders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tabbench.contracts.metrics import LOWER_IS_BETTER
from tabbench.experiment.controls import method_of
from tabbench.results.record import Record
from tabbench.results.row_settings import split_settings
from tabbench.results.statistics.predictors import HeldOut, Judged, RatedScore, hold_out, rate_predictors

WITHIN_METHOD = ("pretext_loss",)
"""Scores that can be compared only within one method."""


@dataclass(frozen=True)
class Prediction:
    """The answer from a set of records."""

    predictors: list[RatedScore]
    held_out: list[HeldOut]
    results: int
    """Results and trials with label-free scores."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def predict_quality(records: Iterable[Record]) -> Prediction:
    """Compare the order of encoders by each label-free score with their order by downstream performance."""
    once = {record.key: record for record in records}  # folders may share records
    judged = [found for record in once.values() if (found := _judge(record)) is not None]
    predictors = rate_predictors(judged, WITHIN_METHOD)
    return Prediction(predictors, hold_out(predictors), len(judged))


def _judge(record: Record) -> Judged | None:
    """Judge the encoder of a record; for a trial, by the probe on validation rows."""
    scores = record.encoder_scores
    if record.status != "ok" or record.flags or scores is None or scores.rows == 0:
        return None
    split = (record.data_key, record.split, record.split_rule, record.rows_limit)
    family = method_of(record.ssl)
    if record.kind == "trial":
        reader: tuple[Any, ...] = ("probe", record.study)
        encoder: tuple[Any, ...] = (record.study, record.number)
        quality = record.value
    else:
        reader = _reader(record)
        encoder = (record.ssl, record.hashes.encoder if record.hashes else None)
        sign = -1.0 if record.metric in LOWER_IS_BETTER else 1.0
        quality = None if record.score is None else sign * record.score
    if quality is None:
        return None
    known = {name: value for name, value in asdict(scores).items() if name != "rows"}
    return Judged(record.data, split, reader, encoder, family, known, quality)


def _reader(record: Record) -> tuple[Any, ...]:
    """What read the encoder, and how: results that differ in any of this are not put in one order.

    Settings of a model count as the user gave them: those that tuning finds differ from encoder to encoder.
    """
    return (
        record.model,
        split_settings(record.variant or "", record.model)[1],
        record.protocol,
        record.labels,
        record.fidelity,
        record.trials,
        record.metric,
        record.weights,
        record.threads,
        record.seed or 0,  # a model without seeds may have had them in older records
    )
