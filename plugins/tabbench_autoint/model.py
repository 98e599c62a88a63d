"""AutoInt as in "Revisiting deep learning models for tabular data"."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench.nn import Backbone, Batch, Dropout, InputShape, NetworkModel, TokenColumns, attention, pair_bytes
from tabbench_autoint.config import AutoIntConfig


class Interaction(nn.Module):
    """``ReLU(LayerNorm(W x + dropout(attention(x))))``; attention has no output matrix."""

    def __init__(self, config: AutoIntConfig) -> None:
        super().__init__()
        d_token = config.d_token
        self.heads = config.n_heads
        self.attention_dropout = config.attention_dropout
        self.queries_keys_values = nn.Linear(d_token, 3 * d_token)
        self.residual = nn.Linear(d_token, d_token, bias=False)
        self.dropout = Dropout(config.residual_dropout)
        self.norm = nn.LayerNorm(d_token)

    def forward(self, tokens: Tensor) -> Tensor:
        rows, n_tokens, d_token = tokens.shape
        projected = self.queries_keys_values(tokens).view(rows, n_tokens, 3, self.heads, d_token // self.heads)
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        mixed = attention(queries, keys, values, self.attention_dropout if self.training else 0.0)
        mixed = mixed.transpose(1, 2).reshape(rows, n_tokens, d_token)
        return F.relu(self.norm(self.residual(tokens) + self.dropout(mixed)))


class AutoInt(Backbone):
    """One token per column, interaction layers, then all tokens concatenated."""

    def __init__(self, columns: TokenColumns, config: AutoIntConfig) -> None:
        super().__init__()
        self.columns = columns
        self.layers = nn.Sequential(*(Interaction(config) for _ in range(config.n_layers)))
        self.out_features = columns.n_tokens * config.d_token
        self.config = config

    def row_bytes(self, device: str | torch.device) -> int:
        config, n_tokens = self.config, self.columns.n_tokens
        of_pair = config.n_heads * pair_bytes(config.attention_dropout, device)
        return config.n_layers * n_tokens * (4 * 7 * config.d_token + n_tokens * of_pair)

    def forward(self, batch: Batch) -> Tensor:
        tokens: Tensor = self.layers(self.columns(batch))
        return tokens.flatten(1)


class AutoIntModel(NetworkModel):
    """Self-attention between columns."""

    Config = AutoIntConfig

    def build(self, shape: InputShape) -> AutoInt:
        config: AutoIntConfig = self.config
        columns = TokenColumns(
            shape, config.d_token, bias=False, projection=config.projection, max_numbers=config.max_numbers
        )
        return AutoInt(columns, config)
