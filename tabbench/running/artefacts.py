"""The typed content of ``step.json``, stored with each encoder and representation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

import pydantic

from tabbench.config import Settings
from tabbench.contracts.configurable import Diagnostics
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import TuningSummary
from tabbench.results.record import EncoderScores
from tabbench.results.store import Store

FILE = "step.json"


def is_made(step: Step, store: Store) -> bool:
    """Whether the artefact of a step is stored, and was made with the number of threads requested now."""
    if not store.has_artefact(step.kind, step.key):
        return False
    try:
        about = json.loads((store.artefact(step.kind, step.key) / FILE).read_text(encoding="utf-8"))
        return bool(about.get("threads") == step.payload.threads)
    except (OSError, ValueError):  # it is found out when it is opened
        return True


class PretrainArtefact(pydantic.BaseModel):
    """How an encoder was made."""

    model_config = pydantic.ConfigDict(frozen=True)

    seconds: float
    probe: float | None
    """Score of the linear probe on validation, higher is better."""
    encoder: str
    """Hash of the weights."""
    config: Settings
    diagnostics: Diagnostics
    threads: int | None = None
    """Threads of the job that trained it; version 0.1.0 did not store them."""
    reports: list[tuple[int, float]] = []
    """Scores reported to the tuner, by epoch."""
    scores: EncoderScores | None = None
    """Label-free scores."""
    distribution: str = ""
    """The distribution of the method; version 0.1.0 did not store it."""

    def write(self, folder: Path) -> None:
        (folder / FILE).write_text(self.model_dump_json(indent=1), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        return cls.model_validate_json((folder / FILE).read_text(encoding="utf-8"))


class EncodeArtefact(PretrainArtefact):
    """How a representation was made, and what was known about its encoder."""

    shape: list[int]
    """Shape of one encoded row."""
    representation: str
    """Hash of the encoded rows."""
    encode_seconds: float
    flags: list[str]
    tuning: dict[str, TuningSummary] = pydantic.Field(default_factory=dict)
