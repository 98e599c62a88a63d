"""Read downloaded files. The server's description decides column types, so both formats give the same table."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pandas as pd

from tabbench_openml.download import Download, DownloadFault, Feature

ATTRIBUTE = re.compile(
    r"""^\s*@attribute\s+(?P<name>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)""", re.IGNORECASE | re.MULTILINE
)


def read_table(download: Download) -> pd.DataFrame:
    """Read all columns: numeric ones as numbers, the others as text.

    Raises:
        DownloadFault: the file is not the table that the server describes.
    """
    read = _read_parquet if download.is_parquet else _read_arff
    frame = read(download.file, download.features)
    if download.rows is not None and len(frame) != download.rows:
        raise DownloadFault(f"the file has {len(frame):,} rows, but the server says {download.rows:,}")
    columns = {feature.name: _as_described(frame[feature.name], feature) for feature in download.features}
    return pd.DataFrame(columns)


def _read_arff(file: Path, features: tuple[Feature, ...]) -> pd.DataFrame:
    header, data = divide_arff(file.read_text(encoding="utf-8"))
    names = attribute_names(header)
    if len(names) != len(features):
        raise DownloadFault(f"the file has {len(names)} columns, but the server says {len(features)}")
    # Match columns by name, not position: a file in another order would have the wrong target and a valid checksum.
    lost = [feature.name for feature in features if feature.name not in names]
    if lost:
        raise DownloadFault(f"the ARFF file has no column {lost[0]!r}", final=True)
    if _is_plain(data):
        # liac-arff makes Python objects, which takes minutes and gigabytes; pandas takes seconds.
        text = {feature.name: object for feature in features if not feature.is_numeric}
        try:
            return pd.read_csv(
                io.StringIO(data),
                header=None,
                names=names,
                dtype=text,
                quotechar='"' if '"' in data else "'",
                na_values=["?"],
                keep_default_na=False,
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
            )
        except ValueError as error:
            raise DownloadFault(f"the ARFF file cannot be read ({error})") from None
    import arff  # type: ignore[import-untyped]

    try:
        rows = arff.loads(f"{header}\n@data\n{data}")["data"]
    except arff.ArffException as error:
        raise DownloadFault(f"the ARFF file cannot be read ({error})") from None
    return pd.DataFrame(rows, columns=names)


def attribute_names(header: str) -> list[str]:
    """The column names in order, without quotes and escapes."""
    names = []
    for found in ATTRIBUTE.finditer(header):
        name = found["name"]
        if name[0] in "'\"" and name[-1] == name[0]:
            name = re.sub(r"\\(.)", r"\1", name[1:-1])
        names.append(name)
    return names


def divide_arff(text: str) -> tuple[str, str]:
    """Split an ARFF file into the text before and after the line ``@data``."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if text[start:end].strip().lower() == "@data":
            return text[:start], text[end + 1 :]
        start = end + 1
    raise DownloadFault("the ARFF file has no data")


def _is_plain(data: str) -> bool:
    """Whether the rows are plain comma-separated values: not sparse, no comments, one kind of quote, no escapes."""
    odd = "\\" in data or "%" in data or "{" in data
    return not odd and not ("'" in data and '"' in data)


def _read_parquet(file: Path, features: tuple[Feature, ...]) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(file)
    except Exception as error:  # pyarrow raises many kinds
        raise DownloadFault(f"the parquet file cannot be read ({' '.join(str(error).split())[:100]})") from None
    lost = [feature.name for feature in features if feature.name not in frame.columns]
    if lost:
        raise DownloadFault(f"the parquet file has no column {lost[0]!r}")
    return frame


def _as_described(column: pd.Series[Any], feature: Feature) -> pd.Series[Any]:
    if feature.is_numeric:
        try:
            numbers = pd.to_numeric(column.astype(object) if column.dtype == "category" else column)
        except (ValueError, TypeError) as error:
            raise DownloadFault(f"column {feature.name!r} should be numeric ({error})") from None
        # A pixel needs one byte, but pandas uses eight; a large table is copied several times before it is cached.
        return pd.to_numeric(numbers, downcast="integer") if numbers.dtype.kind == "i" else numbers
    text = column.astype(object)
    text = text.where(text.isna(), text.map(str, na_action="ignore"))
    # A level may be `true` in one format and `True` or `1.0` in the other; use the server's spelling.
    spelling = {value.lower(): value for value in feature.values}
    exact = {value: value for value in feature.values}  # `a` and `A` may be two levels
    return text.map(
        lambda value: exact.get(value) or spelling.get(value.lower(), spelling.get(value.removesuffix(".0"), value)),
        na_action="ignore",
    )
