"""Turn a table into network inputs; plain MLPs; and what methods with one encoder network share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tabbench.config import ScalingKind
from tabbench.context import Context
from tabbench.contracts import TrainableEncoder
from tabbench.errors import PluginError
from tabbench.nn.corruption import OriginalColumns
from tabbench.nn.devices import seeded
from tabbench.nn.dropout import Dropout
from tabbench.nn.scaling import Scaler
from tabbench.nn.states import load_module, module_state
from tabbench.values import MISSING, UNKNOWN, Representation, Schema, Table

ENCODE_BATCH = 4096
"""Rows encoded at once: it bounds memory and does not change results."""


AnyModule = TypeVar("AnyModule", bound=nn.Module)


class FeatureEncoder:
    """Rows as a matrix ``(rows, features)``, and that matrix as network input ``(rows, width)``.

    The matrix holds numbers (scaled, missing ones imputed by the ``Scaler``), then a 0/1 column for each numeric column
    in which training rows have missing values, then category codes as floats. So corruption can replace whole
    features, a number together with its indicator (``originals``), before ``encode`` makes the network's input. The
    code ``unknown`` hides a category.

    ``onehot``: a column per training level, and one for missing where training rows have missing values. An unknown
    level is a block of zeros: there is no training row from which a weight of its own could be learnt.
    ``ordinal``: codes stay plain numbers.
    """

    unknown = UNKNOWN
    n_numeric: int
    """Columns of the matrix before the category codes."""
    n_features: int
    """Columns of the matrix."""
    originals: OriginalColumns
    """The original column of each column of the matrix, on the CPU."""
    width: int
    """Columns of the network's input."""

    def __init__(
        self, schema: Schema, scaling: ScalingKind = "minmax", categories: Literal["onehot", "ordinal"] = "onehot"
    ) -> None:
        self.schema = schema
        self.scaler = Scaler(scaling)
        self.categories = categories

    def fit(self, table: Table) -> Self:
        """Learn scales and where values are missing from training rows."""
        self.scaler.fit(table.numeric)
        numeric_missing: NDArray[np.bool_] = np.any(np.isnan(table.numeric), axis=0)
        return self._lay_out(numeric_missing, (table.categorical == MISSING).any(axis=0))

    def _lay_out(self, numeric_missing: NDArray[np.bool_], categorical_missing: NDArray[np.bool_]) -> Self:
        self.numeric_missing, self.categorical_missing = numeric_missing, categorical_missing
        self.n_numeric = len(self.schema.numeric) + int(numeric_missing.sum())
        self.n_features = self.width = self.n_numeric + len(self.schema.categorical)
        numbers, categories = np.split(np.arange(self.schema.n_features), [len(self.schema.numeric)])
        owner = np.concatenate([numbers, numbers[numeric_missing], categories])
        self.originals = OriginalColumns(torch.from_numpy(owner), self.schema.n_features)
        self.one_hot = self.categories == "onehot" and bool(self.schema.categorical)
        if not self.one_hot:
            return self
        # Where each code stands in the input; codes without a place go to an extra last column that is cut off.
        n_levels = np.array([len(levels) for levels in self.schema.levels])
        sizes = (n_levels + categorical_missing).tolist()
        self.width = self.n_numeric + sum(sizes)
        places: list[int] = []
        start = self.n_numeric
        for levels, size in zip(self.schema.levels, sizes, strict=True):
            has_place_for_missing = size > len(levels)
            places += [start + len(levels) if has_place_for_missing else self.width, self.width]
            places += range(start, start + len(levels))
            start += size
        self._places = torch.tensor(places)
        cardinalities = torch.tensor(self.schema.cardinalities)
        self._offsets = cardinalities.cumsum(0) - cardinalities
        return self

    def matrix(self, table: Table, device: str = "cpu") -> torch.Tensor:
        """``(rows, features)`` float32: scaled numbers, missing indicators, category codes."""
        rows = np.empty((len(table), self.n_features), dtype=np.float32)
        n_scaled = len(self.schema.numeric)
        for start in range(0, len(table), ENCODE_BATCH):  # the scaler works in float64
            part = slice(start, start + ENCODE_BATCH)
            numeric = table.numeric[part]
            rows[part, :n_scaled] = self.scaler.transform(numeric)
            rows[part, n_scaled : self.n_numeric] = np.isnan(numeric[:, self.numeric_missing])
            rows[part, self.n_numeric :] = table.categorical[part]
        return torch.from_numpy(rows).to(device)

    def encode(self, matrix: torch.Tensor) -> torch.Tensor:
        """``(rows, width)`` network input of a matrix; without one-hot columns it is the matrix itself."""
        if not self.one_hot:
            return matrix
        if self._places.device != matrix.device:
            self._places, self._offsets = self._places.to(matrix.device), self._offsets.to(matrix.device)
        codes = matrix[:, self.n_numeric :].long()
        encoded = matrix.new_zeros(len(matrix), self.width + 1)
        encoded[:, : self.n_numeric] = matrix[:, : self.n_numeric]
        encoded.scatter_(1, self._places[codes + self._offsets], 1.0)
        return encoded[:, : self.width]

    def column_names(self) -> list[str]:
        """Names of the columns of the network's input, in their order."""
        schema = self.schema
        missing = [f"{name} is missing" for name, has in zip(schema.numeric, self.numeric_missing, strict=True) if has]
        names = [*schema.numeric, *missing]
        if not self.one_hot:
            return [*names, *schema.categorical]
        for name, levels, has in zip(schema.categorical, schema.levels, self.categorical_missing, strict=True):
            names += [f"{name}={level}" for level in levels] + ([f"{name} is missing"] if has else [])
        return names

    def get_state(self) -> dict[str, NDArray[Any]]:
        """The fitted arrays."""
        return {
            **self.scaler.get_state("inputs.scaler"),
            "inputs.numeric_missing": self.numeric_missing,
            "inputs.categorical_missing": self.categorical_missing,
        }

    def set_state(self, state: dict[str, NDArray[Any]]) -> Self:
        """Restore what ``get_state`` returned."""
        self.scaler.set_state(state, "inputs.scaler")
        return self._lay_out(state["inputs.numeric_missing"], state["inputs.categorical_missing"])


