"""Processes on this machine: warm workers that run one job each, with enforced limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tabbench import Config, Job, Limits, PoolWorker, Site, WorkerPool


class LocalExecutor(WorkerPool):
    """Keeps up to ``slots`` workers. A CUDA device serves one job at a time."""

    prewarm = True  # they import torch while the driver reads the store

    def __init__(self, site: Site, config: Config | None = None, **settings: Any) -> None:
        self._devices: dict[PoolWorker, str] = {}
        super().__init__(site, config, **settings)

    def room(self, kind: str) -> int:
        room = super().room(kind)
        return room if self._numbered() is None else min(room, len(self._free()))

    def limits(self, job: Job, worker: PoolWorker) -> Limits | None:
        if self._numbered() is None:
            return self.site.limits
        free = self._free()
        if not free:
            return None
        self._devices[worker] = free[0]
        return replace(self.site.limits, device=free[0])

    def _numbered(self) -> list[str] | None:
        """The CUDA devices to distribute; None if jobs run elsewhere."""
        count = max((worker.about.get("cuda", 0) for worker in self.workers), default=0)
        if self.site.limits.device not in ("auto", "cuda") or not count:
            return None
        return [f"cuda:{number}" for number in range(count)]

    def _free(self) -> list[str]:
        taken = {self._devices[worker] for worker in self.workers if worker.job is not None and worker in self._devices}
        return [device for device in self._numbered() or [] if device not in taken]
