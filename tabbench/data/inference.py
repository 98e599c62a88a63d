"""Infer what text columns mean: numbers, dates, durations, missing values, or categories after all.

Each function works on the distinct values of a column, not on its rows, and on all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.frames import is_categorical, these

Numbers = NDArray[np.float64]

MORE_MISSING = ("?", "-", "--", ".", "n.a.", "N.A.")
"""Missing in every column, beyond what pandas treats as missing (NA, null, None, ...)."""
MISSING_TEXT = frozenset(
    {*MORE_MISSING, "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"}
    | {"N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""The same, plus what pandas treats as missing in CSV files; used for files of every kind."""
MISSING_NUMBERS = frozenset(
    {"", "?", "-", "--", ".", "n/a", "na", "n.a.", "#n/a", "nan", "none", "null", "<na>", "nil"}
    | {"unknown", "unk", "missing", "not available", "not known", "undefined"}
)
"""Missing, in upper or lower case, in a column of numbers. In a text column, some of these are categories."""
FEW_STRAY_WORDS = 3
STRAY_SHARE = 0.05
"""A column of numbers stays one with at most this many different words in at most this share of its rows."""
MANY_NUMBERS = 10

LEADING_ZERO = r"[+-]?0\d+"
PLAIN = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
GROUPING = "[,'\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE} ]"
THOUSANDS = rf"([+-]?[1-9]\d{{0,2}}({GROUPING}\d{{3}})+(\.\d+)?|[+-]?\d{{1,3}}(\.\d+)?)"
DECIMAL_COMMA = r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?"
ISO_DATE = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s?(Z|UTC|[+-]\d{2}:?\d{2})?)?"
OTHER_DATE = (
    r"(?P<first>\d{1,2})[./-](?P<second>\d{1,2})[./-](?P<year>\d{4})"
    r"(?:,?[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<seconds>\d{2}(?:\.\d+)?))?\s?(?P<half>[AaPp][Mm])?)?"
)
DURATION = (
    r"(?P<sign>-)?(?:(?P<days>\d+)\s+days?,?\s*(?P<plus>\+)?)?"
    r"(?:(?P<hours>\d{1,4}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}(?:\.\d+)?))?)?"
)
SAMPLE = 20
MONTH_FIRST = "month before day"


@dataclass
class Inferred:
    """What the text columns turned out to be."""

    notes: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    """Columns that now count days."""
    decimal_commas: list[str] = field(default_factory=list)
    """Columns in which 1,234 was read as 1.234."""
    thousands: list[str] = field(default_factory=list)
    """Columns in which 1,234 was read as 1234."""


def infer_columns(
    frame: pd.DataFrame,
    *,
    as_they_are: Collection[str],
    numeric: Collection[str],
    thousands_first: bool,
    month_first: Collection[str] = (),
    decimal_commas: Collection[str] = (),
    thousands: Collection[str] = (),
) -> Inferred:
    """Turn text columns into numbers where they mean numbers; changes ``frame``.

    Args:
        frame: the table as in its file.
        as_they_are: columns that the user declared categorical.
        numeric: columns that the user declared numeric; anything else in them is missing.
        thousands_first: 1,234 means 1234 if nothing else in its column says otherwise; else it means 1.234.
        month_first: date columns in which 01/02/2020 is the second of January.
        decimal_commas: columns in which 1,234 is known to mean 1.234.
        thousands: columns in which it is known to mean 1234.
    """
    inferred = Inferred()
    for name in [str(name) for name in frame.columns]:
        column = frame[name]
        if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
            frame[name] = _days(column)
            is_date = not pd.api.types.is_timedelta64_dtype(column.dtype)
            inferred.notes.append(_date_note(name) if is_date else _duration_note(name))
            inferred.dates += [name] if is_date else []
            continue
        if name in as_they_are or not _is_text(column):
            continue
        codes, uniques = pd.factorize(column)
        texts = pd.Series(uniques, dtype=object).astype(str).str.strip().astype("str")
        grouped = name in thousands or (thousands_first and name not in decimal_commas)
        found = _read_texts(texts, grouped, name in month_first)
        if found is None and name in numeric:
            found = (pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64), "number")
        if found is None:
            continue
        values, kind = found
        rows = np.bincount(codes[codes >= 0], minlength=len(values))
        if np.isnan(values).any() and name not in numeric and not _are_stray(texts, values, rows, column):
            continue
        frame[name] = pd.Series(np.append(values, np.nan)[codes], index=column.index)
        inferred.notes += _note_strays(name, texts, values, rows)
        if kind == "date":
            inferred.dates.append(name)
            inferred.notes.append(_date_note(name))
        elif kind.startswith("date, "):
            inferred.dates.append(name)
            inferred.notes.append(_date_note(name, kind.removeprefix("date, ")))
        elif kind == "duration":
            inferred.notes.append(_duration_note(name))
        inferred.thousands += [name] if kind == "thousands" else []
        inferred.decimal_commas += [name] if kind == "decimal comma" else []
    if inferred.thousands:
        inferred.notes.append(f"{these(inferred.thousands)} read with thousands separators")
    if inferred.decimal_commas:
        inferred.notes.append(f"{these(inferred.decimal_commas)} read with decimal commas")
    return inferred


