"""Scores agree with scikit-learn, and hold where it gives up."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics

from tabbench import PluginError, Task
from tabbench.contracts.metrics import score_predictions


def make_probabilities(rng: np.random.Generator, n: int, classes: int) -> NDArray[np.float32]:
    logits = rng.normal(size=(n, classes)).round(1)  # rounded, so that there are ties
    weights = np.exp(logits)
    probabilities: NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return probabilities


@pytest.mark.parametrize("classes", [2, 5])
def test_classification_scores_agree_with_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, 300)
    probabilities = make_probabilities(rng, 300, classes)
    task = Task("binary" if classes == 2 else "multiclass", classes)
    scores = score_predictions(task, y, probabilities)
    wide = probabilities.astype(np.float64)
    wide /= wide.sum(axis=1, keepdims=True)
    predicted = probabilities.argmax(axis=1)
    auroc = metrics.roc_auc_score(y, wide[:, 1] if classes == 2 else wide, multi_class="ovr")
    assert scores == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(y, predicted),
            "balanced_accuracy": metrics.balanced_accuracy_score(y, predicted),
            "macro_f1": metrics.f1_score(y, predicted, average="macro"),
            "auroc": auroc,
            "log_loss": metrics.log_loss(y, wide),
            "ece": scores["ece"],  # scikit-learn has none; see below
        }
    )


def test_calibration_error_by_hand() -> None:
    """Bins of 1/15: 0.6 (the end of its bin) and 0.58 share one; 0.75 and 0.95 have one each.

    Two rows with confidences 0.6 and 0.58, one of them right: |1 - 1.18| = 0.18. One row at 0.75, wrong: 0.75.
    One at 0.95, right: 0.05. Summed over four rows: 0.98 / 4.
    """
    second = np.array([0.4, 0.58, 0.75, 0.05])
    probabilities = np.stack([1 - second, second], axis=1)
    scores = score_predictions(Task("binary", 2), np.array([0, 0, 0, 0]), probabilities)
    assert scores["ece"] == pytest.approx(0.98 / 4)


def test_shares_that_come_true_are_calibrated() -> None:
    probabilities = np.tile([0.7, 0.2, 0.1], (10, 1))
    y = np.array([0] * 7 + [1] * 2 + [2])
    assert score_predictions(Task("multiclass", 3), y, probabilities)["ece"] == pytest.approx(0.0)
    certain = score_predictions(Task("multiclass", 3), y, np.tile([1.0, 0.0, 0.0], (10, 1)))
    assert certain["ece"] == pytest.approx(0.3)


def test_classes_that_do_not_occur_are_left_out_of_averages() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 100)
    probabilities = np.hstack([make_probabilities(rng, 100, 3), np.zeros((100, 70), dtype=np.float32)])
    scores = score_predictions(Task("multiclass", 73), y, probabilities)
    assert scores == pytest.approx(score_predictions(Task("multiclass", 3), y, probabilities[:, :3]))


def test_a_part_with_one_class_has_no_auroc() -> None:
    scores = score_predictions(Task("binary", 2), np.zeros(4, dtype=np.int64), np.full((4, 2), 0.5))
    assert np.isnan(scores["auroc"])
    assert scores["accuracy"] == 1.0


def test_certain_and_wrong_is_bad_and_finite() -> None:
    scores = score_predictions(Task("binary", 2), np.array([0, 1]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert 30 < scores["log_loss"] < 40
    assert scores["auroc"] == 0.0


def test_regression_is_scored_in_the_unit_of_the_data_and_in_standard_deviations() -> None:
    rng = np.random.default_rng(2)
    y = rng.normal(50, 20, 200)
    standardised = ((y + rng.normal(0, 5, 200)) - 48) / 19
    scores = score_predictions(Task("regression"), y, standardised.astype(np.float32), target_std=19, target_mean=48)
    numbers = standardised * 19 + 48
    rmse = metrics.root_mean_squared_error(y, numbers)
    assert scores == pytest.approx(
        {
            "rmse": rmse,
            "rmse_std": rmse / 19,
            "mae": metrics.mean_absolute_error(y, numbers),
            "r2": metrics.r2_score(y, numbers),
        },
        rel=1e-5,
    )


def test_predictions_of_a_wrong_shape_are_the_models_fault() -> None:
    with pytest.raises(PluginError, match=r"predictions have shape \(3, 1\), expected \(3, 2\)"):
        score_predictions(Task("binary", 2), np.zeros(3, dtype=np.int64), np.zeros((3, 1)))
    with pytest.raises(PluginError, match=r"\(4,\)"):
        score_predictions(Task("regression"), np.zeros(4), np.zeros((4, 1)))


def test_predictions_that_are_not_finite_have_no_score() -> None:
    scores = score_predictions(Task("regression"), np.zeros(2), np.array([np.nan, 1.0]))
    assert list(scores) == ["rmse", "rmse_std", "mae", "r2"]
    assert all(np.isnan(value) for value in scores.values())
