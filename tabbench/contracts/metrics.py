"""Scores of predictions, computed over a whole part at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabbench.errors import PluginError
from tabbench.values import Task

CLASSIFICATION_METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "auroc", "log_loss", "ece")
REGRESSION_METRICS = ("rmse", "rmse_std", "mae", "r2")
LOWER_IS_BETTER = frozenset({"log_loss", "ece", "rmse", "rmse_std", "mae"})
UNIT_RANGE, POSITIVE = (0.0, 1.0), (0.0, np.inf)
RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1", "auroc", "ece"), UNIT_RANGE),
    **dict.fromkeys(("log_loss", "rmse", "rmse_std", "mae"), POSITIVE),
    "r2": (-np.inf, 1.0),
}
"""Which values a score can have; an interval around a mean knows nothing of this."""
CALIBRATION_BINS = 15
"""Bins of confidence, as in Guo et al. (ICML 2017)."""


def main_metric(task: Task) -> str:
    """The score used for ranks, tuning, early stopping and probes."""
    return task.metric or ("rmse" if task.is_regression else "accuracy")


def is_metric_of(metric: str, *, regression: bool) -> bool:
    """Whether predictions of such a task have this score."""
    return metric in (REGRESSION_METRICS if regression else CLASSIFICATION_METRICS)


def goodness(task: Task, y_true: NDArray[Any], predictions: NDArray[Any]) -> float:
    """The main metric with the sign that makes higher better; labels and predictions as in training."""
    name = main_metric(task)
    score = score_predictions(task, y_true, predictions)[name]
    return -score if name in LOWER_IS_BETTER else score


def score_predictions(
    task: Task,
    y_true: NDArray[Any],
    predictions: NDArray[Any],
    target_std: float = 1.0,
    target_mean: float = 0.0,
) -> dict[str, float]:
    """All metrics of the task; every one is NaN if a prediction is not finite.

    Args:
        task: what was predicted.
        y_true: classes ``0 .. n_classes-1``, or numbers in the data's own unit.
        predictions: probabilities ``(rows, n_classes)``, or standardised numbers ``(rows,)``.
        target_std: standard deviation of the training targets, by which predictions are multiplied.
        target_mean: mean of the training targets, which is then added.
    """
    wanted = (len(y_true),) if task.is_regression else (len(y_true), task.n_classes)
    if predictions.shape != wanted:
        raise PluginError(f"predictions have shape {predictions.shape}, expected {wanted}")
    if not np.isfinite(predictions).all():
        names = REGRESSION_METRICS if task.is_regression else CLASSIFICATION_METRICS
        return dict.fromkeys(names, float("nan"))
    if task.is_regression:
        numbers = predictions.astype(np.float64) * target_std + target_mean
        return _regression_scores(y_true.astype(np.float64), numbers, target_std)
    return _classification_scores(y_true, predictions.astype(np.float64))


def _regression_scores(y: NDArray[np.float64], predicted: NDArray[np.float64], std: float) -> dict[str, float]:
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    rmse = float(root_mean_squared_error(y, predicted))
    return {
        "rmse": rmse,
        "rmse_std": rmse / std,
        "mae": float(mean_absolute_error(y, predicted)),
        "r2": float(r2_score(y, predicted)) if len(y) > 1 else float("nan"),
    }


def _classification_scores(y: NDArray[Any], probabilities: NDArray[np.float64]) -> dict[str, float]:
    """Averages over classes are over the classes that occur in ``y``."""
    from sklearn.metrics import accuracy_score, f1_score, recall_score

    predicted = probabilities.argmax(axis=1)
    present = np.unique(y)
    averaging: dict[str, Any] = {"labels": present, "average": "macro", "zero_division": 0}
    clipped = np.clip(probabilities, np.finfo(np.float64).eps, None)
    clipped /= clipped.sum(axis=1, keepdims=True)
    return {
        "accuracy": float(accuracy_score(y, predicted)),
        "balanced_accuracy": float(recall_score(y, predicted, **averaging)),
        "macro_f1": float(f1_score(y, predicted, **averaging)),
        "auroc": _auroc(y, probabilities, present),
        "log_loss": float(-np.log(clipped[np.arange(len(y)), y]).mean()),
        "ece": expected_calibration_error(y, probabilities),
    }


def expected_calibration_error(y: NDArray[Any], probabilities: NDArray[np.float64]) -> float:
    """How far confidence and accuracy are apart, on average over rows (Guo et al., ICML 2017).

    The confidence of a row is the probability of its most likely class. Rows are sorted into 15 bins of equal width,
    ``(0, 1/15]`` and so on; the gap of a bin counts by its share of the rows.
    """
    confidence = probabilities.max(axis=1)
    bins = np.clip(np.ceil(confidence * CALIBRATION_BINS).astype(np.int64) - 1, 0, CALIBRATION_BINS - 1)
    gaps = (probabilities.argmax(axis=1) == y) - confidence
    return float(np.abs(np.bincount(bins, weights=gaps, minlength=CALIBRATION_BINS)).sum() / len(y))


def _auroc(y: NDArray[Any], probabilities: NDArray[np.float64], present: NDArray[Any]) -> float:
    """One class against the rest, averaged over the classes that occur; NaN if only one does.

    Computed from the ranks of a class's own rows (Mann-Whitney, average ranks for ties). With a thousand classes this
    takes a fraction of the time of that many calls to scikit-learn's ``roc_auc_score``.
    """
    if len(present) < 2:
        return float("nan")
    chosen = present[1:] if probabilities.shape[1] == 2 else present  # binary: both classes have the same area
    areas = []
    for label in chosen:
        column = probabilities[:, label]
        ordered, own = np.sort(column), column[y == label]
        ranks = (np.searchsorted(ordered, own, "left") + np.searchsorted(ordered, own, "right") + 1) / 2
        n = len(own)
        areas.append((ranks.sum() - n * (n + 1) / 2) / (n * (len(y) - n)))
    return float(np.mean(areas))
