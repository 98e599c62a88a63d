"""The interface for watching a run, and the summary of how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tabbench.contracts import Event, Outcome
from tabbench.experiment.graph import Step
from tabbench.results.json_shapes import LeftOut
from tabbench.running.clock import Clock


class Observer(Protocol):
    """Hears how a run is going. Displays implement it."""

    def begin(self, todo: list[Step], done: int, slots: int, clock: Clock) -> None: ...
    def started(self, step: Step) -> None: ...
    def progress(self, step: Step, event: Event) -> None: ...
    def finished(self, step: Step, outcome: Outcome) -> None: ...
    def waiting(self, why: str) -> None: ...
    def left_out(self, step: Step, why: str) -> None: ...
    def retried(self, step: Step, outcome: Outcome) -> None: ...
    def end(self) -> None: ...


@dataclass
class Summary:
    """How a run ended."""

    done_before: int = 0
    done: int = 0
    elsewhere: int = 0
    """Records finished by another driver meanwhile."""
    left_out: list[tuple[Step, str]] = field(default_factory=list)
    """Records that did not fit into the budget, each with the reason."""
    unfinished: int = 0
    """Records whose tuning gave up on a trial; they are counted as done, and flagged."""
    interrupted: bool = False
    failures: list[tuple[Step, Outcome]] = field(default_factory=list)

    def places_left_out(self) -> list[LeftOut]:
        """The places in a table of the records that were left out, for its ``left_out``."""
        return [
            LeftOut(
                reason=why,
                key=step.key,
                ssl=step.planned.ssl,
                model=step.planned.model,
                data=step.planned.data,
                protocol=step.planned.protocol,
                labels=step.planned.labels,
                split=step.planned.split,
                seed=step.planned.seed,
            )
            for step, why in self.left_out
            if step.planned is not None
        ]

    @property
    def is_incomplete(self) -> bool:
        """Whether something requested is missing or incomplete."""
        return bool(self.failures or self.left_out or self.unfinished)
