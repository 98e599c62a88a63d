"""Tables from files: CSV, TSV and parquet, plain or compressed. Types and task are inferred, and the notes say how."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from tabbench.contracts import LoadedData
from tabbench.data.tables import categorical_columns, is_categorical, no_column, these
from tabbench.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

TaskName = Literal["classification", "regression"]

READER_REVISION = 3
"""Raised when the same file would be read differently: tables that older versions read are then read again."""
FORMATS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}
COMPRESSIONS = (".gz", ".zst")
SEPARATORS = (",", ";", "\t")
FEW_VALUES = 20
"""Up to so many distinct whole numbers in the target are classes."""
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?")
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
NUMBER_LIKE = re.compile(r"[^\w\s.,+-]?\s*[+-]?\d[\d.,]*\s*[^\w\s.,]?")
"""A number with commas, a currency or a percent sign."""
SURELY_MISSING = ("", "?")
"""What is missing without a note; a word such as NA could be meant as a category."""


@dataclass
class _Parsed:
    """A table as its file has it."""

    frame: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    words: dict[str, pd.Series[Any]] = field(default_factory=dict)
    """Of columns of text: the rows whose word, such as NA or None, was taken as missing, with that word."""


def is_file_name(text: str) -> bool:
    """Whether ``text`` ends as a file that can be read."""
    return _format(Path(text)) is not None


def split_reference(reference: str) -> tuple[str, str]:
    """The file and the target of FILE:TARGET; the target is empty if there is none.

    Names of files and of columns may hold colons: what is before one of them must be a file that is there, or else
    must end as one that can be read. Of several such colons the last one counts.
    """
    places = [place for place, sign in enumerate(reference) if sign == ":"]
    divided = [(reference[:place], reference[place + 1 :]) for place in reversed(places)]
    for file, target in ((reference, ""), *divided):
        if Path(file).expanduser().is_file():
            return file, target
    for file, target in divided:
        if target and is_file_name(file):
            return file, target
    for file, _ in divided:
        if not is_file_name(reference) and is_file_name(file):
            return file, ""
    return reference, ""


def read_file(path: Path, target: str, *, categorical: Sequence[str] = (), task: TaskName | None = None) -> LoadedData:
    """Read a table.

    Args:
        path: the file; its name says what it is.
        target: the column to predict.
        categorical: columns that hold categories though their values are numbers.
        task: instead of what the target looks like.

    Raises:
        DataError: on one line, with the name of the file.
    """
    try:
        parsed = _parse(path, read_bytes(path))
        frame, notes = parsed.frame, parsed.notes
        for what, name in (("column", target), *(("categorical column", name) for name in categorical)):
            if name not in frame.columns:
                raise no_column(what, name, frame.columns)
        features = frame.drop(columns=target)
        chosen = {*categorical_columns(features), *categorical}
        kinds = tuple(name for name in features if name in chosen)
        notes += _restore_class(parsed, target)
        notes += _note_words(parsed.words)
        notes += _doubts(features, kinds)
        if is_categorical(frame[target]):
            notes += _doubts(frame[[target]], [target])
        if task is None:
            task, reason = infer_task(frame[target])
            notes.append(f"{task}, because {reason}")
            if task == "classification" and not is_categorical(frame[target]) and frame[target].nunique() > 4:
                command = f"tabbench data import NAME {path} --target {target} --task regression"
                notes.append(f"if these numbers are to be predicted as numbers, run `{command}` and use NAME")
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    return LoadedData(frame, target, task, kinds, source=f"file {path.name}", notes=tuple(notes))


def read_table(path: Path) -> pd.DataFrame:
    """All columns of a file, none of them a target."""
    try:
        return _parse(path, read_bytes(path)).frame
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def read_bytes(path: Path) -> bytes:
    """The file as it is, after checks that it is one we can read."""
    if path.is_dir():
        raise DataError("this is a folder; a file is needed")
    if not path.is_file():
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = get_close_matches(path.name, beside, n=1)
        raise DataError(f"there is no such file.{f' Did you mean: {path.with_name(near[0])}?' if near else ''}")
    if _format(path) is None:
        raise DataError(f"unknown kind of file; known are {', '.join(FORMATS)}, also with {' or '.join(COMPRESSIONS)}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from None


def infer_task(target: pd.Series[Any]) -> tuple[TaskName, str]:
    """What a target looks like, and why."""
    values = target.dropna()
    distinct = int(values.nunique())
    if pd.api.types.is_bool_dtype(values.dtype) or not pd.api.types.is_numeric_dtype(values.dtype):
        return "classification", f"the target {target.name!r} holds text or categories"
    whole = bool((values == values.round()).all())
    kind = "whole numbers" if whole else "numbers"
    found = f"the target {target.name!r} has {distinct:,} distinct {kind} in {len(values):,} rows"
    few = distinct <= (FEW_VALUES if whole else 2) and distinct <= len(values) / 2
    return "classification" if few else "regression", found


def _format(path: Path) -> str | None:
    name = path.name.lower()
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    return FORMATS.get(Path(name).suffix)


def _parse(path: Path, content: bytes) -> _Parsed:
    if not content:
        raise DataError("the file is empty")
    content = _decompress(path, content)
    kind = _format(path)
    if kind == "parquet":
        return _parse_parquet(content)
    return _parse_text(_decode(content), "\t" if kind == "tsv" else None)


def _decompress(path: Path, content: bytes) -> bytes:
    import pyarrow as pa

    suffix = path.suffix.lower()
    try:
        if suffix == ".gz":
            return gzip.decompress(content)
        if suffix == ".zst":
            with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
                plain: bytes = stream.read()
                return plain
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"not a whole {suffix} file ({error})") from None
    return content


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"not UTF-8 text (byte 0x{content[error.start]:02x} in line {line}): save it as UTF-8"
        ) from None


def _parse_text(text: str, separator: str | None) -> _Parsed:
    head = text[: text.find("\n")] if "\n" in text else text
    if not head.strip():
        raise DataError("the first line must name the columns, but is empty")
    if "\0" in head:
        raise DataError("not a text file")
    if separator is None:
        bare = re.sub(r'"[^"]*"', "", head)
        separator = max(SEPARATORS, key=bare.count)
    header = _fields(head, separator)
    _refuse_repeated(header)
    last = text.rstrip("\r\n").rpartition("\n")[2]
    n_last = len(_fields(last, separator))
    if '"' not in last and last != head and n_last < len(header):
        raise DataError(f"the last line has {n_last} fields, the header {len(header)}: is the file cut off?")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            frame = pd.read_csv(
                io.StringIO(text),
                sep=separator,
                na_values=["?"],
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, ValueError) as error:
        detail = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise DataError(f"not a table ({detail})") from None
    parsed = _Parsed(frame)
    large = [str(name) for name, column in frame.items() if _is_large(column)]
    for name in large:
        frame[name] = frame[name].map(lambda number: float(str(number)), na_action="ignore").astype("float64")
    if large:
        parsed.notes.append(f"{these(large)} taken as floating point: whole numbers of more than 64 bits")
    parsed.notes += _read_decimal_commas(frame, separator) + _read_dates(frame)
    parsed.words = _find_words(text, separator, frame)
    return parsed


def _read_decimal_commas(frame: pd.DataFrame, separator: str) -> list[str]:
    """Turn 1.234,5 into a number in files that do not separate by commas.

    Where every comma has three digits behind it, as in 1,234, it may as well separate thousands: that stays text.
    """
    if separator == ",":
        return []
    found = []
    for name, column in frame.items():
        if _all_match(column, DECIMAL_COMMA) and column.str.contains(r",(?!\d{3}$)", na=False).any():
            plain = column.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
            frame[name] = plain.astype("float64")
            found.append(str(name))
    return [f"{these(found)} read with decimal commas"] if found else []


def _read_dates(frame: pd.DataFrame) -> list[str]:
    """Turn dates as 2024-01-31, with or without a time, into days, as those of parquet files."""
    found = []
    for name, column in frame.items():
        if not _all_match(column, ISO_DATE):
            continue
        dates = pd.to_datetime(column, utc=True, errors="coerce", format="ISO8601")
        if dates.notna().equals(column.notna()):
            frame[name] = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
            found.append(str(name))
    return [_date_note(name) for name in found]


def _date_note(name: str) -> str:
    return f"{name!r} is a date: taken as days since 1970"


def _all_match(column: pd.Series[Any], pattern: re.Pattern[str]) -> bool:
    """Whether a column is text, and all of it is of this form."""
    values = column.dropna()
    if not is_categorical(column) or len(values) == 0 or not isinstance(values.iloc[0], str):
        return False
    # One look spares most columns the others; a column can hold other things than text.
    if not pattern.fullmatch(values.iloc[0]):
        return False
    return bool(values.map(lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None).all())


def _is_large(column: pd.Series[Any]) -> bool:
    """Whether a column holds whole numbers that no integer type can; pandas then gives text or Python's own numbers."""
    values = column.dropna()
    if column.dtype.kind != "O" or len(values) == 0 or not re.fullmatch(r"[+-]?\d+", str(values.iloc[0])):
        return False
    return bool(values.map(lambda value: re.fullmatch(r"[+-]?\d+", str(value)) is not None).all())


