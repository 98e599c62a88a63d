"""Reading the user's own files."""

import gzip
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tabbench import DataError, LoadedData, UsageError
from tabbench.data.cleaning import clean
from tabbench.data.files import AS_FILE_IS, infer_task, read_file, read_rows
from tabbench.data.reading import Reading

ROWS = 60


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "price": rng.normal(size=ROWS).round(3),
            "city": rng.choice(["Köln", "Paris; Texas", "a,b"], ROWS),
            "grade": rng.integers(1, 5, ROWS),
            "label": rng.choice(["yes", "no"], ROWS),
        }
    )


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


@pytest.mark.parametrize(
    "name",
    [
        *("t.csv", "semicolon.csv", "t.tsv", "t.csv.gz", "t.tsv.zst", "t.csv.zst", "T.CSV"),
        *("t.parquet", "t.parquet.gz", "t.feather", "t.arrow", "t.xlsx"),
    ],
)
def test_all_formats_give_the_same_table(name: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    loaded = read_file(write(frame, tmp_path / name), "label")
    pd.testing.assert_frame_equal(loaded.frame, frame, check_dtype=not name.endswith("xlsx"))
    assert loaded.categorical == ("city",)
    assert loaded.task == "classification"
    assert loaded.source == f"file {name}"
    assert loaded.notes == (
        "read as numbers, though few values may mean categories (--categorical grade)",
        "classification, because the target 'label' holds text or categories",
    )


def test_columns_can_be_declared_categorical_and_the_task_be_given(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = write(frame, tmp_path / "t.csv")
    loaded = read_file(path, "grade", Reading(categorical=("age",), task="regression"))
    assert loaded.categorical == ("age", "city", "label")
    assert loaded.task == "regression"
    assert loaded.notes == ()


def test_question_marks_are_missing_and_spaces_after_separators_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a, b, y\n" + "1, ?, p\n?, u, q\n" * 10)
    loaded = read_file(path, "y")
    assert list(loaded.frame.columns) == ["a", "b", "y"]
    assert loaded.frame["a"].isna().sum() == loaded.frame["b"].isna().sum() == 10
    assert loaded.categorical == ("b",)


def test_words_that_are_taken_as_missing_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,y\n" + "1,NA,u,p\nNA,None,NA,q\n3,?,,p\n4,v,w,q\n" * 10)
    loaded = read_file(path, "y")
    assert loaded.frame["a"].dtype.kind == "f", "a number is missing where it says NA: nothing to tell"
    assert loaded.frame["b"].isna().sum() == 30
    assert loaded.notes[:2] == (
        "20 value(s) 'NA' of 'b', 'c' are treated as missing",
        "10 value(s) 'None' of 'b' are treated as missing",
    )


def test_none_is_a_class_if_there_is_only_one_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,None\n2,Some\n3,\n" * 10)
    loaded = read_file(path, "y")
    assert loaded.frame["y"].value_counts().to_dict() == {"None": 10, "Some": 10}
    assert loaded.notes[0] == "'None' of the target 'y' is a class here, not missing: there is only one other class"
    path.write_text("a,y\n" + "1,None\n2,Some\n3,Many\n" * 10)
    loaded = read_file(path, "y")
    assert loaded.frame["y"].value_counts().to_dict() == {"Some": 10, "Many": 10}
    assert loaded.notes[0] == "10 value(s) 'None' of 'y' are treated as missing"


def test_whole_numbers_of_many_digits_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{i}{'7' * 25},{'pq'[i % 2]}\n" for i in range(1, 41)) + ",p\n")
    loaded = read_file(path, "y")
    assert loaded.categorical == ()
    assert loaded.frame["a"].iloc[0] == pytest.approx(1.7777777777e25)
    assert loaded.frame["a"].isna().sum() == 1
    assert loaded.notes[0] == "'a' read as floating point: whole numbers of more than 64 bits"


def read_column(
    folder: Path, values: Sequence[object], reading: Reading = AS_FILE_IS, name: str = "t.csv"
) -> LoadedData:
    """A file of one column beside a target of two classes."""
    frame = pd.DataFrame({"a": values, "y": ["p", "q"] * (len(values) // 2) + ["p"] * (len(values) % 2)})
    return read_file(write(frame, folder / name), "y", reading)


def is_number(loaded: LoadedData) -> bool:
    return loaded.frame["a"].dtype.kind in "if"


@pytest.mark.parametrize("word", ["unknown", "UNKNOWN", "n/a", "-", ".", "null", "?", "none"])
def test_a_word_for_missing_does_not_make_categories_of_numbers(word: str, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [word if i % 3 == 0 else f"{i}.5" for i in range(ROWS)])
    assert is_number(loaded)
    assert loaded.frame["a"].isna().sum() == 20
    assert loaded.frame["a"][1] == 1.5
    if word.lower() in ("unknown", "none"):
        assert loaded.notes[0] == f"20 value(s) {word!r} of 'a' are treated as missing"


def test_other_words_are_missing_if_they_are_few_and_the_numbers_many(tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [*(f"{i}.5" for i in range(30)), "broken"])
    assert is_number(loaded)
    assert loaded.notes[0] == "1 value(s) 'broken' of 'a' are treated as missing"
    many = read_column(tmp_path, [*(f"{i}.5" for i in range(30)), *["broken"] * 10])
    assert not is_number(many)
    assert "'a' is text because of values such as 'broken'" in many.notes
    codes = read_column(tmp_path, [*(f"{i}.1" for i in range(59)), "V45"])
    assert not is_number(codes), "a code with a letter and digits is a code"
    grades = read_column(tmp_path, ["1", "2", "3", "resit"] * 15)
    assert not is_number(grades)


@pytest.mark.parametrize("word", ["-", ".", "n/a", "null", "?"])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.xlsx"])
def test_in_columns_of_text_too_these_are_missing_in_every_kind_of_file(word: str, name: str, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, ["red", "green", word, "unknown"] * 15, name=name)
    assert loaded.frame["a"].isna().sum() == 15
    assert loaded.frame["a"].nunique() == 3
    noted = f"15 value(s) {word!r} of 'a' are treated as missing" in loaded.notes
    assert noted is (word != "?"), "a question mark says nothing else"


def test_plus_and_minus_are_two_classes(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet"):
        frame = pd.DataFrame({"x": np.linspace(0, 1, 40), "y": ["+", "-"] * 20})
        assert read_file(write(frame, tmp_path / name), "y").frame["y"].nunique() == 2


@pytest.mark.parametrize("name", ["t.csv", "tabs.tsv", "t.parquet"])
@pytest.mark.parametrize("sign", [",", "'", " ", "\u00a0", "\u202f"])
def test_separators_of_thousands_are_no_words(name: str, sign: str, tmp_path: Path) -> None:
    numbers = [1234567, 12345.5, 999, -1500, 0.25] * 12
    loaded = read_column(tmp_path, [f"{number:,}".replace(",", sign) for number in numbers], name=name)
    assert loaded.frame["a"].tolist() == numbers
    assert "'a' read with thousands separators" in loaded.notes


@pytest.mark.parametrize("name", ["t.csv", "tabs.tsv", "semicolon.csv"])
def test_a_comma_after_other_separators_of_thousands_marks_decimals(name: str, tmp_path: Path) -> None:
    values = [f"{i} {i:03d},{i:03d}" for i in range(1, 41)]
    loaded = read_column(tmp_path, values, name=name)
    assert loaded.frame["a"].tolist() == pytest.approx([i * 1001 + i / 1000 for i in range(1, 41)])
    assert "'a' read with decimal commas" in loaded.notes


def test_a_comma_that_may_be_either_goes_by_what_separates_the_fields(tmp_path: Path) -> None:
    values = [f"{i},500" for i in range(1, 41)]
    assert read_column(tmp_path, values, name="t.csv").frame["a"][2] == 3500
    assert read_column(tmp_path, values, name="tabs.tsv").frame["a"][2] == 3500
    assert read_column(tmp_path, values, name="semicolon.csv").frame["a"][2] == 3.5
    with_zero = [f"{i},500" for i in range(40)]
    assert read_column(tmp_path, with_zero, name="tabs.tsv").frame["a"][2] == 2.5, (
        "no number of thousands starts with 0"
    )
    with_millions = [*values, "1,234,567"]
    assert read_column(tmp_path, with_millions, name="semicolon.csv").frame["a"][2] == 3500


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_codes_with_leading_zeros_stay_categories(name: str, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [f"{i % 15:05d}" for i in range(ROWS)], name=name)
    assert loaded.categorical == ("a",)
    assert loaded.frame["a"][3] == "00003"
    missing = read_column(tmp_path, [f"{i % 15:03d}" if i % 7 else None for i in range(ROWS)])
    assert (missing.frame["a"][1], missing.frame["a"].isna().sum()) == ("001", 9)
    assert is_number(read_column(tmp_path, ["0", "0.5", "10", "-0.25"] * 15)), (
        "a zero alone, or before a point, is a number"
    )


DAYS = pd.Series(pd.date_range("1970-01-03", periods=ROWS, freq="36h"))


@pytest.mark.parametrize(
    "style, note",
    [
        ("%Y-%m-%d %H:%M:%S", ""),
        ("%Y-%m-%dT%H:%MZ", ""),
        ("%Y-%m-%d %H:%M:%S.%f+00:00", ""),
        ("%Y/%m/%d %H:%M", ""),
        ("%d/%m/%Y %H:%M", " (day before month)"),
        ("%d.%m.%Y %H:%M:%S", " (day before month)"),
        ("%m/%d/%Y %I:%M %p", " (month before day)"),
    ],
)
def test_timestamps_are_days(style: str, note: str, tmp_path: Path) -> None:
    texts = DAYS.dt.strftime(style).tolist()
    texts[4] = "unknown"
    loaded = read_column(tmp_path, texts)
    assert loaded.frame["a"][[0, 1, 2]].tolist() == [2.0, 3.5, 5.0]
    assert np.isnan(loaded.frame["a"][4])
    assert f"'a' is a date{note}: read as days since 1970" in loaded.notes
    assert loaded.dates == ("a",)
    assert list(clean(loaded).frame.columns) == ["a", "y"], "and not identifiers to drop"


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.xlsx"])
def test_typed_dates_are_days_too(name: str, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, DAYS.tolist(), name=name)
    assert loaded.frame["a"][[0, 1, 2]].tolist() == [2.0, 3.5, 5.0]
    assert loaded.dates == ("a",)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_dates_beyond_64_bits_of_nanoseconds_are_days_too(name: str, tmp_path: Path) -> None:
    times = [datetime(9999, 12, 31), datetime(1500, 1, 1) if "xlsx" not in name else datetime(1950, 1, 1)] * 20
    days = [(time - datetime(1970, 1, 1)).days for time in times]
    assert read_column(tmp_path, times, name=name).frame["a"].tolist() == days
    assert read_column(tmp_path, [f"{time:%d/%m/%Y}" for time in times], name=name).frame["a"].tolist() == days


def test_lines_may_end_as_they_did_on_old_macintoshes(tmp_path: Path) -> None:
    (tmp_path / "mac.csv").write_bytes(b"a,y\r" + b"1.5,p\r2.5,q\r" * 20)
    assert read_file(tmp_path / "mac.csv", "y").frame["a"].tolist() == [1.5, 2.5] * 20
    (tmp_path / "both.csv").write_bytes(b"a,y\r1.5,p\n" + b"1.5,p\n2.5,q\n" * 20)
    with pytest.raises(DataError, match=r"both.csv: not a table \(new-line character seen in unquoted field\)$"):
        read_file(tmp_path / "both.csv", "y")


def test_daily_dates_are_not_taken_for_row_numbers(tmp_path: Path) -> None:
    daily = pd.Series(pd.date_range("2020-01-01", periods=ROWS)).dt.strftime("%Y-%m-%d").tolist()
    assert list(clean(read_column(tmp_path, daily)).frame.columns) == ["a", "y"]


@pytest.mark.parametrize(
    "text, days",
    [("1 days 12:00:00", 1.5), ("36:00", 1.5), ("06:00:00", 0.25), ("-1 days +12:00:00", -0.5), ("12:00:00.5", 0.5)],
)
def test_durations_are_days(text: str, days: float, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [text, "2 days 00:00:00"] * 20)
    assert loaded.frame["a"][0] == pytest.approx(days, abs=1e-5)
    assert loaded.frame["a"][1] == 2
    assert "'a' is a duration or a time of day: read as days" in loaded.notes


def test_typed_durations_are_days(tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [pd.Timedelta(hours=i * 12) for i in range(40)], name="t.parquet")
    assert loaded.frame["a"].tolist()[:4] == [0, 0.5, 1, 1.5]


def test_columns_are_dropped_or_taken_as_numbers_as_the_user_says(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame["size"] = ["12 cm", "7", "about 9", "8.5"] * 15
    path = write(frame, tmp_path / "t.csv")
    loaded = read_file(path, "label", Reading(drop=("city", "age"), numeric=("size",)))
    assert list(loaded.frame.columns) == ["price", "grade", "label", "size"]
    assert loaded.frame["size"].isna().sum() == 30
    assert "15 value(s) '12 cm' of 'size' are treated as missing" in loaded.notes
    for reading, message in [
        (Reading(drop=("ctiy",)), "there is no column 'ctiy'. Did you mean: city?"),
        (Reading(numeric=("ages",)), "there is no numeric column 'ages'. Did you mean: age?"),
        (Reading(drop=("label",)), "'label' is the target: it cannot be dropped, decide the split or hold weights"),
    ]:
        with pytest.raises(DataError, match=message):
            read_file(path, "label", reading)
    with pytest.raises(UsageError, match="'age' is in both --categorical and --numeric"):
        Reading(categorical=("age",), numeric=("age",))
    with pytest.raises(UsageError, match="'age' is both dropped and used"):
        Reading(drop=("age",), keep=("age",))


def test_a_second_file_is_read_with_the_kinds_of_the_first(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = write(frame.assign(zip=[f"0{i % 9}1" for i in range(ROWS)]), tmp_path / "t.csv")
    second = frame.drop(columns="label").assign(zip=7, price="none")
    other = write(second, tmp_path / "more.parquet")
    loaded = clean(read_file(path, "label", Reading(unlabelled=str(other))))
    assert loaded.unlabelled is not None
    assert len(loaded.unlabelled) == ROWS
    assert loaded.unlabelled["zip"].tolist()[:2] == ["7", "7"]
    assert loaded.unlabelled["price"].isna().all()
    with pytest.raises(DataError, match=r"gone.csv: there is no such file"):
        read_file(path, "label", Reading(unlabelled=str(tmp_path / "gone.csv")))


@pytest.mark.parametrize("first", ["sep=;\n", "sep=;\r\n", '"sep=;"\n', "SEP=;;;\n"])
def test_a_first_line_that_states_the_separator_is_skipped(first: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes((first + "a,b;y\n1,5;p\n2,5;q\n" + "01,5;p\n" * 9).encode())
    loaded = read_file(path, "y")
    assert list(loaded.frame.columns) == ["a,b", "y"]
    assert loaded.frame["a,b"].tolist()[:2] == [1.5, 2.5]
    path.write_bytes(b"sep=|\na|y\n1|p\n2|q\n")
    assert list(read_file(path, "y").frame.columns) == ["a", "y"]


def test_a_sheet_must_name_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    cells = pd.DataFrame([["a", None, "y"], *([i, i, "pq"[i % 2]] for i in range(20))])
    for rows in (cells, pd.concat([pd.DataFrame([[None, "a title", None]]), cells])):
        rows.to_excel(path, index=False, header=False)
        with pytest.raises(DataError, match="t.xlsx: the first row must name the columns, but has empty cells$"):
            read_file(path, "y")
    cells[1] = None
    cells.to_excel(path, index=False, header=False)
    assert list(read_file(path, "y").frame.columns) == ["a", "y"], "a column without anything is no column"


def test_the_first_sheet_of_several_is_read(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        frame.to_excel(book, sheet_name="people", index=False)
        frame.head(3).to_excel(book, sheet_name="more", index=False)
    loaded = read_file(tmp_path / "t.xlsx", "label")
    assert loaded.notes[0] == "the first of 2 sheets was read: 'people'"
    pd.testing.assert_frame_equal(loaded.frame, frame, check_dtype=False)


@pytest.mark.parametrize(
    "values, task",
    [
        (["a", "b"] * 50, "classification"),
        ([True, False] * 50, "classification"),
        ([0, 1] * 50, "classification"),
        ([0.0, 1.0, None, 1.0] * 25, "classification"),
        (list(range(10)) * 10, "classification"),
        (list(range(50)) * 2, "regression"),
        ([0.5, 1.5, 2.5, 3.5] * 25, "regression"),
        ([1, 2, 3, 4, 5], "regression"),
    ],
)
def test_the_task_follows_from_the_target(values: list[Any], task: str) -> None:
    assert infer_task(pd.Series(values, name="y"))[0] == task


def test_numbers_that_are_taken_as_classes_come_with_the_way_to_take_them_as_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.linspace(0, 1, 50), "stars": np.arange(50) % 5 + 1})
    notes = read_file(write(frame, tmp_path / "t.csv"), "stars").notes
    assert notes[0] == "classification, because the target 'stars' has 5 distinct whole numbers in 50 rows"
    assert notes[1] == "to predict these numbers as numbers, add --task regression"


def test_decimal_commas_come_before_thousands_where_semicolons_separate(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{i}.000,{i % 10}5;{-i},5;{i};{'a,b' if i % 2 else 'c'};{i},500;{i % 2}" for i in range(30)]
    path.write_text("big;small;whole;words;thousandths;y\n" + "\n".join(rows), encoding="utf-8")
    loaded = read_file(path, "y")
    assert loaded.frame["big"].tolist()[:2] == [0.05, 1000.15]
    assert loaded.frame["small"].tolist()[3] == -3.5
    assert loaded.frame["whole"].dtype.kind == "i"
    assert loaded.frame["thousandths"].tolist()[3] == 3.5
    assert loaded.categorical == ("words",)
    assert "'big', 'small', 'thousandths' read with decimal commas" in loaded.notes


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx"])
def test_decimal_commas_are_read_in_every_kind_of_file(suffix: str, tmp_path: Path) -> None:
    halves = [f"{i},5" for i in range(30)]
    frame = pd.DataFrame({"price": halves, "amount": [f"{i + 1},234" for i in range(30)], "y": [0, 1] * 15})
    frame["mixed"] = [f"{i + 1},{'5' if i == 17 else '234'}" for i in range(30)]
    loaded = read_file(write(frame, tmp_path / f"t.{suffix}"), "y")
    assert loaded.frame["price"].tolist()[:2] == [0.5, 1.5]
    assert loaded.frame["amount"].tolist()[:2] == [1234, 2234]
    assert loaded.frame["mixed"].tolist()[16:18] == [17.234, 18.5]
    assert loaded.notes[:2] == (
        "'amount' read with thousands separators",
        "'price', 'mixed' read with decimal commas",
    )


@pytest.mark.parametrize("name", ["semicolon.csv", "t.csv", "tabs.tsv", "t.parquet", "t.xlsx"])
@pytest.mark.parametrize("every", [2, 5, 20, 59])
def test_few_decimal_commas_among_whole_numbers_are_numbers(name: str, every: int, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [f"{i},5" if i % every == 0 else str(i) for i in range(ROWS)], name=name)
    assert loaded.frame["a"].tolist() == [i + 0.5 if i % every == 0 else i for i in range(ROWS)]
    assert loaded.decimal_commas == ("a",)


@pytest.mark.parametrize("name", ["t.csv", "tabs.tsv", "t.parquet"])
def test_few_separators_of_thousands_among_whole_numbers_are_numbers(name: str, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [f"{i + 1},000" if i % 7 == 0 else str(i * 50) for i in range(ROWS)], name=name)
    assert loaded.frame["a"].tolist() == [(i + 1) * 1000 if i % 7 == 0 else i * 50 for i in range(ROWS)]
    assert loaded.thousands == ("a",)


def test_typed_numbers_beside_text_keep_their_values(tmp_path: Path) -> None:
    mixed: list[object] = [1.341, 900, *(f"{i},5" for i in range(30))]
    loaded = read_column(tmp_path, mixed, name="t.xlsx")
    assert loaded.frame["a"].tolist()[:4] == [1.341, 900, 0.5, 1.5]


@pytest.mark.parametrize(
    "text, number",
    [
        ("1 234,56", 1234.56),
        ("1'234,50", 1234.5),
        ("1\u202f234,5", 1234.5),
        ("3.111.238", 3111238),
        (",5", 0.5),
        ("-,5", -0.5),
        ("1.234,5", 1234.5),
        ("1,5e3", 1500),
    ],
)
def test_notations_of_numbers_with_decimal_commas(text: str, number: float, tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [text, *(f"{i},25" for i in range(39))], name="semicolon.csv")
    assert loaded.frame["a"].tolist()[:3] == [number, 0.25, 1.25]


def test_two_groups_of_thousands_need_no_comma(tmp_path: Path) -> None:
    values = [*(f"3.{i + 100}.238" for i in range(30)), "505.404", "12"]
    loaded = read_column(tmp_path, values, name="semicolon.csv")
    assert loaded.frame["a"].tolist()[29:] == [3129238, 505404, 12]
    assert "'a' read with points between thousands" in loaded.notes
    assert loaded.decimal_commas == ("a",), "in new rows, 505.404 means the same"


def test_a_zero_before_the_point_is_no_thousand(tmp_path: Path) -> None:
    values = ["0.512", *(f"{i},25" for i in range(39))]
    loaded = read_column(tmp_path, values, name="semicolon.csv")
    assert loaded.frame["a"].tolist()[0] == "0.512"
    assert "'a' is text, though it looks like numbers: '0,25' and '0.512'" in loaded.notes


def write_rents(path: Path, rents: Sequence[str], sizes: Sequence[str], separator: str = ";") -> Path:
    rows = [separator.join([rent, f'"{sizes[i]}"', "pq"[i % 2]]) for i, rent in enumerate(rents)]
    path.write_text("\n".join([separator.join(["rent", "size", "y"]), *rows]), encoding="utf-8")
    return path


SIZES = [f"{i},{i % 9 + 1}" for i in range(40)]


def test_points_separate_thousands_where_other_columns_have_decimal_commas(tmp_path: Path) -> None:
    """pandas reads 1.341 as a number, though it means 1341 in such a file."""
    rents = ["?", "900", *(f"{i + 1}.341" for i in range(38))]
    loaded = read_file(write_rents(tmp_path / "t.csv", rents, SIZES), "y")
    assert loaded.frame["rent"].tolist()[1:4] == [900, 1341, 2341]
    assert loaded.decimal_commas == ("size", "rent")
    assert (
        "'rent' read with points between thousands (1.341 is 1341): other columns have decimal commas" in loaded.notes
    )
    whole = read_file(write_rents(tmp_path / "t.csv", [f"{i + 1}.000" for i in range(40)], SIZES), "y")
    assert whole.frame["rent"].tolist()[:2] == [1000, 2000]


@pytest.mark.parametrize("name", ["t.parquet", "t.xlsx", "semicolon.csv"])
def test_points_in_text_separate_thousands_too(name: str, tmp_path: Path) -> None:
    rents = ["unknown", None, "900", *(f"{i + 1}.341" for i in range(37))]
    frame = pd.DataFrame({"rent": rents, "size": SIZES, "y": ["p", "q"] * 20})
    loaded = read_file(write(frame, tmp_path / name), "y")
    assert loaded.frame["rent"].tolist()[2:4] == [900, 1341]
    assert loaded.frame["rent"].isna().sum() == 2
    assert loaded.decimal_commas == ("size", "rent")


def test_points_that_can_be_decimal_stay_decimal(tmp_path: Path) -> None:
    for other in ("12.5", "0.512", "1234.500"):
        rents = [other, *(f"{i + 1}.341" for i in range(39))]
        loaded = read_file(write_rents(tmp_path / "t.csv", rents, SIZES), "y")
        assert loaded.frame["rent"].tolist()[:2] == [float(other), 1.341]
    rents = [f"{i + 1}.341" for i in range(40)]
    doubt = "'rent' read with decimal points, though other columns may have decimal commas"
    for sizes, separator in ((SIZES, ","), ([f"{i + 1},234" for i in range(40)], ";")):
        loaded = read_file(write_rents(tmp_path / "t.csv", rents, sizes, separator), "y")
        assert loaded.frame["rent"].tolist()[:2] == [1.341, 2.341]
        assert doubt in loaded.notes


def test_unlabelled_rows_are_read_as_the_table(tmp_path: Path) -> None:
    path = write_rents(tmp_path / "t.csv", [f"{i + 1}.341" for i in range(40)], SIZES)
    more = write_rents(tmp_path / "more.csv", ["1.341", "900", "12"], ["40", "1.234", "?"])
    loaded = read_file(path, "y", Reading(unlabelled=str(more)))
    assert loaded.unlabelled is not None
    assert loaded.unlabelled["rent"].tolist() == [1341, 900, 12]
    assert loaded.unlabelled["size"].tolist()[:2] == [40, 1234]
    assert np.isnan(loaded.unlabelled["size"][2])


def test_rows_of_a_known_column_mean_the_same_however_few_of_them_are_numbers(tmp_path: Path) -> None:
    reading = Reading(numeric=("rent", "size"), decimal_commas=("size",))
    rows, notes = read_rows(write_rents(tmp_path / "t.csv", ["1"] * 4, ["1.234,5", "abc", "def", "20"]), reading)
    assert rows["size"].tolist()[::3] == [1234.5, 20]
    assert notes == [f"1 value(s) {word!r} of 'size' are treated as missing" for word in ("abc", "def")]
    rows, notes = read_rows(write_rents(tmp_path / "t.csv", ["1"] * 3, ["40.5", "12.345", "0.5"], ","), reading)
    assert rows["size"].tolist() == [40.5, 12.345, 0.5]
    assert notes == ["'size' read with decimal points here, not with decimal commas"]
    rows, notes = read_rows(write_rents(tmp_path / "t.csv", ["1"] * 3, ["1.125", "?", "900"], ","), reading)
    assert rows["size"].tolist()[::2] == [1125, 900]
    assert notes == ["'size': 1.125 is read as 1125, as in the fitted table"]
    rows, notes = read_rows(write_rents(tmp_path / "t.csv", ["1.341", "2.500"], ["40,5", "12,5"]), reading)
    assert rows["rent"].tolist() == [1.341, 2.5]
    assert notes == ["'rent': 1.341 is read as such, not as 1341, as in the fitted table"]


@pytest.mark.parametrize("notation", [{}, {"decimal_commas": ("a",)}, {"thousands": ("a",)}])
def test_a_known_column_without_values_is_missing(notation: dict[str, Any], tmp_path: Path) -> None:
    pd.DataFrame({"a": [None, None], "b": [1, 2]}).astype({"a": object}).to_parquet(tmp_path / "t.parquet")
    rows, notes = read_rows(tmp_path / "t.parquet", Reading(numeric=("a", "b"), **notation))
    assert rows["a"].isna().all()
    assert notes == []


def test_dates_with_years_of_two_digits(tmp_path: Path) -> None:
    loaded = read_column(tmp_path, [f"{day:02d}.01.20" for day in range(1, 31)])
    assert loaded.frame["a"].tolist()[0] == (pd.Timestamp("2020-01-01") - pd.Timestamp(0)).days
    assert loaded.notes[:2] == (
        "'a' is a date (day before month): read as days since 1970",
        "years of two digits in 'a' read as 1969 to 2068",
    )
    born = read_column(tmp_path, [f"1/{day}/70" for day in range(1, 31)])
    assert born.frame["a"].tolist()[:3] == [0, 1, 2]
    assert not is_number(read_column(tmp_path, [f"{i % 12 + 1}-{i % 28 + 1}-20" for i in range(ROWS)])), (
        "20-01-31 may start with the year"
    )


def test_what_looks_like_numbers_and_is_text_is_told(tmp_path: Path) -> None:
    frame = pd.DataFrame({"price": [f"${i},0{i % 10}" for i in range(30)], "share": [f"{i} %" for i in range(30)]})
    frame["plate"] = [f"K-{i}" for i in range(30)]
    frame["y"] = [f"{i % 15},5,5" for i in range(30)]
    notes = read_file(write(frame, tmp_path / "t.csv"), "y").notes
    assert notes == (
        "'price' is text, though it looks like numbers: '$0,00'",
        "'share' is text, though it looks like numbers: '0 %'",
        "'y' is text, though it looks like numbers: '0,5,5'",
        "classification, because the target 'y' holds text or categories",
    )


@pytest.mark.parametrize("style", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%MZ"])
def test_dates_in_text_become_days_as_in_parquet(style: str, tmp_path: Path) -> None:
    days = pd.Series(pd.date_range("1970-01-03", periods=ROWS, freq="36h"))
    frame = pd.DataFrame({"day": days.dt.strftime(style), "day_or_not": days.dt.strftime("%Y-%m-%d"), "y": [0, 1] * 30})
    frame.loc[4, "day"] = None
    frame.loc[5, "day_or_not"] = "2024-13-77"
    loaded = read_file(write(frame, tmp_path / "t.csv"), "y")
    assert loaded.categorical == ("day_or_not",)
    assert np.isnan(loaded.frame["day"][4])
    assert loaded.frame["day"][2] == 5.0
    assert "'day' is a date: read as days since 1970" in loaded.notes


def test_dates_in_parquet_become_days_and_an_index_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"when": pd.date_range("1970-01-02", periods=20, freq="12h"), "y": ["a", "b"] * 10},
        index=pd.Index([f"r{i}" for i in range(20)]),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    loaded = read_file(tmp_path / "t.parquet", "y")
    assert loaded.frame["when"].head(3).tolist() == [1.0, 1.5, 2.0]
    assert list(loaded.frame.columns) == ["when", "y"]
    assert "'when' is a date: read as days since 1970" in loaded.notes


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"\n1,2\n", "the first line must name the columns"),
        ("t.csv", b"a,b,a\n1,2,3\n", "several columns have the same name: 'a'"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "not a table"),
        ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "not a table"),
        ("t.csv", b"a,b,y\n1,2,3\n4,5\n", "the last line has 2 fields, the header 3: is the file cut off?"),
        ("t.csv", "a,y\nKöln,1\n".encode("latin-1"), "not UTF-8 text (byte 0xf6 in line 2): save it as UTF-8"),
        ("t.csv", b"PK\x00\x01,y\n1,2\n", "not a text file"),
        ("t.csv", b"a,label\n1,2\n", "there is no column 'y'. Available: a, label."),
        ("t.csv", b"a,Y1\n1,2\n", "there is no column 'y'. Did you mean: Y1? Available: Y1, a."),
        (
            "t.csv",
            b"a|y\n1|2\n",
            "there is no column 'y'. Available: a|y. Only one column was found: fields must be separated by , ; or tab",
        ),
        ("t.tsv", b"a,y\n1,2\n", "Available: a,y. Only one column was found: fields must be separated by tabs"),
        ("t.parquet", b"PAR1 no", "not a readable parquet file"),
        ("t.csv.gz", gzip.compress(b"a,y\n1,2\n", mtime=0)[:-5], "not a complete .gz file"),
        ("t.csv.gz", b"a,y\n1,2\n", "not a complete .gz file"),
        ("t.csv.zst", b"a,y\n1,2\n", "not a complete .zst file"),
        ("t.xlsx", b"x", "not a readable Excel file"),
        ("t.feather", b"x", "not a readable Feather or Arrow file"),
        (
            "t.xls",
            b"x",
            "unknown file type; known are .csv, .tsv, .parquet, .pq, .feather, .arrow, .xlsx, also with .gz or .zst",
        ),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_a_line(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_file(path, "y")
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="this is a folder; give a file"):
        read_file(tmp_path, "y")
    (tmp_path / "churn.csv").write_text("a,y\n")
    with pytest.raises(DataError, match=r"there is no such file. Did you mean: .*churn.csv\?"):
        read_file(tmp_path / "chrun.csv", "y")


def test_lists_in_parquet_are_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": [[1, 2], [3]], "y": [0, 1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'a' holds list<.*>: only numbers"):
        read_file(tmp_path / "t.parquet", "y")


def test_a_missing_column_among_very_many_does_not_fill_the_screen(tmp_path: Path) -> None:
    names = [f"pixel{i}" for i in range(500)]
    pd.DataFrame(np.zeros((3, 500)), columns=names).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"no column 'pixle7' among 500 columns. Did you mean: pixel7\?$"):
        read_file(tmp_path / "t.parquet", "pixle7")


def pack(content: bytes, path: Path) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    return path


@pytest.mark.parametrize("name", ["bomb.csv.gz", "bomb.csv.zst", "bomb.parquet", "bomb.arrow", "bomb.xlsx"])
def test_what_unpacks_to_more_than_the_limit_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABBENCH_MAX_UNPACKED", "0.0001")
    path = tmp_path / name
    if name.endswith((".gz", ".zst")):
        pack(b"a,y\n" + b"0,1\n" * 100_000, path)
    else:
        write(pd.DataFrame({"a": np.random.default_rng(0).normal(size=20_000), "y": 1}), path)
    with pytest.raises(DataError) as caught:
        read_file(path, "y")
    assert str(caught.value) == f"{path}: it unpacks to more than 0.0001 GB; to allow that, set TABBENCH_MAX_UNPACKED"
    monkeypatch.setenv("TABBENCH_MAX_UNPACKED", "much")
    with pytest.raises(DataError, match="TABBENCH_MAX_UNPACKED=much is not a number of gigabytes"):
        read_file(path, "y")


def test_pipes_and_devices_are_not_tables(tmp_path: Path) -> None:
    pipe = tmp_path / "t.csv"
    os.mkfifo(pipe)
    link = tmp_path / "zero.csv"
    link.symlink_to("/dev/zero")
    for path in (pipe, link):
        with pytest.raises(DataError, match="this is a pipe, a socket or a device"):
            read_file(path, "y")


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "nul\0.csv"])
def test_names_that_no_file_can_have_are_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read \((File name too long|embedded null byte)\)"):
        read_file(tmp_path / name, "y")
