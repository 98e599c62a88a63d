"""Settings of the Ray executor."""

from __future__ import annotations

import pydantic

from tabbench import Config


class Resources(Config):
    """What jobs of one kind need instead of what all jobs need; what is not set is as for all."""

    gpus: float | None = pydantic.Field(default=None, ge=0)
    """GPUs of a worker; 0.5 lets two share one."""
    cpus: float | None = pydantic.Field(default=None, gt=0)
    """CPUs of a worker."""
    memory: float | None = pydantic.Field(default=None, gt=0)
    """Memory of a worker, in GB, as Ray counts it."""
    resources: dict[str, float] | None = None
    """Other resources that nodes offer by name."""


class RayConfig(Config):
    """Which cluster, and what each worker takes of it."""

    address: str = ""
    """auto or HOST:PORT of a running cluster; without it a Ray of this machine is started for the run."""
    gpus: float = pydantic.Field(default=0, ge=0)
    """GPUs of each worker; 0.5 lets two share one."""
    cpus: float | None = pydantic.Field(default=None, gt=0)
    """CPUs of each worker; by default as many as a job has threads."""
    memory: float | None = pydantic.Field(default=None, gt=0)
    """Memory of each worker, in GB, as Ray counts it; --memory limits a job within it."""
    resources: dict[str, float] = pydantic.Field(default_factory=dict)
    """Other resources that nodes offer by name, such as {"fast_disk": 1}."""
    autoscaling: bool = False
    """The cluster starts nodes when they are needed: what no node has yet may still come."""
    idle: float = pydantic.Field(default=10.0, ge=1)
    """Seconds after which a worker without work gives its place back."""
    pretrain: Resources = Resources()
    """For pretraining only, such as ray.pretrain.gpus=1."""
    encode: Resources = Resources()
    """For encoding only."""
    trial: Resources = Resources()
    """For the tuning of models only."""
    fit: Resources = Resources()
    """For the training of models only."""

    def for_kind(self, kind: str) -> RayConfig:
        """The settings of workers for a kind of job."""
        special = getattr(self, kind, None)
        if not isinstance(special, Resources):
            return self
        return self.model_copy(update=special.model_dump(exclude_none=True))
