"""The process that runs jobs: ``python -m tabbench.worker LOGFILE``.

It imports torch once and takes one job after the other, so that only the first waits for the import. Jobs come as
JSON lines on standard input, news of them go out as JSON lines on standard output; what a job itself prints goes to
the log file. When standard input ends, its driver is gone, and so is the worker, whatever it was doing.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import random
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from tabbench.contracts import Limits
from tabbench.data.cache import CACHE_VARIABLE
from tabbench.errors import DeadlineReached, Pruned, TabbenchError
from tabbench.job import Job, Outcome
from tabbench.store import Store

REPORT_EVERY = 0.2
"""Seconds between two progress messages: a fast training must not drown its driver."""


class Worker:
    """The loop of one process."""

    def __init__(self, log: str) -> None:
        # The pipe to the driver is set aside, so that nothing a job or its libraries print can get into it.
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        faulthandler.enable()
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self.pruned: set[str] = set()

    def listen(self) -> None:
        """Read from the driver until it is gone."""
        for line in sys.stdin:
            message = json.loads(line)
            if "prune" in message:
                self.pruned.add(message["prune"])
            else:
                self.messages.put(message)
        os._exit(0)

    def send(self, message: dict[str, Any]) -> None:
        self.out.write(json.dumps(message) + "\n")

    def run(self) -> None:
        threading.Thread(target=self.listen, daemon=True).start()
        # Everything that a first job would wait for.
        import sklearn.metrics  # noqa: F401
        import torch

        import tabbench.nn
        import tabbench.runner  # noqa: F401

        self.send({"hello": os.getpid(), "cuda": torch.cuda.device_count(), "mps": torch.backends.mps.is_available()})
        while True:
            message = self.messages.get()
            job = Job.from_json(message["job"])
            outcome = self.attempt(job, Limits(**message["limits"]))
            self.send({"key": job.key, "outcome": outcome.to_json()})

    def attempt(self, job: Job, limits: Limits) -> Outcome:
        """Run a job; whatever happens becomes an outcome."""
        import torch

        from tabbench.runner import run_job

        torch.set_num_threads(limits.threads)
        torch.manual_seed(0)
        random.seed(0)
        os.environ[CACHE_VARIABLE] = job.payload["cache"]
        last = 0.0

        def report(step: int, total: int, metrics: dict[str, float]) -> None:
            nonlocal last
            if job.key in self.pruned:
                raise Pruned
            now = time.monotonic()
            if job.payload.get("trial") or now - last >= REPORT_EVERY:
                last = now
                values = {name: float(value) for name, value in metrics.items()}
                self.send({"key": job.key, "step": step, "total": total, "metrics": values})

        started = time.perf_counter()
        try:
            result = run_job(job, Store(Path(job.payload["store"])), limits, report)
            return Outcome("ok", result, seconds=time.perf_counter() - started)
        except DeadlineReached as error:
            return Outcome("timeout", error=f"timeout of {limits.timeout:g} s: {error}")
        except Pruned:
            return Outcome("pruned")
        except (MemoryError, torch.OutOfMemoryError) as error:
            return _failure("out_of_memory", error)
        except Exception as error:
            is_memory = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
            return _failure("out_of_memory" if is_memory else "failed", error)


def _failure(status: Any, error: BaseException) -> Outcome:
    text = " ".join(str(error).split())
    line = text if isinstance(error, TabbenchError) else f"{type(error).__name__}: {text}"
    return Outcome(status, error=line[:500], traceback=traceback.format_exc())


if __name__ == "__main__":
    Worker(sys.argv[1]).run()
