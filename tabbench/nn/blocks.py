"""The two blocks of a transformer layer, fast on a CPU: few passes over memory, products in bfloat16 on request.

Each is one function with a gradient written by hand. Dropout of few entries is part of them: the entries are set to
zero in place, and the factor ``1 / (1 - p)`` goes into a weight matrix, so that it costs no pass over the activations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor

from tabbench.nn.dropout import draw_dropped

_products: ContextVar[torch.dtype] = ContextVar("products", default=torch.float32)


@contextmanager
def products_in(dtype: torch.dtype) -> Iterator[None]:
    """In this context, products with weight matrices are computed in ``dtype``; all else stays float32."""
    token = _products.set(dtype)
    try:
        yield
    finally:
        _products.reset(token)


def feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, dropout: float) -> Tensor:
    """``dropout(dropout(relu(x W1 + b1)) W2 + b2)`` of ``(n, dim)``."""
    return _FeedForward.apply(x, w1, b1, w2, b2, dropout, _products.get())  # type: ignore[no-any-return, no-untyped-call]


def short_attention(
    x: Tensor, w_in: Tensor, b_in: Tensor, w_out: Tensor, b_out: Tensor, heads: int, keep: slice, dropout: float
) -> Tensor:
    """Multi-head self-attention of ``(tokens, rows, dim)`` with its projections, and dropout of weights and output."""
    return _ShortAttention.apply(  # type: ignore[no-any-return, no-untyped-call]
        x, w_in, b_in, w_out, b_out, heads, keep, dropout, _products.get()
    )


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, p: float, dtype: torch.dtype
    ) -> Tensor:
        x, w1, b1, w2 = (tensor.to(dtype) for tensor in (x, w1, b1, w2))
        hidden = _relu_(F.linear(x, w1, b1))
        _drop_(hidden, p)
        # Two dropouts scale what comes out: that of the hidden units and that of the output.
        scale = 1 / (1 - p)
        w2 = w2 * scale**2 if p else w2
        out = _plus_bias(torch.mm(hidden, w2.t()), b2 * scale if p else b2)
        ctx.dropped = _drop_(out, p)
        ctx.scale = scale
        ctx.save_for_backward(x, hidden, w1, w2)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, hidden, w1, w2 = ctx.saved_tensors
        grad = _without(grad, ctx.dropped, x.dtype)
        # A hidden unit that was dropped is 0, as is one that ReLU cut: one mask serves both.
        g_hidden = _where_positive(torch.mm(grad, w2), hidden)
        return (
            torch.mm(g_hidden, w1).float(),
            torch.mm(g_hidden.t(), x).float(),
            _column_sums(g_hidden),
            torch.mm(grad.t(), hidden).float().mul_(ctx.scale**2),
            _column_sums(grad).mul_(ctx.scale),
            None,
            None,
        )


class _ShortAttention(torch.autograd.Function):
    """Self-attention with its two projections, in vector operations along the rows.

    One row's attention is a product of tiny matrices (five tokens, eight channels), and a batch of tiny matrix
    products spends its time on everything but multiplying. Here the rows are the innermost axis: the input projection
    gives queries, keys and values as ``(heads, channels, tokens, rows)``, and the sums over channels and over tokens
    are short loops of multiply-adds, each over all rows, heads and pairs of tokens at once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w_in: Tensor,
        b_in: Tensor,
        w_out: Tensor,
        b_out: Tensor,
        heads: int,
        keep: slice,
        p: float,
        dtype: torch.dtype,
    ) -> Tensor:
        tokens, rows, dim = x.shape
        flat, w_in, w_out = x.reshape(-1, dim).to(dtype), w_in.to(dtype), w_out.to(dtype)
        qkv = _plus_bias(torch.mm(w_in, flat.t()), b_in[:, None]).view(3, heads, dim // heads, tokens, rows)
        q, k, v = qkv.unbind(0)
        q = q[:, :, keep]
        scores = _outer_sum(q, k).mul_((dim // heads) ** -0.5)
        weights = torch.softmax(scores, 2)
        used = weights.clone() if p else weights
        dropped_weights = _drop_(used, p)
        mixed = _weighted_sum(used, v, torch.empty(q.shape, device=x.device))
        flat_mixed = mixed.view(dim, -1).to(dtype)
        scale = 1 / (1 - p)
        w_out = w_out * scale**2 if p else w_out
        out = _plus_bias(torch.mm(flat_mixed.t(), w_out.t()), b_out * scale if p else b_out)
        ctx.dropped, ctx.dropped_weights = _drop_(out, p), dropped_weights
        ctx.keep, ctx.scale = keep, scale
        ctx.save_for_backward(flat, qkv, weights, flat_mixed, w_in, w_out)
        return out.view(-1, rows, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        flat, qkv, weights, flat_mixed, w_in, w_out = ctx.saved_tensors
        _, heads, channels, tokens, rows = qkv.shape
        dim = heads * channels
        q, k, v = qkv.unbind(0)
        q = q[:, :, ctx.keep]
        grad = _without(grad.reshape(-1, dim), ctx.dropped, flat.dtype)
        g_mixed = torch.mm(w_out.t(), grad.t()).float().view(heads, channels, -1, rows)
        g_weights = _outer_sum(g_mixed, v)
        used = weights
        if ctx.dropped_weights is not None:
            g_weights.view(-1).index_fill_(0, ctx.dropped_weights, 0.0)
            used = weights.clone()
            used.view(-1).index_fill_(0, ctx.dropped_weights, 0.0)
        g_scores = torch._softmax_backward_data(g_weights, weights, 2, weights.dtype).mul_(channels**-0.5)
        g_qkv = torch.empty_like(qkv)
        g_q, g_k, g_v = g_qkv.unbind(0)
        if q.shape[2] < tokens:
            g_q.zero_()
        _weighted_sum(g_scores, k, g_q[:, :, ctx.keep])
        _weighted_sum(g_scores.transpose(1, 2), q, g_k)
        _weighted_sum(used.transpose(1, 2), g_mixed, g_v)
        flat_g_qkv = g_qkv.view(3 * dim, -1)
        g_products = flat_g_qkv.to(flat.dtype)
        return (
            torch.mm(g_products.t(), w_in).float().view(tokens, rows, dim),
            torch.mm(g_products, flat).float(),
            flat_g_qkv.sum(1),
            torch.mm(grad.t(), flat_mixed.t()).float().mul_(ctx.scale**2),
            _column_sums(grad).mul_(ctx.scale),
            None,
            None,
            None,
            None,
        )


def _drop_(x: Tensor, p: float) -> Tensor | None:
    """Set entries of a contiguous ``x`` to zero with probability ``p``; which ones, None without dropout."""
    if not p:
        return None
    dropped = draw_dropped(x.numel(), p)
    x.view(-1).index_fill_(0, dropped, 0.0)
    return dropped


def _without(grad: Tensor, dropped: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The gradient in ``dtype``, zero where entries were dropped; the one given stays as it is."""
    if dropped is None:
        return grad.to(dtype)
    copied = grad.to(dtype, copy=True, memory_format=torch.contiguous_format)
    copied.view(-1).index_fill_(0, dropped, 0.0)
    return copied


def _plus_bias(product: Tensor, bias: Tensor) -> Tensor:
    """In float32, in the same pass that brings a product back to it."""
    return product.add_(bias) if product.dtype == torch.float32 else torch.add(product, bias)


def _relu_(x: Tensor) -> Tensor:
    """In place. A CPU computes with bfloat16 number by number, but its bits are those of a signed whole number."""
    if x.dtype == torch.bfloat16:
        x.view(torch.int16).clamp_min_(0)
        return x
    return x.relu_()


def _where_positive(grad: Tensor, x: Tensor) -> Tensor:
    """``grad`` where ``x``, which is not negative, is above 0; else 0."""
    if x.dtype == torch.bfloat16:
        grad.view(torch.int16).mul_(x.view(torch.int16).clamp_max(1))
        return grad
    return torch.ops.aten.threshold_backward(grad, x, 0)  # type: ignore[no-any-return]


def _column_sums(x: Tensor) -> Tensor:
    if x.dtype == torch.bfloat16:  # as a product: sums of bfloat16 are slow
        return torch.mm(x.new_ones(1, len(x)), x)[0].float()
    return x.sum(0)


def _outer_sum(a: Tensor, b: Tensor) -> Tensor:
    """``out[h, s, t, r] = sum over channels c of a[h, c, s, r] * b[h, c, t, r]``."""
    left, right = a.unsqueeze(3).unbind(1), b.unsqueeze(2).unbind(1)
    out = left[0] * right[0]
    for x, y in zip(left[1:], right[1:], strict=True):
        out.addcmul_(x, y)
    return out


def _weighted_sum(weights: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """``out[h, c, s, r] = sum over tokens t of weights[h, s, t, r] * values[h, c, t, r]``."""
    left, right = weights.unsqueeze(1).unbind(3), values.unsqueeze(3).unbind(2)
    torch.mul(left[0], right[0], out=out)
    for x, y in zip(left[1:], right[1:], strict=True):
        out.addcmul_(x, y)
    return out
