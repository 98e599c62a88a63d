"""Settings of the MLP."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tabbench import Float, Int, NetworkConfig, load_presets


class MLPConfig(NetworkConfig):
    """Search ranges as in the T-JEPA paper, with learning rates up to those of Gorishniy et al."""

    form: Literal["rtdl", "tjepa"] = "rtdl"
    """``rtdl``: Linear-ReLU-Dropout in each layer. ``tjepa``: Linear, then Linear-ReLU-Dropout-BatchNorm in each."""
    n_layers: Annotated[int, Field(ge=1), Int(2, 16)] = 4
    """Hidden layers."""
    width: Annotated[int, Field(ge=1), Int(8, 512)] = 256
    """Units of each hidden layer."""
    widths: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Units of each hidden layer, if they differ; overrides ``n_layers`` and ``width``."""
    dropout: Annotated[float, Field(ge=0, lt=1), Float(0.0, 0.5)] = 0.1
    """Dropout after each activation."""
    categories: Literal["embedding", "one_hot"] = "embedding"
    """How categories of a raw table are encoded."""
    d_embedding: Annotated[int, Field(ge=1)] = 128
    """Length of a category's embedding."""

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of each hidden layer."""
        return self.widths or (self.width,) * self.n_layers

    def unused(self, raw: bool) -> frozenset[str]:
        return super().unused(raw) | ({"n_layers", "width"} if self.widths else set())

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, Any]]:
        return load_presets(__package__)
