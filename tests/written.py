"""Files of a user, for tests of reading."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa

from tabbench import LoadedData
from tabbench.data.files import AS_FILE_IS, read_file
from tabbench.data.reading import Reading

ROWS = 60


def write(frame: pd.DataFrame, path: Path) -> Path:
    plain = path.name.removesuffix(".gz").removesuffix(".zst")
    if plain.endswith((".feather", ".xlsx")):
        frame.to_feather(path) if plain.endswith(".feather") else frame.to_excel(path, index=False)
        return path
    if plain.endswith(".arrow"):
        table = pa.Table.from_pandas(frame)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        return path
    if plain.endswith(".parquet"):
        sink = pa.BufferOutputStream()
        frame.to_parquet(sink)
        content = sink.getvalue().to_pybytes()
    else:
        separator = "\t" if plain.endswith(".tsv") else ";" if "semicolon" in plain else ","
        content = frame.to_csv(index=False, sep=separator).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
        return path
    path.write_bytes(content)
    return path


def read_column(
    folder: Path, values: Sequence[object], reading: Reading = AS_FILE_IS, name: str = "t.csv"
) -> LoadedData:
    """A file of one column beside a target of two classes."""
    frame = pd.DataFrame({"a": values, "y": ["p", "q"] * (len(values) // 2) + ["p"] * (len(values) % 2)})
    return read_file(write(frame, folder / name), "y", reading)


def is_number(loaded: LoadedData) -> bool:
    return loaded.frame["a"].dtype.kind in "if"
