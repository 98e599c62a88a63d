"""Settings of CatBoost."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Config, Float, Int, load_presets


class CatBoostConfig(Config):
    """The library's defaults with early stopping; search ranges of Gorishniy et al. 2021."""

    n_rounds: Annotated[int, Field(ge=1)] = 2000
    """Trees if early stopping does not end the training before; at most 200 for more than 200 classes."""
    patience: Annotated[int, Field(ge=1)] = 50
    """Trees without a better validation score after which training ends."""
    stop_on: Literal["metric", "loss"] = "loss"
    """What early stopping watches on validation: accuracy or RMSE, or the loss.

    Accuracy stays the same for many rounds while the loss still falls: training would end too early.
    """
    lr: Annotated[Annotated[float, Field(gt=0)] | Literal["auto"], Float(1e-5, 1.0, log=True)] = "auto"
    """Learning rate; ``auto`` is the library's rule from the numbers of rows and rounds, which it applies only while
    the two settings of leaves below are its own; else it is 0.03."""
    max_depth: Annotated[int, Field(ge=1, le=16), Int(3, 10)] = 6
    """Depth of a tree; at most 6 for more than 200 classes."""
    bagging_temperature: Annotated[float | None, Field(ge=0), Float(0.0, 1.0)] = None
    """Spread of the weights of rows in the Bayesian bootstrap, 0 is none; None leaves the sampling to the library."""
    l2_leaf_reg: Annotated[float | None, Field(ge=0), Float(1.0, 10.0, log=True)] = None
    """L2 penalty of leaves; None is the library's 3."""
    leaf_estimation_iterations: Annotated[int | None, Field(ge=1), Int(1, 10)] = None
    """Newton or gradient steps for the values of leaves; None leaves the number to the library."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
