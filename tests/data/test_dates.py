"""Dates, times and durations in files become days."""

from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from written import ROWS, is_number, read_column, write

from tabbench.data.cleaning import clean
from tabbench.data.files import read_file

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
