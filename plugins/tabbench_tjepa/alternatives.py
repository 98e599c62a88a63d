"""What the paper tried and discarded, because it collapsed (appendix "Alternative Strategies").

Zero masking (``masking = "zero"``, Eq. 6) keeps every feature: a masked one is set to 0, and an indicator says so. With
it, one MLP per feature can be the predictor (``predictor = "mlp"``, Eq. 7).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench import UsageError
from tabbench.nn import FeatureTokenizer, TokenRows
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import Masks
from tabbench_tjepa.networks import Encoder, Predictor

MAX_MLP_WEIGHTS = 2**28
"""These weights take 1 GiB, or 4 GiB with gradients and moments."""


class ZeroMaskingTokenizer(FeatureTokenizer):
    """A tokenizer that can hide values: the linear layers of Eq. 6, ``Linear(e_j + 1, h)``."""

    def __init__(self, n_numeric: int, cardinalities: tuple[int, ...], dim: int, missing: bool) -> None:
        super().__init__(n_numeric, cardinalities, dim, missing)
        self.indicators = nn.Parameter(torch.empty(self.n_features, dim).uniform_(-(dim**-0.5), dim**-0.5))

    def hide(self, tokens: Tensor, added: Tensor, masked: Tensor) -> Tensor:
        """Change ``tokens`` as if the features ``masked`` (1 in ``(features, rows)``) were 0, with the indicator set.

        A token is linear in its feature's code. With a code of 0, only the part that is the same in every row is left.
        """
        hidden = (self.bias + added + self.indicators)[:, None]
        return torch.where(masked[..., None].bool(), hidden, tokens)


class ZeroMaskingEncoder(Encoder):
    """Eq. 6: a context of all d features, in which masked features are 0."""

    tokenizer: ZeroMaskingTokenizer
    make_tokenizer = ZeroMaskingTokenizer

    def embed_context(self, rows: TokenRows, context: Tensor) -> Tensor:
        n_contexts = context.shape[1]
        tokens = self.embed(rows).repeat(1, n_contexts, 1)
        return self.tokenizer.hide(tokens, self.of_feature(), masked_features(context, self.n_features))


class ZeroMaskingPredictor(Predictor):
    """The transformer on all d context tokens: each has the position of its own feature."""

    def context_positions(self, masks: Masks) -> Tensor:
        return self.positions[:, None, None]


class MLPPredictor(nn.Module):
    """Eq. 7: one MLP per feature, each on the tokens of all features laid side by side."""

    def __init__(self, config: TJEPAConfig, n_features: int) -> None:
        super().__init__()
        h, hidden = config.model_dim_hidden, config.pred_dim_feedforward
        n_weights = n_features * (n_features + 1) * h * hidden
        if n_weights > MAX_MLP_WEIGHTS:
            raise UsageError(
                f"predictor=mlp has {n_weights / 1e9:.1f} billion weights for {n_features} features: "
                "use predictor=transformer, or a smaller model_dim_hidden or pred_dim_feedforward"
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


def masked_features(context: Tensor, d: int) -> Tensor:
    """``(d, M * B)``: 0 for the features that a context keeps, 1 for the others."""
    masked = torch.ones(d, *context.shape[1:], device=context.device)
    return masked.scatter_(0, context, 0.0).flatten(1)


def make_encoder_class(config: TJEPAConfig) -> type[Encoder]:
    """The encoder that ``masking`` asks for."""
    return ZeroMaskingEncoder if config.masking == "zero" else Encoder


def make_predictor(config: TJEPAConfig, n_features: int) -> nn.Module:
    """The predictor that ``predictor`` and ``masking`` ask for."""
    if config.predictor == "mlp":
        return MLPPredictor(config, n_features)
    return (ZeroMaskingPredictor if config.masking == "zero" else Predictor)(config, n_features)
