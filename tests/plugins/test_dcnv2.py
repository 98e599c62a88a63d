from typing import Any

import pytest
import torch
from tabbench_dcnv2.model import CrossLayers, DCNv2Model

from tabbench.nn import InputShape


def test_a_cross_layer_multiplies_by_the_input_and_adds() -> None:
    cross: Any = CrossLayers(width=2, n_layers=1, dropout=0.0)
    with torch.no_grad():
        cross.layers[0].weight.copy_(torch.eye(2))
        cross.layers[0].bias.zero_()
    assert cross(torch.tensor([[1.0, 2.0]])).tolist() == [[2.0, 6.0]]


def test_a_second_cross_layer_multiplies_by_the_first_input_again() -> None:
    cross: Any = CrossLayers(width=1, n_layers=2, dropout=0.0)
    with torch.no_grad():
        for layer in cross.layers:
            layer.weight.fill_(1.0)
            layer.bias.fill_(1.0)
    # x0 = 2: 2 * (2 + 1) + 2 = 8, then 2 * (8 + 1) + 8 = 26
    assert cross(torch.tensor([[2.0]])).tolist() == [[26.0]]


@pytest.mark.parametrize("form, hidden", [("stacked", 10), ("parallel", 20)])
def test_deep_layers_stand_behind_or_beside_the_cross_layers(form: str, hidden: int) -> None:
    backbone = DCNv2Model(form=form, width=10, n_deep=2, n_cross=3).build(InputShape(n_numeric=4))
    assert backbone.out_features == hidden
    assert sum(p.numel() for p in backbone.parameters()) == 4 * 10 + 10 + 5 * (10 * 10 + 10)
