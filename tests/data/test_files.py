"""Reading the user's own files."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tabbench import DataError
from tabbench.data.files import infer_task, read_file

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
    ["t.csv", "semicolon.csv", "t.tsv", "t.parquet", "t.csv.gz", "t.tsv.zst", "t.csv.zst", "t.parquet.gz", "T.CSV"],
)
def test_all_formats_give_the_same_table(name: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    loaded = read_file(write(frame, tmp_path / name), "label")
    pd.testing.assert_frame_equal(loaded.frame, frame)
    assert loaded.categorical == ("city",)
    assert loaded.task == "classification"
    assert loaded.source == f"file {name}"
    assert loaded.notes == (
        "taken as numbers, though few values may mean categories (--categorical grade)",
        "classification, because the target 'label' holds text or categories",
    )


def test_columns_can_be_declared_categorical_and_the_task_be_given(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = write(frame, tmp_path / "t.csv")
    loaded = read_file(path, "grade", categorical=["age"], task="regression")
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
        "20 value(s) 'NA' of 'b', 'c' are taken as missing",
        "10 value(s) 'None' of 'b' are taken as missing",
    )


def test_none_is_a_class_if_there_is_only_one_other(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,None\n2,Some\n3,\n" * 10)
    loaded = read_file(path, "y")
    assert loaded.frame["y"].value_counts().to_dict() == {"None": 10, "Some": 10}
    assert loaded.notes[0] == "'None' of the target 'y' is a class here, and not missing: there is only one other"
    path.write_text("a,y\n" + "1,None\n2,Some\n3,Many\n" * 10)
    loaded = read_file(path, "y")
    assert loaded.frame["y"].value_counts().to_dict() == {"Some": 10, "Many": 10}
    assert loaded.notes[0] == "10 value(s) 'None' of 'y' are taken as missing"


def test_whole_numbers_of_many_digits_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{i}{'7' * 25},{'pq'[i % 2]}\n" for i in range(1, 41)) + ",p\n")
    loaded = read_file(path, "y")
    assert loaded.categorical == ()
    assert loaded.frame["a"].iloc[0] == pytest.approx(1.7777777777e25)
    assert loaded.frame["a"].isna().sum() == 1
    assert loaded.notes[0] == "'a' taken as floating point: whole numbers of more than 64 bits"


def test_numbers_spoiled_by_a_few_words_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{i}.5,{i % 2}\n" for i in range(30)) + "broken,1\n")
    assert "'a' is text because of values such as 'broken'" in read_file(path, "y").notes


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
    assert "data import NAME" in notes[1]
    assert "--target stars --task regression" in notes[1]


def test_decimal_commas_are_read_where_commas_do_not_separate(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{i}.000,{i % 10}5;{-i},5;{i};{'a,b' if i % 2 else 'c'};{i},500;{i % 2}" for i in range(30)]
    path.write_text("big;small;whole;words;thousands;y\n" + "\n".join(rows), encoding="utf-8")
    loaded = read_file(path, "y")
    assert loaded.frame["big"].tolist()[:2] == [0.05, 1000.15]
    assert loaded.frame["small"].tolist()[3] == -3.5
    assert loaded.frame["whole"].dtype.kind == "i"
    assert loaded.categorical == ("words", "thousands")
    assert "'big', 'small' read with decimal commas" in loaded.notes
    assert "'thousands' is text, though it looks like numbers: '0,500'" in loaded.notes


def test_what_looks_like_numbers_and_is_text_is_told(tmp_path: Path) -> None:
    frame = pd.DataFrame({"price": [f"${i},0{i % 10}" for i in range(30)], "share": [f"{i} %" for i in range(30)]})
    frame["plate"] = [f"K-{i}" for i in range(30)]
    frame["y"] = [f"{i % 15},5" for i in range(30)]
    notes = read_file(write(frame, tmp_path / "t.csv"), "y").notes
    assert notes == (
        "'price' is text, though it looks like numbers: '$0,00'",
        "'share' is text, though it looks like numbers: '0 %'",
        "'y' is text, though it looks like numbers: '0,5'",
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
    assert "'day' is a date: taken as days since 1970" in loaded.notes


def test_dates_in_parquet_become_days_and_an_index_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"when": pd.date_range("1970-01-02", periods=20, freq="12h"), "y": ["a", "b"] * 10},
        index=pd.Index([f"r{i}" for i in range(20)]),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    loaded = read_file(tmp_path / "t.parquet", "y")
    assert loaded.frame["when"].head(3).tolist() == [1.0, 1.5, 2.0]
    assert list(loaded.frame.columns) == ["when", "y"]
    assert "'when' is a date: taken as days since 1970" in loaded.notes


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
        ("t.parquet", b"PAR1 no", "not a readable parquet file"),
        ("t.csv.gz", gzip.compress(b"a,y\n1,2\n", mtime=0)[:-5], "not a whole .gz file"),
        ("t.csv.gz", b"a,y\n1,2\n", "not a whole .gz file"),
        ("t.csv.zst", b"a,y\n1,2\n", "not a whole .zst file"),
        ("t.xlsx", b"x", "unknown kind of file; known are .csv, .tsv, .parquet, .pq, also with .gz or .zst"),
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
    with pytest.raises(DataError, match="this is a folder; a file is needed"):
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
