"""How long a training would take, from a few of its epochs."""

import time

import pytest

from tabbench.context import Context
from tabbench.experiment.payloads import Shape
from tabbench.running.calibration import FEW, measure
from tabbench.values import Labelled, Task

EPOCHS, EPOCH, SETUP = 50, 0.02, 0.8


class Slow:
    """A model that needs long before its first epoch, and little for each."""

    def fit(self, train: Labelled, validation: Labelled, task: Task, context: Context) -> None:
        time.sleep(SETUP)
        for epoch in range(EPOCHS):
            time.sleep(EPOCH * len(train.y) / FEW)
            context.report(epoch + 1, EPOCHS)


def test_what_comes_before_the_first_epoch_counts_once() -> None:
    shape = Shape(rows=4 * FEW, n_numeric=2, n_categorical=0, task="binary", n_classes=2)
    seconds = measure(Slow(), shape, Context(), settings={})
    assert seconds == pytest.approx(SETUP + 4 * EPOCHS * EPOCH, rel=0.5)


def test_trainings_that_stop_early_are_not_counted_in_full() -> None:
    shape = Shape(rows=FEW, n_numeric=2, n_categorical=0, task="binary", n_classes=2)
    whole = measure(Slow(), shape, Context(), settings={"max_epochs": EPOCHS})
    early = measure(Slow(), shape, Context(), settings={"max_epochs": EPOCHS, "patience": 2})
    assert early - SETUP == pytest.approx((whole - SETUP) * 8 / EPOCHS, rel=0.5)