def _is_text(column: pd.Series[Any]) -> bool:
    return (
        is_categorical(column)
        and not isinstance(column.dtype, pd.CategoricalDtype)
        and not pd.api.types.is_bool_dtype(column.dtype)
    )


def _read_texts(texts: pd.Series[Any], thousands_first: bool, month_first: bool) -> tuple[Numbers, str] | None:
    """Numbers for distinct texts, NaN where there is none, and their notation; None if hardly any is a number."""
    sample = texts.iloc[np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts))).astype(int)] if len(texts) else texts
    readers: list[tuple[Callable[[pd.Series[Any]], tuple[Numbers, str] | None], str]] = [
        (_read_plain, PLAIN),
        (_read_iso_dates, ISO_DATE),
        (partial(_read_other_dates, month_first=month_first), OTHER_DATE),
        (_read_durations, DURATION),
    ]
    with_commas = (_read_decimal_commas, DECIMAL_COMMA), (_read_thousands, THOUSANDS)
    # The first reading wins where both fit, as for 1,234; 1,5 and 0,512 cannot mean thousands.
    readers[1:1] = with_commas[::-1] if thousands_first else with_commas
    for read, pattern in readers:
        # A look at a few values settles most columns.
        if sample.str.fullmatch(pattern).mean() < 0.5:
            continue
        found = read(texts)
        if found is not None and np.isfinite(found[0]).any():
            return found
    return None


