"""Plan -> executor -> store: hand out what is ready, write down what comes back.

Only the driver appends records. A lock per step lets several drivers share a results folder: a driver that does not
get the lock waits for the other's result.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import ChainMap, Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tabbench.contracts import Event, Executor, Job, Outcome
from tabbench.contracts.job import Status
from tabbench.data.cache import cache_dir
from tabbench.experiment.controls import NONE
from tabbench.experiment.plan import Plan, Step
from tabbench.results.locks import Lock
from tabbench.results.record import UNFINISHED_TUNING, Record
from tabbench.results.store import Store
from tabbench.running.agenda import Agenda
from tabbench.running.arrivals import ARTEFACTS, Arrival
from tabbench.running.artefacts import is_made
from tabbench.running.signs import Signs
from tabbench.running.studies import BestTrial, OpenStudy, instead_of

TUNE = "tune"
"""The kind of a study: the driver itself does it, so it needs no room."""
LOOK_AGAIN = 1.0
"""Seconds between two looks at what another driver is doing."""
RETRIES = 2
"""How many times a job is restarted within a run by default."""
RETRIED: tuple[Status, ...] = ("killed", "lost")
"""Ends after which a job is restarted at once. One that ran out of time or memory is left to the next run: with
the same limits it would only fail again."""


class Observer(Protocol):
    """Is told how the run goes. Displays implement it."""

    def begin(self, todo: list[Step], done: int, slots: int) -> None: ...
    def started(self, step: Step) -> None: ...
    def progress(self, step: Step, event: Event) -> None: ...
    def finished(self, step: Step, outcome: Outcome) -> None: ...
    def waiting(self, why: str) -> None: ...
    def retried(self, step: Step, outcome: Outcome) -> None: ...
    def end(self) -> None: ...


@dataclass
class Summary:
    """How a run ended."""

    done_before: int = 0
    done: int = 0
    elsewhere: int = 0
    """Records finished by another driver meanwhile."""
    not_reached: int = 0
    """Records not reached within the time budget."""
    unfinished: int = 0
    """Records whose tuning gave up on a trial; they are counted as done, and flagged."""
    interrupted: bool = False
    failures: list[tuple[Step, Outcome]] = field(default_factory=list)

    @property
    def is_incomplete(self) -> bool:
        """Whether something requested is missing or incomplete."""
        return bool(self.failures or self.not_reached or self.unfinished)


class StartExecutor(Protocol):
    """Starts an executor when the first job is ready; ``Launcher`` is the usual one."""

    def __call__(self, store: Store) -> Executor: ...


def run_plan(
    plan: Plan,
    store: Store,
    start_executor: StartExecutor,
    observer: Observer,
    *,
    fail_fast: bool = False,
    budget: float | None = None,
    retries: int = RETRIES,
) -> Summary:
    """Run what is planned but not stored yet. Ctrl-C ends it cleanly, and the next run resumes.

    Args:
        plan: what to run.
        store: where results go.
        start_executor: called only if there is something to run.
        observer: is told how it goes.
        fail_fast: stop at the first failure.
        budget: seconds after which no new job starts.
        retries: how many times to restart a job whose worker was killed or lost.
    """
    execution = Execution(plan, store, observer, fail_fast=fail_fast, budget=budget, retries=retries)
    try:
        with _one_interruption():
            execution.run(start_executor)
    except KeyboardInterrupt:
        execution.summary.interrupted = True
    return execution.summary


@contextmanager
def _one_interruption() -> Iterator[None]:
    """The first Ctrl-C (or a scheduler's SIGTERM) ends the run cleanly; further ones cannot disturb the cleanup."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(number: int, frame: object) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass
class Running:
    """A job that an executor has, and its step."""

    step: Step
    lock: Lock
    job: Job
    study: OpenStudy | None = None
    reached: int = 0
    """The last epoch that it has reported."""


def is_done(step: Step, store: Store) -> bool:
    """Whether the result of a step is stored. A study is always opened again: its trials tell whether it is done."""
    if step.planned is not None:
        return store.is_stored(step.key)
    return step.study is None and is_made(step, store) and not store.has_open_trials(step.tuned.values())


def what_to_do(plan: Plan, store: Store) -> dict[str, Step]:
    """Planned minus done: unfinished records, and what they need that is not stored."""
    store.refresh()
    needed: set[str] = set()
    for step in reversed(plan.steps.values()):
        asked_for = step.planned is not None or step.key in needed
        if asked_for and not is_done(step, store):
            needed.add(step.key)
            needed.update(step.needs)
    return {key: step for key, step in plan.steps.items() if key in needed and not is_done(step, store)}


class Execution:
    """One run of a plan."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        observer: Observer,
        *,
        fail_fast: bool = False,
        budget: float | None = None,
        retries: int = RETRIES,
    ) -> None:
        self.plan = plan
        self.store = store
        self.observer = observer
        self.places: dict[str, str | float] = {"store": str(store.root), "cache": str(cache_dir().absolute())}
        self.fail_fast = fail_fast
        self.deadline = None if budget is None else time.monotonic() + budget
        # Baselines and small tables come first, so that there is something to read after a minute.
        self.agenda = Agenda(sorted(what_to_do(plan, store).values(), key=_urgency))
        self.brought_back = time.monotonic()
        self.outdated = {
            key for key, step in self.agenda.waiting.items() if store.record(key) or store.has_artefact(step.kind, key)
        }
        """Keys of what is stored, and was made by version 0.1.0 when a trial had been killed."""
        self.running: dict[str, Running] = {}
        """By the key of the job."""
        self.again: dict[str, Running] = {}
        """Jobs that are started again when there is room."""
        self.retries = retries
        self.tries: Counter[str] = Counter()
        self.in_vain: Counter[str] = Counter()
        """Tries in a row that got no further than the one before."""
        self.reached: dict[str, int] = {}
        """The last epoch of jobs that were lost."""
        self.arriving: dict[str, Arrival] = {}
        """Jobs that have ended, but what they made is not to be seen yet."""
        self.studies: dict[str, OpenStudy] = {}
        self.hungry: dict[str, OpenStudy] = {}
        """Studies that may have a trial to start; the others wait for trials that run."""
        self.best: dict[str, BestTrial] = {}
        """For each finished study its best trial."""
        self.stand_ins: dict[str, str] = {}
        """By the key of a planned artefact: that of one made after a study that had to give up on a trial."""
        self.failed: dict[str, Outcome] = {}
        self.summary = Summary(done_before=sum(is_done(step, store) for step in plan.records))

    def run(self, start_executor: StartExecutor) -> None:
        """Do all that is left. The executor is started only if there is something to do, and always closed."""
        if not self.agenda:
            return
        todo = list(self.agenda.waiting.values())
        with Signs(self.store, todo) as self.signs:
            executor = start_executor(self.store)
            self.places["patience"] = executor.patience
            self.signs.begin(executor)
            self.observer.begin(todo, self.summary.done_before, executor.slots)
            try:
                self._work(executor)
            finally:
                executor.close()
                under_way = [*self.running.values(), *self.again.values()]
                for lock in [each.lock for each in under_way] + [study.lock for study in self.studies.values()]:
                    lock.release()
                self.observer.end()
                self.store.compact()

    def _work(self, executor: Executor) -> None:
        while self.agenda or self.running or self.again or self.studies:
            ready = self._start_ready(executor)
            executor.expect(ready)
            self.signs.publish(executor.slots, ready, len(self.agenda))
            why = self.signs.explain_waiting(executor, ready)
            if why:
                self.observer.waiting(why)
            self._take_events(executor)
            self._look_for_arrivals()
            if self.fail_fast and self.summary.failures:
                break

    # Starting.

    def _start_ready(self, executor: Executor) -> dict[str, int]:
        """Start what can start; returns how many jobs of each kind only wait for room."""
        ready: Counter[str] = Counter()
        if self.deadline is not None and time.monotonic() > self.deadline:
            self._stop_starting()
        for key, running in list(self.again.items()):
            if any(need in self.agenda.unsettled for need in running.step.needs):
                continue
            if self._has_room(executor, running.job.kind):
                self.running[key] = self.again.pop(key)
                self.signs.submitted(running.job)
                executor.submit(running.job)
            else:
                ready[running.job.kind] += 1
        self._look_at_others()
        while (step := self.agenda.next(lambda kind: kind == TUNE or self._has_room(executor, kind))) is not None:
            if step.study is not None:
                self._open(step)
            else:
                self._start(step, executor)
        for study in list(self.hungry.values()):
            self._start_trials(study, executor, ready)
        return dict(ready + self.agenda.ready())

    def _look_at_others(self) -> None:
        """Now and then, see whether another driver has given up or finished what it had."""
        if time.monotonic() - self.brought_back >= LOOK_AGAIN:
            self.brought_back = time.monotonic()
            self.agenda.bring_back()
            self.hungry |= self.studies

    def _has_room(self, executor: Executor, kind: str) -> bool:
        return len(self.running) < executor.slots and executor.room(kind) > 0

    def _stop_starting(self) -> None:
        self.summary.not_reached += sum(step.planned is not None for step in self.agenda.clear())
        for key in list(self.again):
            running = self.again.pop(key)
            running.lock.release()
            self.summary.not_reached += running.step.planned is not None
        busy = {id(running.study) for running in self.running.values()}
        for key, study in list(self.studies.items()):
            study.stop()
            if id(study) not in busy:
                self.studies.pop(key).lock.release()
                self.hungry.pop(key, None)

    def _take_lock(self, key: str) -> Lock | None:
        """The right to work on a key; None if another driver has it, to be tried again later."""
        lock = self.store.lock(key)
        if not lock.take():
            return None
        self.store.refresh()
        return lock

    def _start(self, step: Step, executor: Executor) -> None:
        actual = self._stand_in(step)
        lock = self._take_lock(actual.key)
        if lock is None:
            self.agenda.set_aside(step)
            return
        self.agenda.start(step.key)
        if actual.key in self.outdated:
            self.store.drop_artefact(step.kind, actual.key)
        elif is_done(actual, self.store):
            lock.release()
            self.summary.elsewhere += step.planned is not None
            self._settle(step.key)
            return
        job = self._make_job(actual, step)
        self.running[job.key] = Running(step, lock, job)
        self.observer.started(step)
        self.signs.started(step)
        self.signs.submitted(job)
        executor.submit(job)

    def _stand_in(self, step: Step) -> Step:
        """The step itself; if a study before it is not whole, one with a key of its own.

        So it is not taken for the planned one when the study has become whole. A record keeps its key: it is flagged.
        """
        marks = self._marks(step)
        if not marks or step.planned is not None:
            return step
        stand_in = instead_of(step, marks)
        self.stand_ins[step.key] = stand_in.key
        return stand_in

    def _marks(self, step: Step) -> list[str]:
        """What a step is based on that stands in for what is planned."""
        best = [self.best[study] for study in step.tuned.values()]
        found = [self.stand_ins[need] for need in step.needs if need in self.stand_ins]
        return [each.key for each in best if each.summary.given_up] + found

    def _make_job(self, step: Step, decided_for: Step, **changes: Any) -> Job:
        """The job of a step, with what the studies before it (or before the study it is a trial of) decided."""
        for part in ("features", "encoder"):
            planned = getattr(step.payload, part, None)
            if planned in self.stand_ins:
                changes[part] = self.stand_ins[planned]
        for role, study in decided_for.tuned.items():
            best = self.best[study]
            if role == "encoder":
                # How it was found goes along: by the time of the record the study may not be open any more.
                changes |= {"encoder": best.key, "tuning": {role: best.summary}}
            else:
                changes[role] = getattr(step.payload, role).model_copy(update={"config": best.config})
        return step.to_job(**self.places, **changes)

    def _open(self, step: Step) -> None:
        lock = self._take_lock(step.key)
        if lock is None:
            self.agenda.set_aside(step)
            return
        self.agenda.start(step.key)
        self.observer.started(step)
        self.signs.started(step)
        self.studies[step.key] = self.hungry[step.key] = OpenStudy(step, self.store, lock, self._marks(step))

    def _start_trials(self, study: OpenStudy, executor: Executor, ready: Counter[str]) -> None:
        self.hungry.pop(study.step.key, None)
        while (trial := study.next_step(busy=ChainMap(self.running, self.again))) is not None:
            if not self._has_room(executor, trial.kind):
                ready[trial.kind] += 1
                study.put_back(trial)
                self.hungry[study.step.key] = study
                break
            lock = self._take_lock(trial.key)
            if lock is None:
                study.put_back(trial)
                break
            if study.is_stored(trial):
                lock.release()
                self._finish_trial(study, trial, study.stored_outcome(trial))
                continue
            self.store.drop_artefact(trial.kind, trial.key)  # one of version 0.1.0, if any
            job = self._make_job(trial, study.step, trial=True)
            self.running[trial.key] = Running(study.step, lock, job, study)
            self.signs.submitted(job)
            executor.submit(job)
        if study.finished:
            self._close(study)

    # Ending.

    def _take_events(self, executor: Executor) -> None:
        for event in executor.wait(LOOK_AGAIN):
            running = self.running.get(event.key)
            if running is None:  # late or duplicate: ignore it
                continue
            self.signs.heard(event)
            if event.outcome is not None:
                self._receive(running, event.outcome, executor.patience)
            elif event.total:  # otherwise it has been queued or started; a tuner has nothing to learn from that
                self._note_progress(running, event, executor)

    def _note_progress(self, running: Running, event: Event, executor: Executor) -> None:
        running.reached = event.step
        if running.study is None:
            self.observer.progress(running.step, event)
            self.signs.progress(running.step, event)
        elif running.study.report(event):
            executor.prune(event.key)

    def _receive(self, running: Running, outcome: Outcome, patience: float) -> None:
        """Take the end of a job; what it has made must be there first, and may come later than the news of it."""
        job = running.job
        if job.key in self.arriving:  # it says so twice
            return
        arrival = Arrival(self.store.artefact(job.kind, job.key), outcome, patience)
        if outcome.status != "ok" or job.kind not in ARTEFACTS or arrival.is_there():
            self._finish(job.key, outcome)
        else:
            self.arriving[job.key] = arrival

    def _look_for_arrivals(self) -> None:
        for key, arrival in list(self.arriving.items()):
            if arrival.is_there() or arrival.is_overdue():
                del self.arriving[key]
                self._finish(key, arrival.verdict())

    def _finish(self, key: str, outcome: Outcome) -> None:
        running = self.running.pop(key)
        if self._try_again(running, outcome):
            return
        outcome = replace(outcome, retries=self.tries[key])
        if running.study is not None:
            self._finish_trial(running.study, running.study.steps[key], outcome)
            running.lock.release()
            return
        step = running.step
        if outcome.status != "ok":
            self.failed[step.key] = outcome
        if step.planned is not None:
            outcome = self._write(step, outcome)
        running.lock.release()
        self._tell_end(step, outcome)
        self._settle(step.key)

    def _settle(self, key: str) -> None:
        """A step has ended. What only waited for it can start, or fails with it."""
        for step in self.agenda.settle(key):
            broken = next((need for need in step.needs if need in self.failed), None)
            if broken is not None:
                self._give_up(step, broken)
            else:
                self.agenda.release(step)

    def _try_again(self, running: Running, outcome: Outcome) -> bool:
        """Whether a job that ended early is started again; by its next run if not by this one."""
        key, study = running.job.key, running.study
        if outcome.status not in RETRIED:
            return False
        # A job that got further than ever before is on its way, however short the time that its place gives it.
        moved_on = outcome.status == "lost" and running.reached > self.reached.get(key, 0)
        self.reached[key] = max(running.reached, self.reached.get(key, 0))
        if not moved_on and self.in_vain[key] >= self.retries:
            return False
        self.in_vain[key] = 0 if moved_on else self.in_vain[key] + 1
        if study is not None:
            if study.is_decided(key):
                return False
            study.start_again(key)
        self.tries[key] += 1
        self.again[key] = replace(running, step=self._with_needs(running.step), reached=0)
        self.observer.retried(running.step, outcome)
        return True

    def _with_needs(self, step: Step) -> Step:
        """The step, after what it needs and is no longer stored has been put back among the steps to run."""
        lost = [self.plan.steps[need] for need in step.needs if need in self.plan.steps]
        for number, need in enumerate(lost):
            if need.study is not None and step.kind == "encode" and need.key in self.best:
                # A study is no artefact: what is gone is the encoder of its best trial.
                lost[number] = need.study.make_step(self.best[need.key].config)
                step = replace(step, needs=(*step.needs, lost[number].key))
        for need in lost:
            known = need.key in self.best if need.study is not None else self.store.has_artefact(need.kind, need.key)
            if not known and need.key not in self.agenda.unsettled:
                self.agenda.add(self._with_needs(need))
        return step

    def _finish_trial(self, study: OpenStudy, trial: Step, outcome: Outcome) -> None:
        for record in study.finish(trial, outcome):
            self.store.add(record)
        self.observer.progress(study.step, study.progress())
        self.signs.progress(study.step, study.progress())
        if study.finished:
            self._close(study)
        else:
            self.hungry[study.step.key] = study

    def _close(self, study: OpenStudy) -> None:
        """A study has no trial left to run."""
        if self.studies.pop(study.step.key, None) is None:
            return
        self.hungry.pop(study.step.key, None)
        study.lock.release()
        outcome = study.outcome()
        best = study.best_trial()
        if outcome.status == "ok" and best is not None:
            self.best[study.step.key] = best
        else:
            self.failed[study.step.key] = outcome
        self._tell_end(study.step, outcome)
        self._settle(study.step.key)

    def _give_up(self, step: Step, broken: str) -> None:
        """Fail a step because a step that it needs has failed."""
        self.agenda.start(step.key)
        cause = self.failed[broken]
        label = self.plan.steps[broken].label
        error = cause.error if cause.error.startswith("not run:") else f"not run: {label}: {cause.error}"
        outcome = Outcome(cause.status, error=error, traceback=cause.traceback)
        self.failed[step.key] = outcome
        if step.planned is not None:
            self._write(step, outcome)
            self._tell_end(step, outcome)
        self._settle(step.key)

    def _tell_end(self, step: Step, outcome: Outcome) -> None:
        self.observer.finished(step, outcome)
        self.signs.finished(step, outcome)

    def _write(self, step: Step, outcome: Outcome) -> Outcome:
        """Write the record of a result; the outcome with what the studies before it add."""
        assert step.planned is not None
        found = {part: self.best[study].summary for part, study in step.tuned.items() if study in self.best}
        tuning = {**outcome.result.get("tuning", {}), **{part: each.model_dump() for part, each in found.items()}}
        if outcome.status == "ok" and any(summary.get("given_up") for summary in tuning.values()):
            flags = [*outcome.result.get("flags", []), UNFINISHED_TUNING]
            outcome = replace(outcome, result={**outcome.result, "flags": flags})
            self.summary.unfinished += 1
        record = Record.make(step.planned, step.key, outcome, tuning=tuning)
        if record.status != outcome.status:
            outcome = Outcome(record.status, error=record.error or "")
        self.store.add(record)
        if outcome.status == "ok":
            self.summary.done += 1
        else:
            self.summary.failures.append((step, outcome))
        return outcome


def _urgency(step: Step) -> tuple[int, int]:
    """Results that can be had, then tuning of baselines, then what takes long; small tables before large ones."""
    is_baseline = step.study is not None and not step.needs and step.study.planned.ssl == NONE
    kind = 0 if step.planned is not None else 1 if is_baseline else 2
    return kind, step.payload.manifest.rows * step.payload.manifest.n_features
