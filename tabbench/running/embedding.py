"""Write the representation of a file's rows part by part, so that memory does not grow with the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabbench.data.reading import Reading
from tabbench.errors import UsageError
from tabbench.frames import to_table
from tabbench.values import Schema

if TYPE_CHECKING:
    import pandas as pd

    from tabbench.contracts import SSLMethod

Rows = NDArray[Any]
Write = Callable[[Rows], None]
PART_BYTES = 1 << 26
"""Bytes of the representation held at a time; a part is also a row group of a parquet file."""
FIRST_ROWS = 256
"""Rows of the first part, which shows how much memory a row takes."""
READING = "reading.json"
"""How the file was read that an encoder was trained on: a file in the encoder's folder."""
NOTATIONS = ("month_first", "decimal_commas", "thousands")


def save_reading(folder: Path, reading: Reading) -> None:
    """Keep what dates and commas mean with an encoder, so that they mean the same in other files."""
    about = {name: list(getattr(reading, name)) for name in NOTATIONS}
    (folder / READING).write_text(json.dumps(about, indent=1), encoding="utf-8")


def load_reading(folder: Path, schema: Schema) -> Reading:
    """How to read rows for the encoder in ``folder``; those of benchmarks have no such file.

    Raises:
        UsageError: the file is damaged.
    """
    from tabbench.results.files import read_json

    about: Any = {}
    if (folder / READING).exists():
        try:
            about = read_json(folder / READING)
            known = all(isinstance(name, str) for each in NOTATIONS for name in about.get(each, ()))
        except (OSError, ValueError, TypeError, AttributeError):
            known = False
        if not known:
            raise UsageError(f"--encoder {folder}: its {READING} is damaged")
    month_first, commas, thousands = (tuple(about.get(each, ())) for each in NOTATIONS)
    return Reading(
        schema.categorical, schema.numeric, month_first=month_first, decimal_commas=commas, thousands=thousands
    )


def write_representation(method: SSLMethod, frame: pd.DataFrame, out: Path) -> tuple[int, ...]:
    """Encode the rows of ``frame`` and write them to ``out``, a .npy, .parquet or .csv file; returns the shape."""
    writers = {".npy": _npy, ".parquet": _parquet, ".csv": _csv}
    first = _encode(method, frame.iloc[:FIRST_ROWS])
    shape = (len(frame), *first.shape[1:])
    at_once = max(PART_BYTES * len(first) // max(first.nbytes, 1), 1)
    with writers[out.suffix](out, shape, first.dtype) as write:
        for start in range(0, len(frame), at_once):
            write(_encode(method, frame.iloc[start : start + at_once]))
    return shape


def _encode(method: SSLMethod, frame: pd.DataFrame) -> Rows:
    rows = method.encode(to_table(frame, method.schema)).array
    if not np.isfinite(rows).all():
        raise UsageError(f"{type(method).__name__} encodes rows as values that are not finite: its weights are damaged")
    return rows


@contextmanager
def _npy(out: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Write]:
    with out.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda rows: np.ascontiguousarray(rows).tofile(file)


@contextmanager
def _parquet(out: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.from_numpy_dtype(dtype)) for name in _names(shape)])
    with pq.ParquetWriter(out, schema) as file:
        yield lambda rows: file.write_table(pa.table(list(_flat(rows).T.copy()), schema=schema))


@contextmanager
def _csv(out: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Write]:
    import pandas as pd

    with out.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(_names(shape)) + "\n")
        yield lambda rows: pd.DataFrame(_flat(rows)).to_csv(file, header=False, index=False)


def _flat(rows: Rows) -> Rows:
    return rows.reshape(len(rows), -1)


def _names(shape: tuple[int, ...]) -> list[str]:
    return [f"z{number}" for number in range(int(np.prod(shape[1:])))]
