"""Bound memory: gradients of a batch in parts, and large arrays as files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAPPED_BYTES = 1 << 30
"""A larger array is a temporary memory-mapped file; where the memory is known, one above a quarter of it."""


def parts(n: int, size: int) -> Iterator[slice]:
    """``range(n)`` in parts of nearly equal length, none longer than ``size``."""
    count = max(-(-n // size), 1)
    for i in range(count):
        yield slice(i * n // count, (i + 1) * n // count)


def backward_in_parts(loss: Callable[[slice], Tensor], n: int, size: int) -> Tensor:
    """Gradients of a mean loss over ``n`` rows, at most ``size`` rows at a time; returns the loss, detached.

    The gradients add up to those of the whole batch. ``loss`` gives the mean over the rows of a slice.
    """
    total: Tensor | None = None
    for part in parts(n, size):
        share = loss(part) * ((part.stop - part.start) / n)
        share.backward()
        total = share.detach() if total is None else total + share.detach()
    assert total is not None
    return total


def empty_array(shape: tuple[int, ...], memory: int | None, folder: Path | None = None) -> NDArray[np.float32]:
    """A float32 array in memory, or in a temporary file that is removed with the array.

    Args:
        shape: of the array.
        memory: bytes that the job may use, None if that is unknown: an array may take a quarter of them.
        folder: where the file goes; the system's folder for temporary files may itself be in memory.
    """
    if np.prod(shape, dtype=np.int64) * 4 <= (MAPPED_BYTES if memory is None else memory // 4):
        return np.empty(shape, dtype=np.float32)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)


def device_memory(device: str, memory: int | None) -> int | None:
    """Bytes for data and activations: what is free on a GPU, otherwise the job's limit; None if there is none."""
    return torch.cuda.mem_get_info(device)[0] if torch.device(device).type == "cuda" else memory
