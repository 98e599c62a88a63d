"""The tables inside scikit-learn."""

from pathlib import Path

import pandas as pd
import pytest
from tabbench_demo import tabbench_datasets
from tabbench_demo.datasets import DemoDataset

from tabbench.data.cleaning import clean


def test_the_group_demo_has_four_tables() -> None:
    plugins = tabbench_datasets()
    assert [plugin.name for plugin in plugins] == ["breast_cancer", "diabetes", "digits", "wine"]
    assert all(plugin.groups == ("demo",) for plugin in plugins)


@pytest.mark.parametrize(
    "name, shape, classes",
    [("breast_cancer", (569, 31), 2), ("wine", (178, 14), 3), ("digits", (1797, 65), 10), ("diabetes", (442, 11), 0)],
)
def test_tables_have_their_known_size_without_a_network(
    name: str, shape: tuple[int, int], classes: int, tmp_path: Path
) -> None:
    loaded = DemoDataset(name).load(tmp_path, offline=True)
    cleaned = clean(loaded, as_published=True)
    assert cleaned.frame.shape == shape
    assert (cleaned.task == "regression") == (classes == 0)
    if classes:
        assert cleaned.frame["target"].nunique() == classes


def test_sex_is_a_category_in_diabetes_and_age_is_in_years(tmp_path: Path) -> None:
    loaded = DemoDataset("diabetes").load(tmp_path, offline=True)
    assert loaded.categorical == ("sex",)
    assert sorted(loaded.frame["sex"].unique()) == ["1", "2"]
    assert loaded.frame["age"].between(10, 100).all()


def test_classes_keep_their_names(tmp_path: Path) -> None:
    loaded = DemoDataset("breast_cancer").load(tmp_path, offline=True)
    counts: pd.Series[int] = loaded.frame["target"].value_counts()
    assert counts.to_dict() == {"benign": 357, "malignant": 212}
