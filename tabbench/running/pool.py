"""Warm workers, one running job each: the base class of executors.

An executor that starts its workers differently overrides ``command`` (and ``kill``, if killing the command's process
tree is not enough)::

    class Nice(WorkerPool):
        def command(self, worker):
            return ["nice", *super().command(worker)]

An executor that does not reach its workers through a pipe overrides ``start_worker``.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

from tabbench import __version__
from tabbench.config import Config as AnyConfig
from tabbench.contracts.executors import Executor, Limits, Site
from tabbench.contracts.job import Event, Job, Outcome
from tabbench.errors import TabbenchError, UsageError
from tabbench.running.process import Message, WorkerProcess, read_tail, worker_command, worker_environment
from tabbench.running.resources import jobs_at_a_time

CHECK_EVERY = 0.1
"""Seconds between checks of the memory and time of running jobs."""
JOBS_PER_WORKER = 100
"""A worker is replaced after this many jobs, in case libraries leak."""


class PoolWorker(ABC):
    """A warm worker somewhere, as its pool sees it."""

    def __init__(self, number: int, flavour: str = "") -> None:
        self.number, self.flavour = number, flavour
        self.about: Message = {}
        """What its hello contained: host, cpu, cuda, mps, version."""
        self.job: Job | None = None
        self.done = 0
        self.ready = False
        """Whether it has said hello and sees the results folder."""
        self.idle_since = time.monotonic()
        self.cancelled = False
        self.place: dict[str, str] = {}
        """What the record of its jobs says about where they ran, such as ``scheduler_job``."""

    @property
    def node(self) -> str:
        return str(self.about.get("host", ""))

    @property
    def is_idle(self) -> bool:
        return self.ready and self.job is None

    def take(self, job: Job, limits: Limits) -> None:
        self.send({"job": job.to_json(), "limits": asdict(limits)})

    @abstractmethod
    def send(self, message: Message) -> None:
        """Send it a message of the worker protocol."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once; the pool then hears ``{"gone": why}``."""

    def renew(self) -> bool:
        """Replace the process but keep the slot, where a slot is costly; returns whether a new hello will come."""
        return False

    def watch(self) -> None:
        """Check on it; called several times a second."""

    def finish(self) -> None:
        """Kill it and wait until all its processes are gone."""
        self.kill()


class PipeWorker(PoolWorker):
    """A worker at the end of a pipe."""

    def __init__(self, number: int, flavour: str, pool: WorkerPool) -> None:
        super().__init__(number, flavour)
        self.log = pool.site.logs / f"worker-{os.getpid()}-{number}.log"
        self.process = WorkerProcess(
            pool.command(self),
            pool.environment(self),
            self.log,
            tell=lambda message: pool.hear(self, message),
            kill=lambda: pool.kill(self),
        )

    def take(self, job: Job, limits: Limits) -> None:
        self.process.take(job, limits)

    def send(self, message: Message) -> None:
        self.process.send(message)

    def kill(self) -> None:
        self.process.kill()

    def watch(self) -> None:
        self.process.watch()

    def finish(self) -> None:
        self.process.finish()


