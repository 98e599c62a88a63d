"""A network without its head, and with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from tabbench.nn.inputs import Tensors

Decay = Callable[[str], bool]
"""Whether weight decay applies to the parameter of a ``Network`` that goes by a name."""


class Backbone(nn.Module):
    """A network without its head: takes a ``Batch``, returns hidden vectors ``(rows, out_features)``."""

    out_features: int

    def row_bytes(self, device: str | torch.device) -> int:
        """Bytes per row that a training step on ``device`` holds: batches that do not fit are split.

        0, the default, means too little to matter, as for networks without attention.
        """
        return 0


class Network(nn.Module):
    """A backbone, optionally in mixed bfloat16 precision, and a linear layer on top of it in float32."""

    def __init__(self, backbone: Backbone, n_outputs: int, bf16: bool = False) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.out_features, n_outputs)
        self.bf16 = bf16

    def forward(self, batch: Tensors) -> Tensor:
        device = self.head.weight.device.type
        with torch.autocast(device, torch.bfloat16) if self.bf16 else nullcontext():
            hidden: Tensor = self.backbone(batch)
        output: Tensor = self.head(hidden.float())
        return output
