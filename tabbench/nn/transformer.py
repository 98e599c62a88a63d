"""Transformer encoders for short sequences of many rows, such as the tokens of a table's features.

Sequences come first: ``(tokens, rows, dim)``, as in ``torch.nn.Transformer``. A table has few features and a batch has
many rows, so the axis that a CPU can work on in long vectors is the rows, and this layout keeps it together.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench.nn.blocks import feed_forward, short_attention
from tabbench.nn.dropout import RARE, attention, dropout

Norm = Literal["post", "pre"]

SHORT = 48
"""Up to this many tokens a CPU is faster with ``short_attention`` than with PyTorch's attention."""


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
        """Encode; with ``keep``, return only these tokens, and skip the others in the last layer."""
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
            x = self.norm1(kept + self.attention(x, keep))
            return self.norm2(x + self._feed_forward(x))  # type: ignore[no-any-return]
        x = kept + self.attention(self.norm1(x), keep)
        return x + self._feed_forward(self.norm2(x))

    def _feed_forward(self, x: Tensor) -> Tensor:
        p = self.dropout if self.training else 0.0
        flat = x.flatten(0, 1)  # in place on a view would copy it twice
        first, second = self.linear1, self.linear2
        if _suits_blocks(x, p):
            return feed_forward(flat, first.weight, first.bias, second.weight, second.bias, p).view_as(x)
        hidden = dropout(F.relu_(first(flat)), p)
        return dropout(second(hidden), p).view_as(x)


class SelfAttention(nn.Module):
    """Multi-head self-attention with one matrix for queries, keys and values; dropout of weights and of the output."""

    def __init__(self, dim: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.input = nn.Linear(dim, 3 * dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x: Tensor, keep: slice | None = None) -> Tensor:
        """Attend from the tokens ``keep`` (all, if None) to all tokens of the same row."""
        keep = slice(None) if keep is None else keep
        p = self.dropout if self.training else 0.0
        if len(x) <= SHORT and _suits_blocks(x, p):
            inside, outside = self.input, self.output
            return short_attention(x, inside.weight, inside.bias, outside.weight, outside.bias, self.heads, keep, p)
        tokens, rows, dim = x.shape
        qkv = self.input(x).view(tokens, rows, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 1, 3, 0, 4).unbind(0)
        mixed = attention(q[:, :, keep], k, v, p)
        return dropout(self.output(mixed.permute(2, 0, 1, 3).flatten(2)), p)


def _suits_blocks(x: Tensor, p: float) -> bool:
    """Whether ``blocks.py`` serves: a CPU, plain float32, few dropped entries."""
    return (
        not torch.compiler.is_compiling()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and p <= RARE
        and not torch.is_autocast_enabled("cpu")
    )
