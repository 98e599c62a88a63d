"""Workers as SLURM jobs: arrays of warm workers that run one job after another until their time is nearly up.

So a job of a few seconds does not wait in the queue. Messages are files in the shared results folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabbench import Config as AnyConfig
from tabbench import Outcome, PoolWorker, Site, UsageError, WorkerPool
from tabbench_slurm.config import Resources, SlurmConfig
from tabbench_slurm.mailbox import Heart, Message, Outbox, receive
from tabbench_slurm.scheduler import Scheduler, State, explain
from tabbench_slurm.script import NOT_VISIBLE, driver_script, worker_script

ARRAY = 500
"""The most workers in one array: clusters limit its size (MaxArraySize)."""
LIST_EVERY = 0.2
"""Seconds between two checks for messages."""
SILENCE = 180.0
"""Seconds without a sign of life after which a worker is given up, even if SLURM says it is running."""


class SlurmWorker(PoolWorker):
    """A task of an array. It has no name before it is submitted."""

    def __init__(self, number: int, flavour: str, pool: SlurmExecutor) -> None:
        super().__init__(number, flavour)
        self.pool = pool
        self.name = ""
        self.outbox: Outbox | None = None
        self.heard = time.monotonic()
        self.state = State("PENDING")
        self.ended_at: float | None = None

    @property
    def node(self) -> str:
        return self.state.node or super().node

    def submitted(self, name: str) -> None:
        self.name = name
        self.place = {"scheduler_job": name}
        inbox = self.pool.folder / "in" / name
        inbox.mkdir(exist_ok=True)
        self.outbox = Outbox(inbox)

    def send(self, message: Message) -> None:
        if self.outbox is not None:
            self.outbox.send([message])

    def renew(self) -> bool:
        self.send({"renew": True})
        return True

    def kill(self) -> None:
        """Mark it. All marked workers are cancelled together, the next time the queue is queried."""
        if self.name:
            self.pool.doomed.append(self.name)

    def finish(self) -> None:
        self.send({"end": True})
        self.kill()


class SlurmExecutor(WorkerPool):
    """As many workers as there is work for, up to ``--jobs``."""

    Config = SlurmConfig
    remote = True
    patience = 60.0
    idle_seconds = 60.0
    failed_starts = 3

    def __init__(self, site: Site, config: AnyConfig | None = None, **settings: Any) -> None:
        self.scheduler = Scheduler()
        name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{socket.gethostname()}-{os.getpid()}"
        self.folder = site.results / "slurm" / f"{name}-{secrets.token_hex(2)}"
        for part in ("in", "out", "logs"):
            (self.folder / part).mkdir(parents=True)
        self.heart = Heart(self.folder / "beat")
        self.doomed: list[str] = []
        self.by_name: dict[str, SlurmWorker] = {}
        self._polled = self._listed = 0.0
        super().__init__(site, config, **settings)

    @property
    def slots(self) -> int:
        return self.site.slots or 4

    def flavour(self, kind: str) -> str:
        """Kinds of jobs with their own resources have their own workers."""
        special = getattr(self.config, kind, None)
        return kind if isinstance(special, Resources) and special != Resources() else ""

    def start_worker(self, number: int, flavour: str) -> PoolWorker:
        return SlurmWorker(number, flavour, self)

    def poll(self) -> None:
        self._submit()
        if time.monotonic() - self._listed < LIST_EVERY:
            return
        self._listed = time.monotonic()
        for sender, message in receive(self.folder / "out"):
            worker = self.by_name.get(sender)
            if worker is not None:
                worker.heard = time.monotonic()
                if "alive" not in message:
                    self.hear(worker, message)
        if time.monotonic() - self._polled >= self.config.poll:
            self._polled = time.monotonic()
            self._cancel()
            self._look()

    def ending(self, worker: PoolWorker, outcome: Outcome) -> Outcome:
        """A worker leaves only when it has to, so its job resumes elsewhere."""
        return Outcome("lost", error=outcome.error)

    def why_waiting(self) -> str:
        waiting = [worker for worker in self.by_name.values() if worker in self.workers and not worker.about]
        reasons = dict.fromkeys(explain(worker.state.reason) for worker in waiting if worker.state.reason != "None")
        starting = sum(worker.state.name == "RUNNING" for worker in waiting)
        if starting:
            reasons[f"{starting} worker(s) have a node and are starting"] = None
        return "; ".join(reason for reason in reasons if reason)

    def close(self) -> None:
        names = [worker.name for worker in self.by_name.values() if worker in self.workers]
        super().close()
        self.doomed += names
        self._cancel()
        self.heart.stop()
        for part in ("in", "out"):
            shutil.rmtree(self.folder / part, ignore_errors=True)

    @classmethod
    def describe(cls, site: Site, config: AnyConfig) -> str:
        assert isinstance(config, SlurmConfig)
        folder = site.results / "slurm" / "RUN"
        kinds = {"": config} | {
            kind: config.for_kind(kind)
            for kind in ("pretrain", "encode", "trial", "fit")
            if getattr(config, kind) != Resources()
        }
        scripts = []
        for kind, settings in kinds.items():
            whom = f"for {kind}" if kind else "for all jobs" if len(kinds) == 1 else "for all other jobs"
            script = worker_script(settings, folder, site.limits, kind or "worker")
            scripts.append(f"workers {whom}: sbatch --array=0-N with\n{script}")
        return "\n".join(scripts)

    @classmethod
    def detach(cls, command: Sequence[str], site: Site, config: AnyConfig) -> str:
        assert isinstance(config, SlurmConfig)
        folder = site.results / "slurm"
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / f"driver-{secrets.token_hex(4)}.sh"
        script.write_text(driver_script(config, folder, list(command), Path.cwd()), encoding="utf-8")
        name = Scheduler().submit(script)
        return f"SLURM job {name}; it writes to {folder / f'driver-{name}.log'}"

    def _submit(self) -> None:
        """Submit the workers that have not been submitted yet, one array per flavour."""
        unnamed = [worker for worker in self.workers if isinstance(worker, SlurmWorker) and not worker.name]
        for flavour in dict.fromkeys(worker.flavour for worker in unnamed):
            group = [worker for worker in unnamed if worker.flavour == flavour][:ARRAY]
            script = self.folder / f"{flavour or 'worker'}.sh"
            if not script.exists():
                settings = self.config.for_kind(flavour) if flavour else self.config
                text = worker_script(settings, self.folder, self.site.limits, flavour or "worker")
                script.write_text(text, encoding="utf-8")
            array = self.scheduler.submit(script, f"--array=0-{len(group) - 1}")
            for index, worker in enumerate(group):
                worker.submitted(f"{array}_{index}")
                self.by_name[worker.name] = worker

    def _cancel(self) -> None:
        doomed, self.doomed = list(dict.fromkeys(self.doomed)), []
        self.scheduler.cancel(doomed)

    def _look(self) -> None:
        """Query the SLURM jobs, and work out what their states mean for our jobs."""
        alive = {worker.name: worker for worker in self.by_name.values() if worker in self.workers}
        self.by_name = alive
        if not alive:
            return
        states = self.scheduler.states(alive)
        now = time.monotonic()
        for name, worker in alive.items():
            state = states.get(name)
            if state is not None:
                worker.state = state
            silent = worker.about and now - worker.heard > SILENCE
            if state is not None and state.is_alive and not silent:
                worker.ended_at = None
            elif worker.ended_at is None:  # its last messages may still be on their way
                worker.ended_at = now
            elif silent or now - worker.ended_at >= self.config.poll:
                self._bury(worker, state or State("UNKNOWN"))

    def _ran_out_of_memory(self, worker: SlurmWorker) -> bool:
        """Whether the worker's log says so: not every cluster has a state for it."""
        try:
            text = (self.folder / "logs" / f"{worker.name}.log").read_text(encoding="utf-8", errors="replace").lower()
        except OSError:
            return False
        return any(words in text for words in ("exceeded memory limit", "exceeded job memory limit", "oom_kill event"))

    def _bury(self, worker: SlurmWorker, state: State) -> None:
        if not worker.about and state.code in (f"{NOT_VISIBLE}:0", "0:53"):  # 53: it could not open its log
            raise UsageError(
                f"the results folder {self.site.results} is not visible from node {state.node}: use a shared folder"
            )
        if not state.is_alive and self._ran_out_of_memory(worker):
            state = State("OUT_OF_MEMORY", state.node)
        outcome = state.outcome(worker.name)
        if state.is_alive or state.name == "UNKNOWN":
            outcome = Outcome("lost", error=f"SLURM job {worker.name} shows no sign of life")
            worker.kill()
        if worker.job is not None:
            self.hear(worker, {"key": worker.job.key, "outcome": outcome.to_json()})
        self.hear(worker, {"gone": outcome.error, "failed": outcome.status == "killed"})
