"""Checks for results that cannot be right. A flagged record is kept; tables leave it out and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from tabbench.contracts.configurable import Diagnostics
from tabbench.contracts.metrics import main_metric
from tabbench.nn import is_collapsed
from tabbench.results.record import Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tabbench.data.prepare import SplitData

VALIDATION_IS_TEST = "validation equals test"
CONSTANT_PREDICTION = "constant prediction"
COLLAPSED = "collapsed embedding"
NON_FINITE = "non-finite values"
SMALL_TEST = "test part smaller than the split promises"
SMOKE = "smoke run of one epoch"
CHANGED_PROCESS = "changed the state of its process"

EPOCHS = ("epochs", "n_epochs", "loss", "train_loss")
"""Diagnostics that count epochs, or have a value for each."""
FEW_ROWS = 20
"""With fewer test rows, predicting the same class for all of them is not suspicious."""
RARE_ELSE = 0.9
"""If a class has this share of the training rows, predicting it for every row is often best."""


def check_representation(sample: NDArray[np.float32], part: str = "train") -> list[str]:
    """Flags for a sample of encoded rows: non-finite values; nearly equal rows."""
    if not np.isfinite(sample).all():
        return [NON_FINITE]
    return [COLLAPSED] if part == "train" and is_collapsed(torch.from_numpy(sample)) else []


def check_predictions(split: SplitData, predicted: dict[str, NDArray[np.float32]]) -> list[str]:
    """Flags for predictions: non-finite values; the same answer for every row; too few of them."""
    flags = []
    test = predicted["test"]
    if not all(np.isfinite(values).all() for values in predicted.values()):
        flags.append(NON_FINITE)
    if is_constant(test, split):
        flags.append(CONSTANT_PREDICTION)
    if len(test) < split.promised_test:
        flags.append(SMALL_TEST)
    return flags


def is_constant(test: NDArray[np.float32], split: SplitData) -> bool:
    """Whether a model ignores its rows: the same numbers for all of them, or the same class.

    The same class for all rows is expected on a handful of rows, or if nearly all rows have that class.
    """
    if len(test) < 2:
        return False
    if np.ptp(test, axis=0).max() <= 1e-6:
        return True
    if split.task.is_regression or len(test) < FEW_ROWS or len(np.unique(test.argmax(axis=1))) > 1:
        return False
    return bool(np.bincount(split.train.y).max() < RARE_ELSE * len(split.train.y))


def note_imbalance(split: SplitData) -> list[str]:
    """A note for tables where nearly all rows have one class and accuracy is the main metric."""
    if main_metric(split.task) != "accuracy" or len(split.train.y) == 0:
        return []
    share = np.bincount(split.train.y).max() / len(split.train.y)
    if share <= RARE_ELSE:
        return []
    return [f"one class has {share:.0%} of the rows, so accuracy says little; try --metric balanced_accuracy or auroc"]


def check_scores(split: SplitData, on_validation: Scores, on_test: Scores) -> list[str]:
    """Flags for validation that is really test: shared rows, or every score identical to the last digit."""
    shared = np.intersect1d(split.rows.validation, split.rows.test).size > 0
    same = len(split.test) >= 50 and on_validation == on_test
    return [VALIDATION_IS_TEST] if shared or same else []


def check_training(*diagnostics: Diagnostics) -> list[str]:
    """Flags for trainings that hardly happened, by the number of epochs they report.

    A plugin can raise its own flags, for instance for a mode that must not be ranked: ``diagnostics["flags"]``. A curve
    ``collapsed`` is also trusted for the epoch that was kept (``best_epoch``, or the last).
    """
    flags = {str(flag) for told in diagnostics for flag in told.get("flags", [])}
    for told in diagnostics:
        counts = [len(value) if isinstance(value, list) else value for name, value in told.items() if name in EPOCHS]
        if counts and max(counts) == 1:
            flags.add(SMOKE)
        if told.get("surroundings"):
            flags.add(CHANGED_PROCESS)
        curve = told.get("collapsed")
        if isinstance(curve, list) and curve[: told.get("best_epoch", len(curve))][-1:] == [True]:
            flags.add(COLLAPSED)
    return sorted(flags)
