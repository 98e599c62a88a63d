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
GAPS = "'\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE} "
"""Signs that separate thousands and nothing else."""
GROUPING = f"[,{GAPS}]"
THOUSANDS = rf"([+-]?[1-9]\d{{0,2}}((,\d{{3}})+|([{GAPS}]\d{{3}})+)(\.\d+)?|[+-]?\d{{1,3}}(\.\d+)?)"
POINTS = r"[+-]?[1-9]\d{0,2}(\.\d{3})+"
"""Whole numbers with points between thousands."""
DECIMAL_COMMA = (
    r"[+-]?((\d+(,\d+)?|,\d+)([eE][+-]?\d+)?"
    rf"|[1-9]\d{{0,2}}((\.\d{{3}})+|([{GAPS}]\d{{3}})+)(,\d+)?|\d{{1,3}}(\.\d{{3}})+,\d+)"
)
ANY_THOUSANDS = f"({THOUSANDS}|{PLAIN})"
ANY_COMMA = f"({DECIMAL_COMMA}|{THOUSANDS})"
SURE_COMMA = rf"(.*,(\d{{1,2}}|\d{{4,}})|[+-]?0?,\d+|.*[.{GAPS}]\d{{3}},\d+)"
"""Texts of DECIMAL_COMMA whose comma cannot separate thousands."""
NUMBER_LIKE = rf"[^\w\s.,+-]?\s*[+-]?\d[\d.,]*([{GAPS}]\d{{3}})*([.,]\d*)?\s*[^\w\s.,]?"
"""A number with commas or other separators, a currency or a percent sign."""
ISO_DATE = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s?(Z|UTC|[+-]\d{2}:?\d{2})?)?"
OTHER_DATE = (
    r"(?P<first>\d{1,2})[./-](?P<second>\d{1,2})(?:[./-](?P<year>\d{4})|[./](?P<short>\d{2}))"
    r"(?:,?[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<seconds>\d{2}(?:\.\d+)?))?\s?(?P<half>[AaPp][Mm])?)?"
)
SHORT_DATE = r"\d{1,2}[./]\d{1,2}[./]\d{2}(\D.*)?"
DURATION = (
    r"(?P<sign>-)?(?:(?P<days>\d+)\s+days?,?\s*(?P<plus>\+)?)?"
    r"(?:(?P<hours>\d{1,4}):(?P<minutes>\d{2})(?::(?P<seconds>\d{2}(?:\.\d+)?))?)?"
)
SAMPLE = 20
MONTH_FIRST, DAY_FIRST = "month before day", "day before month"
SHORT_YEARS = 1969
"""The first of the hundred years that two digits can mean, as in POSIX."""
DECIMAL, GROUPED, POINTED = "decimal comma", "thousands", "points"
NOTATIONS = ("number", DECIMAL, GROUPED, POINTED)


