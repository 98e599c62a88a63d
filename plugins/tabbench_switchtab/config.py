"""Settings of SwitchTab. No torch here: planning a run reads this module."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tabbench import Choice, Config, Float, Int, load_presets


class SwitchTabConfig(Config):
    """Defaults follow the paper where it gives them; there is no official code.

    To suit a CPU, there are 100 epochs with early stopping instead of 1,000 without. The paper feeds rows to its
    transformer as one sequence; here a row is a sequence of feature tokens, so its code does not depend on others.
    """

    encoder: Literal["tokens", "mlp", "batch_seq"] = "tokens"
    """``tokens``: a transformer over the row's features. ``mlp``: layers with ReLU, for wide tables. ``batch_seq``: a
    transformer over the rows of a batch, as in public implementations; a row's code then depends on its neighbours,
    so never use it for a benchmark."""
    width: Annotated[int | None, Choice(32, 64, 128, 256)] = Field(None, ge=1)
    """Size of a token, or of the MLP's layers; None: 64 and 256. ``batch_seq`` is as wide as the encoded row."""
    layers: Annotated[int, Int(1, 4)] = Field(3, ge=1)
    """Layers of the encoder."""
    heads: Annotated[int, Choice(2, 4, 8)] = Field(2, ge=1)
    """Attention heads."""
    pooling: Literal["flatten", "mean"] = "flatten"
    """How tokens are passed to the decoder and the representation: concatenated, or averaged."""
    decoder_depth: Annotated[int, Int(1, 2)] = Field(1, ge=1)
    """Layers of the decoder."""
    corruption: Annotated[float, Float(0.1, 0.6)] = Field(0.3, ge=0, le=1)
    """Share of a row's features that are resampled; at least one feature."""
    lr: Annotated[float, Float(1e-5, 1e-3, log=True)] = Field(3e-4, gt=0)
    """Learning rate of RMSprop."""
    weight_decay: Annotated[float, Float(1e-6, 1e-3, log=True)] = Field(0.0, ge=0)
    """Weight decay of RMSprop."""
    batch_size: int = Field(128, ge=1)
    """Pairs of rows per step."""
    epochs: int = Field(100, ge=0)
    """Maximum passes over the training rows."""
    patience: int | None = Field(20, ge=1)
    """Stop after this many epochs without a better loss on validation rows; None: never."""
    scaling: Literal["minmax", "standard", "quantile"] = "minmax"
    """Scaling of numbers: the paper's min-max, z-scores, or quantiles, which heavy tails do not squeeze. The
    decoder follows: sigmoid for minmax, else linear."""
    export: Annotated[Literal["s", "z", "sz", "xs"], Choice("s", "z", "sz")] = "s"
    """The representation: salient part, encoder output, both, or the encoded row together with the salient part."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "SwitchTabConfig":
        if self.encoder == "tokens" and self.units % self.heads:
            raise ValueError(f"width {self.units} is not a multiple of heads {self.heads}")
        return self

    @property
    def units(self) -> int:
        """``width``, or its default for the encoder."""
        return self.width or (256 if self.encoder == "mlp" else 64)

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)


class SwitchTabSupervisedConfig(SwitchTabConfig):
    """As for SwitchTab, and the weight of the labels."""

    alpha: Annotated[float, Float(0.01, 100.0, log=True)] = Field(1.0, ge=0)
    """Weight of the label loss; 0 uses no labels."""
