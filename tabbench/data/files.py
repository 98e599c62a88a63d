"""Tables from files: CSV, TSV, parquet, Feather, Arrow and Excel. Types and task are inferred; the notes say how."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tabbench.contracts import LoadedData
from tabbench.data.formats import COMPRESSIONS, FORMATS, Parsed, find_words, format_of, parse, read_words
from tabbench.data.inference import (
    DECIMAL_COMMA,
    MISSING_NUMBERS,
    MISSING_TEXT,
    NUMBER_LIKE,
    Inferred,
    differing_dates,
    infer_columns,
    means_thousands,
    month_first_columns,
    read_pointed,
)
from tabbench.data.reading import Reading, TaskName
from tabbench.errors import DataError, near_file
from tabbench.frames import categorical_columns, is_categorical, no_column, these

READER_REVISION = 7
"""Increased when the same file would be read differently; tables read by older versions are then read again."""
FEW_VALUES = 20
"""A target with at most this many distinct whole numbers holds classes."""
SURPRISES = ("as missing", "not with decimal commas", "as in the fitted table", "in these rows")
"""How notes end that matter for rows whose columns are known."""
AS_FILE_IS = Reading()


def is_file_name(text: str) -> bool:
    """Whether ``text`` has the suffix of a readable file."""
    return format_of(Path(text)) is not None


def is_there(path: Path) -> bool:
    """Whether this is a regular file; False for names that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def split_reference(reference: str) -> tuple[str, str]:
    """The file and the target of FILE:TARGET; the target is empty if there is none.

    File and column names may contain colons: the part before the colon must be an existing file, or have the suffix of
    a readable one. If several colons qualify, the last one counts.
    """
    places = [place for place, sign in enumerate(reference) if sign == ":"]
    divided = [(reference[:place], reference[place + 1 :]) for place in reversed(places)]
    for file, target in ((reference, ""), *divided):
        if is_there(Path(file).expanduser()):
            return file, target
    for file, target in divided:
        if target and is_file_name(file):
            return file, target
    for file, _ in divided:
        if not is_file_name(reference) and is_file_name(file):
            return file, ""
    return reference, ""


def read_file(path: Path, target: str, reading: Reading = AS_FILE_IS) -> LoadedData:
    """Read a table.

    Args:
        path: the file; its suffix tells its format.
        target: the column to predict.
        reading: what the user says about it.

    Raises:
        DataError: on one line, with the name of the file.
    """
    try:
        loaded = understand(parse(path, read_bytes(path)), target, reading)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    second = None if reading.second_file is None else read_table(reading.second_file, _as_read(loaded))
    return replace(loaded, source=f"file {path.name}", unlabelled=second)


def read_table(path: Path, reading: Reading) -> pd.DataFrame:
    """All columns of a file, without a target. Kinds given in ``reading`` are used as given."""
    return read_rows(path, reading)[0]


def read_rows(path: Path, reading: Reading) -> tuple[pd.DataFrame, list[str]]:
    """More rows of a table whose columns are known, and what the user should know of them.

    Raises:
        DataError: a column that holds numbers has none.
    """
    try:
        parsed = parse(path, read_bytes(path))
        return parsed.frame, understand_rows(parsed, reading)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def read_features(path: Path, reading: Reading) -> tuple[pd.DataFrame, list[str], Reading]:
    """All columns of a file without a target, what the user should know of them, and how to read more such rows.

    Raises:
        DataError: on one line, with the name of the file.
    """
    try:
        parsed = parse(path, read_bytes(path))
        parsed.frame.columns = parsed.frame.columns.map(str)
        inferred, words = _tidy(parsed, reading)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    frame, notes = parsed.frame, [*parsed.notes, *_note_words(words)]
    found = replace(
        reading,
        month_first=month_first_columns(map(str, frame.columns), notes),
        decimal_commas=tuple(inferred.decimal_commas),
        thousands=tuple(inferred.thousands),
    )
    return frame, notes, found


def understand_rows(parsed: Parsed, reading: Reading) -> list[str]:
    """Give text columns the meaning that ``reading`` states. Returns which values were treated as missing."""
    named = {str(name) for name in parsed.frame.columns}
    present = replace(
        reading,
        categorical=tuple(name for name in reading.categorical if name in named),
        numeric=tuple(name for name in reading.numeric if name in named),
    )
    _take_words(parsed, reading.decimal_commas)
    texts = {name: parsed.frame[name] for name in present.numeric if is_categorical(parsed.frame[name])}
    inferred, _ = _tidy(parsed, present, known=True)
    commas = [name for name in inferred.decimal_commas if name not in reading.decimal_commas]
    if commas:
        parsed.notes.append(f"{these(commas)} read with decimal commas in these rows")
    for name, order in differing_dates(present.numeric, parsed.notes, reading.month_first).items():
        parsed.notes.append(f"{name!r} is read as {order} in these rows")
    for name, before in texts.items():
        after = parsed.frame[name]
        words = before[before.notna() & after.isna()].astype(str).str.strip()
        words = words[~words.str.lower().isin(MISSING_NUMBERS)]
        if len(words) and not after.notna().any():
            raise DataError(f"column {name!r} must hold numbers, but has {words.iloc[0][:40]!r}")
    return [note for note in parsed.notes if note.endswith(SURPRISES)]


