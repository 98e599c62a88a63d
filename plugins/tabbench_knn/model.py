"""k nearest neighbours by Euclidean distance; every neighbour has one vote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabbench import Context, DownstreamModel, Features, Labelled, Representation, State, Task, UsageError
from tabbench.nn import FlatColumns, Inputs, Objective, flat_columns, max_flat_columns
from tabbench_knn.config import KNNConfig

NEIGHBOURS = (1, 3, 5, 10, 20, 50, 100)
DISTANCES = 2**24
"""Distances held in memory at once."""


class KNN(DownstreamModel):
    """Categories are one-hot. Tokens (rows, d, h) are flattened, to at most 4,096 columns (``flat_columns``)."""

    Config = KNNConfig

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        if len(train.y) == 0 or len(validation.y) == 0:
            raise UsageError(f"{len(train.y)} training rows and {len(validation.y)} validation rows: both are needed")
        self.task, self.device = task, context.device
        self.max_columns = max_flat_columns(len(train.y), context.memory)
        features = self._flatten(train.features)
        self.inputs = Inputs(self.config.scaling).fit(features)
        self.columns = FlatColumns(self.inputs.shape).to(self.device)
        self.x = self._matrix(features)
        self.y = torch.from_numpy(np.array(train.y)).to(self.device)
        wanted = NEIGHBOURS if self.config.k == "auto" else (self.config.k,)
        possible = [k for k in wanted if k <= len(self.y)] or [len(self.y)]
        scores: dict[int, float] = {}
        for step, (k, predicted) in enumerate(self._predict_each(validation.features, possible, context), start=1):
            scores[k] = self._score(predicted, validation.y)
            context.report(step, len(possible), validation=scores[k])
        self.k = max(scores, key=lambda k: (scores[k], k))  # on ties, prefer the smoother
        self.diagnostics = {"k": self.k, "scores": {str(k): score for k, score in scores.items()}}

    def predict(self, features: Features) -> NDArray[np.float32]:
        ((_, predicted),) = self._predict_each(features, [self.k])
        return predicted

    def get_state(self) -> State:
        arrays = {"x": self.x.cpu().numpy(), "y": self.y.cpu().numpy()}
        return {**self.inputs.get_state(), **arrays, "sizes": np.array([self.k, self.max_columns])}

    def set_state(self, state: State, task: Task, device: str = "cpu") -> None:
        self.task, self.device = task, device
        self.inputs = Inputs(self.config.scaling).set_state(state)
        self.columns = FlatColumns(self.inputs.shape).to(device)
        self.x, self.y = (torch.from_numpy(state[name]).to(device) for name in ("x", "y"))
        self.k, self.max_columns = (int(size) for size in state["sizes"])

    def _predict_each(
        self, features: Features, numbers: list[int], context: Context | None = None
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Predictions for each number of neighbours, in ascending order."""
        neighbours = self._neighbours(features, numbers[-1], context)
        n_values = 1 if self.task.is_regression else self.task.n_classes
        votes = torch.zeros(len(features), n_values, device=self.device)
        before = 0
        for k in numbers:
            for column in neighbours[:, before:k].T:
                labels = self.y[column][:, None]
                if self.task.is_regression:
                    votes += labels
                else:
                    votes.scatter_add_(1, labels, torch.ones_like(votes[:, :1]))
            before = k
            mean = (votes / k).cpu().numpy().astype(np.float32)
            yield k, mean[:, 0] if self.task.is_regression else mean

    def _neighbours(self, features: Features, k: int, context: Context | None) -> Tensor:
        """Training rows nearest to each row, ``(rows, k)``, nearest first; ties go to the earlier row."""
        step = max(DISTANCES // len(self.x), 1)
        lengths = self.x.square().sum(dim=1)
        found = []
        for start in range(0, max(len(features), 1), step):
            some = self._matrix(self._flatten(features.take(slice(start, start + step))))
            found.append(_nearest(some, self.x, lengths, k))
            if context is not None:
                context.check_deadline("while looking for neighbours")
        return torch.cat(found)

    def _score(self, predicted: NDArray[np.float32], y: NDArray[np.float32]) -> float:
        """Accuracy, minus the RMSE, or the metric that the run asks for; higher is better."""
        if self.task.metric:
            # Shares of votes are the softmax of their logarithms, for two classes as for more.
            kind: Literal["regression", "multiclass"] = "regression" if self.task.is_regression else "multiclass"
            objective = Objective(Task(kind, self.task.n_classes, self.task.metric), y)
            values = torch.from_numpy(predicted)
            output = (values[:, None] - objective.centre) / objective.scale if self.task.is_regression else values.log()
            return objective.score(output, objective.targets(y, "cpu"))
        if self.task.is_regression:
            return -float(np.sqrt(np.mean((predicted - y) ** 2, dtype=np.float64)))
        return float((predicted.argmax(axis=1) == y).mean())

    def _flatten(self, features: Features) -> Features:
        if isinstance(features, Representation):
            return Representation(flat_columns(features.array, self.max_columns))
        return features

    def _matrix(self, features: Features) -> Tensor:
        matrix: Tensor = self.columns(self.inputs.transform(features, self.device))
        return matrix


def _nearest(rows: Tensor, x: Tensor, lengths: Tensor, k: int) -> Tensor:
    """Rows of ``x`` nearest to each of ``rows``, nearest first; ties go to the earlier one. ``lengths``: |x|^2.

    Exact distances are slow. So a matrix product gives a lower bound of every squared distance, |a|^2 - 2ab + |b|^2
    less all that rounding can add, and only the rows with the smallest bounds are measured. Where a row that was not
    measured might be among the nearest, all are.
    """
    n_candidates = 2 * k + 32
    if n_candidates >= len(x):
        return _measure(rows, x).sort(dim=1, stable=True).indices[:, :k]
    rounding = 8 * (x.shape[1] + 8) * torch.finfo(x.dtype).eps
    own = rows.square().sum(dim=1, keepdim=True)
    bounds = torch.addmm(lengths * (1 - rounding), rows, x.T, alpha=-2) + own * (1 - rounding)
    least = bounds.topk(n_candidates, dim=1, largest=False)
    candidates = least.indices.sort(dim=1).values
    distances, order = _measure(rows[:, None], x[candidates])[:, 0].sort(dim=1, stable=True)
    nearest = candidates.gather(1, order[:, :k])
    unsure = ~(distances[:, k - 1].square() < least.values.amax(dim=1))  # also where something is not a number
    if unsure.any():
        nearest[unsure] = _measure(rows[unsure], x).sort(dim=1, stable=True).indices[:, :k]
    return nearest


def _measure(rows: Tensor, x: Tensor) -> Tensor:
    """Distances pair by pair, without the cancellation of the product form."""
    return torch.cdist(rows, x, compute_mode="donot_use_mm_for_euclid_dist")
