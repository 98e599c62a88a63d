"""Job -> result: what happens inside the process of one job.

The steps of a chain are ``pretrain`` (an encoder), ``encode`` (its representation of all rows) and ``fit`` (a
downstream model, scored once on the sealed test part).
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tabbench import tripwires
from tabbench.calibration import measure
from tabbench.context import Context, Probe
from tabbench.contracts import DownstreamModel, JointMethod, Limits
from tabbench.data.cache import Manifest
from tabbench.data.metrics import main_metric, score_predictions
from tabbench.data.prepare import SplitData, open_split
from tabbench.errors import PluginError
from tabbench.job import Event, Job
from tabbench.registry import import_class, load_file
from tabbench.store import Store
from tabbench.table import Features, Labelled, Representation, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENCODE_BYTES = 256 * 2**20
"""A representation is written in pieces of about this size, so that memory does not grow with the table."""
Reporter = Callable[[int, int, dict[str, float]], None]


def run_job(job: Job, store: Store, limits: Limits, report: Reporter | None = None) -> dict[str, Any]:
    """Do the work of a job. The result is JSON; artefacts are in the store."""
    context = Context(
        root_seed=int(job.payload["seed"]),
        device=limits.device,
        threads=limits.threads,
        memory=limits.memory,
        deadline=None if limits.timeout is None else time.monotonic() + limits.timeout,
        on_report=report,
    )
    steps: dict[str, Callable[[Job, Store, Context], dict[str, Any]]] = {
        "pretrain": pretrain,
        "encode": encode,
        "trial": trial,
        "fit": fit,
        "calibrate": calibrate,
    }
    return steps[job.kind](job, store, context)


def pretrain(job: Job, store: Store, context: Context) -> dict[str, Any]:
    """Train an encoder on training rows (or only initialise it, for the untrained control) and store it."""
    split = open_job_split(job)
    method = make(job.payload["method"])
    method.device = context.device
    scratch = store.scratch(job.key)
    reports = Reports(scratch / "reports.json", context.on_report)
    context = replace(
        context,
        scratch=scratch,
        validation=_table(split.validation.features),
        probe=_make_probe(split),
        on_report=reports.add,
    )
    started = time.perf_counter()
    train = _table(split.train.features)
    if isinstance(method, JointMethod):
        method.fit(split.train, split.validation, split.task, context)
    elif job.payload["trained"]:
        method.pretrain(train, context)
    else:
        method.initialise(train, context)
    seconds = time.perf_counter() - started
    assert context.probe is not None
    with store.write_artefact("pretrain", job.key) as folder:
        method.save(folder)
        about = {
            "seconds": seconds,
            "probe": context.probe(method.encode),
            "encoder": _hash_files(folder),
            "config": method.config.to_json(),
            "diagnostics": _json_values(method.diagnostics),
            "reports": reports.scores,
        }
        _write_json(folder / "step.json", about)
    store.drop_scratch(job.key)
    return {"seconds": seconds, "value": about["probe"]}


class Reports:
    """The scores that a pretraining reports to a tuner, kept beside its checkpoint.

    A training that goes on after a kill tells them again: the tuner judges it by its whole curve, as if nothing had
    happened.
    """

    def __init__(self, file: Path, report: Reporter | None) -> None:
        self.file, self.report = file, report
        self.scores: list[tuple[int, float]] = []
        try:
            told: list[tuple[int, int, float]] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # nothing was told, or a power cut took it: a checkpoint goes with it
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


def encode(job: Job, store: Store, context: Context) -> dict[str, Any]:
    """Encode all rows with a stored encoder, piece by piece into memory-mapped files."""
    encoder = store.artefact("pretrain", job.payload["encoder"])
    method = load_class(job.payload["method"]).load(encoder, context.device)
    split = open_job_split(job)
    parts = {"train": split.train.features, "validation": split.validation.features, "test": split.test}
    started = time.perf_counter()
    with store.write_artefact("encode", job.key) as folder:
        flags: list[str] = []
        digest = hashlib.sha256()
        for number, (name, features) in enumerate(parts.items()):
            array = encode_to_file(method.encode, _table(features), folder / f"{name}.npy")
            digest.update(_sample(array).tobytes())
            context.report(number + 1, len(parts))
            flags += tripwires.check_representation(_sample(array), part=name)
        about = {
            **read_step(encoder),
            "shape": list(array.shape[1:]),
            "representation": digest.hexdigest(),
            "encode_seconds": time.perf_counter() - started,
            "flags": flags,
            "tuning": job.payload.get("tuning", {}),
        }
        _write_json(folder / "step.json", about)
    return {"seconds": about["encode_seconds"], "flags": flags}


def trial(job: Job, store: Store, context: Context) -> dict[str, Any]:
    """Train a downstream model and score it on validation alone: the test part plays no part in tuning."""
    split = open_job_split(job)
    features = open_features(job, store, split)
    started = time.perf_counter()
    learner = _train(job, features, split, context)
    on_validation = _score_validation(split, _predict(learner, features["validation"], split))
    score = on_validation[main_metric(split.task)]
    value = None if score is None else -score if split.task.is_regression else score
    return {"seconds": time.perf_counter() - started, "value": value, "validation": on_validation}


def fit(job: Job, store: Store, context: Context) -> dict[str, Any]:
    """Train a downstream model, choose by validation, and score the sealed test part once."""
    split = open_job_split(job)
    features = open_features(job, store, split)
    for part in ("model", "joint"):  # what a plugin imports is no part of its training
        if job.payload[part] is not None:
            load_class(job.payload[part])
    _reset_peak_memory()
    started = time.perf_counter()
    learner = _train(job, features, split, context)
    fitted = time.perf_counter()
    predicted = {name: _predict(learner, features[name], split) for name in ("validation", "test")}
    flags = tripwires.check_predictions(split, predicted)
    on_validation = _score_validation(split, predicted["validation"])
    on_test = _json_values(split.sealed.score(predicted["test"]))
    flags += tripwires.check_scores(split, on_validation, on_test)
    metric = main_metric(split.task)
    encoded = features["about"]
    flags += tripwires.check_training(encoded.get("diagnostics", {}), learner.diagnostics)
    return {
        "config": {"ssl": encoded.get("config", {}), "model": job.payload["model"]["config"],
                   "joint": (job.payload["joint"] or {}).get("config", {})},
        "task": split.task.kind,
        "metric": metric,
        "score": on_test[metric],
        "test": on_test,
        "validation": on_validation,
        "flags": sorted({*encoded.get("flags", []), *flags}),
        "counts": {
            "train": len(split.train.y),
            "validation": len(split.validation.y),
            "test": len(split.test),
            "features": split.test.n_features,
            "classes": split.task.n_classes,
            "representation": encoded.get("shape"),
        },
        "hashes": {
            "data": job.payload["data"]["key"],
            "split": split.rows.key,
            "encoder": encoded.get("encoder"),
            "representation": encoded.get("representation"),
            "predictions": hashlib.sha256(np.ascontiguousarray(predicted["test"]).tobytes()).hexdigest(),
        },
        "seconds": {
            "pretrain": encoded.get("seconds", 0.0),
            "encode": encoded.get("encode_seconds", 0.0),
            "fit": fitted - started,
            "predict": time.perf_counter() - fitted,
        },
        "environment": {**environment(), "device": context.device, "threads": context.threads,
                        "peak_memory": _peak_memory()},
        "diagnostics": {"ssl": encoded.get("diagnostics", {}), "model": _json_values(learner.diagnostics)},
        "tuning": encoded.get("tuning", {}),
    }  # fmt: skip


def calibrate(job: Job, store: Store, context: Context) -> dict[str, Any]:
    """How long the training of another job would take."""
    model = make(job.payload["model"]) if job.payload["model"] else None
    plugin: Any = make(job.payload["plugin"]) if job.payload["plugin"] else model
    plugin.device = context.device
    return {"seconds": measure(plugin, job.payload["manifest"], context, model)}


def _train(job: Job, features: dict[str, Any], split: SplitData, context: Context) -> DownstreamModel | JointMethod:
    """The trained model, or the joint method that trained the model's backbone."""
    train, validation = Labelled(features["train"], split.train.y), Labelled(features["validation"], split.validation.y)
    model: DownstreamModel = make(job.payload["model"])
    if job.payload["joint"] is None:
        model.fit(train, validation, split.task, context)
        return model
    joint: JointMethod = make(job.payload["joint"])
    joint.device = context.device
    joint.fit(train, validation, split.task, context, model)
    return joint


