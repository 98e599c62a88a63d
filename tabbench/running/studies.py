"""A running study: which trials are stored, which are running, which come next."""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tabbench.config import Settings
from tabbench.contracts import Event, Outcome
from tabbench.contracts.job import content_key
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import TuningSummary
from tabbench.results.locks import Lock
from tabbench.results.record import EncoderScores, Record
from tabbench.results.store import Store
from tabbench.running.artefacts import PretrainArtefact, is_made
from tabbench.running.tuning import BATCH, STARTUP_TRIALS, Study, Trial
from tabbench.values import JsonObject


@dataclass(frozen=True)
class BestTrial:
    """What a finished study decided."""

    key: str
    """Key of the trial's step; for a pretraining, the encoder is stored under it."""
    config: Settings
    summary: TuningSummary


def make_study(step: Step) -> Study:
    """A study as it begins."""
    assert step.study is not None
    configured = step.study.configured
    return Study(
        step.key,
        configured.config_class,
        configured.config,
        step.study.tuned,
        step.study.n_trials,
        step.study.sampler,
        configured.space,
    )


def known_trials(step: Step) -> list[Settings]:
    """The settings of a study's first trials: no result decides on them, so they are known before it begins."""
    study = make_study(step)
    return [study.propose().config for _ in range(min(STARTUP_TRIALS, study.n_trials))]


