"""Small tables with structure to be found, made from a seed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabbench.values import FIRST_LEVEL, MISSING, Schema, Table, Task

TaskKind = Literal["binary", "multiclass", "regression"]
N_FACTORS = 2
N_CLASSES = 3


def make_table(rows: int = 64, numeric: int = 4, categorical: int = 2, missing: float = 0.0, seed: int = 0) -> Table:
    """A fake table. Columns depend on two hidden factors, so that there is something to learn.

    Two tables with the same columns have the same schema and come from the same distribution, whatever their rows and
    seeds: one can be trained on, the other be held out.

    Args:
        rows: number of rows.
        numeric: number of numeric columns, on different scales.
        categorical: number of categorical columns, with two to four levels.
        missing: share of entries that are missing, in both kinds of columns.
        seed: decides the rows.
    """
    columns = np.random.default_rng(0)  # what the columns are, the same for every seed
    weights = columns.normal(size=(N_FACTORS, numeric + categorical))
    weights += np.sign(weights)  # none that ignores the factors
    scales, centres = 10.0 ** columns.integers(-1, 3, size=numeric), columns.normal(size=numeric)
    n_levels = [2 + j % 3 for j in range(categorical)]

    draw = np.random.default_rng([1, seed])
    factors = draw.normal(size=(rows, N_FACTORS))
    scores = factors @ weights + 0.3 * draw.normal(size=(rows, numeric + categorical))
    numbers = (scales * (scores[:, :numeric] + centres)).astype(np.float32)
    codes = np.empty((rows, categorical), dtype=np.int64)
    for j, n in enumerate(n_levels):
        edges = np.linspace(-1.5, 1.5, n + 1)[1:-1]
        codes[:, j] = FIRST_LEVEL + np.searchsorted(edges, scores[:, numeric + j])
    numbers[draw.random(numbers.shape) < missing] = np.nan
    codes[draw.random(codes.shape) < missing] = MISSING
    levels = tuple(tuple(f"level{i}" for i in range(n)) for n in n_levels)
    names = tuple(f"number{j}" for j in range(numeric)), tuple(f"category{j}" for j in range(categorical))
    return Table(numbers, codes, Schema(*names, levels))


def make_labels(table: Table, kind: TaskKind) -> tuple[NDArray[Any], Task]:
    """Labels that follow from the row itself, and their task: one cut, two cuts, or the number."""
    known = make_table(512, len(table.schema.numeric), len(table.schema.categorical))
    score = _score(table, known)
    if kind == "regression":
        return score.astype(np.float32), Task("regression")
    edges = np.quantile(_score(known, known), [1 / 2] if kind == "binary" else [1 / 3, 2 / 3])
    n_classes = 2 if kind == "binary" else N_CLASSES
    return np.searchsorted(edges, score).astype(np.int64), Task(kind, n_classes)


def _score(table: Table, known: Table) -> NDArray[np.float64]:
    """The mean of all columns, each on the scale of a known table; its sign says how it goes with the first one."""
    matrices = [np.concatenate([part.numeric, part.categorical], axis=1).astype(np.float64) for part in (table, known)]
    mean, std = matrices[1].mean(axis=0), matrices[1].std(axis=0)
    rows, reference = ((np.nan_to_num(matrix, nan=0.0) - mean) / std for matrix in matrices)
    signs = np.sign(reference.T @ reference[:, 0])
    score: NDArray[np.float64] = (rows * signs).mean(axis=1)
    return score
