"""The public way to run one job in this process."""

from __future__ import annotations

import functools
import os
import platform
import random
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tabbench.contracts.executors import Limits
from tabbench.contracts.job import Job, Outcome, Status
from tabbench.data.cache import CACHE_VARIABLE
from tabbench.errors import ArtefactError, DeadlineReached, Evicted, Pruned, TabbenchError, plugin_line
from tabbench.results.lag import appears

Report = Callable[[int, int, dict[str, float]], None]
"""Receives progress: epoch, total epochs, metrics."""


def run_job(
    job: Job, limits: Limits, report: Report | None = None, interrupt: Callable[[], None] | None = None
) -> Outcome:
    """Run a job in this process. Whatever happens becomes an outcome; artefacts are in the results folder.

    Args:
        job: as a driver submits it; it names its results folder and its cache.
        limits: threads, device and time. The caller must watch the memory: a process cannot watch itself.
        report: receives progress; may raise ``Pruned`` or ``Evicted`` to end the job.
        interrupt: called often, even within an epoch, for the same purpose.
    """
    import numpy as np
    import threadpoolctl
    import torch

    from tabbench.results.store import Store
    from tabbench.running.resources import pick_device
    from tabbench.running.steps import do_job
    from tabbench.running.surroundings import Surroundings

    # The plan decides, not the executor: a different number of threads would change results under the same key.
    limits = replace(limits, threads=job.payload.get("threads", limits.threads))
    torch.set_num_threads(limits.threads)
    threadpoolctl.threadpool_limits(limits.threads, user_api="blas")
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    os.environ[CACHE_VARIABLE] = job.payload["cache"]
    surroundings = Surroundings()
    started = time.perf_counter()
    try:
        if limits.device == "auto":
            limits = replace(limits, device=pick_device("auto"))
        patience = job.payload.get("patience", 0.0)
        _see_data(job, patience)
        store = Store(Path(job.payload["store"]), patience=patience)
        outcome = Outcome("ok", do_job(job, store, limits, report, interrupt, surroundings))
    except DeadlineReached as error:
        outcome = Outcome("timeout", error=f"timeout of {limits.timeout:g} s: {error}")
    except Pruned:
        outcome = Outcome("pruned")
    except (Evicted, ArtefactError) as error:  # not this job's fault: a damaged artefact is made again
        outcome = Outcome("lost", error=str(error))
    except (MemoryError, torch.OutOfMemoryError) as error:
        outcome = _failure("out_of_memory", error)
    except Exception as error:
        is_memory = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
        outcome = _failure("out_of_memory" if is_memory else "failed", error)
    return replace(
        outcome,
        seconds=time.perf_counter() - started,
        place={"hostname": socket.gethostname(), "cpu": cpu_model()},
        changed=surroundings.put_right(),
    )


def _see_data(job: Job, patience: float) -> None:
    """Wait for the table that the driver has fetched: on a shared file system it may be late on this machine."""
    manifest = job.payload.get("manifest")
    if not patience or manifest is None:
        return
    path = Path(job.payload["cache"]) / manifest["path"]
    if not appears(path.is_file, path, patience):
        raise Evicted(
            f"{path} is not visible from {socket.gethostname()} after {patience:g} s: "
            "its file system lags, or is not shared"
        )


def _failure(status: Status, error: BaseException) -> Outcome:
    text = " ".join(str(error).split())
    line = text if isinstance(error, TabbenchError) else f"{type(error).__name__}: {text}"
    return Outcome(status, error=f"{line[:500]}{plugin_line(error)}", traceback=traceback.format_exc())


@functools.cache
def cpu_model() -> str:
    """The processor's name, if the system reports it, with its generation: many differ in nothing else they report."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    about = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    name = about.get("model name") or about.get("Model") or platform.processor() or platform.machine()
    fields = {"family": "cpu family", "model": "model"}
    generation = ", ".join(f"{each} {about[key]}" for each, key in fields.items() if key in about)
    return f"{name} ({generation})" if generation else name
