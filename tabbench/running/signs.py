"""Write a run's status to the results folder, for ``tabbench status`` and for other drivers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from tabbench.contracts import Event, Executor, Job, Outcome
from tabbench.experiment.graph import Step
from tabbench.results.cleaning import sweep_drafts
from tabbench.results.drivers import Presence, RunningJob
from tabbench.results.store import Store
from tabbench.running.clock import Clock

PUBLISH_EVERY = 2.0
"""Seconds between two updates."""
EXPLAIN_AFTER = 60.0
"""Seconds without a new job, though jobs are ready and there should be room, before a reason is given."""
EXPLAIN_AGAIN = 600.0
"""Seconds after which the same reason is given again."""


class Signs:
    """Watches a run and writes its status now and then."""

    def __init__(self, store: Store, total: int, clock: Clock) -> None:
        self.presence = store.presence = Presence(store.root)
        sweep_drafts(store.root, self.presence.id)
        self.clock = clock
        self.total, self.done, self.failed = total, 0, 0
        self.last_error = ""
        self.waiting_for = ""
        self.submitted_at = self.explained_at = time.monotonic()
        self.jobs: dict[str, RunningJob] = {}
        self.published = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.presence.update(total=self.total, done=self.done, failed=self.failed, last_error=self.last_error)
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.presence.close("interrupted" if interrupted else "failed" if self.failed or kind else "done")

    def begin(self, executor: Executor) -> None:
        self.presence.say(executor=executor.site.name, remote=bool(executor.patience))

    def finished(self, step: Step, outcome: Outcome) -> None:
        if outcome.status == "ok":
            self.done += 1
        else:
            self.failed += 1
            self.last_error = f"{step.label}: {outcome.error}"

    # Jobs.

    def submitted(self, job: Job) -> None:
        self.waiting_for = ""
        self.submitted_at = time.monotonic()
        self.jobs[job.key] = RunningJob(job.label, job.kind, "", time.time())

    def heard(self, event: Event) -> None:
        if event.outcome is not None:
            self.jobs.pop(event.key, None)
            return
        job = replace(self.jobs[event.key], queued=event.state == "queued")
        if event.node:
            job = replace(job, node=event.node)
        if event.total:
            job = replace(job, step=event.step, total=event.total)
        self.jobs[event.key] = job

    def explain_waiting(self, executor: Executor, ready: Mapping[str, int]) -> str:
        """Say why nothing has started for a minute; empty if all is well, or if the reason was just given."""
        now = time.monotonic()
        if not ready or len(self.jobs) >= executor.slots or now - self.submitted_at < EXPLAIN_AFTER:
            return ""
        before, self.waiting_for = self.waiting_for, executor.why_waiting()
        if self.waiting_for == before and now - self.explained_at < EXPLAIN_AGAIN:
            return ""
        self.explained_at = now
        return self.waiting_for

    # The folder.

    def publish(self, slots: int, ready: Mapping[str, int], waiting: int) -> None:
        now = time.monotonic()
        if now - self.published < PUBLISH_EVERY:
            return
        self.published = now
        n_ready = sum(ready.values())
        self.presence.update(
            slots=slots,
            total=self.total,
            done=self.done,
            failed=self.failed,
            ready=n_ready,
            blocked=max(0, waiting - n_ready),
            left=self.clock.left(),
            waiting_for=self.waiting_for,
            last_error=self.last_error,
            jobs=tuple(self.jobs.values()),
        )
