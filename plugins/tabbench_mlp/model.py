"""MLP in two forms: from the T-JEPA paper and from "Revisiting deep learning models for tabular data"."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from tabbench.nn import Backbone, Batch, Dropout, FlatColumns, InputShape, NetworkModel
from tabbench_mlp.config import MLPConfig


class MLP(Backbone):
    """Hidden layers without the output layer."""

    def __init__(self, columns: FlatColumns, config: MLPConfig) -> None:
        super().__init__()
        widths = config.hidden
        layers: list[nn.Module] = [nn.Linear(columns.out_features, widths[0])]
        if config.form == "tjepa":
            for before, after in pairwise(widths):
                layers += [nn.Linear(before, after), nn.ReLU(), Dropout(config.dropout), nn.BatchNorm1d(after)]
        else:
            layers += [nn.ReLU(), Dropout(config.dropout)]
            for before, after in pairwise(widths):
                layers += [nn.Linear(before, after), nn.ReLU(), Dropout(config.dropout)]
        self.columns = columns
        self.layers = nn.Sequential(*layers)
        self.out_features = widths[-1]

    def forward(self, batch: Batch) -> Tensor:
        hidden: Tensor = self.layers(self.columns(batch))
        return hidden


class MLPModel(NetworkModel):
    """A multi-layer perceptron."""

    Config = MLPConfig

    def build(self, shape: InputShape) -> MLP:
        config: MLPConfig = self.config
        d_embedding = config.d_embedding if config.categories == "embedding" else None
        return MLP(FlatColumns(shape, d_embedding=d_embedding, projection=config.projection), config)
