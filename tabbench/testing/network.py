"""A small downstream network whose backbone a joint method can train."""

from torch import Tensor, nn

from tabbench.config import NetworkConfig
from tabbench.nn import Backbone, Batch, FlatColumns, InputShape, NetworkModel


class SmallBackbone(Backbone):
    """One hidden layer."""

    out_features = 16

    def __init__(self, columns: FlatColumns) -> None:
        super().__init__()
        self.columns = columns
        self.layer = nn.Sequential(nn.Linear(columns.out_features, self.out_features), nn.ReLU())

    def forward(self, batch: Batch) -> Tensor:
        hidden: Tensor = self.layer(self.columns(batch))
        return hidden


class SmallNetwork(NetworkModel):
    """The smallest model with a backbone."""

    Config = NetworkConfig

    def build(self, shape: InputShape) -> SmallBackbone:
        return SmallBackbone(FlatColumns(shape, d_embedding=8))