def _find_words(text: str, separator: str, frame: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    """The words of text columns that pandas took as missing; the file is read once more if there may be any."""
    names = [str(name) for name, column in frame.items() if is_categorical(column) and column.hasnans]
    if not names:
        return {}
    raw = pd.read_csv(
        io.StringIO(text),
        sep=separator,
        usecols=names,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        index_col=False,
    )
    found = {name: raw[name][frame[name].isna()] for name in names}
    words = {name: column[~column.isin(SURELY_MISSING)] for name, column in found.items()}
    return {name: column for name, column in words.items() if len(column)}


def _restore_class(parsed: _Parsed, target: str) -> list[str]:
    """If words taken as missing leave a target of text with one class, they are classes themselves."""
    words = parsed.words.get(target)
    if words is None or parsed.frame[target].nunique() != 1:
        return []
    del parsed.words[target]
    parsed.frame[target] = parsed.frame[target].astype(object)
    parsed.frame.loc[words.index, target] = words
    classes = these(sorted(words.unique()))
    return [f"{classes} of the target {target!r} is a class here, and not missing: there is only one other"]


def _note_words(words: dict[str, pd.Series[Any]]) -> list[str]:
    """What was taken as missing, though somebody may have meant a category."""
    counts: dict[str, dict[str, int]] = {}
    for name, column in words.items():
        for word, count in column.value_counts().items():
            counts.setdefault(str(word), {})[name] = int(count)
    return [
        f"{sum(of.values()):,} value(s) {word!r} of {these(list(of))} are taken as missing"
        for word, of in counts.items()
    ]


def _fields(line: str, separator: str) -> list[str]:
    return next(csv.reader([line.rstrip("\r")], delimiter=separator, skipinitialspace=True), [])


def _refuse_repeated(names: Sequence[str]) -> None:
    # pandas would rename the second of two equal columns without a word.
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(f"several columns have the same name: {', '.join(map(repr, repeated))}")


def _parse_parquet(content: bytes) -> _Parsed:
    import pyarrow as pa
    import pyarrow.parquet as pq

    notes: list[str] = []
    try:
        table = pq.read_table(io.BytesIO(content))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"not a readable parquet file ({' '.join(str(error).split())[:120]})") from None
    _refuse_repeated(table.column_names)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if re.fullmatch(r"__index_level_\d+__", name):
            notes.append(f"left out {name!r}, the index of a DataFrame")
            continue
        columns[name] = _simple_type(name, column, notes)
    frame: pd.DataFrame = pa.table(columns).to_pandas()
    return _Parsed(frame, notes)