class OpenStudy:
    """The trials of one study, by jobs and records."""

    def __init__(self, step: Step, store: Store, lock: Lock, marks: Sequence[str] = ()) -> None:
        """Open a study and load its stored trials.

        Args:
            step: the study in the plan.
            store: where its trials are.
            lock: the right to work on it.
            marks: keys of the stand-ins that its trials are based on, if the planned steps cannot be made yet.
        """
        assert step.study is not None
        self.marks = list(marks)
        self.step = step
        self.plan = step.study
        self.store = store
        self.lock = lock
        """Held while the study is open: one driver at a time proposes trials."""
        self.study = make_study(step)
        self.steps: dict[str, Step] = {}
        self.trials: dict[str, list[Trial]] = {}
        """By the key of the job: a sampler may propose the same settings twice."""
        self.outcomes: dict[str, Outcome] = {}
        """Outcomes of jobs that have ended."""
        self.errors: dict[int, Outcome] = {}
        self._delayed: list[Step] = []
        self._restore()

    def _restore(self) -> None:
        """Take over stored trials, batch by batch; the rest of a batch was running when its driver ended.

        A trial that is older than one of an earlier batch was proposed without knowing that one, as version 0.1.0 did
        after a kill. From there on, take only trials that would be proposed now.
        """
        earlier = batch = 0.0
        for number in range(self.study.n_trials):
            if number % BATCH == 0:
                earlier = max(earlier, batch)
            record = self._stored(self._key(number))
            if record is None or record.time < earlier:
                break
            batch = max(batch, record.time)
            trial = Trial(number, {})
            self._take_over(trial, record)
            self.study.restore(trial)
            self._remember(trial, record)

    def _remember(self, trial: Trial, record: Record) -> None:
        """Let a later trial with the same settings end as this one did, as if the study had not been interrupted."""
        step = self.make_step(trial.config)
        self.steps.setdefault(step.key, step)
        self.trials.setdefault(step.key, []).append(trial)
        if step.key not in self.outcomes:
            known = self.errors.get(trial.number)
            told = {"value": trial.value, "encoder_scores": _as_json(record.encoder_scores)}
            self.outcomes[step.key] = known or Outcome(record.status, told)

    def _stored(self, key: str) -> Record | None:
        """The finished record of a trial, if it ran with the threads requested now."""
        record = self.store.record(key)
        if record is None or (record.environment is not None and record.environment.threads):
            return record
        return None if self._had_other_threads else record

    @functools.cached_property
    def _had_other_threads(self) -> bool:
        """Whether version 0.1.0 ran this study with other threads. Only its results say so, not its trials."""
        return any(
            not record.is_done and self.step.key in {each.study for each in (record.tuning or {}).values()}
            for record in self.store.records()
            if record.kind == "result"
        )

    def _take_over(self, trial: Trial, record: Record) -> None:
        trial.config, trial.value, trial.status = record.config or {}, record.value, record.status
        trial.reports = {int(epoch): value for epoch, value in (record.reports or {}).items()}
        if trial.status not in ("ok", "pruned"):
            self.errors[trial.number] = Outcome(
                record.status, error=record.error or "", traceback=record.traceback or ""
            )

    def _key(self, number: int, **proposal: Any) -> str:
        """The key of a trial's record. A trial proposed without knowing an earlier one has a separate key."""
        before = number - number % BATCH
        gaps = [gap for gap in self.study.given_up if gap < before]
        known = {"without": gaps or None, "with": self.marks or None, **proposal}
        told = {name: value for name, value in known.items() if value is not None}
        return content_key({"study": self.step.key, "number": number, **told})

    def record_key(self, trial: Trial) -> str:
        """The key of a trial's record."""
        stored = self.store.record(self._key(trial.number))
        if stored is None or stored.config == trial.config:
            return self._key(trial.number)
        return self._key(trial.number, settings=trial.config)

    def make_step(self, config: Settings) -> Step:
        """The job of a trial with the given settings."""
        step = self.plan.make_step(config)
        return instead_of(step, self.marks) if self.marks else step

    @property
    def finished(self) -> bool:
        return self.study.finished

    @property
    def n_waiting(self) -> int:
        """Number of trials not proposed yet."""
        return max(0, self.study.n_trials - len(self.study.trials))

    def next_step(self, busy: Container[str]) -> Step | None:
        """The next trial; None if there is none now. ``busy`` holds the keys of running jobs."""
        if self._delayed:
            return None if self._delayed[0].key in busy else self._delayed.pop(0)
        while self.study.may_propose():
            trial = self.study.propose()
            record = self._stored(self.record_key(trial))
            if record is not None:  # it ended before an earlier one of its batch, and the driver was killed in between
                self._take_over(trial, record)
                continue
            step = self.make_step(trial.config)
            twins = self.trials.setdefault(step.key, [])
            twins.append(trial)
            self.steps[step.key] = step
            if len(twins) > 1 and step.key not in self.outcomes:
                continue  # the job is running: its end will end both trials
            if step.key not in busy:
                return step
            self._delayed.append(step)
            break
        return None

    def trial(self, key: str) -> Trial:
        """The trial whose job this is; the first one, if several have the same settings."""
        return self.trials[key][0]

    def put_back(self, step: Step) -> None:
        """Put back a trial whose job another driver is running: look for its result later."""
        self._delayed.append(step)

    def is_stored(self, step: Step) -> bool:
        """Whether the trial need not run, because the same job was already run for something else."""
        return step.key in self.outcomes or (step.kind == "pretrain" and is_made(step, self.store))

    def stored_outcome(self, step: Step) -> Outcome:
        """The outcome of a job that need not run; its stored reports are judged as if it ran now."""
        if step.key in self.outcomes:
            return self.outcomes[step.key]
        about = PretrainArtefact.read(self.store.open_artefact("pretrain", step.key))
        for epoch, value in about.reports:
            self.report(Event(step.key, epoch, metrics={"probe": value}))
        told = {"value": about.probe, "seconds": about.seconds, "encoder_scores": _as_json(about.scores)}
        return Outcome("ok", told)

    def report(self, event: Event) -> bool:
        """Note what a running trial reports; returns whether to give it up."""
        trial = self.trials[event.key][0]
        if event.score is None or trial.finished or not self.study.report(trial, event.step, event.score):
            return False
        # Decided now: whether the job learns of it before it ends must not change the study.
        trial.status = "pruned"
        return True

    def is_decided(self, key: str) -> bool:
        """Whether the outcome of a running job is already decided, however the job ends."""
        return any(trial.status == "pruned" for trial in self.trials[key])

    def start_again(self, key: str) -> None:
        """Forget the reports of a job that starts over."""
        self.trials[key][0].reports.clear()

    def finish(self, step: Step, outcome: Outcome) -> list[Record]:
        """Enter the end of a job; returns the records of its trials."""
        if self.is_decided(step.key):
            outcome = Outcome("pruned")
        elif outcome.status == "ok" and outcome.result.get("value") is None:
            outcome = Outcome("failed", error="it has no finite score on validation")
        self.outcomes[step.key] = outcome
        # How far it got before it was killed is chance, so other trials are not judged by it.
        reports = self.trials[step.key][0].reports if outcome.is_final else {}
        records = []
        for trial in self.trials[step.key]:
            if trial.finished and trial.status != "pruned":
                continue
            trial.status, trial.value, trial.reports = outcome.status, outcome.result.get("value"), reports
            if trial.status not in ("ok", "pruned"):
                self.errors[trial.number] = outcome
            records.append(self._record(trial, outcome))
        return records

    def _record(self, trial: Trial, outcome: Outcome) -> Record:
        seconds = outcome.result.get("seconds")
        known = {
            "study": self.step.key,
            "number": trial.number,
            "value": trial.value,
            "config": trial.config,
            "reports": {str(epoch): value for epoch, value in trial.reports.items()},
            "seconds": None if seconds is None else {"trial": seconds},
            "validation": None,
            "environment": {"threads": self.step.payload.threads},
        }
        return Record.make(self.plan.planned, self.record_key(trial), outcome, **known)

    def progress(self) -> Event:
        done = sum(trial.finished for trial in self.study.trials)
        best = self.study.best
        metrics = {} if best is None or best.value is None else {"best": best.value}
        return Event(self.step.key, done, self.study.n_trials, metrics)

    def outcome(self) -> Outcome:
        """How the study ended, for displays and for the steps that wait for it."""
        best = self.best_trial()
        if best is None:
            first = self.errors.get(0) or next(iter(self.errors.values()), None)
            if first is None:
                return Outcome("cancelled", error="the time was used up")
            return Outcome(first.status, error=first.error, traceback=first.traceback)
        self.study.write_journal(self.store.root / "studies" / f"{self.step.key}.journal")
        return Outcome("ok", {"tuning": best.summary.model_dump()})

    def best_trial(self) -> BestTrial | None:
        """The best settings, and how they were found; None if there are none."""
        best = self.study.best
        if best is None or best.value is None:
            return None
        summary = TuningSummary(
            study=self.step.key,
            trials=len(self.study.trials),
            pruned=sum(trial.status == "pruned" for trial in self.study.trials),
            failed=len(self.errors) - len(self.study.given_up),
            best_trial=best.number,
            best_value=best.value,
            default_value=self.study.trials[0].value,
            given_up=len(self.study.given_up),
        )
        return BestTrial(self.make_step(best.config).key, best.config, summary)


def instead_of(step: Step, marks: Sequence[str]) -> Step:
    """The same work based on the stand-ins in ``marks``, as a separate step."""
    return replace(step, key=content_key({"instead_of": step.key, "with": list(marks)}))


def _as_json(scores: EncoderScores | None) -> JsonObject | None:
    return None if scores is None else asdict(scores)
