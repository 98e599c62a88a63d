"""How each step ended, and what that means for the steps that need it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tabbench.contracts import Outcome
from tabbench.experiment.graph import Plan, Step
from tabbench.results.record import UNFINISHED_TUNING, Record
from tabbench.results.store import Store
from tabbench.running.agenda import Agenda
from tabbench.running.clock import Clock
from tabbench.running.decisions import Decisions
from tabbench.running.observer import Observer, Summary
from tabbench.running.signs import Signs


@dataclass
class Ledger:
    """Notes how steps end: writes records, and starts, fails or leaves out the steps that waited for them."""

    plan: Plan
    store: Store
    agenda: Agenda
    decisions: Decisions
    clock: Clock
    observer: Observer
    signs: Signs
    summary: Summary
    failed: dict[str, Outcome] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Steps that the budget does not allow, and why."""

    def finish(self, step: Step, outcome: Outcome) -> None:
        """Note that a step has ended, well or not."""
        if outcome.status != "ok":
            self.failed[step.key] = outcome
        if step.planned is not None:
            outcome = self._write(step, outcome)
        self._tell_end(step, outcome)
        self._settle(step.key)

    def finish_elsewhere(self, step: Step) -> None:
        """Note that another driver has finished a step."""
        self.summary.elsewhere += step.planned is not None
        self.clock.settled(step)
        self._settle(step.key)

    def leave_out(self, step: Step, why: str) -> None:
        """Leave out a step and everything that needs it."""
        self.agenda.start(step.key)
        if not any(need in self.left_out for need in step.needs):
            self.observer.left_out(step, why)
        self.left_out[step.key] = why
        self.clock.settled(step)
        if step.planned is not None:
            self.summary.left_out.append((step, why))
        self._settle(step.key)

    def _settle(self, key: str) -> None:
        """Release the steps that waited only for a step that has ended, or fail them or leave them out with it."""
        for step in self.agenda.settle(key):
            broken = next((need for need in step.needs if need in self.failed), None)
            missing = next((need for need in step.needs if need in self.left_out), None)
            if missing is not None:
                self.leave_out(step, self.left_out[missing])
            elif broken is not None:
                self._give_up(step, broken)
            else:
                self.agenda.release(step)

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
        self.clock.settled(step)
        self.observer.finished(step, outcome)
        self.signs.finished(step, outcome)

    def _write(self, step: Step, outcome: Outcome) -> Outcome:
        """Write the record of a result; returns its outcome, with the flags of the studies before it."""
        assert step.planned is not None
        found = self.decisions.tuning_of(step)
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


def retell_seeds(plan: Plan, store: Store) -> None:
    """Write stored results again whose model has lost its seeds since, or got some: tables compare them by seed."""
    for step in plan.records:
        planned = step.planned
        if planned is None or not store.is_stored(step.key) or store.has_seed(step.key) == (planned.seed is not None):
            continue
        record = store.record(step.key)
        if record is not None:
            store.add(replace(record, seed=planned.seed))
