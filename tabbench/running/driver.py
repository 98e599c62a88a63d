"""Plan -> executor -> store: hand out what is ready, write down what comes back.

Only the driver appends records. A lock per step lets several drivers share a results folder: a driver that does not
get the lock waits for the other's result.
"""

from __future__ import annotations

import time
from collections import ChainMap, Counter
from dataclasses import dataclass, replace
from typing import Protocol

from tabbench.contracts import Event, Executor, Job, Outcome
from tabbench.contracts.job import Status
from tabbench.data.cache import cache_dir
from tabbench.experiment.graph import Plan, Step
from tabbench.results.locks import Lock
from tabbench.results.store import Store
from tabbench.running.agenda import Agenda
from tabbench.running.arrivals import ARTEFACTS, Arrival
from tabbench.running.budget import Budget
from tabbench.running.clock import Clock
from tabbench.running.decisions import Decisions
from tabbench.running.forecast import Forecast
from tabbench.running.interruption import one_interruption
from tabbench.running.ledger import Ledger, retell_seeds
from tabbench.running.measurements import CALIBRATE
from tabbench.running.observer import Observer, Summary
from tabbench.running.retries import Retries
from tabbench.running.signs import Signs
from tabbench.running.studies import OpenStudy
from tabbench.running.todo import is_done, urgency, what_to_do

TUNE = "tune"
"""The kind of a study: the driver itself runs it, so it needs no slot."""
LOOK_AGAIN = 1.0
"""Seconds between checks of what another driver is doing."""
RETRIES = 2
"""How many times a job is restarted within a run by default."""
RETRIED: tuple[Status, ...] = ("killed", "lost")
"""Ends after which a job is restarted at once. One that ran out of time or memory is left to the next run: with
the same limits it would only fail again."""


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
    forecast: Forecast | None = None,
) -> Summary:
    """Run what is planned but not stored yet. Ctrl-C ends it cleanly, and the next run resumes.

    Args:
        plan: what to run.
        store: where results go.
        start_executor: called only if there is something to run.
        observer: hears how the run is going.
        fail_fast: stop at the first failure.
        budget: seconds that the run may take. Steps that would not finish in time are not started, and are named.
        retries: how often a job is restarted after its worker was killed or lost.
        forecast: how long jobs may take, as far as this is known or can be measured while the first ones run.
    """
    clock = Clock()
    if forecast is not None:
        clock = Clock(prior=forecast.of_job, is_measured=forecast.is_measured, is_ready=forecast.is_ready)
    limit = Budget(clock, budget)
    execution = Execution(plan, store, observer, clock, limit, forecast, fail_fast=fail_fast, retries=retries)
    try:
        with one_interruption():
            execution.run(start_executor)
    except KeyboardInterrupt:
        execution.summary.interrupted = True
    return execution.summary


@dataclass
class Running:
    """A job that an executor has, and its step."""

    step: Step
    lock: Lock
    job: Job
    study: OpenStudy | None = None
    reached: int = 0
    """The last epoch that it has reported."""


