"""Settings of XGBoost."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Config, Float, Int, load_presets


class XGBoostConfig(Config):
    """Search ranges of Gorishniy et al. 2021."""

    n_rounds: Annotated[int, Field(ge=1)] = 2000
    """Boosting rounds if early stopping does not end the training before; at most 200 for more than 200 classes."""
    patience: Annotated[int, Field(ge=1)] = 50
    """Rounds without a better validation score after which training ends."""
    stop_on: Literal["metric", "loss"] = "loss"
    """What early stopping watches on validation: error rate or RMSE, or the loss.

    Accuracy stays the same for many rounds while the loss still falls: training would end too early.
    """
    lr: Annotated[float, Field(gt=0), Float(1e-5, 1.0, log=True)] = 0.05
    """Learning rate."""
    max_depth: Annotated[int, Field(ge=1), Int(3, 10)] = 6
    """Depth of a tree; at most 6 for more than 200 classes."""
    min_child_weight: Annotated[float, Field(ge=0), Float(1e-8, 1e5, log=True)] = 1.0
    """Least sum of second derivatives in a leaf."""
    subsample: Annotated[float, Field(gt=0, le=1), Float(0.5, 1.0)] = 0.9
    """Share of rows for a tree."""
    colsample_bytree: Annotated[float, Field(gt=0, le=1), Float(0.5, 1.0)] = 0.8
    """Share of columns for a tree."""
    colsample_bylevel: Annotated[float, Field(gt=0, le=1), Float(0.5, 1.0)] = 1.0
    """Share of those columns for a level."""
    gamma: Annotated[float, Field(ge=0), Float(1e-8, 100.0, log=True, zero=True)] = 0.0
    """Least gain of a split."""
    reg_lambda: Annotated[float, Field(ge=0), Float(1e-8, 100.0, log=True, zero=True)] = 1.0
    """L2 penalty of leaves."""
    reg_alpha: Annotated[float, Field(ge=0), Float(1e-8, 100.0, log=True, zero=True)] = 0.0
    """L1 penalty of leaves."""
    categories: Literal["partition", "one_hot"] = "partition"
    """Splits on categories: groups of levels against the others, or one level against the others."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
