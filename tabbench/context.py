"""What a job gives the plugin it runs: device, threads, seeds, deadline, progress."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tabbench.errors import DeadlineReached, PluginError
from tabbench.values import Representation, Table

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from tabbench.contracts.encoders import TrainableEncoder

Metrics = dict[str, float]
FINE = 1000
"""Total steps reported for a training in stages."""
Probe = Callable[[Callable[[Table], Representation]], float]


@dataclass
class Context:
    """The environment of one training run.

    A plugin takes its randomness only from ``seed`` and ``generator``, and calls ``report`` at least once per epoch.
    """

    root_seed: int = 0
    device: str = "cpu"
    threads: int = 1
    memory: int | None = None
    """Memory limit of the job in bytes; None if there is none."""
    deadline: float | None = None
    """Time, as in ``time.monotonic()``, after which ``report`` raises ``DeadlineReached``."""
    scratch: Path | None = None
    """The job's folder for checkpoints. It survives a kill, and is the same when the job runs again."""
    validation: Table | None = None
    """Validation rows without labels, for early stopping on a pretext loss; None outside the harness."""
    unlabelled: Table | None = None
    """For joint methods: all training rows, without labels, and rows that never had one; None outside the harness."""
    probe: Probe | None = None
    """Scores an ``encode`` function by a linear probe on validation, higher is better; None outside the harness."""
    finetuned: Callable[[TrainableEncoder], float] | None = None
    """For methods that pretrain a model's backbone: fine-tunes a copy and scores it on validation, higher is better."""
    weights: NDArray[np.float32] | None = None
    """For models whose plugin says ``weights=True``: what each training row counts in the loss, 1 on average; None if
    all rows count the same. Validation is not weighted."""
    on_report: Callable[[int, int, Metrics], None] | None = field(default=None, repr=False)
    interrupt: Callable[[], None] | None = field(default=None, repr=False)
    """Raises an ``Interruption`` if the job should end; called by ``check_deadline``."""
    _shared: float = field(default=0.0, repr=False)
    """The total share of the stages made so far."""

    def seed(self, name: str) -> int:
        """A separate seed for each use, such as ``"masks"``. Adding a use does not change the others."""
        digest = hashlib.sha256(f"{self.root_seed}/{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def generator(self, name: str, device: str | None = None) -> torch.Generator:
        """A torch generator on the job's device, seeded with ``seed(name)``."""
        import torch

        return torch.Generator(device or self.device).manual_seed(self.seed(name))

    def child(self, name: str, share: float) -> Context:
        """The context of one stage, for a method that trains in stages.

        It has its own seeds and scratch folder. Its reports cover ``share`` of the whole progress. Stages run in the
        order in which they are made.

            first, second = context.child("vectors", 0.8), context.child("prototypes", 0.2)
        """
        begin, self._shared = self._shared, self._shared + share
        if not 0 < share <= 1 or self._shared > 1 + 1e-9:
            raise ValueError(f"stage {name!r}: shares must be above 0 and add up to at most 1, not {self._shared:g}")

        def pass_on(step: int, total: int, metrics: Metrics) -> None:
            if self.on_report is not None:
                done = begin + share * min(1.0, step / max(total, 1))
                self.on_report(round(done * FINE), FINE, metrics)

        return replace(
            self,
            root_seed=self.seed(f"stage {name}"),
            scratch=None if self.scratch is None else self.scratch / name,
            on_report=pass_on,
            _shared=0.0,
        )

    def report(self, step: int, total: int, **metrics: float) -> None:
        """Report the progress of training, after ``step`` of ``total`` epochs.

        Raises:
            DeadlineReached: time is up.
            Pruned: the tuner gives up on this trial.
            Evicted: the machine is needed for something else.
            PluginError: a metric is not a number.
        """
        for name, value in metrics.items():
            try:
                metrics[name] = float(value)
            except (TypeError, ValueError, RuntimeError):
                raise PluginError(f"report was given {name}={value!r:.60}, which is not a number") from None
        if self.on_report is not None:
            self.on_report(step, total, metrics)
        self.check_deadline(f"after {step} of {total} epochs")

    def check_deadline(self, where: str) -> None:
        """Raise an ``Interruption`` if the job should end, out of time or otherwise. Call it inside long epochs.

        ``where`` is for the message: ``in epoch 3 of 10``.
        """
        if self.interrupt is not None:
            self.interrupt()
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise DeadlineReached(f"time ran out {where}")
