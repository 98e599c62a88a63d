"""Job -> result: what happens inside the process of one job.

The steps of a chain are ``pretrain`` (an encoder), ``encode`` (its representation of all rows) and ``fit`` (a
downstream model, scored once on the sealed test part).
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tabbench.config import PluginSettings
from tabbench.context import Context
from tabbench.contracts import (
    BackboneMethod,
    DownstreamModel,
    Event,
    Job,
    JointMethod,
    Limits,
    SSLMethod,
    TrainableEncoder,
)
from tabbench.contracts.configurable import Diagnostics
from tabbench.contracts.job import is_usable
from tabbench.contracts.metrics import LOWER_IS_BETTER, main_metric, score_predictions
from tabbench.data.prepare import SplitData
from tabbench.data.weights import training_weights
from tabbench.errors import PluginError
from tabbench.experiment.payloads import (
    Address,
    CalibratePayload,
    EncodePayload,
    FitPayload,
    PretrainPayload,
    TuningSummary,
)
from tabbench.registry import import_class, load_file
from tabbench.results.artefacts import digest_of
from tabbench.results.record import Counts, EncoderScores, Environment, Hashes, Scores
from tabbench.results.store import Store
from tabbench.running import tripwires
from tabbench.running.artefacts import EncodeArtefact, PretrainArtefact
from tabbench.running.calibration import CALIBRATION_TIMEOUT, measure
from tabbench.running.encoder_scores import score_encoder
from tabbench.running.environment import environment, reset_peak_memory
from tabbench.running.features import (
    JobFeatures,
    encode_to_file,
    make_probe,
    open_features,
    open_job_split,
    pretraining_rows,
    sample_rows,
)
from tabbench.running.rehearsal import RehearsalPayload, rehearse
from tabbench.running.surroundings import Surroundings
from tabbench.values import Features, JsonObject, Labelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1e-4
"""How far a probability may be outside 0..1."""
Reporter = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial, from validation alone."""

    seconds: float
    value: float | None
    """Higher is better; None if there is no finite score."""
    encoder_scores: EncoderScores | None = None
    """For a pretraining: label-free scores of its encoder."""


@dataclass(frozen=True)
class FitResult:
    """What a result adds to its record; the fields are those of ``Record``."""

    config: PluginSettings
    task: str
    metric: str
    score: float | None
    test: Scores
    validation: Scores
    flags: list[str]
    notes: list[str]
    counts: Counts
    hashes: Hashes
    encoder_scores: EncoderScores | None
    seconds: dict[str, float]
    environment: Environment
    diagnostics: dict[str, Diagnostics]
    tuning: dict[str, TuningSummary]

    def to_json(self) -> JsonObject:
        tuning = {part: summary.model_dump() for part, summary in self.tuning.items()}
        return {**asdict(replace(self, tuning={})), "tuning": tuning}


def do_job(
    job: Job,
    store: Store,
    limits: Limits,
    report: Reporter | None = None,
    interrupt: Callable[[], None] | None = None,
    surroundings: Surroundings | None = None,
) -> JsonObject:
    """Do the work of a job. The result is JSON; artefacts are in the store. ``tabbench.run_job`` is the public way."""
    surroundings = surroundings or Surroundings()
    context = Context(
        root_seed=int(job.payload["seed"]),
        device=limits.device,
        threads=limits.threads,
        memory=limits.memory,
        deadline=None if limits.timeout is None else time.monotonic() + limits.timeout,
        on_report=report,
        interrupt=interrupt,
    )
    match job.kind:
        case "pretrain":
            return asdict(pretrain(job.key, PretrainPayload.from_json(job.payload), store, context, surroundings))
        case "encode":
            return encode(job.key, EncodePayload.from_json(job.payload), store, context, surroundings)
        case "trial":
            return asdict(trial(FitPayload.from_json(job.payload), store, context))
        case "fit":
            return fit(FitPayload.from_json(job.payload), store, context, surroundings).to_json()
        case "calibrate":
            return calibrate(CalibratePayload.from_json(job.payload), context)
        case "rehearse":
            return rehearse(RehearsalPayload.from_json(job.payload), context)
    raise PluginError(f"there is no job of kind {job.kind!r}")


