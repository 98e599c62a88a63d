"""Settings of the SLURM executor."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pydantic

from tabbench import Config

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SHORTEST = 60
"""The shortest time in seconds: SLURM counts in minutes, and 0 means no limit, or waiting forever."""


def parse_duration(value: Any) -> Any:
    """Read ``4h`` as 14400, and also ``1-12:00:00``, ``02:30:00`` and plain seconds, as SLURM users write them."""
    if not isinstance(value, str):
        return value
    simple = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", value.strip())
    if simple:
        return round(float(simple[1]) * UNITS[simple[2]])
    clock = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", value.strip())
    if clock:
        days, hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    raise ValueError("write a time such as 90m, 4h, 2d or 02:30:00")


Duration = Annotated[int, pydantic.BeforeValidator(parse_duration), pydantic.Field(ge=SHORTEST)]


class Resources(Config):
    """Resources for one kind of job; anything not set is as for all jobs."""

    gpus: int | None = pydantic.Field(default=None, ge=0)
    """GPUs per worker."""
    cpus: int | None = pydantic.Field(default=None, ge=1)
    """CPUs per worker."""
    memory: float | None = pydantic.Field(default=None, gt=0)
    """Memory per worker in GB."""
    time: Duration | None = None
    """Time limit of a worker, such as 4h."""
    partition: str | None = None
    """Partition."""
    options: tuple[str, ...] | None = None
    """Additional options for sbatch."""


class SlurmConfig(Config):
    """How to request workers. Names follow sbatch where possible."""

    partition: str | None = None
    """Partition; the cluster's default if not set."""
    account: str | None = None
    """Account to charge."""
    qos: str | None = None
    """Quality of service."""
    time: Duration = 3600
    """Time limit of a worker, such as 4h. It runs jobs until then; an unfinished job resumes elsewhere."""
    notice: int = pydantic.Field(default=120, ge=10)
    """Seconds before its time limit at which a worker writes a checkpoint and exits."""
    gpus: int = pydantic.Field(default=0, ge=0)
    """GPUs per worker."""
    cpus: int | None = pydantic.Field(default=None, ge=1)
    """CPUs per worker; by default the number of threads of a job."""
    memory: float | None = pydantic.Field(default=None, gt=0)
    """Memory per worker in GB; the cluster's default if not set. --memory limits a job within it."""
    setup: str = ""
    """Shell lines to run before the worker starts, such as "module load cuda"."""
    python: str = ""
    """The Python on the nodes that has tabbench; by default the one that runs the driver."""
    options: tuple[str, ...] = ()
    """Additional options for sbatch, such as ["--constraint=v100"]."""
    poll: float = pydantic.Field(default=10.0, ge=1)
    """Seconds between queries of the queue."""
    driver_time: Duration = 7 * 86400
    """With --detach: time limit of the SLURM job that drives the run; it requeues itself at the end and resumes."""
    pretrain: Resources = Resources()
    """For pretraining only, such as slurm.pretrain.gpus=1."""
    encode: Resources = Resources()
    """For encoding only."""
    trial: Resources = Resources()
    """For tuning models only."""
    fit: Resources = Resources()
    """For training models only."""

    @pydantic.field_validator("options", mode="before")
    @classmethod
    def _split_options(cls, value: Any) -> Any:
        return value.split() if isinstance(value, str) else value

    def for_kind(self, kind: str) -> SlurmConfig:
        """The settings of workers for a kind of job."""
        special: Resources | None = getattr(self, kind, None)
        if not isinstance(special, Resources):
            return self
        return self.model_copy(update=special.model_dump(exclude_none=True))
