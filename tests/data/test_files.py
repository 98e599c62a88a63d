"""Reading the user's own files."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from written import ROWS, is_number, read_column, write

from tabbench import DataError, UsageError
from tabbench.data.cleaning import clean
from tabbench.data.files import infer_task, read_file
from tabbench.data.reading import Reading


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


def test_a_categorical_target_is_not_predicted_as_a_number(frame: pd.DataFrame, tmp_path: Path) -> None:
    """The user's word on it was ignored where the target looked like a number."""
    path = write(frame, tmp_path / "t.csv")
    with pytest.raises(DataError, match="the target 'price' is said to be categorical, .* add --task classification$"):
        read_file(path, "price", Reading(categorical=("price",)))
    assert read_file(path, "grade", Reading(categorical=("grade",))).task == "classification"


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


def test_lines_may_end_as_they_did_on_old_macintoshes(tmp_path: Path) -> None:
    (tmp_path / "mac.csv").write_bytes(b"a,y\r" + b"1.5,p\r2.5,q\r" * 20)
    assert read_file(tmp_path / "mac.csv", "y").frame["a"].tolist() == [1.5, 2.5] * 20
    (tmp_path / "both.csv").write_bytes(b"a,y\r1.5,p\n" + b"1.5,p\n2.5,q\n" * 20)
    with pytest.raises(DataError, match=r"both.csv: not a table \(new-line character seen in unquoted field\)$"):
        read_file(tmp_path / "both.csv", "y")


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
