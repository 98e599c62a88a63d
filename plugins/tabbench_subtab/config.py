"""Settings of SubTab. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Choice, Config, Float, load_presets


class SubTabConfig(Config):
    """The paper's MNIST settings, except for the sizes of layers and batches, which suit a CPU.

    Layers of 1,024 units and batches of 32 rows, as published, cost ten times as much and are in the presets.
    """

    n_subsets: Annotated[int, Choice(4, 6)] = Field(4, ge=1)
    """Subsets of columns (K). Tables with fewer than 2K encoded columns get fewer, with two columns each."""
    overlap: float = Field(0.75, ge=0, le=1)
    """Share of a subset's own columns that it also takes from its neighbour."""
    width: Annotated[int, Choice(128, 256, 512, 1024)] = Field(256, ge=1)
    """Units of the hidden layers of encoder and decoder."""
    latent: Annotated[int, Choice(128, 256, 512, 1024)] = Field(256, ge=1)
    """Size of a subset's latent vector."""
    depth: Annotated[int, Choice(2, 3)] = Field(2, ge=1)
    """Linear layers of the encoder, the last of them without activation; the decoder is its mirror image."""
    shallow: bool = False
    """One layer with activation and a linear decoder, as published for MNIST, whatever ``depth`` and ``width``."""
    dropout: Annotated[float, Float(0.0, 0.3)] = Field(0.0, ge=0, lt=1)
    """Dropout after each hidden layer."""
    noise: Annotated[Literal["swap", "gaussian", "zero"], Choice("swap", "gaussian")] = "swap"
    """What replaces a selected entry: another row's value from the batch, added noise, or zero."""
    p_m: Annotated[float, Choice(0.1, 0.2, 0.3)] = Field(0.3, ge=0, le=1)
    """Probability that an entry of a subset gets noise."""
    sigma: float = Field(0.15, ge=0)
    """Standard deviation of Gaussian noise."""
    contrastive: bool = True
    """Contrast the projections of a row's subsets with those of other rows. Off is better for fewer than 16 columns."""
    distance: bool = True
    """Pull the projections of a row's subsets together."""
    normalize: bool = True
    """Normalise projections to unit length."""
    tau: float = Field(0.1, ge=0.03)
    """Temperature of the contrastive term; float32 exponentials underflow below 0.03."""
    reconstruct_subset: bool = False
    """Reconstruct only the subset instead of the whole row."""
    aggregation: Annotated[Literal["mean", "sum", "max", "min", "concat"], Choice("mean", "sum", "max")] = "mean"
    """How a row's latent vectors become its representation."""
    lr: Annotated[float, Float(1e-4, 1e-2, log=True)] = Field(1e-3, gt=0)
    """Learning rate of AdamW."""
    lr_decay: float = Field(1.0, gt=0, le=1)
    """Decay of the learning rate per epoch; the authors' option is 0.99."""
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay of AdamW."""
    batch_size: int = Field(256, ge=1)
    """Rows per step; an incomplete last batch is dropped."""
    epochs: int = Field(15, ge=0)
    """Maximum passes over the training rows."""
    patience: int | None = Field(None, ge=1)
    """Stop after this many epochs without a better loss on validation rows; None: never, as in the paper."""
    scaling: Literal["minmax", "standard", "quantile"] = "minmax"
    """Scaling of numbers: as in the paper for MNIST, z-scores as for Adult, or quantiles."""
    official_tail: bool = False
    """Drop the last columns if the number of subsets does not divide that of columns, as in the official code."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
