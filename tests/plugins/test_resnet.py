import torch
from tabbench_resnet.model import ResNetModel

from tabbench.nn import Batch, InputShape
from tabbench.nn.backbone import Network


def test_four_blocks_of_256_have_the_published_number_of_parameters() -> None:
    backbone = ResNetModel(n_blocks=4, d_block=256, hidden_factor=1.0).build(InputShape(n_numeric=8))
    assert sum(parameter.numel() for parameter in Network(backbone, 1).parameters()) == 531_457


def test_blocks_whose_second_linear_layer_is_zero_add_nothing() -> None:
    backbone = ResNetModel(n_blocks=3, d_block=16).build(InputShape(n_numeric=4)).eval()
    x = torch.randn(5, 4)
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            if "linear2" in name:
                parameter.zero_()
        linear = backbone.get_submodule("blocks.input_projection")
        torch.testing.assert_close(backbone(Batch(numeric=x)), backbone.end(linear(x)))
