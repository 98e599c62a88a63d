"""Settings of XGBoost."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Config, Float, Int, load_presets


class XGBoostConfig(Config):
    """Search ranges of Gorishniy et al. 2021."""

    n_rounds: Annotated[int, Field(ge=1)] = 2000
    """Maximum boosting rounds; early stopping may end training sooner. At most 200 for more than 200 classes."""
    patience: Annotated[int, Field(ge=1)] = 50
    """Stop after this many rounds without a better validation score."""
    stop_on: Literal["metric", "loss"] = "loss"
    """What early stopping watches on validation: error rate, RMSE or what ``--metric`` names if XGBoost has it, or
    the loss.

    Accuracy can stay the same for many rounds while the loss still falls, so training would end too early.
    """
    lr: Annotated[float, Field(gt=0), Float(1e-5, 1.0, log=True)] = 0.05
    """Learning rate."""
    max_depth: Annotated[int, Field(ge=1), Int(3, 10)] = 6
    """Depth of a tree; at most 6 for more than 200 classes."""
    min_child_weight: Annotated[float, Field(ge=0), Float(1e-8, 1e5, log=True)] = 1.0
    """Minimum sum of second derivatives in a leaf."""
    subsample: Annotated[float, Field(gt=0, le=1), Float(0.5, 1.0)] = 0.9
    """Share of rows used per tree."""
    colsample_bytree: Annotated[float, Field(gt=0, le=1), Float(0.5, 1.0)] = 0.8
    """Share of columns used per tree."""
    colsample_bylevel: Annotated[float, Field(gt=0, le=1), Float(0.5, 1.0)] = 1.0
    """Share of those columns used per level."""
    gamma: Annotated[float, Field(ge=0), Float(1e-8, 100.0, log=True, zero=True)] = 0.0
    """Minimum gain of a split."""
    reg_lambda: Annotated[float, Field(ge=0), Float(1e-8, 100.0, log=True, zero=True)] = 1.0
    """L2 penalty on leaves."""
    reg_alpha: Annotated[float, Field(ge=0), Float(1e-8, 100.0, log=True, zero=True)] = 0.0
    """L1 penalty on leaves."""
    categories: Literal["partition", "one_hot"] = "partition"
    """Splits on categories: a group of levels against the rest, or one level against the rest."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
