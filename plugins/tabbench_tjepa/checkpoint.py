"""Checkpoints of a training: one safetensors file, whose header holds the values that are not tensors as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

FILE = "tjepa-checkpoint.safetensors"

Tensors = dict[str, Tensor]


def write_checkpoint(folder: Path, fingerprint: str, tensors: Tensors, values: dict[str, Any]) -> None:
    """Replace the folder's checkpoint in one step: a kill leaves the old one or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{FILE}.partial"
    header = {"fingerprint": fingerprint, "values": json.dumps(values)}
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, partial, header)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(folder / FILE)


def read_checkpoint(folder: Path, fingerprint: str) -> tuple[Tensors, dict[str, Any]] | None:
    """What ``write_checkpoint`` wrote, on the CPU; None if there is none, or if it is of another training."""
    path = folder / FILE
    if not path.exists():
        return None
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
        if header["fingerprint"] != fingerprint:
            return None
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(header["values"])  # noqa: SIM118


def with_prefix(prefix: str, tensors: Tensors) -> Tensors:
    """``tensors`` with ``prefix.`` before each name."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Tensors) -> Tensors:
    """The tensors whose names start with ``prefix.``, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimiser's state, flat; the learning rate is not in it, because it follows from the step."""
    return {
        f"{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give the optimiser what ``optimizer_tensors`` gave."""
    state: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
