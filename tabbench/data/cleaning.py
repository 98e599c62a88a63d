"""Check a table once, when it enters the cache, and bring it to one form.

Afterwards, categories are text (pandas category), numbers are finite or missing, the target has no missing value and
is text (classes) or float64 (regression). Notes say what was changed; an unusable table is refused.
Nothing is fitted here: scalers, encoders and levels belong to the training rows of a split.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabbench.contracts import LoadedData
from tabbench.data.inference import NUMBER_LIKE
from tabbench.errors import DataError
from tabbench.frames import MAX_LEVELS, as_text, is_categorical, no_column, refuse_repeated, these

MIN_ROWS = 10
LARGEST = float(np.finfo(np.float32).max)
"""Methods and models see 32-bit numbers; anything larger counts as infinite."""
ID_LIKE_SHARE = 0.9
"""A categorical column with more distinct values than this share of its rows identifies rows and nothing else."""
ID_LIKE_MIN_LEVELS = 20
ID_NAME = re.compile(r"(?i:(^|[\W_])(id|uuid|guid|key|index|idx|nr|no|number))$|[a-z]I[dD]$")
TIME_NAME = re.compile(r"(?i)time|date|stamp|zeit|datum|(^|[\W_])ts($|[\W_])")
UNIX_1980, UNIX_2000, UNIX_2100 = 315_532_800, 946_684_800, 4_102_444_800
"""Seconds since 1970. A reading every hour is a time, though its steps are as even as those of row numbers."""
MINUTE = 60
"""The least step in seconds that tells a time from the numbers of orders, where the column's name does not."""
KEPT_APART = 0.9
"""Fewer distinct values than this share, after rounding to 32 bits, deserve a note."""
IDENTIFIER = "nearly every row has a different value"
MANY_ROWS_A_VALUE = 8
"""A column whose values have at least this many rows each, on average, does not separate the classes by chance."""


def clean(loaded: LoadedData, *, as_published: bool = False, drop_unlabelled: bool = False) -> LoadedData:
    """Check and normalise.

    Args:
        loaded: what a loader or a file gave.
        as_published: keep all columns of a known dataset, useful or not, so that results can be compared with
            published ones; otherwise constant and id-like columns are dropped.
        drop_unlabelled: drop rows without a target; otherwise pretraining may use them.

    Raises:
        DataError: the table cannot be used; the message says why in one sentence.
    """
    frame = _check_columns(loaded)
    notes = list(loaded.notes)
    known, target = _clean_target(frame, loaded, notes)
    features = frame.drop(columns=loaded.target)
    rows = None if known.all() else known
    columns, of_features = clean_features(
        features, loaded.categorical, rows, as_published=as_published, dates=loaded.dates, keep=loaded.keep
    )
    notes += of_features
    if not as_published:
        notes += _tell_the_target({name: columns[name] for name in columns if name not in loaded.keep}, target)
    kept = tuple(name for name in columns if name in loaded.categorical)
    without = [] if rows is None or drop_unlabelled else [features[~rows]]
    if rows is not None and drop_unlabelled:
        notes.append(f"dropped {int((~rows).sum()):,} rows without a target")
    unlabelled = _clean_unlabelled([*without, loaded.unlabelled], columns, kept, notes)
    # Built in one go: inserting hundreds of columns one by one fragments the frame.
    cleaned = pd.DataFrame({**columns, loaded.target: target}).reset_index(drop=True)
    folds = loaded.folds if loaded.folds is None or rows is None else loaded.folds[rows]
    return replace(loaded, frame=cleaned, categorical=kept, notes=tuple(notes), unlabelled=unlabelled, folds=folds)


def _clean_unlabelled(
    frames: Sequence[pd.DataFrame | None],
    columns: dict[str, pd.Series[Any]],
    categorical: Collection[str],
    notes: list[str],
) -> pd.DataFrame | None:
    """Rows without a target, with the columns and kinds of the labelled ones."""
    parts = []
    for frame in frames:
        if frame is None or not len(frame):
            continue
        lost = [name for name in columns if name not in frame.columns]
        if lost:
            raise DataError(f"the unlabelled rows have no column {these(lost)}")
        cleaned = {}
        for name in columns:
            is_category = name in categorical
            what = f"column {name!r} of the unlabelled rows"
            cleaned[name] = as_text(frame[name]).astype(object) if is_category else _as_number(frame[name], what)
        parts.append(pd.DataFrame(cleaned))
    if not parts:
        return None
    whole = pd.concat(parts, ignore_index=True)
    for name in categorical:
        whole[name] = as_text(whole[name])
    notes.append(f"{len(whole):,} rows without a target: used by pretraining only")
    return whole


