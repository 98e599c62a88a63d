"""Modules to named arrays and back, for ``SSLMethod.get_state`` and ``set_state``."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray


def module_state(module: torch.nn.Module, prefix: str) -> dict[str, NDArray[Any]]:
    """Parameters and buffers of ``module`` as numpy arrays named ``prefix.<name>``."""
    return {f"{prefix}.{name}": tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}


def load_module(module: torch.nn.Module, state: dict[str, NDArray[Any]], prefix: str) -> None:
    """Give ``module`` the arrays that ``module_state`` named with the same prefix."""
    start = f"{prefix}."
    module.load_state_dict(
        {name.removeprefix(start): torch.from_numpy(array) for name, array in state.items() if name.startswith(start)}
    )
