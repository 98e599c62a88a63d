"""The kit tells a model that heeds weights from one that only says so."""

import numpy as np
import pytest
from testing.broken_models import Ridge

from tabbench import Context, Labelled, Plugin, Task
from tabbench.registry import Entry
from tabbench.testing.protocols import check_weights_count
from tabbench.testing.subject import CheckFailed, CheckSkipped, Subject


class WeightedRidge(Ridge):
    """Rows are there as often as their weights say."""

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        if context.weights is not None:
            rows = np.repeat(np.arange(len(train.y)), context.weights.astype(int))
            train = Labelled(train.features.take(rows), train.y[rows])
        super().fit(train, validation, task, context)


def subject_of(model: type, *, weights: bool) -> Subject:
    entry = Entry("model", Plugin("ridge", "somewhere:Ridge", weights=weights), "tabbench-ridge", "1.0")
    return Subject("model", lambda: model, "ridge", entry=entry)


def test_a_model_that_heeds_weights_passes() -> None:
    check_weights_count(subject_of(WeightedRidge, weights=True))


def test_a_model_that_only_says_so_fails() -> None:
    with pytest.raises(CheckFailed, match="of the rows are predicted right if wrong labels weigh nothing"):
        check_weights_count(subject_of(Ridge, weights=True))


def test_a_model_that_does_not_say_so_is_not_asked() -> None:
    with pytest.raises(CheckSkipped, match="weights=True"):
        check_weights_count(subject_of(Ridge, weights=False))
