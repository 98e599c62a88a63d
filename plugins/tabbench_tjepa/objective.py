"""The loss (Eq. 5), and the target encoder that follows the context encoder (paper, "Context and Target Encoders")."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from torch import Tensor, nn

from tabbench import Schema
from tabbench.nn import EMA, TokenRows, ema_copy, linear
from tabbench_tjepa.alternatives import make_encoder_class, make_predictor
from tabbench_tjepa.config import TJEPAConfig
from tabbench_tjepa.masks import Masks
from tabbench_tjepa.networks import select


class TJEPANetworks(nn.Module):
    """Context encoder, target encoder and predictor. Called with rows and masks, it returns the loss."""

    def __init__(self, config: TJEPAConfig, schema: Schema, missing: bool) -> None:
        super().__init__()
        self.context_encoder = make_encoder_class(config)(config, schema, missing)
        self.target_encoder = ema_copy(self.context_encoder)
        self.predictor = make_predictor(config, schema.n_features)

    def forward(self, rows: TokenRows, masks: Masks) -> Tensor:
        """Eq. 5 for a batch.

        The paper's loss is the sum of squares over a target's entries, averaged over pairs of masks. This is the mean
        over entries: it has the same minimiser, and its scale depends neither on the sizes of the masks nor on h.
        """
        with torch.no_grad():
            h_target = select(self.target_encoder(rows), masks.target)  # Eq. 3, Eq. 4
        h_context = self.context_encoder(rows, masks.context)  # Eq. 1, Eq. 2
        predicted = self.predictor(h_context, masks)
        return F.mse_loss(predicted, h_target[:, None].expand_as(predicted))

    def train(self, mode: bool = True) -> TJEPANetworks:
        """The target encoder has no training mode: targets have no dropout."""
        super().train(mode)
        self.target_encoder.eval()
        return self


class Follower:
    """The target encoder's parameters, an exponential moving average of the context encoder's."""

    def __init__(self, networks: TJEPANetworks, config: TJEPAConfig) -> None:
        self.config = config
        self.average = EMA(networks.target_encoder, networks.context_encoder)

    def momentum(self, step: int, total: int) -> float:
        """Linear in the step, with the speed that ``ema_time_constants`` asks for; a frozen target never moves."""
        config = self.config
        if config.frozen_target:
            return 1.0
        momentum = linear(step, total, config.model_ema_start, config.model_ema_end)
        if config.ema_time_constants is None:
            return momentum
        last = linear(total - 1, total, config.model_ema_start, config.model_ema_end)
        by_itself = total * (1 - (config.model_ema_start + last) / 2)
        return max(1 - (1 - momentum) * config.ema_time_constants / by_itself, 0.0)

    def follow(self, step: int, total: int) -> None:
        """Move the target encoder; call this after each step."""
        if not self.config.frozen_target:
            self.average.update(self.momentum(step, total))

    def moved(self, done: int, total: int) -> float:
        """By how many time constants the target has moved: the sum of ``1 - momentum`` over the steps done."""
        return math.fsum(1 - self.momentum(step, total) for step in range(done))