class Execution:
    """One run of a plan."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        observer: Observer,
        clock: Clock,
        budget: Budget,
        forecast: Forecast | None,
        *,
        fail_fast: bool,
        retries: int,
    ) -> None:
        self.plan = plan
        self.store = store
        self.observer = observer
        self.decisions = Decisions(store=str(store.root), cache=str(cache_dir().absolute()))
        self.fail_fast = fail_fast
        self.clock = clock
        self.budget = budget
        self.forecast = forecast
        self.measuring: set[str] = set()
        """Keys of jobs that measure how long others take."""
        # Baselines and small tables come first: there should be something to read after a minute.
        todo = sorted(what_to_do(plan, store).values(), key=urgency)
        self.agenda = Agenda(todo)
        self.n_at_once = sum(step.planned is not None for step in todo)
        """How many of the steps to run make a record; these are the most urgent."""
        self.brought_back = time.monotonic()
        self.outdated = {
            key for key, step in self.agenda.waiting.items() if store.record(key) or store.has_artefact(step.kind, key)
        }
        """Keys of stored results that version 0.1.0 made after a trial had been killed."""
        self.running: dict[str, Running] = {}
        """By the key of the job."""
        self.again: dict[str, Running] = {}
        """Jobs to restart when there is room."""
        self.retries = Retries(retries)
        self.arriving: dict[str, Arrival] = {}
        """Jobs that have ended, but whose artefacts are not visible yet."""
        self.studies: dict[str, OpenStudy] = {}
        self.hungry: dict[str, OpenStudy] = {}
        """Studies that may have a trial to start; the others wait for trials that run."""
        self.summary = Summary(done_before=sum(is_done(step, store) for step in plan.records))

    def run(self, start_executor: StartExecutor) -> None:
        """Run everything that is left. The executor is started only if there is something to do, and always closed."""
        retell_seeds(self.plan, self.store)
        if not self.agenda:
            return
        todo = list(self.agenda.waiting.values())
        with Signs(self.store, len(todo), self.clock) as self.signs:
            executor = start_executor(self.store)
            self.decisions.places["patience"] = executor.patience
            self.signs.begin(executor)
            self.ledger = Ledger(
                self.plan, self.store, self.agenda, self.decisions, self.clock, self.observer, self.signs, self.summary
            )
            self.clock.begin(todo, executor.slots)
            if self.forecast is not None:
                self.forecast.begin(self.clock)
            self.observer.begin(todo, self.summary.done_before, executor.slots, self.clock)
            self._leave_out_what_takes_too_long(todo)
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
            if self.budget.is_over():
                self._stop()
                break
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
        """Start what can start; returns how many jobs of each kind only lack room."""
        again = self._start_again(executor)
        self._look_at_others()
        self._start_steps(executor, before=self.n_at_once)
        lacks_room = self._start_measuring(executor)
        if self.budget.is_limited:  # steps that may take long wait until their time is known
            if self.measuring:
                return dict(again)
            if lacks_room:
                return dict(again + self.agenda.ready() + Counter({CALIBRATE: executor.slots}))
        opened = True
        while opened:  # the trials of a study just opened may be more urgent than the remaining steps
            ready: Counter[str] = Counter()
            opened = False
            for study in sorted(self.hungry.values(), key=lambda study: self.agenda.order(study.step.key)):
                opened |= self._start_steps(executor, before=self.agenda.order(study.step.key))
                self._start_trials(study, executor, ready)
            opened |= self._start_steps(executor)
        return dict(again + ready + self.agenda.ready())

    def _start_again(self, executor: Executor) -> Counter[str]:
        """Restart jobs that were killed or lost; returns how many of each kind only lack room."""
        ready: Counter[str] = Counter()
        for key, running in list(self.again.items()):
            if any(need in self.agenda.unsettled for need in running.step.needs):
                continue
            if self._has_room(executor, running.job.kind):
                self.running[key] = self.again.pop(key)
                self._submit(running, executor)
            else:
                ready[running.job.kind] += 1
        return ready

    def _start_measuring(self, executor: Executor) -> bool:
        """Start what is worth measuring; whether the first measurement only lacks room, as before workers are there."""
        if self.forecast is None:
            return False
        while self._has_room(executor, CALIBRATE):
            job = self.forecast.next()
            if job is None:
                return False
            self.measuring.add(job.key)
            self.signs.submitted(job)
            executor.submit(job)
        return self.forecast.is_due()

    def _take_measurement(self, key: str, outcome: Outcome) -> None:
        assert self.forecast is not None
        self.measuring.remove(key)
        self.forecast.take(key, outcome)
        if not self.measuring:
            self._leave_out_what_takes_too_long(list(self.agenda.waiting.values()))

    def _start_steps(self, executor: Executor, before: int | None = None) -> bool:
        """Start steps that are ready, the most urgent first; returns whether studies were opened."""
        opened = False

        def may_start(kind: str) -> bool:
            return kind == TUNE and not self.budget.is_limited if opened else self._may_start(executor, kind)

        while (step := self.agenda.next(may_start, before)) is not None:
            why = self.budget.why_not(step)
            if why:
                self.ledger.leave_out(step, f"{step.label} {why}")
            elif step.study is not None:
                opened |= self._open(step)
            else:
                self._start(step, executor)
        return opened

    def _submit(self, running: Running, executor: Executor) -> None:
        job, study = running.job, running.study
        self.clock.started(job.key, running.step, None if study is None else study.trial(job.key))
        self.signs.submitted(job)
        executor.submit(job)

    def _look_at_others(self) -> None:
        """Check now and then whether another driver has given up or finished its steps."""
        if time.monotonic() - self.brought_back >= LOOK_AGAIN:
            self.brought_back = time.monotonic()
            self.agenda.bring_back()
            self.hungry |= self.studies

    def _may_start(self, executor: Executor, kind: str) -> bool:
        """A study needs no room, but with a budget it is opened only when its trials can start: nobody
        knows yet how much time there will be."""
        if kind == TUNE:
            return not self.budget.is_limited or len(self.running) + len(self.measuring) < executor.slots
        return self._has_room(executor, kind)

    def _has_room(self, executor: Executor, kind: str) -> bool:
        return len(self.running) + len(self.measuring) < executor.slots and executor.room(kind) > 0

    def _take_lock(self, key: str) -> Lock | None:
        """The right to work on a key; None if another driver has it, to be tried again later."""
        lock = self.store.lock(key)
        if not lock.take():
            return None
        self.store.refresh()
        return lock

    def _start(self, step: Step, executor: Executor) -> None:
        actual = self.decisions.stand_in(step)
        lock = self._take_lock(actual.key)
        if lock is None:
            self.agenda.set_aside(step)
            return
        self.agenda.start(step.key)
        if actual.key in self.outdated:
            self.store.drop_artefact(step.kind, actual.key)
        elif is_done(actual, self.store):
            lock.release()
            self.ledger.finish_elsewhere(step)
            return
        job = self.decisions.make_job(actual, step)
        self.running[job.key] = Running(step, lock, job)
        self.observer.started(step)
        self._submit(self.running[job.key], executor)

    def _open(self, step: Step) -> bool:
        """Open a study; whether no other driver has it."""
        lock = self._take_lock(step.key)
        if lock is None:
            self.agenda.set_aside(step)
            return False
        self.agenda.start(step.key)
        self.observer.started(step)
        study = OpenStudy(step, self.store, lock, self.decisions.marks(step))
        self.studies[step.key] = self.hungry[step.key] = study
        self.clock.trials_left(step, study.n_waiting)
        return True

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
            job = self.decisions.make_job(trial, study.step, trial=True)
            self.running[trial.key] = Running(study.step, lock, job, study)
            self._submit(self.running[trial.key], executor)
            self.clock.trials_left(study.step, study.n_waiting)
        if study.finished:
            self._close(study)

    # What the budget does not allow.

    def _leave_out_what_takes_too_long(self, todo: list[Step]) -> None:
        """Say at once what cannot be done in the time left."""
        for step in todo:
            if step.key in self.agenda.waiting and not any(need in self.agenda.unsettled for need in step.needs):
                why = self.budget.why_not(step)
                if why:
                    self.ledger.leave_out(step, f"{step.label} {why}")

    def _stop(self) -> None:
        """Stop because the time is used up: running jobs end with the executor, and the next run resumes them."""
        under_way = [each.step for each in (*self.running.values(), *self.again.values())]
        for step in (*self.agenda.clear(), *under_way):
            if step.planned is not None:
                self.summary.left_out.append((step, "the budget was used up"))

    # Ending.

    def _take_events(self, executor: Executor) -> None:
        for event in executor.wait(LOOK_AGAIN):
            if event.key in self.measuring:
                self.signs.heard(event)
                if event.outcome is not None:
                    self._take_measurement(event.key, event.outcome)
                continue
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
        self.clock.progress(event)
        if running.study is None:
            self.observer.progress(running.step, event)
        elif running.study.report(event):
            executor.prune(event.key)

    def _receive(self, running: Running, outcome: Outcome, patience: float) -> None:
        """Accept the end of a job. Its artefact must be visible first, and may appear later than the message."""
        job = running.job
        if job.key in self.arriving:  # it was reported twice
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
        self.clock.finished(key, counts=outcome.status in ("ok", "pruned"))
        if self._try_again(running, outcome):
            return
        outcome = replace(outcome, retries=self.retries.made[key])
        if running.study is not None:
            self._finish_trial(running.study, running.study.steps[key], outcome)
        else:
            self.ledger.finish(running.step, outcome)
        running.lock.release()

    def _try_again(self, running: Running, outcome: Outcome) -> bool:
        """Whether this run restarts a job that ended early; otherwise the next run does."""
        key, study = running.job.key, running.study
        if outcome.status not in RETRIED:
            return False
        if study is not None and study.is_decided(key):
            return False
        if not self.retries.allow(key, running.reached, lost=outcome.status == "lost"):
            return False
        if study is not None:
            study.start_again(key)
        self.again[key] = replace(running, step=self._put_back_needs(running.step), reached=0)
        self.observer.retried(running.step, outcome)
        return True

    def _put_back_needs(self, step: Step) -> Step:
        """Put whatever a step needs and is no longer stored back among the steps to run; returns the step."""
        lost = [self.plan.steps[need] for need in step.needs if need in self.plan.steps]
        for number, need in enumerate(lost):
            if need.study is not None and step.kind == "encode" and need.key in self.decisions.best:
                # A study is not an artefact: the missing one is the encoder of its best trial.
                lost[number] = need.study.make_step(self.decisions.best[need.key].config)
                step = replace(step, needs=(*step.needs, lost[number].key))
        for need in lost:
            known = need.key in self.decisions.best or self.store.has_artefact(need.kind, need.key)
            if not known and need.key not in self.agenda.unsettled:
                self.agenda.add(self._put_back_needs(need))
        return step

    def _finish_trial(self, study: OpenStudy, trial: Step, outcome: Outcome) -> None:
        for record in study.finish(trial, outcome):
            self.store.add(record)
        self.clock.trials_left(study.step, study.n_waiting)
        self.observer.progress(study.step, study.progress())
        if study.finished:
            self._close(study)
        else:
            self.hungry[study.step.key] = study

    def _close(self, study: OpenStudy) -> None:
        """Close a study that has no trial left to run."""
        if self.studies.pop(study.step.key, None) is None:
            return
        self.hungry.pop(study.step.key, None)
        study.lock.release()
        best = study.best_trial()
        if best is not None:
            self.decisions.best[study.step.key] = best
            if self.forecast is not None:
                self.forecast.decide(study.step, best.config)
        self.ledger.finish(study.step, study.outcome())
