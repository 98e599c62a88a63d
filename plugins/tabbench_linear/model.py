"""Ridge regression and multinomial logistic regression with the L2 penalty chosen on validation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabbench import Context, DownstreamModel, Features, Labelled, Representation, State, Task, UsageError
from tabbench.nn import (
    LBFGS_VECTORS,
    MAX_FLAT_COLUMNS,
    FlatColumns,
    Inputs,
    LinearMap,
    Objective,
    flat_columns,
    logistic_path,
    ridge_path,
    ridge_penalties,
)
from tabbench_linear.config import LinearConfig

LOGISTIC_PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
PATIENCE = 2
"""The search ends after this many weaker penalties without improvement."""
PREDICT_ROWS = 8192
OUTPUT_COPIES = 3
"""Logits, their softmax and their gradient."""


class Linear(DownstreamModel):
    """The linear probe.

    Categories are one-hot. Tokens (rows, d, h) are flattened; if that gives more than 4,096 columns, or more than fit
    into the job's memory (``max_columns``), neighbouring channels are averaged (``flat_columns``).
    """

    Config = LinearConfig

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        if len(train.y) == 0 or len(validation.y) == 0:
            raise UsageError(f"{len(train.y)} training rows and {len(validation.y)} validation rows: both are needed")
        self.device = context.device
        self.max_columns = max_columns(len(train.y), max(task.n_outputs, task.n_classes), context.memory)
        features = self._flatten(train.features)
        self.inputs = Inputs(self.config.scaling).fit(features)
        self.columns = FlatColumns(self.inputs.shape).to(context.device)
        # One output per class even for two classes: the penalised problem is the same, and there is one code path.
        self.task = Task("multiclass", 2, task.metric) if task.kind == "binary" else task
        self.objective = Objective(self.task, train.y)
        x = self._matrix(features)
        del features  # x is a copy of it
        x_val = self._matrix(self._flatten(validation.features))
        y, y_val = (self.objective.targets(part.y, context.device) for part in (train, validation))
        best: tuple[float, float] | None = None
        since_best = 0
        penalties = ridge_penalties(len(x))[::-1] if task.is_regression else LOGISTIC_PENALTIES
        weights = None if context.weights is None else torch.from_numpy(context.weights).to(x)
        for step, (penalty, model) in enumerate(self._path(x, y, weights, penalties, context), start=1):
            output = model(x_val)
            score = self.objective.score(output, y_val)
            goodness = (score, -float(self.objective.loss(output, y_val)))
            since_best += 1
            if best is None or goodness > best:
                best, since_best = goodness, 0
                self.model = model
                self.diagnostics = {"penalty": penalty, "columns": x.shape[1], "validation_score": score}
            context.report(step, len(penalties), validation=score)
            if since_best >= PATIENCE:
                break

    def predict(self, features: Features) -> NDArray[np.float32]:
        rows = self.inputs.load(self._flatten(features), self.device)
        output = torch.cat([self.model(self.columns(batch)) for batch in rows.in_order(PREDICT_ROWS)])
        return self.objective.predictions(output)

    def get_state(self) -> State:
        numbers = np.array([self.objective.centre, self.objective.scale, self.max_columns], dtype=np.float64)
        weights = {"weight": self.model.weight.cpu().numpy(), "bias": self.model.bias.cpu().numpy()}
        return {**self.inputs.get_state(), **weights, "numbers": numbers}

    def set_state(self, state: State, task: Task, device: str = "cpu") -> None:
        self.device = device
        self.task = Task("multiclass", 2, task.metric) if task.kind == "binary" else task
        self.inputs = Inputs(self.config.scaling).set_state(state)
        self.columns = FlatColumns(self.inputs.shape).to(device)
        self.objective = Objective(self.task, np.zeros(1))
        self.objective.centre, self.objective.scale, max_columns = (float(number) for number in state["numbers"])
        self.max_columns = int(max_columns)
        self.model = LinearMap(*(torch.from_numpy(state[name]).to(device) for name in ("weight", "bias")))

    def _flatten(self, features: Features) -> Features:
        if isinstance(features, Representation):
            return Representation(flat_columns(features.array, self.max_columns))
        return features

    def _matrix(self, features: Features) -> Tensor:
        matrix: Tensor = self.columns(self.inputs.transform(features, self.device))
        return matrix

    def _path(
        self, x: Tensor, y: Tensor, weights: Tensor | None, penalties: tuple[float, ...], context: Context
    ) -> Iterator[tuple[float, LinearMap]]:
        if self.task.is_regression:
            return ridge_path(x, y[:, None], penalties, weights)

        def look_at_the_clock() -> None:
            context.check_deadline("in the fit of a penalty")

        n_classes, iterations = self.task.n_classes, self.config.max_iterations
        return logistic_path(x, y, n_classes, penalties, iterations, look_at_the_clock, weights)


def max_columns(n_rows: int, n_outputs: int, memory: int | None) -> int:
    """How many token columns fit into ``memory``: a quarter for the rows, the rest for outputs and L-BFGS vectors."""
    if memory is None:
        return MAX_FLAT_COLUMNS
    left = memory - 4 * OUTPUT_COPIES * n_rows * n_outputs
    return min(MAX_FLAT_COLUMNS, max(left // (4 * (4 * n_rows + LBFGS_VECTORS * n_outputs)), 1))
