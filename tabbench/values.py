"""The values exchanged between harness and plugins: tables, representations, tasks.

Nothing here imports numpy at run time, so that listing plugins stays fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

JsonObject = dict[str, Any]
"""A JSON object of any content: as it is written to a file or sent to another process, before it is made a value."""
MISSING = 0
"""Code of a missing category."""
UNKNOWN = 1
"""Code of a category that does not occur in training rows."""
FIRST_LEVEL = 2
"""Code of the first training level; level ``i`` has code ``FIRST_LEVEL + i``."""


@dataclass(frozen=True)
class Schema:
    """The columns of a table, as fitted on training rows.

    ``Table.numeric`` and ``Table.categorical`` hold the columns in the order of ``numeric`` and ``categorical``.
    Where the position of a feature matters (tokens, subsets), features are counted numeric first, then categorical.
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    levels: tuple[tuple[str, ...], ...] = ()
    """The training levels of each categorical column, sorted, without missing values."""

    def __post_init__(self) -> None:
        if len(self.levels) != len(self.categorical):
            raise ValueError(f"{len(self.categorical)} categorical columns, but levels for {len(self.levels)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names, numeric first."""
        return self.numeric + self.categorical

    @property
    def n_features(self) -> int:
        return len(self.numeric) + len(self.categorical)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of codes of each categorical column: its levels, plus missing and unknown."""
        return tuple(FIRST_LEVEL + len(levels) for levels in self.levels)

    def to_json(self) -> JsonObject:
        return {
            "numeric": list(self.numeric),
            "categorical": list(self.categorical),
            "levels": [list(levels) for levels in self.levels],
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Schema:
        return cls(
            tuple(value["numeric"]), tuple(value["categorical"]), tuple(tuple(levels) for levels in value["levels"])
        )


@dataclass(frozen=True, eq=False)
class Table:
    """Rows as arrays: unscaled numbers with NaN for missing, categories as codes of the schema."""

    numeric: NDArray[np.float32]
    """(rows, numeric columns)"""
    categorical: NDArray[np.int64]
    """(rows, categorical columns), codes ``MISSING``, ``UNKNOWN``, ``FIRST_LEVEL`` and up"""
    schema: Schema

    def __post_init__(self) -> None:
        wanted = (len(self.schema.numeric), len(self.schema.categorical))
        if (self.numeric.shape[1], self.categorical.shape[1]) != wanted:
            raise ValueError(
                f"columns {self.numeric.shape} and {self.categorical.shape} do not fit a schema with {wanted}"
            )
        if len(self.numeric) != len(self.categorical):
            raise ValueError(f"{len(self.numeric)} numeric rows, but {len(self.categorical)} categorical rows")

    def __len__(self) -> int:
        return len(self.numeric)

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    def take(self, rows: slice | NDArray[Any]) -> Table:
        """The given rows, by slice, index or boolean mask."""
        return Table(self.numeric[rows], self.categorical[rows], self.schema)

    def join(self, other: Table) -> Table:
        """These rows followed by those of another table with the same schema."""
        import numpy as np

        numeric = np.concatenate([self.numeric, other.numeric])
        return Table(numeric, np.concatenate([self.categorical, other.categorical]), self.schema)


@dataclass(frozen=True, eq=False)
class Representation:
    """An encoder's output: flat ``(rows, k)`` or one token per feature ``(rows, d, h)``, float32.

    The array may be memory-mapped: read it in batches.
    """

    array: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.array.ndim not in (2, 3):
            raise ValueError(f"a representation must have shape (rows, k) or (rows, d, h), not {self.array.shape}")

    def __len__(self) -> int:
        return len(self.array)

    @property
    def is_tokens(self) -> bool:
        return self.array.ndim == 3

    def take(self, rows: slice | NDArray[Any]) -> Representation:
        """The given rows, by slice, index or boolean mask."""
        return Representation(self.array[rows])


Features = Table | Representation
"""What a downstream model is trained on: the raw table, or an SSL method's representation of it."""


@dataclass(frozen=True)
class Task:
    """What is predicted. Class labels are 0 .. n_classes-1; regression targets are standardised on training rows."""

    kind: Literal["binary", "multiclass", "regression"]
    n_classes: int = 0
    metric: str = ""
    """The main metric, if the user asked for one other than accuracy or RMSE."""

    @property
    def is_regression(self) -> bool:
        return self.kind == "regression"

    @property
    def n_outputs(self) -> int:
        """Width of a network's output: one logit for binary, one per class, or one number."""
        return self.n_classes if self.kind == "multiclass" else 1


class Labelled(NamedTuple):
    """Rows with their labels: int64 classes or float32 standardised numbers."""

    features: Features
    y: NDArray[Any]
