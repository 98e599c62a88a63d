"""Settings that all downstream networks share, importable without torch."""

from typing import Annotated, Literal

from pydantic import Field

from tabbench.config import Choice, Config, Float
from tabbench.scaling import ScalingKind

MIN_BATCH = 2
"""BatchNorm cannot train on one row."""

ProjectionName = Literal[
    "auto", "linear_flatten", "linear_per_feature", "conv", "max_pool", "mean_pool", "tokens_direct"
]
PROJECTIONS = ("linear_flatten", "linear_per_feature", "conv", "max_pool", "mean_pool")
"""The projections of the T-JEPA paper, which a tuner chooses from."""


class NetworkConfig(Config):
    """Settings that all networks have. The defaults suit small and middle-sized tables without tuning."""

    lr: Annotated[float, Field(gt=0), Float(1e-5, 1e-2, log=True)] = 1e-3
    """Learning rate of AdamW; its peak with ``schedule=cosine``."""
    weight_decay: Annotated[float, Field(ge=0), Float(1e-6, 1e-3, log=True)] = 1e-5
    """Decoupled weight decay of AdamW."""
    batch_size: Annotated[int, Field(ge=MIN_BATCH)] | Literal["auto"] = "auto"
    """Rows per step; ``auto`` is the power of two next to a 64th of the training rows, between 32 and 512. Batches
    that do not fit the memory are taken in parts; with BatchNorm beside attention (``conv``) they are smaller."""
    max_epochs: Annotated[int, Field(ge=1)] = 200
    """Epochs if early stopping does not end the training before."""
    patience: Annotated[int, Field(ge=1)] = 16
    """Epochs without a better validation score after which training ends."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate over the steps: constant, or a cosine to 0 at the end of ``max_epochs``."""
    stop_on: Literal["metric", "loss"] = "metric"
    """What early stopping watches on validation: accuracy or RMSE (ties go to the lower loss), or the loss alone."""
    scaling: ScalingKind = "quantile"
    """Scaling of the numeric columns of a raw table; representations are always standardised."""
    projection: Annotated[ProjectionName, Choice(*PROJECTIONS)] = "auto"
    """How tokens (rows, d, h) become numbers. ``auto`` is linear_flatten up to 8,192 numbers per row, beyond that
    linear_per_feature; ``tokens_direct`` gives the tokens to the network without reducing them to d numbers."""
    bf16: bool = False
    """Mixed bfloat16 precision: faster on GPUs, and for wide networks on CPUs that have it (AVX-512 BF16)."""

    def unused(self, raw: bool) -> frozenset[str]:
        return frozenset({"projection"} if raw else {"d_embedding"})
