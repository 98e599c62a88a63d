"""Settings of the Ray executor."""

from __future__ import annotations

import pydantic

from tabbench import Config


class Resources(Config):
    """Resources for one kind of job; anything not set is as for all jobs."""

    gpus: float | None = pydantic.Field(default=None, ge=0)
    """GPUs per worker; 0.5 lets two share one."""
    cpus: float | None = pydantic.Field(default=None, gt=0)
    """CPUs per worker."""
    memory: float | None = pydantic.Field(default=None, gt=0)
    """Memory per worker in GB, as Ray counts it."""
    resources: dict[str, float] | None = None
    """Custom resources of nodes."""


class RayConfig(Config):
    """Which cluster to use, and the resources of each worker."""

    address: str = ""
    """auto or HOST:PORT of a running cluster; if not set, a local Ray is started for the run."""
    gpus: float = pydantic.Field(default=0, ge=0)
    """GPUs per worker; 0.5 lets two share one."""
    cpus: float | None = pydantic.Field(default=None, gt=0)
    """CPUs per worker; by default the number of threads of a job."""
    memory: float | None = pydantic.Field(default=None, gt=0)
    """Memory per worker in GB, as Ray counts it; --memory limits a job within it."""
    resources: dict[str, float] = pydantic.Field(default_factory=dict)
    """Custom resources of nodes, such as {"fast_disk": 1}."""
    autoscaling: bool = False
    """The cluster starts nodes on demand: wait for resources that no node has yet."""
    idle: float = pydantic.Field(default=10.0, ge=1)
    """Seconds after which an idle worker is released."""
    pretrain: Resources = Resources()
    """For pretraining only, such as ray.pretrain.gpus=1."""
    encode: Resources = Resources()
    """For encoding only."""
    trial: Resources = Resources()
    """For tuning models only."""
    fit: Resources = Resources()
    """For training models only."""

    def for_kind(self, kind: str) -> RayConfig:
        """The settings of workers for a kind of job."""
        special = getattr(self, kind, None)
        if not isinstance(special, Resources):
            return self
        return self.model_copy(update=special.model_dump(exclude_none=True))
