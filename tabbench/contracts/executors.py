"""What authors of executors subclass. Most subclass ``tabbench.WorkerPool``, which implements this contract."""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tabbench.config import Config as AnyConfig
from tabbench.contracts.configurable import Configurable
from tabbench.contracts.job import Event, Job


@dataclass(frozen=True)
class Limits:
    """What one job may use."""

    threads: int = 1
    device: str = "cpu"
    """``auto`` is resolved where the job runs."""
    timeout: float | None = None
    """Seconds."""
    memory: int | None = None
    """Bytes."""


@dataclass(frozen=True)
class Site:
    """What an executor is told about the run it works for."""

    results: Path
    """The results folder, absolute. Jobs write artefacts there, so every node must see it."""
    cache: Path
    """The dataset cache. The driver fills it; nodes only read."""
    limits: Limits = Limits()
    """Limits of every job."""
    slots: int | None = None
    """Maximum parallel jobs (``--jobs``); None lets the executor decide."""
    name: str = ""
    """The name the user gave for the executor."""

    @property
    def logs(self) -> Path:
        return self.results / "logs"


class Executor(Configurable, ABC):
    """Runs jobs somewhere. It sees only self-contained jobs, and never writes records.

    It is created as ``MyExecutor(site)`` or ``MyExecutor(site, config)``. Events may come late, twice, or for unknown
    jobs: the driver ignores what it does not expect.
    """

    patience: ClassVar[float] = 0.0
    """Seconds for which a file written by one node may stay invisible to others."""

    def __init__(self, site: Site, config: AnyConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.site = site

    @property
    @abstractmethod
    def slots(self) -> int:
        """Maximum number of jobs in progress. It may change with every ``wait``."""

    def room(self, kind: str) -> int:
        """How many more jobs of a kind (``job.kind``) would start right now. The driver submits no more than that."""
        return self.slots

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Accept a job; called only while fewer than ``slots`` are in progress and there is room for its kind."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Event]:
        """What happened since the last call; waits up to ``seconds`` for something to happen."""

    def expect(self, ready: Mapping[str, int]) -> None:
        """Called before each ``wait`` with how many jobs of each kind could start if there were room.

        If none, idle workers may be released.
        """

    def prune(self, key: str) -> None:
        """Ask a job in progress to give up; an executor that cannot forward this lets the job finish."""

    def cancel(self, key: str) -> None:
        """Stop a job. This ends it with a ``cancelled`` event, unless it has already ended."""

    def why_waiting(self) -> str:
        """Why ready jobs do not start: no node is free, no node has a GPU. Empty if unknown."""
        return ""

    @abstractmethod
    def close(self) -> None:
        """Stop everything in progress and release all resources."""

    @classmethod
    def describe(cls, site: Site, config: AnyConfig) -> str:
        """What it would do, for ``--dry-run``, such as the script it would submit."""
        return ""

    @classmethod
    def detach(cls, command: Sequence[str], site: Site, config: AnyConfig) -> str:
        """Start ``command``, a driver, so that it outlives this process and login; returns where it runs."""
        site.logs.mkdir(parents=True, exist_ok=True)
        log = site.logs / f"driver-{os.getpid()}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        return f"process {process.pid} on this machine; it writes to {log}"