class WorkerPool(Executor):
    """Keeps as many warm workers as there is work for. If one dies, only its own job is affected."""

    prewarm: ClassVar[bool] = False
    """Start all workers at once, whether there is work for them or not."""
    idle_seconds: float = float("inf")
    """Seconds after which an idle worker is released."""
    remote: ClassVar[bool] = False
    """Workers are on other machines: each proves first that it sees the results folder."""
    failed_starts: ClassVar[int] = 1
    """The run ends if this many workers in a row die before their hello."""

    def __init__(self, site: Site, config: AnyConfig | None = None, **settings: Any) -> None:
        super().__init__(site, config, **settings)
        self.workers: list[PoolWorker] = []
        self._news: queue.Queue[tuple[PoolWorker, Message]] = queue.Queue()
        self._events: list[Event] = []
        self._queue: list[Job] = []
        self._ready: Mapping[str, int] = {}
        self._count = self._failed_starts = 0
        self._token: Path | None = None
        if self.prewarm:
            for _ in range(self.slots):
                self._start("")

    # What executors override.

    @property
    def slots(self) -> int:
        """The number the user gave, or one per core of this machine."""
        return self.site.slots or jobs_at_a_time(self.site.limits.threads)

    def command(self, worker: PipeWorker) -> list[str]:
        """The command that starts a worker: a program that speaks the worker protocol on standard input and output."""
        return worker_command(worker.log)

    def environment(self, worker: PipeWorker) -> dict[str, str]:
        """Variables to add to the environment of ``command``."""
        return worker_environment(self.site.limits.threads)

    def kill(self, worker: PipeWorker) -> None:
        """End a worker and everything it has started."""
        worker.process.kill_tree()

    def flavour(self, kind: str) -> str:
        """Kinds of jobs with the same flavour share workers."""
        return ""

    def limits(self, job: Job, worker: PoolWorker) -> Limits | None:
        """What a job may use on a worker; None if it must wait for a free device."""
        return self.site.limits

    def start_worker(self, number: int, flavour: str) -> PoolWorker:
        """Start a worker; from then on its messages arrive through ``hear``."""
        return PipeWorker(number, flavour, self)

    def ending(self, worker: PoolWorker, outcome: Outcome) -> Outcome:
        """The outcome of a job whose worker died; ``outcome`` is what can be seen from here."""
        return outcome

    def poll(self) -> None:
        """Query the scheduler, if there is one; called in each ``wait``."""

    # What executors call.

    def hear(self, worker: PoolWorker, message: Message) -> None:
        """Accept a message from a worker; may be called from any thread."""
        self._news.put((worker, message))

    # The contract.

    def room(self, kind: str) -> int:
        flavour = self.flavour(kind)
        idle = sum(worker.is_idle and worker.flavour == flavour for worker in self.workers)
        return max(0, idle - sum(self.flavour(job.kind) == flavour for job in self._queue))

    def submit(self, job: Job) -> None:
        self._queue.append(job)
        self._hand_out()

    def expect(self, ready: Mapping[str, int]) -> None:
        self._ready = ready
        self._scale()

    def prune(self, key: str) -> None:
        for worker in self._at(key):
            worker.send({"prune": key})

    def cancel(self, key: str) -> None:
        waiting = [job for job in self._queue if job.key == key]
        for job in waiting:
            self._queue.remove(job)
            self._events.append(Event(key, outcome=Outcome("cancelled")))
        for worker in self._at(key):
            worker.cancelled = True
            if worker.renew():
                worker.ready = False
            else:
                worker.kill()

    def wait(self, seconds: float) -> list[Event]:
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            with contextlib.suppress(queue.Empty):
                self._hear(*self._news.get(timeout=max(0.0, min(CHECK_EVERY, left))))
                while True:
                    self._hear(*self._news.get_nowait())
            for worker in list(self.workers):
                worker.watch()
            self.poll()
            self._scale()
            self._hand_out()
            if self._events or left <= 0:
                events, self._events = self._events, []
                return events

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.finish()
        self.workers.clear()
        if self._token is not None:
            self._token.unlink(missing_ok=True)

    # Messages.

    def _hear(self, worker: PoolWorker, message: Message) -> None:
        if worker not in self.workers:  # it was retired meanwhile
            return
        if "hello" in message:
            self._greet(worker, message)
        elif "sees" in message:
            self._welcome(worker, message["sees"])
        elif "gone" in message:
            if "outcome" in message and self._has(worker, message["key"]):
                self._end(worker, Outcome.from_json(message["outcome"]))
            self._remove(worker, str(message["gone"]), message.get("failed", True))
        elif not self._has(worker, message["key"]):
            return  # late news of a job that it no longer has
        elif "outcome" in message:
            self._end(worker, Outcome.from_json(message["outcome"]))
        else:
            self._events.append(
                Event(message["key"], message["step"], message["total"], message["metrics"], node=worker.node)
            )

    def _has(self, worker: PoolWorker, key: str) -> bool:
        return worker.job is not None and worker.job.key == key

    def _greet(self, worker: PoolWorker, hello: Message) -> None:
        worker.about = hello
        self._failed_starts = 0
        wanted = self.site.limits.device.partition(":")[0]
        if wanted in ("cuda", "mps") and not hello.get(wanted):
            where = f"node {worker.node}" if self.remote else "this machine"
            raise UsageError(f"--device {wanted}: {where} has none, or its torch was built without it")
        if self.remote and hello.get("version") != __version__:
            theirs = hello.get("version")
            raise UsageError(
                f"node {worker.node} has tabbench {theirs}, but this is {__version__}: install the same version"
            )
        if self.remote:
            worker.send({"see": [str(self._make_token()), str(self.site.cache)]})
        else:
            worker.ready = True

    def _make_token(self) -> Path:
        """Write a file that only a node that sees our results folder can find."""
        if self._token is None:
            self.site.results.mkdir(parents=True, exist_ok=True)
            self._token = self.site.results / f".seen-{secrets.token_hex(8)}"
            self._token.touch()
        return self._token

    def _welcome(self, worker: PoolWorker, sees: Mapping[str, bool]) -> None:
        for path, seen in sees.items():
            if not seen:
                what, place = "cache", self.site.cache
                if path != str(self.site.cache):
                    what, place = "results folder", self.site.results
                raise UsageError(f"the {what} {place} is not visible from node {worker.node}: use a shared folder")
        worker.ready = True
        worker.idle_since = time.monotonic()

    def _end(self, worker: PoolWorker, outcome: Outcome) -> None:
        """Handle the end of a worker's job."""
        job, worker.job = worker.job, None
        assert job is not None
        worker.done += 1
        worker.idle_since = time.monotonic()
        if worker.cancelled:
            outcome, worker.cancelled = Outcome("cancelled"), False
        place = {"executor": self.site.name, **outcome.place, **worker.place}
        self._events.append(Event(job.key, outcome=replace(outcome, place=place), node=worker.node))
        # A worker survives an exception; after a failed allocation, the state of its libraries is unknown.
        if outcome.status == "out_of_memory" or outcome.changed or worker.done >= JOBS_PER_WORKER:
            self._replace(worker)

    def _replace(self, worker: PoolWorker) -> None:
        if worker.renew():
            worker.ready, worker.done = False, 0
        else:
            self._retire(worker)

    def _remove(self, worker: PoolWorker, why: str, failed: bool) -> None:
        """Remove a worker that has ended or was killed; ``failed`` if it should not have ended."""
        if worker.job is not None:
            self._end(worker, self.ending(worker, Outcome("killed", error=why)))
        if worker in self.workers:
            self._retire(worker)
        if failed and not worker.about:
            self._failed_starts += 1
            if self._failed_starts >= self.failed_starts:
                raise TabbenchError(f"a worker could not start: {why}{self._last_words(worker)}")

    def _last_words(self, worker: PoolWorker) -> str:
        log = getattr(worker, "log", None)
        tail = read_tail(log).strip().splitlines() if log is not None else []
        return f"; its log {log} ends with: {tail[-1]}" if tail else ""

    def _retire(self, worker: PoolWorker) -> None:
        self.workers.remove(worker)
        worker.finish()

    # Places.

    def _at(self, key: str) -> list[PoolWorker]:
        return [worker for worker in self.workers if self._has(worker, key)]

    def _start(self, flavour: str) -> None:
        self._count += 1
        self.workers.append(self.start_worker(self._count, flavour))

    def _scale(self) -> None:
        """Start missing workers, and retire those that are not needed."""
        wanted: Counter[str] = Counter()
        for kind, number in self._ready.items():
            wanted[self.flavour(kind)] += number
        for job in self._queue:
            wanted[self.flavour(job.kind)] += 1
        spare: list[PoolWorker] = []
        for worker in self.workers:
            if worker.job is None:
                if wanted[worker.flavour] > 0:
                    wanted[worker.flavour] -= 1
                else:
                    spare.append(worker)
        lacking = [flavour for flavour, number in wanted.items() for _ in range(number)]
        now = time.monotonic()
        for worker in spare:
            crowded = len(lacking) > self.slots - len(self.workers)
            if now - worker.idle_since > self.idle_seconds or (crowded and worker.flavour not in lacking):
                self._retire(worker)
        for flavour in lacking[: max(0, self.slots - len(self.workers))]:
            self._start(flavour)

    def _hand_out(self) -> None:
        """Give queued jobs to idle workers."""
        for job in list(self._queue):
            flavour = self.flavour(job.kind)
            idle = next((worker for worker in self.workers if worker.is_idle and worker.flavour == flavour), None)
            if idle is None:
                continue
            limits = self.limits(job, idle)
            if limits is None:
                continue
            self._queue.remove(job)
            idle.job = job
            idle.take(job, limits)
            self._events.append(Event(job.key, node=idle.node))
