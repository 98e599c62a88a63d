"""Artefacts not visible yet: a node says that it is done, but its file system is slower than its message."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from tabbench.contracts import Outcome
from tabbench.results.artefacts import has_all_files
from tabbench.results.lag import FIRST_LOOK, LONGEST_PAUSE, look

ARTEFACTS = ("pretrain", "encode")
"""Kinds of jobs that leave something behind."""


@dataclass
class Arrival:
    """An artefact that a job has made, until it becomes visible."""

    path: Path
    outcome: Outcome
    patience: float
    since: float = field(default_factory=time.monotonic)
    pause: float = FIRST_LOOK
    next_look: float = 0.0

    def is_there(self) -> bool:
        """Whether the artefact is visible; looks only now and then."""
        now = time.monotonic()
        if now < self.next_look:
            return False
        self.next_look, self.pause = now + self.pause, min(2 * self.pause, LONGEST_PAUSE)
        return self._look()

    def _look(self) -> bool:
        return look(lambda: has_all_files(self.path), self.path)

    def is_overdue(self) -> bool:
        return time.monotonic() - self.since > self.patience

    def verdict(self) -> Outcome:
        """The job's own outcome, or why it does not count."""
        if self._look():
            return self.outcome
        node = self.outcome.place.get("hostname", "its node")
        return Outcome(
            "lost",
            error=f"it ended on {node}, but {self.path} did not appear within {self.patience:g} s: "
            "the file system lags, or is not shared",
            place=self.outcome.place,
        )
