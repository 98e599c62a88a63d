"""Settings of BinRecon. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Choice, Config, Float, Int, load_presets


class BinReconConfig(Config):
    """The paper's defaults, except for a tenth of its epochs at ten times its learning rate, to suit a CPU.

    The published 1,000 epochs at 1e-4 are the preset ``paper``.
    """

    loss: Annotated[Literal["recon", "xent"], Choice("recon", "xent")] = "recon"
    """``recon``: bin indices are numbers, with squared error. ``xent``: they are classes, with cross-entropy."""
    n_bins: Annotated[int, Choice(2, 5, 10, 20, 50, 100)] = Field(10, ge=2)
    """Maximum quantile bins of a numeric column (T)."""
    corruption: Annotated[Literal["none", "mask", "shuffle"], Choice("none", "mask", "shuffle")] = "none"
    """What to put in place of selected input entries: nothing, the column's centre, or another row's value."""
    corruption_rate: Annotated[float, Choice(0.1, 0.2, 0.3)] = Field(0.2, ge=0, le=1)
    """Probability that an entry is selected."""
    depth: Annotated[int, Int(1, 5)] = Field(1, ge=0)
    """Hidden blocks of the encoder, and of the decoder."""
    width: Annotated[int, Choice(128, 256, 512, 1024)] = Field(128, ge=1)
    """Units of the hidden blocks, and size of the representation."""
    dropout: Annotated[float, Float(0.0, 0.3)] = Field(0.1, ge=0, lt=1)
    """Dropout after each hidden block."""
    lr: Annotated[float, Float(1e-4, 1e-2, log=True)] = Field(1e-3, gt=0)
    """Initial learning rate of AdamW; cosine decay to 0."""
    weight_decay: Annotated[float, Float(1e-6, 1e-3, log=True)] = Field(1e-5, ge=0)
    """Weight decay of AdamW, on weights only."""
    batch_size: int | None = Field(None, ge=1)
    """Rows per step; None: 64 to 1,024 depending on the number of training rows, as published. An incomplete last
    batch is dropped."""
    epochs: Annotated[int, Choice(100, 300, 1000)] = Field(100, ge=0)
    """Maximum passes over the training rows."""
    patience: int | None = Field(None, ge=1)
    """Stop after this many epochs without a better loss on validation rows; None: never, as in the paper."""
    scaling: Literal["standard", "quantile"] = "standard"
    """Scaling of input numbers: z-scores, or ranks mapped to a normal distribution. Targets do not depend on it."""
    categories: Literal["onehot", "ordinal"] = "onehot"
    """Input categories: one-hot, or the code as a number as in the official code."""
    official_bins: bool = False
    """Bin like the official code: the top two bins are merged, and columns of at most 20 values are categories."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
