"""DCNv2 as in "Revisiting deep learning models for tabular data": stacked or parallel, full-rank cross layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabbench.nn import Backbone, Batch, Dropout, FlatColumns, InputShape, NetworkModel
from tabbench_dcnv2.config import DCNv2Config


class CrossLayers(nn.Module):
    """``x <- dropout(x0 * (W x + b)) + x``, layer by layer: polynomials of the input up to degree ``n_layers + 1``."""

    def __init__(self, width: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(n_layers))
        self.dropout = Dropout(dropout)

    def forward(self, start: Tensor) -> Tensor:
        x = start
        for layer in self.layers:
            x = self.dropout(start * layer(x)) + x
        return x


class DCNv2(Backbone):
    """A linear layer to ``width``, cross layers, deep layers."""

    def __init__(self, columns: FlatColumns, config: DCNv2Config) -> None:
        super().__init__()
        self.columns = columns
        self.first = nn.Linear(columns.out_features, config.width)
        self.cross = CrossLayers(config.width, config.n_cross, config.cross_dropout)
        deep: list[nn.Module] = []
        for _ in range(config.n_deep):
            deep += [nn.Linear(config.width, config.width), nn.ReLU(), Dropout(config.hidden_dropout)]
        self.deep = nn.Sequential(*deep)
        self.stacked = config.form == "stacked"
        self.out_features = config.width if self.stacked else 2 * config.width

    def forward(self, batch: Batch) -> Tensor:
        x = self.first(self.columns(batch))
        crossed: Tensor = self.cross(x)
        if self.stacked:
            deep: Tensor = self.deep(crossed)
            return deep
        return torch.cat([crossed, self.deep(x)], dim=1)


class DCNv2Model(NetworkModel):
    """Deep and cross network."""

    Config = DCNv2Config

    def build(self, shape: InputShape) -> DCNv2:
        config: DCNv2Config = self.config
        return DCNv2(FlatColumns(shape, d_embedding=config.d_embedding, projection=config.projection), config)
