"""The encoders and the predictor (paper, section "Method"), in the paper's order and with its equation numbers.

Tokens come first: ``(tokens, rows, width)``, see ``tabbench.nn.TransformerEncoder``. In shapes, ``d`` is the number of
features, ``h`` the width of the encoders, ``p`` that of the predictor, ``K`` the number of targets, ``M`` that of
contexts and ``B`` that of rows. ``alternatives.py`` has what the paper discarded.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench import Schema
from tabbench.nn import FeatureTokenizer, TokenRows, TransformerEncoder, sincos_positions
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import Masks

SINCOS_BASE = 100.0
"""Base of the encoder's fixed positions in the authors' code; their predictor uses the usual 10,000."""


class Encoder(nn.Module):
    """``f``: embedding layers, [REG] tokens, a transformer, and LayerNorm - Linear - LayerNorm at its end.

    The last normalisation bounds the scale of the targets.
    """

    make_tokenizer: ClassVar[type[FeatureTokenizer]] = FeatureTokenizer

    def __init__(self, config: TJEPAConfig, schema: Schema, missing: bool) -> None:
        super().__init__()
        h = config.model_dim_hidden
        self.n_features = schema.n_features
        self.tokenizer = self.make_tokenizer(len(schema.numeric), schema.cardinalities, h, missing)
        self.positions = make_positions(config, self.n_features, h, SINCOS_BASE)
        self.types = nn.Parameter(torch.empty(2, h))
        self.reg = nn.Parameter(torch.empty(config.n_reg, h))
        self.transformer = TransformerEncoder(
            h,
            config.model_num_layers,
            config.model_num_heads,
            config.model_dim_feedforward,
            config.model_dropout_prob,
            config.norm,
        )
        self.head = last_block(h)
        initialise_linear(self, config)
        nn.init.trunc_normal_(self.types, std=0.02)
        nn.init.uniform_(self.reg, -(h**-0.5), h**-0.5)

    def forward(self, rows: TokenRows, context: Tensor | None = None) -> Tensor:
        """The representation of the features, without that of [REG].

        Eq. 2, ``h_context = f(z^m)`` in ``(n_ctx, M * B, h)``, for the features ``context`` (n_ctx, M, B) that are not
        masked. Eq. 3, ``h_target = f(z^0)`` in ``(d, B, h)``, if there is no context and nothing is masked.
        """
        z = self.embed(rows) if context is None else self.embed_context(rows, context)
        n = len(z)
        if len(self.reg):  # never masked, and dropped from the output
            z = torch.cat([z, self.reg[:, None].expand(-1, z.shape[1], -1)])
        encoded: Tensor = self.head(self.transformer(z, keep=slice(0, n)))
        return encoded

    def embed(self, rows: TokenRows) -> Tensor:
        """``z^0`` in ``(d, B, h)``: a linear layer of each feature, plus index and feature-type embeddings."""
        z: Tensor = self.tokenizer(rows, self.of_feature())
        return z

    def embed_context(self, rows: TokenRows, context: Tensor) -> Tensor:
        """``z^m`` in ``(n_ctx, M * B, h)``, Eq. 1: masked features are dropped."""
        return select(self.embed(rows), context).flatten(1, 2)

    def of_feature(self) -> Tensor:
        """The part of a feature's token that is the same in every row, ``(d, h)``: its index and its type."""
        n_numeric = self.tokenizer.n_numeric
        numeric, categorical = self.types[:1], self.types[1:]
        types = [numeric.expand(n_numeric, -1), categorical.expand(self.n_features - n_numeric, -1)]
        return self.positions + torch.cat(types)


class Predictor(nn.Module):
    """``g``: predicts a target's tokens from the context's tokens and a query for each feature of the target."""

    def __init__(self, config: TJEPAConfig, n_features: int) -> None:
        super().__init__()
        h, p = config.model_dim_hidden, config.pred_embed_dim
        self.down = nn.Linear(h, p)
        self.query = nn.Parameter(torch.empty(p))
        self.positions = make_positions(config, n_features, p)
        self.transformer = TransformerEncoder(
            p,
            config.pred_num_layers,
            config.pred_num_heads,
            config.pred_dim_feedforward,
            config.pred_p_dropout,
            config.norm,
        )
        self.last = last_block(p) if config.pred_last_block else nn.Identity()
        self.norm = nn.LayerNorm(p)
        self.up = nn.Linear(p, h)
        initialise_linear(self, config)
        nn.init.trunc_normal_(self.query, std=0.02)

    def forward(self, context: Tensor, masks: Masks) -> Tensor:
        """``g(h_context, m_k)`` in ``(n_tgt, M, K, B, h)``, for all pairs of a context and a target in one pass."""
        n_tgt, n_targets, n_rows = masks.target.shape
        n_contexts = masks.context.shape[1]
        known = self.down(context).unflatten(1, (n_contexts, n_rows)) + self.context_positions(masks)
        asked = F.embedding(masks.target, self.positions) + self.query
        sequence = torch.cat(
            [
                known[:, :, None].expand(-1, -1, n_targets, -1, -1),
                asked[:, None].expand(-1, n_contexts, -1, -1, -1),
            ]
        ).flatten(1, 3)
        answered = self.last(self.transformer(sequence, keep=slice(len(known), None)))
        predicted: Tensor = self.up(self.norm(answered))
        return predicted.view(n_tgt, n_contexts, n_targets, n_rows, -1)

    def context_positions(self, masks: Masks) -> Tensor:
        """Positions of the context's tokens, ``(n_ctx, M, B, p)``."""
        return F.embedding(masks.context, self.positions)


def select(tokens: Tensor, features: Tensor) -> Tensor:
    """Eq. 1 and Eq. 4: tokens ``(n, N, B, h)`` of the features ``(n, N, B)``, from those of all, ``(d, B, h)``."""
    d, n_rows, h = tokens.shape
    n_masks = features.shape[1]
    return tokens[:, None].expand(d, n_masks, n_rows, h).gather(0, features[..., None].expand(-1, -1, -1, h))


def last_block(width: int) -> nn.Module:
    """LayerNorm - Linear - LayerNorm, as at the end of the encoder in the authors' code."""
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.LayerNorm(width))


def make_positions(config: TJEPAConfig, n: int, width: int, base: float = 10_000.0) -> nn.Parameter:
    """Index embeddings ``(n, width)``; fixed ones are parameters that do not learn."""
    if config.positions == "sincos":
        return nn.Parameter(sincos_positions(n, width, base), requires_grad=False)
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(n, width), std=0.02))


def initialise_linear(network: nn.Module, config: TJEPAConfig) -> None:
    """Truncated normal weights and zero biases; ``init = reference`` leaves attention's input to Xavier."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            if config.init == "reference" and name.endswith("attention.input"):
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
