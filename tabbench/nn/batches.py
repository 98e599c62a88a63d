"""Mini-batches by index: the data stay where they are, and a step gathers its rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def shuffled_batches(
    n_rows: int, batch_size: int, generator: torch.Generator, *, drop_last: bool = False, min_rows: int = 1
) -> Iterator[torch.Tensor]:
    """One epoch of index tensors on the generator's device.

    A last batch of fewer than ``min_rows`` rows is left out (BatchNorm cannot train on one row), as is any incomplete
    one with ``drop_last``; a table smaller than one batch always gives one.
    """
    order = torch.randperm(n_rows, generator=generator, device=generator.device)
    for batch in torch.split(order, batch_size):
        incomplete = len(batch) < batch_size
        if n_rows >= batch_size and incomplete and (drop_last or len(batch) < min_rows):
            return
        yield batch


def count_batches(n_rows: int, batch_size: int, *, drop_last: bool = False, min_rows: int = 1) -> int:
    """How many batches ``shuffled_batches`` gives an epoch."""
    full, rest = divmod(n_rows, batch_size)
    if full == 0:
        return 1
    return full + (0 if drop_last or rest < max(min_rows, 1) else 1)
