"""Processes on this machine: warm workers, one running job each, with limits that hold."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil

from tabbench import Event, Executor, Job, Limits, Outcome, TabbenchError, UsageError

GRACE = 2.0
"""Seconds beyond the timeout in which a job may notice the deadline itself, before it is killed."""
CHECK_EVERY = 0.1
"""Seconds between two looks at the memory and time of running jobs."""
JOBS_PER_WORKER = 100
"""A worker that has done so many jobs is replaced, in case libraries leak."""
TAIL = 4000
"""So many last characters of the log are kept when a worker dies."""


class _Process:
    """One worker and the job it is at."""

    def __init__(self, number: int, threads: int, logs: Path, news: queue.Queue[tuple[_Process, Any]]) -> None:
        self.log = logs / f"worker-{os.getpid()}-{number}.log"
        variables = dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), str(threads)
        )
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tabbench.worker", str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **variables, "OMP_WAIT_POLICY": "PASSIVE"},
            start_new_session=True,  # Ctrl-C is for the driver alone: it decides what happens to running jobs
        )
        self.job: Job | None = None
        self.ready = False
        self.jobs_done = 0
        self.started = 0.0
        self.end: Outcome | None = None
        """Why we killed it, if we did."""
        self.listener = threading.Thread(target=self._listen, args=(news,), daemon=True)
        self.listener.start()

    def _listen(self, news: queue.Queue[tuple[_Process, Any]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # a last line cut short by a kill
                news.put((self, json.loads(line)))
        self.process.wait()
        news.put((self, None))

    def take(self, job: Job, limits: Limits) -> None:
        self.job = job
        self.started = time.monotonic()
        self.end = None
        self.tell({"job": job.to_json(), "limits": asdict(limits)})

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its death is news of its own
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def memory(self) -> int:
        """Resident bytes of the process and its children."""
        try:
            process = psutil.Process(self.process.pid)
            family = [process, *process.children(recursive=True)]
            return sum(member.memory_info().rss for member in family)
        except psutil.Error:
            return 0

    def finish(self) -> None:
        """Kill it and wait until nothing of it is left."""
        self.kill()
        self.listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # what was still on its way to it
                pipe.close()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()


class LocalExecutor(Executor):
    """Keeps up to ``slots`` workers. One that dies, hangs or eats memory costs its own job and nothing else."""

    def __init__(self, slots: int, limits: Limits, logs: Path) -> None:
        super().__init__(slots, limits, logs)
        logs.mkdir(parents=True, exist_ok=True)
        self._news: queue.Queue[tuple[_Process, Any]] = queue.Queue()
        self._processes: list[_Process] = []
        self._devices: dict[_Process, str] = {}
        self._found: dict[str, Any] | None = None
        self._queue: list[Job] = []
        self._count = 0
        for _ in range(slots):  # they import torch while the driver still plans
            self._spawn()

    def _spawn(self) -> None:
        """Start a worker; it is ready when it has said hello."""
        self._count += 1
        self._processes.append(_Process(self._count, self.limits.threads, self.logs, self._news))

    def submit(self, job: Job) -> None:
        self._queue.append(job)
        self._hand_out()

    def prune(self, key: str) -> None:
        for process in self._processes:
            if process.job is not None and process.job.key == key:
                process.tell({"prune": key})

    def wait(self, seconds: float) -> list[Event]:
        events: list[Event] = []
        until = time.monotonic() + seconds
        while not events and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                events += self._hear(*self._news.get(timeout=min(CHECK_EVERY, seconds)))
            while not self._news.empty():
                events += self._hear(*self._news.get())
            self._enforce()
            self._hand_out()
        return events

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.finish()
        self._processes.clear()

    def _hear(self, process: _Process, message: dict[str, Any] | None) -> list[Event]:
        if message is None:
            return self._bury(process)
        if "hello" in message:
            self._found = message
            process.ready = True
            self._check_device()
            return []
        if "outcome" not in message:
            return [Event(message["key"], message["step"], message["total"], message["metrics"])]
        outcome = Outcome.from_json(message["outcome"])
        process.job = None
        process.jobs_done += 1
        self._devices.pop(process, None)
        # An exception leaves a worker sound; after a failed allocation nobody knows what state its libraries are in.
        if outcome.status == "out_of_memory" or process.jobs_done >= JOBS_PER_WORKER:
            self._retire(process)
        return [Event(message["key"], outcome=outcome)]

    def _retire(self, process: _Process) -> None:
        self._processes.remove(process)
        process.finish()

    def _bury(self, process: _Process) -> list[Event]:
        """A worker is dead. If it had a job, that is the job's end."""
        job, process.job = process.job, None
        self._devices.pop(process, None)
        if process in self._processes:
            self._retire(process)
        if not process.ready:
            death = _death(process)
            raise TabbenchError(f"a worker could not start: {death.error}; its last words are in {process.log}")
        if job is None:
            return []
        return [Event(job.key, outcome=process.end or _death(process))]

    def _enforce(self) -> None:
        for process in self._processes:
            if process.job is None or process.end is not None:
                continue
            timeout, memory = self.limits.timeout, self.limits.memory
            if timeout is not None and time.monotonic() - process.started > timeout + GRACE:
                process.end = Outcome("timeout", error=f"timeout of {timeout:g} s: it was killed")
            elif memory is not None and process.memory() > memory:
                process.end = Outcome(
                    "out_of_memory", error=f"it used more than the {memory / 2**30:g} GB of --memory and was killed"
                )
            if process.end is not None:
                process.kill()

    def _hand_out(self) -> None:
        """Give queued jobs to idle workers; a device must be known and free first."""
        while self._queue:
            while len(self._processes) < self.slots:
                self._spawn()
            # A job's time is not spent on the start of its process.
            idle = next((process for process in self._processes if process.ready and process.job is None), None)
            if idle is None:
                return
            device = self._free_device()
            if device is None:
                return
            self._devices[idle] = device
            idle.take(self._queue.pop(0), replace(self.limits, device=device))

    def _check_device(self) -> None:
        found = self._found or {}
        wanted = self.limits.device.partition(":")[0]
        if wanted in ("cuda", "mps") and not found[wanted]:
            raise UsageError(f"--device {wanted}: there is none on this machine, or torch was built without it")

    def _free_device(self) -> str | None:
        """The device of the next job: each CUDA device serves one job at a time."""
        wanted = self.limits.device
        found = self._found or {}
        if wanted == "auto":
            wanted = "cuda" if found["cuda"] else "mps" if found["mps"] else "cpu"
        if wanted != "cuda":
            return wanted
        free = [f"cuda:{number}" for number in range(max(1, found.get("cuda", 1)))]
        return next((device for device in free if device not in self._devices.values()), None)


def _death(process: _Process) -> Outcome:
    """What to say of a worker that ended without a word."""
    code = process.process.returncode
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    try:
        lines = process.log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(line for line in lines if not line.startswith("Extension modules:"))[-TAIL:]
    except OSError:
        tail = ""
    return Outcome("killed", error=f"its process ended by {name}{hint}", traceback=tail)
