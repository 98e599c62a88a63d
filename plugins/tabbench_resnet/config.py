"""Settings of the ResNet."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Float, Int, NetworkConfig, load_presets


class ResNetConfig(NetworkConfig):
    """Search ranges as in the T-JEPA paper, with learning rates up to those of Gorishniy et al."""

    n_blocks: Annotated[int, Field(ge=1), Int(1, 8)] = 4
    """Residual blocks."""
    d_block: Annotated[int, Field(ge=1), Int(64, 512)] = 256
    """Width between blocks."""
    hidden_factor: Annotated[float, Field(gt=0), Float(1.0, 4.0)] = 1.0
    """Width inside a block, as a multiple of ``d_block``."""
    hidden_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.5)] = 0.1
    """Dropout inside a block, after the activation."""
    residual_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.5)] = 0.1
    """Dropout at the end of a block."""
    categories: Literal["embedding", "one_hot"] = "embedding"
    """How categories of a raw table are encoded."""
    d_embedding: Annotated[int, Field(ge=1)] = 128
    """Length of a category's embedding."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
