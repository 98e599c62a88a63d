"""What devices cannot do, or do differently."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def in_double(tensor: Tensor) -> Tensor:
    """The values in double precision, on the CPU if their device (MPS) has none."""
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def generator_states(device: str) -> dict[str, Tensor]:
    """States of the global generators that initialisation and dropout on ``device`` draw from."""
    states = {"cpu": torch.get_rng_state()}
    kind = torch.device(device).type
    if kind == "cuda":
        states[kind] = torch.cuda.get_rng_state(device)
    elif kind == "mps":
        states[kind] = torch.mps.get_rng_state()
    return states


def set_generator_states(states: dict[str, Tensor], device: str) -> None:
    """Give the global generators what ``generator_states`` gave."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    if "mps" in states:
        torch.mps.set_rng_state(states["mps"])


@contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """In this context, initialisation and dropout draw from ``seed``; the global generators are then restored."""
    states = generator_states(device)
    kind = torch.device(device).type
    try:
        torch.default_generator.manual_seed(seed)
        if kind == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        elif kind == "mps":
            torch.mps.manual_seed(seed)
        yield
    finally:
        set_generator_states(states, device)
