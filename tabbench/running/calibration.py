"""Estimate how long training would take on this machine, from a few epochs on generated rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tabbench.config import Settings
from tabbench.context import Context
from tabbench.contracts import BackboneMethod, JointMethod, SSLMethod
from tabbench.errors import DeadlineReached, Interruption
from tabbench.experiment.payloads import Shape
from tabbench.running.sizes import usual_share
from tabbench.values import FIRST_LEVEL, Labelled, Schema, Table, Task

FEW, MANY = 1024, 8192
"""Rows to train on. With few, batches may be smaller than they will be: if these are quick, more are tried."""
CELLS = 2**20
"""Table cells to train on at most, beyond the few rows."""
BRIEF, LONG_ENOUGH = 0.5, 2.0
"""Seconds of training after which the time of an epoch is known, on few rows and on many."""
CALIBRATION_TIMEOUT = 30.0
"""Seconds after which a training that has not ended one epoch on few rows counts as unknown."""
TELLING = 8
"""Made-up columns that tell something of the label."""
LEVELS = 10
"""Levels of each made-up categorical column."""


class SeenEnough(Interruption):
    """The calibration has what it wants."""


def measure(
    plugin: Any,
    shape: Shape,
    context: Context,
    model: Any = None,
    *,
    settings: Settings,
    finetune: bool = False,
    encoder: SSLMethod | None = None,
) -> float:
    """Seconds that a whole training of ``plugin`` would take on a table of the given shape.

    Args:
        plugin: an SSL method, joint method or downstream model with its settings.
        shape: training rows, n_numeric, n_categorical, task and n_classes of the real table.
        context: of the job.
        model: the downstream model, for a method that trains one or is trained with one.
        settings: of what is trained: with early stopping it is not expected to take all its epochs.
        finetune: train the encoder of ``plugin``, as initialised, together with the model.
        encoder: train on what this method, as initialised, makes of the rows.
    """
    training = _Training(plugin, shape, context, model, settings, finetune, encoder)
    few = min(FEW, shape.rows)
    seconds, epoch = training.measure(few, BRIEF)
    many = min(MANY, shape.rows, max(FEW, CELLS // max(shape.n_numeric + shape.n_categorical, 1)))
    if many > few and epoch * many / few < LONG_ENOUGH:
        seconds, _ = training.measure(many, LONG_ENOUGH)
    return seconds


@dataclass(frozen=True)
class _Training:
    """A training that is tried on made-up rows; fields as of ``measure``."""

    plugin: Any
    shape: Shape
    context: Context
    model: Any
    settings: Settings
    finetune: bool
    encoder: SSLMethod | None

    def measure(self, rows: int, enough: float) -> tuple[float, float]:
        """Train on so many rows until enough is seen: seconds of a whole training on all rows, and of an epoch."""
        train, validation = make_labelled(rows, self.shape, 0), make_labelled(max(rows // 8, 32), self.shape, 1)
        assert isinstance(train.features, Table)
        assert isinstance(validation.features, Table)
        quiet = replace(self.context, on_report=None)
        if self.encoder is not None:
            self.encoder.initialise(train.features, quiet)
            train = Labelled(self.encoder.encode(train.features), train.y)
            validation = Labelled(self.encoder.encode(validation.features), validation.y)
        elif self.finetune:
            self.plugin.initialise(train.features, quiet)
        marks: list[tuple[float, int, int]] = []

        def watch(step: int, total: int, metrics: dict[str, float]) -> None:
            marks.append((time.perf_counter() - started, step, total))
            # From the first report on: before it, modules are imported and scalers fitted.
            if marks[-1][0] - marks[0][0] > enough:
                raise SeenEnough

        started = time.perf_counter()
        try:
            self._train(train, validation, replace(self.context, on_report=watch))
        except SeenEnough:
            pass
        except DeadlineReached:
            if not marks:
                raise
        seconds = time.perf_counter() - started
        scale = self.shape.rows / rows
        if not marks:
            return seconds * scale, seconds
        (first, begin, total), (last, end, _) = marks[0], marks[-1]
        epoch = (last - first) / (end - begin) if end > begin else last / max(end, 1)
        before = max(first - epoch * begin, 0.0)  # what comes before the first epoch is paid once
        return before + epoch * total * usual_share(self.settings, total, self.shape.rows) * scale, epoch

    def _train(self, train: Labelled, validation: Labelled, context: Context) -> None:
        plugin, model, task = self.plugin, self.model, Task(self.shape.task, self.shape.n_classes)
        if isinstance(plugin, BackboneMethod):
            plugin.model = model
        if self.finetune:
            model.finetune(plugin.trainable_encoder(), train, validation, task, context)
        elif isinstance(plugin, SSLMethod):
            assert isinstance(train.features, Table)
            plugin.pretrain(train.features, context)
        elif isinstance(plugin, JointMethod):
            plugin.fit(train, validation, task, context, model)
        else:
            plugin.fit(train, validation, task, context)


def make_labelled(rows: int, shape: Shape, seed: int) -> Labelled:
    """Random rows, with labels that can be learnt from them in part: what cannot be learnt makes trees large."""
    generator = np.random.default_rng(seed)
    n_numeric, n_categorical = shape.n_numeric, shape.n_categorical
    levels = tuple(tuple(f"l{i}" for i in range(LEVELS)) for _ in range(n_categorical))
    schema = Schema(tuple(f"n{j}" for j in range(n_numeric)), tuple(f"c{j}" for j in range(n_categorical)), levels)
    table = Table(
        generator.normal(size=(rows, n_numeric)).astype(np.float32),
        generator.integers(FIRST_LEVEL, FIRST_LEVEL + LEVELS, size=(rows, n_categorical)),
        schema,
    )
    outputs = 1 if shape.task == "regression" else shape.n_classes
    levels_as_numbers = (table.categorical - FIRST_LEVEL) / LEVELS - 0.5
    columns = np.concatenate([table.numeric, levels_as_numbers], axis=1)[:, :TELLING]
    directions = np.random.default_rng(0).normal(size=(columns.shape[1], outputs))  # the same for all rows there are
    scores = columns @ directions + generator.normal(size=(rows, outputs))
    if shape.task == "regression":
        return Labelled(table, scores[:, 0].astype(np.float32))
    return Labelled(table, scores.argmax(axis=1))
