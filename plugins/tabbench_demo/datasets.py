"""The tables of scikit-learn as tabbench datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from tabbench import Dataset, LoadedData

SEX = {1.0: "1", 2.0: "2"}
"""The two codes of ``sex`` in the diabetes study; which is which, its authors do not say."""


class DemoDataset(Dataset):
    """One of the tables inside scikit-learn, by the name of its loader."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self, cache: Path, offline: bool) -> LoadedData:
        """Nothing is downloaded; ``cache`` and ``offline`` play no part."""
        from sklearn import datasets

        if self.name == "diabetes":  # in its own units, where age is in years and sex still has two values
            return self._load_diabetes(datasets.load_diabetes(as_frame=True, scaled=False))
        bunch = getattr(datasets, f"load_{self.name}")(as_frame=True)
        labels = pd.Series([str(name) for name in bunch.target_names], dtype=object)
        target = bunch.target.map(labels)
        return LoadedData(bunch.data.assign(target=target), "target", "classification", source=self._source())

    def _load_diabetes(self, bunch: Any) -> LoadedData:
        frame = bunch.data.assign(sex=bunch.data["sex"].map(SEX), target=bunch.target)
        return LoadedData(frame, "target", "regression", ("sex",), source=self._source())

    def _source(self) -> str:
        return f"scikit-learn, load_{self.name}"