def pretrain(
    key: str, payload: PretrainPayload, store: Store, context: Context, surroundings: Surroundings
) -> TrialResult:
    """Train an encoder on training rows (or only initialise it, for the untrained control) and store it."""
    split = open_job_split(payload)
    method = make(payload.method)
    if payload.model is not None:
        method.model = make(payload.model)
    scratch = store.scratch(key)
    reports = Reports(scratch / "reports.json", context.on_report)
    probe = make_probe(split) if payload.probed else None
    finetuned = _finetuned(payload.model, split, context) if payload.probed and payload.model is not None else None
    context = replace(context, scratch=scratch, probe=probe, finetuned=finetuned, on_report=reports.add)
    started = time.perf_counter()
    _pretrain(method, payload.trained, split, context)
    seconds = time.perf_counter() - started
    with store.write_artefact("pretrain", key) as folder:
        method.save(folder)
        about = PretrainArtefact(
            seconds=seconds,
            probe=probe(method.encode) if probe is not None else None,
            encoder=hashlib.sha256((folder / "state.safetensors").read_bytes()).hexdigest(),
            config=method.config.to_json(),
            diagnostics=_told(method.diagnostics, surroundings),
            threads=context.threads,
            reports=reports.scores,
            scores=score_encoder(method.encode, split.train_rows, method.diagnostics),
            distribution=payload.method.distribution,
        )
        about.write(folder)
    store.drop_scratch(key)
    return TrialResult(seconds, about.probe, about.scores)


def _pretrain(method: Any, trained: bool, split: SplitData, context: Context) -> None:
    method.device = context.device
    context = replace(context, validation=split.validation_rows)
    if isinstance(method, JointMethod):
        rows = pretraining_rows(split)
        method.fit(split.train, split.validation, split.task, replace(context, unlabelled=rows))
    elif trained:
        method.pretrain(pretraining_rows(split), context)
    else:
        method.initialise(pretraining_rows(split), context)


def _finetuned(address: Address, split: SplitData, context: Context) -> Callable[[TrainableEncoder], float]:
    """Scores a backbone on validation by fine-tuning a copy of it. It sees only the kept labels."""
    metric = main_metric(split.task)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0

    def score(encoder: TrainableEncoder) -> float:
        model: DownstreamModel = make(address)
        copied = encoder._replace(module=copy.deepcopy(encoder.module))
        model.finetune(copied, split.train, split.validation, split.task, replace(context, on_report=None))
        found = _score_validation(split, _predict(model, split.validation.features, split))[metric]
        return -math.inf if found is None else sign * found

    return score


class Reports:
    """The scores that a pretraining reports to a tuner, stored with its checkpoint.

    A training that resumes after a kill reports them again: the tuner judges it by its whole curve, as if nothing had
    happened.
    """

    def __init__(self, file: Path, report: Reporter | None) -> None:
        self.file, self.report = file, report
        self.scores: list[tuple[int, float]] = []
        try:
            told: list[tuple[int, int, float]] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # nothing was reported, or a power cut destroyed it together with the checkpoint
            told = []
        self.told = {step: (step, total, value) for step, total, value in told}
        for step, total, value in self.told.values():
            self.add(step, total, {"probe": value})

    def add(self, step: int, total: int, metrics: dict[str, float]) -> None:
        value = Event("", step, total, metrics).score
        if value is not None and (not self.scores or step > self.scores[-1][0]):
            self.scores.append((step, value))
            if step not in self.told:
                self.told[step] = (step, total, value)
                draft = self.file.with_suffix(".draft")
                draft.write_text(json.dumps(list(self.told.values())), encoding="utf-8")
                draft.replace(self.file)
        if self.report is not None:
            self.report(step, total, metrics)


def encode(key: str, payload: EncodePayload, store: Store, context: Context, surroundings: Surroundings) -> JsonObject:
    """Encode all rows with a stored encoder, piece by piece into memory-mapped files."""
    encoder = store.open_artefact("pretrain", payload.encoder)
    method = load_class(payload.method).load(encoder, context.device)
    split = open_job_split(payload)
    parts = {"train": split.train_rows, "validation": split.validation_rows, "test": split.test}
    started = time.perf_counter()
    with store.write_artefact("encode", key) as folder:
        flags: list[str] = []
        digest = hashlib.sha256()
        for number, (name, features) in enumerate(parts.items()):
            array = encode_to_file(method.encode, features, folder / f"{name}.npy")
            digest.update(digest_of(folder / f"{name}.npy").encode())
            context.report(number + 1, len(parts))
            flags += tripwires.check_representation(sample_rows(array), part=name)
        flags += [tripwires.CHANGED_PROCESS] if surroundings.changes() else []
        about = EncodeArtefact(
            **PretrainArtefact.read(encoder).model_dump(),
            shape=list(array.shape[1:]),
            representation=digest.hexdigest(),
            encode_seconds=time.perf_counter() - started,
            flags=flags,
            tuning=payload.tuning,
        )
        about.write(folder)
    return {"seconds": about.encode_seconds, "flags": flags}


