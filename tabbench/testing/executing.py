"""Promises of executors. They run for real: on this machine, or on the cluster that the settings name."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tabbench.contracts import Event, Executor, Job, Limits, Outcome, Site
from tabbench.contracts.job import content_key
from tabbench.running.executors import nest
from tabbench.running.rehearsal import RehearsalPayload
from tabbench.testing.common import require
from tabbench.testing.subject import CheckSkipped, Subject

START = 180.0
"""Seconds within which a first job must start: a cluster may have to find a node first."""
PATIENCE = 60.0
"""Seconds allowed for anything else."""
LIMITS = Limits(threads=1, device="cpu", timeout=12.0, memory=1536 * 2**20)
"""On a busy machine it takes seconds to eat so much memory; the time must not be up before."""


class Stage:
    """A running executor and everything it has reported."""

    def __init__(self, subject: Subject) -> None:
        cls: type[Executor] = subject.load()
        shared = Path.cwd() if cls.patience else None  # the nodes of a cluster do not see our temporary folder
        self.folder = Path(tempfile.mkdtemp(prefix=".tabbench-check-", dir=shared))
        cache = self.folder / "cache"
        cache.mkdir()
        config = cls.Config.resolve(nest(subject.settings), subject.name)
        self.executor = cls(Site(self.folder, cache, LIMITS, 2, subject.name), config)
        self.events: list[Event] = []
        self.count = 0
        atexit.register(self.close)

    def job(self, **wanted: Any) -> Job:
        self.count += 1
        payload = RehearsalPayload(**wanted, store=str(self.folder), cache=str(self.folder / "cache"), echo=self.count)
        return Job(content_key([self.count, payload.to_json()]), "rehearse", f"job {self.count}", payload.to_json())

    def submit(self, *jobs: Job) -> None:
        """Hand jobs over as a driver does: when there is room."""
        for index, job in enumerate(jobs):
            self.until(
                lambda kind=job.kind: self.executor.room(kind) > 0,  # type: ignore[misc]
                "there is no room for a job",
                START,
                ready=len(jobs) - index,
            )
            self.executor.submit(job)

    def until(self, condition: Callable[[], bool], what: str, seconds: float | None = None, ready: int = 0) -> None:
        """Let the executor work until a condition holds."""
        seconds = PATIENCE if seconds is None else seconds
        end = time.monotonic() + seconds
        while not condition():
            require(time.monotonic() < end, f"{what} within {seconds:g} s; it says: {self.executor.why_waiting()!r}")
            self.executor.expect({"rehearse": ready} if ready else {})
            self.events += self.executor.wait(0.2)

    def of(self, job: Job) -> list[Event]:
        return [event for event in self.events if event.key == job.key]

    def ends(self, job: Job) -> list[Outcome]:
        return [event.outcome for event in self.of(job) if event.outcome is not None]

    def reports(self, job: Job) -> list[int]:
        return [event.step for event in self.of(job) if event.outcome is None and event.total]

    def run(self, *jobs: Job) -> list[Outcome]:
        """Run jobs to their ends."""
        self.submit(*jobs)
        self.until(lambda: all(self.ends(job) for job in jobs), "not every job has ended")
        return [self.ends(job)[0] for job in jobs]

    def close(self) -> None:
        atexit.unregister(self.close)
        with contextlib.suppress(Exception):
            self.executor.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def stage(subject: Subject) -> Stage:
    """The executor that checks share, as its workers take seconds to start."""
    return subject.once("stage", lambda: Stage(subject))


def check_each_job_ends_once(subject: Subject) -> None:
    """Every job that is submitted ends, once, with its own result and with where it ran."""
    on = stage(subject)
    jobs = [on.job(epochs=1) for _ in range(5)]
    outcomes = on.run(*jobs)
    on.until(lambda: True, "")
    for job, outcome in zip(jobs, outcomes, strict=True):
        require(outcome.status == "ok", f"a job that should end well ended as {outcome.status}: {outcome.error}")
        require(outcome.result["echo"] == job.payload["echo"], "a job has another job's result")
        require(len(on.ends(job)) == 1, f"a job has ended {len(on.ends(job))} times")
        require(bool(outcome.place.get("hostname")), "an outcome does not say where its job ran (Outcome.place)")


def check_failures_are_told(subject: Subject) -> None:
    """The exception of a job becomes the outcome ``failed`` with its text and traceback."""
    on = stage(subject)
    (outcome,) = on.run(on.job(then="fail"))
    require(outcome.status == "failed", f"it ended as {outcome.status}")
    require("told to fail" in outcome.error, f"the error is {outcome.error!r}")
    require("RuntimeError" in outcome.traceback, "there is no traceback")


def check_reports_of_a_trial_come_in_order(subject: Subject) -> None:
    """A tuner hears of every epoch of a trial, in order, before its end."""
    on = stage(subject)
    job = on.job(epochs=20)
    on.run(job)
    require(on.reports(job) == list(range(1, 21)), f"reported epochs: {on.reports(job)}")
    require(on.of(job)[-1].outcome is not None, "a report came after the end")


def check_prune_reaches_a_job(subject: Subject) -> None:
    """``prune`` ends a job at its next report, with the status ``pruned``."""
    on = stage(subject)
    job = on.job(epochs=70, seconds=0.1)
    on.submit(job)
    on.until(lambda: bool(on.reports(job)), "no report came")
    on.executor.prune(job.key)
    on.until(lambda: bool(on.ends(job)), "a job that was pruned has not ended")
    (end,) = on.ends(job)
    require(end.status == "pruned", f"it ended as {end.status}")


def check_cancel_stops_a_job(subject: Subject) -> None:
    """``cancel`` stops a job that does not listen, with the status ``cancelled``; the next job runs."""
    on = stage(subject)
    job = on.job(epochs=1, then="hang")
    on.submit(job)
    on.until(lambda: bool(on.reports(job)), "no report came")
    on.executor.cancel(job.key)
    on.until(lambda: bool(on.ends(job)), "a job that was cancelled has not ended")
    require(on.ends(job)[0].status == "cancelled", f"it ended as {on.ends(job)[0].status}")
    on.executor.cancel("a job that nobody knows")
    (after,) = on.run(on.job())
    require(after.status == "ok", f"the next job ended as {after.status}: {after.error}")


def check_a_crash_costs_one_job(subject: Subject) -> None:
    """A job whose process dies ends as ``killed`` or ``lost``; other jobs, then and later, still run."""
    on = stage(subject)
    jobs = [on.job(then="crash"), on.job(epochs=10, seconds=0.1), on.job()]
    crashed, beside, after = on.run(*jobs)
    require(crashed.status in ("killed", "lost"), f"it ended as {crashed.status}")
    require(bool(crashed.error), "the outcome gives no reason")
    require((beside.status, after.status) == ("ok", "ok"), f"the others ended as {beside.status} and {after.status}")


def check_a_lost_job_can_run_again(subject: Subject) -> None:
    """A job whose place is taken away ends as ``lost``; submitted again under the same key, it ends once more."""
    on = stage(subject)
    job = on.job(then="lose")
    (lost,) = on.run(job)
    require(lost.status == "lost", f"it ended as {lost.status}")
    require("lose its place" in lost.error, f"the error is {lost.error!r}")
    on.submit(job)
    on.until(lambda: len(on.ends(job)) > 1, "a job that was started again has not ended")
    require(len(on.reports(job)) == 2 * job.payload["epochs"], f"reported epochs: {on.reports(job)}")


def check_limits_hold(subject: Subject) -> None:
    """A job that takes too long without a report ends as ``timeout``; one that eats memory, as ``out_of_memory``."""
    on = stage(subject)
    hanging, eating = on.run(on.job(then="hang"), on.job(then="eat"))
    require(hanging.status == "timeout", f"a job that hangs ended as {hanging.status}")
    require(eating.status == "out_of_memory", f"a job that eats memory ended as {eating.status}: {eating.error}")


def check_unknown_jobs_are_no_trouble(subject: Subject) -> None:
    """``prune`` and ``cancel`` of a job that has ended, and ``expect`` of nothing, do no harm."""
    on = stage(subject)
    job = on.job()
    on.run(job)
    on.executor.prune(job.key)
    on.executor.cancel(job.key)
    on.executor.expect({})
    (after,) = on.run(on.job())
    require(after.status == "ok", f"the next job ended as {after.status}")
    require(len(on.ends(job)) == 1, "a job that had ended has ended again")


def check_close_leaves_nothing_behind(subject: Subject) -> None:
    """``close`` ends jobs that are under way, and their processes are gone soon after."""
    on = stage(subject)
    job = on.job(epochs=1, then="hang")
    on.submit(job)
    on.until(lambda: bool(on.reports(job)), "no report came")
    pid = int(next(event.metrics["pid"] for event in on.of(job) if event.metrics))
    node = next(event.node for event in on.of(job) if event.metrics)
    subject._memory.pop("stage")
    on.close()
    if node not in ("", socket.gethostname()) and not psutil.pid_exists(pid):
        raise CheckSkipped(f"the job ran on {node}: processes left there cannot be seen from here")
    end = time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        require(time.monotonic() < end, f"process {pid} of a job is still running 30 s after close")
        time.sleep(0.2)


EXECUTOR_CHECKS = (
    check_each_job_ends_once,
    check_failures_are_told,
    check_reports_of_a_trial_come_in_order,
    check_prune_reaches_a_job,
    check_cancel_stops_a_job,
    check_a_crash_costs_one_job,
    check_a_lost_job_can_run_again,
    check_limits_hold,
    check_unknown_jobs_are_no_trouble,
    check_close_leaves_nothing_behind,
)
