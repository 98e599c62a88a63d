"""Settings of VIME. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Choice, Config, Float, Int, load_presets

LONG_TRAINING = 20
"""Trainings with more epochs than this stop early by default."""


class VIMEConfig(Config):
    """Defaults are the paper's, down to the encoder: one layer as wide as its input."""

    p_m: Annotated[float, Float(0.1, 0.5)] = Field(0.3, ge=0, le=1)
    """Probability that an entry is replaced."""
    alpha: Annotated[float, Float(0.1, 5.0)] = Field(2.0, ge=0)
    """Weight of the reconstruction term."""
    width: Annotated[int | None, Choice(None, 64, 128, 256, 512)] = Field(None, ge=1)
    """Units of each encoder layer; None: the number of encoded input columns, at least 8.

    On narrow tables these are too few to detect swaps: the paper's choice suits wide tables."""
    depth: int = Field(1, ge=1)
    """Encoder layers, each Linear and ReLU."""
    lr: Annotated[float, Float(1e-4, 1e-2, log=True)] = Field(1e-3, gt=0)
    """Learning rate of RMSprop (decay 0.9)."""
    batch_size: int = Field(128, ge=1)
    """Rows per step."""
    epochs: Annotated[int, Choice(10, 50, 100, 200)] = Field(10, ge=0)
    """Maximum passes over the training rows."""
    patience: Annotated[int, Field(ge=1)] | Literal["auto"] | None = "auto"
    """Stop after this many epochs without a better loss on validation rows, which are corrupted once; None: never.
    ``auto``: 10 if there are more than 20 epochs, else never."""
    scaling: Literal["minmax", "standard", "quantile"] = "minmax"
    """Scaling of numbers: the paper's min-max, z-scores, or quantiles, which heavy tails do not squeeze. The
    feature head follows: sigmoid for minmax, else linear."""
    corrupt_level: Literal["feature", "encoded"] = "feature"
    """Replace original features, or each one-hot column on its own as in the official code."""
    static_corruption: bool = False
    """Draw the corruption once before training, as in the official code, instead of once per epoch."""

    @property
    def stops_after(self) -> int | None:
        """``patience``, or what ``auto`` stands for."""
        if self.patience == "auto":
            return 10 if self.epochs > LONG_TRAINING else None
        return self.patience

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)


class VIMESemiConfig(VIMEConfig):
    """Both stages. The predictor has the learning rate, batch size and architecture of the downstream model."""

    beta: Annotated[float, Float(0.1, 10.0, log=True)] = Field(1.0, ge=0)
    """Weight of the consistency term; 0 trains just a predictor on the frozen encoder."""
    copies: Annotated[int, Int(2, 20)] = Field(3, ge=2)
    """Corrupted copies K of each row."""
    semi_epochs: int = Field(50, ge=1)
    """Maximum passes of the second stage over all rows."""
    semi_patience: int | None = Field(8, ge=1)
    """Stop after this many epochs without a better loss on labelled validation rows; None: never."""
