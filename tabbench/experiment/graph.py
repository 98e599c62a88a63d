"""The values of a plan: steps, what each needs, and the part of a record that is known in advance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from tabbench.config import Settings
from tabbench.contracts.job import Job
from tabbench.experiment.payloads import Payload
from tabbench.experiment.protocols import Skipped, UsedAs
from tabbench.experiment.settings import Configured
from tabbench.experiment.spec import Sampler
from tabbench.values import JsonObject

StepKind = Literal["tune", "pretrain", "encode", "trial", "fit"]
Role = Literal["encoder", "model", "joint"]
"""The part of a payload that a study decides."""


@dataclass(frozen=True)
class Origin:
    """The distribution a plugin comes from."""

    distribution: str
    version: str
    revision: int | str


@dataclass(frozen=True)
class Planned:
    """The part of a record that is known before its job runs."""

    kind: Literal["result", "trial"]
    ssl: str
    model: str
    data: str
    data_key: str
    split: int
    fidelity: str
    protocol: UsedAs
    labels: str
    validation_labels: str | None = None
    probe: str | None = None
    split_rule: str | None = None
    seed: int | None = None
    preset: str | None = None
    rows_limit: int | None = None
    trials: int | None = None
    ssl_trials: int | None = None
    variant: str | None = None
    uses_labels: bool | None = None
    plugins: Mapping[str, Origin] | None = None
    threads: int | None = None
    main_metric: str | None = None
    weights: str | None = None

    def to_json(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True)
class StudyPlan:
    """Trials of one plugin's settings. They are proposed only as the study runs."""

    configured: Configured
    """Trial 0."""
    n_trials: int
    sampler: Sampler
    make_step: Callable[[Settings], Step]
    """The step of a trial with the given settings."""
    planned: Planned
    """The part of each trial's record that is known in advance."""
    tuned: frozenset[str]
    """The settings in which trials differ."""

    @cached_property
    def first(self) -> Step:
        """The first trial."""
        return self.make_step(self.configured.config)


@dataclass(frozen=True)
class Step:
    """A piece of work, the steps it needs, and (for the last of a chain) its planned record."""

    key: str
    kind: StepKind
    label: str
    """For people."""
    payload: Payload
    needs: tuple[str, ...] = ()
    planned: Planned | None = None
    study: StudyPlan | None = None
    """For tuning: the driver does this step itself, through trials that are steps of their own."""
    tuned: Mapping[Role, str] = field(default_factory=dict)
    """Parts of the payload that come from the best trial of a study."""

    def to_job(self, **changes: Any) -> Job:
        """The job of this step; ``changes`` are fields of its payload."""
        return Job(self.key, self.kind, self.label, self.payload.model_copy(update=changes).to_json())


@dataclass
class Plan:
    """The graph, ordered so that every step comes after the steps it needs."""

    steps: dict[str, Step] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    """How many times each step was requested; more than once means it is shared."""
    skipped: list[Skipped] = field(default_factory=list)
    """Pairs that are skipped, each named once."""

    def add(self, step: Step) -> str:
        self.steps.setdefault(step.key, step)
        self.wanted[step.key] = self.wanted.get(step.key, 0) + 1
        return step.key

    @property
    def records(self) -> list[Step]:
        """The steps that end in a record."""
        return [step for step in self.steps.values() if step.planned is not None]

    @property
    def names(self) -> dict[str, str]:
        """The names of the datasets, by the start of their keys."""
        return {step.planned.data_key: step.planned.data for step in self.steps.values() if step.planned is not None}