def open_job_split(job: Job) -> SplitData:
    """The dataset of a job, split and encoded by its training rows."""
    split = job.payload["split"]
    return open_split(Manifest.from_json(job.payload["manifest"]), split["seed"], split["rows"])


def open_features(job: Job, store: Store, split: SplitData) -> dict[str, Any]:
    """What the model sees of each part: the raw table, or the memory-mapped representation; ``about`` tells of it."""
    key = job.payload["features"]
    if key is None:
        return {
            "train": split.train.features,
            "validation": split.validation.features,
            "test": split.test,
            "about": {},
        }
    folder = store.artefact("encode", key)
    features: dict[str, Any] = {"about": read_step(folder)}
    for name in ("train", "validation", "test"):
        features[name] = Representation(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
    return features


def load_class(address: dict[str, Any]) -> Any:
    """The class that an address of the plan names."""
    if address["file"]:
        load_file(Path(address["file"]))
    return import_class(address["target"], address["distribution"])


def make(address: dict[str, Any]) -> Any:
    """The plugin object that an address of the plan names, with its settings."""
    found = load_class(address)
    return found(found.Config.resolve(address["config"], address["name"]))


def encode_to_file(encode_rows: Callable[[Table], Representation], table: Table, path: Path) -> NDArray[np.float32]:
    """Encode ``table`` in pieces into a ``.npy`` file; the memory-mapped result."""
    first = _checked(encode_rows(table.take(slice(0, 1))), 1)
    rows = max(1, ENCODE_BYTES // max(first.nbytes, 1))
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(table), *first.shape[1:]))
    for start in range(0, len(table), rows):
        piece = table.take(slice(start, start + rows))
        out[start : start + rows] = _checked(encode_rows(piece), len(piece))
    out.flush()
    result: NDArray[np.float32] = out
    return result