def clean_features(
    frame: pd.DataFrame,
    categorical: Collection[str],
    rows: NDArray[np.bool_] | None = None,
    *,
    as_published: bool = False,
    dates: Collection[str] = (),
    keep: Collection[str] = (),
) -> tuple[dict[str, pd.Series[Any]], list[str]]:
    """The useful columns of ``frame``, normalised, for these ``rows`` (None: all); and notes.

    Whether a column only numbers the rows is judged on all of them, since a subset has gaps.
    """
    columns: dict[str, pd.Series[Any]] = {}
    dropped: dict[str, list[str]] = {}
    infinite: dict[str, int] = {}
    too_large: dict[str, int] = {}
    for name in frame.columns:
        whole = frame[name]
        raw = whole if rows is None else whole[rows]
        column = _clean_feature(raw, name in categorical)
        if column.hasnans and name not in categorical:
            infinite[name] = _count_infinite(raw)
        if column.dtype.kind == "f":
            too_large[name] = int((np.abs(column.to_numpy()) > LARGEST).sum())
        numbered = None if name in dates else whole
        reason = "" if name in keep else _uselessness(column, numbered, as_published)
        if reason:
            dropped.setdefault(reason, []).append(name)
        else:
            columns[name] = column
    notes = _note_missing("infinite value(s)", infinite)
    notes += _note_missing(f"value(s) beyond {LARGEST:.1e}", too_large)
    for reason, names in dropped.items():
        what = "" if reason != IDENTIFIER else " as an identifier" if len(names) == 1 else " as identifiers"
        notes.append(f"dropped {these(names)}{what}: {reason}")
    if not columns:
        raise DataError("no feature column is left: all are constant, empty or identifiers")
    if not as_published:
        notes += _tell_merged({name: columns[name] for name in columns if name not in keep}, dates)
    return columns, notes + _remarks(columns, as_published)


def _check_columns(loaded: LoadedData) -> pd.DataFrame:
    frame = loaded.frame.rename(columns=str)
    refuse_repeated(list(frame.columns))
    for what, name in (("target", loaded.target), *(("categorical column", name) for name in loaded.categorical)):
        if name not in frame.columns:
            raise no_column(what, name, frame.columns)
    if loaded.target in loaded.categorical:
        raise DataError(f"{loaded.target!r} is the target and cannot also be a categorical feature")
    if len(frame) == 0:
        raise DataError("the table has columns, but no rows")
    if len(frame.columns) < 2:
        raise DataError(f"there is no column besides the target {loaded.target!r}")
    return frame


def _clean_target(
    frame: pd.DataFrame, loaded: LoadedData, notes: list[str]
) -> tuple[NDArray[np.bool_], pd.Series[Any]]:
    """Which rows have a target, and their targets."""
    name = loaded.target
    target = _as_number(frame[name], f"the target {name!r} of a regression") if loaded.task == "regression" else None
    target = as_text(frame[name]) if target is None else target
    known = target.notna()
    if loaded.task == "regression":
        notes += _note_missing("infinite value(s)", {name: _count_infinite(frame[name])})
    if not known.any():
        raise DataError(f"the target {name!r} has no values")
    if not known.all():
        frame, target = frame[known], target[known]
    if len(frame) < MIN_ROWS:
        have = "row has" if len(frame) == 1 else "rows have"
        raise DataError(f"only {len(frame)} {have} a target; a split needs at least {MIN_ROWS}")
    distinct = int(target.nunique())
    if distinct == 1:
        what = "only one class" if is_categorical(frame[name]) else "the same value in every row"
        raise DataError(f"the target {name!r} has {what}: {target.iloc[0]}")
    if loaded.task == "classification" and distinct > len(frame) / 2:
        raise DataError(
            f"the target {name!r} has {distinct:,} classes in {len(frame):,} rows: {_doubt_classes(target, name)}"
        )
    if loaded.task == "classification":
        target = target.cat.remove_unused_categories()
    return known.to_numpy(dtype=bool), target