def _take_words(parsed: Parsed, names: Sequence[str]) -> None:
    """Where a column is known to have decimal commas, 1.234 means 1234, though pandas has read it as 1.234."""
    frame = parsed.frame
    typed = [name for name in names if name in frame.columns and not is_categorical(frame[name])]
    if not typed or not parsed.text:
        return
    raw = read_words(parsed, typed)
    for name in typed:
        frame[name] = raw[name].str.strip().where(frame[name].notna())
    pointed = [name for name in typed if means_thousands(frame[name].dropna())]
    if pointed:  # a file that some other program wrote may mean 1.234
        dotted, whole = _example_of_points(frame[pointed[0]])
        parsed.notes.append(f"{these(pointed)}: {dotted} is read as {whole}, as in the fitted table")


def _example_of_points(words: pd.Series[Any]) -> tuple[str, str]:
    """1.234 and 1234."""
    dotted = str(words[words.str.contains(".", regex=False, na=False)].iloc[0])
    return dotted, dotted.replace(".", "")


def understand(parsed: Parsed, target: str, reading: Reading, regression: str = "--task regression") -> LoadedData:
    """Infer which columns are categories and what the task is, from the values and from what the user says.

    ``regression`` is how the user says that a target of few whole numbers is a number.
    """
    parsed.frame.columns = parsed.frame.columns.map(str)
    _refuse_one_column(parsed, target)
    _check_names(parsed.frame, target, reading)
    if reading.drop:
        parsed.frame = parsed.frame.drop(columns=list(reading.drop))
    inferred, words = _tidy(parsed, reading)
    frame, notes = parsed.frame, parsed.notes
    features = frame.drop(columns=target)
    chosen = {*categorical_columns(features), *reading.categorical}
    kinds = tuple(name for name in features if name in chosen)
    notes += _restore_class(frame, words, target)
    notes += _note_words(words)
    notes += _doubts(features.drop(columns=list(reading.no_features)), kinds)
    notes += [f"{name!r} decides the split and is not a feature" for name in reading.keep]
    notes += [f"{reading.weights!r} holds weights and is not a feature"] if reading.weights else []
    if is_categorical(frame[target]):
        notes += _doubts(frame[[target]], [target])
    task = reading.task
    if task is None:
        task, reason = infer_task(frame[target])
        notes.append(f"{task}, because {reason}")
        if task == "classification" and not is_categorical(frame[target]) and frame[target].nunique() > 4:
            notes.append(f"to predict these numbers as numbers, add {regression}")
    if task == "regression" and target in reading.categorical:
        classes = regression.replace("regression", "classification")
        raise DataError(f"the target {target!r} is said to be categorical, but this is a regression: add {classes}")
    return LoadedData(
        frame,
        target,
        task,
        kinds,
        notes=tuple(notes),
        dates=tuple(inferred.dates),
        keep=reading.no_features,
        decimal_commas=tuple(inferred.decimal_commas),
        thousands=tuple(inferred.thousands),
    )


