"""Transformer encoders for short sequences of many rows, such as the tokens of a table's features.

Sequences come first: ``(tokens, rows, dim)``, as in ``torch.nn.Transformer``. A table has few features and a batch has
many rows, so the axis that a CPU can work on in long vectors is the rows, and this layout keeps it together.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

Norm = Literal["post", "pre"]

SHORT = 48
"""Up to this many tokens a CPU is faster with ``_ShortAttention`` than with PyTorch's attention."""


class TransformerEncoder(nn.Module):
    """A stack of self-attention and feed-forward blocks, ``(tokens, rows, dim)`` to the same.

    Dropout acts, as in ``torch.nn.TransformerEncoderLayer``, on attention weights, on hidden units and on what a block
    adds; with 0 no dropout operation runs at all.

    Args:
        dim: width of a token, a multiple of ``heads``.
        layers: number of layers.
        heads: number of attention heads.
        dim_feedforward: hidden units of the feed-forward blocks (ReLU).
        dropout: probability of dropping.
        norm: layer normalisation after each block's sum (``post``) or before each block (``pre``).
    """

    def __init__(
        self, dim: int, layers: int, heads: int, dim_feedforward: int, dropout: float = 0.0, norm: Norm = "post"
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"a width of {dim} cannot be split among {heads} heads")
        self.layers = nn.ModuleList(TransformerLayer(dim, heads, dim_feedforward, dropout, norm) for _ in range(layers))

    def forward(self, x: Tensor, keep: slice | None = None) -> Tensor:
        """Encode; with ``keep``, give only these tokens, and spare the last layer the work on the others."""
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            x = layer(x, keep if i == last else None)
        return x


class TransformerLayer(nn.Module):
    """Self-attention, then a feed-forward block, each added to its input."""

    def __init__(self, dim: int, heads: int, dim_feedforward: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.attention = SelfAttention(dim, heads, dropout)
        self.linear1 = nn.Linear(dim, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.dropout = dropout
        self.norm = norm

    def forward(self, x: Tensor, keep: slice | None = None) -> Tensor:
        kept = x if keep is None else x[keep]
        if self.norm == "post":
            x = self.norm1(kept + self._drop(self.attention(x, keep)))
            return self.norm2(x + self._drop(self._feed_forward(x)))  # type: ignore[no-any-return]
        x = kept + self._drop(self.attention(self.norm1(x), keep))
        return x + self._drop(self._feed_forward(self.norm2(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        hidden = self._drop(F.relu_(self.linear1(x.flatten(0, 1))))  # flat: in place on a view would copy it twice
        return self.linear2(hidden).view_as(x)  # type: ignore[no-any-return]

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout and self.training else x


class SelfAttention(nn.Module):
    """Multi-head self-attention with one matrix for queries, keys and values."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.input = nn.Linear(dim, 3 * dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x: Tensor, keep: slice | None = None) -> Tensor:
        """Attend from the tokens ``keep`` (all, if None) to all tokens of the same row."""
        keep = slice(None) if keep is None else keep
        dropout = self.dropout if self.training else 0.0
        if _suits_short_attention(x, dropout):
            mixed: Tensor = _ShortAttention.apply(  # type: ignore[no-untyped-call]
                x, self.input.weight, self.input.bias, self.output.weight, self.output.bias, self.heads, keep
            )
            return mixed
        tokens, rows, dim = x.shape
        qkv = self.input(x).view(tokens, rows, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 1, 3, 0, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q[:, :, keep], k, v, dropout_p=dropout)
        return self.output(mixed.permute(2, 0, 1, 3).flatten(2))  # type: ignore[no-any-return]


def _suits_short_attention(x: Tensor, dropout: float) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and len(x) <= SHORT
        and not dropout
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
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
    ) -> Tensor:
        tokens, rows, dim = x.shape
        flat = x.reshape(-1, dim)
        qkv = torch.addmm(b_in[:, None], w_in, flat.t()).view(3, heads, dim // heads, tokens, rows)
        q, k, v = qkv.unbind(0)
        q = q[:, :, keep]
        scores = _outer_sum(q, k).mul_((dim // heads) ** -0.5)
        weights = torch.softmax(scores, 2)
        mixed = _weighted_sum(weights, v, torch.empty(q.shape, device=x.device))
        flat_mixed = mixed.view(dim, -1)
        ctx.save_for_backward(flat, qkv, weights, flat_mixed, w_in, w_out)
        ctx.keep = keep
        return torch.addmm(b_out, flat_mixed.t(), w_out.t()).view(-1, rows, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        flat, qkv, weights, flat_mixed, w_in, w_out = ctx.saved_tensors
        _, heads, channels, tokens, rows = qkv.shape
        dim = heads * channels
        q, k, v = qkv.unbind(0)
        q = q[:, :, ctx.keep]
        grad = grad.reshape(-1, dim)
        g_mixed = torch.mm(w_out.t(), grad.t()).view(heads, channels, -1, rows)
        g_weights = _outer_sum(g_mixed, v)
        g_scores = torch._softmax_backward_data(g_weights, weights, 2, weights.dtype).mul_(channels**-0.5)
        g_qkv = torch.empty_like(qkv)
        g_q, g_k, g_v = g_qkv.unbind(0)
        if q.shape[2] < tokens:
            g_q.zero_()
        _weighted_sum(g_scores, k, g_q[:, :, ctx.keep])
        _weighted_sum(g_scores.transpose(1, 2), q, g_k)
        _weighted_sum(weights.transpose(1, 2), g_mixed, g_v)
        flat_g_qkv = g_qkv.view(3 * dim, -1)
        return (
            torch.mm(flat_g_qkv.t(), w_in).view(tokens, rows, dim),
            torch.mm(flat_g_qkv, flat),
            flat_g_qkv.sum(1),
            torch.mm(grad.t(), flat_mixed.t()),
            grad.sum(0),
            None,
            None,
        )


def _outer_sum(a: Tensor, b: Tensor) -> Tensor:
    """``out[h, s, t, r] = sum over channels c of a[h, c, s, r] * b[h, c, t, r]``."""
    out = a[:, 0, :, None] * b[:, 0, None]
    for c in range(1, a.shape[1]):
        out.addcmul_(a[:, c, :, None], b[:, c, None])
    return out


def _weighted_sum(weights: Tensor, values: Tensor, out: Tensor) -> Tensor:
    """``out[h, c, s, r] = sum over tokens t of weights[h, s, t, r] * values[h, c, t, r]``."""
    torch.mul(weights[:, None, :, 0], values[:, :, 0, None], out=out)
    for t in range(1, values.shape[2]):
        out.addcmul_(weights[:, None, :, t], values[:, :, t, None])
    return out
