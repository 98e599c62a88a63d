"""A pretrained encoder and a downstream network as one network that is trained as a whole.

Nothing is encoded in advance: batches of prepared rows go through the encoder in every step, so that memory does not
grow with the size of a representation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tabbench.config import NetworkConfig
from tabbench.contracts import TrainableEncoder
from tabbench.nn.backbone import Backbone, Decay
from tabbench.nn.inputs import Batch, Inputs, InputShape, Rows, Tensors, resident_bytes, standardise
from tabbench.values import Features, Table

STATISTICS_ROWS = 10_000
"""Maximum training rows used to standardise an encoder's outputs."""
STATISTICS = ("centre", "factor")
ENCODED_AT_ONCE = 256
"""Rows that are encoded at a time for that."""
STEEPEST = 10.0
"""An output that hardly varies is scaled by at most this multiple of the usual factor; otherwise its gradient would
drown all others."""


class EncoderInputs:
    """What ``Inputs`` are to a network on features: prepared rows, and the shape of what the encoder makes of them."""

    def __init__(self, encoder: TrainableEncoder, device: str | torch.device) -> None:
        self.encoder = encoder
        self.device = device

    def fit(self, table: Table) -> Self:
        """Learn from training rows how the outputs of the encoder, as it stands, are standardised."""
        module = self.encoder.module.to(self.device).eval()
        rows = np.linspace(0, len(table) - 1, min(len(table), STATISTICS_ROWS)).astype(int)
        outputs = self._encoded(module, table.take(rows))
        self.centre, factor = standardise(outputs)
        usual = factor[factor > 0].median() if (factor > 0).any() else torch.ones(())
        # What does not vary yet may do so later: it is not cut off.
        self.factor = torch.where(factor > 0, factor.clamp_max(STEEPEST * usual), torch.ones(()))
        return self

    @property
    def shape(self) -> InputShape:
        """The shape of what the encoder makes of a row."""
        sizes = tuple(self.factor.shape)
        return InputShape(tokens=(sizes[0], sizes[1])) if len(sizes) == 2 else InputShape(n_numeric=sizes[0])

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Nothing: the network on top has it."""
        return {}

    def set_state(self, state: dict[str, NDArray[Any]]) -> Self:
        """Restore what ``fit`` learned from the state of the network."""
        if not self.encoder.is_backbone:
            self.centre, self.factor = (torch.from_numpy(state[f"network.backbone.{name}"]) for name in STATISTICS)
        return self

    def load(self, features: Features, device: str | torch.device, memory: int | None = None) -> Rows[Tensors]:
        """Rows to take batches from, kept on the device if a table of their size fits there."""
        assert isinstance(features, Table)
        nbytes = features.numeric.nbytes + features.categorical.nbytes
        return Rows(self, features, torch.device(device), nbytes <= resident_bytes(device, memory))

    def transform(self, features: Table, device: str | torch.device = "cpu") -> Tensors:
        """Prepared rows on ``device``."""
        return tuple(tensor.to(device) for tensor in self.encoder.prepare(features))

    def _encoded(self, module: nn.Module, table: Table) -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(table), ENCODED_AT_ONCE):
            batch = self.transform(table.take(slice(start, start + ENCODED_AT_ONCE)), self.device)
            with torch.no_grad():
                yield module(*batch).cpu().numpy()


class EncoderBackbone(Backbone):
    """An encoder with a network on top; the encoder can be frozen for a while."""

    def __init__(self, encoder: nn.Module, inputs: EncoderInputs | None, body: Backbone | None, width: int) -> None:
        """``inputs`` and ``body`` are None if the encoder is the model's own backbone."""
        super().__init__()
        self.encoder = encoder
        self.body = body
        self.is_fixed = False
        self.out_features = width
        self.centre: Tensor
        self.factor: Tensor
        for name in STATISTICS:
            self.register_buffer(name, getattr(inputs, name) if inputs else None)

    def forward(self, batch: Tensors) -> Tensor:
        encoded: Tensor = self.encoder(*batch)
        if self.body is None:
            return encoded
        encoded = (encoded - self.centre) * self.factor
        hidden: Tensor = self.body(Batch(tokens=encoded) if encoded.ndim == 3 else Batch(numeric=encoded))
        return hidden

    def row_bytes(self, device: str | torch.device) -> int:
        of_encoder: Callable[[str | torch.device], int] = getattr(self.encoder, "row_bytes", lambda device: 0)
        return of_encoder(device) + (self.body.row_bytes(device) if self.body is not None else 0)

    def fix(self, is_fixed: bool) -> None:
        """Freeze the encoder, or let it learn."""
        self.is_fixed = is_fixed
        self.encoder.requires_grad_(not is_fixed)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.is_fixed:
            self.encoder.eval()
        return self


class BackboneModule(Backbone):
    """A model's own backbone, called with the tensors of a ``Batch`` that the data have."""

    def __init__(self, backbone: Backbone, shape: InputShape) -> None:
        super().__init__()
        self.backbone = backbone
        self.out_features = backbone.out_features
        self.has_numeric, self.has_categorical = bool(shape.n_numeric), bool(shape.cardinalities)

    def forward(self, *tensors: Tensor) -> Tensor:
        left = list(tensors)
        numeric = left.pop(0) if self.has_numeric else None
        hidden: Tensor = self.backbone(Batch(numeric, left.pop(0) if self.has_categorical else None))
        return hidden

    def row_bytes(self, device: str | torch.device) -> int:
        return self.backbone.row_bytes(device)


def backbone_encoder(backbone: Backbone, inputs: Inputs) -> TrainableEncoder:
    """A pretrained backbone of the model itself; ``inputs`` are those it was pretrained with."""

    def prepare(table: Table) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in inputs.transform(table) if tensor is not None)

    return TrainableEncoder(BackboneModule(backbone, inputs.shape), prepare, is_backbone=True)


def finetuning_groups(network: nn.Module, config: NetworkConfig, is_decayed: Decay) -> list[dict[str, object]]:
    """Parameters for an optimizer: the encoder's at ``encoder_lr_scale`` times the learning rate.

    Weight decay pulls weights to zero, which suits those learned from scratch. Pretrained norms and biases are spared.
    """
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if name.startswith("backbone.encoder."):
            own = name.replace("backbone.encoder.", "backbone.", 1).replace("backbone.backbone.", "backbone.", 1)
            place = config.encoder_lr_scale, parameter.ndim > 1 and is_decayed(own)
        else:
            place = 1.0, is_decayed(name.replace("backbone.body.", "backbone.", 1))
        groups.setdefault(place, []).append(parameter)
    return [
        {"params": params, "lr": config.lr * scale, "scale": scale, "weight_decay": config.weight_decay * decayed}
        for (scale, decayed), params in groups.items()
    ]
