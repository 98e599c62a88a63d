"""T-JEPA's encoder as a network that continues to learn, with labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tabbench.nn import TokenRows
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.memory import encoder_layer_bytes
from tabbench_tjepa.networks import Encoder
from tabbench_tjepa.whitening import Whitening


class TokenNetwork(nn.Module):
    """Computes the tokens ``(rows, d, h)`` of rows given as the three tensors of ``TokenRows``; flat if whitened.

    The whitening stays as it was fitted.
    """

    def __init__(self, encoder: Encoder, config: TJEPAConfig, whitening: Whitening | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self.config = config
        self.whitening = whitening

    def forward(self, numeric: Tensor, missing: Tensor, categorical: Tensor) -> Tensor:
        tokens: Tensor = self.encoder(TokenRows(numeric, missing, categorical)).transpose(0, 1)
        return tokens if self.whitening is None else self.whitening(tokens)

    def row_bytes(self, device: str | torch.device) -> int:
        """Bytes that the transformer keeps per row for the backward pass."""
        return self.config.model_num_layers * encoder_layer_bytes(self.config, self.encoder.n_features)