@dataclass
class Inferred:
    """What the text columns turned out to be."""

    notes: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    """Columns that now count days."""
    decimal_commas: list[str] = field(default_factory=list)
    """Columns in which 1,234 was read as 1.234, or 1.234.567 as a whole number."""
    sure: list[str] = field(default_factory=list)
    """Those of them whose commas and points cannot mean anything else."""
    thousands: list[str] = field(default_factory=list)
    """Columns in which 1,234 was read as 1234."""
    dotted: dict[str, pd.Series[Any]] = field(default_factory=dict)
    """Text columns in which 1.341 was read as such, though it could mean 1341, with their words."""


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
    pointed: list[str] = []
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
        written = pd.Series(uniques, dtype=object).astype(str).str.strip().astype("str")
        # Numbers of a typed file are numbers already: a whole number in their place fits every notation.
        typed = np.array([_is_number(value) for value in uniques] if column.dtype == object else [], dtype=bool)
        texts = written.mask(typed, "1") if typed.any() else written
        known = DECIMAL if name in decimal_commas else GROUPED if name in thousands else ""
        found = _read_texts(texts, known, thousands_first, name in month_first, name in numeric)
        if found is None:
            continue
        values, kind = found
        if typed.any() and kind in NOTATIONS:
            values = np.where(typed, [float(value) if _is_number(value) else np.nan for value in uniques], values)
        rows = np.bincount(codes[codes >= 0], minlength=len(values))
        if np.isnan(values).any() and name not in numeric and not _are_stray(written, values, rows, column):
            continue
        frame[name] = pd.Series(np.append(values, np.nan)[codes], index=column.index)
        inferred.notes += _note_strays(name, written, values, rows)
        if kind == "date":
            inferred.dates.append(name)
            inferred.notes.append(_date_note(name))
        elif kind.startswith("date, "):
            inferred.dates.append(name)
            inferred.notes.append(_date_note(name, kind.removeprefix("date, ")))
            if texts.str.fullmatch(SHORT_DATE).any():
                inferred.notes.append(f"years of two digits in {name!r} read as {SHORT_YEARS} to {SHORT_YEARS + 99}")
        elif kind == "duration":
            inferred.notes.append(_duration_note(name))
        elif kind == "number" and known == DECIMAL:
            inferred.notes.append(f"{name!r} read with decimal points here, not with decimal commas")
        elif kind == "number" and not typed.any() and means_thousands(texts[np.isfinite(values)]):
            words = np.array([*texts.where(np.isfinite(values)), np.nan], dtype=object)
            inferred.dotted[name] = pd.Series(words[codes], index=column.index)
        if kind in (DECIMAL, POINTED):
            inferred.decimal_commas.append(name)
            inferred.sure += [name] if kind == POINTED or texts.str.fullmatch(SURE_COMMA).any() else []
        inferred.thousands += [name] if kind == GROUPED else []
        pointed += [name] if kind == POINTED else []
    commas = [name for name in inferred.decimal_commas if name not in pointed]
    if inferred.thousands:
        inferred.notes.append(f"{these(inferred.thousands)} read with thousands separators")
    if commas:
        inferred.notes.append(f"{these(commas)} read with decimal commas")
    if pointed:
        inferred.notes.append(f"{these(pointed)} read with points between thousands")
    return inferred


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_text(column: pd.Series[Any]) -> bool:
    return (
        is_categorical(column)
        and not isinstance(column.dtype, pd.CategoricalDtype)
        and not pd.api.types.is_bool_dtype(column.dtype)
    )


def _read_texts(
    texts: pd.Series[Any], known: str, thousands_first: bool, month_first: bool, declared: bool
) -> tuple[Numbers, str] | None:
    """Numbers for distinct texts, NaN where there is none, and their notation; None if hardly any is a number.

    Args:
        texts: the distinct texts.
        known: the notation of the numbers, if it is known; nothing else is then tried.
        thousands_first: 1,234 means 1234 where nothing says otherwise.
        month_first: 01/02/2020 is the second of January.
        declared: the column must hold numbers, however few of its texts are any.
    """
    if known == DECIMAL:
        return _read_as_decimal_commas(texts)
    if known:
        return _parse_thousands(texts), GROUPED
    readers: list[tuple[Callable[[pd.Series[Any]], tuple[Numbers, str] | None], str]] = [
        (_read_plain, PLAIN),
        (_read_iso_dates, ISO_DATE),
        (partial(_read_other_dates, month_first=month_first), OTHER_DATE),
        (_read_durations, DURATION),
    ]
    with_commas = (_read_decimal_commas, DECIMAL_COMMA), (_read_thousands, ANY_THOUSANDS)
    # The first reading wins where both fit, as for 1,234; 1,5 and 0,512 cannot mean thousands.
    readers[1:1] = with_commas[::-1] if thousands_first else with_commas
    sample = texts.iloc[np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts))).astype(int)] if len(texts) else texts
    for read, pattern in readers:
        # A look at a few values settles most columns.
        if sample.str.fullmatch(pattern).mean() < 0.5:
            continue
        found = read(texts)
        if found is not None and np.isfinite(found[0]).any():
            return found
    return _read_declared(texts, thousands_first, month_first) if declared else None


def _read_declared(texts: pd.Series[Any], thousands_first: bool, month_first: bool) -> tuple[Numbers, str]:
    """The notation that reads the most texts; the first of equals."""
    found: list[tuple[Numbers, str] | None] = [
        (pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64), "number"),
        (_parse_decimal_commas(texts), DECIMAL),
        (_parse_thousands(texts), GROUPED),
        _read_iso_dates(texts),
        _read_other_dates(texts, month_first),
        _read_durations(texts),
    ]
    if thousands_first:
        found[1:3] = found[2:0:-1]
    return max((each for each in found if each is not None), key=lambda each: int(np.isfinite(each[0]).sum()))


