"""DataFrames as arrays."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tabbench import DataError
from tabbench.data.sources import store_frame
from tabbench.frames import MAX_LEVELS, as_text, categorical_columns, fit_schema, to_table
from tabbench.values import FIRST_LEVEL, MISSING, UNKNOWN


def test_missing_and_unknown_categories_have_codes_of_their_own() -> None:
    train = pd.DataFrame({"x": [1.0, 2.0, 3.0], "c": ["b", "a", None]})
    schema = fit_schema(train)
    assert schema.levels == (("a", "b"),)
    table = to_table(pd.DataFrame({"c": ["a", "b", "z", None], "x": [1, 2, 3, 4]}), schema)
    assert table.categorical[:, 0].tolist() == [FIRST_LEVEL, FIRST_LEVEL + 1, UNKNOWN, MISSING]
    assert table.numeric[:, 0].tolist() == [1, 2, 3, 4]


def test_levels_of_a_category_type_that_no_row_has_are_not_in_the_schema() -> None:
    column = pd.Series(pd.Categorical(["a", "b", "a"], categories=["a", "b", "c"]))
    assert fit_schema(pd.DataFrame({"c": column[[0, 2]]})).levels == (("a",),)


@pytest.mark.parametrize(
    "values",
    [[1, 2, 1], [1.0, 2.0, 1.0], ["1", "2", "1"], pd.Categorical([1.0, 2.0, 1.0]), pd.array([1, 2, 1], dtype="Int64")],
)
def test_equal_categories_are_equal_text_whatever_their_type(values: object) -> None:
    assert as_text(pd.Series(values)).tolist() == ["1", "2", "1"]


def test_fractions_and_booleans_are_text_too() -> None:
    assert as_text(pd.Series([0.5, None, 2.0])).isna().tolist() == [False, True, False]
    assert as_text(pd.Series([True, False])).tolist() == ["True", "False"]
    frame = pd.DataFrame({"b": [True], "s": ["x"], "n": [1], "f": [0.5]})
    assert categorical_columns(frame) == ["b", "s"]


def test_infinite_and_huge_numbers_are_missing() -> None:
    frame = pd.DataFrame({"x": [np.inf, -np.inf, 1e300, 1.5, np.nan]})
    table = to_table(frame, fit_schema(frame))
    assert np.isnan(table.numeric[:, 0]).tolist() == [True, True, True, False, True]
    assert table.numeric.dtype == np.float32
    assert table.numeric.flags.c_contiguous


def test_numbers_of_every_type_become_float32_in_place() -> None:
    frame = pd.DataFrame(
        {
            "u": pd.Series(range(5000), dtype="uint16"),
            "i": pd.array([1, None] * 2500, dtype="Int64"),
            "f": np.linspace(0, 1, 5000),
        }
    )
    table = to_table(frame, fit_schema(frame))
    assert np.array_equal(table.numeric[:, 0], np.arange(5000))
    assert np.isnan(table.numeric[1::2, 1]).all()
    assert (table.numeric[::2, 1] == 1).all()
    assert np.allclose(table.numeric[:, 2], frame["f"])


@pytest.mark.parametrize("kind", ["float64", "int64", "Float64", "Int64", "category"])
def test_numbers_are_found_among_the_levels_however_the_rows_around_them_are_written(kind: Any) -> None:
    fractions = fit_schema(pd.DataFrame({"c": [1.0, 1.5, 2.0]}), ["c"])  # 1.0, 1.5, 2.0
    whole = fit_schema(pd.DataFrame({"c": [1, 2, 10]}), ["c"])  # 1, 10, 2
    ones = pd.DataFrame({"c": pd.Series([2, 1, 3]).astype(kind)})
    assert to_table(ones, fractions).categorical[:, 0].tolist() == [FIRST_LEVEL + 2, FIRST_LEVEL, UNKNOWN]
    assert to_table(ones, whole).categorical[:, 0].tolist() == [FIRST_LEVEL + 2, FIRST_LEVEL, UNKNOWN]
    mixed = pd.DataFrame({"c": [10.0, 1.5, np.nan]})
    assert to_table(mixed, whole).categorical[:, 0].tolist() == [FIRST_LEVEL + 1, UNKNOWN, MISSING]
    words = fit_schema(pd.DataFrame({"c": ["1", "1.0", "x"]}))
    assert to_table(pd.DataFrame({"c": ["1.00"]}), words).categorical[0, 0] == UNKNOWN, "text is what it is"


def test_only_the_most_frequent_of_very_many_levels_are_told_apart() -> None:
    values = [f"v{i:05d}" for i in range(MAX_LEVELS + 500)]
    frame = pd.DataFrame({"c": values + values[-200:]})
    schema = fit_schema(frame)
    assert len(schema.levels[0]) == MAX_LEVELS
    assert set(values[-200:]) <= set(schema.levels[0])
    codes = to_table(frame, schema).categorical[:, 0]
    assert (codes == UNKNOWN).sum() == 500
    assert fit_schema(frame.sample(frac=1, random_state=0)) == schema


def test_columns_that_are_not_there_are_named() -> None:
    frame = pd.DataFrame({"alpha": [1.0], "beta": [2.0]})
    with pytest.raises(DataError, match="there is no column 'alpa'. Did you mean: alpha?"):
        fit_schema(frame, ["alpa"])
    with pytest.raises(DataError, match="the table has no column 'beta'"):
        to_table(frame[["alpha"]], fit_schema(frame))
    with pytest.raises(DataError, match="column 'alpha' is not numeric"):
        to_table(pd.DataFrame({"alpha": ["x"], "beta": [1]}), fit_schema(frame))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("a", [1, 2]), ("a", [3, 4])], "several columns have the same name: 'a'"),
        ([(1, [1, 2]), ("1", [3, 4])], "several columns have the same name: '1'"),
        ([("a", [None, [1, 2]])], "column 'a' holds values of type list: only numbers, text, booleans,"),
        ([("a", [{"b": 1}, {}])], "column 'a' holds values of type dict: only numbers, text, booleans,"),
        ([("a", [1 + 2j, 3])], "column 'a' holds complex numbers: only numbers, text, booleans,"),
        ([("a", np.array([1 + 2j, None]))], "column 'a' holds values of type complex: only numbers, text,"),
        (
            [("a", pd.arrays.ArrowExtensionArray(pa.array([[1], [2, 3]])))],
            "column 'a' holds list<item: int64>: only numbers, text,",
        ),
    ],
)
def test_a_frame_that_no_file_can_hold_is_refused_in_a_line(columns: list[tuple[object, Any]], message: str) -> None:
    frame = pd.concat([pd.Series(values, name=name) for name, values in columns], axis=1)
    frame["y"] = ["p", "q"]
    with pytest.raises(DataError) as caught:
        store_frame("mine", frame, "y")
    assert str(caught.value).startswith(f"mine: {message}")
    assert "\n" not in str(caught.value)