def _checked(representation: Representation, n_rows: int) -> NDArray[np.float32]:
    array = representation.array
    if len(array) != n_rows or array.dtype != np.float32:
        raise PluginError(f"encode gave {array.dtype} of shape {array.shape} for {n_rows} rows; float32 is due")
    return array


def _make_probe(split: SplitData) -> Probe:
    """A linear probe on validation, for methods that choose among their own weights."""
    limit = 10_000
    train = _table(split.train.features)
    chosen = np.arange(len(train))
    if len(chosen) > limit:
        chosen = np.sort(np.random.default_rng(0).choice(len(chosen), limit, replace=False))

    def probe(encode_rows: Callable[[Table], Representation]) -> float:
        from tabbench.nn import probe_score

        return probe_score(
            encode_rows(train.take(chosen)).array,
            split.train.y[chosen],
            encode_rows(_table(split.validation.features)).array,
            split.validation.y,
            split.task,
        )

    return probe


def _predict(learner: DownstreamModel | JointMethod, features: Features, split: SplitData) -> NDArray[np.float32]:
    predictions = np.asarray(learner.predict(features))
    wanted = (len(features),) if split.task.is_regression else (len(features), split.task.n_classes)
    if predictions.shape != wanted:
        raise PluginError(f"{type(learner).__name__}.predict gave shape {predictions.shape}, {wanted} is due")
    return predictions.astype(np.float32, copy=False)


def _score_validation(split: SplitData, predictions: NDArray[np.float32]) -> dict[str, float]:
    mean, std = split.target_mean, split.target_std
    y = split.validation.y * std + mean if split.task.is_regression else split.validation.y
    scores: dict[str, float] = _json_values(score_predictions(split.task, y, predictions, std, mean))
    return scores


def _table(features: Features) -> Table:
    assert isinstance(features, Table)
    return features


def _sample(array: NDArray[np.float32], rows: int = 2000) -> NDArray[np.float32]:
    """At most so many rows, evenly spread, in memory."""
    step = max(1, len(array) // rows)
    return np.ascontiguousarray(array[::step][:rows])


def _hash_files(folder: Path) -> str:
    return hashlib.sha256((folder / "state.safetensors").read_bytes()).hexdigest()


def _json_values(value: Any) -> Any:
    """Diagnostics as JSON: numpy numbers made plain, what is not finite made null."""
    if isinstance(value, dict):
        return {str(key): _json_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_values(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def environment() -> dict[str, Any]:
    """Versions and machine, for the record."""
    packages = ("tabbench-ssl", "torch", "numpy", "pandas", "scikit-learn")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        "versions": {package: version(package) for package in packages},
    }


def _reset_peak_memory() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:  # not Linux: the peak is then that of the process
        return


def _peak_memory() -> int:
    """Peak resident bytes since the last reset."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        import psutil

        return int(psutil.Process().memory_info().rss)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False), encoding="utf-8")


def read_step(folder: Path) -> dict[str, Any]:
    """What the step that made an artefact had to say."""
    value: dict[str, Any] = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    return value
