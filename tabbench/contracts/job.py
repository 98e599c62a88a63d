"""The values exchanged with an executor. All of them are JSON."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Literal

from tabbench.values import JsonObject

Status = Literal["ok", "failed", "timeout", "out_of_memory", "killed", "lost", "pruned", "cancelled"]
"""``killed``: apparently the job's own fault. ``lost``: the fault of the place where it ran."""
FINAL: tuple[Status, ...] = ("ok", "failed", "pruned")
"""Final ends: the job would end like this again. The others depend on how it was run, so the next run retries."""


LARGEST = 1e100
"""Scores beyond it are as good as infinite: means and squares of them could not be computed."""


def is_usable(value: float) -> bool:
    """Whether a number can be a score; NaN is not within any bounds."""
    return -LARGEST <= value <= LARGEST


Identity = dict[str, object]
"""What determines a result, by name; JSON that a key is a hash of."""


def content_key(value: object) -> str:
    """A hash of the canonical JSON of ``value``, to name what it determines."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Job:
    """One self-contained unit of work: any process with tabbench, the plugins and the folders can run it."""

    key: str
    """Hash of everything that determines the result."""
    kind: str
    """Which function of ``tabbench.running.steps`` does it: pretrain, encode, fit."""
    label: str
    """For people."""
    payload: JsonObject
    """A payload of ``tabbench.experiment.payloads``, by its kind."""

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, value: JsonObject) -> Job:
        return cls(**value)


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    status: Status
    result: JsonObject = field(default_factory=dict)
    """The job's result, to be merged into its record."""
    error: str = ""
    """One line, empty if all went well."""
    traceback: str = ""
    seconds: float = 0.0
    """Wall time of the job itself, without the start of its process."""
    place: dict[str, str] = field(default_factory=dict)
    """Where it ran: hostname, cpu, executor, scheduler_job. It becomes part of the record's environment."""
    changed: list[str] = field(default_factory=list)
    """Process state that the job changed, in words. Such a process runs no further jobs."""
    retries: int = 0
    """How many times it was restarted after its worker was killed or lost."""

    @property
    def is_final(self) -> bool:
        """Whether the job would end like this again."""
        return self.status in FINAL

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, value: JsonObject) -> Outcome:
        return cls(**value)


@dataclass(frozen=True)
class Event:
    """News of a job: queued, running with its progress, or (with ``outcome``) ended."""

    key: str
    step: int = 0
    total: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    outcome: Outcome | None = None
    state: Literal["queued", "running"] = "running"
    """``queued`` if a scheduler has it and has not started it yet."""
    node: str = ""
    """Where it runs, if that is known."""

    @property
    def score(self) -> float | None:
        """The validation score so far, for the tuner; None if this report has none."""
        value = self.metrics.get("validation", self.metrics.get("probe"))
        return value if isinstance(value, (int, float)) and is_usable(value) else None