def _read_plain(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    numbers = pd.to_numeric(texts.where(texts.str.fullmatch(PLAIN)), errors="coerce").to_numpy(dtype=np.float64)
    if np.isnan(numbers).sum() > max(FEW_STRAY_WORDS, 0.5 * len(numbers)):
        return None
    # A code such as 0451 is a name made of digits.
    return None if texts.str.fullmatch(LEADING_ZERO).any() else (numbers, "number")


def _read_decimal_commas(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    """1.234,5; a comma before exactly three digits everywhere may separate thousands, if no number starts with 0."""
    fits = texts.str.fullmatch(DECIMAL_COMMA)
    if not texts.str.contains(",", regex=False).any():
        return None
    if texts[~fits].str.fullmatch(THOUSANDS).any():  # such as 1,234,567
        return None
    plain = texts.where(fits).str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    return pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64), "decimal comma"


def _read_thousands(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    fits = texts.str.fullmatch(THOUSANDS) | texts.str.fullmatch(PLAIN)
    if not texts[fits].str.contains(rf"\d{GROUPING}\d").any() or texts.str.fullmatch(r"[+-]?0,\d{3}").any():
        return None
    if texts[~fits].str.fullmatch(DECIMAL_COMMA).any():  # such as 1,5
        return None
    plain = texts.where(fits).str.replace(GROUPING, "", regex=True)
    return pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64), "thousands"


def _read_iso_dates(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    iso = (
        texts.where(texts.str.fullmatch(ISO_DATE)).str.replace("/", "-", regex=False).str.replace(",", ".", regex=False)
    )
    iso = iso.str.replace(r"\s?UTC$", "Z", regex=True).str.replace(r"(:\d{2}|\.\d+)\s([+-])", r"\1\2", regex=True)
    dates = pd.to_datetime(iso, utc=True, errors="coerce", format="ISO8601")
    short = dates.isna() & iso.notna()
    if short.any():  # 2024-1-5
        dates[short] = pd.to_datetime(iso[short], utc=True, errors="coerce", format="mixed")
    return _days(dates).to_numpy(), "date"


def _read_other_dates(texts: pd.Series[Any], month_first: bool) -> tuple[Numbers, str] | None:
    """31/01/2020 10:00 or 01/31/2020: day first, unless a second number is larger than 12 and no first one is.

    ``month_first`` decides where both are possible.
    """
    parts = texts.where(texts.str.fullmatch(OTHER_DATE)).str.extract(OTHER_DATE)
    if parts["year"].isna().all():
        return None
    number = {name: pd.to_numeric(parts[name], errors="coerce") for name in parts.columns if name != "half"}
    if not (number["first"] > 12).any():
        month_first = month_first or bool((number["second"] > 12).any())
    elif not (number["second"] > 12).any():
        month_first = False
    half = parts["half"].str.lower()
    hour = number["hour"].fillna(0)
    hour = hour.where(half.isna(), hour % 12 + 12 * (half == "pm").fillna(False).astype(int))
    dates = pd.to_datetime(
        pd.DataFrame(
            {
                "year": number["year"],
                "month": number["first" if month_first else "second"],
                "day": number["second" if month_first else "first"],
            }
        ),
        errors="coerce",
        utc=True,
    )
    days = _days(dates).to_numpy() + (
        hour.to_numpy() / 24
        + number["minute"].fillna(0).to_numpy() / 1440
        + number["seconds"].fillna(0).to_numpy() / 86400
    )
    return days, f"date, {MONTH_FIRST}" if month_first else "date, day before month"


def _read_durations(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    """1 days 02:30:00, 26:15, 10:00:00.5: days."""
    parts = texts.where(texts.str.fullmatch(DURATION) & (texts != "")).str.extract(DURATION)
    number = {
        name: pd.to_numeric(parts[name], errors="coerce").to_numpy(dtype=np.float64)
        for name in ("days", "hours", "minutes", "seconds")
    }
    nothing = np.isnan(number["days"]) & np.isnan(number["hours"])
    filled = {name: np.nan_to_num(values) for name, values in number.items()}
    clock = filled["hours"] / 24 + filled["minutes"] / 1440 + filled["seconds"] / 86400
    negative = parts["sign"].notna().to_numpy()
    forward = parts["plus"].notna().to_numpy()  # pandas writes minus one hour as "-1 days +23:00:00"
    total = np.where(negative, -filled["days"], filled["days"]) + np.where(negative & ~forward, -clock, clock)
    return np.where(nothing, np.nan, total), "duration"


def _days(times: pd.Series[Any]) -> pd.Series[Any]:
    if not pd.api.types.is_timedelta64_dtype(times.dtype):
        times = times - pd.Timestamp(0, tz=getattr(times.dtype, "tz", None))
    days: pd.Series[Any] = times.dt.total_seconds() / 86_400
    return days


def _are_stray(texts: pd.Series[Any], values: Numbers, rows: NDArray[np.int64], column: pd.Series[Any]) -> bool:
    """Whether non-numbers are missing values: known words, or a few others in a column with many numbers."""
    wrong = np.isnan(values)
    words = texts[wrong].str.lower()
    others = ~words.isin(MISSING_NUMBERS)
    if not others.any():
        return True
    share = rows[np.flatnonzero(wrong)[others.to_numpy()]].sum() / max(int(column.count()), 1)
    return bool(
        others.sum() <= FEW_STRAY_WORDS
        and share <= STRAY_SHARE
        and (~wrong).sum() > MANY_NUMBERS
        and not words[others].str.contains(r"\d").any()
    )


def _note_strays(name: str, texts: pd.Series[Any], values: Numbers, rows: NDArray[np.int64]) -> list[str]:
    strays = np.flatnonzero(np.isnan(values) & ~texts.isin(["", "?"]).to_numpy())
    if len(strays) > FEW_STRAY_WORDS:
        return [f"{rows[strays].sum():,} value(s) of {name!r} are not numbers: treated as missing"]
    return [f"{rows[place]:,} value(s) {texts.iloc[place]!r} of {name!r} are treated as missing" for place in strays]


def month_first_columns(names: Iterable[str], notes: Collection[str]) -> tuple[str, ...]:
    """The date columns in which the month comes first, according to the notes of a table."""
    return tuple(name for name in names if any(note.startswith(_date(name, MONTH_FIRST)) for note in notes))


def _date(name: str, order: str = "") -> str:
    return f"{name!r} is a date{f' ({order})' if order else ''}"


def _date_note(name: str, order: str = "") -> str:
    return f"{_date(name, order)}: read as days since 1970"


def _duration_note(name: str) -> str:
    return f"{name!r} is a duration or a time of day: read as days"