def trial(payload: FitPayload, store: Store, context: Context) -> TrialResult:
    """Train a downstream model and score it on validation alone: tuning never uses the test part."""
    split = open_job_split(payload)
    features = open_features(payload, store, split)
    started = time.perf_counter()
    learner = train_learner(payload, features, split, store, context)
    metric = main_metric(split.task)
    score = _score_validation(split, _predict(learner, features.validation, split))[metric]
    value = None if score is None else -score if metric in LOWER_IS_BETTER else score
    return TrialResult(time.perf_counter() - started, value)


def fit(payload: FitPayload, store: Store, context: Context, surroundings: Surroundings) -> FitResult:
    """Train a downstream model, choose by validation, and score the sealed test part once."""
    split = open_job_split(payload)
    features = open_features(payload, store, split)
    addresses = [each for each in (payload.model, payload.joint, payload.method) if each is not None]
    for address in addresses:  # importing a plugin is not part of its training
        load_class(address)
    reset_peak_memory()
    started = time.perf_counter()
    learner = train_learner(payload, features, split, store, context)
    fitted = time.perf_counter()
    predicted = {name: _predict(learner, getattr(features, name), split) for name in ("validation", "test")}
    seconds = {"fit": fitted - started, "predict": time.perf_counter() - fitted}
    flags = tripwires.check_predictions(split, predicted)
    on_validation = _score_validation(split, predicted["validation"])
    on_test: Scores = _json_values(split.sealed.score(predicted["test"]))
    flags += tripwires.check_scores(split, on_validation, on_test)
    about = features.about
    diagnostics = {"ssl": about.diagnostics if about else {}, "model": _told(learner.diagnostics, surroundings)}
    encoded = about if isinstance(about, EncodeArtefact) else None
    flags += tripwires.check_training(*diagnostics.values())
    metric = main_metric(split.task)
    return FitResult(
        config={
            "ssl": about.config if about else {},
            "model": payload.model.config,
            "joint": payload.joint.config if payload.joint else {},
        },
        task=split.task.kind,
        metric=metric,
        score=on_test[metric],
        test=on_test,
        validation=on_validation,
        flags=sorted({*(encoded.flags if encoded else []), *flags, *split.flags}),
        notes=[*split.notes, *tripwires.note_imbalance(split)],
        counts=_count(split, about),
        hashes=Hashes(
            data=payload.manifest.key,
            split=split.rows.key,
            encoder=about.encoder if about else None,
            representation=encoded.representation if encoded else None,
            predictions=hashlib.sha256(np.ascontiguousarray(predicted["test"]).tobytes()).hexdigest(),
        ),
        encoder_scores=about.scores if about else None,
        seconds={
            "pretrain": about.seconds if about else 0.0,
            "encode": encoded.encode_seconds if encoded else 0.0,
            **seconds,
        },
        environment=environment(
            context, [each.distribution for each in addresses] + ([about.distribution] if about else [])
        ),
        diagnostics=diagnostics,
        tuning=encoded.tuning if encoded else payload.tuning,
    )


def _count(split: SplitData, about: PretrainArtefact | None) -> Counts:
    return Counts(
        train=len(split.train.y),
        validation=len(split.validation.y),
        test=len(split.test),
        features=split.test.n_features,
        classes=split.task.n_classes,
        representation=about.shape if isinstance(about, EncodeArtefact) else None,
        pretraining=0 if about is None else len(pretraining_rows(split)),
    )


def calibrate(payload: CalibratePayload, context: Context) -> dict[str, float]:
    """How long the training of another job would take."""
    model = make(payload.model) if payload.model else None
    plugin: Any = make(payload.plugin) if payload.plugin else model
    plugin.device = context.device
    encoder = make(payload.encoder) if payload.encoder else None
    if isinstance(encoder, SSLMethod):
        encoder.device = context.device
    else:  # a joint method cannot be initialised without training
        encoder = None
    trained = payload.model if payload.finetune or payload.plugin is None else payload.plugin
    settings = trained.config if trained else {}
    deadline = time.monotonic() + CALIBRATION_TIMEOUT
    context = replace(context, deadline=min(deadline, context.deadline or deadline))
    seconds = measure(
        plugin, payload.shape, context, model, settings=settings, finetune=payload.finetune, encoder=encoder
    )
    return {"seconds": seconds}


