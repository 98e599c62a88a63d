"""How much work a step is, before anything is known of its time."""

from __future__ import annotations

import math

from tabbench.config import Settings
from tabbench.data.labels import LabelBudget
from tabbench.experiment.graph import Step
from tabbench.experiment.payloads import EncodePayload, FitPayload, PretrainPayload

TRAINING = 0.8
"""Share of rows that are for training."""
USUAL = 3
"""Networks that stop early usually end after this many times their patience."""
BOOSTING = 0.075
"""Boosting usually ends when its rounds times its learning rate come to this times the root of the training rows. On
ten tables of 142 to 57,000 rows it was 0.2 to 4 times that."""
BASE = 5000
"""Table cells that take as long as the fixed part of every job."""


def first_job(step: Step) -> Step:
    """The step itself; of a study, its first trial."""
    return step if step.study is None else step.study.first


def rows_of(step: Step) -> float:
    """Rows that a step works on: for a model, in proportion to the labels that it has."""
    payload = first_job(step).payload
    rows: float = min(payload.manifest.rows, payload.split.rows or payload.manifest.rows)
    if isinstance(payload, FitPayload) and payload.labels is not None:
        rows = min(rows, LabelBudget.parse(payload.labels.budget).count(round(TRAINING * rows)) / TRAINING)
    return rows


def size_of(step: Step) -> float:
    """The work of a job, in units of ``work_of``."""
    manifest = step.payload.manifest
    n_classes = manifest.n_classes if isinstance(first_job(step).payload, FitPayload) else 1
    return work_of(rows_of(step), manifest.n_features, n_classes)


def work_of(rows: float, columns: int, n_classes: int = 1) -> float:
    """Table cells to train on, more for more classes, and some for what every job does.

    With more classes a network takes hardly longer, and boosting, with a tree for each, in proportion. Which of them it
    is cannot be known here, so it is the root of their number.
    """
    return rows * columns * math.sqrt(max(n_classes / 2, 1.0)) + BASE


def usual_share(settings: Settings, total: int, rows: float) -> float:
    """How much of ``total`` announced epochs a training with early stopping usually needs.

    A network needs a few times its patience. Boosting adds rounds until their steps are long enough together, and then
    its patience. If it chooses the length of its steps, it does so for the rounds that it has, and needs nearly all of
    them: 296 of 300 in the median of nine tables. A training in stages announces something other than its epochs:
    nothing is known of it.

    Args:
        settings: of what is trained.
        total: what it announces.
        rows: to train on.
    """
    patience, lr = settings.get("patience"), settings.get("lr")
    if not isinstance(patience, int) or total not in settings.values():
        return 1.0
    usual = float(USUAL * patience)
    if settings.get("n_rounds") == total:
        usual = patience + BOOSTING * math.sqrt(rows) / lr if isinstance(lr, float) and lr > 0 else total
    return min(1.0, usual / total)


def settings_of(step: Step) -> Settings:
    """Of the plugin that is trained."""
    payload = first_job(step).payload
    if isinstance(payload, FitPayload):
        return (payload.joint or payload.model).config
    return payload.method.config if isinstance(payload, PretrainPayload | EncodePayload) else {}
