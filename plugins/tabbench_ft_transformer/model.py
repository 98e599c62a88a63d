"""FT-Transformer of "Revisiting deep learning models for tabular data".

The authors' package has the same model with pre-normalisation only. It embeds categories column by column and runs
the last block on all tokens, although only the first is used. Here one table holds all categories, and the last block
computes only that token. The weights of the two are interchangeable, and a test relies on it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench.nn import Backbone, Batch, Dropout, InputShape, NetworkModel, TokenColumns, attention, pair_bytes
from tabbench_ft_transformer.config import FTTransformerConfig


class Attention(nn.Module):
    """Multi-head attention of ``queries`` to ``tokens``."""

    def __init__(self, d_token: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.dropout = dropout
        self.query = nn.Linear(d_token, d_token)
        self.key = nn.Linear(d_token, d_token)
        self.value = nn.Linear(d_token, d_token)
        self.out = nn.Linear(d_token, d_token)
        for linear in (self.query, self.key, self.value, self.out):
            nn.init.zeros_(linear.bias)

    def forward(self, queries: Tensor, tokens: Tensor) -> Tensor:
        mixed = attention(
            self._split(self.query(queries)),
            self._split(self.key(tokens)),
            self._split(self.value(tokens)),
            self.dropout if self.training else 0.0,
        )
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, tokens: Tensor) -> Tensor:
        rows, n_tokens, d_token = tokens.shape
        return tokens.view(rows, n_tokens, self.n_heads, d_token // self.n_heads).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear layers with ReGLU between them."""

    def __init__(self, d_token: int, d_hidden: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(d_token, 2 * d_hidden)
        self.dropout = Dropout(dropout)
        self.second = nn.Linear(d_hidden, d_token)

    def forward(self, tokens: Tensor) -> Tensor:
        values, gates = self.first(tokens).chunk(2, dim=-1)
        out: Tensor = self.second(self.dropout(values * F.relu(gates)))
        return out


class Block(nn.Module):
    """Attention and feed-forward, each added to its input; computes the first ``n_queries`` tokens, or all."""

    def __init__(self, config: FTTransformerConfig, first: bool, n_queries: int | None) -> None:
        super().__init__()
        self.post = config.norm == "post"
        self.n_queries = n_queries
        self.attention = Attention(config.d_token, config.n_heads, config.attention_dropout)
        # As published, the first block has no pre-normalisation: with it, the model is clearly worse.
        skip = first and not self.post
        self.attention_norm = nn.Identity() if skip else nn.LayerNorm(config.d_token)
        self.feed_forward = FeedForward(config.d_token, int(config.d_token * config.ffn_factor), config.ffn_dropout)
        self.feed_forward_norm = nn.LayerNorm(config.d_token)
        self.dropout = Dropout(config.residual_dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        kept = tokens[:, : self.n_queries]
        out: Tensor
        if self.post:
            kept = self.attention_norm(kept + self.dropout(self.attention(kept, tokens)))
            out = self.feed_forward_norm(kept + self.dropout(self.feed_forward(kept)))
            return out
        normed = self.attention_norm(tokens)
        kept = kept + self.dropout(self.attention(normed[:, : self.n_queries], normed))
        out = kept + self.dropout(self.feed_forward(self.feed_forward_norm(kept)))
        return out


class FTTransformer(Backbone):
    """An output token, one token per column, transformer blocks; returns the output token."""

    def __init__(self, columns: TokenColumns, config: FTTransformerConfig) -> None:
        super().__init__()
        bound = config.d_token**-0.5
        self.columns = columns
        self.answer = nn.Parameter(torch.empty(config.d_token).uniform_(-bound, bound))
        self.blocks = nn.Sequential(
            *(
                Block(config, first=i == 0, n_queries=1 if i == config.n_blocks - 1 else None)
                for i in range(config.n_blocks)
            )
        )
        self.end = nn.Sequential(
            nn.Identity() if config.norm == "post" else nn.LayerNorm(config.d_token),
            nn.ReLU(),
        )
        self.out_features = config.d_token
        self.config = config

    def row_bytes(self, device: str | torch.device) -> int:
        config, n_tokens = self.config, self.columns.n_tokens + 1
        hidden = int(config.d_token * config.ffn_factor)
        of_pair = config.n_heads * pair_bytes(config.attention_dropout, device)
        block = 4 * (8 * config.d_token + 5 * hidden) + n_tokens * of_pair
        last = 4 * 4 * config.d_token  # keys and values of all tokens, the rest for one only
        return n_tokens * ((config.n_blocks - 1) * block + last)

    def forward(self, batch: Batch) -> Tensor:
        tokens = self.columns(batch)
        answer = self.answer.expand(len(tokens), 1, -1)
        hidden: Tensor = self.end(self.blocks(torch.cat([answer, tokens], dim=1))[:, 0])
        return hidden


class FTTransformerModel(NetworkModel):
    """A transformer over columns."""

    Config = FTTransformerConfig

    def build(self, shape: InputShape) -> FTTransformer:
        config: FTTransformerConfig = self.config
        columns = TokenColumns(
            shape, config.d_token, bias=True, projection=config.projection, max_numbers=config.max_numbers
        )
        return FTTransformer(columns, config)

    def is_decayed(self, name: str) -> bool:
        """All but tokenizer, norms and biases, unless ``decay_all``. A projection to numbers is not the tokenizer."""
        tokenizer = name.startswith(("backbone.columns", "backbone.answer")) and "to_numbers" not in name
        exempt = name.endswith("bias") or "norm" in name or tokenizer
        return bool(self.config.decay_all) or not (exempt or name.startswith("backbone.end"))
