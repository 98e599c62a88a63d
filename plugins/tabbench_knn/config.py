"""Settings of k nearest neighbours."""

from typing import Annotated, Literal

from pydantic import Field

from tabbench import Choice, Config


class KNNConfig(Config):
    """The number of neighbours is chosen on validation unless given."""

    k: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Neighbours; ``auto`` chooses among 1, 3, 5, 10, 20, 50 and 100 by validation score."""
    scaling: Annotated[Literal["standard", "minmax", "quantile"], Choice("standard", "quantile")] = "standard"
    """Scaling of the numeric columns of a raw table; representations are always standardised."""
