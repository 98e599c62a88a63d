"""Settings of CatBoost."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Config, Float, Int, load_presets


class CatBoostConfig(Config):
    """The library's defaults with early stopping; search ranges of Gorishniy et al. 2021."""

    n_rounds: Annotated[int, Field(ge=1)] = 2000
    """Maximum trees; early stopping may end training sooner. At most 200 for more than 200 classes."""
    patience: Annotated[int, Field(ge=1)] = 50
    """Stop after this many trees without a better validation score."""
    stop_on: Literal["metric", "loss"] = "loss"
    """What early stopping watches on validation: accuracy, RMSE or what ``--metric`` names if CatBoost has it, or
    the loss.

    Accuracy can stay the same for many rounds while the loss still falls, so training would end too early.
    """
    lr: Annotated[Annotated[float, Field(gt=0)] | Literal["auto"], Float(1e-5, 1.0, log=True)] = "auto"
    """Learning rate. ``auto`` is the library's rule based on the numbers of rows and rounds. The library applies it
    only if the two leaf settings below are its defaults; otherwise the rate is 0.03."""
    max_depth: Annotated[int, Field(ge=1, le=16), Int(3, 10)] = 6
    """Depth of a tree; at most 6 for more than 200 classes."""
    bagging_temperature: Annotated[float | None, Field(ge=0), Float(0.0, 1.0)] = None
    """Spread of row weights in the Bayesian bootstrap, 0 for equal weights; None leaves sampling to the library."""
    l2_leaf_reg: Annotated[float | None, Field(ge=0), Float(1.0, 10.0, log=True)] = None
    """L2 penalty on leaves; None: the library's 3."""
    leaf_estimation_iterations: Annotated[int | None, Field(ge=1), Int(1, 10)] = None
    """Newton or gradient steps for leaf values; None leaves the number to the library."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
