"""Exponential moving averages of networks."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def ema_copy(module: AnyModule) -> AnyModule:
    """A copy with equal weights that gets no gradients and stays in evaluation mode."""
    twin = copy.deepcopy(module)
    return twin.requires_grad_(False).eval()


class EMA:
    """Keeps ``average`` an exponential moving average of ``source``: parameters and buffers, all in one operation.

    The two must have the same structure. Buffers of whole numbers (counters, indices) are copied.
    """

    def __init__(self, average: nn.Module, source: nn.Module) -> None:
        averages, sources = _tensors(average), _tensors(source)
        if [tensor.shape for tensor in averages] != [tensor.shape for tensor in sources]:
            raise ValueError("a moving average needs two networks of the same structure")
        pairs = list(zip(averages, sources, strict=True))
        self._floating = [pair for pair in pairs if pair[0].is_floating_point()]
        self._others = [pair for pair in pairs if not pair[0].is_floating_point()]

    @torch.no_grad()
    def update(self, momentum: float) -> None:
        """``average = momentum * average + (1 - momentum) * source``."""
        if self._floating:
            averages, sources = zip(*self._floating, strict=True)
            torch._foreach_lerp_(averages, sources, 1 - momentum)
        for average, source in self._others:
            average.copy_(source)


def _tensors(module: nn.Module) -> list[Tensor]:
    return [tensor.detach() for tensor in (*module.parameters(), *module.buffers())]
