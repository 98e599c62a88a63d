"""Estimate how long a run takes: from similar stored steps, or from a few epochs of each training."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tabbench.contracts import Executor, Job, Outcome
from tabbench.contracts.job import content_key
from tabbench.data.cache import cache_dir
from tabbench.data.labels import LabelBudget
from tabbench.experiment.graph import Plan, Step
from tabbench.experiment.payloads import (
    Address,
    CalibratePayload,
    EncodePayload,
    FitPayload,
    PretrainPayload,
    Shape,
)
from tabbench.results.store import Store
from tabbench.running.clock import Clock, duration, kinship
from tabbench.running.launch import Launcher
from tabbench.running.todo import urgency, what_to_do

CALIBRATE = "calibrate"
"""The kind of a measurement."""
PER_JOB = 0.3
"""Seconds that a job takes on top of its training."""
TRAINING = 0.8
"""Share of rows that are for training."""
CALIBRATION_SECONDS = 120.0
"""Time after which no measurement begins. What was not measured is scaled from the same plugin on another table."""


def trained_by(step: Step) -> Address:
    """The plugin that does the work of a step."""
    assert isinstance(step.payload, PretrainPayload | EncodePayload | FitPayload)
    return step.payload.model if isinstance(step.payload, FitPayload) else step.payload.method


def _places(ssl: str, model: str, *, finetune: bool) -> list[tuple[str, str]]:
    """How the training of a pair is known, closest first. An untrained encoder takes as long as a trained one; fine-
    tuning takes the time of both networks."""
    pair = f"{ssl.rpartition(':')[2]} + {model}"
    return [("finetune", pair)] if finetune else [("fit", pair), ("fit", model)]


class Timings:
    """What similar steps took on this machine, from the records of a results folder."""

    source = "scaled by table size from steps stored here"

    def __init__(self, store: Store, preset: str) -> None:
        """Read the records of a preset: others have other settings."""
        self.seconds: dict[tuple[str, str], list[float]] = {}
        """Seconds per million table cells, by kind and plugins."""
        for record in store.records():
            counts, seconds = record.counts, record.seconds
            if record.kind == "trial" or record.status != "ok" or counts is None or seconds is None:
                continue
            if record.preset not in (None, preset):
                continue
            cells = counts.features / 1e6
            rows = counts.train + counts.validation + counts.test
            for place in _places(record.ssl, record.model, finetune=record.protocol == "finetune"):
                self._add(*place, seconds["fit"] / (rows * cells))
            if seconds["pretrain"]:
                rows = (counts.pretraining or counts.train) + counts.validation + counts.test
                self._add("pretrain", record.ssl, seconds["pretrain"] / (rows * cells))

    def _add(self, kind: str, plugin: str, value: float) -> None:
        self.seconds.setdefault((kind, plugin), []).append(value)

    def of_job(self, step: Step, *, closely: bool = False) -> float | None:
        """Seconds that one job of a step may take; None if nothing similar was run.

        Args:
            step: the step; for a study, one of its trials is meant.
            closely: similar is only the same model on what the same method makes.
        """
        if step.kind == "encode":
            return 0.0
        payload = first_job(step).payload
        places = [("pretrain", trained_by(first_job(step)).name)]
        planned = step.planned or (step.study.planned if step.study is not None else None)
        if isinstance(payload, FitPayload):
            ssl = planned.ssl if planned else ""
            places = _places(ssl, payload.model.name, finetune=payload.method is not None)[: 1 if closely else None]
        elif isinstance(payload, PretrainPayload) and not payload.trained:
            return 0.0
        known = next((self.seconds[place] for place in places if place in self.seconds), None)
        if known is None:
            return None
        return statistics.median(known) * rows_of(step) * payload.manifest.n_features / 1e6

    def describe(self, steps: Iterable[Step], slots: int) -> str:
        todo = list(steps)
        clock = Clock(prior=self.of_job)
        clock.begin(todo, slots)
        seconds = clock.left()
        if not todo:
            return "nothing to run"
        if not seconds:
            return (
                "time: unknown, because nothing similar is stored here; --calibrate times a few epochs of each training"
            )
        missing = sum(self.of_job(step) is None for step in todo)
        beside = f", and {missing} step(s) of unknown length" if missing else ""
        return f"time: about {duration(seconds)} with {slots} job(s) at a time, {self.source}{beside}"


class Calibration(Timings):
    """What a few epochs of each training take, on made-up rows of the same shape, in worker processes."""

    source = "from a few epochs of each training; with early stopping, from how long such trainings usually are"

    def __init__(self, plan: Plan, steps: Iterable[Step]) -> None:
        """The trainings of the given steps of a plan are to be measured."""
        self.plan = plan
        self.measured: dict[str, float | None] = {}
        self.rates: dict[tuple[str, bool], list[float]] = {}
        """Seconds per table cell of what was measured, by plugin and whether it is fine-tuned."""
        jobs = {job.key: (job, step) for step in steps if (job := self._job(step)) is not None}
        seen: Counter[tuple[str, bool]] = Counter()
        order = {}
        for key, (job, step) in jobs.items():
            kin = _kin(CalibratePayload.from_json(job.payload))
            order[key] = (seen[kin], step.planned is not None)  # every plugin once, what is long first
            seen[kin] += 1
        self.waiting = {key: jobs[key] for key in sorted(jobs, key=order.__getitem__, reverse=True)}
        """Jobs that have not begun, the next one last; each with a step that it is for."""

    def measure(self, launcher: Launcher, store: Store, seconds: float = CALIBRATION_SECONDS) -> Self:
        """Measure what this time allows, and wait for it."""
        with tempfile.TemporaryDirectory(prefix="tabbench-") as folder:
            # On this machine a dry run leaves nothing behind; the nodes of a cluster see the results folder only.
            executor = launcher(store if launcher.start.patience else Store(Path(folder)))
            try:
                self._measure(executor, time.monotonic() + seconds)
            finally:
                executor.close()
        return self

    def _measure(self, executor: Executor, until: float) -> None:
        running: dict[str, Job] = {}
        while self.waiting or running:
            if self.measured and time.monotonic() > until:
                self.waiting.clear()
            while self.waiting and len(running) < executor.slots and executor.room(CALIBRATE) > 0:
                job = self.waiting.popitem()[1][0]
                running[job.key] = job
                executor.submit(job)
            executor.expect({CALIBRATE: len(self.waiting)} if self.waiting else {})
            for event in executor.wait(1.0):
                if event.outcome is not None and event.key in running:
                    payload = CalibratePayload.from_json(running.pop(event.key).payload)
                    self.take(event.key, event.outcome)
                    seconds = self.measured[event.key]
                    if seconds is not None:
                        self.rates.setdefault(_kin(payload), []).append(seconds / _cells(payload.shape))

    def take(self, key: str, outcome: Outcome) -> None:
        """Take the end of a measurement; one that failed leaves its training unknown."""
        self.measured[key] = outcome.result.get("seconds")

    def _job(self, step: Step) -> Job | None:
        """A calibration for the training of a step; steps that train the same on the same shape share one."""
        payload = first_job(step).payload
        finetune = isinstance(payload, FitPayload) and payload.method is not None
        encoder = None
        if isinstance(payload, PretrainPayload) and payload.trained:
            plugin, model = payload.method, payload.model
        elif isinstance(payload, FitPayload):
            plugin, model = payload.joint or payload.method or payload.model, payload.model
            encoder = self._encoder(payload)
        else:
            return None
        wanted = CalibratePayload(
            plugin=plugin,
            model=model,
            finetune=finetune,
            encoder=encoder,
            shape=Shape.of(payload.manifest, max(10, round(TRAINING * rows_of(step)))),
            store=tempfile.gettempdir(),
            cache=str(cache_dir()),
        )
        return Job(content_key(wanted.to_json()), CALIBRATE, f"measure {step.label}", wanted.to_json())

    def _encoder(self, payload: FitPayload) -> Address | None:
        """The method whose features a model is trained on."""
        step = self.plan.steps.get(payload.features or "")
        return step.payload.method if step is not None and isinstance(step.payload, EncodePayload) else None

    def of_job(self, step: Step, *, closely: bool = False) -> float | None:
        job = self._job(step)
        if job is None:
            return 0.0
        seconds = self.measured.get(job.key)
        if seconds is None and job.key not in self.measured:
            payload = CalibratePayload.from_json(job.payload)
            known = self.rates.get(_kin(payload))
            seconds = statistics.median(known) * _cells(payload.shape) if known else None
        return None if seconds is None else seconds + PER_JOB


def _kin(payload: CalibratePayload) -> tuple[str, bool]:
    return payload.plugin.name if payload.plugin else "", payload.finetune


def _cells(shape: Shape) -> int:
    return shape.rows * (shape.n_numeric + shape.n_categorical)


class Forecast:
    """What is known of the time of steps before a run: from the results folder, else measured while it runs.

    Measuring pays with a budget, and where settings are tuned: such runs are long, and begin with what is short.
    """

    def __init__(self, plan: Plan, store: Store, launcher: Launcher, budget: float | None = None) -> None:
        preset = next((step.planned.preset for step in plan.records if step.planned is not None), None)
        self.timings = Timings(store, preset or "")
        unknown: list[Step] = []
        pays = budget is not None or any(step.study is not None for step in plan.steps.values())
        if pays and not launcher.start.patience:  # on a cluster a measurement would wait in the queue
            todo = sorted(what_to_do(plan, store).values(), key=urgency)
            kinds = {kinship(step)[0]: step for step in reversed(todo)}
            unknown = [step for step in kinds.values() if self.timings.of_job(step, closely=True) is None]
        self.calibration = Calibration(plan, reversed(unknown))

    def of_job(self, step: Step) -> float | None:
        """Seconds that one job of a step may take; None if nothing is known."""
        stored = self.timings.of_job(step, closely=True)
        return self.calibration.of_job(step) if stored is None else stored

    def next(self, clock: Clock) -> Job | None:
        """The next measurement of something that is not known by now."""
        waiting = self.calibration.waiting
        while waiting:
            job, step = waiting.popitem()[1]
            if not clock.knows(step):
                return job
        return None

    def take(self, key: str, outcome: Outcome) -> None:
        """Take the end of a measurement."""
        self.calibration.take(key, outcome)


def first_job(step: Step) -> Step:
    """The step itself; of a study, its first trial."""
    return step.study.make_step(step.study.configured.config) if step.study is not None else step


def rows_of(step: Step) -> float:
    """Rows that a step works on: for a model, in proportion to the labels that it has."""
    payload = first_job(step).payload
    rows: float = min(payload.manifest.rows, payload.split.rows or payload.manifest.rows)
    if isinstance(payload, FitPayload) and payload.labels is not None:
        rows = min(rows, LabelBudget.parse(payload.labels.budget).count(round(TRAINING * rows)) / TRAINING)
    return rows
