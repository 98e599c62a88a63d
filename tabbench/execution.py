"""Plan -> executor -> store: hand out what is ready, write down what comes back.

The driver alone appends records. A lock per step lets several drivers share a results folder: who does not get the
lock waits for the other's result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import filelock

from tabbench.contracts import Executor
from tabbench.job import Event, Job, Outcome
from tabbench.plan import Plan, Step
from tabbench.registry import Registry
from tabbench.store import Store
from tabbench.trials import OpenStudy

LOOK_AGAIN = 1.0
"""Seconds between two looks at what another driver is doing."""


class Observer(Protocol):
    """Who wants to know how the run goes. Displays implement it."""

    def begin(self, todo: list[Step], done: int, slots: int) -> None: ...
    def started(self, step: Step) -> None: ...
    def progress(self, step: Step, event: Event) -> None: ...
    def finished(self, step: Step, outcome: Outcome) -> None: ...
    def end(self) -> None: ...


@dataclass
class Summary:
    """How a run ended."""

    done_before: int = 0
    done: int = 0
    elsewhere: int = 0
    """Records that another driver finished meanwhile."""
    not_reached: int = 0
    """Records for which the budget of time did not suffice."""
    failures: list[tuple[Step, Outcome]] = field(default_factory=list)


@dataclass
class Running:
    """A job that an executor has, and whose it is."""

    step: Step
    lock: filelock.BaseFileLock
    study: OpenStudy | None = None


def is_done(step: Step, store: Store) -> bool:
    """Whether the result of a step is stored. A study is always opened again: its trials tell whether it is done."""
    if step.record is not None:
        return store.record(step.key) is not None
    return step.study is None and store.has_artefact(step.job.kind, step.key)


def what_to_do(plan: Plan, store: Store) -> dict[str, Step]:
    """Planned minus done: unfinished records, and what they need that is not stored."""
    store.refresh()
    needed: set[str] = set()
    for step in reversed(plan.steps.values()):
        asked_for = step.record is not None or step.key in needed
        if asked_for and not is_done(step, store):
            needed.add(step.key)
            needed.update(step.needs)
    return {key: step for key, step in plan.steps.items() if key in needed and not is_done(step, store)}


class Execution:
    """One run of a plan."""

    def __init__(
        self,
        plan: Plan,
        registry: Registry,
        store: Store,
        observer: Observer,
        *,
        cache: str,
        fail_fast: bool = False,
        budget: float | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            plan: what to run.
            registry: for the search spaces of studies.
            store: where results go.
            observer: is told how it goes.
            cache: folder of the datasets, for the jobs.
            fail_fast: stop at the first failure.
            budget: seconds after which no further job is started.
        """
        self.plan = plan
        self.registry = registry
        self.store = store
        self.observer = observer
        self.places = {"store": str(store.root), "cache": cache}
        self.fail_fast = fail_fast
        self.deadline = None if budget is None else time.monotonic() + budget
        # What others wait for comes first, large tables before small ones: the last job should be a short one.
        self.waiting = dict(sorted(what_to_do(plan, store).items(), key=lambda item: _urgency(item[1])))
        self.running: dict[str, Running] = {}
        self.studies: dict[str, OpenStudy] = {}
        self.best: dict[str, dict[str, Any]] = {}
        """For each finished study the settings of its best trial, and how it was found."""
        self.failed: dict[str, Outcome] = {}
        self.summary = Summary(done_before=sum(is_done(step, store) for step in plan.records))

    def run(self, start_executor: Callable[[], Executor]) -> Summary:
        """Do all that is left. The executor is started only if there is something to do, and always closed."""
        if not self.waiting:
            return self.summary
        executor = start_executor()
        self.observer.begin(list(self.waiting.values()), self.summary.done_before, executor.slots)
        try:
            while self.waiting or self.running or self.studies:
                self._start_ready(executor)
                self._take_events(executor)
                if self.fail_fast and self.summary.failures:
                    break
        finally:
            executor.close()
            for lock in [running.lock for running in self.running.values()] + [s.lock for s in self.studies.values()]:
                lock.release()
            self.observer.end()
            self.store.compact()
        return self.summary

    # Starting.

    def _start_ready(self, executor: Executor) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            self._stop_starting()
        for step in list(self.waiting.values()):
            broken = next((need for need in step.needs if need in self.failed), None)
            if broken is not None:
                self._give_up(step, broken)
            elif any(need in self.waiting or need in self.running or need in self.studies for need in step.needs):
                continue
            elif step.study is not None:
                self._open(step)
            elif len(self.running) < executor.slots:
                self._start(step, executor)
        for study in list(self.studies.values()):
            self._start_trials(study, executor)

    def _stop_starting(self) -> None:
        self.summary.not_reached += sum(step.record is not None for step in self.waiting.values())
        self.waiting.clear()
        busy = {id(running.study) for running in self.running.values()}
        for key, study in list(self.studies.items()):
            study.stop()
            if id(study) not in busy:
                self.studies.pop(key).lock.release()

    def _take_lock(self, key: str) -> filelock.BaseFileLock | None:
        """The right to work on a key; None if another driver has it, and it is tried again later."""
        lock = self.store.lock(key)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            return None
        self.store.refresh()
        return lock

    def _start(self, step: Step, executor: Executor) -> None:
        lock = self._take_lock(step.key)
        if lock is None:
            return
        del self.waiting[step.key]
        if is_done(step, self.store):
            lock.release()
            self.summary.elsewhere += step.record is not None
            return
        self.running[step.key] = Running(step, lock)
        self.observer.started(step)
        payload = dict(step.job.payload)
        for part, study in step.tuned.items():
            best = self.best[study]
            if part == "encoder":
                # How it was found goes along: by the time of the record the study may not be open any more.
                payload |= {"encoder": best["job"], "tuning": {part: best["tuning"]}}
            else:
                payload[part] = {**payload[part], "config": best["config"]}
        executor.submit(replace(step.job, payload={**payload, **self.places}))

    def _open(self, step: Step) -> None:
        lock = self._take_lock(step.key)
        if lock is None:
            return
        del self.waiting[step.key]
        self.observer.started(step)
        self.studies[step.key] = OpenStudy(step, self.registry, self.store, lock)

    def _start_trials(self, study: OpenStudy, executor: Executor) -> None:
        while len(self.running) < executor.slots:
            job = study.next_job(busy=self.running)
            if job is None:
                break
            lock = self._take_lock(job.key)
            if lock is None:
                study.put_back(job)
                break
            if study.is_stored(job):
                lock.release()
                self._finish_trial(study, job, study.stored_outcome(job))
                continue
            self.running[job.key] = Running(study.step, lock, study)
            executor.submit(replace(job, payload={**job.payload, **self.places, "trial": True}))
        if study.finished:
            self._close(study)

    # Ending.

    def _take_events(self, executor: Executor) -> None:
        for event in executor.wait(LOOK_AGAIN):
            running = self.running[event.key]
            if event.outcome is not None:
                self._finish(event.key, event.outcome)
            elif running.study is None:
                self.observer.progress(running.step, event)
            elif running.study.report(event):
                executor.prune(event.key)

    def _finish(self, key: str, outcome: Outcome) -> None:
        running = self.running.pop(key)
        if running.study is not None:
            self._finish_trial(running.study, running.study.jobs[key], outcome)
            running.lock.release()
            return
        step = running.step
        if outcome.status != "ok":
            self.failed[step.key] = outcome
        if step.record is not None:
            self._write(step, outcome)
        running.lock.release()
        self.observer.finished(step, outcome)

    def _finish_trial(self, study: OpenStudy, job: Job, outcome: Outcome) -> None:
        for record in study.finish(job, outcome):
            self.store.add(record)
        self.observer.progress(study.step, study.progress())
        if study.finished:
            self._close(study)

    def _close(self, study: OpenStudy) -> None:
        """A study has no trial left to run."""
        if self.studies.pop(study.step.key, None) is None:
            return
        study.lock.release()
        outcome = study.outcome()
        if outcome.status == "ok":
            self.best[study.step.key] = outcome.result
        else:
            self.failed[study.step.key] = outcome
        self.observer.finished(study.step, outcome)

    def _give_up(self, step: Step, broken: str) -> None:
        """A step whose need has failed fails with it."""
        del self.waiting[step.key]
        cause = self.failed[broken]
        label = self.plan.steps[broken].job.label
        error = cause.error if cause.error.startswith("not run:") else f"not run: {label}: {cause.error}"
        outcome = Outcome(cause.status, error=error, traceback=cause.traceback)
        self.failed[step.key] = outcome
        if step.record is not None:
            self._write(step, outcome)
            self.observer.finished(step, outcome)

    def _write(self, step: Step, outcome: Outcome) -> None:
        record = make_record(step, outcome)
        tuning = {part: self.best[study]["tuning"] for part, study in step.tuned.items() if study in self.best}
        self.store.add({**record, "tuning": {**record.get("tuning", {}), **tuning}})
        if outcome.status == "ok":
            self.summary.done += 1
        else:
            self.summary.failures.append((step, outcome))


def make_record(step: Step, outcome: Outcome) -> dict[str, Any]:
    """What the plan knew, joined with what the job found out."""
    record = {**(step.record or {}), "key": step.key, "status": outcome.status, **outcome.result}
    if outcome.status != "ok":
        record.update(error=outcome.error, traceback=outcome.traceback)
    return record


def _urgency(step: Step) -> tuple[bool, int]:
    manifest = step.job.payload["manifest"]
    return step.record is not None, -manifest["rows"] * (manifest["n_numeric"] + manifest["n_categorical"])
