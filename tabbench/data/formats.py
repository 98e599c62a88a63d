"""Parse a file's bytes into a table: CSV, TSV, parquet, Feather, Arrow and Excel."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import os
import re
import warnings
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tabbench.data.inference import LEADING_ZERO, MORE_MISSING
from tabbench.errors import DataError
from tabbench.frames import USABLE, is_categorical, refuse_repeated, these

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".xlsx": "excel",
}
COMPRESSIONS = (".gz", ".zst")
SEPARATORS = (",", ";", "\t")
SEPARATOR_LINE = re.compile(r'"?sep=(?P<sign>[^\w\s"]|\t)"?[,;\t]*\r?\n', re.IGNORECASE)
"""A first line that Excel writes and reads."""
LIMIT_VARIABLE = "TABBENCH_MAX_UNPACKED"
DEFAULT_LIMIT = 4.0
"""Limit on the unpacked size of a compressed file, in gigabytes."""
PIECE = 2**20
SURELY_MISSING = ("", "?")
"""What counts as missing without a note; a word such as NA could mean a category."""


@dataclass
class Parsed:
    """A table as in its file."""

    frame: pd.DataFrame
    separator: str = ""
    notes: list[str] = field(default_factory=list)
    text: str = ""
    """The whole file, if it is a text file."""


def format_of(path: Path) -> str | None:
    """The file format by its name; None if we cannot read it."""
    name = path.name.lower()
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    return FORMATS.get(Path(name).suffix)


def parse(path: Path, content: bytes) -> Parsed:
    """Parse the content of a file."""
    if not content:
        raise DataError("the file is empty")
    content = _decompress(path, content)
    kind = format_of(path)
    if kind == "parquet":
        return _parse_parquet(content)
    if kind == "arrow":
        return _parse_arrow(content)
    if kind == "excel":
        return _parse_excel(content)
    return _parse_text(_decode(content), "\t" if kind == "tsv" else None)


def _limit() -> int:
    text = os.environ.get(LIMIT_VARIABLE) or str(DEFAULT_LIMIT)
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = 0.0
    if not gigabytes > 0:
        raise DataError(f"{LIMIT_VARIABLE}={text} is not a number of gigabytes")
    return int(gigabytes * 10**9)


def _refuse_above_limit(size: int) -> None:
    limit = _limit()
    if size > limit:
        raise DataError(f"it unpacks to more than {limit / 1e9:g} GB; to allow that, set {LIMIT_VARIABLE}")


def _decompress(path: Path, content: bytes) -> bytes:
    import pyarrow as pa

    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return content
    plain = io.BytesIO()
    try:
        packed: Any = gzip.GzipFile(fileobj=io.BytesIO(content))
        if suffix == ".zst":
            packed = pa.CompressedInputStream(pa.BufferReader(content), "zstd")
        with packed as stream:
            while piece := stream.read(PIECE):
                plain.write(piece)
                _refuse_above_limit(plain.tell())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"not a complete {suffix} file ({error})") from None
    return plain.getvalue()


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"not UTF-8 text (byte 0x{content[error.start]:02x} in line {line}): save it as UTF-8"
        ) from None


def _parse_text(text: str, separator: str | None) -> Parsed:
    if "\n" not in text:  # as old spreadsheets for the Macintosh write
        text = text.replace("\r", "\n")
    stated = SEPARATOR_LINE.match(text)
    if stated:
        text, separator = text[stated.end() :], stated["sign"]
    head = text[: text.find("\n")] if "\n" in text else text
    if not head.strip():
        raise DataError("the first line must name the columns, but is empty")
    if "\0" in head:
        raise DataError("not a text file")
    if separator is None:
        bare = re.sub(r'"[^"]*"', "", head)
        separator = max(SEPARATORS, key=bare.count)
    header = _fields(head, separator)
    refuse_repeated(header)
    end = len(text.rstrip("\r\n"))
    last = text[text.rfind("\n", 0, end) + 1 : end]
    n_last = len(_fields(last, separator))
    if '"' not in last and last != head and n_last < len(header):
        raise DataError(f"the last line has {n_last} fields, the header {len(header)}: is the file cut off?")
    frame = _read_csv(text, separator, na_values=list(MORE_MISSING), low_memory=False)
    parsed = Parsed(frame, separator, text=text)
    large = [str(name) for name, column in frame.items() if _is_large(column)]
    for name in large:
        frame[name] = frame[name].astype("float64")
    if large:
        parsed.notes.append(f"{these(large)} read as floating point: whole numbers of more than 64 bits")
    _keep_leading_zeros(parsed)
    return parsed


def _read_csv(text: str, separator: str, **options: Any) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            frame: pd.DataFrame = pd.read_csv(
                io.StringIO(text), sep=separator, skipinitialspace=True, index_col=False, **options
            )
            return frame
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, ValueError) as error:
        detail = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise DataError(f"not a table ({detail})") from None


def _keep_leading_zeros(parsed: Parsed) -> None:
    """Keep codes such as 01234 as text; pandas turns them into numbers. Such columns are read a second time."""
    sign = re.escape(parsed.separator)
    if not re.search(rf'(^|{sign}) *"?{LEADING_ZERO}"? *({sign}|\r?$)', parsed.text, re.MULTILINE):
        return
    frame = parsed.frame
    numeric = [str(name) for name, column in frame.items() if column.dtype.kind in "iuf"]
    raw = read_words(parsed, numeric)
    codes = [name for name in numeric if raw[name].str.fullmatch(LEADING_ZERO).any()]
    for name in codes:
        frame[name] = raw[name].where(frame[name].notna())
    if codes:
        parsed.notes.append(f"{these(codes)} read as categories: codes with leading zeros")


def read_words(parsed: Parsed, names: list[str]) -> pd.DataFrame:
    """Columns of a text file as written, with nothing treated as missing."""
    return _read_csv(parsed.text, parsed.separator, usecols=names, dtype=str, keep_default_na=False)


def find_words(parsed: Parsed) -> dict[str, pd.Series[Any]]:
    """For text columns: the rows whose word, such as NA or None, was treated as missing, with that word."""
    frame = parsed.frame
    names = [str(name) for name, column in frame.items() if is_categorical(column) and column.hasnans]
    if not names or not parsed.text:
        return {}
    raw = read_words(parsed, names)
    found = {name: raw[name][frame[name].isna()] for name in names}
    words = {name: column[~column.isin(SURELY_MISSING)] for name, column in found.items()}
    return {name: column for name, column in words.items() if len(column)}


def _is_large(column: pd.Series[Any]) -> bool:
    """Whether a column holds whole numbers too large for any integer type; pandas reads them as text or Python ints."""
    if column.dtype.kind != "O" or not column.notna().any():
        return False
    first = column[column.first_valid_index()]
    if isinstance(first, bool) or not re.fullmatch(r"[+-]?\d+", str(first)):
        return False
    return bool(pd.Series(column.dropna().unique()).astype(str).str.fullmatch(r"[+-]?\d+").all())


def _fields(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")], delimiter=separator, skipinitialspace=True), [])
    except csv.Error as error:
        raise DataError(f"not a table ({str(error).partition(' - ')[0]})") from None


def _parse_parquet(content: bytes) -> Parsed:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(io.BytesIO(content))
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        _refuse_above_limit(max(sum(group.total_byte_size for group in groups), file.metadata.num_rows))
        table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"not a readable parquet file ({' '.join(str(error).split())[:120]})") from None
    return _from_arrow(table)


def _parse_arrow(content: bytes) -> Parsed:
    import pyarrow as pa

    try:
        try:
            reader: Any = pa.ipc.open_file(pa.BufferReader(content))
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            reader = pa.ipc.open_stream(pa.BufferReader(content))
            batches = iter(reader)
        kept, size = [], 0
        for batch in batches:
            kept.append(batch)
            size += batch.nbytes
            _refuse_above_limit(size)
        table = pa.Table.from_batches(kept, reader.schema)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"not a readable Feather or Arrow file ({' '.join(str(error).split())[:120]})") from None
    return _from_arrow(table)


def _from_arrow(table: pa.Table) -> Parsed:
    import pyarrow as pa

    refuse_repeated(table.column_names)
    notes: list[str] = []
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if re.fullmatch(r"__index_level_\d+__", name):
            notes.append(f"left out {name!r}, the index of a DataFrame")
            continue
        columns[name] = _simple_type(name, column)
    frame: pd.DataFrame = pa.table(columns).to_pandas()
    return Parsed(frame, notes=notes)


def _simple_type(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Refuse anything but numbers, text, booleans, categories, dates and durations."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"column {name!r} holds {kind}: {USABLE}")
    if pa.types.is_decimal(kind):
        return pc.cast(column, pa.float64())
    if pa.types.is_date(kind):
        return pc.cast(column, pa.timestamp("s"))
    if pa.types.is_time(kind):
        return pc.cast(pc.cast(column, pa.time64("us")), pa.int64()).cast(pa.duration("us"))
    return column


def _parse_excel(content: bytes) -> Parsed:
    if importlib.util.find_spec("openpyxl") is None:
        raise DataError('Excel files need the package openpyxl: pip install "tabbench-ssl[excel]"')
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _refuse_above_limit(sum(member.file_size for member in archive.infolist()))
        with pd.ExcelFile(io.BytesIO(content), engine="openpyxl") as book:
            sheets = list(book.sheet_names)
            # Words are handled later, as for other files.
            raw = pd.read_excel(book, sheet_name=sheets[0], header=None, dtype=object, keep_default_na=False)
    except DataError:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise DataError(f"not a readable Excel file ({' '.join(str(error).split())[:120]})") from None
    if not len(raw):
        raise DataError(f"the sheet {sheets[0]!r} is empty")
    blank = raw.isna() | (raw == "")
    raw = raw.loc[:, ~blank.all()]  # columns that only have a width or a colour
    if blank.loc[:, ~blank.all()].iloc[0].any():
        raise DataError("the first row must name the columns, but has empty cells")
    names = [str(name) for name in raw.iloc[0]]
    refuse_repeated(names)
    frame = raw.iloc[1:].set_axis(names, axis=1).reset_index(drop=True).infer_objects()
    notes = [f"the first of {len(sheets)} sheets was read: {sheets[0]!r}"] if len(sheets) > 1 else []
    return Parsed(frame, notes=notes)
