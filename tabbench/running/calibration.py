"""Estimate how long training would take on this machine, from a few epochs on generated rows."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from tabbench.context import Context
from tabbench.contracts import BackboneMethod, JointMethod, SSLMethod
from tabbench.errors import Interruption
from tabbench.experiment.payloads import Shape
from tabbench.values import FIRST_LEVEL, Labelled, Schema, Table, Task

ROWS = 1024
"""Rows to train on; time is assumed proportional to their number."""
LONG_ENOUGH = 2.0
"""Seconds of training after which the time of an epoch is known well enough."""
LEVELS = 10
"""Levels of each made-up categorical column."""


class SeenEnough(Interruption):
    """The calibration has what it wants."""


def measure(plugin: Any, shape: Shape, context: Context, model: Any = None, *, finetune: bool = False) -> float:
    """Seconds that training ``plugin`` would take on a table of the given shape, without early stopping.

    Args:
        plugin: an SSL method, joint method or downstream model with its settings.
        shape: rows, n_numeric, n_categorical, task and n_classes of the real table.
        context: of the job.
        model: the downstream model, for a method that trains one or is trained with one.
        finetune: train the encoder of ``plugin``, as initialised, together with the model.
    """
    rows = min(ROWS, shape.rows)
    marks: list[tuple[float, int, int]] = []

    def watch(step: int, total: int, metrics: dict[str, float]) -> None:
        marks.append((time.perf_counter() - started, step, total))
        if marks[-1][0] > LONG_ENOUGH:
            raise SeenEnough

    context = replace(context, on_report=watch)
    train, validation = (make_labelled(rows, shape, seed) for seed in (0, 1))
    task = Task(shape.task, shape.n_classes)
    assert isinstance(train.features, Table)
    if isinstance(plugin, BackboneMethod):
        plugin.model = model
    if finetune:
        plugin.initialise(train.features, replace(context, on_report=None))
    started = time.perf_counter()
    try:
        if finetune:
            model.finetune(plugin.trainable_encoder(), train, validation, task, context)
        elif isinstance(plugin, SSLMethod):
            plugin.pretrain(train.features, context)
        elif isinstance(plugin, JointMethod):
            plugin.fit(train, validation, task, context, model)
        else:
            plugin.fit(train, validation, task, context)
    except SeenEnough:
        pass
    seconds = time.perf_counter() - started
    if marks:
        # Set-up before the first epoch happens once; a training that stopped early is scaled up as if it had not.
        seconds_then, step, total = marks[-1]
        seconds = seconds_then * total / max(step, 1)
    return seconds * shape.rows / rows


def make_labelled(rows: int, shape: Shape, seed: int) -> Labelled:
    """Random rows with random labels."""
    generator = np.random.default_rng(seed)
    n_numeric, n_categorical = shape.n_numeric, shape.n_categorical
    levels = tuple(tuple(f"l{i}" for i in range(LEVELS)) for _ in range(n_categorical))
    schema = Schema(tuple(f"n{j}" for j in range(n_numeric)), tuple(f"c{j}" for j in range(n_categorical)), levels)
    table = Table(
        generator.normal(size=(rows, n_numeric)).astype(np.float32),
        generator.integers(FIRST_LEVEL, FIRST_LEVEL + LEVELS, size=(rows, n_categorical)),
        schema,
    )
    if shape.task == "regression":
        return Labelled(table, generator.normal(size=rows).astype(np.float32))
    return Labelled(table, generator.integers(0, shape.n_classes, size=rows))
