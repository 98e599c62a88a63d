"""What happens to a table before it is cached."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabbench import DataError, LoadedData
from tabbench.data.cleaning import clean
from tabbench.data.content import sort_classes

N = 40


def make_frame(**columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=N), **columns, "y": np.arange(N) % 2})


def load(frame: pd.DataFrame, *categorical: str, **about: Any) -> LoadedData:
    return LoadedData(frame, **{"target": "y", "task": "classification", "categorical": categorical, **about})


def test_a_clean_table_is_left_alone() -> None:
    cleaned = clean(load(make_frame(c=["a", "a", "b", "b"] * 10), "c"))
    assert list(cleaned.frame.columns) == ["x", "c", "y"]
    assert cleaned.categorical == ("c",)
    assert cleaned.notes == ()
    assert cleaned.frame["y"].tolist() == ["0", "1"] * 20


def test_useless_columns_are_dropped_and_named() -> None:
    frame = make_frame(
        same=1.0,
        empty=np.nan,
        row=range(5, 5 + N),
        key=[f"id{i}" for i in range(N)],
        c=["a", "a", "b", "b"] * 10,
        partly=[1.0, 1.0, np.nan] * 13 + [1.0],
    )
    cleaned = clean(load(frame, "key", "c"))
    assert list(cleaned.frame.columns) == ["x", "c", "partly", "y"]
    assert cleaned.categorical == ("c",)
    assert set(cleaned.notes) == {
        "dropped 'same': the same value in every row",
        "dropped 'empty': no values",
        "dropped 'row': row numbers",
        "dropped 'key' as an identifier: nearly every row has a different value",
    }


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(N)[::-1],
        np.arange(N) * 10 + 7,
        np.random.default_rng(1).permutation(N) - 5,
        np.arange(N, dtype=np.float64),
    ],
    ids=["downwards", "by tens", "shuffled", "as floats"],
)
def test_the_numbers_of_rows_are_dropped_in_whatever_order_they_are(numbers: object) -> None:
    cleaned = clean(load(make_frame(row=numbers)))
    assert cleaned.notes == ("dropped 'row': row numbers",)


def test_evenly_spaced_measurements_are_no_row_numbers() -> None:
    assert "depth" in clean(load(make_frame(depth=1.5 * np.arange(N)))).frame.columns


@pytest.mark.parametrize("unit", [1, 1_000], ids=["seconds", "milliseconds"])
def test_a_unix_time_in_even_steps_is_no_row_number(unit: int) -> None:
    cleaned = clean(load(make_frame(hour=(1_580_000_000 + 3_600 * np.arange(N)) * unit)))
    assert "hour" in cleaned.frame.columns
    assert cleaned.notes == ()


@pytest.mark.parametrize("name", ["time", "Datum", "start_date", "timestamp", "Uhrzeit", "ts", "log.ts"])
def test_a_unix_time_with_every_second_is_known_by_its_name(name: str) -> None:
    assert name in clean(load(make_frame(**{name: 1_577_836_800 + np.arange(N)}))).frame.columns
    assert clean(load(make_frame(**{name: np.arange(N)}))).notes == (f"dropped {name!r}: row numbers",)


@pytest.mark.parametrize(
    "numbers",
    [400_000_000 + 7 * np.arange(N), 400_000_000 + 60 * np.arange(N), 1_577_836_800 + 10 * np.arange(N)],
    ids=["before 2000", "before 2000, by minutes", "by ten seconds"],
)
def test_numbers_of_orders_are_no_times(numbers: object) -> None:
    assert clean(load(make_frame(order=numbers))).notes == ("dropped 'order': row numbers",)
    assert "time" in clean(load(make_frame(time=numbers))).frame.columns


def test_the_numbers_of_rows_have_gaps_only_because_rows_without_a_target_were_dropped() -> None:
    frame = make_frame(row=range(N))
    frame["y"] = frame["y"].astype(object)
    frame.loc[[3, 17], "y"] = None
    assert clean(load(frame), drop_unlabelled=True).notes == (
        "dropped 'row': row numbers",
        "dropped 2 rows without a target",
    )


def test_numbers_that_may_identify_rows_are_kept_with_a_word() -> None:
    own = np.random.default_rng(0).choice(10**6, N, replace=False)
    cleaned = clean(load(make_frame(customer_id=own, population=own[::-1], orderId=own, grid=own)))
    assert cleaned.notes == (
        "'customer_id', 'orderId' were kept, but have a different number in every row; if they identify rows, use "
        "--drop customer_id,orderId",
    )
    assert clean(load(make_frame(order_no=own))).notes == (
        "'order_no' was kept, but has a different number in every row; if it identifies rows, use --drop order_no",
    )
    assert clean(load(make_frame(order_no=own)), as_published=True).notes == (
        "'order_no' was kept, but has a different number in every row",
    )


def test_columns_of_identifiers_share_a_note() -> None:
    frame = make_frame(a=[f"id{i}" for i in range(N)], b=[f"no{i}" for i in range(N)])
    assert clean(load(frame, "a", "b")).notes == (
        "dropped 'a', 'b' as identifiers: nearly every row has a different value",
    )


def test_dates_and_large_numbers_that_32_bits_do_not_keep_apart_are_told() -> None:
    seconds = 1_577_836_800 + 10 * np.arange(N)
    days = seconds / 86_400
    frame = make_frame(time=seconds, when=days, ratio=0.5 + days, day=18_000 + np.arange(N) / 24)
    words = "distinct values, but models see 32-bit numbers, which keep only"
    assert clean(load(frame, dates=("when", "day"))).notes == (
        f"'time' has 40 {words} 4 of them apart: subtract the smallest value",
        f"'when' has 40 {words} 3 of them apart: subtract the smallest value",
    )
    assert clean(load(frame, dates=("when", "day")), as_published=True).notes == ()


def test_a_column_that_tells_the_target_is_named() -> None:
    cleaned = clean(load(make_frame(code=[5.0, np.nan] * 20, other=[1, 1, 2, 2] * 10)))
    assert cleaned.notes == ("'code' determines the target of every row: is it the answer in disguise?",)
    price = np.random.default_rng(0).normal(size=N)
    frame = pd.DataFrame({"x": price**2, "euros": 1.1 * price - 3, "cents": -100 * price, "y": price})
    told = clean(load(frame, task="regression")).notes
    assert told == ("'euros', 'cents' each determine the target of every row: are they the answer in disguise?",)


def test_values_that_single_rows_have_tell_nothing() -> None:
    assert clean(load(make_frame(c=[f"v{i // 4}" for i in range(N)], z=np.arange(N) // 2 * 1.5), "c")).notes == ()


def test_published_columns_stay_and_are_remarked_upon() -> None:
    cleaned = clean(load(make_frame(same=1.0, row=range(N))), as_published=True)
    assert list(cleaned.frame.columns) == ["x", "same", "row", "y"]
    assert cleaned.notes == ("kept as published, though the same in every row: 'same'",)


def test_very_many_levels_are_remarked_upon() -> None:
    levels = [f"v{i}" for i in range(1200)] * 2
    frame = pd.DataFrame({"c": levels, "x": np.random.default_rng(0).normal(size=2400), "y": [0, 1] * 1200})
    assert clean(load(frame, "c")).notes == ("only the 1,000 most frequent training levels are kept apart in 'c'",)


def test_infinite_numbers_are_missing() -> None:
    cleaned = clean(load(make_frame(z=[np.inf, -np.inf, 1.0, 2.0] * 10)))
    assert cleaned.frame["z"].isna().sum() == 20
    assert cleaned.notes == ("20 infinite value(s) of 'z' are treated as missing",)


def test_rows_without_a_target_are_set_aside_for_pretraining_or_dropped() -> None:
    frame = make_frame(c=["a", "a", "b", "b"] * 10)
    frame["y"] = frame["y"].astype(object)
    frame.loc[:4, "y"] = None
    frame.loc[3, "c"] = "only here"
    cleaned = clean(load(frame, "c"))
    assert len(cleaned.frame) == N - 5
    assert cleaned.notes == ("5 rows without a target: used by pretraining only",)
    assert cleaned.unlabelled is not None
    assert cleaned.unlabelled["c"].tolist() == ["a", "a", "b", "only here", "a"]
    assert cleaned.unlabelled["x"].tolist() == frame["x"][:5].tolist()
    assert "only here" not in cleaned.frame["c"].cat.categories
    dropped = clean(load(frame, "c"), drop_unlabelled=True)
    assert dropped.unlabelled is None
    assert dropped.notes == ("dropped 5 rows without a target",)
    pd.testing.assert_frame_equal(dropped.frame, cleaned.frame)


def test_a_second_table_of_rows_without_a_target_needs_the_same_columns() -> None:
    more = make_frame(c=["a", "b", "b", "new"] * 10).drop(columns="y")
    frame = make_frame(c=["a", "a", "b", "b"] * 10)
    frame.loc[0, "y"] = np.nan
    cleaned = clean(load(frame, "c", unlabelled=more))
    assert cleaned.unlabelled is not None
    assert len(cleaned.unlabelled) == N + 1
    assert cleaned.notes == ("41 rows without a target: used by pretraining only",)
    with pytest.raises(DataError, match="the unlabelled rows have no column 'c'"):
        clean(load(frame, "c", unlabelled=more.drop(columns="c")))
    with pytest.raises(DataError, match="column 'x' of the unlabelled rows must be numeric, but holds 'much'"):
        clean(load(frame, "c", unlabelled=more.assign(x="much")))


def test_what_a_regression_cannot_use_as_a_target_is_set_aside() -> None:
    regression = make_frame().assign(y=np.linspace(0, 1, N))
    regression.loc[3, "y"] = np.inf
    assert clean(load(regression, task="regression")).notes == (
        "1 infinite value(s) of 'y' are treated as missing",
        "1 rows without a target: used by pretraining only",
    )


def test_numbers_too_large_for_32_bits_are_named_as_missing() -> None:
    cleaned = clean(load(make_frame(z=[1e308, 1e308, -1e308, -1e308, 1.0, 1.0, 2.0, 2.0] * 5)))
    assert cleaned.notes == ("20 value(s) beyond 3.4e+38 of 'z' are treated as missing",)


def test_dates_with_regular_steps_are_not_row_numbers_and_columns_of_a_split_are_kept() -> None:
    frame = make_frame(day=np.arange(N) + 18000.0, patient=[f"p{i}" for i in range(N)], site="Köln")
    cleaned = clean(load(frame, "patient", "site", dates=("day",), keep=("patient",)))
    assert list(cleaned.frame.columns) == ["x", "day", "patient", "y"]
    assert cleaned.notes == ("dropped 'site': the same value in every row",)


def test_inputs_are_not_changed() -> None:
    frame = make_frame(z=[np.inf, 1.0] * 20, c=["a", "b"] * 20)
    before = frame.copy(deep=True)
    clean(load(frame, "c"))
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    "loaded, message",
    [
        (load(make_frame(), target="z"), "there is no target 'z'"),
        (load(make_frame(), "q"), "there is no categorical column 'q'"),
        (load(make_frame(), "y"), "is the target and cannot also be a categorical feature"),
        (load(make_frame().iloc[:0]), "has columns, but no rows"),
        (load(make_frame().head(9)), "only 9 rows have a target; a split needs at least 10"),
        (load(make_frame().head(1)), "only 1 row has a target; a split needs at least 10"),
        (load(make_frame()[["y"]]), "no column besides the target"),
        (load(make_frame().assign(y="ja")), "the target 'y' has only one class: ja"),
        (load(make_frame().assign(y=3.5)), "the target 'y' has the same value in every row: 3.5"),
        (load(make_frame().assign(y=1), task="regression"), "the target 'y' has the same value in every row: 1.0"),
        (load(make_frame().assign(y=None)), "the target 'y' has no values"),
        (load(make_frame().assign(y=["a", "b"] * 20), task="regression"), "must be numeric, but holds 'a'"),
        (
            load(make_frame().assign(y=range(N))),
            "40 classes in 40 rows: is it an identifier, or a number to predict? For the latter, give "
            "FILE:y and --task regression",
        ),
        (
            load(make_frame().assign(y=[f"{i}.5" for i in range(N - 1)] + ["n.a."])),
            "is it a number to predict? Then it must not hold text such as 'n.a.'",
        ),
        (
            load(make_frame().assign(y=[f"{i},5 €" for i in range(N)])),
            "40 classes in 40 rows: is it a number? '0,5 €' cannot be read as one",
        ),
        (load(make_frame().assign(y=[f"row {i}" for i in range(N)])), "40 classes in 40 rows: is it an identifier?"),
        (load(make_frame(c=["a", "b"] * 20)), "column 'c' is not declared categorical, so it must be numeric"),
        (load(make_frame().assign(x=3)), "no feature column is left"),
        (
            load(pd.DataFrame(np.zeros((N, 3)), columns=["x", "x", "y"])),
            "several columns have the same name: 'x'",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(loaded: LoadedData, message: str) -> None:
    with pytest.raises(DataError) as caught:
        clean(loaded)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_class_names_are_sorted_as_numbers_if_they_are_numbers() -> None:
    assert sort_classes(["10", "9", "-1"]) == ("-1", "9", "10")
    assert sort_classes(["10", "9", "a"]) == ("10", "9", "a")
