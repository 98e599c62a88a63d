"""What a few epochs of each training take: which are worth measuring, and what they say of the steps of a run.

Where settings are tuned, one trial may take a hundred times as long as another. No result decides on the first trials,
so their settings are known before the run. Each of them is measured with the default encoder, and each encoder that
may turn out to be the best one with the default model. What the other combinations take follows in proportion.
"""

from __future__ import annotations

import itertools
import math
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tabbench.config import Settings
from tabbench.contracts import Executor, Job, Outcome
from tabbench.contracts.job import content_key
from tabbench.data.cache import cache_dir
from tabbench.experiment.graph import Plan, Step
from tabbench.experiment.payloads import Address, CalibratePayload, EncodePayload, FitPayload, PretrainPayload, Shape
from tabbench.results.store import Store
from tabbench.running.clock import Kin, kinship
from tabbench.running.launch import Launcher
from tabbench.running.sizes import TRAINING, first_job, rows_of, work_of
from tabbench.running.studies import known_trials
from tabbench.running.timings import SEARCHED, Timings
from tabbench.running.tuning import STARTUP_TRIALS

Kind = tuple[str, str, str, bool]
"""What trainings on different tables have in common: a plugin, its model, the method whose features it is trained on,
and whether that is fine-tuned."""
Place = tuple[int, int]
"""The trials whose settings are tried: of the training itself, and of what it is based on. (0, 0) are the defaults."""
CALIBRATE = "calibrate"
"""The kind of a measurement."""
PER_JOB = 0.3
"""Seconds that a job takes on top of its training."""
CALIBRATION_SECONDS = 120.0
"""Time after which no measurement begins. What was not measured is scaled from the same plugin on another table."""


@dataclass(frozen=True)
class Measurement:
    """How long a training takes is to be measured."""

    key: str
    label: str
    payload: CalibratePayload

    def job(self) -> Job:
        return Job(self.key, CALIBRATE, f"measure {self.label}", self.payload.to_json())


@dataclass
class Measurable:
    """One training on one table, with the settings that it may have."""

    step: Step
    """One that needs it."""
    own: Step | None
    """The study that decides its settings."""
    base: Mapping[str, Step]
    """The studies that decide what it is based on, by part."""
    jobs: int = 0
    """How many are to be done."""
    made: dict[Place, Measurement] = field(default_factory=dict)

    def places(self) -> Iterator[Place]:
        """What can be measured: the defaults, then its own settings and those of what it is based on by turns."""
        n_own = 1 if self.own is None else n_known(self.own)
        n_base = max(map(n_known, self.base.values()), default=1)
        for number in range(max(n_own, n_base)):
            if number < n_own:
                yield number, 0
            if 0 < number < n_base:
                yield 0, number


