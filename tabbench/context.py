"""What a job gives to the plugin it runs: device, threads, seeds, deadline, progress."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tabbench.errors import DeadlineReached
from tabbench.table import Representation, Table

if TYPE_CHECKING:
    import torch

Metrics = dict[str, float]
Probe = Callable[[Callable[[Table], Representation]], float]


@dataclass
class Context:
    """The surroundings of one training.

    A plugin takes its randomness from ``seed`` and ``generator`` only, and calls ``report`` at least once an epoch.
    """

    root_seed: int = 0
    device: str = "cpu"
    threads: int = 1
    memory: int | None = None
    """Bytes that the job may use, or None if nothing was said."""
    deadline: float | None = None
    """Point of ``time.monotonic()`` after which ``report`` raises ``DeadlineReached``."""
    scratch: Path | None = None
    """A folder of this job for checkpoints; it survives a kill, and is the same when the job is run again."""
    validation: Table | None = None
    """Validation rows without labels, for early stopping on a pretext loss; None outside the harness."""
    probe: Probe | None = None
    """Scores an ``encode`` function by a linear probe on validation, higher is better; None outside the harness."""
    on_report: Callable[[int, int, Metrics], None] | None = field(default=None, repr=False)

    def seed(self, name: str) -> int:
        """A seed of its own for each use, such as ``"masks"``: adding one use does not disturb the others."""
        digest = hashlib.sha256(f"{self.root_seed}/{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def generator(self, name: str, device: str | None = None) -> torch.Generator:
        """A torch generator on the job's device, seeded by ``seed(name)``."""
        import torch

        return torch.Generator(device or self.device).manual_seed(self.seed(name))

    def report(self, step: int, total: int, **metrics: float) -> None:
        """Tell how far the training is, after ``step`` of ``total`` epochs.

        Raises:
            DeadlineReached: the time is used up.
            Pruned: the tuner gives this trial up.
        """
        if self.on_report is not None:
            self.on_report(step, total, metrics)
        self.check_deadline(f"after {step} of {total} epochs")

    def check_deadline(self, where: str) -> None:
        """Raise ``DeadlineReached``, which says ``where``, if the time is used up; for use inside long epochs."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise DeadlineReached(f"the time was used up {where}")
