"""A linear layer trained by gradient descent, so that an encoder below it can be trained with it."""

from __future__ import annotations

from torch import Tensor

from tabbench import Context, Features, PluginError
from tabbench.nn import Backbone, Batch, FlatColumns, InputShape, NetworkModel
from tabbench_linear.config import LinearHeadConfig


class Columns(Backbone):
    """The columns as inputs: one-hot categories, concatenated tokens. Only the head is learned."""

    def __init__(self, shape: InputShape) -> None:
        super().__init__()
        self.columns = FlatColumns(shape, projection="tokens_direct")
        self.out_features = self.columns.out_features

    def forward(self, batch: Batch) -> Tensor:
        columns: Tensor = self.columns(batch)
        return columns.flatten(1)


class LinearHead(NetworkModel):
    """The last layer of the other networks, on its own."""

    Config = LinearHeadConfig

    def build(self, shape: InputShape) -> Columns:
        return Columns(shape)

    def make_backbone(self, example: Features, context: Context) -> Backbone:
        raise PluginError("linear_head has no backbone: nothing below its layer is learned")
