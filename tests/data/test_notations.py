"""Numbers in files: separators of thousands, decimal commas, codes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from written import ROWS, is_number, read_column, write

from tabbench.data.files import read_file, read_rows
from tabbench.data.reading import Reading


def test_whole_numbers_of_many_digits_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{i}{'7' * 25},{'pq'[i % 2]}\n" for i in range(1, 41)) + ",p\n")
    loaded = read_file(path, "y")
    assert loaded.categorical == ()
    assert loaded.frame["a"].iloc[0] == pytest.approx(1.7777777777e25)
    assert loaded.frame["a"].isna().sum() == 1
    assert loaded.notes[0] == "'a' read as floating point: whole numbers of more than 64 bits"


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
