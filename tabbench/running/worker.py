"""The process that runs jobs: ``python -m tabbench.running.worker LOGFILE [--ignore-term]``.

It imports torch once and runs one job after another, so that only the first waits for the import. What a job prints
goes to the log file. With ``--ignore-term``, SIGTERM does not end it: whoever started it says when to leave. The
protocol is JSON, one object per line; docs/executors.md has it in full.

On standard input:

    {"see": [PATH, ...]}                 are these files there?
    {"job": {...}, "limits": {...}}      run this
    {"prune": KEY}                       give this job up
    {"leave": REASON}                    the slot is needed: write a checkpoint, end the job as lost, take no more jobs
    end of input                         the driver is gone: end at once

On standard output:

    {"hello": PID, "host": ..., "cpu": ..., "cuda": N, "mps": BOOL, "version": ...}      ready for jobs
    {"sees": {PATH: BOOL, ...}}
    {"key": KEY, "step": N, "total": N, "metrics": {...}}
    {"key": KEY, "outcome": {...}}
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from tabbench import __version__
from tabbench.contracts.executors import Limits
from tabbench.contracts.job import Job
from tabbench.errors import Evicted, Pruned
from tabbench.results.lag import appears
from tabbench.running.jobs import cpu_model, run_job
from tabbench.values import JsonObject

REPORT_EVERY = 0.2
"""Seconds between progress messages: a fast training must not flood its driver."""
SEE_WITHIN = 10.0
"""Seconds within which a file from another machine must become visible."""


def ignore_term() -> None:
    """Ignore SIGTERM here, but let it end processes that jobs fork, which inherit our handler."""
    own = os.getpid()

    def handle(number: int, frame: object) -> None:
        if os.getpid() != own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, handle)


def sees(path: Path) -> bool:
    return appears(path.exists, path, SEE_WITHIN)


class Worker:
    """The loop of one process."""

    def __init__(self, log: str) -> None:
        # The pipe to the driver is set aside, so that nothing a job or its libraries print can get into it.
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        faulthandler.enable()
        self.messages: queue.Queue[JsonObject] = queue.Queue()
        self.pruned: set[str] = set()
        self.leaving = ""

    def listen(self) -> None:
        """Read from the driver until it is gone."""
        for line in sys.stdin:
            message = json.loads(line)
            if "prune" in message:
                self.pruned.add(message["prune"])
            elif "leave" in message:
                self.leaving = message["leave"]
            else:
                self.messages.put(message)
        os._exit(0)

    def send(self, message: JsonObject) -> None:
        self.out.write(json.dumps(message) + "\n")

    def run(self) -> None:
        threading.Thread(target=self.listen, daemon=True).start()
        # Import everything that the first job would have to wait for.
        import sklearn.metrics  # noqa: F401
        import torch

        import tabbench.nn
        import tabbench.running.steps  # noqa: F401

        self.send({
            "hello": os.getpid(),
            "host": socket.gethostname(),
            "cpu": cpu_model(),
            "cuda": torch.cuda.device_count(),
            "mps": torch.backends.mps.is_available(),
            "version": __version__,
        })  # fmt: skip
        while True:
            message = self.messages.get()
            if "see" in message:
                self.send({"sees": {path: sees(Path(path)) for path in message["see"]}})
            else:
                self.attempt(Job.from_json(message["job"]), Limits(**message["limits"]))

    def attempt(self, job: Job, limits: Limits) -> None:
        last = 0.0

        def interrupt() -> None:
            if job.key in self.pruned:
                raise Pruned
            if self.leaving:
                raise Evicted(self.leaving)

        def report(step: int, total: int, metrics: dict[str, float]) -> None:
            nonlocal last
            interrupt()
            now = time.monotonic()
            if job.payload.get("trial") or now - last >= REPORT_EVERY:
                last = now
                values = {name: float(value) for name, value in metrics.items()}
                self.send({"key": job.key, "step": step, "total": total, "metrics": values})

        outcome = run_job(job, limits, report, interrupt)
        self.send({"key": job.key, "outcome": outcome.to_json()})


if __name__ == "__main__":
    if "--ignore-term" in sys.argv[2:]:
        ignore_term()
    Worker(sys.argv[1]).run()
