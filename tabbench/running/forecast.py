"""Estimate how long a run takes: from similar stored steps, or from a few epochs of each training."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tabbench.config import Settings
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
from tabbench.running.clock import Clock, Kin, duration, kinship, work_of
from tabbench.running.launch import Launcher
from tabbench.running.studies import first_batch
from tabbench.running.todo import urgency, what_to_do

Training = tuple[str, str, str, bool]
"""A plugin, its model, the method whose features it is trained on, and whether that is fine-tuned."""
CALIBRATE = "calibrate"
"""The kind of a measurement."""
PER_JOB = 0.3
"""Seconds that a job takes on top of its training."""
SEARCHED = 4.0
"""How much longer than with the default settings trials are taken to be, on average, if only the defaults are known."""
TRAINING = 0.8
"""Share of rows that are for training."""
MANY = 20
"""Jobs from which on a run is worth measurements."""
CALIBRATION_SECONDS = 120.0
"""Time after which no measurement begins. What was not measured is scaled from the same plugin on another table."""
BEFORE_WORK = 60.0
"""The same for a run, whose jobs wait until then."""


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
        seconds = statistics.median(known) * rows_of(step) * payload.manifest.n_features / 1e6
        return seconds * (SEARCHED if step.study is not None else 1.0)

    def describe(self, steps: Iterable[Step], slots: int) -> str:
        todo = sorted(steps, key=urgency)
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


@dataclass(frozen=True)
class Measurement:
    """How long a training takes is to be measured."""

    key: str
    payload: CalibratePayload
    number: int = 0
    """Of the trial whose settings it uses; 0 are the defaults."""

    def job(self, step: Step) -> Job:
        """Its job, named after a step that it is for."""
        return Job(self.key, CALIBRATE, f"measure {step.label}", self.payload.to_json())


class Calibration(Timings):
    """What a few epochs of each training take, on made-up rows of the same shape, in worker processes.

    Trials can take a hundred times as long as the defaults, or a tenth. So where settings are tuned, those of the first
    trials are measured too.
    """

    source = "from a few epochs of each training; with early stopping, from how long such trainings usually are"

    def __init__(self, plan: Plan, steps: Iterable[Step], *, sparingly: bool = False) -> None:
        """The trainings of the given steps of a plan are to be measured.

        Args:
            plan: where to find what a step is based on.
            steps: what is to be done.
            sparingly: measure each training on one table only, the largest: there most of the time goes.
        """
        self.plan = plan
        self._measurements: dict[Kin, list[Measurement]] = {}
        self._tried: dict[str, list[Settings]] = {}
        """The settings of the first trials, by study."""
        self.measured: dict[str, float | None] = {}
        self.rates: dict[Training, dict[int, list[float]]] = {}
        """Seconds per unit of work of what was measured, by what is trained (also by the plugin alone) and number."""
        wanted = {each.key: (each, step) for step in steps for each in self._of_step(step)}
        self.payloads = {key: each.payload for key, (each, _) in wanted.items()}
        self.numbers = {key: each.number for key, (each, _) in wanted.items()}
        seen: Counter[tuple[object, ...]] = Counter()
        order = {}
        for key in sorted(self.payloads, key=lambda key: -_work(self.payloads[key])):
            number = self.numbers[key]
            pair, plugin = ((*each, number) for each in _trainings(self.payloads[key]))
            # On its largest table: every plugin once, every pair once, then other settings; then other tables.
            order[key] = (seen[pair], number, seen[plugin])
            seen.update({pair, plugin})
        first = [key for key in sorted(order, key=order.__getitem__) if not (sparingly and order[key][0])]
        self.waiting = {key: (wanted[key][0].job(wanted[key][1]), wanted[key][1]) for key in reversed(first)}
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
        running: set[str] = set()
        while self.waiting or running:
            if self.measured and time.monotonic() > until:
                self.waiting.clear()
            while self.waiting and len(running) < executor.slots and executor.room(CALIBRATE) > 0:
                job = self.waiting.popitem()[1][0]
                running.add(job.key)
                executor.submit(job)
            executor.expect({CALIBRATE: len(self.waiting)} if self.waiting else {})
            for event in executor.wait(1.0):
                if event.outcome is not None and event.key in running:
                    running.remove(event.key)
                    self.take(event.key, event.outcome)

    def take(self, key: str, outcome: Outcome) -> None:
        """Take the end of a measurement; after one that failed, its training is judged by others."""
        seconds = self.measured[key] = outcome.result.get("seconds")
        if seconds is not None:
            for training in _trainings(self.payloads[key]):
                rates = self.rates.setdefault(training, {}).setdefault(self.numbers[key], [])
                rates.append(seconds / _work(self.payloads[key]))

    def _of_step(self, step: Step) -> list[Measurement]:
        """The measurements of a step's training: with its settings, and where they are tuned, with those of the first
        trials. Steps that train the same on the same shape share them."""
        kin = kinship(step)[0]
        if kin not in self._measurements:
            made = (self._make_measurement(step, number) for number in range(self._n_settings(step)))
            self._measurements[kin] = list({each.key: each for each in made if each is not None}.values())
        return self._measurements[kin]

    def _n_settings(self, step: Step) -> int:
        """How many settings of a step are known before the run."""
        studies = [self._settings_of(study) for study in self._studies(step).values()]
        return max(map(len, studies), default=1)

    def _studies(self, step: Step) -> dict[str, Step]:
        """The studies that decide on a step's settings, by part; its encoder may have one too."""
        payload = first_job(step).payload
        before = self.plan.steps.get(payload.features or "") if isinstance(payload, FitPayload) else None
        keys = {**(before.tuned if before is not None else {}), **step.tuned}
        studies: dict[str, Step] = {part: self.plan.steps[key] for part, key in keys.items() if key in self.plan.steps}
        return {**studies, "trial": step} if step.study is not None else studies

    def _settings_of(self, study: Step) -> list[Settings]:
        if study.key not in self._tried:
            self._tried[study.key] = first_batch(study)
        return self._tried[study.key]

    def _make_measurement(self, step: Step, number: int) -> Measurement | None:
        """The n-th settings of every part that is tuned go together: any encoder may turn out to be the best."""
        decided = {
            part: tried[number % len(tried)]
            for part, study in self._studies(step).items()
            if (tried := self._settings_of(study))
        }
        job = step if step.study is None else step.study.make_step(decided["trial"])
        payload = job.payload
        plugin: Address | None
        encoder: Address | None
        if isinstance(payload, PretrainPayload) and payload.trained:
            plugin, model, encoder = payload.method, _with(payload.model, decided.get("model")), None
        elif isinstance(payload, FitPayload):
            model = _with(payload.model, decided.get("model"))
            joint, method = _with(payload.joint, decided.get("joint")), _with(payload.method, decided.get("encoder"))
            plugin = joint or method or model
            encoder = _with(self._encoder(payload), decided.get("encoder"))
        else:
            return None
        wanted = CalibratePayload(
            plugin=plugin,
            model=model,
            finetune=isinstance(payload, FitPayload) and payload.method is not None,
            encoder=encoder,
            shape=Shape.of(payload.manifest, max(10, round(TRAINING * rows_of(step)))),
            store=tempfile.gettempdir(),
            cache=str(cache_dir()),
        )
        return Measurement(content_key(wanted.to_json()), wanted, number)

    def _encoder(self, payload: FitPayload) -> Address | None:
        """The method whose features a model is trained on."""
        step = self.plan.steps.get(payload.features or "")
        return step.payload.method if step is not None and isinstance(step.payload, EncodePayload) else None

    def of_job(self, step: Step, *, closely: bool = False) -> float | None:
        wanted = self._of_step(step)
        if not wanted:
            return 0.0
        known = {each.number: seconds for each in wanted if (seconds := self.measured.get(each.key)) is not None}
        if not known:
            payload = wanted[0].payload
            rates = next((self.rates[each] for each in _trainings(payload) if each in self.rates), {})
            known = {number: statistics.median(each) * _work(payload) for number, each in rates.items()}
        if not known:
            return None
        only_defaults = len(wanted) > 1 and not any(known)
        return PER_JOB + statistics.mean(known.values()) * (SEARCHED if only_defaults else 1.0)

    def is_measured(self, step: Step) -> bool:
        """Whether this training was measured on this table, with all settings that are known."""
        wanted = self._of_step(step)
        return bool(wanted) and all(self.measured.get(each.key) is not None for each in wanted)