class Calibration(Timings):
    """What a few epochs of each training take, on made-up rows of the same shape, in worker processes."""

    source = "from a few epochs of each training; with early stopping, from how long such trainings usually are"

    def __init__(self, plan: Plan, steps: Iterable[Step], *, sparingly: bool = False) -> None:
        """The trainings of the given steps of a plan are to be measured.

        Args:
            plan: where to find what a step is based on.
            steps: what is to be done.
            sparingly: measure each training with its default settings only, and on one table, the largest: there most
                of the time goes.
        """
        self.plan = plan
        self.sparingly = sparingly
        self.asked: dict[str, tuple[Measurement, Place]] = {}
        """Measurements that have begun."""
        self.measured: dict[str, float | None] = {}
        """Their seconds; None if one failed."""
        self.rates: dict[Kind, dict[Place, list[float]]] = {}
        """Seconds per unit of work of what was measured, by what is trained (also by the plugin alone)."""
        self.chosen: dict[str, Settings] = {}
        """What finished studies have decided."""
        self._tried: dict[str, list[Settings]] = {}
        """The settings of the trials that are known, by study."""
        self._trainings: dict[Kin, Measurable | None] = {}
        for step in steps:
            training = self._training(step)
            if training is not None:
                training.jobs += step.study.n_trials if step.study is not None else 1
        self.trainings = list(
            {id(training): training for training in self._trainings.values() if training is not None}.values()
        )
        self.first = self._defaults_first()
        """What is measured before anything else, the next one last."""

    # What to measure.

    def next(self, is_known: Callable[[Step], bool] = lambda step: False) -> Job | None:
        """The next measurement: the default settings of each training on its largest table, then what makes up most of
        the time.

        Args:
            is_known: whether the time of a step is known better than by a measurement.
        """
        while self.first:
            training = self.first.pop()
            if not is_known(training.step) and (job := self._ask(training, n_places=1)) is not None:
                return job
        if self.sparingly:
            return None
        unknown = [training for training in self.trainings if not is_known(training.step)]
        jobs = map(self._ask, sorted(unknown, key=self._worth, reverse=True))
        return next((job for job in jobs if job is not None), None)

    def _defaults_first(self) -> list[Measurable]:
        seen: Counter[Kind] = Counter()
        order = []
        for training in sorted(self.trainings, key=lambda training: -_work(self._at(training, (0, 0)).payload)):
            pair, plugin = _kinds(self._at(training, (0, 0)).payload)
            if not seen[pair]:
                order.append((seen[plugin], training))
            seen.update({pair, plugin})
        order.sort(key=lambda each: each[0])  # on its largest table every plugin once, then every pair
        return [training for _, training in reversed(order)]

    def _worth(self, training: Measurable) -> float:
        """The seconds of all jobs with this training, shared by what is known of it."""
        expected = self._seconds(training)
        return math.inf if expected is None else training.jobs * expected / (1 + len(self._known(training)))

    def _ask(self, training: Measurable, n_places: int | None = None) -> Job | None:
        for place in itertools.islice(training.places(), n_places):
            found = self._at(training, place)
            if found.key not in self.asked:
                self.asked[found.key] = found, place
                return found.job()
        return None

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
        waiting = True
        while waiting or running:
            waiting = waiting and not (self.measured and time.monotonic() > until)
            while waiting and len(running) < executor.slots and executor.room(CALIBRATE) > 0:
                job = self.next()
                if job is None:
                    waiting = False
                    break
                running.add(job.key)
                executor.submit(job)
            executor.expect({CALIBRATE: 1} if waiting else {})
            for event in executor.wait(1.0):
                if event.outcome is not None and event.key in running:
                    running.remove(event.key)
                    self.take(event.key, event.outcome)

    def outstanding(self) -> bool:
        """Whether a measurement with default settings is being made."""
        return any(place == (0, 0) and key not in self.measured for key, (_, place) in self.asked.items())

    def take(self, key: str, outcome: Outcome) -> None:
        """Take the end of a measurement; after one that failed, its training is judged by others."""
        seconds = self.measured[key] = outcome.result.get("seconds")
        if seconds is not None:
            measurement, place = self.asked[key]
            for kind in _kinds(measurement.payload):
                rates = self.rates.setdefault(kind, {}).setdefault(place, [])
                rates.append(seconds / _work(measurement.payload))

    # Which settings.

    def _training(self, step: Step) -> Measurable | None:
        """The training of a step; None if it trains nothing. A study shares it with the fits that follow."""
        kin = kinship(step)[0]
        if kin not in self._trainings:
            self._trainings[kin] = self._make_training(step)
        return self._trainings[kin]

    def _make_training(self, step: Step) -> Measurable | None:
        payload = first_job(step).payload
        if not isinstance(payload, FitPayload) and not (isinstance(payload, PretrainPayload) and payload.trained):
            return None
        before = self.plan.steps.get(payload.features or "") if isinstance(payload, FitPayload) else None
        keys = {**(before.tuned if before is not None else {}), **step.tuned}
        studies: dict[str, Step] = {part: self.plan.steps[key] for part, key in keys.items() if key in self.plan.steps}
        if step.study is not None:
            return Measurable(step, step, studies)
        own = next((studies.pop(part) for part in ("joint", "model") if part in studies), None)
        if own is not None and isinstance(payload, FitPayload):
            return self._training(own)
        return Measurable(step, own, studies)

    def _at(self, training: Measurable, place: Place) -> Measurement:
        if place not in training.made:
            payload = self._make_payload(training, *place)
            training.made[place] = Measurement(content_key(payload.to_json()), training.step.label, payload)
        return training.made[place]

    def _settings(self, study: Step, number: int) -> Settings:
        """Of a trial; a study that has fewer begins again."""
        assert study.study is not None
        if number == 0:
            return study.study.configured.config
        if study.key not in self._tried:  # it takes a while to propose them, so only if they are needed
            self._tried[study.key] = known_trials(study)
        return self._tried[study.key][number % n_known(study)]

    def _make_payload(self, training: Measurable, number: int, base: int) -> CalibratePayload:
        step = training.step
        decided = {part: self._settings(study, base) for part, study in training.base.items()}
        if step.study is not None:
            payload = step.study.make_step(self._settings(step, number)).payload
        else:
            payload = step.payload
            decided |= {} if training.own is None else {"model": self._settings(training.own, number)}
        assert isinstance(payload, FitPayload | PretrainPayload)
        model, method = _with(payload.model, decided.get("model")), _with(payload.method, decided.get("encoder"))
        encoder, finetune = None, False
        if isinstance(payload, FitPayload):
            finetune = method is not None
            method = payload.joint or method or model
            features = self.plan.steps.get(payload.features or "")
            if features is not None and isinstance(features.payload, EncodePayload):
                encoder = _with(features.payload.method, decided.get("encoder"))
        return CalibratePayload(
            plugin=method,
            model=model,
            finetune=finetune,
            encoder=encoder,
            shape=Shape.of(payload.manifest, max(10, round(TRAINING * rows_of(step)))),
            store=tempfile.gettempdir(),
            cache=str(cache_dir()),
        )

    # What it says.

    def of_job(self, step: Step, trial: int | None = None, *, closely: bool = False) -> float | None:
        training = self._training(step)
        if training is None:
            return 0.0
        if trial is not None and training.own is not None and training.own.key == step.key:
            of_trial = self._known(training).get((trial, 0))
            if of_trial is not None:
                return self._based(training, of_trial)
        return self._seconds(training, searching=step.study is not None)

    def is_measured(self, step: Step, trial: int | None = None) -> bool:
        """Whether this training was measured on this table: with the settings of this trial, or with some that are not
        the defaults if it has others."""
        training = self._training(step)
        if training is None:
            return False
        known = {number for number, base in self._known(training) if base == 0}
        if trial is not None:
            return trial in known and training.own is not None and training.own.key == step.key
        return bool(known - {0} if training.own is not None and n_known(training.own) > 1 else known)

    def decide(self, study: Step, config: Settings) -> None:
        """A study has ended: what is based on it is now known."""
        self.chosen[study.key] = config

    def _known(self, training: Measurable) -> dict[Place, float]:
        """Seconds that were measured on this table."""
        measured = ((place, self.measured.get(each.key)) for place, each in training.made.items())
        return {place: seconds for place, seconds in measured if seconds is not None}

    def _seconds(self, training: Measurable, *, searching: bool = True) -> float | None:
        """Of a job whose settings are not known; random ones are not like the defaults."""
        known = self._known(training)
        if (0, 0) not in known:
            payload = self._at(training, (0, 0)).payload
            rates = next((self.rates[each] for each in _kinds(payload) if each in self.rates), {})
            known = {place: statistics.median(each) * _work(payload) for place, each in rates.items()}
        own = {number: seconds for (number, base), seconds in known.items() if base == 0}
        if not own:
            return None
        if training.own is not None and n_known(training.own) > 1 and not any(own):
            return self._based(training, own[0] * SEARCHED)
        of_search = [seconds for number, seconds in own.items() if number] if searching else []
        return self._based(training, statistics.mean(of_search or own.values()))

    def _based(self, training: Measurable, seconds: float) -> float:
        """Seconds of a job that were measured with the default encoder, as they are with the one that was chosen, or on
        average with those that may be."""
        of_base = {base: PER_JOB + each for (number, base), each in self._known(training).items() if number == 0}
        if 0 not in of_base:
            return PER_JOB + seconds
        likely = list(of_base.values())
        for study in training.base.values():
            chosen = self.chosen.get(study.key)
            likely = [each for base, each in of_base.items() if self._settings(study, base) == chosen] or likely
        return (PER_JOB + seconds) * statistics.mean(likely) / of_base[0]


def n_known(study: Step) -> int:
    """How many trials of a study are known before it begins."""
    assert study.study is not None
    return min(STARTUP_TRIALS, study.study.n_trials)


def _with(address: Address | None, config: Settings | None) -> Address | None:
    """A plugin with settings that a study may choose."""
    return address if address is None or config is None else address.model_copy(update={"config": config})


def _kinds(payload: CalibratePayload) -> tuple[Kind, Kind]:
    """What is trained, on what; and what is trained."""
    plugin, model, encoder = (each.name if each else "" for each in (payload.plugin, payload.model, payload.encoder))
    return (plugin, model, encoder, payload.finetune), (plugin, "", "", payload.finetune)


def _work(payload: CalibratePayload) -> float:
    shape = payload.shape
    return work_of(shape.rows, shape.n_numeric + shape.n_categorical, shape.n_classes if payload.model else 1)