def _read_plain(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    fits = texts.str.fullmatch(PLAIN)
    numbers = pd.to_numeric(texts.where(fits), errors="coerce").to_numpy(dtype=np.float64)
    if np.isnan(numbers).sum() > max(FEW_STRAY_WORDS, 0.5 * len(numbers)):
        return None
    # Whole numbers say nothing of the notation of the rest: 12,5 among them is no stray word.
    if texts[~fits].str.fullmatch(ANY_COMMA).any():
        return None
    # A code such as 0451 is a name made of digits.
    return None if texts.str.fullmatch(LEADING_ZERO).any() else (numbers, "number")


def _read_decimal_commas(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    """1.234,5; a comma before exactly three digits everywhere may separate thousands, if no number starts with 0."""
    fits = texts.str.fullmatch(DECIMAL_COMMA)
    has_comma = texts[fits].str.contains(",", regex=False).any()
    if not has_comma and not texts.str.fullmatch(rf"{POINTS}\.\d{{3}}").any():  # 1.234.567 needs no comma
        return None
    if texts[~fits].str.fullmatch(THOUSANDS).any():  # such as 1,234,567
        return None
    return _parse_decimal_commas(texts, fits), DECIMAL if has_comma else POINTED


def _read_as_decimal_commas(texts: pd.Series[Any]) -> tuple[Numbers, str]:
    """Texts of a column that is known to have decimal commas; without any, 0.5 or 40.25 says that it has points."""
    others = texts[~texts.str.fullmatch(DECIMAL_COMMA)]
    if others.str.fullmatch(PLAIN).any() and not texts.str.contains(",", regex=False).any():
        plain = texts.where(texts.str.fullmatch(PLAIN))
        return pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64), "number"
    return _parse_decimal_commas(texts), DECIMAL


def _parse_decimal_commas(texts: pd.Series[Any], fits: pd.Series[bool] | None = None) -> Numbers:
    plain = texts.where(texts.str.fullmatch(DECIMAL_COMMA) if fits is None else fits)
    plain = plain.str.replace(f"[.{GAPS}]", "", regex=True)
    return pd.to_numeric(plain.str.replace(",", ".", regex=False), errors="coerce").to_numpy(dtype=np.float64)


def _read_thousands(texts: pd.Series[Any]) -> tuple[Numbers, str] | None:
    fits = texts.str.fullmatch(ANY_THOUSANDS)
    if not texts[fits].str.contains(rf"\d{GROUPING}\d").any() or texts.str.fullmatch(r"[+-]?0,\d{3}").any():
        return None
    if texts[~fits].str.fullmatch(DECIMAL_COMMA).any():  # such as 1,5
        return None
    return _parse_thousands(texts, fits), GROUPED


def _parse_thousands(texts: pd.Series[Any], fits: pd.Series[bool] | None = None) -> Numbers:
    plain = texts.where(texts.str.fullmatch(ANY_THOUSANDS) if fits is None else fits).str.replace(
        GROUPING, "", regex=True
    )
    return pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64)


def means_thousands(words: pd.Series[Any]) -> bool:
    """Whether every number with a point, and there is one, could have points between thousands, as 1.341 has."""
    dotted = words[words.str.contains(".", regex=False)]
    return bool(len(dotted) and dotted.str.fullmatch(POINTS).all() and words.str.fullmatch(DECIMAL_COMMA).all())


def read_pointed(words: pd.Series[Any]) -> Numbers:
    """1.341 as 1341; NaN for missing words."""
    return _parse_decimal_commas(words.astype("str"))


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
    if parts["first"].isna().all():
        return None
    number = {name: pd.to_numeric(parts[name], errors="coerce") for name in parts.columns if name != "half"}
    year = number["year"].fillna(SHORT_YEARS + (number["short"] - SHORT_YEARS) % 100)
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
                "year": year,
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
    return days, f"date, {MONTH_FIRST if month_first else DAY_FIRST}"


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
        epoch = pd.Timestamp(0, tz=getattr(times.dtype, "tz", None))
        try:
            times = times - epoch
        except pd.errors.OutOfBoundsDatetime:  # 9999-12-31, which in many tables means "until now"
            times = times - epoch.as_unit("s")
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


def differing_dates(names: Iterable[str], notes: Collection[str], month_first: Collection[str]) -> dict[str, str]:
    """How dates are written in columns with another order of day and month than is known of them."""
    found = {}
    for name in names:
        other = _date(name, DAY_FIRST if name in month_first else MONTH_FIRST)
        if any(note.startswith(other) for note in notes):
            found[name] = "day/month/year" if name in month_first else "month/day/year"
    return found


def _date(name: str, order: str = "") -> str:
    return f"{name!r} is a date{f' ({order})' if order else ''}"


def _date_note(name: str, order: str = "") -> str:
    return f"{_date(name, order)}: read as days since 1970"


def _duration_note(name: str) -> str:
    return f"{name!r} is a duration or a time of day: read as days"
