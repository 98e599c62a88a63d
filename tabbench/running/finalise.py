"""Fit a final pipeline: on all labelled rows, or exactly as a record's model was fitted."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tabbench.context import Context
from tabbench.contracts import BackboneMethod, JointMethod, Limits
from tabbench.contracts.weighting import Weighting
from tabbench.data.cache import Manifest
from tabbench.data.inference import month_first_columns
from tabbench.data.prepare import open_all
from tabbench.data.weights import training_weights
from tabbench.errors import UsageError
from tabbench.experiment.controls import method_of
from tabbench.experiment.graph import Plan, Step
from tabbench.experiment.payloads import EncodePayload, FitPayload
from tabbench.experiment.settings import Configured
from tabbench.registry import Registry
from tabbench.running.features import as_table, open_features, open_job_split
from tabbench.running.pipeline import Pipeline
from tabbench.running.steps import do_job, load_class, make, train_learner
from tabbench.values import Labelled, Representation

if TYPE_CHECKING:
    from tabbench.results.record import Record
    from tabbench.results.store import Store

ALL_ALIKE = Weighting()


def fit_pipeline(
    method: Configured | None,
    model: Configured,
    manifest: Manifest,
    registry: Registry,
    context: Context,
    without: Collection[str] = (),
    weighting: Weighting = ALL_ALIKE,
    *,
    finetune: bool = False,
    metric: str = "",
) -> Pipeline:
    """Fit encoder and model on all labelled rows; a tenth of them is only for early stopping.

    ``without`` are columns that decided the split of the benchmark, so they are not features. With ``finetune`` the
    encoder is trained further, together with the model. ``metric`` is what early stopping watches, if not the default.

    Raises:
        UsageError: the method trains the model itself, or the model cannot be saved.
    """
    data = open_all(manifest, without=without, weights=weighting.column)
    data = replace(data, task=replace(data.task, metric=metric))
    if weighting and not model.entry.plugin.weights:
        raise UsageError(f"{model.name} does not support weights: choose another model")
    if weighting and method is not None and method.entry.plugin.uses_labels:
        raise UsageError(f"{method.name} learns from labels and does not support weights: choose another method")
    fitted = _make(model, registry)
    _refuse_unsaved(fitted)
    train, validation, encoder = data.train, data.validation, None
    if method is not None:
        if method.entry.plugin.gives == "predictions":
            raise UsageError(f"{method.name!r} trains the model itself; such pairs cannot be saved yet")
        encoder = _make(method, registry)
        encoder.device = context.device
        if isinstance(encoder, BackboneMethod):
            encoder.model = fitted
        rows, held_out = as_table(train.features), as_table(validation.features)
        more = data.unlabelled
        if isinstance(encoder, JointMethod):
            unlabelled = None if more is None else rows.join(more)
            encoder.fit(train, validation, data.task, replace(context, unlabelled=unlabelled))
        else:
            encoder.pretrain(rows if more is None else rows.join(more), replace(context, validation=held_out))
        if not finetune:
            train = Labelled(Representation(encoder.encode(rows).array), train.y)
            validation = Labelled(Representation(encoder.encode(held_out).array), validation.y)
    weights = training_weights(data.train.y, data.weights, balanced=weighting.on(manifest.task).balanced)
    context = replace(context, weights=weights)
    if encoder is not None and finetune:
        fitted.finetune(encoder.trainable_encoder(), train, validation, data.task, context)
    else:
        fitted.fit(train, validation, data.task, context)
    return Pipeline(
        schema=as_table(data.train.features).schema,
        task=data.task,
        target=manifest.target,
        class_names=data.class_names,
        target_mean=data.target_mean,
        target_std=data.target_std,
        model_name=model.name,
        model=fitted,
        method_name=method.name if method is not None else None,
        method=encoder,
        finetuned=encoder is not None and finetune,
        month_first=month_first_columns(as_table(data.train.features).schema.numeric, manifest.notes),
        decimal_commas=manifest.decimal_commas,
        thousands=manifest.thousands,
        about={"data": manifest.name, "data_key": manifest.key, "rows": len(train.y) + len(validation.y)},
    )


def fit_as_recorded(record: Record, plan: Plan, last: Step, store: Store, context: Context) -> Pipeline:
    """Refit a record's own model, with the same rows, seeds and settings, and compare the predictions.

    Raises:
        UsageError: its predictions differ from the record's.
    """
    limits = Limits(context.threads, context.device)
    for key, step in plan.steps.items():
        if key != last.key and not store.has_artefact(step.kind, key):
            do_job(step.to_job(), store, limits, context.on_report)
    payload = last.payload
    assert isinstance(payload, FitPayload)
    split = open_job_split(payload)
    features = open_features(payload, store, split)
    learner = train_learner(payload, features, split, store, replace(context, root_seed=payload.seed))
    if isinstance(learner, JointMethod):
        raise UsageError(f"{record.ssl!r} trains the model itself; such pairs cannot be saved yet")
    _refuse_unsaved(learner)
    predictions = np.ascontiguousarray(learner.predict(features.test).astype(np.float32, copy=False))
    found = hashlib.sha256(predictions.tobytes()).hexdigest()
    if record.hashes is None or found != record.hashes.predictions:
        raise UsageError(
            "the refitted model's predictions differ from the record's: different code, libraries or machine; "
            "omit --as-recorded to fit on all rows"
        )
    encoder = _encoder_of(plan, payload, store, context.device)
    return Pipeline(
        schema=split.test.schema,
        task=split.task,
        target=payload.manifest.target,
        class_names=split.class_names,
        target_mean=split.target_mean,
        target_std=split.target_std,
        model_name=payload.model.name,
        model=learner,
        method_name=method_of(record.ssl) if encoder is not None else None,
        method=encoder,
        finetuned=payload.method is not None,
        month_first=month_first_columns(split.test.schema.numeric, payload.manifest.notes),
        decimal_commas=payload.manifest.decimal_commas,
        thousands=payload.manifest.thousands,
        about={"data": payload.manifest.name, "data_key": payload.manifest.key, "record": record.key},
    )


def _encoder_of(plan: Plan, payload: FitPayload, store: Store, device: str) -> Any:
    if payload.method is not None:
        found = load_class(payload.method)
        options = {"model": make(payload.model)} if issubclass(found, BackboneMethod) else {}
        return found.load(store.open_artefact("pretrain", payload.encoder), device, **options)
    if payload.features is None:
        return None
    encode = plan.steps[payload.features].payload
    assert isinstance(encode, EncodePayload)
    return load_class(encode.method).load(store.open_artefact("pretrain", encode.encoder), device)


def _make(configured: Configured, registry: Registry) -> Any:
    found = registry.load(configured.entry)
    return found(found.Config.resolve(configured.config, configured.name))


def _refuse_unsaved(model: Any) -> None:
    from tabbench.contracts import DownstreamModel

    if type(model).get_state is DownstreamModel.get_state:
        raise UsageError(f"{type(model).__name__} cannot be saved: it has no get_state; choose another model")
