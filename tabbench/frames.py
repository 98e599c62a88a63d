"""From a DataFrame to arrays: which columns are categories, their levels, their codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.errors import DataError, did_you_mean
from tabbench.values import FIRST_LEVEL, MISSING, UNKNOWN, Schema, Table

MAX_LEVELS = 1000
"""A column with more training levels keeps the most frequent; the rest share the code for unknown."""
BLOCK = 64
MANY_COLUMNS = 30
USABLE = "only numbers, text, booleans, categories and dates can be used"


def is_categorical(column: pd.Series[Any]) -> bool:
    """Whether a column holds categories by its type: strings, pandas categories or booleans."""
    return (
        isinstance(column.dtype, pd.CategoricalDtype)
        or pd.api.types.is_bool_dtype(column.dtype)
        or not pd.api.types.is_numeric_dtype(column.dtype)
    )


def check_frame(frame: pd.DataFrame) -> None:
    """Refuse what no file can hold: two columns of one name, and columns of lists, dictionaries or complex numbers.

    Raises:
        DataError: with the same words as for a file.
    """
    refuse_repeated([str(name) for name in frame.columns])
    for place, name in enumerate(frame.columns):
        held = _unusable(frame.iloc[:, place])
        if held:
            raise DataError(f"column {str(name)!r} holds {held}: {USABLE}")


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuse columns with the same name; pandas would rename the second one, or take both."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"several columns have the same name: {', '.join(map(repr, repeated))}")


def _unusable(column: pd.Series[Any]) -> str:
    """What a column holds that cannot be used; empty if it can."""
    if pd.api.types.is_complex_dtype(column.dtype):
        return "complex numbers"
    if isinstance(column.dtype, pd.ArrowDtype):
        import pyarrow as pa

        return str(column.dtype.pyarrow_dtype) if pa.types.is_nested(column.dtype.pyarrow_dtype) else ""
    if column.dtype != object:
        return ""
    kinds = (list, tuple, dict, set, frozenset, np.ndarray, complex)
    found = next((value for value in column if isinstance(value, kinds)), None)
    return "" if found is None else f"values of type {type(found).__name__}"


def no_column(what: str, given: str, columns: Iterable[object]) -> DataError:
    """The error for a missing column: the nearest name, and all names if there are few."""
    names = [str(name) for name in columns]
    if len(names) <= MANY_COLUMNS:
        return DataError(f"there is no {what} {given!r}.{did_you_mean(given, names)}")
    near = get_close_matches(given, names, n=1)
    hint = f" Did you mean: {near[0]}?" if near else ""
    return DataError(f"there is no {what} {given!r} among {len(names)} columns.{hint}")


def these(names: Sequence[str], shown: int = 5) -> str:
    """Column names for a note, shortened if there are many."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(repr(name) for name in names[:shown]) + more


def unique_names(labels: Iterable[object]) -> list[str]:
    """A name for each column label: its text, with a number if that is taken."""
    names: dict[str, None] = {}
    for label in labels:
        name, number = str(label), 0
        while name in names:
            number += 1
            name = f"{label}.{number}"
        names[name] = None
    return list(names)


def categorical_columns(frame: pd.DataFrame) -> list[str]:
    """Columns that hold categories, by their types."""
    return [str(name) for name, column in frame.items() if is_categorical(column)]


def fit_schema(frame: pd.DataFrame, categorical: Sequence[str] | None = None) -> Schema:
    """The schema of training rows; ``categorical`` overrides the types."""
    chosen = set(categorical_columns(frame) if categorical is None else categorical)
    order = [str(name) for name in frame.columns]
    for name in sorted(chosen.difference(order)):
        raise no_column("column", name, order)
    names = tuple(name for name in order if name in chosen)
    levels = tuple(_training_levels(frame[name]) for name in names)
    return Schema(tuple(name for name in order if name not in chosen), names, levels)


def _training_levels(column: pd.Series[Any]) -> tuple[str, ...]:
    counts = as_text(column).value_counts()
    counts = counts[counts > 0]
    if len(counts) > MAX_LEVELS:  # ties are broken by name, so that the order of the rows does not matter
        counts = counts.sort_index().sort_values(ascending=False, kind="stable").head(MAX_LEVELS)
    return tuple(sorted(str(level) for level in counts.index))