class MLP(nn.Sequential):
    """``hidden`` blocks of Linear, activation and dropout, then a Linear to ``out`` unless it is None.

    >>> MLP(54, [256, 256], 128).out_features
    128
    """

    def __init__(
        self,
        n_inputs: int,
        hidden: Sequence[int],
        out: int | None = None,
        *,
        activation: Callable[[], nn.Module] = nn.ReLU,
        dropout: float = 0.0,
    ) -> None:
        layers: list[nn.Module] = []
        width = n_inputs
        for size in hidden:
            layers += [nn.Linear(width, size), activation()]
            if dropout:
                layers.append(Dropout(dropout))
            width = size
        if out is not None:
            layers.append(nn.Linear(width, out))
            width = out
        super().__init__(*layers)
        self.out_features = width


def output_activation(scaling: str) -> nn.Module:
    """The activation after a layer that reconstructs inputs: a sigmoid for minmax, none for the other scalings."""
    return nn.Sigmoid() if scaling == "minmax" else nn.Identity()


def glorot_(module: AnyModule) -> AnyModule:
    """Glorot-uniform weights and zero biases in every Linear of ``module``, in place, as Keras initialises them."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return module


def encode_in_batches(
    table: Table, embed: Callable[[Table], torch.Tensor], batch_size: int = ENCODE_BATCH
) -> Representation:
    """What ``embed`` makes of the rows, ``batch_size`` at a time, without gradients."""
    with torch.no_grad():
        array: NDArray[np.float32] | None = None
        for start in range(0, max(len(table), 1), batch_size):
            rows = table.take(slice(start, start + batch_size))
            embedded = embed(rows).cpu().numpy()
            if len(embedded) != len(rows):
                raise PluginError(f"embed gave {len(embedded)} rows for {len(rows)}")
            if array is None:
                array = np.empty((len(table), *embedded.shape[1:]), dtype=np.float32)
            array[start : start + batch_size] = embedded
    assert array is not None
    return Representation(array)


class Embedding(nn.Module):
    """The ``embed`` of a method as a module, with the parameters of its network."""

    def __init__(self, network: nn.Module, embed: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.network = network
        self.embed = embed

    def forward(self, matrix: torch.Tensor) -> torch.Tensor:
        return self.embed(matrix)


class NetworkEncoder:
    """The shared part of an ``SSLMethod`` or ``JointMethod`` with one encoder network.

    Put it first among the bases. A method defines ``make_inputs``, ``make_network`` and ``embed``. It builds what only
    the pretext task needs (heads, decoders) itself; that is not stored.
    """

    config: Any
    schema: Schema
    device: str
    inputs: FeatureEncoder
    network: nn.Module
    encode_batch: int = ENCODE_BATCH
    """Rows that ``encode`` works on at a time."""

    @abstractmethod
    def make_inputs(self) -> FeatureEncoder:
        """The input encoder for ``self.schema``, not yet fitted."""

    @abstractmethod
    def make_network(self) -> nn.Module:
        """The encoder network for ``self.inputs``, initialised from torch's global generator."""

    @abstractmethod
    def embed(self, matrix: torch.Tensor) -> torch.Tensor:
        """The representation of rows given as ``self.inputs.matrix``; the network is in evaluation mode."""

    def initialise(self, table: Table, context: Context) -> None:
        """Fit the inputs on ``table`` and build the untrained network."""
        self.schema = table.schema
        self.device = context.device
        self.inputs = self.make_inputs().fit(table)
        with seeded(context.seed("init")):
            self.network = self.make_network().to(self.device)

    def encode(self, table: Table) -> Representation:
        """Encode rows in batches, each row on its own."""
        self.network.eval()
        return encode_in_batches(
            table, lambda rows: self.embed(self.inputs.matrix(rows, self.device)), self.encode_batch
        )

    def trainable_encoder(self) -> TrainableEncoder:
        """The network, with ``embed`` around it; ``matrix`` prepares its rows."""
        return TrainableEncoder(Embedding(self.network, self.embed), lambda table: (self.inputs.matrix(table),))

    def get_state(self) -> dict[str, NDArray[Any]]:
        return {**self.inputs.get_state(), **module_state(self.network, "network")}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        self.inputs = self.make_inputs().set_state(state)
        with seeded(0):
            self.network = self.make_network()
        load_module(self.network, state, "network")
        self.network.to(self.device)
