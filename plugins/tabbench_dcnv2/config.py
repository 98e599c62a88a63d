"""Settings of DCNv2."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Choice, Float, Int, NetworkConfig, load_presets


class DCNv2Config(NetworkConfig):
    """Architecture defaults and search ranges as in the T-JEPA paper."""

    lr: Annotated[float, Field(gt=0), Float(1e-5, 1e-2, log=True)] = 3e-4
    """Learning rate of AdamW; its peak with ``schedule=cosine``."""
    weight_decay: Annotated[float, Field(ge=0), Float(1e-7, 1e-3, log=True)] = 1e-5
    """Decoupled weight decay of AdamW."""
    width: Annotated[int, Field(ge=1), Int(32, 768)] = 128
    """Width of the cross and of the deep layers."""
    n_deep: Annotated[int, Field(ge=1), Int(1, 8)] = 7
    """Deep layers."""
    n_cross: Annotated[int, Field(ge=1), Int(1, 10)] = 3
    """Cross layers."""
    form: Annotated[Literal["stacked", "parallel"], Choice("stacked", "parallel")] = "stacked"
    """Deep layers after the cross layers, or in parallel."""
    hidden_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.3)] = 0.1
    """Dropout of the deep layers."""
    cross_dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.3)] = 0.1
    """Dropout of a cross layer's output."""
    d_embedding: Annotated[int, Field(ge=1), Int(2, 128)] = 128
    """Length of a category's embedding."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
