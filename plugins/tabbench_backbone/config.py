"""Settings of both objectives. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Config, Float, load_presets


class BackboneConfig(Config):
    """Optimiser, learning rate, weight decay and inputs are the model's, as in the paper."""

    p: Annotated[float, Float(0.2, 0.8)] = Field(0.5, ge=0, le=1)
    """Probability that an entry is replaced by another training row's value."""
    head_width: int = Field(512, ge=1)
    """Hidden units of the head, which is discarded after pretraining."""
    epochs: int = Field(100, ge=0)
    """Maximum passes over the training rows."""
    patience: int | None = Field(10, ge=1)
    """Stop after this many epochs without a better loss on validation rows, which are corrupted once; None: never."""
    select: Literal["pretext", "probe", "finetune"] = "pretext"
    """What chooses the weights: the loss on validation rows, without labels; a linear probe; or, as in the paper, ten
    whole fine-tunings over the run."""
    lr: float | None = Field(None, gt=0)
    """Learning rate of pretraining; None: the model's."""
    batch_size: int | None = Field(None, ge=2)
    """Rows per step; None: the model's batch size."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