def _simple_type(name: str, column: pa.ChunkedArray, notes: list[str]) -> pa.ChunkedArray:
    """Numbers, text, booleans and categories as they are; dates as days; nothing else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"column {name!r} holds {kind}: only numbers, text, booleans, categories and dates can be used")
    if pa.types.is_decimal(kind):
        return pc.cast(column, pa.float64())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        notes.append(_date_note(name))
        seconds = pc.cast(pc.cast(column, pa.timestamp("s"), safe=False), pa.int64())
        return pc.divide(pc.cast(seconds, pa.float64()), 86400.0)
    return column


def _doubts(features: pd.DataFrame, categorical: Sequence[str]) -> list[str]:
    """Columns whose type may not be what was meant."""
    coded, dirty = [], []
    for name, column in features.items():
        values = column.dropna()
        if name not in categorical:
            if 2 < values.nunique() <= 10 and bool((values == values.round()).all()):
                coded.append(str(name))
        elif values.dtype.kind == "O" or pd.api.types.is_string_dtype(values.dtype):
            distinct = pd.Series(values.unique()).astype(str)
            numbers = pd.to_numeric(distinct, errors="coerce")
            if len(distinct) > 10 and 0.9 < numbers.notna().mean() < 1:
                dirty.append(f"{name!r} is text because of values such as {distinct[numbers.isna()].iloc[0]!r}")
            elif len(distinct) > 10 and numbers.isna().any() and distinct.map(NUMBER_LIKE.fullmatch).notna().all():
                dirty.append(f"{name!r} is text, though it looks like numbers: {distinct[numbers.isna()].iloc[0]!r}")
    if coded:
        listed = ",".join(coded[:8]) + (",..." if len(coded) > 8 else "")
        return [*dirty, f"taken as numbers, though few values may mean categories (--categorical {listed})"]
    return dirty
