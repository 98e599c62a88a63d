"""Settings of PTaRL. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Choice, Config, Float, Int, load_presets

Weight = Annotated[float, Choice(0.0, 0.1, 0.25, 0.5, 1.0)]


class PTaRLConfig(Config):
    """The paper's defaults, except for a learning rate of 1e-3 instead of 1e-4, which needs a tenth of the epochs.

    The published one is in the preset ``paper``.
    """

    n_prototypes: Annotated[int | None, Choice(None, 10, 20, 50)] = Field(None, ge=2)
    """Prototypes (K); None: the logarithm to base 2 of the number of columns, rounded up. Predictions from the space
    of K prototypes have K - 1 dimensions: many classes need more prototypes, or ``head_input="hidden"``."""
    head_input: Literal["pspace", "hidden"] = "pspace"
    """What predictions are made from: the paper's combination of prototypes, or the hidden vector as in the released
    code, where prototypes are only a regulariser."""
    w_proj: Weight = Field(0.25, ge=0)
    """Weight of the projection term."""
    w_div: Weight = Field(0.25, ge=0)
    """Weight of the diversity term."""
    w_orth: Weight = Field(0.25, ge=0)
    """Weight of the orthogonality term."""
    released_losses: bool = False
    """Terms as in the released code: cosine similarity instead of distance, and half the orthogonality penalty."""
    restarts: int = Field(3, ge=0)
    """Restarts of the second stage from other weights if all rows collapse to one point in the space of prototypes,
    which the paper's terms do not prevent."""
    projector_layers: int = Field(3, ge=0)
    """Hidden layers of the network that gives the coordinates."""
    projector_width: int = Field(256, ge=1)
    """Units of each of them."""
    projector_dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout in it."""
    lr: Annotated[float, Float(1e-5, 1e-2, log=True)] = Field(1e-3, gt=0)
    """Learning rate of AdamW, in both stages."""
    weight_decay: Annotated[float, Float(1e-6, 1e-3, log=True)] = Field(1e-5, ge=0)
    """Weight decay of AdamW."""
    batch_size: int | None = Field(None, ge=2)
    """Rows per step; None: 1/64 of the training rows, from 32 to the paper's 128."""
    epochs: int = Field(200, ge=1)
    """Maximum passes over the training rows in each of the two stages."""
    patience: int | None = Field(20, ge=1)
    """End a stage after this many epochs without a better validation metric; None: never."""
    scaling: Literal["quantile", "standard", "minmax"] = "quantile"
    """Scale of numbers."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)


class PTaRLRepresentationConfig(PTaRLConfig):
    """As for PTaRL, with the MLP backbone of the released code, and what to export from it."""

    layers: Annotated[int, Int(1, 4)] = Field(3, ge=1)
    """Hidden layers of the backbone."""
    width: Annotated[int, Int(64, 512, step=64)] = Field(256, ge=1)
    """Units of each of them, and length of a prototype."""
    dropout: Annotated[float, Float(0.0, 0.5)] = Field(0.1, ge=0, lt=1)
    """Dropout after each of them."""
    d_embedding: Annotated[int, Int(64, 128, step=32)] = Field(128, ge=1)
    """Length of a category's embedding."""
    export: Literal["h", "p", "r"] = "h"
    """The representation: hidden vector, combination of prototypes, or coordinates."""