def to_table(frame: pd.DataFrame, schema: Schema) -> Table:
    """The rows of ``frame`` as the arrays of ``schema``. Columns are found by name; others are ignored."""
    lost = [name for name in schema.names if name not in frame.columns]
    if lost:
        raise DataError(f"the table has no column {', '.join(map(repr, lost))}")
    return Table(_numbers(frame, schema), _codes(frame, schema), schema)


def _numbers(frame: pd.DataFrame, schema: Schema) -> np.ndarray[Any, np.dtype[np.float32]]:
    numbers = np.empty((len(frame), len(schema.numeric)), dtype=np.float32)
    # A few columns at a time: pandas gives columns, we want rows, and transposing a small buffer is several times
    # faster than writing single columns into rows or transposing everything at once.
    buffer = np.empty((min(BLOCK, len(schema.numeric)), len(frame)), dtype=np.float32)
    for start in range(0, len(schema.numeric), BLOCK):
        names = schema.numeric[start : start + BLOCK]
        block = buffer[: len(names)]
        with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite, hence missing
            for j, name in enumerate(names):
                try:
                    block[j] = frame[name].to_numpy(dtype=np.float32, na_value=np.nan)
                except (TypeError, ValueError):
                    raise DataError(f"column {name!r} is not numeric: declare it categorical, or clean it") from None
        np.copyto(block, np.float32(np.nan), where=np.isinf(block))
        numbers[:, start : start + BLOCK] = block.T
    return numbers


def _codes(frame: pd.DataFrame, schema: Schema) -> np.ndarray[Any, np.dtype[np.int64]]:
    codes = np.empty((len(frame), len(schema.categorical)), dtype=np.int64)
    for j, (name, levels) in enumerate(zip(schema.categorical, schema.levels, strict=True)):
        text = as_text(frame[name])
        # A code for each distinct text, then for each row. The last entry is for missing rows (code -1).
        found = pd.Index(levels, dtype=object).get_indexer(pd.Index(text.cat.categories, dtype=object))
        if (found < 0).any() and _holds_numbers(frame[name]):
            found = np.where(found >= 0, found, _find_equal(text.cat.categories, levels))
        code_of = np.append(np.where(found >= 0, found + FIRST_LEVEL, UNKNOWN), MISSING)
        codes[:, j] = code_of[text.cat.codes.to_numpy()]
    return codes


def _holds_numbers(column: pd.Series[Any]) -> bool:
    kind = column.cat.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    return pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind)


def _find_equal(numbers: pd.Index[Any], levels: Sequence[str]) -> NDArray[np.int64]:
    """The level with the same value, -1 for none: whether 2 is written 2 or 2.0 depends on the rows around it."""
    values = pd.to_numeric(pd.Series(levels, dtype=object), errors="coerce").drop_duplicates()
    places = np.append(values.index.to_numpy(), -1)
    wanted = pd.to_numeric(pd.Series(numbers, dtype=object), errors="coerce")
    found: NDArray[np.int64] = places[pd.Index(values).get_indexer(pd.Index(wanted))]
    return found


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Categories as strings (a pandas category, its levels sorted), missing kept; 1 and 1.0 are the same level."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        if pd.api.types.is_float_dtype(column.dtype) and _is_whole(column):
            column = column.astype("Int64")
        try:
            column = column.astype("category")
        except TypeError:  # pandas cannot factorise lists and the like; it can factorise their text
            column = column.map(str, na_action="ignore").astype("category")
    levels = column.cat.categories
    if pd.api.types.is_float_dtype(levels.dtype) and _is_whole(levels.to_series()):
        levels = levels.astype("int64")
    names = np.array([str(level) for level in levels], dtype=object)
    order, place = np.unique(names, return_inverse=True) if len(names) else (names, np.empty(0, dtype=np.int64))
    codes = np.append(place, -1)[column.cat.codes.to_numpy()]
    text = pd.Categorical.from_codes(codes, categories=pd.Index(order, dtype=object))
    return pd.Series(text, index=column.index, name=column.name)


def _is_whole(column: pd.Series[Any]) -> bool:
    values = column.dropna()
    return len(values) > 0 and bool(((values.abs() < 2**53) & (values == values.round())).all())
