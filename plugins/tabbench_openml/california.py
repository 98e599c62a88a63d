"""California housing. OpenML has the raw census counts; the paper uses averages, as scikit-learn does."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd

from tabbench import DataError, LoadedData
from tabbench_openml.datasets import OpenMLDataset

TARGET = "MedHouseVal"
MEAN, STD = 2.068558, 1.153956
"""Mean and standard deviation of the target, in 100,000 dollars."""
DOLLARS = 100_000.0

COMMON = {
    "MedInc": ("medinc", "medianincome"),
    "HouseAge": ("houseage", "housingmedianage"),
    "Population": ("population",),
    "Latitude": ("latitude",),
    "Longitude": ("longitude",),
}
AVERAGES = {"AveRooms": "averooms", "AveBedrms": "avebedrms", "AveOccup": "aveoccup"}
ORDER = ("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude")


class CaliforniaHousing(OpenMLDataset):
    """Reads counts or averages, dollars or hundreds of thousands of dollars, and notes which it found."""

    def arrange(self, loaded: LoadedData) -> LoadedData:
        features = loaded.frame.drop(columns=loaded.target)
        columns = {re.sub("[^a-z]", "", str(name).lower()): features[name] for name in features.columns}
        arranged = {name: _pick(columns, spellings) for name, spellings in COMMON.items()}
        if all(name in columns for name in AVERAGES.values()):
            arranged |= {name: columns[spelling] for name, spelling in AVERAGES.items()}
            note = "the columns were averages already"
        else:
            households = _pick(columns, ("households",))
            arranged["AveRooms"] = _pick(columns, ("totalrooms",)) / households
            arranged["AveBedrms"] = _pick(columns, ("totalbedrooms",)) / households
            arranged["AveOccup"] = arranged["Population"] / households
            note = "the columns were counts of the census; averages per household were derived"
        value = pd.to_numeric(loaded.frame[loaded.target])
        if value.mean() > 1_000:
            value = value / DOLLARS
            note += "; the target was in dollars and is now in 100,000 dollars"
        if abs(value.mean() - MEAN) > 1e-4 or abs(value.std() - STD) > 1e-3:
            raise DataError(
                f"this is not {self.name} (OpenML {self.id}): the target has mean {value.mean():.4f} and "
                f"standard deviation {value.std():.4f} instead of {MEAN:.4f} and {STD:.4f}"
            )
        frame = pd.DataFrame({name: arranged[name] for name in ORDER} | {TARGET: value})
        return replace(loaded, frame=frame, target=TARGET, task=self.task, categorical=(), notes=(note,))


def _pick(columns: dict[str, pd.Series[float]], spellings: tuple[str, ...]) -> pd.Series[float]:
    for spelling in spellings:
        if spelling in columns:
            return columns[spelling]
    raise DataError(f"there is no column {' or '.join(spellings)}; the columns are {', '.join(columns)}")
