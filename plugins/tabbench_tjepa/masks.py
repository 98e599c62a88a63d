"""Which features are context and which are targets (paper, "Masking strategy")."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tabbench import DataError


class Masks(NamedTuple):
    """Indices of the features that each mask keeps. No target shares a feature with any context of its row."""

    context: Tensor
    """(n_ctx, M, rows)"""
    target: Tensor
    """(n_tgt, K, rows)"""

    def rows(self, part: slice) -> Masks:
        """The masks of some of the rows."""
        return Masks(self.context[..., part], self.target[..., part])


class MaskSizes:
    """How many features the contexts and the targets of a batch keep.

    Both numbers are uniform between a lowest and a highest share of the ``d`` features, and are drawn again until
    context and target fit side by side. The shares are made to fit small tables: at least one feature each, and
    the lowest sizes together are at most ``d``. With ``most``, each number takes at most that many, evenly spaced
    values.
    """

    def __init__(
        self,
        d: int,
        context_shares: tuple[float, float],
        target_shares: tuple[float, float],
        most: int | None = None,
    ) -> None:
        if d < 2:
            raise DataError(f"T-JEPA predicts features from other features: a table with n_features={d} is too narrow")
        self.d = d
        low_context = min(max(round(d * context_shares[0]), 1), d - 1)
        low_target = min(max(round(d * target_shares[0]), 1), d - low_context)
        # Leave out sizes that fit with no size of the other kind, so that at least half of the draws are accepted.
        self.context = (low_context, min(max(round(d * context_shares[1]), low_context), d - low_target))
        self.target = (low_target, min(max(round(d * target_shares[1]), low_target), d - low_context))
        self.choices = [spaced(*bounds, most) for bounds in (self.context, self.target)]

    def draw(self, generator: torch.Generator) -> tuple[int, int]:
        """Draw ``n_ctx`` and ``n_tgt``; the generator is on the CPU, because sizes become shapes."""
        while True:
            n_ctx, n_tgt = (sizes[int(torch.randint(len(sizes), (), generator=generator))] for sizes in self.choices)
            if n_ctx + n_tgt <= self.d:
                return n_ctx, n_tgt


def spaced(low: int, high: int, most: int | None) -> list[int]:
    """The whole numbers from ``low`` to ``high``, or at most ``most`` of them, evenly spaced."""
    n = high - low + 1
    if most is None or n <= most:
        return list(range(low, high + 1))
    return [low + round(i * (n - 1) / (most - 1)) for i in range(most)]


def draw_masks(
    n_rows: int,
    d: int,
    sizes: tuple[int, int],
    n_contexts: int,
    n_targets: int,
    device: torch.device | str,
    generator: torch.Generator | None,
) -> Masks:
    """Draw the masks of ``n_rows`` rows at once: one permutation of the features per row, and draws from its two parts.

    The first part of the permutation holds every context, the rest every target. With one context the first part is
    that context; with several, each is drawn from ``n_contexts * n_ctx`` features, or as many as leave room for a
    target. So contexts may overlap each other, and targets may too, but a context never overlaps a target.
    """
    n_ctx, n_tgt = sizes
    order = torch.rand(d, n_rows, device=device, generator=generator).argsort(0)
    held = min(n_contexts * n_ctx, d - n_tgt)
    return Masks(
        order[:n_ctx, None] if n_contexts == 1 else _subsets(order[:held], n_ctx, n_contexts, generator),
        _subsets(order[held:], n_tgt, n_targets, generator),
    )


def _subsets(pool: Tensor, size: int, n: int, generator: torch.Generator | None) -> Tensor:
    """``n`` independent random subsets of each column of ``pool``, ``(size, n, rows)``."""
    m, rows = pool.shape
    ranks = torch.rand(m, n, rows, device=pool.device, generator=generator).argsort(0)[:size]
    return pool[:, None].expand(m, n, rows).gather(0, ranks)
