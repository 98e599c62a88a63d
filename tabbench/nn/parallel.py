"""Data-parallel pretraining over the processes started by ``torchrun``: equal weights, each with a share of a batch.

A process that has initialised ``torch.distributed`` takes part; there is nothing else to set. Every process draws the
same random numbers and takes its share of the rows, so that training equals that of one process, up to the order of
sums.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def n_processes() -> int:
    """Processes that train together; 1 outside of ``torchrun``."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_first_process() -> bool:
    """Whether this process writes checkpoints and reports."""
    return n_processes() == 1 or dist.get_rank() == 0


def own_share(n_rows: int) -> slice:
    """The rows of a batch that this process works on."""
    if n_processes() == 1:
        return slice(0, n_rows)
    rank, count = dist.get_rank(), n_processes()
    return slice(rank * n_rows // count, (rank + 1) * n_rows // count)


def sum_over_processes(parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
    """Add up gradients and loss over all processes, in one message; returns the loss."""
    if n_processes() == 1:
        return loss
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    message = torch.cat([loss.detach().reshape(1), *(gradient.reshape(-1) for gradient in gradients)])
    dist.all_reduce(message)
    pieces = torch.split(message[1:], [gradient.numel() for gradient in gradients])
    torch._foreach_copy_(gradients, [piece.view_as(g) for piece, g in zip(pieces, gradients, strict=True)])
    return message[0]
