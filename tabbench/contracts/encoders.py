"""A trainable encoder: what fine-tuning needs from a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tabbench.values import Table

if TYPE_CHECKING:
    from torch import Tensor, nn


class TrainableEncoder(NamedTuple):
    """A method's encoder as a network that a downstream model can fine-tune."""

    module: nn.Module
    """``module(*batch)`` takes rows of what ``prepare`` returns, and returns ``(rows, k)`` or ``(rows, d, h)``.

    In evaluation mode this equals what ``encode`` returns for these rows. A module may state how much memory a row
    takes in training: ``row_bytes(device)``, as in ``tabbench.nn.Backbone``.
    """
    prepare: Callable[[Table], tuple[Tensor, ...]]
    """Rows as tensors on the CPU, rows first, after all fixed preprocessing: scaling, codes."""
    is_backbone: bool = False
    """Whether the module is the model's own backbone, which only needs a head."""
