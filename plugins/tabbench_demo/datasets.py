"""The tables of scikit-learn as tabbench datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from tabbench import Dataset, LoadedData

UCI = "UCI Machine Learning Repository"
TERMS: dict[str, dict[str, Any]] = {
    "breast_cancer": {
        "licence": "CC BY 4.0",
        "citation": f"W. Wolberg et al. (1993). Breast Cancer Wisconsin (Diagnostic). {UCI}",
        "homepage": "https://doi.org/10.24432/C5DW2B",
    },
    "diabetes": {
        "citation": "B. Efron, T. Hastie, I. Johnstone and R. Tibshirani (2004). Least Angle Regression. "
        "Annals of Statistics 32(2)",
        "homepage": "https://www4.stat.ncsu.edu/~boos/var.select/diabetes.html",
    },
    "digits": {
        "licence": "CC BY 4.0",
        "citation": f"E. Alpaydin and C. Kaynak (1998). Optical Recognition of Handwritten Digits. {UCI}",
        "homepage": "https://doi.org/10.24432/C50P49",
    },
    "wine": {
        "licence": "CC BY 4.0",
        "citation": f"S. Aeberhard and M. Forina (1991). Wine. {UCI}",
        "homepage": "https://doi.org/10.24432/C5PC7J",
    },
}
"""Licence, citation and homepage of each table, as its publisher states them."""
SEX = {1.0: "1", 2.0: "2"}
"""The two codes of ``sex`` in the diabetes study; its authors do not say which is which."""


class DemoDataset(Dataset):
    """One of the tables inside scikit-learn, by the name of its loader."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self, cache: Path, offline: bool) -> LoadedData:
        """Downloads nothing; ``cache`` and ``offline`` are ignored."""
        from sklearn import datasets

        if self.name == "diabetes":  # unscaled: age in years, and sex with its two values
            return self._load_diabetes(datasets.load_diabetes(as_frame=True, scaled=False))
        bunch = getattr(datasets, f"load_{self.name}")(as_frame=True)
        labels = pd.Series([str(name) for name in bunch.target_names], dtype=object)
        target = bunch.target.map(labels)
        frame = bunch.data.assign(target=target)
        return LoadedData(frame, "target", "classification", source=self._source(), **TERMS[self.name])

    def _load_diabetes(self, bunch: Any) -> LoadedData:
        frame = bunch.data.assign(sex=bunch.data["sex"].map(SEX), target=bunch.target)
        return LoadedData(frame, "target", "regression", ("sex",), source=self._source(), **TERMS[self.name])

    def _source(self) -> str:
        return f"scikit-learn, load_{self.name}"
