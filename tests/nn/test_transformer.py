from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tabbench.nn import TransformerEncoder
from tabbench.nn import transformer as module


@contextmanager
def short_attention_up_to(tokens: int) -> Iterator[None]:
    before, module.SHORT = module.SHORT, tokens
    try:
        yield
    finally:
        module.SHORT = before


def random_encoder(norm: Any = "post", dropout: float = 0.0, layers: int = 2) -> TransformerEncoder:
    torch.manual_seed(0)
    return TransformerEncoder(8, layers, 2, 16, dropout, norm)


def gradients(encoder: TransformerEncoder, x: Tensor, keep: slice | None) -> list[Tensor]:
    x = x.clone().requires_grad_()
    out = encoder(x, keep)
    weights = torch.linspace(-1, 1, out.numel()).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), [x, *encoder.parameters()])]


@pytest.mark.parametrize("keep", [None, slice(0, 3), slice(2, None)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_attention_along_rows_agrees_with_pytorchs_in_values_and_gradients(norm: str, keep: slice | None) -> None:
    encoder = random_encoder(norm)
    x = torch.randn(5, 7, 8)
    with short_attention_up_to(48):
        fast = gradients(encoder, x, keep)
    with short_attention_up_to(0):
        plain = gradients(encoder, x, keep)
    for a, b in zip(fast, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_post_norm_layer_is_pytorchs_transformer_layer() -> None:
    encoder = random_encoder(layers=1)
    layer: Any = encoder.layers[0]
    theirs = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": layer.attention.input.weight,
            "self_attn.in_proj_bias": layer.attention.input.bias,
            "self_attn.out_proj.weight": layer.attention.output.weight,
            "self_attn.out_proj.bias": layer.attention.output.bias,
            **{name: value for name, value in layer.state_dict().items() if name.startswith(("linear", "norm"))},
        }
    )
    x = torch.randn(6, 4, 8)
    torch.testing.assert_close(encoder(x), theirs(x))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_kept_tokens_are_the_same_as_without_keeping(norm: str) -> None:
    encoder = random_encoder(norm)
    x = torch.randn(5, 3, 8)
    torch.testing.assert_close(encoder(x, slice(1, 4)), encoder(x)[1:4])


def test_long_sequences_take_the_other_path_with_the_same_result() -> None:
    encoder = random_encoder()
    x = torch.randn(module.SHORT + 2, 2, 8)
    out = encoder(x)
    with short_attention_up_to(len(x)):
        torch.testing.assert_close(encoder(x), out, rtol=1e-4, atol=1e-5)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects the names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def random_operations(dropout: float) -> set[str]:
    encoder = random_encoder(dropout=dropout).train()
    with Operations() as operations:
        encoder(torch.ones(3, 2, 8)).sum().backward()
    return {name for name in operations.names if "dropout" in name or "bernoulli" in name or "rand" in name}


def test_no_random_operation_runs_without_dropout() -> None:
    assert random_operations(0.0) == set()
    assert random_operations(0.1)


def test_dropout_acts_in_training_only() -> None:
    encoder = random_encoder(dropout=0.5)
    x = torch.randn(4, 3, 8)
    assert not torch.equal(encoder.train()(x), encoder(x))
    torch.testing.assert_close(encoder.eval()(x), encoder(x), rtol=0, atol=0)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="10 cannot be split among 4 heads"):
        TransformerEncoder(10, 1, 4, 16)
