"""Settings of FT-Transformer."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field

from tabbench import Choice, Float, Int, NetworkConfig, load_presets


class FTTransformerConfig(NetworkConfig):
    """Architecture defaults as in both papers, attention dropout as in Gorishniy et al.

    Blocks and feed-forward width are searched in the ranges of Gorishniy et al. (up to 6 blocks, as for ALOI), because
    the T-JEPA paper's 16 blocks are out of reach without a large GPU. Heads, dropouts, learning rate and weight decay
    have the wider ranges of the T-JEPA paper.
    """

    lr: Annotated[float, Field(gt=0), Float(1e-5, 1e-2, log=True)] = 1e-4
    """Learning rate of AdamW; its peak with ``schedule=cosine``."""
    weight_decay: Annotated[float, Field(ge=0), Float(1e-7, 1e-3, log=True)] = 1e-5
    """Decoupled weight decay of AdamW; tokenizer, norms and biases are exempt, see ``decay_all``."""
    decay_all: bool = False
    """Weight decay on every parameter, as in the code of the T-JEPA paper."""
    n_blocks: Annotated[int, Field(ge=1), Int(1, 6)] = 3
    """Transformer blocks."""
    d_token: Annotated[int, Field(ge=1), Int(32, 512, step=16)] = 192
    """Length of a token, a multiple of ``n_heads``."""
    n_heads: Annotated[int, Field(ge=1), Choice(2, 4, 8, 16)] = 8
    """Attention heads."""
    attention_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.5)] = 0.2
    """Dropout of attention weights."""
    ffn_factor: Annotated[float, Field(gt=0), Float(2 / 3, 8 / 3)] = 4 / 3
    """Hidden width of the feed-forward part, as a multiple of ``d_token``."""
    ffn_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.5)] = 0.1
    """Dropout inside the feed-forward part."""
    residual_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.2)] = 0.0
    """Dropout of each residual branch."""
    norm: Literal["pre", "post"] = "pre"
    """Normalisation before each part of a block, or after each sum."""
    max_numbers: Annotated[int, Field(ge=1)] = 128
    """If there are more numeric inputs, a linear layer reduces them to this many: attention is quadratic in tokens."""

    @pydantic.model_validator(mode="after")
    def _heads_divide_tokens(self) -> Self:
        if self.d_token % self.n_heads:
            raise ValueError(f"d_token={self.d_token} is not a multiple of n_heads={self.n_heads}")
        return self

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
