"""Settings of SCARF. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from tabbench import Choice, Config, Float, Int, load_presets


class SCARFConfig(Config):
    """Defaults are the paper's."""

    corruption: Annotated[float, Float(0.3, 0.8)] = Field(0.6, gt=0, le=1)
    """Share of a row's columns that are re-drawn, rounded down, but at least one column."""
    temperature: Annotated[float, Float(0.05, 1.0, log=True)] = Field(1.0, gt=0)
    """What similarities are divided by. At 1 the loss of 128 rows cannot fall below 2.90."""
    symmetric: Annotated[bool, Choice(False, True)] = False
    """Compare all 2N views with each other, as re-implementations do, instead of clean rows with corrupted ones."""
    width: Annotated[int, Choice(128, 256, 512)] = Field(256, ge=1)
    """Units of each encoder layer, and length of the representation."""
    depth: Annotated[int, Int(2, 5)] = Field(4, ge=1)
    """Encoder layers, each Linear and ReLU."""
    head_width: Annotated[int, Int(16, 512, log=True)] = Field(256, ge=1)
    """Units of each layer of the head, which is dropped after training."""
    head_depth: Annotated[int, Int(1, 3)] = Field(2, ge=1)
    """Layers of the head."""
    dropout: Annotated[float, Float(0.0, 0.3)] = Field(0.0, ge=0, lt=1)
    """Dropout after each encoder layer."""
    lr: Annotated[float, Float(1e-4, 1e-2, log=True)] = Field(1e-3, gt=0)
    """Learning rate of Adam."""
    weight_decay: Annotated[float, Float(1e-6, 1e-3, log=True)] = Field(0.0, ge=0)
    """Weight decay of Adam."""
    batch_size: Annotated[int, Choice(128, 256, 512)] = Field(128, ge=2)
    """Rows in a step, the negatives of each other."""
    epochs: int = Field(1000, ge=1)
    """Passes over the training rows, at most."""
    patience: int | None = Field(3, ge=1)
    """Stop after so many epochs without a better loss on validation rows; None: never."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
