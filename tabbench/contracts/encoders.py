"""An encoder that goes on learning: what fine-tuning asks of a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tabbench.values import Table

if TYPE_CHECKING:
    from torch import Tensor, nn


class TrainableEncoder(NamedTuple):
    """The encoder of a method, as a network that a downstream model can train together with itself."""

    module: nn.Module
    """``module(*batch)`` takes some rows of what ``prepare`` gives, and returns ``(rows, k)`` or ``(rows, d, h)``.

    In evaluation mode that is what ``encode`` returns for these rows. A module may say how much memory a row takes in
    training: ``row_bytes(device)``, as a ``tabbench.nn.Backbone`` does.
    """
    prepare: Callable[[Table], tuple[Tensor, ...]]
    """Rows as tensors on the CPU, rows first, after everything that is not learned: scales, codes."""
    is_backbone: bool = False
    """The module is the model's own backbone: only the head comes on top of it."""
