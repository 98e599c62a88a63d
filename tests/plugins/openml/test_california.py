"""California housing: raw counts and averages are one table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from tabbench_openml.california import MEAN, ORDER, STD, CaliforniaHousing

from tabbench import DataError, LoadedData
from tabbench.data.cache import store_dataset


def california() -> CaliforniaHousing:
    return CaliforniaHousing("california", 44977, "medianHouseValue", "regression", rows=442, numeric=8, categorical=0)


def census(rng: np.random.Generator) -> pd.DataFrame:
    """Raw counts, with a real target brought to the known mean and spread."""
    target = load_diabetes().target
    target = (target - target.mean()) / target.std(ddof=1) * STD + MEAN
    names = ["longitude", "latitude", "housingMedianAge", "totalRooms", "totalBedrooms"]
    names += ["population", "households", "medianIncome"]
    frame = pd.DataFrame({name: rng.integers(1, 1000, len(target)).astype(float) for name in names})
    return frame.assign(medianHouseValue=target * 100_000)


def test_california_averages_are_derived_from_counts() -> None:
    raw = census(np.random.default_rng(0))
    loaded = california().accept(LoadedData(raw, "medianHouseValue", "regression"))
    assert list(loaded.frame.columns) == [*ORDER, "MedHouseVal"]
    assert np.allclose(loaded.frame["AveRooms"], raw["totalRooms"] / raw["households"])
    assert np.allclose(loaded.frame["AveOccup"], raw["population"] / raw["households"])
    assert np.isclose(loaded.frame["MedHouseVal"].mean(), MEAN)
    assert loaded.notes == (
        "the columns were counts of the census; averages per household were derived; "
        "the target was in dollars and is now in 100,000 dollars",
    )


def test_california_averages_are_taken_as_they_are() -> None:
    derived = california().accept(LoadedData(census(np.random.default_rng(0)), "medianHouseValue", "regression"))
    again = california().accept(LoadedData(derived.frame, "MedHouseVal", "regression"))
    assert again.notes == ("the columns were averages already",)
    pd.testing.assert_frame_equal(again.frame, derived.frame)
    assert store_dataset("a", again, as_published=True).key == store_dataset("b", derived, as_published=True).key


def test_another_target_is_not_california() -> None:
    raw = census(np.random.default_rng(0))
    raw["medianHouseValue"] *= 1.5
    with pytest.raises(DataError, match=r"this is not california .*the target has mean 3.10"):
        california().accept(LoadedData(raw, "medianHouseValue", "regression"))
    with pytest.raises(DataError, match="there is no column households"):
        california().accept(LoadedData(raw.drop(columns="households"), "medianHouseValue", "regression"))
