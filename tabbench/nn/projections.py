"""From a token representation (rows, d, h) to d numbers per row, trained together with the model (T-JEPA, 2024).

The five projections of the T-JEPA paper, and ``tokens_direct``, which gives the tokens to the model as they are.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn

from tabbench.config import ProjectionName

FLATTEN_LIMIT = 8192
"""Up to this many numbers per row ``auto`` is ``linear_flatten``; beyond, its d * d * h weights outgrow the model."""
MAX_WEIGHTS = 2**22
"""Weights, at most, of a linear map from all tokens that is wider than the paper's."""


class LinearPerFeature(nn.Module):
    """Each token has its own linear map to one number."""

    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(h)  # as nn.Linear(h, 1)
        self.weight = nn.Parameter(torch.empty(d, h).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(d).uniform_(-bound, bound))

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.einsum("ndh,dh->nd", tokens, self.weight) + self.bias


class MaxPool(nn.Module):
    """The largest channel of each token."""

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens.amax(dim=-1)


class MeanPool(nn.Module):
    """The mean over the channels of each token."""

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens.mean(dim=-1)


def linear_flatten(d: int, h: int) -> nn.Module:
    """One linear map from all tokens to d numbers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(d * h, d))


def conv(d: int, h: int) -> nn.Module:
    """Two small convolutions over the (d, h) plane; ``linear_flatten`` where the plane is too small for them."""
    a, b = _conv_size(d), _conv_size(h)
    if a < 1 or b < 1:
        return linear_flatten(d, h)
    layers: dict[str, nn.Module] = {"plane": nn.Unflatten(1, (1, d))}
    for i, (before, after) in enumerate([(1, 3), (3, 1)]):
        layers |= {
            f"conv_{i}": nn.Conv2d(before, after, 3),
            f"relu_{i}": nn.ReLU(),
            f"norm_{i}": nn.BatchNorm2d(after),  # a model may exempt norms from weight decay, by their names
            f"pool_{i}": nn.MaxPool2d(2),
        }
    return nn.Sequential(OrderedDict(layers, flat=nn.Flatten(), out=nn.Linear(a * b, d)))


def make_projection(name: ProjectionName, d: int, h: int) -> nn.Module:
    """The projection called ``name`` for tokens (rows, d, h): a module that returns (rows, d).

    ``auto`` (for networks of tokens; others see ``make_wide_projection``) is ``linear_flatten``, which the paper's
    tuning chose most often, unless a row has more than 8,192 numbers: then it is ``linear_per_feature``.
    ``tokens_direct`` is handled by the models: here it flattens the tokens to (rows, d * h).
    """
    if name == "auto":
        name = "linear_flatten" if d * h <= FLATTEN_LIMIT else "linear_per_feature"
    if name == "linear_flatten":
        return linear_flatten(d, h)
    if name == "linear_per_feature":
        return LinearPerFeature(d, h)
    if name == "conv":
        return conv(d, h)
    if name == "tokens_direct":
        return nn.Flatten()
    return MaxPool() if name == "max_pool" else MeanPool()


def make_wide_projection(d: int, h: int, max_width: int) -> tuple[nn.Module, int]:
    """What networks that read one vector do with tokens (rows, d, h) unless told otherwise, and its width.

    Flattened tokens keep everything. Above ``max_width`` numbers, one linear map reduces them to as many as 4 million
    weights allow. If that would be fewer than d numbers, each token has its own linear map to one number.
    """
    if d * h <= max_width:
        return nn.Flatten(), d * h
    width = min(MAX_WEIGHTS // (d * h), max_width)
    if width < d:
        return LinearPerFeature(d, h), d
    return nn.Sequential(nn.Flatten(), nn.Linear(d * h, width)), width


def _conv_size(length: int) -> int:
    """What two rounds of a 3-wide convolution and a pooling by two leave of ``length``."""
    for _ in range(2):
        length = (length - 2) // 2
    return length
