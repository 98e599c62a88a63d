import pytest
import torch
from tabbench_mlp.model import MLPModel

from tabbench.nn import Batch, InputShape
from tabbench.nn.backbone import Network


def count_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("form, parameters", [("tjepa", 201_473), ("rtdl", 199_937)])
def test_four_layers_of_256_have_the_published_number_of_parameters(form: str, parameters: int) -> None:
    backbone = MLPModel(form=form, n_layers=4, width=256).build(InputShape(n_numeric=8))
    assert count_parameters(Network(backbone, 1)) == parameters


def test_the_rtdl_form_agrees_with_the_authors_package() -> None:
    import rtdl_revisiting_models as rtdl

    backbone = MLPModel(n_layers=3, width=16, dropout=0.0).build(InputShape(n_numeric=4))
    reference = rtdl.MLP(d_in=4, d_out=None, n_blocks=3, d_block=16, dropout=0.0)
    for mine, theirs in zip(backbone.parameters(), reference.parameters(), strict=True):
        theirs.data.copy_(mine.data)
    x = torch.randn(5, 4)
    torch.testing.assert_close(backbone(Batch(numeric=x)), reference(x))


def test_the_tjepa_form_starts_with_a_linear_layer_without_activation() -> None:
    backbone = MLPModel(form="tjepa", n_layers=1, width=4).build(InputShape(n_numeric=2))
    x = torch.randn(3, 2)
    one, other = backbone(Batch(numeric=x)), backbone(Batch(numeric=-x))
    bias = backbone(Batch(numeric=torch.zeros(1, 2)))
    torch.testing.assert_close(one - bias, bias - other)


def test_widths_of_single_layers_can_be_given() -> None:
    backbone = MLPModel(widths=(42, 503, 111)).build(InputShape(n_numeric=6))
    assert backbone.out_features == 111
    assert [m.out_features for m in backbone.modules() if isinstance(m, torch.nn.Linear)] == [42, 503, 111]


@pytest.mark.parametrize("categories, inputs", [("embedding", 6 + 3 * 5), ("one_hot", 6 + 4 + 5 + 6)])
def test_categories_are_embedded_or_one_hot(categories: str, inputs: int) -> None:
    model = MLPModel(categories=categories, d_embedding=5)
    backbone = model.build(InputShape(n_numeric=6, cardinalities=(4, 5, 6)))
    first = next(module for module in backbone.modules() if isinstance(module, torch.nn.Linear))
    assert first.in_features == inputs
