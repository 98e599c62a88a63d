"""Checkpoints of a training: one safetensors file, written in one step and verified by a digest when it is read."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from tabbench.config import Config
from tabbench.errors import TabbenchWarning
from tabbench.values import JsonObject, Representation, Table

Tensors = dict[str, Tensor]


class Checkpoint(NamedTuple):
    """What a training needs to resume: tensors by name, and plain JSON values."""

    tensors: Tensors
    values: JsonObject


def write_checkpoint(path: Path, fingerprint: str, checkpoint: Checkpoint) -> None:
    """Replace the file in one step: a kill leaves the old checkpoint or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Copies: the format has no tensors that share their memory.
    tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in checkpoint.tensors.items()}
    values = json.dumps(checkpoint.values)
    header = {"fingerprint": fingerprint, "values": values, "digest": _digest(tensors, fingerprint, values)}
    draft = path.with_name(f"{path.name}.draft")
    save_file(tensors, draft, header)
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(path)


def read_checkpoint(path: Path, fingerprint: str) -> Checkpoint | None:
    """What ``write_checkpoint`` wrote, on the CPU; None if there is nothing, or if it belongs to another training.

    A damaged file is renamed to ``*.damaged``, with a warning, and counts as nothing: the training starts again.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        if _digest(tensors, header["fingerprint"], header["values"]) != header["digest"]:
            raise ValueError("its digest does not match")
    except Exception as error:  # whatever a damaged header makes of the reader
        aside = path.with_name(f"{path.name}.damaged")
        path.replace(aside)
        reason = " ".join(str(error).split())
        warnings.warn(
            f"The checkpoint {path} is damaged ({reason}). It was renamed to {aside.name}, and training starts over.",
            TabbenchWarning,
            stacklevel=2,
        )
        return None
    if header["fingerprint"] != fingerprint:
        return None
    return Checkpoint(tensors, json.loads(header["values"]))


def fingerprint_of(*parts: Any) -> str:
    """A digest of settings, tables, arrays and plain values: trainings that differ in any of them differ in it."""
    digest = hashlib.sha256()
    for part in parts:
        _update(digest, part)
    return digest.hexdigest()


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """``tensors`` with ``prefix.`` before each name."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors whose names start with ``prefix.``, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimiser's state, flat. The learning rate is not part of it, because it follows from the step."""
    return {
        f"{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give the optimiser what ``optimizer_tensors`` gave."""
    state: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _digest(tensors: Tensors, fingerprint: str, values: str) -> str:
    digest = hashlib.sha256(f"{fingerprint}\n{values}\n".encode())
    for name in sorted(tensors):
        _update(digest, name)
        _update(digest, tensors[name].numpy())
    return digest.hexdigest()


def _update(digest: hashlib._Hash, part: Any) -> None:
    if isinstance(part, Config):
        part = part.to_json()
    if isinstance(part, Table):
        for piece in (part.schema.to_json(), part.numeric, part.categorical):
            _update(digest, piece)
    elif isinstance(part, Representation):
        _update(digest, part.array)
    elif isinstance(part, np.ndarray):
        array: NDArray[Any] = np.ascontiguousarray(part)
        digest.update(f"{array.dtype.str}{array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    else:
        digest.update(json.dumps(part, sort_keys=True).encode() + b"\n")
