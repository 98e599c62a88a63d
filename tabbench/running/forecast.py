"""Estimate how long a run takes: from similar stored steps, or from a few epochs of each training."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tabbench.contracts import Executor, Job
from tabbench.contracts.job import content_key
from tabbench.data.cache import cache_dir
from tabbench.data.labels import LabelBudget
from tabbench.experiment.payloads import (
    Address,
    CalibratePayload,
    EncodePayload,
    FitPayload,
    PretrainPayload,
    Shape,
)
from tabbench.experiment.plan import Step
from tabbench.results.store import Store
from tabbench.running.display import duration
from tabbench.running.launch import Launcher
from tabbench.running.resources import jobs_at_a_time

CALIBRATION_TIMEOUT = 30.0
"""Seconds after which a training that has not finished one epoch on few rows counts as unknown."""


def trained_by(step: Step) -> Address:
    """The plugin that does the work of a step."""
    assert isinstance(step.payload, PretrainPayload | EncodePayload | FitPayload)
    return step.payload.model if isinstance(step.payload, FitPayload) else step.payload.method


def _finetuned(method: str, model: str) -> tuple[str, str]:
    """How fine-tuning of a pair is known: its time is that of both networks; an untrained encoder takes as long."""
    return "finetune", f"{method.rpartition(':')[2]} + {model}"


class Timings:
    """What similar steps took on this machine, from the records of a results folder."""

    about = "about"
    source = "scaled by table size from steps stored here"

    def __init__(self, store: Store) -> None:
        self.seconds: dict[tuple[str, str], list[float]] = {}
        """Seconds per million table cells, by kind and plugin."""
        for record in store.records():
            counts, seconds = record.counts, record.seconds
            if record.kind == "trial" or record.status != "ok" or counts is None or seconds is None:
                continue
            cells = counts.features / 1e6
            place = _finetuned(record.ssl, record.model) if record.protocol == "finetune" else ("fit", record.model)
            self._add(*place, seconds["fit"] / ((counts.train + counts.validation + counts.test) * cells))
            if seconds["pretrain"]:
                rows = (counts.pretraining or counts.train) + counts.validation + counts.test
                self._add("pretrain", record.ssl, seconds["pretrain"] / (rows * cells))

    def _add(self, kind: str, plugin: str, value: float) -> None:
        self.seconds.setdefault((kind, plugin), []).append(value)

    def of(self, step: Step) -> float | None:
        """Seconds that a step may take; None if nothing similar was run."""
        if step.kind == "encode":
            return 0.0
        first = step.study.make_step(step.study.configured.config) if step.study else step
        payload = first.payload
        name = trained_by(first).name
        place = ("pretrain" if isinstance(payload, PretrainPayload) else "fit", name)
        rows: float = payload.manifest.rows
        if isinstance(payload, FitPayload):
            if payload.method is not None:
                place = _finetuned(payload.method.name, name)
            if payload.labels is not None:
                budget = LabelBudget.parse(payload.labels.budget)
                rows = min(rows, budget.count(round(0.8 * rows)) / 0.8)
        known = self.seconds.get(place)
        if known is None:
            return None
        size = rows * payload.manifest.n_features / 1e6
        return statistics.median(known) * size * (step.study.n_trials if step.study else 1)

    def describe(self, steps: Iterable[Step]) -> str:
        estimates = [self.of(step) for step in steps]
        known = [seconds for seconds in estimates if seconds is not None]
        slots = jobs_at_a_time(1)
        if not estimates:
            return "nothing to run"
        if not any(known):
            return (
                "time: unknown, because nothing similar is stored here; --calibrate times a few epochs of each training"
            )
        missing = len(estimates) - len(known)
        beside = f", and {missing} step(s) of unknown length" if missing else ""
        return f"time: {self.about} {duration(sum(known) / slots)} with {slots} job(s) at a time, {self.source}{beside}"


class Calibration(Timings):
    """What a few epochs of each training take, on made-up rows of the same shape, in worker processes."""

    about = "at most about"
    source = "from a few epochs of each training, not counting early stopping and pruning"

    def __init__(self, launcher: Launcher, store: Store, steps: list[Step]) -> None:
        self.measured: dict[str, float | None] = {}
        jobs = {job.key: job for step in steps if (job := self._job(step)) is not None}
        launcher = replace(launcher, limits=replace(launcher.limits, timeout=CALIBRATION_TIMEOUT))
        with tempfile.TemporaryDirectory(prefix="tabbench-") as folder:
            # On this machine a dry run leaves nothing behind; the nodes of a cluster see the results folder only.
            executor = launcher(store if launcher.start.patience else Store(Path(folder)))
            try:
                self._measure(executor, list(jobs.values()))
            finally:
                executor.close()

    def _measure(self, executor: Executor, waiting: list[Job]) -> None:
        running: set[str] = set()
        while waiting or running:
            while waiting and len(running) < executor.slots and executor.room("calibrate") > 0:
                job = waiting.pop(0)
                running.add(job.key)
                executor.submit(job)
            executor.expect({"calibrate": len(waiting)} if waiting else {})
            for event in executor.wait(1.0):
                if event.outcome is not None and event.key in running:
                    running.remove(event.key)
                    self.measured[event.key] = event.outcome.result.get("seconds")

    def _job(self, step: Step) -> Job | None:
        """A calibration for the training of a step; steps that train the same on the same shape share one."""
        first = step.study.make_step(step.study.configured.config) if step.study else step
        payload = first.payload
        finetune = isinstance(payload, FitPayload) and payload.method is not None
        if isinstance(payload, PretrainPayload) and payload.trained:
            plugin, model = payload.method, payload.model
        elif isinstance(payload, FitPayload):
            plugin, model = payload.joint or payload.method or payload.model, payload.model
        else:
            return None
        wanted = CalibratePayload(
            plugin=plugin,
            model=model,
            finetune=finetune,
            shape=Shape.of(payload.manifest),
            store=tempfile.gettempdir(),
            cache=str(cache_dir()),
        )
        return Job(content_key(wanted.to_json()), "calibrate", step.label, wanted.to_json())

    def of(self, step: Step) -> float | None:
        job = self._job(step)
        if job is None:
            return 0.0
        seconds = self.measured.get(job.key)
        return None if seconds is None else seconds * (step.study.n_trials if step.study else 1)
