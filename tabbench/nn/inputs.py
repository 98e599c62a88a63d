"""Turn features into tensors: what is fitted on training rows, where the data live, and batches by index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tabbench.config import ScalingKind
from tabbench.errors import TabbenchError, UsageError
from tabbench.nn.scaling import Scaler
from tabbench.values import Features, Representation, Table

CHUNK_BYTES = 64 * 2**20
"""How much of a representation is read at a time."""
DEFAULT_RESIDENT_BYTES = 2**30
"""What one split may hold in memory if the job has no memory limit."""
MAX_FLAT_COLUMNS = 4096
"""Widest matrix that models without a projection make of tokens."""
NOT_FINITE = "the representation has values that are not finite: its encoder diverged"


class Batch(NamedTuple):
    """The input of a network. A kind of feature that the data do not have is None."""

    numeric: Tensor | None = None
    """(rows, columns) float32: scaled numbers and missing indicators, or a flat representation"""
    categorical: Tensor | None = None
    """(rows, columns) int64 codes"""
    tokens: Tensor | None = None
    """(rows, d, h) float32"""


Tensors = tuple[Tensor | None, ...]
"""Rows of one batch: a ``Batch``, or what an encoder takes."""
AnyBatch = TypeVar("AnyBatch", bound=Tensors)


def take_rows(batch: AnyBatch, rows: slice | Tensor) -> AnyBatch:
    """Some rows of a batch."""
    return _like(batch, [None if tensor is None else tensor[rows] for tensor in batch])


def _like(batch: AnyBatch, tensors: list[Tensor | None]) -> AnyBatch:
    return cast("AnyBatch", Batch(*tensors) if isinstance(batch, Batch) else tuple(tensors))


@dataclass(frozen=True)
class InputShape:
    """What a network must know about its inputs before it sees any."""

    n_numeric: int = 0
    cardinalities: tuple[int, ...] = ()
    tokens: tuple[int, int] | None = None

    @classmethod
    def of(cls, features: Features) -> InputShape:
        """The shape of batches from ``Inputs`` that are fitted on ``features``."""
        if isinstance(features, Representation):
            array = features.array
            return cls(tokens=(array.shape[1], array.shape[2])) if array.ndim == 3 else cls(n_numeric=array.shape[1])
        n_numeric = features.numeric.shape[1] + len(_columns_with_missing(features))
        return cls(n_numeric=n_numeric, cardinalities=features.schema.cardinalities)


class Inputs:
    """Turns features into batches, by what it learned from the training rows.

    A table gives scaled numbers, behind them one 0/1 column for each numeric column with missing values, and category
    codes. Representations are standardised on the training rows: flat ones by column, tokens by token and channel.
    """

    def __init__(self, scaling: ScalingKind = "quantile") -> None:
        self.scaling: ScalingKind = scaling

    def fit(self, features: Features) -> Self:
        """Learn from training rows, in one pass that never holds a whole representation."""
        if len(features) == 0:
            raise UsageError("there are no training rows")
        self.shape = InputShape.of(features)
        self.columns = _columns(features)
        if self.shape == InputShape():
            raise UsageError("there is no feature to learn from")
        if isinstance(features, Table):
            if features.numeric.shape[1]:
                self.scaler = Scaler(self.scaling).fit(features.numeric)
            self.with_missing = _columns_with_missing(features)
        else:
            self.centre, self.factor = _standardisation(features)
        return self

    def get_state(self) -> dict[str, NDArray[Any]]:
        """The fitted arrays; ``set_state`` takes them back."""
        state: dict[str, NDArray[Any]] = {
            "inputs.n_numeric": np.array(self.shape.n_numeric),
            "inputs.cardinalities": np.array(self.shape.cardinalities, dtype=np.int64),
            "inputs.tokens": np.array(self.shape.tokens or (), dtype=np.int64),
        }
        if hasattr(self, "centre"):
            return state | {"inputs.centre": self.centre.numpy(), "inputs.factor": self.factor.numpy()}
        state["inputs.with_missing"] = np.array(self.with_missing, dtype=np.int64)
        return state | (self.scaler.get_state("inputs.scaler") if self.shape.n_numeric else {})

    def set_state(self, state: dict[str, NDArray[Any]]) -> Self:
        """Restore what ``get_state`` returned."""
        tokens = tuple(int(size) for size in state["inputs.tokens"])
        self.shape = InputShape(
            int(state["inputs.n_numeric"]),
            tuple(int(size) for size in state["inputs.cardinalities"]),
            (tokens[0], tokens[1]) if tokens else None,
        )
        if "inputs.centre" in state:
            self.centre, self.factor = (torch.from_numpy(state[f"inputs.{name}"]) for name in ("centre", "factor"))
            shape = self.shape.tokens or (self.shape.n_numeric,)
            self.columns = f"a representation of shape (rows, {', '.join(map(str, shape))})"
            return self
        self.with_missing = [int(column) for column in state["inputs.with_missing"]]
        n_numeric = self.shape.n_numeric - len(self.with_missing)
        if self.shape.n_numeric:
            self.scaler = Scaler(self.scaling).set_state(state, "inputs.scaler")
        self.columns = _table_columns(n_numeric, self.shape.cardinalities)
        return self

    def transform(self, features: Features, device: str | torch.device = "cpu") -> Batch:
        """All of ``features`` as tensors on ``device``."""
        if _columns(features) != self.columns:
            raise ValueError(f"inputs were fitted on {self.columns}, but these are {_columns(features)}")
        if isinstance(features, Table):
            return self._transform_table(features, device)
        # A copy even if the array is not memory-mapped: it may be read-only, and the caller's.
        values = torch.from_numpy(np.array(features.array, dtype=np.float32)).to(device)
        values = values.sub_(self.centre.to(device)).mul_(self.factor.to(device))
        return Batch(tokens=values) if self.shape.tokens else Batch(numeric=values)

    def load(self, features: Features, device: str | torch.device = "cpu", memory: int | None = None) -> Rows[Batch]:
        """Rows to take batches from; ``memory`` is the limit of the job in bytes.

        They are kept on the device if they need at most a quarter of ``memory`` (1 GiB if nothing is said; on a GPU
        half of what is free there). Otherwise each batch is gathered from the arrays, which may be memory-mapped.
        """
        fits = self.nbytes(len(features)) <= resident_bytes(device, memory)
        return Rows(self, features, torch.device(device), fits)

    def nbytes(self, n_rows: int) -> int:
        """Size of ``n_rows`` rows as tensors."""
        d, h = self.shape.tokens or (0, 0)
        return n_rows * (4 * (self.shape.n_numeric + d * h) + 8 * len(self.shape.cardinalities))

    def _transform_table(self, table: Table, device: str | torch.device) -> Batch:
        numeric = categorical = None
        if self.shape.n_numeric:
            scaled = self.scaler.transform(table.numeric)
            missing = np.isnan(table.numeric[:, self.with_missing]).astype(np.float32)
            numeric = torch.from_numpy(np.concatenate([scaled, missing], axis=1)).to(device)
        if self.shape.cardinalities:
            categorical = torch.from_numpy(np.array(table.categorical, dtype=np.int64)).to(device)
        return Batch(numeric, categorical)


MadeBatch = TypeVar("MadeBatch", bound=Tensors, covariant=True)


class Transforms(Protocol[MadeBatch]):
    """Turns features into the tensors of a batch."""

    def transform(self, features: Any, device: str | torch.device = "cpu") -> MadeBatch: ...


class Rows(Generic[AnyBatch]):
    """The rows of one split, ready for batches; see ``Inputs.load``."""

    def __init__(self, inputs: Transforms[AnyBatch], features: Features, device: torch.device, resident: bool) -> None:
        self.inputs = inputs
        self.features = features
        self.device = device
        self.resident = self._load() if resident else None

    def __len__(self) -> int:
        return len(self.features)

    def batch(self, index: Tensor) -> AnyBatch:
        """The rows of ``index``, an int64 tensor, in its order."""
        if self.resident is not None:
            return take_rows(self.resident, index)
        return self.inputs.transform(self.features.take(index.cpu().numpy()), self.device)

    def in_order(self, batch_size: int) -> Iterator[AnyBatch]:
        """All rows from the first to the last; one empty batch if there are none."""
        for start in range(0, max(len(self), 1), batch_size):
            part = slice(start, start + batch_size)
            if self.resident is None:
                yield self.inputs.transform(self.features.take(part), self.device)
            else:
                yield take_rows(self.resident, part)

    def _load(self) -> AnyBatch:
        parts = [self.inputs.transform(chunk, self.device) for chunk in _chunks(self.features)]
        columns: list[tuple[Tensor | None, ...]] = list(zip(*parts, strict=True))
        whole = [None if column[0] is None else torch.cat(cast("list[Tensor]", list(column))) for column in columns]
        return _like(parts[0], whole)


def flat_columns(array: NDArray[np.float32], max_columns: int = MAX_FLAT_COLUMNS) -> NDArray[np.float32]:
    """A representation as a matrix, for models without a projection: tokens are flattened.

    If that gives more than ``max_columns``, neighbouring channels of each token are averaged first, into as many groups
    as fit (at least one). Flat representations are unchanged. Non-finite values are refused, because trees would treat
    NaN as missing.
    """
    matrix = _side_by_side(array, max_columns)
    if not np.isfinite(matrix.sum(dtype=np.float64)):  # without a mask as large as the matrix
        raise TabbenchError(NOT_FINITE)
    return matrix


def _side_by_side(array: NDArray[np.float32], max_columns: int) -> NDArray[np.float32]:
    if array.ndim == 2:
        return np.asarray(array, dtype=np.float32)
    rows, d, h = array.shape
    groups = max(min(h, max_columns // d), 1)
    if groups == h:
        return np.asarray(array, dtype=np.float32).reshape(rows, d * h)
    edges = np.linspace(0, h, groups + 1).astype(int)
    matrix = np.empty((rows, d * groups), dtype=np.float32)
    step = max(CHUNK_BYTES // (4 * d * h), 1)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        sums = np.add.reduceat(np.asarray(array[part]), edges[:-1], axis=2)
        matrix[part] = (sums / np.diff(edges)).reshape(len(sums), -1)
    return matrix


def max_flat_columns(n_rows: int, memory: int | None) -> int:
    """How many columns of ``n_rows`` rows a model without a projection may make of tokens.

    At most 4,096, and no more than a quarter of the job's ``memory`` holds: libraries keep copies of their own.
    """
    return MAX_FLAT_COLUMNS if memory is None else min(MAX_FLAT_COLUMNS, max(memory // (4 * 4 * n_rows), 1))


def _columns(features: Features) -> str:
    """What must be the same for all features that one ``Inputs`` is used on."""
    if isinstance(features, Representation):
        return f"a representation of shape (rows, {', '.join(map(str, features.array.shape[1:]))})"
    return _table_columns(features.numeric.shape[1], features.schema.cardinalities)


def _table_columns(n_numeric: int, cardinalities: tuple[int, ...]) -> str:
    return f"a table of {n_numeric} numeric columns and categories of cardinality {cardinalities}"


def _columns_with_missing(table: Table) -> list[int]:
    return [int(j) for j in np.flatnonzero(np.isnan(table.numeric).any(axis=0))]


def _chunks(features: Features) -> Iterator[Features]:
    array = features.array if isinstance(features, Representation) else features.numeric
    step = max(CHUNK_BYTES // max(4 * int(np.prod(array.shape[1:])), 1), 1)
    for start in range(0, max(len(features), 1), step):
        yield features.take(slice(start, start + step))


def _standardisation(representation: Representation) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal standard deviation of each entry; the latter is 0 for entries that do not vary."""
    return standardise(chunk.array for chunk in _chunks(representation) if isinstance(chunk, Representation))