def _with(address: Address | None, config: Settings | None) -> Address | None:
    """A plugin with settings that a study may choose."""
    return address if address is None or config is None else address.model_copy(update={"config": config})


def _trainings(payload: CalibratePayload) -> tuple[Training, Training]:
    """What is trained, on what; and what is trained."""
    plugin, model, encoder = (each.name if each else "" for each in (payload.plugin, payload.model, payload.encoder))
    return (plugin, model, encoder, payload.finetune), (plugin, "", "", payload.finetune)


def _work(payload: CalibratePayload) -> float:
    shape = payload.shape
    return work_of(shape.rows, shape.n_numeric + shape.n_categorical, shape.n_classes if payload.model else 1)


class Forecast:
    """What is known of the time of steps before a run: from the results folder, else measured while it runs.

    With a budget, and where settings are tuned, every training is measured, as far as a minute allows. Otherwise each
    is measured once, on its largest table; of a few jobs none.
    """

    def __init__(self, plan: Plan, store: Store, launcher: Launcher, budget: float | None = None) -> None:
        preset = next((step.planned.preset for step in plan.records if step.planned is not None), None)
        self.timings = Timings(store, preset or "")
        self._stored: dict[Kin, float | None] = {}
        unknown: list[Step] = []
        todo = what_to_do(plan, store).values()
        long = budget is not None or any(step.study is not None for step in todo)
        if (long or len(todo) >= MANY) and not launcher.start.patience:  # on a cluster it would wait in the queue
            kinds = {kinship(step)[0]: step for step in todo}
            unknown = [step for step in kinds.values() if self._of_stored(step) is None]
        self.calibration = Calibration(plan, unknown, sparingly=not long)
        self._until: float | None = None

    def of_job(self, step: Step) -> float | None:
        """Seconds that one job of a step may take; None if nothing is known."""
        stored = self._of_stored(step)
        return self.calibration.of_job(step) if stored is None else stored

    def is_measured(self, step: Step) -> bool:
        """Whether what is known comes from whole trainings, or from this one on this table."""
        return self._of_stored(step) is not None or self.calibration.is_measured(step)

    def _of_stored(self, step: Step) -> float | None:
        kin = kinship(step)[0]
        if kin not in self._stored:
            self._stored[kin] = self.timings.of_job(step, closely=True)
        return self._stored[kin]

    def next(self, clock: Clock) -> Job | None:
        """The next measurement of something that is not known by now."""
        waiting = self.calibration.waiting
        if self._until is None:
            self._until = clock.now() + BEFORE_WORK
        while waiting and clock.now() < self._until:
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
