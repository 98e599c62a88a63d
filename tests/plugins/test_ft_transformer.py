from typing import Any

import pytest
import rtdl_revisiting_models as rtdl
import torch
from tabbench_ft_transformer.model import FTTransformerModel

from tabbench import UsageError
from tabbench.nn import Batch, InputShape
from tabbench.nn.backbone import Network


def test_the_default_has_the_published_number_of_parameters() -> None:
    network = Network(FTTransformerModel().build(InputShape(n_numeric=8)), 1)
    assert sum(parameter.numel() for parameter in network.parameters()) == 894_913


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_predictions_and_gradients_agree_with_the_authors_package(mode: str) -> None:
    settings: dict[str, Any] = {"n_blocks": 3, "ffn_dropout": 0.0, "attention_dropout": 0.0, "residual_dropout": 0.0}
    shape = InputShape(n_numeric=4, cardinalities=(3, 5))
    network: Any = Network(FTTransformerModel(d_token=16, n_heads=4, ffn_factor=1.5, **settings).build(shape), 2)
    reference = rtdl.FTTransformer(
        n_cont_features=4,
        cat_cardinalities=[3, 5],
        d_out=2,
        d_block=16,
        attention_n_heads=4,
        ffn_d_hidden_multiplier=1.5,
        **settings,
    )
    copy_weights(network, reference)
    network.train(mode == "train")
    x, codes = torch.randn(6, 4), torch.tensor([[0, 0], [1, 1], [2, 2], [0, 3], [1, 4], [2, 0]])
    mine, theirs = network(Batch(x, codes)), reference(x, codes)
    torch.testing.assert_close(mine, theirs)
    mine.square().sum().backward()
    theirs.square().sum().backward()
    torch.testing.assert_close(network.backbone.columns.weight.grad, reference.cont_embeddings.weight.grad)
    torch.testing.assert_close(network.backbone.answer.grad, reference.cls_embedding.weight.grad)


def copy_weights(network: Any, reference: Any) -> None:
    backbone = network.backbone
    pairs = [
        (reference.cls_embedding.weight, backbone.answer),
        (reference.cont_embeddings.weight, backbone.columns.weight),
        (torch.cat([reference.cont_embeddings.bias, reference.cat_embeddings.bias]), backbone.columns.bias),
        (
            torch.cat([embedding.weight for embedding in reference.cat_embeddings.embeddings]),
            backbone.columns.categories.table.weight,
        ),
        *parameters(reference.backbone.output.normalization, backbone.end[0]),
        *parameters(reference.backbone.output.linear, network.head),
    ]
    for theirs, mine in zip(reference.backbone.blocks, backbone.blocks, strict=True):
        for old, new in {"W_q": "query", "W_k": "key", "W_v": "value", "W_out": "out"}.items():
            pairs += parameters(getattr(theirs["attention"], old), getattr(mine.attention, new))
        pairs += parameters(theirs["ffn_normalization"], mine.feed_forward_norm)
        pairs += parameters(theirs["ffn"].linear1, mine.feed_forward.first)
        pairs += parameters(theirs["ffn"].linear2, mine.feed_forward.second)
        if "attention_normalization" in theirs:
            pairs += parameters(theirs["attention_normalization"], mine.attention_norm)
    with torch.no_grad():
        for source, target in pairs:
            target.copy_(source)


def parameters(source: torch.nn.Module, target: torch.nn.Module) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(zip(source.parameters(), target.parameters(), strict=True))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_order_of_columns_does_not_matter(norm: str) -> None:
    backbone: Any = FTTransformerModel(d_token=16, n_heads=2, norm=norm).build(InputShape(n_numeric=5)).eval()
    x, order = torch.randn(3, 5), torch.tensor([4, 2, 0, 1, 3])
    before = backbone(Batch(numeric=x))
    with torch.no_grad():
        backbone.columns.weight.copy_(backbone.columns.weight[order].clone())
        backbone.columns.bias.copy_(backbone.columns.bias[order].clone())
    torch.testing.assert_close(backbone(Batch(numeric=x[:, order])), before)


def test_post_normalisation_leaves_the_answer_normalised() -> None:
    backbone: Any = FTTransformerModel(d_token=16, n_heads=2, norm="post").build(InputShape(n_numeric=5)).eval()
    tokens = backbone.blocks(torch.randn(3, 6, 16))
    assert tokens.shape == (3, 1, 16)
    torch.testing.assert_close(tokens.mean(dim=-1), torch.zeros(3, 1), atol=1e-5, rtol=0)


def test_weight_decay_spares_tokenizer_norms_and_biases() -> None:
    model = FTTransformerModel(d_token=16, n_heads=2)
    network = Network(model.build(InputShape(n_numeric=2, cardinalities=(3,))), 1)
    decayed = {name for name, _ in network.named_parameters() if model.is_decayed(name)}
    assert all(name.endswith("weight") and "norm" not in name for name in decayed)
    assert len(decayed) == 3 * 6 + 1
    assert not any("columns" in name or "answer" in name or "end" in name for name in decayed)
    assert FTTransformerModel(decay_all=True).is_decayed("backbone.answer")


def test_weight_decay_reaches_the_projection_before_the_tokenizer() -> None:
    model = FTTransformerModel(d_token=16, n_heads=2, projection="linear_flatten")
    network = Network(model.build(InputShape(tokens=(4, 8))), 1)
    decayed = {name for name, _ in network.named_parameters() if model.is_decayed(name) and "columns" in name}
    assert len(decayed) == 1
    assert all("to_numbers" in name and name.endswith("weight") for name in decayed)


def test_weight_decay_spares_the_norms_of_the_projection() -> None:
    model = FTTransformerModel(d_token=16, n_heads=2, projection="conv")
    network = Network(model.build(InputShape(tokens=(16, 16))), 1)
    norms = {name for name, module in network.named_modules() if isinstance(module, torch.nn.BatchNorm2d)}
    assert len(norms) == 2
    assert not any(model.is_decayed(f"{name}.weight") for name in norms)


def test_heads_that_do_not_divide_tokens_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="d_token=20 is not a multiple of n_heads=8"):
        FTTransformerModel(d_token=20)