def standardise(chunks: Iterable[NDArray[np.float32]]) -> tuple[Tensor, Tensor]:
    """As ``_standardisation``, of rows that come piece by piece."""
    count = 0
    for chunk in chunks:
        if not count:
            shape = chunk.shape[1:]
            total, squares = np.zeros(shape), np.zeros(shape)
            shift = np.asarray(chunk[0], dtype=np.float64)  # sums of squares cancel badly far from zero
        values = chunk - shift
        total += values.sum(axis=0)
        squares += np.square(values).sum(axis=0)
        count += len(chunk)
    mean = total / count
    if not np.isfinite(mean).all():
        raise TabbenchError(NOT_FINITE)
    spread = np.sqrt(np.maximum(squares / count - mean**2, 0))
    mean += shift
    # float32 encoders repeat a constant only to about seven digits: such noise must not be blown up to unit variance.
    varies = spread > 1e-5 * np.abs(mean) + 1e-30
    factor = np.divide(1.0, spread, out=np.zeros(shape), where=varies)
    return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(factor.astype(np.float32))


def resident_bytes(device: str | torch.device, memory: int | None) -> int:
    """What rows may take on a device; ``memory`` is the limit of the job."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // 2
    return DEFAULT_RESIDENT_BYTES if memory is None else memory // 4
