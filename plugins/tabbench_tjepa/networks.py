"""The three networks of T-JEPA: context encoder, target encoder, predictor (paper, "Method").

Tokens come first: ``(tokens, rows, width)``, see ``tabbench.nn.TransformerEncoder``. In shapes, ``d`` is the number of
features, ``h`` the encoders' and ``p`` the predictor's width, ``K`` the number of targets and ``M`` that of contexts.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench import Schema, UsageError
from tabbench.nn import FeatureTokenizer, TokenRows, TransformerEncoder, ema_copy, sincos_positions
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import Masks

MAX_MLP_WEIGHTS = 2**28
"""1 GiB, and four times as much with gradients and moments."""
SINCOS_BASE = 100.0
"""Of the encoder's fixed positions in the authors' code; their predictor has the usual 10,000."""


class Encoder(nn.Module):
    """``f``: embedding layers, [REG] tokens, a transformer, and LayerNorm - Linear - LayerNorm at its end.

    The last normalisation bounds the scale of what is to be predicted.
    """

    def __init__(self, config: TJEPAConfig, schema: Schema, missing: bool) -> None:
        super().__init__()
        h = config.model_dim_hidden
        self.masks_with_zeros = config.masking == "zero"
        self.n_features = schema.n_features
        self.tokenizer = FeatureTokenizer(
            len(schema.numeric), schema.cardinalities, h, missing, indicators=self.masks_with_zeros
        )
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
        self.head = nn.Sequential(nn.LayerNorm(h), nn.Linear(h, h), nn.LayerNorm(h))
        self.apply(init_linear)
        nn.init.trunc_normal_(self.types, std=0.02)
        nn.init.uniform_(self.reg, -(h**-0.5), h**-0.5)

    def forward(self, rows: TokenRows, context: Tensor | None = None) -> Tensor:
        """The representation of the features, without that of [REG].

        Args:
            rows: ``B`` rows.
            context: ``(n_ctx, M, B)``, the features that are not masked; None masks nothing.

        Returns:
            ``(d, B, h)``, or with a context ``(n_ctx, M * B, h)``, or ``(d, M * B, h)`` if masked features are set to
            zero instead of dropped.
        """
        if context is None:
            z = self._embed(rows)
        elif self.masks_with_zeros:
            z = self._embed(repeat(rows, context.shape[1]), masked_features(context, self.n_features))
        else:
            z = select(self._embed(rows), context).flatten(1, 2)
        n = len(z)
        if len(self.reg):
            z = torch.cat([z, self.reg[:, None].expand(-1, z.shape[1], -1)])
        encoded: Tensor = self.head(self.transformer(z, keep=slice(0, n)))
        return encoded

    def _embed(self, rows: TokenRows, masked: Tensor | None = None) -> Tensor:
        """Linear layer of each feature, plus index and feature-type embeddings."""
        n_numeric = self.tokenizer.n_numeric
        n_categorical = self.n_features - n_numeric
        of_feature = torch.cat([self.types[:1].expand(n_numeric, -1), self.types[1:].expand(n_categorical, -1)])
        z: Tensor = self.tokenizer(rows, self.positions + of_feature, masked)
        return z


class TransformerPredictor(nn.Module):
    """``g``: from the context's tokens, and a query for each feature of a target, the target's tokens."""

    def __init__(self, config: TJEPAConfig, n_features: int) -> None:
        super().__init__()
        h, p = config.model_dim_hidden, config.pred_embed_dim
        self.masks_with_zeros = config.masking == "zero"
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
        self.norm = nn.LayerNorm(p)
        self.up = nn.Linear(p, h)
        self.apply(init_linear)
        nn.init.trunc_normal_(self.query, std=0.02)

    def forward(self, context: Tensor, masks: Masks) -> Tensor:
        """Predictions ``(n_tgt, M, K, B, h)`` for all pairs of a context and a target in one pass."""
        n_tgt, n_targets, n_rows = masks.target.shape
        n_contexts = masks.context.shape[1]
        known = self.down(context).unflatten(1, (n_contexts, 1, n_rows))
        if self.masks_with_zeros:
            known = known + self.positions[:, None, None, None]
        else:
            known = known + F.embedding(masks.context, self.positions)[:, :, None]
        asked = (F.embedding(masks.target, self.positions) + self.query)[:, None]
        sequence = torch.cat(
            [
                known.expand(-1, -1, n_targets, -1, -1),
                asked.expand(-1, n_contexts, -1, -1, -1),
            ]
        ).flatten(1, 3)
        answered = self.transformer(sequence, keep=slice(len(known), None))
        predicted: Tensor = self.up(self.norm(answered))
        return predicted.view(n_tgt, n_contexts, n_targets, n_rows, -1)


class MLPPredictor(nn.Module):
    """The discarded alternative: one MLP per feature, each on the tokens of all features laid side by side."""

    def __init__(self, config: TJEPAConfig, n_features: int) -> None:
        super().__init__()
        h, hidden = config.model_dim_hidden, config.pred_dim_feedforward
        n_weights = n_features * (n_features + 1) * h * hidden
        if n_weights > MAX_MLP_WEIGHTS:
            raise UsageError(
                f"predictor=mlp has {n_weights / 1e9:.1f} billion weights for {n_features} features: "
                "take predictor=transformer, or a smaller model_dim_hidden or pred_dim_feedforward"
            )
        self.weight1 = nn.Parameter(torch.empty(n_features, n_features * h, hidden))
        self.bias1 = nn.Parameter(torch.zeros(n_features, 1, hidden))
        self.weight2 = nn.Parameter(torch.empty(n_features, hidden, h))
        self.bias2 = nn.Parameter(torch.zeros(n_features, 1, h))
        nn.init.trunc_normal_(self.weight1, std=0.02)
        nn.init.trunc_normal_(self.weight2, std=0.02)

    def forward(self, context: Tensor, masks: Masks) -> Tensor:
        """Predictions ``(n_tgt, M, K, B, h)``."""
        n_contexts, (_, n_targets, n_rows) = masks.context.shape[1], masks.target.shape
        flat = context.transpose(0, 1).flatten(1)
        hidden = F.relu_(flat @ self.weight1 + self.bias1)
        predicted = (hidden @ self.weight2 + self.bias2).view(len(context), n_contexts, 1, n_rows, -1)
        wanted = masks.target[:, None, :, :, None].expand(-1, n_contexts, -1, -1, predicted.shape[-1])
        return predicted.expand(-1, -1, n_targets, -1, -1).gather(0, wanted)


class TJEPANetworks(nn.Module):
    """Context encoder, target encoder and predictor. Called with rows and masks it gives the loss."""

    def __init__(self, config: TJEPAConfig, schema: Schema, missing: bool) -> None:
        super().__init__()
        self.context_encoder = Encoder(config, schema, missing)
        self.target_encoder = ema_copy(self.context_encoder)
        make_predictor = MLPPredictor if config.predictor == "mlp" else TransformerPredictor
        self.predictor = make_predictor(config, schema.n_features)

    def forward(self, rows: TokenRows, masks: Masks) -> Tensor:
        """The loss of a batch.

        The paper's is the sum of squares over a target's entries, averaged over pairs of masks. This is the mean over
        entries: the same minimiser, and a scale that depends neither on the sizes of the masks nor on h.
        """
        with torch.no_grad():
            h_target = select(self.target_encoder(rows), masks.target)
        h_context = self.context_encoder(rows, masks.context)
        predicted = self.predictor(h_context, masks)
        return F.mse_loss(predicted, h_target[:, None].expand_as(predicted))

    def train(self, mode: bool = True) -> TJEPANetworks:
        """The target encoder has no training mode: targets have no dropout."""
        super().train(mode)
        self.target_encoder.eval()
        return self


def make_positions(config: TJEPAConfig, n: int, width: int, base: float = 10_000.0) -> nn.Parameter:
    """Index embeddings ``(n, width)``; fixed ones are parameters that do not learn."""
    if config.positions == "sincos":
        return nn.Parameter(sincos_positions(n, width, base), requires_grad=False)
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(n, width), std=0.02))


def init_linear(module: nn.Module) -> None:
    """Truncated normal weights and zero biases."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


def select(tokens: Tensor, features: Tensor) -> Tensor:
    """Tokens ``(n, N, B, h)`` of the features ``(n, N, B)``, from tokens ``(d, B, h)`` of all features."""
    d, n_rows, h = tokens.shape
    n_masks = features.shape[1]
    return tokens[:, None].expand(d, n_masks, n_rows, h).gather(0, features[..., None].expand(-1, -1, -1, h))


def masked_features(context: Tensor, d: int) -> Tensor:
    """``(d, M * B)``: 0 for the features that a context keeps, 1 for the others."""
    masked = torch.ones(d, *context.shape[1:], device=context.device)
    return masked.scatter_(0, context, 0.0).flatten(1)


def repeat(rows: TokenRows, times: int) -> TokenRows:
    """The rows, ``times`` times one behind the other."""
    return TokenRows(rows.numeric.repeat(times, 1), rows.missing.repeat(times, 1), rows.categorical.repeat(times, 1))
