"""The hand-written blocks of a transformer layer, beside the same written in plain PyTorch."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor

from tabbench.nn import blocks, products_in
from tabbench.nn.dropout import RARE, draw_dropped

DIM, HEADS, HIDDEN = 8, 2, 12


Weights = tuple[Tensor, Tensor, Tensor, Tensor]


def weights_of(*shapes: tuple[int, ...]) -> Weights:
    generator = torch.Generator().manual_seed(1)
    a, b, c, d = (torch.randn(shape, generator=generator).mul_(0.5).requires_grad_() for shape in shapes)
    return a, b, c, d


def feed_forward_weights() -> Weights:
    return weights_of((HIDDEN, DIM), (HIDDEN,), (DIM, HIDDEN), (DIM,))


def attention_weights() -> Weights:
    return weights_of((3 * DIM, DIM), (3 * DIM,), (DIM, DIM), (DIM,))


def kept(shape: torch.Size, dropped: Tensor | None, p: float) -> Tensor:
    """The factors of dropout: 0 for the entries that were dropped."""
    factors = torch.full((shape.numel(),), 1 / (1 - p))
    if dropped is not None:
        factors[dropped] = 0
    return factors.view(shape)


def plain_feed_forward(
    x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, p: float, drops: list[Tensor]
) -> Tensor:
    hidden = F.relu(x @ w1.t() + b1)
    hidden = hidden * kept(hidden.shape, drops[0] if drops else None, p)
    out = hidden @ w2.t() + b2
    return out * kept(out.shape, drops[1] if drops else None, p)


def plain_attention(
    x: Tensor, w_in: Tensor, b_in: Tensor, w_out: Tensor, b_out: Tensor, keep: slice, p: float, drops: list[Tensor]
) -> Tensor:
    tokens, rows, dim = x.shape
    q, k, v = (x @ w_in.t() + b_in).view(tokens, rows, 3, HEADS, dim // HEADS).permute(2, 3, 4, 0, 1)
    scores = torch.einsum("hcsr,hctr->hstr", q[:, :, keep], k) * (dim // HEADS) ** -0.5
    weights = scores.softmax(2)
    weights = weights * kept(weights.shape, drops[0] if drops else None, p)
    mixed = torch.einsum("hstr,hctr->srhc", weights, v).flatten(2)
    out = mixed @ w_out.t() + b_out
    return out * kept(out.shape, drops[1] if drops else None, p)


@pytest.fixture
def drops(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The entries that are dropped, in the order in which they are drawn."""
    drawn: list[Tensor] = []

    def noted(n: int, p: float) -> Tensor:
        drawn.append(draw_dropped(n, p))
        return drawn[-1]

    monkeypatch.setattr(blocks, "draw_dropped", noted)
    return drawn


def values_and_gradients(block: Callable[[Tensor], Tensor], x: Tensor, weights: Weights) -> list[Tensor]:
    x = x.clone().requires_grad_()
    out = block(x)
    factors = torch.linspace(0.1, 1, out.numel()).view_as(out)
    return [out.detach(), *torch.autograd.grad((out * factors).sum(), [x, *weights])]


@pytest.mark.parametrize("p", [0.0, 0.04])
def test_the_feed_forward_block_is_the_plain_one_in_values_and_gradients(p: float, drops: list[Tensor]) -> None:
    x, weights = torch.randn(50, DIM, generator=torch.Generator().manual_seed(0)), feed_forward_weights()
    ours = values_and_gradients(lambda x: blocks.feed_forward(x, *weights, p), x, weights)
    assert len(drops) == (2 if p else 0)
    plain = values_and_gradients(lambda x: plain_feed_forward(x, *weights, p, drops), x, weights)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keep", [slice(None), slice(0, 3), slice(2, None)], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.04])
def test_short_attention_is_the_plain_one_in_values_and_gradients(p: float, keep: slice, drops: list[Tensor]) -> None:
    x, weights = torch.randn(5, 20, DIM, generator=torch.Generator().manual_seed(0)), attention_weights()
    ours = values_and_gradients(lambda x: blocks.short_attention(x, *weights, HEADS, keep, p), x, weights)
    assert len(drops) == (2 if p else 0)
    plain = values_and_gradients(lambda x: plain_attention(x, *weights, keep, p, drops), x, weights)
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.04])
@pytest.mark.parametrize("block", ["feed forward", "attention"])
def test_products_in_bfloat16_are_near_those_in_float32(block: str, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "draw_dropped", lambda n, p: torch.arange(0, n, 25))
    generator = torch.Generator().manual_seed(0)
    if block == "attention":
        x, weights = torch.randn(5, 20, DIM, generator=generator), attention_weights()
    else:
        x, weights = torch.randn(50, DIM, generator=generator), feed_forward_weights()

    def of(x: Tensor) -> Tensor:
        if block == "attention":
            return blocks.short_attention(x, *weights, HEADS, slice(None), p)
        return blocks.feed_forward(x, *weights, p)

    exact = values_and_gradients(of, x, weights)
    with products_in(torch.bfloat16):
        near = values_and_gradients(of, x, weights)
    for a, b in zip(near, exact, strict=True):
        assert a.dtype == torch.float32
        assert not torch.equal(a, b)
        assert (a - b).norm() < 0.02 * b.norm()


def test_attention_itself_stays_float32() -> None:
    """Projections that bfloat16 computes exactly, so that only what attention gives is rounded."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-8, 9, (5, 20, DIM), generator=generator).float()
    once = torch.eye(DIM)
    b_in = torch.rand(3 * DIM, generator=generator)
    weights = torch.cat([once, once, once]), b_in, once, torch.zeros(DIM)
    exact = blocks.short_attention(x, *weights, HEADS, slice(None), 0.0)
    with products_in(torch.bfloat16):
        near = blocks.short_attention(x, *weights, HEADS, slice(None), 0.0)
    assert (near == exact.bfloat16()).float().mean() > 0.99


def test_relu_by_bits_is_relu() -> None:
    values = torch.tensor([-3.0, -0.0, 0.0, 1e-30, 2.5, -1e-30, torch.inf, -torch.inf]).bfloat16()
    expected = values.clone().relu_()
    found = blocks._relu_(values)
    assert torch.equal(found, expected)
    gradient = torch.arange(1.0, 9.0).bfloat16()
    assert blocks._where_positive(gradient, found).tolist() == [0, 0, 0, 4, 5, 0, 7, 0]


def test_entries_are_dropped_with_their_probability_and_one_by_one() -> None:
    torch.manual_seed(0)
    n, p, draws = 500, 0.04, 400
    hits = torch.zeros(draws, n)
    for row in hits:
        row[draw_dropped(n, p)] = 1
    assert hits.mean().item() == pytest.approx(p, abs=4 * (p * (1 - p) / (n * draws)) ** 0.5)
    # The number of dropped entries has the variance of independent ones, n p (1 - p); its spread over 400 draws is 7 %.
    assert hits.sum(1).var().item() == pytest.approx(n * p * (1 - p), rel=0.25)
    assert hits.mean(0).max() < p + 6 * (p / draws) ** 0.5
    many = 4_000_000  # enough to notice that an entry may be hit twice
    share = int(draw_dropped(many, RARE).bincount().gt(0).sum()) / many
    assert share == pytest.approx(RARE, abs=4 * (RARE * (1 - RARE) / many) ** 0.5)