def _doubt_classes(target: pd.Series[Any], name: str) -> str:
    """What a target with very many classes may be instead, and what to do about it."""
    levels = pd.Series([str(level) for level in target.cat.categories])
    words = levels[pd.to_numeric(levels, errors="coerce").isna()]
    if len(words) == 0:
        return f"is it an identifier, or a number to predict? For the latter, give FILE:{name} and --task regression"
    if len(words) < len(levels) / 2:
        return f"is it a number to predict? Then it must not hold text such as {words.iloc[0]!r}"
    if words.str.fullmatch(NUMBER_LIKE).all():
        return f"is it a number? {words.iloc[0]!r} cannot be read as one"
    return "is it an identifier?"


def _count_infinite(column: pd.Series[Any]) -> int:
    numbers = pd.to_numeric(column.astype(object), errors="coerce") if is_categorical(column) else column
    return int(np.isinf(numbers.to_numpy(dtype=np.float64, na_value=np.nan)).sum())


def _note_missing(what: str, counts: dict[str, int]) -> list[str]:
    names = [name for name, count in counts.items() if count]
    if not names:
        return []
    return [f"{sum(counts.values()):,} {what} of {these(names)} are treated as missing"]


def _as_number(column: pd.Series[Any], what: str) -> pd.Series[Any]:
    """Finite float64 with NaN for missing and infinite."""
    if is_categorical(column) and not pd.api.types.is_bool_dtype(column.dtype):
        text = column.astype(object)
        numbers = pd.to_numeric(text, errors="coerce")
        wrong = text[numbers.isna() & text.notna()]
        if len(wrong):
            raise DataError(f"{what} must be numeric, but holds {wrong.iloc[0]!r}")
        column = numbers
    values = column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    values[~np.isfinite(values)] = np.nan
    return pd.Series(values, index=column.index, name=column.name)


def _clean_feature(column: pd.Series[Any], categorical: bool) -> pd.Series[Any]:
    if categorical:
        return as_text(column).cat.remove_unused_categories()
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        # Whole numbers without missing values get the smallest type: pixels are then read several times faster.
        smallest: pd.Series[Any] = pd.to_numeric(column, downcast="unsigned" if column.min() >= 0 else "integer")
        return smallest
    return _as_number(column, f"column {column.name!r} is not declared categorical, so it")


def _uselessness(column: pd.Series[Any], numbered: pd.Series[Any] | None, as_published: bool) -> str:
    """Why a column is dropped; empty if it is kept. ``numbered`` has all rows, unless it cannot number them."""
    if column.isna().all():
        return "no values"
    if as_published:
        return ""
    if _is_constant(column):
        return "the same value in every row"
    if _is_id_like(column):
        return IDENTIFIER
    is_category = isinstance(column.dtype, pd.CategoricalDtype)
    if numbered is not None and not is_category and _counts_rows(numbered):
        return "row numbers"
    return ""


def _is_constant(column: pd.Series[Any]) -> bool:
    return not column.hasnans and int(column.nunique()) == 1


def _is_id_like(column: pd.Series[Any]) -> bool:
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return False
    levels = len(column.cat.categories)
    return levels >= ID_LIKE_MIN_LEVELS and levels > ID_LIKE_SHARE * column.count()


def _counts_rows(column: pd.Series[Any]) -> bool:
    """Whether the column numbers the rows with equally spaced whole numbers, in any order."""
    if column.hasnans or len(column) < ID_LIKE_MIN_LEVELS:
        return False
    values = np.sort(column.to_numpy(dtype=np.float64))
    if not np.isfinite(values[[0, -1]]).all():
        return False
    steps = np.diff(values)
    whole = values[0] == np.round(values[0]) and steps[0] == np.round(steps[0])
    even = whole and steps[0] >= 1 and (steps == steps[0]).all()
    return bool(even and not _are_unix_times(values, bool(TIME_NAME.search(str(column.name)))))