def read_bytes(path: Path) -> bytes:
    """The file's bytes, after checking that we can read it."""
    try:
        kind = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"there is no such file.{near_file(path)}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if stat.S_ISDIR(kind):
        raise DataError("this is a folder; give a file")
    if not stat.S_ISREG(kind):
        raise DataError("this is a pipe, a socket or a device: save the table to a regular file")
    if format_of(path) is None:
        raise DataError(f"unknown file type; known are {', '.join(FORMATS)}, also with {' or '.join(COMPRESSIONS)}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from None


def _refuse_one_column(parsed: Parsed, target: str) -> None:
    """Say why a file may seem to have a single column, if that is not the target."""
    names = parsed.frame.columns
    if parsed.text and len(names) == 1 and target not in names:
        signs = "tabs" if parsed.separator == "\t" else ", ; or tab"
        missing = no_column("column", target, names)
        raise DataError(f"{missing} Only one column was found: fields must be separated by {signs}")


def _check_names(frame: pd.DataFrame, target: str, reading: Reading) -> None:
    named = [("column", target)]
    named += [("categorical column", name) for name in reading.categorical]
    named += [("numeric column", name) for name in reading.numeric]
    named += [("column", name) for name in (*reading.drop, *reading.no_features)]
    for what, name in named:
        if name not in frame.columns:
            raise no_column(what, name, frame.columns)
    if target in reading.drop or target in reading.no_features:
        raise DataError(f"{target!r} is the target: it cannot be dropped, decide the split or hold weights")


def _as_read(loaded: LoadedData) -> Reading:
    """How a second file must be read to have the columns of the first."""
    features = [str(name) for name in loaded.frame.columns if name != loaded.target]
    return Reading(
        categorical=loaded.categorical,
        numeric=tuple(name for name in features if name not in loaded.categorical),
        month_first=month_first_columns(features, loaded.notes),
        decimal_commas=loaded.decimal_commas,
        thousands=loaded.thousands,
    )


def _tidy(parsed: Parsed, reading: Reading, known: bool = False) -> tuple[Inferred, dict[str, pd.Series[Any]]]:
    """Interpret text columns; returns what they are, and the words treated as missing.

    If ``known``, ``reading`` says what every column is.
    """
    words = {} if parsed.text else _blank_words(parsed.frame)
    inferred = infer_columns(
        parsed.frame,
        as_they_are=set(reading.categorical),
        numeric=set(reading.numeric),
        month_first=reading.month_first,
        decimal_commas=reading.decimal_commas,
        thousands=reading.thousands,
        thousands_first=parsed.separator != ";",  # which is what separates fields where commas mark decimals
    )
    parsed.notes += inferred.notes
    if inferred.decimal_commas:
        _read_points(parsed, reading, inferred, known)
    if parsed.text:
        words = find_words(parsed)
    still_text = {name: rows for name, rows in words.items() if is_categorical(parsed.frame[name])}
    return inferred, still_text


def _read_points(parsed: Parsed, reading: Reading, inferred: Inferred, known: bool) -> None:
    """Where other columns have decimal commas, the points of 1.341 separate thousands, which pandas cannot know."""
    frame, raw = parsed.frame, dict(inferred.dotted)
    if parsed.text:
        typed = [str(name) for name in frame if name not in (*reading.categorical, *inferred.decimal_commas, *raw)]
        typed = [name for name in typed if frame[name].dtype.kind == "f" and _has_thousandths(frame[name])]
        read = read_words(parsed, typed) if typed else frame
        raw |= {name: read[name].str.strip().where(frame[name].notna()) for name in typed}
    pointed = [name for name, words in raw.items() if means_thousands(words.dropna())]
    if not pointed:
        return
    dotted, whole = _example_of_points(raw[pointed[0]])
    if known:
        parsed.notes.append(f"{these(pointed)}: {dotted} is read as such, not as {whole}, as in the fitted table")
    elif parsed.separator == "," or not inferred.sure:
        parsed.notes.append(f"{these(pointed)} read with decimal points, though other columns may have decimal commas")
    else:
        for name in pointed:
            frame[name] = read_pointed(raw[name])
        inferred.decimal_commas += pointed
        parsed.notes.append(
            f"{these(pointed)} read with points between thousands ({dotted} is {whole}): "
            "other columns have decimal commas"
        )


def _has_thousandths(column: pd.Series[Any]) -> bool:
    """Whether all numbers have at most three decimal places: a quick look before the words are read."""
    values = column.dropna().to_numpy(dtype="float64") * 1000
    return bool(len(values) and (abs(values - values.round()) <= 1e-9 * abs(values)).all())


def _blank_words(frame: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    """Treat words such as n/a in text columns as missing, as pandas does in CSV files."""
    found = {}
    for name, column in list(frame.items()):
        if not is_categorical(column) or not (column.dtype.kind == "O" or pd.api.types.is_string_dtype(column.dtype)):
            continue
        missing = column.isin(MISSING_TEXT)
        if missing.any():
            found[str(name)] = column[missing & ~column.isin(["", "?"])]
            frame[name] = column.where(~missing)
    return {name: words for name, words in found.items() if len(words)}


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


def _restore_class(frame: pd.DataFrame, taken: dict[str, pd.Series[Any]], target: str) -> list[str]:
    """If treating words as missing leaves a text target with one class, they are classes themselves."""
    words = taken.get(target)
    if words is None or frame[target].nunique() != 1:
        return []
    del taken[target]
    frame[target] = frame[target].astype(object)
    frame.loc[words.index, target] = words
    classes = these(sorted(words.unique()))
    return [f"{classes} of the target {target!r} is a class here, not missing: there is only one other class"]


def _note_words(words: dict[str, pd.Series[Any]]) -> list[str]:
    """Notes on words treated as missing that may have meant a category."""
    counts: dict[str, dict[str, int]] = {}
    for name, column in words.items():
        for word, count in column.value_counts().items():
            counts.setdefault(str(word), {})[name] = int(count)
    return [
        f"{sum(of.values()):,} value(s) {word!r} of {these(list(of))} are treated as missing"
        for word, of in counts.items()
    ]


def _doubts(features: pd.DataFrame, categorical: Sequence[str]) -> list[str]:
    """Notes on columns whose type may not be what was meant."""
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
            elif len(distinct) > 10 and numbers.isna().any() and distinct.str.fullmatch(NUMBER_LIKE).all():
                examples = [distinct[numbers.isna()].iloc[0]]
                odd = distinct[~distinct.str.fullmatch(DECIMAL_COMMA)]
                if 0 < len(odd) < len(distinct):  # 0.512 next to 0,5: what does a point mean?
                    examples.append(odd.iloc[0])
                told = " and ".join(map(repr, dict.fromkeys(examples)))
                dirty.append(f"{name!r} is text, though it looks like numbers: {told}")
    if coded:
        listed = ",".join(coded[:8]) + (",..." if len(coded) > 8 else "")
        return [*dirty, f"read as numbers, though few values may mean categories (--categorical {listed})"]
    return dirty
