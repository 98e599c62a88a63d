"""Fake tensors on a CUDA device that is not there: they know their device, and refuse to mix two of them.

Only what needs no CUDA build can run: forward passes without gradients, and BatchNorm in evaluation mode.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Indexing(TorchFunctionMode):
    """Python's indexing of a CUDA tensor asks for a CUDA build, even of a fake one; the operations below it do not."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.unflatten:  # a method in Python, whose super() a compiler cannot follow from here
            return torch.ops.aten.unflatten.int(*args)
        if func is not torch.Tensor.__getitem__:
            return func(*args, **(kwargs or {}))
        x, key = args
        key = key if isinstance(key, tuple) else (key,)
        dim = 0
        for i, item in enumerate(key):
            if item is Ellipsis:
                dim = x.ndim - sum(later is not None for later in key[i + 1 :])
            elif item is None:
                x, dim = x.unsqueeze(dim), dim + 1
            elif isinstance(item, slice):
                x, dim = torch.ops.aten.slice.Tensor(x, dim, item.start, item.stop), dim + 1
            elif isinstance(item, int):
                x = x.select(dim, item)
            else:
                x, dim = x.index_select(dim, item), dim + 1
        return x


def move(module: torch.nn.Module, device: str) -> None:
    """What ``module.to(device)`` does on a machine that has one: parameters and buffers move, nothing else."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            moved = torch.empty(parameter.shape, device=device)
            part.register_parameter(name, torch.nn.Parameter(moved, parameter.requires_grad))
        for name, buffer in part.named_buffers(recurse=False):
            part.register_buffer(name, torch.empty(buffer.shape, dtype=buffer.dtype, device=device))