def _are_unix_times(values: NDArray[np.float64], named: bool) -> bool:
    """Whether these sorted, evenly spaced values are moments, in seconds, milli-, micro- or nanoseconds.

    Order numbers can look the same. So, unless the column is ``named`` like a time, moments are between 2000 and 2100
    and at least a minute apart; otherwise between 1980 and 2100.
    """
    first, least = (UNIX_1980, 0) if named else (UNIX_2000, MINUTE)
    step = values[1] - values[0]
    return any(
        first * unit <= values[0] and values[-1] <= UNIX_2100 * unit and step >= least * unit
        for unit in (1, 1e3, 1e6, 1e9)
    )


def _has_own_numbers(column: pd.Series[Any]) -> bool:
    """Whether every row has a different whole number."""
    if isinstance(column.dtype, pd.CategoricalDtype) or column.hasnans or len(column) < ID_LIKE_MIN_LEVELS:
        return False
    return bool(column.is_unique and (column == column.round()).all())


def _tell_the_target(columns: dict[str, pd.Series[Any]], target: pd.Series[Any]) -> list[str]:
    """A note on columns that determine the target on their own: the answer may be among the features."""
    found = [name for name, column in columns.items() if _tells(column, target)]
    if not found:
        return []
    verb, is_it = ("determines", "is it") if len(found) == 1 else ("each determine", "are they")
    return [f"{these(found)} {verb} the target of every row: {is_it} the answer in disguise?"]


def _tells(column: pd.Series[Any], target: pd.Series[Any]) -> bool:
    if not isinstance(target.dtype, pd.CategoricalDtype):
        if isinstance(column.dtype, pd.CategoricalDtype) or column.hasnans:
            return False
        values = column.to_numpy(dtype=np.float64)
        return bool(np.ptp(values) > 0 and abs(np.corrcoef(values, target)[0, 1]) > 1 - 1e-9)
    codes = pd.factorize(column, use_na_sentinel=False)[0]
    if codes.max() + 1 > len(codes) / MANY_ROWS_A_VALUE:  # a value that occurs in one row proves nothing
        return False
    classes = target.cat.codes.to_numpy()
    first = np.empty(codes.max() + 1, dtype=classes.dtype)
    first[codes] = classes
    return bool((first[codes] == classes).all())


def _tell_merged(columns: dict[str, pd.Series[Any]], dates: Collection[str]) -> list[str]:
    """Notes on dates and large whole numbers that are too close to each other for 32-bit numbers."""
    notes = []
    for name, column in columns.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            continue
        values = column.dropna().to_numpy()
        if values.dtype.kind == "f" and name not in dates and not (values == np.round(values)).all():
            continue
        values = np.unique(values)
        with np.errstate(over="ignore"):
            left = len(np.unique(values.astype(np.float32)))
        if left < KEPT_APART * len(values):
            notes.append(
                f"{name!r} has {len(values):,} distinct values, but models see 32-bit numbers, which keep only "
                f"{left:,} of them apart: subtract the smallest value"
            )
    return notes


def _remarks(columns: dict[str, pd.Series[Any]], as_published: bool) -> list[str]:
    """Notes on columns that are kept."""
    constant = [name for name, column in columns.items() if _is_constant(column)]
    wide = [
        name
        for name, column in columns.items()
        if isinstance(column.dtype, pd.CategoricalDtype) and len(column.cat.categories) > MAX_LEVELS
    ]
    numbered = [name for name, column in columns.items() if ID_NAME.search(name) and _has_own_numbers(column)]
    remarks = []
    if numbered:
        was, has, it = ("was", "has", "it identifies") if len(numbered) == 1 else ("were", "have", "they identify")
        listed = ",".join(numbered[:8]) + (",..." if len(numbered) > 8 else "")
        advice = "" if as_published else f"; if {it} rows, use --drop {listed}"
        remarks.append(f"{these(numbered)} {was} kept, but {has} a different number in every row{advice}")
    if constant:
        remarks.append(f"kept as published, though the same in every row: {these(constant)}")
    if wide:
        remarks.append(f"only the {MAX_LEVELS:,} most frequent training levels are kept apart in {these(wide)}")
    return remarks
