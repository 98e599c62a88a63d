"""Settings of AutoInt."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

import pydantic
from pydantic import Field

from tabbench import Float, Int, NetworkConfig, load_presets


class AutoIntConfig(NetworkConfig):
    """Architecture defaults and search ranges as in the T-JEPA paper; two heads, as in its search (8 untuned)."""

    lr: Annotated[float, Field(gt=0), Float(1e-5, 1e-2, log=True)] = 3e-4
    """Learning rate of AdamW; its peak with ``schedule=cosine``."""
    weight_decay: Annotated[float, Field(ge=0), Float(1e-7, 1e-3, log=True)] = 1e-5
    """Decoupled weight decay of AdamW."""
    n_layers: Annotated[int, Field(ge=1), Int(1, 8)] = 3
    """Attention layers."""
    d_token: Annotated[int, Field(ge=1), Int(2, 256, step=2)] = 192
    """Length of a token, a multiple of ``n_heads``."""
    n_heads: Annotated[int, Field(ge=1)] = 2
    """Attention heads; two divide every width of the search."""
    attention_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.12)] = 0.1
    """Dropout of attention weights."""
    residual_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.12)] = 0.1
    """Dropout of the attention output."""
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