def train_learner(
    payload: FitPayload, features: JobFeatures, split: SplitData, store: Store, context: Context
) -> DownstreamModel | JointMethod:
    """Train and return the model, or the joint method that trains the model's backbone."""
    train, validation = Labelled(features.train, split.train.y), Labelled(features.validation, split.validation.y)
    weights = training_weights(split.train.y, split.weights, balanced=payload.balanced)
    context = replace(context, weights=weights)
    model: DownstreamModel = make(payload.model)
    if payload.method is not None:
        encoder = _open_encoder(payload, payload.method, model, split, store, context)
        model.finetune(encoder, train, validation, split.task, context)
        return model
    if payload.joint is None:
        model.fit(train, validation, split.task, context)
        return model
    joint: JointMethod = make(payload.joint)
    joint.device = context.device
    joint.fit(train, validation, split.task, replace(context, unlabelled=pretraining_rows(split)), model)
    return joint


def _told(diagnostics: Diagnostics, surroundings: Surroundings) -> Diagnostics:
    """What training reported, and which shared state it changed."""
    changes = surroundings.changes()
    return {**_json_values(diagnostics), **({"surroundings": changes} if changes else {})}


def _open_encoder(
    payload: FitPayload, method: Address, model: DownstreamModel, split: SplitData, store: Store, context: Context
) -> TrainableEncoder:
    """Open the stored encoder to fine-tune; a trial of a backbone has none yet, so it pretrains one."""
    found = load_class(method)
    options = {"model": model} if issubclass(found, BackboneMethod) else {}
    if payload.encoder:
        loaded = found.load(store.open_artefact("pretrain", payload.encoder), context.device, **options)
    else:
        loaded = make(method)
        loaded.model = model
        inner = replace(context, root_seed=payload.split.seed, on_report=None)
        if payload.probed:
            inner = replace(inner, probe=make_probe(split), finetuned=_finetuned(payload.model, split, inner))
        _pretrain(loaded, payload.trained, split, inner)
    encoder: TrainableEncoder = loaded.trainable_encoder()
    return encoder


def load_class(address: Address) -> Any:
    """The class that an address of the plan names."""
    if address.file:
        load_file(Path(address.file))
    return import_class(address.target, address.distribution)


def make(address: Address) -> Any:
    """The plugin object that an address of the plan names, with its settings."""
    found = load_class(address)
    if not (isinstance(found, type) and issubclass(found, (SSLMethod, JointMethod, DownstreamModel))):
        raise PluginError(f"{address.target} is not a subclass of SSLMethod, JointMethod or DownstreamModel")
    return found(found.Config.resolve(address.config, address.name))


def _predict(learner: DownstreamModel | JointMethod, features: Features, split: SplitData) -> NDArray[np.float32]:
    predictions = np.asarray(learner.predict(features))
    wanted = (len(features),) if split.task.is_regression else (len(features), split.task.n_classes)
    if predictions.shape != wanted:
        raise PluginError(f"{type(learner).__name__}.predict gave shape {predictions.shape}, expected {wanted}")
    if not split.task.is_regression and len(predictions):
        low, high = float(predictions.min()), float(predictions.max())
        if low < -ROUNDING or high > 1 + ROUNDING:
            raise PluginError(
                f"{type(learner).__name__}.predict gave probabilities between {low:.3g} and {high:.3g}, not in 0..1"
            )
    return predictions.astype(np.float32, copy=False)


def _score_validation(split: SplitData, predictions: NDArray[np.float32]) -> Scores:
    mean, std = split.target_mean, split.target_std
    y = split.validation.y * std + mean if split.task.is_regression else split.validation.y
    scores: Scores = _json_values(score_predictions(split.task, y, predictions, std, mean))
    return scores


def _json_values(value: Any) -> Any:
    """Scores and diagnostics as JSON: numpy numbers become plain ones, values that are not finite become null."""
    if isinstance(value, dict):
        return {str(key): _json_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_values(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (int, float)) and not is_usable(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
