"""Settings of the linear model."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Choice, Config, NetworkConfig, load_presets


class LinearConfig(Config):
    """The penalty is not a setting: it is always chosen on validation."""

    scaling: Annotated[Literal["standard", "minmax", "quantile"], Choice("standard", "quantile")] = "standard"
    """Scaling of the numeric columns of a raw table; representations are always standardised."""
    max_iterations: Annotated[int, Field(ge=1)] = 100
    """L-BFGS iterations per penalty of logistic regression. Ridge regression has a closed form."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)


class LinearHeadConfig(NetworkConfig):
    """A linear layer has no settings of its own. ``projection`` has no effect, because the layer sees all tokens."""

    def unused(self, raw: bool) -> frozenset[str]:
        return super().unused(raw) | {"projection"}
