"""What is known of the time of a run's steps: from its results folder, or measured while the run begins."""

from __future__ import annotations

from tabbench.config import Settings
from tabbench.contracts import Job, Outcome
from tabbench.experiment.graph import Plan, Step
from tabbench.results.store import Store
from tabbench.running.clock import Clock, Kin, kinship
from tabbench.running.launch import Launcher
from tabbench.running.measurements import Calibration
from tabbench.running.timings import Timings
from tabbench.running.todo import what_to_do

MANY = 20
"""Jobs from which on a run is worth measurements."""
BEFORE_WORK = 60.0
"""Seconds after which a run begins no measurement; its jobs wait until then."""
SHARE = 0.2
"""The share of a run's time after which it measures no more than every training once, and of a budget after which it
measures nothing."""


class Forecast:
    """What is known of the time of steps before a run: from the results folder, else measured while it runs.

    Every training is measured once, on its largest table; in a run of few jobs none. Where settings are tuned, more is
    measured: what makes up most of the time, for a share of it. With a budget everything is, as far as a minute, or a
    share of the budget, allows.
    """

    def __init__(self, plan: Plan, store: Store, launcher: Launcher, budget: float | None = None) -> None:
        preset = next((step.planned.preset for step in plan.records if step.planned is not None), None)
        self.timings = Timings(store, preset or "")
        self._stored: dict[Kin, float | None] = {}
        unknown: list[Step] = []
        todo = what_to_do(plan, store).values()
        long = budget is not None or any(step.study is not None for step in todo)
        if (long or len(todo) >= MANY) and not launcher.start.patience:  # on a cluster it would wait in the queue
            unknown = [step for step in todo if self._of_stored(step) is None]
        self.calibration = Calibration(plan, unknown, sparingly=not long)
        self._has_budget = budget is not None
        self._most = BEFORE_WORK if budget is None else min(BEFORE_WORK, SHARE * budget)
        self._begun: float | None = None
        self._clock, self._since = Clock(), 0.0
        self._is_over, self._is_ready = False, False

    def begin(self, clock: Clock) -> None:
        """The run begins, and this is its clock."""
        self._clock, self._since = clock, clock.now()

    def of_job(self, step: Step, trial: int | None = None) -> float | None:
        """Seconds that one job of a step may take; of a study, one of its trials. None if nothing is known."""
        stored = self._of_stored(step)
        return self.calibration.of_job(step, trial) if stored is None else stored

    def is_measured(self, step: Step, trial: int | None = None) -> bool:
        """Whether what is known comes from whole trainings, or from this one on this table; of a trial, with its
        settings, which stored trainings did not have."""
        if self._of_stored(step) is not None:
            return trial is None
        return self.calibration.is_measured(step, trial)

    def _of_stored(self, step: Step) -> float | None:
        kin = kinship(step)[0]
        if kin not in self._stored:
            self._stored[kin] = self.timings.of_job(step, closely=True)
        return self._stored[kin]

    def next(self) -> Job | None:
        """The next measurement of something that is not known by now."""
        now = self._clock.now()
        self._begun = now if self._begun is None else self._begun
        self._is_over = self._is_enough(now - self._begun)
        return None if self._is_over else self.calibration.next(self._clock.knows)

    def _is_enough(self, spent: float) -> bool:
        if spent >= self._most:
            return True
        if self._has_budget or self.calibration.first:
            return False
        return spent > SHARE * (self._clock.guess() or 0.0)

    def is_due(self) -> bool:
        """Whether there is something to measure, and nothing was begun yet."""
        return self._begun is None and bool(self.calibration.first)

    def is_ready(self) -> bool:
        """Whether every training is known from its end, its beginning or a measurement. Nobody waits long for that:
        measurements begin only when there is room for them."""
        if not self._is_ready:
            waiting = not self._is_over and any(not self._clock.knows(each.step) for each in self.calibration.first)
            in_time = self._clock.now() - self._since < self._most
            self._is_ready = not (in_time and (waiting or self.calibration.outstanding()))
        return self._is_ready

    def decide(self, study: Step, config: Settings) -> None:
        """A study has ended: what is based on it takes its time from this configuration."""
        self.calibration.decide(study, config)

    def take(self, key: str, outcome: Outcome) -> None:
        """Take the end of a measurement."""
        self.calibration.take(key, outcome)
