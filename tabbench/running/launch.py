"""Where jobs run and with what limits: the executor, its settings, and what each job may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabbench.config import Config, Settings
from tabbench.contracts import Executor, Limits, Site
from tabbench.data.cache import cache_dir
from tabbench.errors import UsageError
from tabbench.registry import Registry
from tabbench.results.store import Store
from tabbench.running.executors import make_config


@dataclass(frozen=True)
class Launcher:
    """Starts an executor, once there is something to run."""

    start: type[Executor]
    """The class of the executor."""
    config: Config
    """Its settings."""
    limits: Limits
    jobs: int | None
    name: str

    def __call__(self, store: Store) -> Executor:
        return self.start(self.site(store), self.config)

    def describe(self, store: Store) -> str:
        """What the executor would do, for ``--dry-run``."""
        return self.start.describe(self.site(store), self.config)

    def detach(self, command: Sequence[str], store: Store) -> str:
        """Start a driver that outlives this process; returns where it runs."""
        return self.start.detach(command, self.site(store), self.config)

    def site(self, store: Store) -> Site:
        """What the executor is told about the run."""
        return Site(store.root, cache_dir().absolute(), self.limits, self.jobs, self.name)


def make_launcher(
    registry: Registry,
    executor: str = "local",
    *,
    settings: Settings | None = None,
    jobs: int | None = None,
    threads: int = 1,
    device: str = "auto",
    timeout: float | None = None,
    memory: float | None = None,
) -> Launcher:
    """The executor of a name, with its settings and limits; ``memory`` is in GB."""
    if device not in ("auto", "cpu", "mps") and device.partition(":")[0] != "cuda":
        raise UsageError(f"Unknown device {device!r}. Available: auto, cpu, cuda, mps.")
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs={jobs}: give at least 1, or leave it out for one job per core")
    entry = registry.find("executor", executor)
    config = make_config(registry, entry, settings or {})
    limits = Limits(threads, device, timeout, None if memory is None else int(memory * 2**30))
    return Launcher(registry.load(entry), config, limits, jobs, entry.name)
