"""ResNet of "Revisiting deep learning models for tabular data", from the authors' package."""

from __future__ import annotations

import rtdl_revisiting_models as rtdl
from torch import Tensor, nn

from tabbench.nn import Backbone, Batch, Dropout, FlatColumns, InputShape, NetworkModel
from tabbench_resnet.config import ResNetConfig


class ResNet(Backbone):
    """A linear layer, residual blocks, and the BatchNorm-ReLU that the head expects."""

    def __init__(self, columns: FlatColumns, config: ResNetConfig) -> None:
        super().__init__()
        self.columns = columns
        self.blocks: rtdl.ResNet = rtdl.ResNet(
            d_in=columns.out_features,
            d_out=None,
            n_blocks=config.n_blocks,
            d_block=config.d_block,
            d_hidden_multiplier=config.hidden_factor,
            dropout1=config.hidden_dropout,
            dropout2=config.residual_dropout,
        )
        for block in self.blocks.blocks:  # equivalent, but faster on a CPU
            block.dropout1, block.dropout2 = Dropout(config.hidden_dropout), Dropout(config.residual_dropout)
        self.end = nn.Sequential(nn.BatchNorm1d(config.d_block), nn.ReLU())
        self.out_features = config.d_block

    def forward(self, batch: Batch) -> Tensor:
        hidden: Tensor = self.end(self.blocks(self.columns(batch)))
        return hidden


class ResNetModel(NetworkModel):
    """Residual blocks on the vector of all columns."""

    Config = ResNetConfig

    def build(self, shape: InputShape) -> ResNet:
        config: ResNetConfig = self.config
        d_embedding = config.d_embedding if config.categories == "embedding" else None
        return ResNet(FlatColumns(shape, d_embedding=d_embedding, projection=config.projection), config)
