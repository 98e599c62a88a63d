"""The time that a run may take, and what can still be done in it."""

from __future__ import annotations

from tabbench.experiment.graph import Step
from tabbench.running.clock import Clock, duration

SPARE = 1.1
"""A step starts only if there is this many times the time that it should need, because estimates are rarely exact."""


class Budget:
    """Seconds from now on; None if there is no limit."""

    def __init__(self, clock: Clock, seconds: float | None = None) -> None:
        self.clock = clock
        self.end = None if seconds is None else clock.now() + seconds

    @property
    def is_limited(self) -> bool:
        return self.end is not None

    def is_over(self) -> bool:
        return self.end is not None and self.clock.now() >= self.end

    def why_not(self, step: Step) -> str:
        """Why a step should not be started: no record that builds on it would be finished in time. Empty if it may."""
        if self.end is None:
            return ""
        needed, left = self.clock.needed(step), self.end - self.clock.now()
        if needed is None or needed * SPARE <= left:
            return ""
        if needed <= left:
            return f"would need about {duration(needed)}, too close to the {duration(left)} left"
        return f"would need about {duration(needed)}, with {duration(max(left, 0.0))} left"
