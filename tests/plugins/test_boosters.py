"""What boosters share."""

from typing import Any

import numpy as np
import pytest
from tabbench_catboost.model import CatBoost
from tabbench_xgboost.model import XGBoost

from tabbench import Context, DownstreamModel, Labelled, Representation, Task


@pytest.mark.parametrize("booster", [CatBoost, XGBoost])
def test_early_stopping_watches_the_loss_unless_told_otherwise(booster: type[DownstreamModel]) -> None:
    """Accuracy on 60 rows is soon as good as it gets, while the loss still falls."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(360, 3)).astype(np.float32)
    y = (x[:, 0] + 0.3 * x[:, 1] > 0).astype(np.int64)
    train, validation = (Labelled(Representation(x[part]), y[part]) for part in (slice(300), slice(300, None)))
    rounds = []
    for told in ({}, {"stop_on": "loss"}, {"stop_on": "metric"}):
        settings: dict[str, Any] = {"n_rounds": 150, "patience": 20, "lr": 0.1, **told}
        model = booster(**settings)
        model.fit(train, validation, Task("binary", 2), Context())
        rounds.append(model.diagnostics["best_round"])
    default, loss, metric = rounds
    assert default == loss > metric
